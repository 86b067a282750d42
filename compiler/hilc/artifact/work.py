"""The work of a layer, whatever kernel does it, and the instructions that a core cannot do it with
fewer of: its limit.

The limit counts each product, each byte of weights, inputs and outputs, and the requantization of
each output once, in the widest instructions of the core (:class:`hilc.target.Limit`). It counts no
loop, no address, no widening of operands. Kernels that change the arithmetic (Winograd's
convolution, several sums in a word) do with fewer products than the model has, and can go below it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from hilc.fusion.call import FusedCall
from hilc.ir import Graph, Node
from hilc.memory.program import Step
from hilc.ops import OPS
from hilc.target import MULTIPLIED, Cpu

#: Instructions of a requantization: a product with its rounding, a shift, a bound.
REQUANTIZATION = 3


@dataclass(frozen=True)
class Work:
    """Least work of a layer, or of a fused group together."""

    #: Products by the type of their operands.
    products: Mapping[str, int]
    #: Weights and biases, inputs and outputs; of a group without the tensors between its layers.
    nbytes: int
    #: Outputs that are requantized, of every layer of a group.
    requantized: int


def limit(work: Work, cpu: Cpu) -> int | None:
    """Return the limit on ``cpu``, in instructions; None where the core's description has none, or
    it has no instruction for a product.
    """
    if cpu.limit is None or work.products.keys() - cpu.limit.products.keys():
        return None
    return ceil(
        sum(count / cpu.limit.products[dtype] for dtype, count in work.products.items())
        + work.nbytes / cpu.limit.bytes
        + REQUANTIZATION * work.requantized / cpu.limit.sums
    )


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
