"""FULLY_CONNECTED: each row of the input times a matrix of weights ``[O, I]``, plus a bias."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hilc.ir import Array, Node, Numerics, Rounding, Tensor
from hilc.ops import linear
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import invalid, operand, quantization, require_symmetric
from hilc.ops.traits import Interval, Reference, WeightedSums, Weights

#: Tolerance of a bias's scale, in output steps.
_BIAS_TOLERANCE = 0.02


@dataclass(frozen=True, kw_only=True)
class FullyConnectedAttributes(ActivationAttributes):
    """Attributes of FULLY_CONNECTED."""

    #: Whether the output keeps the input's leading axes; otherwise its rank is 2.
    keep_num_dims: bool = False


def layer_operands(node: Node, ins: Sequence[Tensor | None]) -> linear.Operands:
    """Return the operands, checked."""
    return linear.operands(node, ins, rank=2, channel_axis=0)


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    ops = layer_operands(node, ins)
    channels, depth = ops.weights.shape
    if FullyConnectedAttributes.of(node).keep_num_dims:
        if not ops.x.shape or ops.x.shape[-1] != depth:
            invalid(
                node, f"has an input of shape {list(ops.x.shape)} for {depth} weights a channel"
            )
        return [((*ops.x.shape[:-1], channels), ops.x.dtype)]
    if ops.x.size % depth != 0:
        invalid(node, f"has an input of {ops.x.size} elements for {depth} weights a channel")
    return [((ops.x.size // depth, channels), ops.x.dtype)]


def requantization(node: Node, ops: linear.Operands, out: Tensor) -> linear.Requantization:
    """Return the requantization of the sums, by the rule for the factor of all weights.

    With one scale for all weights TFLM multiplies it with the input's in double, TFLite in float32.
    Where no sum that can occur tells one from the other, the factor is TFLite's, so that the code
    is the same by both. By other policies of rounding it is the double.
    """
    factors = linear.channel_factors(node, ops)
    exact = linear.requantization(node, factors, out, ops.sums)
    if len(factors) > 1 or node.rounding is not Rounding.DOUBLE:
        return exact
    with np.errstate(over="ignore"):
        single = linear.requantization(node, [float(np.float32(factors[0]))], out, ops.sums)
    if node.numerics is Numerics.LITERT:
        return single
    (low, high), zero_point = ops.x.element.bounds, quantization(node, ops.x)[1]
    largest = linear.accumulator_bound(
        ops.weight_data,
        ops.bias_data.astype(np.int64),
        max(high - zero_point, zero_point - low),
        channel_axis=0,
    )
    return single if linear.same_outputs(exact, single, largest) else exact


def _by_numerics(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]
) -> tuple[bytes, bytes] | None:
    ops = layer_operands(node, ins)
    if not ops.x.element.quantized:
        return None
    found = requantization(node, ops, outs[0])
    return found.multipliers.tobytes(), found.shifts.tobytes()


def _check_bias(node: Node, ins: Sequence[Tensor | None], out: Tensor) -> None:
    """Refuse a bias on another scale than the sums that it is added to.

    As the reference does, which of convolutions does not ask: where one scale is that of all
    weights, and by what the bias would be off in the output.
    """
    x, weights = operand(node, ins, 0), operand(node, ins, 1)
    bias = ins[2] if len(ins) > 2 else None
    if bias is None or bias.quant is None or weights.quant is None:
        return
    if not (weights.quant.per_tensor and bias.quant.per_tensor):
        return
    with np.errstate(over="ignore"):
        sums = float(np.float32(quantization(node, x)[0]) * np.float32(weights.quant.scale[0]))
    if abs(sums - bias.quant.scale[0]) / quantization(node, out)[0] > _BIAS_TOLERANCE:
        invalid(
            node,
            f"has the bias {bias.name!r} with scale {bias.quant.scale[0]}; that of the sums that "
            f"it is added to (input times weights) is {sums}",
        )


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    ops = layer_operands(node, ins)
    if ops.x.element.quantized:
        _check_bias(node, ins, outs[0])
        require_symmetric(node, outs[0])
        requantization(node, ops, outs[0])


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    ops = layer_operands(node, ins)
    x = values[0]
    assert x is not None
    rows = x.reshape(-1, ops.weights.shape[1])
    if not ops.x.element.quantized:
        result: Array = linear.float_products(node, rows, ops.weight_data, ops.bias_data)
    else:
        zero_point = quantization(node, ops.x)[1]
        sums = linear.integer_products(rows, zero_point, ops.weight_data, ops.bias_data)
        result = requantization(node, ops, outs[0]).apply(sums)
    return [result.reshape(outs[0].shape)]


def _bounds(
    reference: Reference,
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Interval | None],
) -> list[Interval]:
    """Return the bounds: a sum is least where each positive weight meets the least input."""
    ops = layer_operands(node, ins)
    zero_point = quantization(node, ops.x)[1]
    assert values[0] is not None
    low, high = (end.reshape(-1, ops.weights.shape[1]) for end in values[0])
    requant = requantization(node, ops, outs[0])
    return linear.product_bounds(
        low, high, zero_point, ops.weight_data, ops.bias_data, requant, outs[0]
    )


FULLY_CONNECTED = OpDef(
    _infer,
    _reference,
    _check,
    by_numerics=_by_numerics,
    attributes=FullyConnectedAttributes,
    roundings=frozenset(Rounding),
    vector_floats=lambda node, ins: True,
    bounds=_bounds,
    weights=Weights(channel_axis=0, sums=True, one_scale_differs=True),
    integer_form=WeightedSums(channel_axis=0),
)

OPERATORS: Mapping[str, OpDef] = {
    "FULLY_CONNECTED": FULLY_CONNECTED,
}
