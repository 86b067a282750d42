"""Builders: functions that make the calls that can compute a layer, found by what they are for.

A builder says which operators it lowers, for which element types, and which features a core must
have::

    @lowers("ADD", "SUB", dtypes={"int8"}, requires={"mve"})
    def sums(layer):
        ...
        yield KernelCall(HilMveSumS8(size=layer.out.size, ...), (0, 1))

It returns or yields a call for each way that it has, the one that is expected to be the fastest
first, and none where it cannot serve the layer. :func:`candidates` asks the builders that fit a
layer: first those that require features of a core, then those for any core, then those that take
the least flash (:class:`Rank`); among equals in the order in which they were registered.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import wraps
from typing import Any, TypeVar

from hilc.external import ExternalCall
from hilc.ir import Node, Rounding, Tensor
from hilc.lowering.kernels import KernelCall
from hilc.ops.operands import operand
from hilc.target import Cpu

#: What a step of a program calls.
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
    _facts: dict[Callable[..., Any], Any] = field(default_factory=dict, repr=False)

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


def once(fact: Callable[[Layer], _T]) -> Callable[[Layer], _T]:
    """Decorate what is worked out of a layer, to be worked out once for all its builders."""

    @wraps(fact)
    def kept(layer: Layer) -> _T:
        if fact not in layer._facts:
            layer._facts[fact] = fact(layer)
        found: _T = layer._facts[fact]
        return found

    return kept


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
    layer = Layer(node, ins, outs, cpu)
    fitting = (entry for entry in _ENTRIES[node.op] if entry.fits(layer))
    calls = tuple(call for entry in fitting for call in _listed(entry.build(layer)))
    twice = [name for name, count in Counter(call.variant for call in calls).items() if count > 1]
    if twice:
        raise ValueError(
            f"{node.op} {node.name!r} has several kernel variants with the name {twice[0]}: "
            f"give their parameters forms (Parameters.as_form)"
        )
    return calls


def _listed(made: Call | Iterable[Call]) -> Iterable[Call]:
    return (made,) if isinstance(made, KernelCall | ExternalCall) else made


#: Makes the call that takes some rows of an image into sums: node, inputs, outputs, how many rows,
#: whether they are the image's first and its last.
RowAdder = Callable[[Node, Sequence[Tensor | None], Sequence[Tensor], int, bool, bool], KernelCall]

_ROW_ADDERS: dict[str, RowAdder] = {}


def adds_rows(operator: str) -> Callable[[RowAdder], RowAdder]:
    """Register how an operator over a whole image is computed when rows come a few at a time."""

    def register(make: RowAdder) -> RowAdder:
        _ROW_ADDERS[operator] = make
        return make

    return register


def row_adder(operator: str) -> RowAdder:
    """Return the function registered for ``operator`` by :func:`adds_rows`."""
    return _ROW_ADDERS[operator]
