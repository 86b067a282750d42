"""Invariants of a graph before and after every pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import prod

import numpy as np
import numpy.typing as npt

from hilc.errors import ModelError, UnsupportedError, shortened
from hilc.ir import Array, Graph, Node, Rounding, State, Tensor
from hilc.ir.dtypes import INDEX_TYPES
from hilc.ops import OPS
from hilc.ops.attributes import accepts, describe_type
from hilc.ops.opdef import Signature
from hilc.ops.operands import invalid

#: No microcontroller has as much RAM: a tensor beyond that is a damaged shape.
MAX_TENSOR_BYTES = 1 << 26
#: Bytes of the computed tensors of one operator, which are in RAM at once. The proof that a plan of
#: memory is right takes about 50 bytes for each.
MAX_COMPUTED_BYTES = 1 << 24


def verify(graph: Graph, before: Graph | None = None) -> None:
    """Raise :class:`~hilc.errors.ModelError` unless ``graph`` is well formed.

    Every tensor is a constant, an input, a state, or written by exactly one earlier node; the
    shapes and types are those that the operators infer; quantization is there where it is needed;
    every output of the graph is computed.

    What stands in ``before`` too, a graph that was verified, is not looked at again by itself.
    """
    verify_flow(graph, before)
    known = {} if before is None else {id(node): node for node in before.nodes}
    for node in graph.nodes:
        names = (*filter(None, node.inputs), *node.outputs)
        if id(node) not in known or not all(_stands_in(before, graph.tensors[n]) for n in names):
            check_node(graph, node)


def _stands_in(before: Graph | None, tensor: Tensor) -> bool:
    """Return whether ``before`` has the very same tensor."""
    return before is not None and before.tensors.get(tensor.name) is tensor


def verify_flow(graph: Graph, before: Graph | None = None) -> None:
    """Check the part of :func:`verify` that asks no operator: tensors, and who writes and reads
    them.

    Raise :class:`~hilc.errors.ModelError` for the first violation.
    """
    verify_order(graph, before)
    _check_unique(graph.outputs, "output")
    computed = {name for node in graph.nodes for name in node.outputs}
    for name in graph.outputs:
        if name not in computed:
            raise ModelError(f"no operator computes the model's output {name!r}")


def verify_order(graph: Graph, before: Graph | None = None) -> None:
    """Check the part of :func:`verify_flow` that lets outputs be inputs, constants, or named
    twice.

    Raise :class:`~hilc.errors.ModelError` for the first violation.
    """
    for name, tensor in graph.tensors.items():
        if name != tensor.name:
            raise ModelError(f"tensor {tensor.name!r} is listed under the name {name!r}")
        if not _stands_in(before, tensor):
            check_tensor(tensor)
    _check_unique(graph.inputs, "input")
    for name in graph.inputs:
        if _tensor(graph, name, "the model's inputs").is_constant:
            raise ModelError(f"the model's input {name!r} is a constant")
    _check_unique((state.name for state in graph.states), "state")
    for state in graph.states:
        _check_state(graph, state)
    written = set(graph.given)
    for node in graph.nodes:
        label = describe(node)
        for name in filter(None, node.inputs):
            if not _tensor(graph, name, label).is_constant and name not in written:
                raise ModelError(f"{label} reads {name!r} before any operator writes it")
        for name in node.outputs:
            if _tensor(graph, name, label).is_constant:
                raise ModelError(f"{label} writes the constant {name!r}")
            if name in written:
                raise ModelError(f"{label} writes {name!r}, which already has a value")
            written.add(name)
    for name in graph.outputs:
        _tensor(graph, name, "the model's outputs")
    for state in graph.states:
        if not graph.tensors[state.after].is_constant and state.after not in written:
            raise ModelError(
                f"no operator computes {state.after!r}, the new value of the state {state.name!r}"
            )
    if not graph.outputs:
        raise ModelError("the model has no output")


def _check_state(graph: Graph, state: State) -> None:
    """Raise unless a state's tensors are of one kind, and its reset value is of it."""
    label = f"the state {state.name!r}"
    before, after = _tensor(graph, state.name, label), _tensor(graph, state.after, label)
    if before.is_constant or state.name in graph.inputs:
        what = "a constant" if before.is_constant else "an input of the model"
        raise ModelError(f"{label} is {what}")
    kinds = [(t.shape, t.dtype, t.quant) for t in (before, after)]
    if kinds[0] != kinds[1]:
        raise ModelError(
            f"{label} is {_type(kinds[0][:2])} with {before.quant}, its new value {after.name!r} "
            f"{_type(kinds[1][:2])} with {after.quant}"
        )
    reset = graph.reset_value(state)
    if reset.shape != before.shape or reset.dtype != np.dtype(before.dtype):
        raise ModelError(
            f"{label} is {_type(kinds[0][:2])}, its reset value {reset.dtype}{list(reset.shape)}"
        )


def describe(node: Node) -> str:
    """Return the node as messages call it: position in the file and operator."""
    return f"operator {node.index} ({node.op})"


def _check_computed(graph: Graph, node: Node) -> None:
    """Raise if a node's tensors or computation exceed any microcontroller's memory."""
    # A view is where its operand is.
    names = {*node.outputs, *(() if OPS[node.op].view else filter(None, node.inputs))}
    tensors = [graph.tensors[name] for name in names if not graph.tensors[name].is_constant]
    nbytes = sum(tensor.nbytes for tensor in tensors)
    if nbytes > MAX_COMPUTED_BYTES:
        raise UnsupportedError(
            f"{describe(node)} takes and computes {nbytes} bytes at once (accepted: "
            f"{MAX_COMPUTED_BYTES})",
            "make the model's input smaller, or quantize the model to int8",
        )


