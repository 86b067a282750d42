"""IF and WHILE: graphs that are called by what a tensor holds.

IF takes a bool and what both branches take; it gives what the branch gives. WHILE takes and gives
the variables of a loop: as long as its condition, a graph of them, gives true, the body, another
graph, makes the next variables of them. A condition may give next values of the last variables
itself, behind its bool. Operands after the variables stay as they are: both graphs take them, and
the node does not give them.

Graphs are called with a workspace in the scratch of the node, and may have such nodes themselves. A
loop without a bound ends on a board when its condition says so, or the host gives the run up
(``run_timeout_s``); one with a bound fails where it would exceed that, and the model's run with it,
with a status of its own.
Layer by layer, such a node is one layer. States of the graphs are operands of the node
(:mod:`hilc.transforms.carried_states`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hilc.errors import HilError, LoopBoundError
from hilc.ir import Array, Attributes, Graph, Node, Tensor
from hilc.ir.loop_bounds import LoopBound
from hilc.ops.opdef import Control, OpDef, RunGraph, Signature
from hilc.ops.operands import invalid, operand, require_dtype

#: Iterations after which the interpreter considers a loop endless.
MAX_ITERATIONS = 1 << 20


@dataclass(frozen=True, kw_only=True)
class IfAttributes(Attributes):
    """Attributes of IF: its two branches."""

    #: The graph that runs where the condition holds.
    then: Graph
    #: The graph that runs where it does not.
    otherwise: Graph


@dataclass(frozen=True, kw_only=True)
class WhileAttributes(Attributes):
    """Attributes of WHILE: its condition and body."""

    #: Whether there is another iteration: a graph from all operands to one bool, and to the values
    #: of the last variables that it updates.
    condition: Graph
    #: An iteration: a graph from all operands to the next variables.
    body: Graph
    #: The most iterations; more of them are an error. None for any number.
    bound: LoopBound | None = field(default=None, metadata={"added": True})


def branches(node: Node) -> tuple[Graph, ...]:
    """Return the graphs of an IF."""
    attributes = IfAttributes.of(node)
    return attributes.then, attributes.otherwise


def parts(node: Node) -> tuple[Graph, ...]:
    """Return the graphs of a WHILE: condition and body."""
    attributes = WhileAttributes.of(node)
    return attributes.condition, attributes.body


def _infer_if(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    condition = operand(node, ins, 0)
    _require_bool(node, condition)
    for graph in branches(node):
        _require_inputs(node, graph, ins[1:])
    then, otherwise = branches(node)
    _require_alike(node, "its branches", _outputs(then), _outputs(otherwise))
    return [(t.shape, t.dtype) for t in _outputs(then)]


def _infer_while(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    condition, body = parts(node)
    for graph in (condition, body):
        _require_inputs(node, graph, ins)
    results = _outputs(condition)
    updated = _outputs(body)
    variables = [body.tensors[name] for name in body.inputs[: len(updated)]]
    if not 1 <= len(results) <= 1 + len(variables):
        invalid(node, f"has a condition of {len(results)} outputs; it must be one, a bool")
    _require_bool(node, results[0])
    kept = results[1:]
    last = variables[len(variables) - len(kept) :]
    _require_alike(node, "outputs of its condition and its last variables", kept, last)
    _require_alike(node, "inputs and outputs of its body", variables, updated)
    return [(t.shape, t.dtype) for t in variables]


def _check_if(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    _require_alike(node, "it and its graph", outs, _outputs(branches(node)[0]))


def _check_while(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    _require_alike(node, "it and its graph", outs, _outputs(parts(node)[1]))


def _outputs(graph: Graph) -> list[Tensor]:
    return [graph.tensors[name] for name in graph.outputs]


def _require_bool(node: Node, tensor: Tensor) -> None:
    require_dtype(node, tensor, ("bool",))
    if tensor.size != 1:
        invalid(
            node, f"has the condition {tensor.name!r} of {tensor.size} elements; it must be one"
        )


def _require_inputs(node: Node, graph: Graph, ins: Sequence[Tensor | None]) -> None:
    if graph.states:
        invalid(node, f"calls {graph.name!r}, which has states; they must be operands")
    given = [tensor for tensor in ins if tensor is not None]
    wanted = [graph.tensors[name] for name in graph.inputs]
    if len(given) != len(ins) or len(given) != len(wanted):
        invalid(node, f"hands {len(given)} tensors to {graph.name!r}, which takes {len(wanted)}")
    _require_alike(node, f"it and {graph.name!r}", given, wanted)


def _require_alike(
    node: Node, what: str, first: Sequence[Tensor], second: Sequence[Tensor]
) -> None:
    kinds = [[(t.shape, t.dtype, t.quant) for t in tensors] for tensors in (first, second)]
    if kinds[0] != kinds[1]:
        shown = " and ".join(
            str([f"{dtype}{list(shape)}" for shape, dtype, _ in kind]) for kind in kinds
        )
        invalid(node, f"has other tensors, or other scales, in {what}: {shown}")


def _run_if(node: Node, operands: Sequence[Array | None], run: RunGraph) -> list[Array]:
    condition, *given = operands
    assert condition is not None
    then, otherwise = branches(node)
    return run(then if condition.item() else otherwise, given)


def _run_while(node: Node, operands: Sequence[Array | None], run: RunGraph) -> list[Array]:
    condition, body = parts(node)
    values = [value for value in operands if value is not None]
    count = len(node.outputs)
    variables, fixed = values[:count], values[count:]
    bound = WhileAttributes.of(node).bound
    most = MAX_ITERATIONS if bound is None else bound.turns
    for iteration in range(most + 1):
        goes_on, *kept = run(condition, [*variables, *fixed])
        variables[len(variables) - len(kept) :] = kept
        if not goes_on.item():
            return variables
        if iteration < most:
            variables = run(body, [*variables, *fixed])
    if bound is not None:
        raise LoopBoundError.of(bound.name, bound.turns)
    raise HilError(
        f"{node.op} {node.name!r} has not ended after {most} iterations",
        "look for a condition that never becomes false",
    )


def _reference(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    raise AssertionError("the interpreter runs the graphs")


IF = OpDef(
    _infer_if,
    _reference,
    _check_if,
    attributes=IfAttributes,
    control=Control(branches, _run_if, loops=False),
)
WHILE = OpDef(
    _infer_while,
    _reference,
    _check_while,
    attributes=WhileAttributes,
    control=Control(parts, _run_while, loops=True),
)

OPERATORS: Mapping[str, OpDef] = {
    "IF": IF,
    "WHILE": WHILE,
}
