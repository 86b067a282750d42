"""Bounds of loops that the user states, which the format has no word for: metadata.

The entry ``hil.loop-bound:NAME`` of a model's metadata is the largest number of turns of the loop
whose output, or whose node, is called NAME.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import onnx

from hilc.errors import InputError, ModelError

_PREFIX = "hil.loop-bound:"
#: Largest bound; the number of turns is a 32-bit counter of the generated code.
_MOST = 2**31 - 1
#: The bounds that are accepted, for messages.
ACCEPTED = f"1 to {_MOST:,}"


def loop_bounds(model: onnx.ModelProto) -> dict[str, int]:
    """Return the bounds in a model's metadata, by name.

    Raise :class:`~hilc.errors.ModelError` for an entry that is no number of turns.
    """
    bounds: dict[str, int] = {}
    for entry in model.metadata_props:
        if not entry.key.startswith(_PREFIX):
            continue
        if not re.fullmatch(r"[0-9]{1,10}", entry.value) or not 0 < int(entry.value) <= _MOST:
            raise ModelError(
                f"the model's metadata {entry.key!r} = {entry.value!r:.40} are no number of turns",
                f"{ACCEPTED} is accepted",
            )
        bounds[entry.key.removeprefix(_PREFIX)] = int(entry.value)
    return bounds


def set_loop_bounds(model: onnx.ModelProto, bounds: Mapping[str, int]) -> None:
    """State bounds in a model's metadata, in place of those that it has for the same loops.

    Raise :class:`~hilc.errors.InputError` for a name that no loop has, or a bound out of range.
    """
    loops = list(_loops(model))
    known = {name for names in loops for name in names}
    for name, bound in bounds.items():
        if name not in known:
            shown = ", ".join(repr(names[0]) for names in loops if names)
            raise InputError(
                f"the model has no loop {name!r}, whose bound is stated",
                f"its loops are {shown}" if shown else "it has no loop: leave out the bound",
            )
        if not 1 <= bound <= _MOST:
            raise InputError(
                f"the bound of the loop {name!r} is {bound}", f"{ACCEPTED} is accepted"
            )
        same = {f"{_PREFIX}{other}" for names in loops if name in names for other in names}
        if other := next((o for o in bounds if o != name and f"{_PREFIX}{o}" in same), None):
            raise InputError(
                f"the loop {name!r} has two bounds: {bound}, and {bounds[other]} as {other!r}",
                "state one",
            )
        for position in reversed(range(len(model.metadata_props))):
            if model.metadata_props[position].key in same:
                del model.metadata_props[position]
        model.metadata_props.add(key=f"{_PREFIX}{name}", value=str(bound))


def names_of_loop(node: onnx.NodeProto) -> list[str]:
    """Return the names by which a bound may name a loop: those of its outputs and its own."""
    return [name for name in (*node.output, node.name) if name]


def _loops(model: onnx.ModelProto) -> Iterator[list[str]]:
    """Yield the names of each loop of a model, those in graphs and functions included."""
    yield from _of_nodes(model.graph.node)
    for function in model.functions:
        yield from _of_nodes(function.node)


def _of_nodes(nodes: list[onnx.NodeProto]) -> Iterator[list[str]]:
    for node in nodes:
        if node.op_type == "Loop":
            yield names_of_loop(node)
        for attribute in node.attribute:
            for graph in ([attribute.g] if attribute.HasField("g") else []) + [*attribute.graphs]:
                yield from _of_nodes(graph.node)
