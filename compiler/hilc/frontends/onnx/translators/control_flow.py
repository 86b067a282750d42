"""Operators with graphs of their own.

A branch that is known stands in place of its node, and a loop whose turns can be counted is
unrolled. With a condition known only at run time they become IF and WHILE, which call graphs:
what these read of the graph around them is handed to them, constants excepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from hilc.frontends.onnx.loop_bounds import ACCEPTED
from hilc.frontends.onnx.operation import Operation, translates
from hilc.frontends.onnx.translators.movement import sliced
from hilc.ir import Tensor
from hilc.ir.loop_bounds import LoopBound
from hilc.ops.concat_split import ConcatenationAttributes
from hilc.ops.control_flow import IfAttributes, WhileAttributes
from hilc.ops.verify import MAX_TENSOR_BYTES

#: Operators whose results are known at compile time, whatever the values of their operands.
_OF_SHAPES = frozenset({"Shape", "Size"})


@translates("If")
def if_(n: Operation) -> list[Tensor | None]:
    """Compute the branch that a known condition takes, in place of the node; one that is known only
    at run time selects one of two graphs.
    """
    condition = n.input(0)
    if condition.data is None:
        return _chosen(n, condition)
    outputs: list[Tensor | None] = n.scope.inline(
        n.graph("then_branch" if condition.data.all() else "else_branch")
    )
    return outputs


def _chosen(n: Operation, condition: Tensor) -> list[Tensor | None]:
    """Return the outputs of the branch that a condition selects at run time."""
    scopes, results = [], []
    for name in ("then_branch", "else_branch"):
        scope = n.scope.called(_values_of(n.graph(name)))
        scopes.append(scope)
        results.append(scope.results(n.graph(name)))
    for name, then, other in zip(n.output_names, *results, strict=False):
        if (then.shape, then.dtype) != (other.shape, other.dtype):
            n.refuse_unknown(
                f"its condition {condition.name!r} is known only at run time, and its branches "
                f"give {name!r} as {then.dtype}{list(then.shape)} and "
                f"{other.dtype}{list(other.shape)}",
                "give both one type and shape",
                [condition],
            )
    outer = _captured(scopes)
    graphs = [
        scope.graph(name, [scope.adopted(tensor) for tensor in outer], outputs)
        for scope, name, outputs in zip(scopes, ("then", "else"), results, strict=True)
    ]
    attrs = IfAttributes(then=graphs[0], otherwise=graphs[1])
    quants = [graphs[0].tensors[name].quant for name in graphs[0].outputs]
    made = n.emit_all("IF", [condition, *outer], len(quants), attrs, quants)
    kinds = [scopes[0].builder.kind(tensor) for tensor in results[0]]
    return [n.builder.named(tensor, kind) for tensor, kind in zip(made, kinds, strict=True)]


def _captured(scopes: Iterable[Any]) -> list[Tensor]:
    """Return the tensors that graphs read of the graph around them, each once."""
    found: dict[str, Tensor] = {}
    for scope in scopes:
        found.update((name, tensor) for name, (tensor, _) in scope.captured.items())
    return list(found.values())


def _values_of(graph: onnx.GraphProto) -> list[str]:
    """Return every name that a graph gives to a value."""
    values = [value.name for value in graph.input] + [t.name for t in graph.initializer]
    return values + [name for node in graph.node for name in node.output]


def _repeated(n: Operation, times: int) -> AbstractContextManager[None]:
    """Record the iterations of a loop, as far as known."""
    name = next(filter(None, n.output_names), "")
    return n.builder.budget.within(f"the loop of {name!r}", len(n.graph("body").node), times)


def _turn(n: Operation, inputs: Sequence[Tensor | None]) -> list[Tensor]:
    """Return the outputs of the body for its inputs."""
    # A body may be empty, and turn for ever.
    n.builder.budget.count_read()
    found = n.scope.inline(n.graph("body"), inputs)
    outputs = []
    for tensor in found:
        assert tensor is not None
        outputs.append(tensor)
    return outputs


def stacked(n: Operation, parts: Sequence[Tensor], axis: int) -> Tensor:
    """Return tensors side by side along a new axis."""
    shape = parts[0].shape
    if any(part.shape != shape for part in parts):
        n.refuse("gathers tensors of several shapes", "give them one shape")
    rows = [n.reshape(part, (*shape[:axis], 1, *shape[axis:])) for part in parts]
    if len(rows) == 1:
        return rows[0]
    return n.emit("CONCATENATION", *rows, attrs=ConcatenationAttributes(axis=axis))


@translates("Loop")
def loop(n: Operation) -> list[Tensor | None]:
    """Unroll a loop whose turns are known; any other becomes a WHILE."""
    trips, condition = n.optional(0), n.optional(1)
    known = all(tensor is None or tensor.data is not None for tensor in (trips, condition))
    if known and (condition is None or not _depends_on_values(n)):
        return _unrolled(n)
    return _looped(n, trips, condition)


def _unrolled(n: Operation) -> list[Tensor | None]:
    """Return the outputs of a loop with a known number of turns, or a condition that is known in
    each.
    """
    body = n.graph("body")
    counted = not n.has(1)
    most = n.known_int(0, "the number of turns") if n.has(0) else None
    carried = [n.input(i) for i in range(2, n.count)]
    scanned: list[list[Tensor]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    goes_on, turn = counted or bool(n.known(1, "the condition").all()), 0
    while goes_on and (most is None or turn < most):
        number = n.constant(turn, "int64")
        inputs = [number, n.constant(True), *carried]
        turns = turn + 1
        if most is not None and (counted or _keeps_condition(body)):
            turns = most
        with _repeated(n, turns):
            condition, *results = _turn(n, inputs)
        carried, values = results[: len(carried)], results[len(carried) :]
        for kept, value in zip(scanned, values, strict=True):
            kept.append(value)
        # A loop without a condition is a counted one: the standard ignores that of its body.
        if not counted:
            goes_on = bool(n.known_value(condition, "the condition of a turn").all())
        turn += 1
    outputs: list[Tensor | None] = list(carried)
    for kept in scanned:
        if not kept:
            n.refuse("turns not once, and gives what its turns make", "loop once at least")
        outputs.append(stacked(n, kept, 0))
    return outputs


def _depends_on_values(n: Operation) -> bool:
    """Return whether the condition of a loop depends on values known only at run time.

    Values are followed through the nodes of the body, from turn to turn.
    """
    body = n.graph("body")
    carried = body.input[2:]
    open_ = {
        value.name
        for value, tensor in zip(carried, n.inputs[2:], strict=False)
        if tensor is None or tensor.data is None
    }
    while True:
        found = open_ | _open_values(n, body.node, open_)
        after = (value.name for value in body.output[1 : 1 + len(carried)])
        turned = {v.name for v, name in zip(carried, after, strict=False) if name in found}
        if turned <= open_:
            return body.output[0].name in found
        open_ |= turned


def _open_values(n: Operation, nodes: Sequence[onnx.NodeProto], known: set[str]) -> set[str]:
    """Return the outputs of nodes that depend on the values ``known`` to be open, or on such of the
    graphs around.
    """
    found, own = set(known), {name for node in nodes for name in node.output}
    for node in nodes:
        if node.op_type in _OF_SHAPES:
            continue
        read = list(node.input)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                read += [name for inner in _all_nodes(attribute.g) for name in inner.input]
                read += [value.name for value in attribute.g.output]
        if any(name in found or (name not in own and n.scope.is_open(name)) for name in read):
            found.update(node.output)
    return found


def _all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a graph and of the graphs in them."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _all_nodes(attribute.g)


@dataclass(frozen=True)
class _Variables:
    """Variables of a WHILE, in this order: as tensors of the caller, or of one of its graphs."""

    carried: Sequence[Tensor]
    #: What the turns have made, a row for each.
    rows: Sequence[Tensor]
    #: The number of turns so far, int64.
    turn: Tensor
    #: The condition of the last turn; None for a loop without one.
    condition: Tensor | None

    @property
    def all(self) -> list[Tensor]:
        """The variables, in order."""
        condition = [] if self.condition is None else [self.condition]
        return [*self.carried, *self.rows, self.turn, *condition]

    def arguments(self, scope: Any) -> _Variables:
        """Return them as new inputs of the graph of a scope."""
        return _Variables(
            [scope.argument(tensor) for tensor in self.carried],
            [scope.argument(tensor) for tensor in self.rows],
            scope.argument(self.turn),
            None if self.condition is None else scope.argument(self.condition),
        )


def _looped(n: Operation, trips: Tensor | None, condition: Tensor | None) -> list[Tensor | None]:
    """Return the outputs of a loop whose number of turns is known only at run time."""
    graph = n.graph("body")
    carried = [n.input(i) for i in range(2, n.count)]
    bound = _bound(n)
    body = n.scope.called(_values_of(graph))
    first = _Variables(
        carried,
        [],
        n.constant(0, "int64"),
        None if condition is None else n.reshape(condition, ()),
    )
    variables = first.arguments(body)
    for tensor in variables.all:
        # What they hold in a turn depends on how many there are.
        for deciding in filter(None, (trips, condition)):
            body.builder.depend(tensor, n.builder.depends_on(deciding))
    inner = n.inside(body)
    going = variables.condition or inner.constant(True)
    declared = graph.input[1].type.tensor_type.shape.dim
    given = inner.reshape(going, (1,) * len(declared))
    after, *made = body.results(graph, [variables.turn, given, *variables.carried])
    updated, rows = made[: len(carried)], made[len(carried) :]
    for name, before, result in zip(n.output_names, carried, updated, strict=False):
        if (before.shape, before.dtype) != (result.shape, result.dtype):
            n.refuse_unknown(
                f"its number of turns is known only at run time, and it carries {name!r} as "
                f"{before.dtype}{list(before.shape)} into its first turn and as "
                f"{result.dtype}{list(result.shape)} out of it",
                "keep one type and shape, for example a buffer of the largest size and a count",
                [trips, condition],
            )
    if rows:
        limit = _most_rows(n, trips, condition, bound, rows)
        first = replace(
            first, rows=[n.constant(np.zeros((limit, *row.shape), row.dtype)) for row in rows]
        )
        variables = replace(variables, rows=[body.argument(tensor) for tensor in first.rows])
    following = _Variables(
        updated,
        [
            _with_row(inner, buffer, variables.turn, row)
            for buffer, row in zip(variables.rows, rows, strict=True)
        ],
        inner.single("Add", variables.turn, inner.constant(1, "int64")),
        None if condition is None else inner.reshape(after, ()),
    )
    outputs = _while(n, trips, first, body, variables, following, bound)
    results = outputs[: len(made)]
    for tensor, made_in_body in zip(results, made, strict=True):
        n.builder.named(tensor, body.builder.kind(made_in_body))
    n.builder.padded.update(tensor.name for tensor in results[len(carried) :])
    return list(results)


def _while(
    n: Operation,
    trips: Tensor | None,
    first: _Variables,
    body: Any,
    variables: _Variables,
    following: _Variables,
    bound: LoopBound | None,
) -> list[Tensor]:
    """Return the outputs of a WHILE: its variables after the last turn."""
    condition = n.scope.called()
    own = first.arguments(condition)
    asked = n.inside(condition)
    going = own.condition
    if trips is not None:
        limit = asked.reshape(condition.adopted(trips), ())
        more = asked.single("Less", own.turn, limit)
        going = more if going is None else asked.single("And", going, more)
    assert going is not None
    outer = _captured([condition, body])
    inputs = [
        [*values.all, *(scope.adopted(tensor) for tensor in outer)]
        for scope, values in ((condition, own), (body, variables))
    ]
    attrs = WhileAttributes(
        condition=condition.graph("condition", inputs[0], [going]),
        body=body.graph("body", inputs[1], following.all),
        bound=bound,
    )
    quants = [tensor.quant for tensor in first.all]
    return n.emit_all("WHILE", [*first.all, *outer], len(quants), attrs, quants)


def _bound(n: Operation) -> LoopBound | None:
    """Return the bound that the user states for a loop; None where nothing is stated."""
    bounds = n.scope.bounds
    return next((LoopBound(name, bounds[name]) for name in n.names if name in bounds), None)


def _most_rows(
    n: Operation,
    trips: Tensor | None,
    condition: Tensor | None,
    bound: LoopBound | None,
    rows: Sequence[Tensor],
) -> int:
    """Return the number of rows of the outputs that gather what the turns of a loop make.

    The memory of these outputs is checked here, before anything of their size is allocated.
    """
    counts = [] if bound is None else [bound.turns]
    if trips is not None and trips.data is not None:
        counts.append(int(trips.data.reshape(())))
    name, option = n.names[0], "--loop-bound {0}=N, in Python loop_bounds={{{0!r}: N}}"
    if not counts or min(counts) < 1:
        n.refuse_unknown(
            f"the loop of {name!r} gathers what its turns make, and their number is known only at "
            "run time",
            f"state the most turns that it makes, {ACCEPTED}: {option.format(name)}",
            [trips, condition],
        )
    limit = min(counts)
    in_each = sum(row.nbytes for row in rows)
    if limit * in_each > MAX_TENSOR_BYTES:
        n.refuse_unknown(
            f"the loop of {name!r} makes up to {limit:,} turns, and gathers {in_each:,} bytes in "
            f"each: {limit * in_each:,} bytes, more than the {MAX_TENSOR_BYTES:,} that may ever "
            "fit a microcontroller",
            f"state fewer turns, 1 to {MAX_TENSOR_BYTES // in_each:,}: {option.format(name)}",
            [trips, condition],
        )
    return limit


def _with_row(n: Operation, buffer: Tensor, turn: Tensor, row: Tensor) -> Tensor:
    """Return a buffer with a row replaced, that of a turn."""
    starts = [n.reshape(n.cast(turn, "int32"), (1,))]
    if row.shape:
        starts.append(n.constant(np.zeros(len(row.shape)), "int32"))
    start = starts[0]
    if len(starts) > 1:
        start = n.emit("CONCATENATION", *starts, attrs=ConcatenationAttributes(axis=0))
    update = n.reshape(row, (1, *row.shape))
    return n.emit("DYNAMIC_UPDATE_SLICE", buffer, update, start)


def _keeps_condition(body: onnx.GraphProto) -> bool:
    """Return whether a body gives the condition that it is given."""
    condition = body.output[0].name
    sources = {node.output[0]: node.input[0] for node in body.node if node.op_type == "Identity"}
    return bool(sources.get(condition, condition) == body.input[1].name)


@translates("Scan")
def scan(n: Operation) -> list[Tensor | None]:
    """Translate Scan by unrolling it; the shapes give the number of iterations."""
    count, body = n.integer("num_scan_inputs"), n.graph("body")
    if n.version < 9:
        n.refuse("is of opset 8, which scans batches", "export the model with opset 9 or later")
    given = [n.input(i) for i in range(n.count)]
    carried, sources = given[: n.count - count], given[n.count - count :]
    outputs = len(body.output) - len(carried)
    axes = n.integers("scan_input_axes", (0,) * count)
    backwards = n.integers("scan_input_directions", (0,) * count)
    out_axes = n.integers("scan_output_axes", (0,) * outputs)
    out_backwards = n.integers("scan_output_directions", (0,) * outputs)
    places = [n.axis(a, len(x.shape)) for a, x in zip(axes, sources, strict=True)]
    turns = sources[0].shape[places[0]]
    scanned: list[list[Tensor]] = [[] for _ in range(outputs)]
    for turn in range(turns):
        with _repeated(n, turns):
            entries = [
                entry(n, x, axis, turns - 1 - turn if back else turn)
                for x, axis, back in zip(sources, places, backwards, strict=True)
            ]
            results = _turn(n, [*carried, *entries])
        carried, values = results[: len(carried)], results[len(carried) :]
        for kept, value in zip(scanned, values, strict=True):
            kept.append(value)
    made: list[Tensor | None] = list(carried)
    for kept, axis, back in zip(scanned, out_axes, out_backwards, strict=True):
        rank = len(kept[0].shape) + 1
        made.append(stacked(n, kept[::-1] if back else kept, n.axis(axis, rank)))
    return made


def entry(n: Operation, x: Tensor, axis: int, index: int) -> Tensor:
    """Return one entry of an axis, without that axis."""
    begin, end = [0] * len(x.shape), list(x.shape)
    begin[axis], end[axis] = index, index + 1
    taken = sliced(n, x, begin, end, np.ones(len(begin), int).tolist())
    return n.reshape(taken, (*x.shape[:axis], *x.shape[axis + 1 :]))
