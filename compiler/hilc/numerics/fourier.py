"""Fourier transforms of real signals as the signal library of TensorFlow Lite Micro computes them.

A transform of N real values is one of N / 2 complex ones, in steps of radix 4 and, last, 2, and a
step that separates the halves. Of integers every step halves or quarters its operands first, rounds
products half up and keeps the width of its type, where sums wrap around.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hilc.ir import ELEMENT_TYPES, Array

#: Real and imaginary parts.
Complex = tuple[Array, Array]


@dataclass(frozen=True)
class Transform:
    """Transforms of ``length`` real values, a power of two, of a type; tables as kernels have
    them.
    """

    length: int
    dtype: str
    inverse: bool = False

    @property
    def half(self) -> int:
        """Complex values that are transformed."""
        return self.length // 2

    @cached_property
    def twiddles(self) -> Array:
        """The factors of the steps: ``[half, 2]``."""
        return self._factors(-2 * math.pi * np.arange(self.half) / self.half)

    @cached_property
    def separating(self) -> Array:
        """The factors of the step that separates the halves: ``[half / 2, 2]``."""
        return self._factors(-math.pi * ((np.arange(self.half // 2) + 1) / self.half + 0.5))

    @cached_property
    def order(self) -> npt.NDArray[np.int16]:
        """Index of the input of each position in the steps' memory."""
        order = np.zeros(1, np.int64)
        for radix in reversed(_radices(self.half)):
            order = np.concatenate([order * radix + digit for digit in range(radix)])
        return order.astype(np.int16)

    def spectrum(self, x: Array) -> Array:
        """Return the spectrum of each row of ``x``: half + 1 real and imaginary parts in turn."""
        re, im = self._steps(self._wide(x[..., 0::2]), self._wide(x[..., 1::2]), 1)
        k = np.arange(1, self.half // 2 + 1)
        first = self._divided((re[..., 0], im[..., 0]), 2)
        result = np.zeros((*x.shape[:-1], self.half + 1, 2), re.dtype)
        result[..., 0, 0] = self._kept(first[0] + first[1])
        result[..., -1, 0] = self._kept(first[0] - first[1])
        near = self._divided((re[..., k], im[..., k]), 2)
        far = self._divided((re[..., self.half - k], self._kept(-im[..., self.half - k])), 2)
        sums = self._kept(near[0] + far[0]), self._kept(near[1] + far[1])
        rest = self._kept(near[0] - far[0]), self._kept(near[1] - far[1])
        turned = self._product(rest, self._parts(self.separating))
        result[..., k, 0] = self._halved(sums[0] + turned[0])
        result[..., k, 1] = self._halved(sums[1] + turned[1])
        result[..., self.half - k, 0] = self._halved(sums[0] - turned[0])
        result[..., self.half - k, 1] = self._halved(turned[1] - sums[1])
        flat = result.reshape(*x.shape[:-1], self.length + 2)
        return flat.astype(self.dtype)

    def signal(self, x: Array) -> Array:
        """Return the signal of each spectrum that is a row of ``x``."""
        re, im = self._wide(x[..., 0::2]), self._wide(x[..., 1::2])
        mixed = [np.zeros((*x.shape[:-1], self.half), re.dtype) for _ in range(2)]
        ends = re[..., 0], re[..., self.half]
        first = self._kept(ends[0] + ends[1]), self._kept(ends[0] - ends[1])
        mixed[0][..., 0], mixed[1][..., 0] = self._divided(first, 2)
        k = np.arange(1, self.half // 2 + 1)
        near = self._divided((re[..., k], im[..., k]), 2)
        far = self._divided((re[..., self.half - k], self._kept(-im[..., self.half - k])), 2)
        even = self._kept(near[0] + far[0]), self._kept(near[1] + far[1])
        odd = self._kept(near[0] - far[0]), self._kept(near[1] - far[1])
        turned = self._product(odd, self._parts(self.separating))
        mixed[0][..., k] = self._kept(even[0] + turned[0])
        mixed[1][..., k] = self._kept(even[1] + turned[1])
        mixed[0][..., self.half - k] = self._kept(even[0] - turned[0])
        mixed[1][..., self.half - k] = self._kept(-self._kept(even[1] - turned[1]))
        re, im = self._steps(mixed[0], mixed[1], 1)
        result = np.stack([re, im], -1).reshape(*x.shape[:-1], self.length)
        if self._is_float:
            return (result / np.float32(self.length)).astype(np.float32)
        return result.astype(self.dtype)

    def _steps(self, re: Array, im: Array, stride: int) -> Complex:
        count = re.shape[-1]
        if count == 1:
            return re, im
        radix = _radices(count)[0]
        parts = [self._steps(re[..., j::radix], im[..., j::radix], stride * radix)
                 for j in range(radix)]  # fmt: skip
        parts = [self._divided(part, radix) for part in parts]
        k = stride * np.arange(count // radix)
        factors = self._parts(self.twiddles)
        turned = [
            self._product(part, (factors[0][k * j], factors[1][k * j]))
            for j, part in enumerate(parts[1:], 1)
        ]
        a = parts[0]
        if radix == 2:
            (b,) = turned
            results = [self._sum(a, b), self._sum(a, b, -1)]
        else:
            b, c, d = turned
            difference, total = self._sum(a, c, -1), self._sum(a, c)
            odd, rest = self._sum(b, d), self._sum(b, d, -1)
            quarter = (-rest[1], rest[0]) if self.inverse else (rest[1], -rest[0])
            results = [
                self._sum(total, odd),
                self._sum(difference, quarter),
                self._sum(total, odd, -1),
                self._sum(difference, quarter, -1),
            ]
        joined = (np.concatenate([result[i] for result in results], -1) for i in range(2))
        first, second = joined
        return first, second

    # Arithmetic of the type ----------------------------------------------------------------------

    @property
    def _is_float(self) -> bool:
        return ELEMENT_TYPES[self.dtype].is_real

    @property
    def _bits(self) -> int:
        return ELEMENT_TYPES[self.dtype].dl_bits - 1

    def _factors(self, phases: Array) -> Array:
        phases = -phases if self.inverse else phases
        parts = np.stack([np.cos(phases), np.sin(phases)], -1)
        if self._is_float:
            return parts.astype(np.float32)
        largest = ELEMENT_TYPES[self.dtype].bounds[1]
        return np.floor(0.5 + largest * parts).astype(self.dtype)

    def _parts(self, factors: Array) -> Complex:
        return self._wide(factors[:, 0]), self._wide(factors[:, 1])

    def _wide(self, x: Array) -> Array:
        return x if self._is_float else x.astype(np.int64)

    def _kept(self, x: Array) -> Array:
        return x if self._is_float else x.astype(self.dtype).astype(np.int64)

    def _sum(self, a: Complex, b: Complex, sign: int = 1) -> Complex:
        return self._kept(a[0] + sign * b[0]), self._kept(a[1] + sign * b[1])

    def _halved(self, x: Array) -> Array:
        # Sums of 16 bits are taken in 32.
        return x * np.float32(0.5) if self._is_float else x.astype(np.int32).astype(np.int64) >> 1

    def _rounded(self, x: Array) -> Array:
        return x if self._is_float else self._kept((x + (1 << (self._bits - 1))) >> self._bits)

    def _divided(self, x: Complex, by: int) -> Complex:
        if self._is_float:
            return x
        factor = ELEMENT_TYPES[self.dtype].bounds[1] // by
        return self._rounded(x[0] * factor), self._rounded(x[1] * factor)

    def _product(self, a: Complex, b: Complex) -> Complex:
        return (
            self._rounded(a[0] * b[0] - a[1] * b[1]),
            self._rounded(a[0] * b[1] + a[1] * b[0]),
        )


def _radices(count: int) -> list[int]:
    """Return the radices of the steps, the last one first."""
    radices = []
    while count > 1:
        radices.append(4 if count % 4 == 0 else 2)
        count //= radices[-1]
    return radices
