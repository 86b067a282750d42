"""EXTERNAL: a subgraph that code from outside the compiler computes (:mod:`hilc.external`).

Inputs and outputs are those of the subgraph, by position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hilc.external import EXTERNAL, ExternalModule
from hilc.ir import Array, Attributes, Graph, Node, Tensor
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import invalid, require_counts


@dataclass(frozen=True, kw_only=True)
class ExternalAttributes(Attributes):
    """Attributes of a node that an external module computes."""

    #: The subgraph, which holds its own constants.
    graph: Graph
    module: ExternalModule
    #: The name of who made the module.
    generator: str
    #: The interface of operators by which its function is called.
    api: str


def subgraph(node: Node) -> Graph:
    """Return the graph that an external node computes."""
    return ExternalAttributes.of(node).graph


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    graph = subgraph(node)
    require_counts(node, inputs=len(graph.inputs), outputs=len(graph.outputs))
    for tensor, name in zip(ins, graph.inputs, strict=True):
        _require_same(node, tensor, graph.tensors[name])
    return [(graph.tensors[name].shape, graph.tensors[name].dtype) for name in graph.outputs]


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    graph = subgraph(node)
    for tensor, name in zip(outs, graph.outputs, strict=True):
        _require_same(node, tensor, graph.tensors[name])


def _require_same(node: Node, tensor: Tensor | None, inside: Tensor) -> None:
    """Refuse a tensor that is another than its subgraph was made for; names may differ."""
    meaning = (inside.shape, inside.dtype, inside.quant)
    if tensor is None or (tensor.shape, tensor.dtype, tensor.quant) != meaning:
        invalid(
            node,
            f"was made for {inside.name!r}, {inside.dtype}{list(inside.shape)} with {inside.quant}",
        )


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    raise AssertionError("the interpreter runs the subgraph")


EXTERNAL_NODE = OpDef(_infer, _reference, _check, attributes=ExternalAttributes, subgraph=subgraph)

OPERATORS: Mapping[str, OpDef] = {
    EXTERNAL: EXTERNAL_NODE,
}
