"""Resolution of shape arithmetic in a file, and of the shapes that it leaves open.

Converters of models with an open batch express shapes as arithmetic: SHAPE, a few operators on
small integer vectors, and a RESHAPE to the result. Since every shape is known here, all of that is
constant, and so is what vanishes (:mod:`hilc.transforms.vanishing`). The operators of
:data:`CONSTANT_OPERATORS` exist here only: they are evaluated, and refused if an operand is only
known at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace

import numpy as np

from hilc.errors import ModelError, UnsupportedError
from hilc.ir import Array, Graph, Node, Tensor
from hilc.ir.dtypes import INDEX_TYPES
from hilc.ops import OPS
from hilc.ops.verify import check_attributes, check_tensor, describe, located
from hilc.support.identifiers import unused
from hilc.transforms.fold_constants import fold_node
from hilc.transforms.vanishing import vanished

#: Maximum number of elements, far above any shape arithmetic.
_MAX_SIZE = 1 << 16


def resolve_shapes(graph: Graph, open_shapes: Set[str]) -> Graph:
    """Return the graph without shape arithmetic, and with the shape of every tensor.

    ``open_shapes`` are the tensors whose shape in the file is a placeholder; the shape of a
    computed tensor follows from its operator.
    """
    tensors = dict(graph.tensors)
    kept: list[Node] = []
    results, outputs = {*graph.results}, {*graph.outputs}
    for node in graph.nodes:
        node = _with_stated_shape(node, tensors, open_shapes)
        ins = [tensors[name] if name else None for name in node.inputs]
        folded: Sequence[Tensor] | None = None
        if node.op in CONSTANT_OPERATORS:
            with located(describe(node)):
                folded = [_computed(node, ins, tensors[node.outputs[0]], open_shapes)]
        else:
            if not open_shapes.isdisjoint(node.outputs):
                with located(describe(node)):
                    tensors.update(_inferred(node, ins, tensors, open_shapes))
            if results.isdisjoint(node.outputs):
                folded = vanished([tensors[name] for name in node.outputs])
            if folded is None:
                folded = fold_node(node, tensors, outputs)
        if folded is None:
            kept.append(node)
        else:
            tensors.update({tensor.name: tensor for tensor in folded})
    return graph.with_(tensors=tensors, nodes=tuple(kept))


def _with_stated_shape(node: Node, tensors: dict[str, Tensor], open_shapes: Set[str]) -> Node:
    """Return a node whose operand with the shape of the output is a constant, which is added to
    ``tensors``, where it is computed and the file states the shape of the output.
    """
    place = OPS[node.op].states_shape if node.op in OPS else None
    if place is None or place >= len(node.inputs) or not node.inputs[place]:
        return node
    stated, out = tensors[node.inputs[place]], tensors[node.outputs[0]]
    if stated.is_constant or out.name in open_shapes or stated.dtype not in INDEX_TYPES:
        return node
    name = unused(f"{out.name}:shape", tensors)
    shape = np.array(out.shape, stated.dtype)
    shape.flags.writeable = False
    tensors[name] = Tensor(name, shape.shape, stated.dtype, data=shape)
    return replace(node, inputs=(*node.inputs[:place], name, *node.inputs[place + 1 :]))


def constant_values(graph: Graph, open_shapes: Set[str]) -> Mapping[str, Array]:
    """Return the tensors that depend on constants alone, by name."""
    resolved = resolve_shapes(graph, open_shapes)
    return {name: t.data for name, t in resolved.tensors.items() if t.data is not None}


def _inferred(
    node: Node,
    ins: Sequence[Tensor | None],
    tensors: Mapping[str, Tensor],
    open_shapes: Set[str],
) -> dict[str, Tensor]:
    """Return the outputs with open shapes, with the shapes that the operator infers."""
    check_attributes(node)
    signatures = OPS[node.op].infer(node, ins)
    found = {
        name: replace(tensors[name], shape=shape)
        for name, (shape, _) in zip(node.outputs, signatures, strict=False)
        if name in open_shapes
    }
    for tensor in found.values():
        check_tensor(tensor)
    return found


def _computed(
    node: Node, ins: Sequence[Tensor | None], declared: Tensor, open_shapes: Set[str]
) -> Tensor:
    if node.op in ("SHAPE", "RANK"):
        # Only the shape of these operands matters.
        (x,) = ins
        assert x is not None
        values: Array = np.array(x.shape if node.op == "SHAPE" else len(x.shape), np.int64)
    else:
        operands = [_constant(node, tensor) for tensor in ins]
        try:
            values = np.asarray(CONSTANT_OPERATORS[node.op](node, *operands))
        except (ArithmeticError, IndexError, TypeError, ValueError) as error:
            raise ModelError(
                f"it cannot be evaluated for {[x.tolist() for x in operands]}: {error}"
            ) from error
    if declared.name not in open_shapes and values.shape != declared.shape:
        raise ModelError(
            f"it computes shape {list(values.shape)}, not {declared.dtype}{list(declared.shape)}"
        )
    with np.errstate(all="ignore"):
        data = np.array(values, declared.dtype)
    data.flags.writeable = False
    return replace(declared, shape=data.shape, data=data)


def _constant(node: Node, tensor: Tensor | None) -> Array:
    if tensor is None:
        raise ModelError("it has a missing operand")
    if tensor.data is None:
        raise UnsupportedError(
            f"it reads {tensor.name!r} ({tensor.dtype}{list(tensor.shape)}), which is only "
            "known at run time",
            f"{node.op} is implemented for constants only, in shape arithmetic; "
            f"supported at run time: {', '.join(OPS)}",
        )
    return tensor.data


def _require_few(size: int) -> None:
    if size > _MAX_SIZE:
        raise ValueError(f"it has {size} elements; at most {_MAX_SIZE} are accepted")


def _range(node: Node, start: Array, limit: Array, delta: Array) -> Array:
    if not np.issubdtype(start.dtype, np.integer):
        raise UnsupportedError(f"it has operands of type {start.dtype}", "integers are supported")
    taken = range(*(int(x) for x in (start, limit, delta)))
    _require_few(len(taken))
    return np.array(taken, start.dtype)


def _broadcast_args(node: Node, a: Array, b: Array) -> Array:
    return np.array(np.broadcast_shapes(tuple(a.tolist()), tuple(b.tolist())), a.dtype)


#: Operators on constants.
CONSTANT_OPERATORS: Mapping[str, Callable[..., Array]] = {
    "SHAPE": lambda node, x: x,
    "RANK": lambda node, x: x,
    "RANGE": _range,
    "BROADCAST_ARGS": _broadcast_args,
}
