"""Removal of nodes and tensors that no output of the graph depends on."""

from __future__ import annotations

from hilc.ir import Graph


def remove_dead(graph: Graph) -> Graph:
    """Drop nodes without readers of their outputs, and tensors that no node names.

    Inputs stay, and states with the nodes that update them: the caller may set and read them.
    """
    needed = set(graph.results)
    kept = []
    for node in reversed(graph.nodes):
        if needed.isdisjoint(node.outputs):
            continue
        kept.append(node)
        needed.update(name for name in node.inputs if name)
        # A node with one live output still writes its unread ones.
        needed.update(node.outputs)
    needed.update(graph.given)
    tensors = {name: tensor for name, tensor in graph.tensors.items() if name in needed}
    return graph.with_(tensors=tensors, nodes=tuple(reversed(kept)))
