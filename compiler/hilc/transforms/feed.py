"""Feeding by rows: a FEED node behind the input, whose rows the caller brings a few at a time.

A fused group takes the node in (:mod:`hilc.fusion`), so that of the input only the rows exist that
its first layers need at once.
"""

from __future__ import annotations

from dataclasses import replace

from hilc.errors import InputError
from hilc.ir import Graph, Node
from hilc.ops import OPS

#: Permutation of [1, channels, height, width] to the order of operators on images.
_CHANNELS_BEHIND = (0, 2, 3, 1)
_HINT = "give the input as a whole: feed=whole"


def with_feed(graph: Graph) -> Graph:
    """Return the graph with a FEED node behind its input and the views of it.

    Raise :class:`~hilc.errors.InputError` where the input is no image, or not the only one.
    """
    if len(graph.inputs) != 1:
        raise InputError(
            f"{graph.name!r} has {len(graph.inputs)} inputs, and rows are fed to a model of one",
            _HINT,
        )
    if any(OPS[node.op].control for node in graph.nodes):
        raise InputError(
            f"{graph.name!r} calls graphs (IF, WHILE), which take their tensors as a whole", _HINT
        )
    name, consumers = graph.inputs[0], graph.consumers()
    while name not in graph.results and len(readers := consumers.get(name, ())) == 1:
        if not OPS[readers[0].op].view:
            break
        name = readers[0].name
    source = graph.tensors[name]
    if len(source.shape) != 4 or source.shape[0] != 1:
        raise InputError(
            f"the input {graph.inputs[0]!r} of {graph.name!r} is computed as {source.dtype}"
            f"{list(source.shape)}, which has no rows: a row is a slice along axis 1 of one image, "
            "[1, height, width, channels]",
            "export the model with an input of that shape, with 1 for a dimension that it lacks, "
            "or give the input as a whole: feed=whole",
        )
    if name in graph.results or not consumers.get(name):
        raise InputError(
            f"no layer of {graph.name!r} takes in the rows of the input {graph.inputs[0]!r}, or "
            "an output or a state holds it as a whole",
            _HINT,
        )
    if _is_channels_first(graph, name):
        raise InputError(
            f"the input {graph.inputs[0]!r} of {graph.name!r}, {source.dtype}"
            f"{list(source.shape)}, has its channels before its pixels: a row is a slice along "
            f"axis 1, here one of {source.shape[1]} planes of channels, not of an image [1, "
            "height, width, channels]",
            "export the model with its channels behind the pixels, or give the input as a whole: "
            "feed=whole",
        )
    fed = f"{name}:rows"
    while fed in graph.tensors:
        fed += "_"
    first = min(graph.nodes.index(node) for node in consumers[name])
    nodes = [
        replace(node, inputs=tuple(fed if n == name else n for n in node.inputs))
        for node in graph.nodes
    ]
    nodes.insert(first, Node("FEED", (name,), (fed,), index=nodes[first].index))
    tensors = {**graph.tensors, fed: replace(source, name=fed)}
    return graph.with_(tensors=tensors, nodes=tuple(nodes))


def _is_channels_first(graph: Graph, name: str) -> bool:
    """Return whether layers put the channels of ``name`` behind its pixels before they look at
    pixels.
    """
    consumers, known, pending = graph.consumers(), {name}, [name]
    while pending:
        for node in consumers.get(pending.pop(), ()):
            operator = OPS[node.op]
            if operator.axis_order is not None:
                if operator.axis_order(node, graph.ins(node)) == _CHANNELS_BEHIND:
                    return True
            elif operator.permuted is not None:
                # It does not care which axis is which.
                pending += [n for n in node.outputs if n not in known]
                known.update(node.outputs)
    return False


def fed_node(graph: Graph) -> Node | None:
    """Return the node whose input the caller feeds row by row; None if the inputs are whole."""
    return next((node for node in graph.nodes if OPS[node.op].fed), None)
