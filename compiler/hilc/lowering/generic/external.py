"""EXTERNAL: the function of a generator from outside."""

from __future__ import annotations

from hilc.external import ExternalCall
from hilc.lowering.registry import Layer, candidates, lowers
from hilc.ops.external import ExternalAttributes


@lowers("EXTERNAL")
def external(layer: Layer) -> ExternalCall:
    """Return the generator's function; it counts the multiply-accumulates of our own kernels."""
    attributes = ExternalAttributes.of(layer.node)
    graph = attributes.graph
    macs = sum(
        candidates(inner, graph.ins(inner), graph.outs(inner), layer.cpu)[0].macs
        for inner in graph.nodes
    )
    return ExternalCall(attributes.module, tuple(range(len(layer.node.inputs))), macs)
