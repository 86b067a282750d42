"""Operators with graphs of their own.

A branch that is known stands in place of its node; loops whose turns can be counted are unrolled.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

import numpy as np
import onnx

from hilc.frontends.onnx.operation import Operation, translates
from hilc.frontends.onnx.translators.movement import sliced
from hilc.ir import Tensor
from hilc.ops.concat_split import ConcatenationAttributes


@translates("If")
def if_(n: Operation) -> list[Tensor | None]:
    """Compute the branch that a known condition takes, in place of the node."""
    condition = bool(n.known(0, "the condition").all())
    outputs: list[Tensor | None] = n.scope.inline(
        n.graph("then_branch" if condition else "else_branch")
    )
    return outputs


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
    """Unroll a loop with a known number of turns, or a condition that is known in each."""
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
