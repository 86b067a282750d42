"""EXTERNAL: a subgraph that code from outside the compiler computes (:mod:`hilc.external`).

Inputs and outputs are those of the subgraph, by position. Attributes: ``graph`` (the subgraph, a
:class:`~hilc.ir.Graph` that holds its own constants), ``module``
(:class:`~hilc.external.ExternalModule`), ``generator`` (the name of who made it), ``api`` (how its
function is called).
"""

from __future__ import annotations

from collections.abc import Sequence

from hilc.external import ExternalCall, ExternalModule
from hilc.ir import Array, Graph, Node, Tensor
from hilc.ops.opdef import OpDef, Signature, only
from hilc.ops.operands import attribute, invalid, require_counts
from hilc.target import Cpu


def _graph(node: Node) -> Graph:
    graph: Graph = attribute(node, "graph", Graph)
    return graph


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    graph = _graph(node)
    attribute(node, "module", ExternalModule)
    require_counts(node, inputs=len(graph.inputs), outputs=len(graph.outputs))
    for tensor, name in zip(ins, graph.inputs, strict=True):
        _require_same(node, tensor, graph.tensors[name])
    return [(graph.tensors[name].shape, graph.tensors[name].dtype) for name in graph.outputs]


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    graph = _graph(node)
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
    # The interpreter itself asks the operator table, of which this is a row.
    from hilc.interpreter import run

    graph = _graph(node)
    inputs = {
        name: value for name, value in zip(graph.inputs, values, strict=True) if value is not None
    }
    results = run(graph, inputs)
    return [results[name] for name in graph.outputs]


def _emit(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], cpu: Cpu
) -> ExternalCall:
    # As above.
    from hilc.ops import OPS

    graph = _graph(node)
    macs = sum(
        OPS[inner.op].emit(inner, graph.ins(inner), graph.outs(inner), cpu)[0].macs
        for inner in graph.nodes
    )
    return ExternalCall(node.attrs["module"], tuple(range(len(node.inputs))), macs)


EXTERNAL_NODE = OpDef(_infer, _reference, only(_emit), check=_check)
