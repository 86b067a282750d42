"""EXTERNAL: the function of a generator from outside."""

from __future__ import annotations

from hilc.external import ExternalCall
from hilc.ir import Graph
from hilc.lowering.registry import Layer, candidates, lowers
from hilc.ops import OPS
from hilc.ops.external import ExternalAttributes
from hilc.target import Cpu


@lowers("EXTERNAL")
def external(layer: Layer) -> ExternalCall:
    """Return the generator's function; it counts the multiply-accumulates of our own kernels."""
    attributes = ExternalAttributes.of(layer.node)
    macs = _macs(attributes.graph, layer.cpu)
    return ExternalCall(attributes.module, tuple(range(len(layer.node.inputs))), macs)


def _macs(graph: Graph, cpu: Cpu) -> int:
    """Return those of a graph; of the graphs that a node calls, those of the largest, once."""
    total = 0
    for node in graph.nodes:
        if called := OPS[node.op].called_graphs(node):
            total += max(_macs(each, cpu) for each in called)
        else:
            total += candidates(node, graph.ins(node), graph.outs(node), cpu)[0].macs
    return total
