"""LOGISTIC, TANH and SOFTMAX of 16-bit numbers, by the tables of :mod:`hilc.numerics.interpolate`.

As TFLite Micro computes them: outputs are Q0.15, zero points are 0.
"""

from __future__ import annotations

from math import log

import numpy as np

from hilc.ir import Array, Node, Numerics, Tensor
from hilc.numerics.interpolate import (
    EXPONENTIALS,
    SIGMOID_STEPS,
    look_up,
    reciprocals,
)
from hilc.numerics.requantize import FixedPoint, requantize
from hilc.ops.operands import multiplier, quantization, require_symmetric, undefined, unsupported

#: Positions of the logistic function's table in a unit of its argument.
_POSITIONS = SIGMOID_STEPS * 512
_MOST_MULTIPLIER = (1 << 15) - 1
_MOST_RIGHT = 31
_NEARLY = 1e-3
#: Shifts to the left, at powers of two, that a multiplier of no shift serves.
_EXACT_SHIFTS = {"LOGISTIC": (0,), "TANH": (0, 1)}
#: The distance to a row's maximum that a table of exponentials ends at, and its steps.
_EXPONENT_RANGE, _EXPONENT_STEPS = 10.0, 65535.0
#: Classes whose exponentials add up to 31 bits.
MOST_CLASSES = 1 << 16


def check_fraction(node: Node, out: Tensor) -> None:
    """Refuse an output that is not Q0.15."""
    require_symmetric(node, out)
    scale = quantization(node, out)[0]
    wanted = 2.0 ** (1 - out.element.dl_bits)
    if abs(scale - wanted) > 0.001 * wanted:
        unsupported(
            node,
            f"has output scale {scale}, not 2^{1 - out.element.dl_bits}",
            f"{out.dtype} values from -1 to 1 have that scale and zero point 0",
        )


def sigmoid_scale(node: Node, x: Tensor) -> FixedPoint:
    """Return the factor from an input to positions in the table: multiplier and right shift.

    The multiplier is cut off, not rounded.
    """
    require_symmetric(node, x)
    scale = quantization(node, x)[0]
    exponent = np.float32(log(scale)) * np.float32(1 / log(2))
    shift = round(float(exponent)) + 12
    # The reference takes what is nearly a power of two for one.
    if abs(float(exponent) + 12 - shift) < _NEARLY and shift in _EXACT_SHIFTS[node.op]:
        return FixedPoint(3 << shift, 0)
    # The same for tanh(x) = 2 sigmoid(2 x) - 1, whose steps are half as long.
    factor, right = scale * _POSITIONS, 0
    if factor > _MOST_MULTIPLIER:
        undefined(node, f"has the input scale {scale}, above {_MOST_MULTIPLIER / _POSITIONS:.3g}")
    while factor <= _MOST_MULTIPLIER / 2 and right < _MOST_RIGHT:
        factor *= 2
        right += 1
    return FixedPoint(int(factor), right)


def softmax_scale(node: Node, x: Tensor, beta: float) -> FixedPoint:
    """Return the factor from a distance to a row's maximum to positions in the table of
    exponentials.
    """
    require_symmetric(node, x)
    real = quantization(node, x)[0] * float(np.float32(beta))
    scale = multiplier(node, real / (_EXPONENT_RANGE / _EXPONENT_STEPS))
    # Distances have 16 bits.
    if scale.shift > 14:
        undefined(node, f"scales its input {x.name!r} by {real:g}")
    return scale


def softmax(x: Array, scale: FixedPoint, numerics: Numerics) -> Array:
    """Shares of each row in Q0.15."""
    wide = x.astype(np.int64)
    scaled = requantize(wide - wide.max(-1, keepdims=True), *scale)
    powers = look_up(EXPONENTIALS, np.maximum(scaled + 32767, -32768))
    total = powers.sum(-1, keepdims=True)
    # Its leading one is bit 31 - zeros; what follows it, in 16 bits, is what the table takes.
    zeros = 32 - np.frexp(total.astype(np.float64))[1].astype(np.int64)
    above = (((total << (zeros - 1)) + (1 << 13)) >> 14) - 3 * (1 << 15)
    reciprocal = look_up(reciprocals(numerics), np.minimum(above, 32767))
    right = 31 - zeros
    shares = (powers * reciprocal + (np.int64(1) << (right - 1))) >> right
    result: Array = np.clip(shares, 0, 32767).astype(x.dtype)
    return result
