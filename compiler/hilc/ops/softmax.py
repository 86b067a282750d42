"""SOFTMAX along the last axis.

int8 follows gemmlowp: the difference to the row's maximum in Q5.26, its exponential in Q0.31, the
sum with 12 integer bits, and a reciprocal by three Newton steps. A row has at most 256 differences,
so their exponentials are a table made here. int16 interpolates (:mod:`hilc.ops.interpolated`).

By the policy of ties to even integers take the exponentials in Q1.30, of real numbers, add them up
exactly, and round a share once, to an output of any scale. int16 has too many distances for a table
of all: the exponential is the product of two, of the distance's upper and lower byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hilc.ir import ADDED, Array, Attributes, Node, Rounding, Tensor
from hilc.numerics import floats
from hilc.numerics.fixed_point import exp_of_negative, leading_zeros, reciprocal
from hilc.numerics.interpolate import reciprocals
from hilc.numerics.libm import expf
from hilc.numerics.requantize import (
    SATURATED,
    FixedPoint,
    doubling_high_mul,
    quantize_multiplier,
    rounding_divide_by_pot,
)
from hilc.ops.interpolated import (
    MOST_CLASSES,
    check_fraction,
    softmax,
    softmax_scale,
)
from hilc.ops.opdef import TWICE_OR_EVEN, OpDef, Signature
from hilc.ops.operands import (
    invalid,
    multiplier,
    operand,
    quantization,
    require_counts,
    require_dtype,
    require_tflm,
    unsupported,
)
from hilc.ops.traits import IntegerOperands

Int64Array = npt.NDArray[np.int64]

#: Integer bits of the scaled difference and of the sum of exponentials.
_DIFFERENCE_BITS = 5
SUM_BITS = 12
#: Largest sum of exponentials of 1 that 12 integer bits hold.
MAX_DEPTH = (1 << SUM_BITS) - 1


@dataclass(frozen=True, kw_only=True)
class SoftmaxAttributes(Attributes):
    """Attributes of SOFTMAX."""

    #: The factor of the inputs, above 0.
    beta: float
    #: Type of the output; empty for that of the input. Only int8 inputs accept int16.
    dtype: str = field(default="", metadata=ADDED)


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=1)
    x = operand(node, ins, 0)
    require_dtype(node, x)
    beta = SoftmaxAttributes.of(node).beta
    if not (np.isfinite(beta) and beta > 0):
        invalid(node, f"has beta {beta}; it must be a positive number")
    if not x.shape:
        invalid(
            node,
            f"normalizes the scalar {x.name!r} of shape []; SOFTMAX works along the last axis of a "
            "tensor with at least one",
            "give the operator an input of shape [1, classes]: reshape it in the model",
        )
    if x.element.quantized:
        quantization(node, x)
        most = MAX_DEPTH if x.element.tabled else MOST_CLASSES
        if x.shape[-1] > most:
            unsupported(
                node,
                f"normalizes {x.shape[-1]} classes, more than the {most} that {x.dtype} defines",
            )
        if x.element.tabled and node.rounding is Rounding.DOUBLE:
            exponentials(node, x, beta)
        elif node.rounding is Rounding.DOUBLE:
            softmax_scale(node, x, beta)
    return [(x.shape, _output_type(node, x))]


def _output_type(node: Node, x: Tensor) -> str:
    """Return the type of the output: of int8 inputs TFLite Micro gives int16 as well."""
    dtype = SoftmaxAttributes.of(node).dtype
    if not dtype or dtype == x.dtype:
        return x.dtype
    if (x.dtype, dtype) != ("int8", "int16") or node.rounding is not Rounding.DOUBLE:
        unsupported(
            node,
            f"computes {dtype} of {x.dtype}",
            "SOFTMAX gives the type of its input, or int16 of int8: convert the model so",
        )
    require_tflm(node, f"computes {dtype} of {x.dtype}")
    return dtype


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    if not outs[0].element.quantized:
        return
    scale, zero_point = quantization(node, outs[0])
    if node.rounding is Rounding.NEAREST_EVEN:
        share_scale(node, outs[0])
        return
    if not operand(node, ins, 0).element.tabled:
        check_fraction(node, outs[0])
        return
    lowest, steps = outs[0].element.bounds[0], len(outs[0].element.values)
    if zero_point != lowest or abs(scale - 1 / steps) > 0.001 / steps:
        unsupported(
            node,
            f"has output scale {scale} and zero point {zero_point}",
            f"{outs[0].dtype} probabilities have scale 1/{steps} and zero point {lowest}",
        )


#: Bits of an exponential of 1, and of the divisor.
_ONE_BITS, _DIVISOR_BITS = 30, 63


def share_scale(node: Node, out: Tensor) -> tuple[int, int]:
    """Return 1 / output scale in Q0.31, and the left shift of the divisor."""
    scale = quantization(node, out)[0]
    factor, shift = multiplier(node, 1 / scale)
    left = 31 - shift
    if left < 0 or (out.shape[-1] << _ONE_BITS + left).bit_length() > _DIVISOR_BITS:
        unsupported(
            node,
            f"has output scale {scale} for {out.shape[-1]} classes",
            "give it a scale near 1/256",
        )
    return factor, left


def even_exponentials(node: Node, x: Tensor, beta: float, steps: int = 1) -> npt.NDArray[np.int32]:
    """Return exp(-scale * beta * steps * d) in Q1.30 for each d below 256."""
    distance = np.arange(256) * (steps * quantization(node, x)[0] * float(np.float32(beta)))
    powers: npt.NDArray[np.int32] = np.rint(np.exp(-distance) * 2.0**_ONE_BITS).astype(np.int32)
    return powers


def _even_powers(node: Node, x: Tensor, distance: Int64Array) -> Int64Array:
    """Return the exponentials of minus the distances to the maximum."""
    beta = SoftmaxAttributes.of(node).beta
    fine = even_exponentials(node, x, beta).astype(np.int64)
    if x.element.tabled:
        return fine[distance]
    coarse = even_exponentials(node, x, beta, 256).astype(np.int64)
    product = coarse[distance >> 8] * fine[distance & 255]
    powers: Int64Array = product + (1 << _ONE_BITS - 1) >> _ONE_BITS
    return powers


def _even_shares(node: Node, x: Tensor, out: Tensor, value: Array) -> Array:
    wide = value.astype(np.int64)
    shares = _even_powers(node, x, wide.max(-1, keepdims=True) - wide)
    factor, left = share_scale(node, out)
    divisor = shares.sum(-1, keepdims=True) << left
    quotient, remainder = np.divmod(shares * factor, divisor)
    up = (2 * remainder > divisor) | ((2 * remainder == divisor) & (quotient % 2 != 0))
    steps = np.minimum(quotient + up, SATURATED) + quantization(node, out)[1]
    shown: Array = np.clip(steps, *out.element.bounds).astype(out.dtype)
    return shown


def difference_scale(node: Node, x: Tensor, beta: float) -> tuple[FixedPoint, int]:
    """Return the factor from a difference of int8 inputs to Q5.26, and the largest relevant
    distance.
    """
    real = float(np.float32(beta)) * quantization(node, x)[0] * (1 << (31 - _DIFFERENCE_BITS))
    if real <= 1:
        unsupported(
            node,
            f"scales its input {x.name!r} by {real / (1 << 26):g}: no two values differ",
            "check the quantization of the model",
        )
    scale = quantize_multiplier(min(real, 2.0**31 - 1))
    largest = ((1 << _DIFFERENCE_BITS) - 1) * 2.0 ** (31 - _DIFFERENCE_BITS) / 2.0**scale.shift
    return scale, int(largest)


def exponentials(node: Node, x: Tensor, beta: float) -> npt.NDArray[np.int32]:
    """Return exp(-scale * beta * d) in Q0.31 for each distance d to the maximum, 0 where it
    vanishes.
    """
    (multiplier, shift), largest = difference_scale(node, x, beta)
    distance = np.arange(256, dtype=np.int64)
    counted = distance <= largest
    raised = np.where(counted, -distance, 0) << shift
    exponentials = exp_of_negative(doubling_high_mul(raised, multiplier), _DIFFERENCE_BITS)
    return np.where(counted, exponentials, 0).astype(np.int32)


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    source, x = operand(node, ins, 0), values[0]
    assert x is not None
    if not source.element.quantized and node.rounding is Rounding.SINGLE:
        return [_vector_shares(x, np.array(SoftmaxAttributes.of(node).beta, np.float32))]
    if not source.element.quantized:
        with np.errstate(under="ignore", over="ignore"):
            distance = (x - x.max(-1, keepdims=True)) * np.float32(SoftmaxAttributes.of(node).beta)
            powers = expf(distance)
        return [powers / powers.sum(-1, keepdims=True, dtype=np.float32)]
    if node.rounding is Rounding.NEAREST_EVEN:
        return [_even_shares(node, source, outs[0], x)]
    if not source.element.tabled:
        beta = SoftmaxAttributes.of(node).beta
        return [softmax(x, softmax_scale(node, source, beta), node.numerics)]
    widened = x.astype(np.int64)
    by_distance = exponentials(node, source, SoftmaxAttributes.of(node).beta)
    powers = by_distance[widened.max(-1, keepdims=True) - widened].astype(np.int64)
    total = rounding_divide_by_pot(powers, SUM_BITS).sum(-1, keepdims=True)
    zeros = leading_zeros(total)
    scale = reciprocal((total << zeros) - (1 << 31))
    # Beyond 31 nothing is left; the reference stops the process there.
    shift = 31 - 8 * outs[0].element.itemsize + SUM_BITS - zeros
    shares = rounding_divide_by_pot(doubling_high_mul(powers, scale), np.minimum(shift, 31))
    shares = np.where(shift > 31, 0, shares)
    low, high = outs[0].element.bounds
    return [np.minimum(shares + low, high).astype(outs[0].dtype)]


#: Exponentials that vectors add up beside each other.
_LANES = 4


def _vector_shares(x: Array, beta: Array) -> Array:
    """Return shares of floats by the steps of vectors: every fourth exponential of a row is added
    up, from the first, second, third and fourth one on, then these sums in order.
    """
    single = Rounding.SINGLE
    distance = floats.add(x, -x.max(-1, keepdims=True), single)
    powers = floats.exp_of_negative(floats.multiply(distance, beta, single))
    rest = -x.shape[-1] % _LANES
    lanes = np.pad(powers, [(0, 0)] * (x.ndim - 1) + [(0, rest)])
    lanes = np.moveaxis(lanes.reshape(*x.shape[:-1], -1, _LANES), -2, 0)
    of_lanes = np.moveaxis(floats.sum_in_order(lanes, single), -1, 0)
    total = floats.sum_in_order(of_lanes, Rounding.DOUBLE)
    return floats.divide(powers, total[..., np.newaxis], single)


def _by_numerics(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> bytes | None:
    """Return the table of reciprocals that 16 bits take."""
    element = operand(node, ins, 0).element
    if not element.quantized or element.tabled or node.rounding is Rounding.NEAREST_EVEN:
        return None
    return reciprocals(node.numerics).tobytes()


SOFTMAX = OpDef(
    _infer,
    _reference,
    _check,
    attributes=SoftmaxAttributes,
    roundings=TWICE_OR_EVEN,
    vector_floats=lambda node, ins: True,
    integer_form=IntegerOperands(),
    by_numerics=_by_numerics,
)

OPERATORS: Mapping[str, OpDef] = {
    "SOFTMAX": SOFTMAX,
}
