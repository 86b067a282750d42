"""EXTERNAL: a subgraph that code from outside the compiler computes (:mod:`hilc.external`).

Inputs and outputs are those of the subgraph, by position. Attributes: ``graph`` (the subgraph, a
:class:`~hilc.ir.Graph` that holds its own constants), ``module``
(:class:`~hilc.external.ExternalModule`), ``generator`` (the name of who made it), ``api`` (how its
function is called).
"""

from __future__ import annotations

from collections.abc import Sequence

from hilc.external import ExternalModule
from hilc.ir import Array, Graph, Node, Tensor
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import attribute, invalid, require_counts


def subgraph(node: Node) -> Graph:
    graph: Graph = attribute(node, "graph", Graph)
    return graph


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    graph = subgraph(node)
    attribute(node, "module", ExternalModule)
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


EXTERNAL_NODE = OpDef(_infer, _reference, check=_check, subgraph=subgraph)
