"""The work of a program's steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hilc.artifact.work import Work
from hilc.fusion.call import FusedCall
from hilc.ir import Graph, Node
from hilc.memory.program import Step
from hilc.ops import OPS
from hilc.target import MULTIPLIED


def work_of(graph: Graph, step: Step) -> Work:
    """Return the work of a step of a program of ``graph``."""
    products: Counter[str] = Counter()
    for node, macs in zip(step.nodes, _macs(graph, step), strict=True):
        if macs:
            products[_operands(graph, node)] += macs
    outside = {name for name in (*step.inputs, *step.outputs) if graph.tensors[name].data is None}
    return Work(
        products=dict(products),
        nbytes=sum(graph.tensors[name].nbytes for name in outside | _constants(graph, step.nodes)),
        requantized=sum(_requantized(graph, node) for node in step.nodes),
    )


def _macs(graph: Graph, step: Step) -> list[int]:
    """Return the multiply-accumulates of each node of the step."""
    if not isinstance(step.call, FusedCall):
        return [step.call.macs]
    found = [0] * len(step.nodes)
    for entry in step.call.entries:
        found[step.call.stages[entry.stage].layer] += entry.call.macs
    return found


def _operands(graph: Graph, node: Node) -> str:
    """Return the type of which a node's products are."""
    dtype = graph.tensors[node.inputs[0]].dtype
    # Signed and unsigned bytes are multiplied by the same instructions.
    signed = dtype.removeprefix("u")
    return signed if signed in MULTIPLIED else dtype


def _constants(graph: Graph, nodes: Sequence[Node]) -> set[str]:
    """Return the constants that the nodes compute with: not those that say how to move elements."""
    return {
        name
        for node in nodes
        if not OPS[node.op].copies_elements
        for name in node.inputs
        if name and graph.tensors[name].data is not None
    }


def _requantized(graph: Graph, node: Node) -> int:
    """Return the outputs that a node computes as integers of another scale."""
    if OPS[node.op].copies_elements or OPS[node.op].view:
        return 0
    outs = [graph.tensors[name] for name in node.outputs]
    return sum(out.size for out in outs if out.quant is not None)
