"""Run a layer again to see what it depends on besides its inputs.

The layer runs on memory that was painted before: three times with one pattern, then with its
complement. Before the second and the third of these runs, the same has run, so that memory which
the paint does not reach is equal as well: what differs between them does not depend on memory. What
differs between the others was computed from memory that nothing had written. Painted are the
bytes of the workspace that the layer does not read, as far as outputs of layers reach them, since
these are what the serial protocol can write.

A layer whose inputs have changed since they were computed is not to blame for its results: the
layer after which they had is found by reading them after each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from hil.errors import DeviceError
from hil.verify.diagnosis import NO_EVIDENCE, Evidence
from hilc.artifact.library import Argument, Layer, Module
from hilc.ir import Array

#: The paint; the last run has its complement.
_PAINT = 0xA6


@runtime_checkable
class Paintable(Protocol):
    """A model whose layers' memory can be read and written between layers."""

    @property
    def module(self) -> Module:
        """The model's tensors, layers and memory plan."""

    def layer_outputs(self, first: int = 0) -> Iterator[tuple[Layer, list[Array]]]:
        """Run the layers from ``first`` on; yield each with its outputs."""

    def layer_output(self, layer: int, index: int) -> Array:
        """Return output ``index`` of a layer, as the memory has it."""

    def set_layer_output(self, layer: int, index: int, array: npt.ArrayLike) -> None:
        """Write ``array`` to output ``index`` of a layer."""


@dataclass(frozen=True)
class _Place:
    """Bytes of a block of memory: a pool of the workspace, or a buffer of an output."""

    block: tuple[str, int]
    start: int
    end: int

    def overlaps(self, other: _Place) -> bool:
        return self.block == other.block and self.start < other.end and other.start < self.end


@dataclass(frozen=True)
class _Window:
    """The memory of a layer's output, through which the model gives access to it."""

    layer: int
    index: int
    place: _Place


def examine(model: object, layer: int, index: int, prepare: Callable[[], None]) -> Evidence:
    """Return what further runs of a layer show about its output ``index``.

    ``prepare`` sets the inputs and states of the sample. A model that takes no paint, such as one
    of an older firmware, gives no evidence.
    """
    if not isinstance(model, Paintable):
        return NO_EVIDENCE
    overwritten = _overwritten_input(model, layer, prepare)
    try:
        runs = [
            _run_on(model, layer, index, paint, prepare)
            for paint in (_PAINT, _PAINT, _PAINT, 0xFF - _PAINT)
        ]
    except DeviceError:
        return overwritten
    (first, _), (second, before), (third, _), (complement, before_too) = runs
    dependent = _bytes_differ(first, second) | _bytes_differ(third, complement)
    unwritten = ~_bytes_differ(second, before) & ~_bytes_differ(complement, before_too)
    return replace(
        overwritten,
        dependent=dependent,
        unwritten=dependent & unwritten,
        varying=_bytes_differ(second, third),
    )


def _run_on(
    model: Paintable, layer: int, index: int, paint: int, prepare: Callable[[], None]
) -> tuple[Array, Array]:
    """Return an output of a layer that ran on painted memory, and what lay there before."""
    prepare()
    with closing(model.layer_outputs(max(layer - 1, 0))) as outputs:  # type: ignore[type-var]
        if layer:
            next(outputs)
        _paint(model, layer, paint)
        before = model.layer_output(layer, index)
        _, arrays = next(outputs)
    return arrays[index], before


def _paint(model: Paintable, layer: int, paint: int) -> None:
    """Paint the memory of all layers' outputs, but for what ``layer`` reads and for states."""
    module = model.module
    this = module.layers[layer]
    kept = [_place(argument) for argument in this.arguments[: this.input_count]]
    kept += [
        _Place(("pool", number), 0, pool.nbytes)
        for number, pool in enumerate(module.workspace_pools)
        if pool.persistent
    ]
    painted: dict[tuple[str, int], Array] = {}
    for window in sorted(_windows(module), key=lambda window: window.layer != layer):
        place = window.place
        done = painted.setdefault(place.block, np.zeros(0, bool))
        if len(done) < place.end:
            done = painted[place.block] = np.pad(done, (0, place.end - len(done)))
        if done[place.start : place.end].all():
            continue
        done[place.start : place.end] = True
        held = model.layer_output(window.layer, window.index)
        values = np.full(held.nbytes, paint, np.uint8)
        bits = np.ascontiguousarray(held).reshape(-1).view(np.uint8)
        for keep in kept:
            if keep.overlaps(place):
                start = max(keep.start, place.start) - place.start
                end = min(keep.end, place.end) - place.start
                values[start:end] = bits[start:end]
        model.set_layer_output(
            window.layer, window.index, values.view(held.dtype).reshape(held.shape)
        )


def _overwritten_input(model: Paintable, layer: int, prepare: Callable[[], None]) -> Evidence:
    """Return which input of a layer is not what a layer before it has computed, if any."""
    module = model.module
    this = module.layers[layer]
    sources = [
        window
        for argument in this.arguments[: this.input_count]
        if (window := _source(module, layer, _place(argument))) is not None
    ]
    for window in sources:
        changed = _changed_after(model, window, layer, prepare)
        if changed is not None:
            name = module.layers[window.layer].outputs[window.index].name
            return Evidence(overwritten=name, overwriter=(changed, module.layers[changed].name))
    return NO_EVIDENCE


def _changed_after(
    model: Paintable, window: _Window, layer: int, prepare: Callable[[], None]
) -> int | None:
    """Return the layer after which an earlier layer's output had changed, before ``layer`` runs."""
    if window.layer + 1 == layer:
        return None
    prepare()
    with closing(model.layer_outputs(window.layer)) as outputs:  # type: ignore[type-var]
        _, arrays = next(outputs)
        for number in range(window.layer + 1, layer):
            next(outputs)
            now = model.layer_output(window.layer, window.index)
            if _bytes_differ(now, arrays[window.index]).any():
                return number
    return None


def _source(module: Module, layer: int, place: _Place) -> _Window | None:
    """Return the output of an earlier layer that is the whole of ``place`` when ``layer`` begins.

    None where the last layer that may write there makes only a part of it, or works in it.
    """
    for number in range(layer - 1, -1, -1):
        before = module.layers[number]
        for index, argument in enumerate(before.arguments[before.input_count :]):
            written = _place(argument)
            if written == place and index < len(before.outputs):
                return _Window(number, index, place)
            if written.overlaps(place):
                return None
    return None


def _windows(module: Module) -> Iterator[_Window]:
    for number, layer in enumerate(module.layers):
        for index, argument in enumerate(layer.output_arguments):
            start = _place(argument)
            nbytes = layer.outputs[index].nbytes
            yield _Window(number, index, replace(start, end=start.start + nbytes))


def _place(argument: Argument) -> _Place:
    """Return the memory of an argument; inputs and constants are blocks of their own."""
    nbytes = int(np.prod(argument.shape, dtype=np.int64)) * np.dtype(argument.dtype).itemsize
    if argument.kind == "pool":
        return _Place(("pool", argument.pool), argument.value, argument.value + nbytes)
    return _Place((argument.kind, argument.value), 0, nbytes)


def _bytes_differ(one: Array, other: Array) -> Array:
    """Return which elements differ in a bit; NaN is equal to itself here."""
    width = one.dtype.itemsize
    bits = [
        np.ascontiguousarray(a).reshape(-1).view(np.uint8).reshape(-1, width) for a in (one, other)
    ]
    differ: Array = (bits[0] != bits[1]).any(axis=1).reshape(one.shape)
    return differ
