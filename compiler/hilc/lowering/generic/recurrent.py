"""GRU and RNN."""

from __future__ import annotations

from typing import get_args

from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilGenericGruF32, HilGenericRnnF32, HilRecurrent
from hilc.lowering.registry import Layer, lowers
from hilc.ops.recurrent import (
    BIAS,
    GRU_GATES,
    HIDDEN,
    RNN_GATES,
    WEIGHTS,
    Activation,
    GruAttributes,
    RnnAttributes,
    X,
    sizes,
)

_ACTIVATIONS = get_args(Activation)


@lowers("GRU", dtypes={"float32"})
def gru(layer: Layer) -> KernelCall:
    """Return the kernel call of a float32 GRU over all steps."""
    linear = GruAttributes.of(layer.node).linear_before_reset
    shape, macs = _shape(layer, GRU_GATES)
    return KernelCall(
        HilGenericGruF32(recurrent=shape, linear_before_reset=int(linear)), (X, HIDDEN), macs
    )


@lowers("RNN", dtypes={"float32"})
def rnn(layer: Layer) -> KernelCall:
    """Return the kernel call of a float32 RNN over all steps."""
    activation = _ACTIVATIONS.index(RnnAttributes.of(layer.node).activation)
    shape, macs = _shape(layer, RNN_GATES)
    return KernelCall(HilGenericRnnF32(recurrent=shape, activation=activation), (X, HIDDEN), macs)


def _shape(layer: Layer, gates: int) -> tuple[HilRecurrent, int]:
    """Return the sizes and constants of a layer, and its multiply-accumulates."""
    n = sizes(layer.node, layer.ins)
    weights, bias = layer.operand(WEIGHTS).data, layer.operand(BIAS).data
    assert weights is not None
    assert bias is not None
    shape = HilRecurrent(
        steps=n.steps,
        batch=n.batch,
        units=n.units,
        weights=weights.reshape(-1),
        bias=bias.reshape(-1),
    )
    return shape, n.steps * n.batch * gates * n.units * n.units
