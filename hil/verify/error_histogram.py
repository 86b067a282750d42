"""Histogram of the errors of a tensor: device minus reference."""

from __future__ import annotations

from collections import Counter

import numpy as np

from hil.results.parts import ErrorBin
from hilc.ir import Array

#: Powers of ten of float errors, relative to the tensor's largest magnitude: smaller and larger
#: ones count for the outermost bins.
_LEAST, _MOST = -12, 12


class ErrorHistogram:
    """Counts errors in bins: single steps and powers of two of integers, powers of ten of floats.

    Errors of floats are relative to the largest finite magnitude of the reference's tensor; those
    that are not finite are in no bin.
    """

    def __init__(self, is_float: bool) -> None:
        self._is_float = is_float
        self._counts: Counter[int] = Counter()

    def add_equal(self, count: int) -> None:
        """Count elements without an error."""
        self._counts[0] += count

    def add(self, expected: Array, got: Array) -> None:
        """Count the errors of a tensor."""
        # float64 holds every difference of types up to 32 bits.
        reference = expected.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            error = got.astype(np.float64) - reference
            error[expected == got] = 0
            if self._is_float:
                finite = np.abs(reference[np.isfinite(reference)])
                error = error / float(finite.max(initial=0) or 1)
            error = error[np.isfinite(error)]
            places = np.zeros(error.shape, np.int64)
            wrong = error != 0
            size = np.abs(error[wrong])
            places[wrong] = np.sign(error[wrong]) * self._places(size)
        values, counts = np.unique(places, return_counts=True)
        self._counts.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))

    def bins(self) -> tuple[ErrorBin, ...]:
        """Return the bins that are not empty, by ascending error."""
        return tuple(
            ErrorBin(*self._range(place), count)
            for place, count in sorted(self._counts.items())
            if count
        )

    def _places(self, size: Array) -> Array:
        """Return the positions of magnitudes above 0: 1 for the smallest."""
        if self._is_float:
            decades = np.clip(np.ceil(np.log10(size)), _LEAST, _MOST)
            return (decades - _LEAST + 1).astype(np.int64)
        places: Array = (np.ceil(np.log2(size)) + 1).astype(np.int64)
        return places

    def _range(self, place: int) -> tuple[float, float]:
        if place < 0:
            low, high = self._range(-place)
            return -high, -low
        if place == 0:
            return 0, 0
        if self._is_float:
            decade = place - 1 + _LEAST
            return 10.0 ** (decade - 1), 10.0**decade
        return (1, 1) if place == 1 else (2 ** (place - 2) + 1, 2 ** (place - 1))
