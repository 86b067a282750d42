"""ADD, SUB and MUL of two tensors, either of which may be broadcast to the other's shape.

Of integers ADD and SUB bring both operands to twice the larger input scale with extra bits (20 for
int8, 15 for int16), add, and requantize the sum: three roundings. MUL requantizes the product of
the offset values once. By the policy of ties to even they round once as well: the sum of two
products with real factors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hilc.ir import Array, Node, Numerics, Rounding, Tensor
from hilc.numerics import floats
from hilc.numerics.requantize import (
    SUMS,
    Factors,
    FixedPoint,
    common_factors,
    requantize,
    round_even,
)
from hilc.ops import permuting
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.broadcast import broadcast_channel_groups, broadcast_shape, operands_of_one_type
from hilc.ops.opdef import TWICE_OR_EVEN, OpDef, Signature
from hilc.ops.operands import (
    ARITHMETIC,
    multiplier,
    operand,
    output_clamp,
    plain_clamp,
    quantization,
    require_counts,
    require_symmetric,
    sum_multiplier,
    undefined,
    unsupported,
)
from hilc.ops.traits import BroadcastRows, IntegerOperands, ascending, corners

#: The types of these operators; int32 and int64 have no quantization, and wrap around.
DTYPES = (*ARITHMETIC, "int32", "int64")


class _SumScales(NamedTuple):
    a: FixedPoint
    b: FixedPoint
    out: FixedPoint


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=2)
    a, b = operands_of_one_type(node, ins, DTYPES)
    if a.element.quantized:
        require_symmetric(node, a)
        require_symmetric(node, b)
    elif a.element.dl_kind == "kDLInt":
        _require_no_activation(node, a)
    return [(broadcast_shape(node, (a, b)), a.dtype)]


def _require_no_activation(node: Node, x: Tensor) -> None:
    """Refuse the fused activations of integers that no reference computes, or not all do."""
    activation = ActivationAttributes.of(node).activation
    if activation != "NONE" and (node.op == "ADD" or x.dtype != "int32"):
        unsupported(
            node,
            f"has the fused activation {activation} on {x.dtype}",
            "TensorFlow Lite Micro leaves it out: put the activation behind it as an operator of "
            "its own",
        )


def _operand_scale(node: Node, real: float) -> FixedPoint:
    """Return the factor of an operand of a sum; its shift is 0 for one half and nothing else."""
    scale = multiplier(node, real)
    return scale if scale.multiplier else scale._replace(shift=-1)


def sum_scales(node: Node, a: Tensor, b: Tensor, out: Tensor) -> _SumScales:
    """Return the fixed-point scales of both operands of an ADD or SUB, and of their sum;
    :class:`~hilc.errors.ModelError` for scales out of range.
    """
    a_scale, b_scale = quantization(node, a)[0], quantization(node, b)[0]
    out_scale = quantization(node, out)[0]
    common = 2 * max(a_scale, b_scale)
    scales = _SumScales(
        _operand_scale(node, a_scale / common),
        _operand_scale(node, b_scale / common),
        multiplier(node, common / ((1 << out.element.headroom) * out_scale)),
    )
    if scales.out.shift > 0:
        undefined(
            node,
            f"has output scale {out_scale}, more than 2^{out.element.headroom - 1} times finer "
            "than its inputs'",
        )
    return scales


def sum_factors(node: Node, a: Tensor, b: Tensor, out: Tensor) -> Factors:
    """Return the factors of a sum or difference that is rounded once, ties to even."""
    a_scale, b_scale, out_scale = (quantization(node, t)[0] for t in (a, b, out))
    sign = -1 if node.op == "SUB" else 1
    found = common_factors((a_scale / out_scale, sign * b_scale / out_scale))
    if found.right < 1:
        undefined(
            node, f"has output scale {out_scale}, more than 2^29 times finer than its inputs'"
        )
    return found


def product_sums(node: Node, a: Tensor) -> str:
    """Return the type that holds products: those of 16 bits with zero points leave 32 bits."""
    return "int64" if node.rounding is Rounding.NEAREST_EVEN and a.element.symmetric else "int32"


def product_scale(node: Node, a: Tensor, b: Tensor, out: Tensor) -> FixedPoint:
    # From left to right, TFLite in single precision: the multiplier depends on it.
    """Return the fixed-point factor from the product of two operands to the output;
    :class:`~hilc.errors.ModelError` for scales out of range.
    """
    in_double = node.rounding is Rounding.NEAREST_EVEN or node.numerics is not Numerics.LITERT
    real = np.float64 if in_double else np.float32
    a_scale, b_scale, out_scale = (real(quantization(node, t)[0]) for t in (a, b, out))
    with np.errstate(all="ignore"):
        kept = product_sums(node, a)
        scale = sum_multiplier(node, float(a_scale * b_scale / out_scale), kept)
    # Of int8 products have 16 bits; what is raised by more than 14 leaves 31 bits.
    most = 30 - 2 * a.element.distance_bits if kept == "int32" else SUMS[kept].most_shift
    if scale.shift > most:
        undefined(
            node,
            f"has output scale {out_scale}, more than 2^{most} times finer than its product's",
        )
    return scale


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    a, b, out = operand(node, ins, 0), operand(node, ins, 1), outs[0]
    if out.element.quantized:
        require_symmetric(node, out)
        output_clamp(node, out)
        if node.op == "MUL":
            product_scale(node, a, b, out)
        elif node.rounding is Rounding.NEAREST_EVEN:
            sum_factors(node, a, b, out)
        else:
            sum_scales(node, a, b, out)


def reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    """Return the output of an ADD, SUB or MUL, as an array of the output's shape and type."""
    a, b, out = operand(node, ins, 0), operand(node, ins, 1), outs[0]
    x, y = values
    assert x is not None
    assert y is not None
    if not out.element.quantized:
        return [floats.clamped(_plain(node, x, y), *plain_clamp(node, out))]
    offset_x = x.astype(np.int64) - quantization(node, a)[1]
    offset_y = y.astype(np.int64) - quantization(node, b)[1]
    if node.op == "MUL":
        scale = product_scale(node, a, b, out)
        result = requantize(offset_x * offset_y, *scale, node.rounding, product_sums(node, a))
    elif node.rounding is Rounding.NEAREST_EVEN:
        (first, second), right = sum_factors(node, a, b, out)
        result = round_even(first * offset_x + second * offset_y, right)
    else:
        scales, raised = sum_scales(node, a, b, out), out.element.headroom
        scaled_x = requantize(offset_x << raised, *scales.a)
        scaled_y = requantize(offset_y << raised, *scales.b)
        total = scaled_x - scaled_y if node.op == "SUB" else scaled_x + scaled_y
        result = requantize(total, *scales.out)
    low, high = output_clamp(node, out)
    return [np.clip(result + quantization(node, out)[1], low, high).astype(out.dtype)]


