"""LOG_SOFTMAX and L2_NORMALIZATION along the last axis.

int8 LOG_SOFTMAX takes the sum of exponentials as SOFTMAX does, and its logarithm in fixed point.
int8 L2_NORMALIZATION multiplies the offset values with the inverse square root of the sum of their
squares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hilc.ir import Array, Node, Tensor
from hilc.numerics.fixed_point import inverse_sqrt, log_of_sum
from hilc.numerics.libm import expf
from hilc.numerics.requantize import (
    INT32_MIN,
    FixedPoint,
    doubling_high_mul,
    quantize_multiplier,
    requantize,
    rounding_divide_by_pot,
)
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import (
    invalid,
    operand,
    quantization,
    require_counts,
    require_dtype,
    unsupported,
)
from hilc.ops.softmax import MAX_DEPTH, SUM_BITS, difference_scale, exponentials
from hilc.ops.traits import SameRows

#: The types that these operators take.
DTYPES = ("int8", "float32")
#: Scale of the int8 outputs.
_SCALES = {"LOG_SOFTMAX": 16 / 256, "L2_NORMALIZATION": 1 / 128}
#: Values of a row whose squares add up to 31 bits.
_MAX_SQUARES = (1 << 31) // (1 << 16) - 1
#: The least norm that floats are divided by.
LEAST_NORM = float(np.float32(1e-6))


class LogScales(NamedTuple):
    """Fixed-point parameters of an int8 LOG_SOFTMAX, from the scale of its input."""

    #: From a difference of inputs to Q5.26.
    difference: FixedPoint
    #: From Q5.26 back to a difference.
    inverse: FixedPoint
    #: The largest distance to the maximum whose exponential counts.
    largest: int


def log_scales(node: Node, x: Tensor) -> LogScales:
    """Return the factors of LOG_SOFTMAX."""
    scale, largest = difference_scale(node, x, 1.0)
    inverse = quantize_multiplier(2.0 ** (31 - scale.shift) / scale.multiplier)
    return LogScales(scale, inverse, largest)


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=1)
    x = operand(node, ins, 0)
    require_dtype(node, x, DTYPES)
    if not x.shape:
        invalid(
            node,
            f"normalizes the scalar {x.name!r} of shape []; {node.op} works along the last axis of "
            "a tensor with at least one",
            "give the operator an input of shape [1, classes]: reshape it in the model",
        )
    if x.element.quantized:
        quantization(node, x)
        most = MAX_DEPTH if node.op == "LOG_SOFTMAX" else _MAX_SQUARES
        if x.shape[-1] > most:
            unsupported(
                node, f"normalizes {x.shape[-1]} values, more than the {most} that int8 defines"
            )
        if node.op == "LOG_SOFTMAX":
            log_scales(node, x)
    return [(x.shape, x.dtype)]


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    if not outs[0].element.quantized:
        return
    scale, zero_point = quantization(node, outs[0])
    # A logarithm of a probability is 0 at most.
    wanted = _SCALES[node.op], outs[0].element.bounds[1] if node.op == "LOG_SOFTMAX" else 0
    if (scale, zero_point) != wanted:
        unsupported(
            node,
            f"has output scale {scale} and zero point {zero_point}",
            f"{outs[0].dtype} outputs have scale {wanted[0]:g} and zero point {wanted[1]}",
        )


def _log_softmax(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    source, x = operand(node, ins, 0), values[0]
    assert x is not None
    if not source.element.quantized:
        with np.errstate(all="ignore"):
            distance = x - x.max(-1, keepdims=True)
            # One power after another, as the reference adds.
            total = np.cumsum(expf(distance), axis=-1, dtype=np.float32)[..., -1:]
            return [distance - np.log(total.astype(np.float64)).astype(np.float32)]
    scales = log_scales(node, source)
    wide = x.astype(np.int64)
    difference = wide - wide.max(-1, keepdims=True)
    powers = exponentials(node, source, 1.0)[-difference].astype(np.int64)
    total = rounding_divide_by_pot(powers, SUM_BITS).sum(-1, keepdims=True)
    log = log_of_sum(total)
    # Differences as far down as Q5.26 reaches below the logarithm.
    reach = requantize(log + INT32_MIN, *scales.inverse)
    least = np.maximum(-scales.largest - 1, reach)
    counted = difference > least
    raised = np.where(counted, difference, 0) << scales.difference.shift
    scaled = doubling_high_mul(raised, scales.difference.multiplier)
    zero_point, (low, high) = quantization(node, outs[0])[1], outs[0].element.bounds
    y = np.clip(rounding_divide_by_pot(scaled - log, 22) + zero_point, low, high)
    return [np.where(counted, y, low).astype(outs[0].dtype)]


def _l2_normalization(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    source, x = operand(node, ins, 0), values[0]
    assert x is not None
    if not source.element.quantized:
        # One value after another, as the reference adds.
        squares = np.cumsum(x * x, axis=-1, dtype=np.float32)[..., -1:]
        return [x / np.maximum(np.sqrt(squares), np.float32(LEAST_NORM))]
    steps = x.astype(np.int64) - quantization(node, source)[1]
    multiplier, shift = inverse_sqrt((steps * steps).sum(-1, keepdims=True))
    y = requantize(steps, multiplier, shift + 7)
    return [np.clip(y, *outs[0].element.bounds).astype(outs[0].dtype)]


LOG_SOFTMAX = OpDef(
    _infer,
    _log_softmax,
    _check,
    rows=SameRows(),
    # The logarithm of a sum moves by the part by which the sum does. Of a class that is nearly
    # certain nothing else is left.
    inner_terms=np.ones_like,
)
L2_NORMALIZATION = OpDef(_infer, _l2_normalization, _check, rows=SameRows())

OPERATORS: Mapping[str, OpDef] = {
    "L2_NORMALIZATION": L2_NORMALIZATION,
    "LOG_SOFTMAX": LOG_SOFTMAX,
}
