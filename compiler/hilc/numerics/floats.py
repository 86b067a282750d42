"""Sums of products in float32, by the rounding policy of a node.

``DOUBLE`` rounds each product, and the sum again, as IEEE operations do one after the other.
``SINGLE`` rounds the two once, as fused multiply-adds do, on a unit for which subnormal numbers,
given or computed, are 0: Helium's.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Rounding

Floats = npt.NDArray[np.float32]

_LEAST_NORMAL = np.finfo(np.float32).tiny


def multiply_add(sums: Array, x: Array, y: Array, rounding: Rounding) -> Floats:
    """Return ``sums + x * y``, which broadcast; all are float32."""
    if rounding is Rounding.SINGLE:
        return _fused(sums, x, y)
    result: Floats = sums + x * y
    return result


def add(x: Array, y: Array, rounding: Rounding) -> Floats:
    """Return ``x + y``, which broadcast; both are float32."""
    if rounding is Rounding.SINGLE:
        return _flushed(_flushed(x) + _flushed(y))
    result: Floats = x + y
    return result


def _fused(sums: Array, x: Array, y: Array) -> Floats:
    """Products are exact in double. What their sum lacks there makes its last bit odd, so that it
    rounds to float32 as the exact sum does.
    """
    with np.errstate(all="ignore"):
        product = _flushed(x).astype(np.float64) * _flushed(y).astype(np.float64)
        addend = _flushed(sums).astype(np.float64)
        total = product + addend
        other = total - product
        error = (product - (total - other)) + (addend - other)
        direction = np.where(error > 0, np.inf, -np.inf)
        even = (total.view(np.int64) & 1) == 0
        inexact = np.isfinite(total) & (error != 0) & even
        total = np.where(inexact, np.nextafter(total, direction), total)
        result = total.astype(np.float32)
    return np.where(np.abs(total) < _LEAST_NORMAL, np.copysign(np.float32(0), result), result)


def _flushed(values: Array) -> Floats:
    """Return the values with 0 for those that are subnormal."""
    small = np.abs(values) < _LEAST_NORMAL
    result: Floats = np.where(small, np.copysign(np.float32(0), values), values)
    return result
