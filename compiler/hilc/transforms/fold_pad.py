"""Folding of PAD into convolutions, which avoids a padded copy of the tensor in RAM."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hilc.ir import Graph, Node
from hilc.ops import OPS
from hilc.ops.attributes import WindowAttributes
from hilc.ops.geometry import MAX_ADDED_POSITIONS
from hilc.ops.traits import WindowRows
from hilc.ops.views import ReshapeAttributes

#: Axes of images.
_IMAGE = 4


def fold_pad(graph: Graph) -> Graph:
    """Let a convolution read the input of the PAD before it, with the padding as its own.

    Both pad with the real value zero, so every sum is the same. A PAD is folded only if all its
    readers can take it over: otherwise both its input and its output would be live.
    """
    graph = _views_first(graph)
    readers, results = graph.consumers(), frozenset(graph.results)
    #: Replacements of nodes of the graph, by name.
    replacements: dict[str, tuple[Node, ...]] = {}
    for pad in graph.nodes:
        if OPS[pad.op].explicit_padding is None or pad.name in results:
            continue
        folded = [_folded(graph, pad, reader) for reader in readers.get(pad.name, ())]
        if folded and None not in folded:
            replacements[pad.name] = ()
            replacements.update({node.name: (node,) for node in folded if node})
    nodes = (n for node in graph.nodes for n in replacements.get(node.name, (node,)))
    return graph.with_(nodes=tuple(nodes))


def _views_first(graph: Graph) -> Graph:
    """Return the graph with each PAD behind the view that gives its output an axis of one element,
    which is how files pad the sequence that a convolution of images reads.
    """
    readers, results = graph.consumers(), frozenset(graph.results)
    tensors = dict(graph.tensors)
    #: Replacements of nodes of the graph, by name.
    replacements: dict[str, tuple[Node, ...]] = {}
    for pad in graph.nodes:
        explicit_padding = OPS[pad.op].explicit_padding
        views = readers.get(pad.name, ())
        if explicit_padding is None or pad.name in results or len(views) != 1:
            continue
        source, (view,) = graph.tensors[pad.inputs[0]], views
        padded, viewed = graph.tensors[pad.name], graph.tensors[view.name]
        axis = _added_axis(padded.shape, viewed.shape)
        if not OPS[view.op].view or view.inputs[0] != pad.name or axis is None:
            continue
        amounts = np.insert(explicit_padding(pad, graph.ins(pad)), axis, 0, axis=0)
        given = graph.tensors[pad.inputs[1]]
        shape = (*source.shape[:axis], 1, *source.shape[axis:])
        before, around = f"{pad.name}.viewed", f"{pad.name}.around"
        tensors[before] = replace(source, name=before, shape=shape)
        tensors[around] = replace(
            given, name=around, shape=amounts.shape, data=amounts.astype(given.dtype)
        )
        attrs = ReshapeAttributes(new_shape=shape)
        replacements[pad.name] = (
            Node("RESHAPE", (source.name,), (before,), attrs, pad.index),
            replace(pad, inputs=(before, around), outputs=(view.name,)),
        )
        replacements[view.name] = ()
        del tensors[pad.name]
    nodes = (n for node in graph.nodes for n in replacements.get(node.name, (node,)))
    return graph.with_(tensors=tensors, nodes=tuple(nodes)) if replacements else graph


def _added_axis(shape: tuple[int, ...], viewed: tuple[int, ...]) -> int | None:
    """Return the axis of one element by which ``viewed`` has more than ``shape``; None if there is
    no such axis.
    """
    axes = range(1, len(viewed))
    found = (a for a in axes if viewed[a] == 1 and (*viewed[:a], *viewed[a + 1 :]) == shape)
    return next(found, None) if len(viewed) == _IMAGE else None


def _folded(graph: Graph, pad: Node, reader: Node) -> Node | None:
    """Return ``reader`` with the padding of ``pad`` as its own; None if it does not support
    that.
    """
    spatial, op = _spatial(graph, pad), OPS[reader.op]
    # Only sums treat padding as zeros; pooling leaves it out.
    if op.weights is None or not isinstance(op.rows, WindowRows):
        return None
    if reader.inputs[0] != pad.name or not spatial:
        return None
    source, padded = (graph.tensors[n] for n in (pad.inputs[0], pad.name))
    own = op.rows.window(reader, graph.ins(reader))
    top, bottom, left, right = spatial
    attrs = replace(
        WindowAttributes.of(reader),
        padding=(
            top + own.h.pad_before,
            bottom + own.h.pad_after,
            left + own.w.pad_before,
            right + own.w.pad_after,
        ),
    )
    added = padded.shape[1] * padded.shape[2] - source.shape[1] * source.shape[2]
    if added + own.added_positions > MAX_ADDED_POSITIONS:
        return None
    return replace(reader, inputs=(source.name, *reader.inputs[1:]), attrs=attrs)


def _spatial(graph: Graph, pad: Node) -> tuple[int, int, int, int] | None:
    """Return the rows and columns that ``pad`` adds: top, bottom, left, right; None if it pads
    other axes.
    """
    source, explicit_padding = graph.tensors[pad.inputs[0]], OPS[pad.op].explicit_padding
    if explicit_padding is None or len(source.shape) != _IMAGE:
        return None
    if source.quant != graph.tensors[pad.name].quant:
        return None
    batch, rows, columns, channels = explicit_padding(pad, graph.ins(pad)).tolist()
    if any((*batch, *channels)):
        return None
    return (*rows, *columns)
