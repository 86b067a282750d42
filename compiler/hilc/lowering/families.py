"""The kernels that a core's own family has for a layer, where it has any that are exact.

A family is a module (:mod:`hilc.lowering.helium`, :mod:`hilc.lowering.dsp`,
:mod:`hilc.lowering.armv7m`). Its functions return the calls that can compute a layer, the fastest
first: one, several or, for a layer that it does not serve, None. The generic kernels are always
there beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hilc.ir import Array
from hilc.lowering import armv7m, dsp, helium
from hilc.lowering.kernels import FieldValue, KernelCall
from hilc.ops.geometry import Window
from hilc.target import Cpu

#: What a function of a family returns.
Made = KernelCall | Sequence[KernelCall] | None

_MATMUL = ((helium.serves, helium.matmul), (dsp.serves, dsp.matmul), (armv7m.serves, armv7m.matmul))
_CONV2D = ((helium.serves, helium.conv2d), (dsp.serves, dsp.conv2d), (armv7m.serves, armv7m.conv2d))


@dataclass(frozen=True)
class Depthwise:
    """A depthwise convolution of an int8 image with one filter a channel."""

    shape: tuple[int, ...]
    window: Window
    #: The fields of the generic kernel that lay the window over the image.
    place: dict[str, FieldValue]
    #: ``[channels, filter_h, filter_w]``.
    filters: Array
    #: What positions outside the image hold.
    fill: int


def listed(made: Made) -> list[KernelCall]:
    """The calls that a family made."""
    if made is None:
        return []
    return [made] if isinstance(made, KernelCall) else list(made)


def matmul(
    cpu: Cpu, rows: int, columns: Array, channels: dict[str, FieldValue], macs: int
) -> list[KernelCall]:
    """``rows`` rows of int8 times ``columns [count, depth]``; ``channels`` describe these."""
    made = (make(rows, columns, channels, macs) for serves, make in _MATMUL if serves(cpu))
    return [call for calls in made for call in listed(calls)]


def conv2d(
    cpu: Cpu,
    place: dict[str, FieldValue],
    columns: Array,
    channels: dict[str, FieldValue],
    macs: int,
) -> list[KernelCall]:
    """A convolution of an int8 image with a filter for each of ``columns [count, depth]``.

    ``place`` lays the window over the image and holds ``in_zero_point``.
    """
    made = (make(place, columns, channels, macs) for serves, make in _CONV2D if serves(cpu))
    return [call for calls in made for call in listed(calls)]


def depthwise_conv2d(
    cpu: Cpu, layer: Depthwise, channels: dict[str, FieldValue], macs: int
) -> list[KernelCall]:
    """A depthwise convolution; ``channels`` describe its channels."""
    calls: list[KernelCall] = []
    if helium.serves(cpu):
        calls += listed(
            helium.depthwise_conv2d(
                layer.shape, layer.window, layer.filters, layer.fill, channels, macs
            )
        )
    if dsp.serves(cpu):
        calls += listed(dsp.depthwise(layer.place, layer.fill, layer.filters, channels, macs))
    if armv7m.serves(cpu):
        calls += armv7m.depthwise(layer.place, layer.fill, layer.filters, channels, macs)
    return calls
