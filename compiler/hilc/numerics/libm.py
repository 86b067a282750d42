"""``expf`` and ``tanhf`` as the references compute them, bit for bit, on any host.

TFLite fills the tables of int8 LOGISTIC and TANH by the single precision functions of the host's C
library, which do not round correctly. The references' is glibc 2.28 to 2.40 on x86-64; its
algorithms are stated here in IEEE arithmetic, one rounding an operation, so that a table is the
same wherever it is made. From 2.41 on ``tanhf`` is rounded correctly, which moves one of the 256
entries by 1 for about one quantization in 12,000: :func:`host_function` lets a reference notice.

glibc computes ``expf`` with fused multiply-adds where the processor has them. Two arguments of 631
million then have another last bit, and no table another entry.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from math import isqrt

import numpy as np
import numpy.typing as npt

Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]
Function = Callable[[Float32Array], Float32Array]

_f32 = np.float32

# expf -------------------------------------------------------------------------------------------

#: exp(x) = 2^(n/32) * 2^(r/32), where n is the integer nearest to x * 32/ln(2) and |r| <= 1/2.
_STEPS = 32
_STEPS_PER_UNIT = float.fromhex("0x1.71547652b82fep+5")
#: 2^(r/32) - 1 as a cubic polynomial without a constant term, the highest power first.
_CUBIC = tuple(
    map(float.fromhex, ("0x1.c6af84b912394p-20", "0x1.ebfce50fac4f3p-13", "0x1.62e42ff0c52d6p-6"))
)
#: A double beyond which neighbours are integers: adding it rounds to the nearest one, ties to even.
_INTEGERS = 1.5 * 2.0**52
_EXP_INFINITE_ABOVE = _f32(float.fromhex("0x1.62e42ep+6"))
_EXP_ZERO_BELOW = _f32(float.fromhex("-0x1.9fe368p+6"))


def _correctly_rounded_powers() -> Float64Array:
    """Return 2^(i/32) for i from 0 to 31, computed with integers of 200 fractional bits."""
    powers = []
    for i in range(_STEPS):
        power = 1 << (200 + i)
        for _ in range(5):
            power = isqrt(power << 200)
        powers.append(power / (1 << 200))
    return np.array(powers)


_POWERS = _correctly_rounded_powers()


def expf(x: Float32Array) -> Float32Array:
    """Return exp(x) in single precision."""
    with np.errstate(all="ignore"):
        steps = x.astype(np.float64) * _STEPS_PER_UNIT
        nearest = (steps + _INTEGERS) - _INTEGERS
        r = steps - nearest
        n = np.where(np.isfinite(nearest), nearest, 0.0).astype(np.int64)
        n = np.clip(n, -1000 * _STEPS, 1000 * _STEPS)
        power = np.ldexp(_POWERS[n % _STEPS], (n // _STEPS).astype(np.int32))
        cubic, square, linear = _CUBIC
        factor = (cubic * r + square) * (r * r) + (linear * r + 1.0)
        y = (factor * power).astype(np.float32)
    y = np.where(x > _EXP_INFINITE_ABOVE, _f32(np.inf), y)
    y = np.where(x < _EXP_ZERO_BELOW, _f32(0), y)
    return np.where(np.isnan(x), x, y)


# tanhf ------------------------------------------------------------------------------------------

#: The bits of ln(2)/2 and of 3 ln(2)/2: up to the first an argument is reduced by 0 times ln(2), up
#: to the second by once.
_HALF_LN2_BITS = 0x3EB17218
_THREE_HALVES_LN2_BITS = 0x3F851592
#: ln(2) in two parts, the first short enough that small multiples of it are exact.
_LN2_HIGH = _f32(float.fromhex("0x1.62e3p-1"))
_LN2_LOW = _f32(float.fromhex("0x1.2fefa2p-17"))
_INVERSE_LN2 = _f32(float.fromhex("0x1.715476p+0"))
#: Polynomial in r^2/2 of the rational approximation of exp(r) - 1, the highest power first.
_EXPM1 = tuple(
    _f32(float.fromhex(c))
    for c in ("-0x1.afdb76p-23", "0x1.0cfca8p-18", "-0x1.4ce19ap-14", "0x1.a01a02p-10",
              "-0x1.111112p-5", "0x1p+0")
)  # fmt: skip
_TANH_ONE_FROM = _f32(22)
_TANH_TINY_BELOW = _f32(2.0**-55)
_EXPM1_TINY_BELOW = _f32(2.0**-25)


def tanhf(x: Float32Array) -> Float32Array:
    """Return tanh(x) in single precision: of the magnitude, by exp(2|x|) - 1, or exp(-2|x|) - 1
    below 1.
    """
    with np.errstate(all="ignore"):
        size = np.abs(x)
        # The other values do not need it, and would leave its range.
        inner = np.where(size < _TANH_ONE_FROM, size, _f32(0))
        large = size >= 1
        power = _expm1f(np.where(large, _f32(2) * inner, _f32(-2) * inner))
        y = np.where(large, _f32(1) - _f32(2) / (power + _f32(2)), -power / (power + _f32(2)))
        y = np.where(size >= _TANH_ONE_FROM, _f32(1), y)
        y = np.where(size < _TANH_TINY_BELOW, size, y)
        return np.where(np.isnan(x), x, np.copysign(y, x))


def _expm1f(x: Float32Array) -> Float32Array:
    """Return exp(x) - 1 for -2 < x < 44: x = k ln(2) + r, with the rounding error of r carried
    along.
    """
    size_bits = np.abs(x).view(np.int32)
    towards = np.where(x < 0, _f32(-0.5), _f32(0.5))
    k = (_INVERSE_LN2 * x + towards).astype(np.int32)
    k = np.where(size_bits < _THREE_HALVES_LN2_BITS, np.where(x < 0, -1, 1), k)
    k = np.where(size_bits <= _HALF_LN2_BITS, 0, k).astype(np.int32)
    multiple = k.astype(np.float32)
    high, low = x - multiple * _LN2_HIGH, multiple * _LN2_LOW
    r = high - low
    lost = (high - r) - low

    half = _f32(0.5) * r
    square = r * half
    series = np.full_like(r, _EXPM1[0])
    for coefficient in _EXPM1[1:]:
        series = coefficient + square * series
    t = _f32(3) - series * half
    e = square * ((series - t) / (_f32(6) - r * t))
    unscaled = r - (r * e - square)
    e = (r * (e - lost) - lost) - square

    # 2^k (1 + r - e) - 1, with the 1 subtracted where it loses the least.
    minus_one = _f32(0.5) * (r - e) - _f32(0.5)
    one = np.where(r < _f32(-0.25), _f32(-2) * (e - (r + _f32(0.5))), _f32(1) + _f32(2) * (r - e))
    inverse = _scaled(np.ones_like(r), -k)
    few = _scaled((_f32(1) - inverse) - (e - r), k)
    many = _scaled((r - (e + inverse)) + _f32(1), k)
    far = _scaled(_f32(1) - (e - r), k) - _f32(1)
    y = np.where(k < 23, few, many)
    y = np.where((k <= -2) | (k > 56), far, y)
    y = np.where(k == 1, one, np.where(k == -1, minus_one, np.where(k == 0, unscaled, y)))
    return np.where(np.abs(x) < _EXPM1_TINY_BELOW, x, y)


def _scaled(x: Float32Array, k: npt.NDArray[np.int32]) -> Float32Array:
    """Return x * 2^k, which is exact."""
    return np.ldexp(x, k)


# Host functions ---------------------------------------------------------------------------------


def host_function(name: str) -> Function | None:
    """Return a single precision function of this host's C library; None if it is not found."""
    try:
        # The process itself, which Python has linked with that library.
        function = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
    function.argtypes, function.restype = [ctypes.c_float], ctypes.c_float

    def of_each(x: Float32Array) -> Float32Array:
        return np.array([function(value) for value in x.ravel().tolist()], _f32).reshape(x.shape)

    return of_each
