"""Functions of 16-bit numbers by tables, interpolated: as TFLite Micro computes them in integers.

``runtime/include/hil/kernels/generic/unary_s16.h`` and ``softmax_s16.h`` are the twins in C.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from hilc.ir import Numerics
from hilc.numerics.libm import expf
from hilc.numerics.requantize import FixedPoint, Int64Array

INT16_MIN, INT16_MAX = -(2**15), 2**15 - 1

_f32 = np.float32
FloatArray = npt.NDArray[Any]

# Sigmoid and tanh -------------------------------------------------------------------------------

#: Steps of the sigmoid's table in a unit of its argument, and the entries, which end at 255 steps.
SIGMOID_STEPS = 24
_ENTRIES = 256
#: Input positions in a step: sigmoid(x), and sigmoid(2 x) for tanh(x) = 2 sigmoid(2 x) - 1.
_LOGISTIC_BITS, _TANH_BITS = 9, 8


#: Entries that are one more than the nearest number; most lie where a line between two steps lies
#: furthest below the curve. The table is the reference's own, and these are part of it.
_ONE_MORE = (
    *(4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40),
    *(41, 43, 44, 45, 46, 49, 50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255),
)


def _sigmoid_table() -> npt.NDArray[np.int16]:
    nearest = np.floor(65536 / (1 + np.exp(-np.arange(_ENTRIES) / SIGMOID_STEPS)) + 0.5)
    nearest[list(_ONE_MORE)] += 1
    return (nearest - 32768).astype(np.int16)


#: sigmoid(i / 24) - 1/2 in Q0.16.
SIGMOID = _sigmoid_table()
#: :data:`SIGMOID` from -256 steps to 256; the outermost values are repeated.
SIGNED_SIGMOID = np.concatenate([-SIGMOID[-1:], -SIGMOID[:0:-1], SIGMOID, SIGMOID[-1:]])


def _positions(x: Int64Array, scale: FixedPoint) -> Int64Array:
    multiplier, right = scale
    half = (1 << right) >> 1
    positions: Int64Array = (x * multiplier + half) >> right
    return positions


def _sigmoid_between(positions: Int64Array, bits: int, end: int) -> Int64Array:
    step = np.minimum(positions >> bits, _ENTRIES - 2)
    table = SIGMOID.astype(np.int64) + 32768
    fraction = positions & ((1 << bits) - 1)
    between = (table[step] << bits) + fraction * (table[step + 1] - table[step])
    return np.where(positions >> bits >= _ENTRIES - 1, end, between)


def logistic(x: Int64Array, scale: FixedPoint) -> Int64Array:
    """Return the logistic function in Q0.15 of 16-bit values, ``scale`` being the factor to table
    positions.
    """
    positions = _positions(x, scale)
    y = _sigmoid_between(np.abs(positions), _LOGISTIC_BITS, 0x7FFF << 10)
    wide = np.where(positions < 0, (1 << 25) - y + 511, y + 512)
    return wide >> 10


def tanh(x: Int64Array, scale: FixedPoint) -> Int64Array:
    """Return the hyperbolic tangent in Q0.15, as :func:`logistic`."""
    positions = _positions(x, scale)
    above = _sigmoid_between(np.abs(positions), _TANH_BITS, 0xFFFF << 8) - (1 << 23)
    return np.where(positions < 0, 127 - above, above + 128) >> 8


# Any function -----------------------------------------------------------------------------------

_STEPS = 512
_STEP_BITS = 7


def table(
    function: Callable[[FloatArray], FloatArray],
    low: float | np.float32,
    high: float | np.float32,
    span: float | np.float32 = 2.0,
    real: type[np.floating[Any]] = _f32,
) -> npt.NDArray[np.int16]:
    """Return a function between two ends in 512 steps, and its value at the second.

    Values are such that ``span`` is all of 16 bits: of 2, they are in Q0.15.

    Each value is moved by half the error that interpolating makes in the middle of its step. In
    single precision throughout, as TFLite Micro does it, or in that of ``real``.
    """

    def rounded(values: FloatArray) -> FloatArray:
        away = np.floor(np.abs(values.astype(np.float64)) + 0.5)
        result: FloatArray = np.copysign(away, values).astype(real)
        return result

    step = (real(high) - real(low)) / real(_STEPS)
    places = real(low) + np.arange(_STEPS + 1).astype(real) * step
    scale = real(65536) / real(span)
    values = function(places) * scale
    starts = rounded(values[:-1])
    middles = rounded(function(places[:-1] + step / real(2)) * scale)
    between = rounded((values[1:] + starts) / real(2))
    moved = starts - rounded((between - middles) / real(2))
    last = rounded(function(np.array([high], real)) * scale)
    entries = np.concatenate([moved, last])
    if not np.isfinite(entries).all():
        raise ArithmeticError("values of the function are beyond all numbers")
    clipped: npt.NDArray[np.int16] = np.clip(entries, INT16_MIN, INT16_MAX).astype(np.int16)
    return clipped


def look_up(entries: npt.NDArray[np.int16], x: Int64Array) -> Int64Array:
    """Return the value of a :func:`table` for numbers over the whole range of 16 bits.

    Where it rises by more than 16 bits in a step, the reference's numbers wrap around.
    """
    wide = entries.astype(np.int64)
    index = (_STEPS // 2) + (x >> _STEP_BITS)
    fraction = x & ((1 << _STEP_BITS) - 1)
    rise = (wide[index + 1] - wide[index]).astype(np.int16).astype(np.int64)
    between: Int64Array = (rise * fraction + (1 << (_STEP_BITS - 1))) >> _STEP_BITS
    value: Int64Array = (wide[index] + between).astype(np.int16).astype(np.int64)
    return value


def _one_over_one_plus(x: FloatArray) -> FloatArray:
    one = x.dtype.type(1)
    inverse: FloatArray = one / (one + x)
    return inverse


#: exp(x) for x from -10 to 0: the same numbers in single and in double precision.
EXPONENTIALS = table(expf, -10.0, 0.0)
#: 1 / (1 + x) from 0 to 1. TFLite computes it in double precision, so that two entries, whose
#: corrections lie half-way between two numbers, are off by one from TFLite Micro's.
_IN_SINGLE, _IN_DOUBLE = (
    table(_one_over_one_plus, 0.0, 1.0, real=real) for real in (_f32, np.float64)
)


def reciprocals(numerics: Numerics) -> npt.NDArray[np.int16]:
    """Return 1 / (1 + x) from 0 to 1, as a definition has it."""
    return _IN_DOUBLE if numerics is Numerics.LITERT else _IN_SINGLE