def check_node(graph: Graph, node: Node) -> None:
    """Raise unless the node's tensors have the types and shapes that its operator accepts and
    infers.
    """
    label = describe(node)
    if node.op not in OPS:
        raise UnsupportedError(f"{label} is not supported", f"supported are {', '.join(OPS)}")
    for tensor in graph.ins(node):
        # A list of axes or sizes may be empty; no kernel computes on nothing.
        is_list = tensor and tensor.dtype in INDEX_TYPES and len(tensor.shape) == 1
        if tensor and not tensor.size and not is_list and not OPS[node.op].ignores_empty:
            raise UnsupportedError(
                f"{label} takes {tensor.name!r}, {_type((tensor.shape, tensor.dtype))}, which "
                "holds no element",
                "remove the operator from the model",
            )
    _check_computed(graph, node)
    with located(label):
        check_attributes(node)
        for called in OPS[node.op].called_graphs(node):
            verify(called)
        inferred = OPS[node.op].infer(node, graph.ins(node))
    declared: list[Signature] = [(t.shape, t.dtype) for t in graph.outs(node)]
    roundings = OPS[node.op].roundings
    if OPS[node.op].on_vectors(node, graph.ins(node)):
        roundings |= {Rounding.SINGLE}
    if node.rounding not in roundings:
        raise UnsupportedError(
            f"{label} does not support rounding {node.rounding.value!r} (supported: "
            f"{', '.join(policy.value for policy in Rounding if policy in roundings)})",
            "state a policy of these on the node",
        )
    if len(inferred) != len(declared):
        raise ModelError(f"{label} has {len(declared)} outputs but computes {len(inferred)}")
    for name, had, computed in zip(node.outputs, declared, inferred, strict=True):
        if had[0] == computed[0] and had[1] != computed[1]:
            raise UnsupportedError(
                f"{label} computes {_type(computed)} but {name!r} is declared {_type(had)}",
                "this mix of types is not supported: convert the model with the type of the "
                "inputs, and a QUANTIZE or CAST behind the operator",
            )
        if had != computed:
            raise ModelError(
                f"{label} computes {_type(computed)} but {name!r} is declared {_type(had)}",
                "the file is damaged, or was exported with dynamic shapes: fix the input's shape",
            )
    with located(label):
        OPS[node.op].check(node, graph.ins(node), graph.outs(node))


def check_attributes(node: Node) -> None:
    """Raise unless the node's attributes are of its operator's class, with accepted values."""
    op, stated = OPS[node.op], type(node.attrs)
    if stated is not op.attributes:
        invalid(
            node,
            f"has attributes of class {stated.__name__} (accepted: {op.attributes.__name__})",
        )
    for name, accepted in op.attribute_types.items():
        value = getattr(node.attrs, name)
        if not accepts(accepted, value):
            invalid(
                node, f"has the attribute {name} = {value!r} (accepted: {describe_type(accepted)})"
            )


@contextmanager
def located(label: str) -> Iterator[None]:
    """Put ``label`` in front of an operator's complaint."""
    try:
        yield
    except ModelError as error:
        error.fact = shortened(f"{label}: {error.fact}")
        raise


def _type(signature: Signature) -> str:
    shape, dtype = signature
    return f"{dtype}{list(shape)}"


def _tensor(graph: Graph, name: str, label: str) -> Tensor:
    try:
        return graph.tensors[name]
    except KeyError:
        raise ModelError(f"{label}: there is no tensor {name!r}") from None


def _check_unique(names: Iterable[str], role: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ModelError(
                f"tensor {name!r} is listed twice as {role} of the model", "list it once"
            )
        seen.add(name)


def no_elements(name: str, shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
    """Return the data of a tensor that has none: one of its sizes is 0.

    The others are multiplied nevertheless, by numpy in integers that end.
    """
    if prod(size for size in shape if size) > MAX_TENSOR_BYTES:
        raise ModelError(
            f"tensor {name!r} with shape {list(shape)} has no elements, but sizes beyond any "
            "that may ever fit a microcontroller"
        )
    return np.zeros(shape, dtype)


def check_tensor(tensor: Tensor) -> None:
    """Raise unless the tensor may exist: its size, and its quantization for its type."""
    if tensor.nbytes > MAX_TENSOR_BYTES:
        raise ModelError(
            f"tensor {tensor.name!r} with shape {list(tensor.shape)} takes {tensor.nbytes} bytes, "
            f"more than the {MAX_TENSOR_BYTES} that may ever fit a microcontroller"
        )
    quant = tensor.quant
    if quant is None:
        return
    if not tensor.element.may_have_scale:
        raise ModelError(f"tensor {tensor.name!r} is {tensor.dtype} but has a quantization")
    low, high = tensor.element.bounds
    for zero_point in quant.zero_point:
        if not low <= zero_point <= high:
            raise ModelError(
                f"tensor {tensor.name!r} has zero point {zero_point}, outside of {tensor.dtype} "
                f"({low} to {high})"
            )
    if quant.per_tensor:
        return
    if not tensor.is_constant:
        raise UnsupportedError(
            f"tensor {tensor.name!r} is computed but quantized per channel; only constants can be",
            "quantize activations per tensor",
        )
    if not 0 <= quant.axis < len(tensor.shape) or tensor.shape[quant.axis] != len(quant.scale):
        raise ModelError(
            f"tensor {tensor.name!r} with shape {list(tensor.shape)} has {len(quant.scale)} scales "
            f"along axis {quant.axis}"
        )
