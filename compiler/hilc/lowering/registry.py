"""Builders: functions that make the calls that can compute a layer, found by what they are for.

A builder says which operators it lowers, for which element types, and which features a core must
have::

    @lowers("ADD", "SUB", dtypes={"int8"}, requires={"mve"})
    def sums(layer):
        ...
        yield KernelCall(HilMveSumS8(size=layer.out.size, ...), (0, 1))

It returns or yields a call for each variant that it has, the one that is expected to be the fastest
first, and none where it cannot serve the layer. It is called for the layer, and for bands of its
rows in fused groups: what it packs of weights it computes once for all (:func:`packed_per_layer`).

:func:`candidates` asks the builders that fit a layer: first those that require features of a core,
then those for any core, then those that take the least flash (:class:`Rank`); among equals in the
order in which they were registered.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar

from hilc.external import ExternalCall
from hilc.ir import Node, Rounding, Tensor
from hilc.lowering.kernels import KernelCall
from hilc.ops.operands import operand
from hilc.target import Cpu

#: Call of a step: a kernel or an external function.
Call = KernelCall | ExternalCall

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class Layer:
    """A node with its tensors, and the core that shall compute it."""

    node: Node
    #: None for an absent optional input.
    ins: Sequence[Tensor | None]
    outs: Sequence[Tensor]
    cpu: Cpu
    #: Packed constants, shared by all bands of its rows.
    _packed: dict[Callable[..., Any], Any] = field(default_factory=dict, repr=False)
    _cached: dict[Callable[..., Any], Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def out(self) -> Tensor:
        """The first output."""
        return self.outs[0]

    @property
    def dtype(self) -> str:
        """The element type of the first input that is there; of the output where none is."""
        return next((tensor.dtype for tensor in self.ins if tensor is not None), self.out.dtype)

    def operand(self, index: int) -> Tensor:
        """Return the input ``index``; :class:`~hilc.errors.ModelError` where it is absent."""
        return operand(self.node, self.ins, index)


def cached_per_layer(function: Callable[[Layer], _T]) -> Callable[[Layer], _T]:
    """Decorate a function that all builders of a layer call, to compute its result once a layer."""

    @wraps(function)
    def cached(layer: Layer) -> _T:
        if function not in layer._cached:
            layer._cached[function] = function(layer)
        found: _T = layer._cached[function]
        return found

    return cached


def packed_per_layer(function: Callable[[Layer], _T]) -> Callable[[Layer], _T]:
    """Decorate a function of a layer's constants and quantization, apart from its rows, to compute
    its result once for the layer and all bands of its rows.
    """

    @wraps(function)
    def cached(layer: Layer) -> _T:
        if function not in layer._packed:
            layer._packed[function] = function(layer)
        found: _T = layer._packed[function]
        return found

    return cached


Builder = Callable[[Layer], Call | Iterable[Call]]


class Rank(IntEnum):
    """Which builders are asked first."""

    #: For cores with certain features.
    FAST = 0
    #: For every core.
    PORTABLE = 1
    #: For every core, with as little flash as possible.
    SMALL = 2
    #: For programs that are to be fast, whatever memory they take.
    SPEED = 3


@dataclass(frozen=True)
class _Entry:
    build: Builder
    dtypes: frozenset[str] | None
    requires: frozenset[str]
    lacks: frozenset[str]
    rank: Rank
    roundings: frozenset[Rounding]

    def fits(self, layer: Layer) -> bool:
        features = layer.cpu.features
        return (
            self.requires <= features
            and self.lacks.isdisjoint(features)
            and (self.dtypes is None or layer.dtype in self.dtypes)
            and layer.node.rounding in self.roundings
        )


_ENTRIES: dict[str, list[_Entry]] = defaultdict(list)


def lowers(
    *operators: str,
    dtypes: Collection[str] | None = None,
    requires: Collection[str] = (),
    lacks: Collection[str] = (),
    rank: Rank | None = None,
    roundings: Iterable[Rounding] = (Rounding.DOUBLE,),
) -> Callable[[Builder], Builder]:
    """Register a builder for ``operators``.

    ``dtypes`` are the types of :attr:`Layer.dtype` that it lowers, None for all; ``requires`` are
    the features that a core must have, ``lacks`` those for which other builders are better,
    ``roundings`` the policies of nodes that its kernels compute.
    """
    if rank is None:
        rank = Rank.FAST if requires else Rank.PORTABLE

    def register(build: Builder) -> Builder:
        entry = _Entry(
            build,
            None if dtypes is None else frozenset(dtypes),
            frozenset(requires),
            frozenset(lacks),
            rank,
            frozenset(roundings),
        )
        for operator in operators:
            entries = _ENTRIES[operator]
            entries.append(entry)
            entries.sort(key=lambda e: e.rank)
        return build

    return register


def has_foreign_builders() -> bool:
    """Return whether there are builders from outside this package, which are any program."""
    modules = (entry.build.__module__ for entries in _ENTRIES.values() for entry in entries)
    return not all(module.startswith("hilc.") for module in modules)


def candidates(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], cpu: Cpu
) -> tuple[Call, ...]:
    """Return the calls that can compute the node on ``cpu``, the one that is expected to be the
    fastest first; none where no builder serves it.
    """
    return LoweredLayer(Layer(node, ins, outs, cpu)).calls


class LoweredLayer:
    """The kernel variants of a layer.

    What they pack of its constants is packed once: for the layer, and for bands of its rows, which
    differ from it in geometry alone.
    """

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        # Not with this module: a command that only reads a compiled library needs no kernels.
        import_module("hilc.lowering.families")
        self._entries = [entry for entry in _ENTRIES[layer.node.op] if entry.fits(layer)]
        built = [(call, entry) for entry in self._entries for call in _listed(entry.build(layer))]
        #: By variant, its builder.
        self._builders = {call.variant: entry for call, entry in built}
        #: The calls that can compute the layer, the one that is expected to be the fastest first.
        self.calls: tuple[Call, ...] = tuple(call for call, _ in built)
        _require_names(layer, self.calls)

    def rows(
        self, node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]
    ) -> Mapping[str, KernelCall]:
        """Return the calls that compute a band of the layer's rows, by variant.

        ``node``, ``ins`` and ``outs`` are the layer's, reduced to the band; constants are the same.
        """
        band = Layer(node, ins, outs, self.layer.cpu, self.layer._packed)
        built = [call for entry in self._entries for call in _listed(entry.build(band))]
        _require_names(band, built)
        return {call.variant: call for call in built if isinstance(call, KernelCall)}

    def of_variant(self, variant: str, layer: Layer) -> KernelCall | None:
        """Return the call of a variant of this layer for another layer of the operator, with
        constants of its own; None where the variant cannot compute that.
        """
        built = _listed(self._builders[variant].build(layer))
        found = next((call for call in built if call.variant == variant), None)
        return found if isinstance(found, KernelCall) else None


class LoweredLayers:
    """The layers of a graph on one core, each lowered on first use, once."""

    def __init__(self, cpu: Cpu) -> None:
        self.cpu = cpu
        self._known: dict[tuple[str, tuple[str, ...]], LoweredLayer] = {}

    def of(self, node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> LoweredLayer:
        """Return the kernel variants of ``node``, whose name and inputs are its own."""
        key = node.name, node.inputs
        if key not in self._known:
            self._known[key] = LoweredLayer(Layer(node, ins, outs, self.cpu))
        return self._known[key]


def _require_names(layer: Layer, calls: Sequence[Call]) -> None:
    """Raise ValueError where two calls have the name of one variant."""
    twice = [name for name, count in Counter(call.variant for call in calls).items() if count > 1]
    if twice:
        node = layer.node
        raise ValueError(
            f"{node.op} {node.name!r} has several kernel variants with the name {twice[0]}: "
            f"give their parameters forms (Parameters.as_form)"
        )


def _listed(made: Call | Iterable[Call]) -> Iterable[Call]:
    return (made,) if isinstance(made, KernelCall | ExternalCall) else made


#: Makes the call that takes some rows of an image into sums: node, inputs, outputs, how many rows,
#: whether they are the image's first and its last.
RowBuilder = Callable[
    [Node, Sequence[Tensor | None], Sequence[Tensor], int, bool, bool], KernelCall
]

_ROW_BUILDERS: dict[str, RowBuilder] = {}


def lowers_incrementally(operator: str) -> Callable[[RowBuilder], RowBuilder]:
    """Register how an operator over a whole image is computed when rows come a few at a time."""

    def register(make: RowBuilder) -> RowBuilder:
        _ROW_BUILDERS[operator] = make
        return make

    return register


def row_builder(operator: str) -> RowBuilder:
    """Return the function registered for ``operator`` by :func:`lowers_incrementally`."""
    return _ROW_BUILDERS[operator]
