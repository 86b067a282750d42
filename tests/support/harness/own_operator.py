"""An operator from outside the package, in one file: NEGATE, ``y = activation(-x)``, for int8.

Custom operators ``Negate`` of TFLite files are read as it; their options are one byte, which says
whether a RELU is fused.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hilc.frontends.tflite.schema import Operator, register_custom
from hilc.ir import Array, Node, Tensor
from hilc.lowering import Layer, lowers
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilGenericLutS8
from hilc.ops import register
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import (
    operand,
    output_clamp,
    quantization,
    require_counts,
    require_dtype,
    require_same_quantization,
)
from hilc.ops.traits import SameRows, channelwise, mapped

NAME = "NEGATE"


def infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=1)
    x = operand(node, ins, 0)
    require_dtype(node, x, ("int8",))
    return [(x.shape, x.dtype)]


def check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    # ``reference`` computes with one zero point and without scales: it is wrong for any others.
    x = operand(node, ins, 0)
    for tensor in (x, outs[0]):
        quantization(node, tensor)
    require_same_quantization(node, x, outs[0])


def reference(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    (x,) = values
    assert x is not None
    negated = 2 * quantization(node, outs[0])[1] - x.astype(np.int64)
    return [np.clip(negated, *output_clamp(node, outs[0])).astype(np.int8)]


@lowers(NAME, dtypes={"int8"})
def table(layer: Layer) -> KernelCall:
    every = np.arange(256, dtype=np.uint8).view(np.int8)
    (values,) = reference(layer.node, layer.ins, layer.outs, [every])
    return KernelCall(HilGenericLutS8(size=layer.out.size, table=values))


register(
    NAME,
    OpDef(
        infer,
        reference,
        check,
        attributes=ActivationAttributes,
        bounds=mapped,
        rows=SameRows(),
        channel_groups=channelwise,
    ),
)
register_custom(
    "Negate",
    Operator(
        (1, 1),
        op=NAME,
        read_custom=lambda options: ActivationAttributes(
            activation="RELU" if options == b"\x01" else "NONE"
        ),
    ),
)
