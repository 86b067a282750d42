"""ADD and SUB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import numpy.typing as npt

from hilc.ir import ELEMENT_TYPES
from hilc.lowering.dsp.affine import MAX_SHIFT
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilDspAddS8,
    HilDspSumS8,
)
from hilc.lowering.registry import Layer, lowers
from hilc.numerics.requantize import requantize
from hilc.ops.elementwise import reference, sum_scales
from hilc.ops.operands import output_clamp, quantization

#: Bits by which operands of a sum are raised.
_HEADROOM = ELEMENT_TYPES["int8"].headroom


@lowers("ADD", "SUB", dtypes={"int8"}, requires={"mul32"}, lacks={"mve"})
def sums(layer: Layer) -> Iterator[KernelCall]:
    """Yield the sum or difference of tensors of one shape by one formula for both."""
    node, a, b, out = layer.node, layer.operand(0), layer.operand(1), layer.out
    if a.shape != b.shape or output_clamp(node, out) != (-128, 127):
        return
    values = np.arange(-128, 128, dtype=np.int8)
    pairs = np.broadcast_arrays(values[:, np.newaxis], values)
    (expected,) = reference(node, (a, b), (out,), pairs)
    first, second = (quantization(node, t)[0] / quantization(node, out)[0] for t in (a, b))
    factors = first, -second if node.op == "SUB" else second
    call = _sum_of_two(out.size, expected.astype(np.int64), factors)
    if call is not None:
        yield call


@lowers("ADD", dtypes={"int8"}, requires={"dsp"}, lacks={"mve"})
def add(layer: Layer) -> Iterator[KernelCall]:
    """Yield the sum of tensors of one shape, one operand scaled by a table, the other by a
    shift.
    """
    node, a, b, out = layer.node, layer.operand(0), layer.operand(1), layer.out
    scales = sum_scales(node, a, b, out)
    right = -scales.out.shift
    # The larger scale's factor is one half; where both have it, either may be in the table.
    swapped = scales.a.shift < 0
    half = (scales.b if swapped else scales.a).shift == 0
    if a.shape != b.shape or not half or not 1 <= right <= MAX_SHIFT:
        return
    plain, scaled, scale = (b, a, scales.a) if swapped else (a, b, scales.b)
    values = np.arange(-128, 128) - quantization(node, scaled)[1]
    parts = requantize(values << _HEADROOM, *scale)
    parts -= quantization(node, plain)[1] << (_HEADROOM - 1)
    low, high = output_clamp(node, out)
    parameters = HilDspAddS8(
        length=out.size,
        swapped=int(swapped),
        multiplier=scales.out.multiplier,
        shift=right - 1,
        out_zero_point=quantization(node, out)[1],
        low=low,
        high=high,
        table=(2 * parts).astype(np.int32),
    )
    yield KernelCall(parameters, (0, 1))


def _sum_of_two(
    length: int, expected: npt.NDArray[np.int64], factors: tuple[float, float]
) -> KernelCall | None:
    """Return the sum of two tensors of ``length`` elements, each times its own of about
    ``factors``.

    ``expected [256, 256]`` is the output for every pair of values, from -128 on. None where no
    formula of the kernel gives just this.
    """
    values = np.arange(-128, 128)
    finest = min(22, 23 - int(np.ceil(np.log2(max(2**-16, *map(abs, factors))))))
    for tried in range(finest, max(0, finest - 3), -1):
        nearest = [round(factor * 2**tried) for factor in factors]
        for first, second in sorted(product(*(_around(n) for n in nearest)), key=_off(nearest)):
            sums = first * values[:, np.newaxis] + second * values
            least = np.where(expected > -128, (expected << tried) - sums, -(2**31)).max()
            most = np.where(expected < 127, (expected + 1 << tried) - 1 - sums, 2**31 - 1).min()
            addend = int(least + most) // 2
            if least <= most and abs(addend) + np.abs(sums).max() < 2**31:
                parameters = HilDspSumS8(
                    length=length, first=first, second=second, addend=addend, shift=tried
                )
                return KernelCall(parameters, (0, 1))
    return None


def _around(value: int) -> range:
    return range(value - 3, value + 4)


def _off(nearest: list[int]) -> Callable[[tuple[int, ...]], int]:
    """Return the largest distance of numbers from these."""
    return lambda tried: sum(abs(t - n) for t, n in zip(tried, nearest, strict=True))