def _plain(node: Node, x: Array, y: Array) -> Array:
    """Return the sum, difference or product of numbers that stand for themselves."""
    if node.op == "MUL":
        return floats.multiply(x, y, node.rounding)
    if node.rounding is Rounding.SINGLE:
        return floats.add(x, -y if node.op == "SUB" else y, node.rounding)
    return x - y if node.op == "SUB" else x + y


def _by_numerics(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]
) -> FixedPoint | None:
    if node.op != "MUL" or not outs[0].element.quantized:
        return None
    return product_scale(node, operand(node, ins, 0), operand(node, ins, 1), outs[0])


SUB = MUL = OpDef(
    _infer,
    reference,
    _check,
    attributes=ActivationAttributes,
    roundings=TWICE_OR_EVEN,
    vector_floats=lambda node, ins: True,
    by_numerics=_by_numerics,
    bounds=corners,
    rows=BroadcastRows(),
    integer_form=IntegerOperands(),
    permuted=permuting.elements,
    channel_groups=broadcast_channel_groups,
)
ADD = replace(SUB, bounds=ascending)

OPERATORS: Mapping[str, OpDef] = {
    "ADD": ADD,
    "SUB": SUB,
    "MUL": MUL,
}

#: Element types that the kernels of TensorFlow Lite Micro do not take.
TFLM_LACKS = {
    "ADD": {"int64"},
    "SUB": {"int64"},
    "MUL": {"int64"},
}
