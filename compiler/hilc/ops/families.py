"""The kernels that a core's own family has for a layer, where it has one that is exact.

A family is a module with these functions (:mod:`hilc.ops.mve`, :mod:`hilc.ops.dsp`); each returns
None for a layer that it does not serve, for which the generic kernels remain.
"""

from __future__ import annotations

from hilc.cpu import Cpu
from hilc.ir import Array
from hilc.kernels import FieldValue, KernelCall
from hilc.ops import dsp, mve

_MATMUL = ((mve.serves, mve.matmul), (dsp.serves, dsp.matmul))
_CONV2D = ((mve.serves, mve.conv2d), (dsp.serves, dsp.conv2d))


def matmul(
    cpu: Cpu, rows: int, columns: Array, channels: dict[str, FieldValue], macs: int
) -> KernelCall | None:
    """``rows`` rows of int8 times ``columns [count, depth]``; ``channels`` describe these."""
    calls = (make(rows, columns, channels, macs) for serves, make in _MATMUL if serves(cpu))
    return next(calls, None)


def conv2d(
    cpu: Cpu,
    place: dict[str, FieldValue],
    columns: Array,
    channels: dict[str, FieldValue],
    macs: int,
) -> KernelCall | None:
    """A convolution of an int8 image with a filter for each of ``columns [count, depth]``.

    ``place`` lays the window over the image and holds ``in_zero_point``.
    """
    calls = (make(place, columns, channels, macs) for serves, make in _CONV2D if serves(cpu))
    return next(calls, None)
