"""When a call reads each byte of its inputs and writes each byte of its outputs.

A kernel's header says how the kernel walks its output and which of the input each of its elements
needs (``order`` and ``reads`` in :mod:`hilc.lowering.kernels`). From that and from a layer's
parameters :func:`kernel_access` works out an :class:`Access`: the work as a number of *steps*, the
last step that reads each byte of an input, the first that writes each byte of an output. Within a
step all reads come before all writes. A kernel may read earlier and write later than this says,
never the other way round, and it never uses an output as working memory.

Two buffers may then overlap as long as no byte is written in a step before the last that reads it.
That depends only on how far apart they lie: :func:`forbidden_interval`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hilc.ir import Tensor
from hilc.support.intervals import joined

Steps = npt.NDArray[np.int32]

#: The step of bytes that are never read.
NEVER = -1

#: C types through which memory may be seen that was written as any other type.
_BYTE_TYPES = ("int8_t", "uint8_t", "void")


@dataclass(frozen=True, eq=False)
class Access:
    """When a call reads and writes, in steps from 0 on.

    ``last_read`` has, for each of the call's input arguments, the last step that reads each byte
    (:data:`NEVER` for none); ``first_write`` has, for each output, the first that writes it. The
    types are those through which C sees the arguments.
    """

    steps: int
    last_read: tuple[Steps, ...]
    first_write: tuple[Steps, ...]
    input_types: tuple[str, ...]
    output_types: tuple[str, ...]


class AccessedCall(Protocol):
    """Properties of a call that the planner uses, whatever created it."""

    def access(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Access | None:
        """Return the access order of the tensors that it is passed; None if it is unknown."""


def access_of(
    call: AccessedCall, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> Access | None:
    """Return the access order of ``call``; None if it is unknown.

    ``inputs`` are the tensors of its input arguments, constants included, in the call's own order.
    """
    access = call.access(inputs, outputs)
    if access is not None:
        for steps, tensors in ((access.last_read, inputs), (access.first_write, outputs)):
            sizes, expected = [s.size for s in steps], [t.nbytes for t in tensors]
            if sizes != expected:
                raise AssertionError(f"a call of {expected} bytes says how it accesses {sizes}")
    return access


# Overlap ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ForbiddenInterval:
    """Interval of ``offset(second) - offset(first)`` in which two buffers must *not* be placed.

    It is the open interval from ``low`` to ``high``, except the closed intervals ``gaps`` within
    it, which ascend and do not touch.
    """

    low: int
    high: int
    gaps: tuple[tuple[int, int], ...] = ()

    def allow(self, difference: int) -> bool:
        """Return whether the interval allows an offset difference, in bytes."""
        inside = self.low < difference < self.high
        return not inside or any(first <= difference <= last for first, last in self.gaps)

    @property
    def parts(self) -> list[tuple[int, int]]:
        """The open intervals between the gaps."""
        lows = [self.low, *(last for _, last in self.gaps)]
        highs = [*(first for first, _ in self.gaps), self.high]
        return [part for part in zip(lows, highs, strict=True) if part[0] < part[1]]

    def reversed(self) -> ForbiddenInterval:
        """Return the interval of ``offset(first) - offset(second)``."""
        gaps = tuple([(-last, -first) for first, last in reversed(self.gaps)])
        return ForbiddenInterval(-self.high, -self.low, gaps)

    def union(self, other: ForbiddenInterval) -> ForbiddenInterval:
        """Return the interval that permits the differences that both permit."""
        return _interval([*self.parts, *other.parts])


def _interval(forbidden: Iterable[tuple[int, int]]) -> ForbiddenInterval:
    """Return the interval that consists of these open ones."""
    lows, highs = joined(forbidden)
    if not lows:
        return ForbiddenInterval(0, 0)
    return ForbiddenInterval(lows[0], highs[-1], tuple(zip(highs, lows[1:], strict=False)))


def apart(first: int, second: int) -> ForbiddenInterval:
    """Of two buffers of ``first`` and ``second`` bytes that must not share one."""
    return ForbiddenInterval(-second, first)


def forbidden_interval(access: Access, input: int, output: int) -> ForbiddenInterval:
    """Return the forbidden interval of ``offset(output) - offset(input)`` for these arguments.

    Exact but for gaps: a safe difference between two forbidden ones is given away, except 0.
    """
    last_read, first_write = access.last_read[input], access.first_write[output]
    types = access.input_types[input], access.output_types[output]
    if types[0] != types[1] and not any(t in _BYTE_TYPES for t in types):
        # C need not expect that the same memory is seen as both.
        return apart(last_read.size, first_write.size)
    if not last_read.size or not first_write.size:
        return ForbiddenInterval(0, 0)
    # Bytes that are read or written in the same step come in runs: each from ``begins`` on.
    reads, begins = _runs(last_read)
    writes, positions = _runs(first_write)
    # The first and the last byte of the input that is still to be read when a run is written.
    ends = np.append(begins, last_read.size)
    steps = np.minimum(writes, access.steps)
    first = ends[np.searchsorted(np.maximum.accumulate(reads), steps, side="right")]
    since = np.maximum.accumulate(reads[::-1])
    last = ends[reads.size - np.searchsorted(since, steps, side="right")] - 1
    conflicts = first < last_read.size
    if not conflicts.any():
        return ForbiddenInterval(0, 0)
    behind = np.append(positions[1:], first_write.size)
    low = int((first - behind)[conflicts].min())
    high = int((last - positions)[conflicts].max()) + 1
    common = min(last_read.size, first_write.size)
    zero = low < 0 < high and bool((first_write[:common] >= last_read[:common]).all())
    return ForbiddenInterval(low, high, ((0, 0),) if zero else ())


def all_forbidden(last_read: Steps, first_write: Steps) -> ForbiddenInterval:
    """Return the forbidden interval of ``offset(second) - offset(first)`` for two buffers, with
    every gap, whatever the types: the first one is read and the second written at these steps.

    It looks at all pairs of runs, so it is for steps of which there are few.
    """
    reads, begins = _runs(last_read)
    writes, positions = _runs(first_write)
    ends = np.append(begins[1:], last_read.size)
    behind = np.append(positions[1:], first_write.size)
    # Runs of the input that are still to be read when one of the output is written; next to each
    # other they are one.
    late = np.zeros((writes.size, reads.size + 2), np.int8)
    late[:, 1:-1] = writes[:, None] < reads[None, :]
    change = np.diff(late, axis=1)
    (of, first), (_, last) = np.nonzero(change == 1), np.nonzero(change == -1)
    lows, highs = begins[first] - behind[of], ends[last - 1] - positions[of]
    return _interval(zip(lows.tolist(), highs.tolist(), strict=True))


def _runs(steps: Steps) -> tuple[Steps, npt.NDArray[np.intp]]:
    """Return the steps of bytes, each once for as many as follow each other, and where these
    begin.
    """
    begins = np.append(0, np.flatnonzero(steps[1:] != steps[:-1]) + 1)
    return steps[begins], begins


# Order of a kernel ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loop:
    """Loop of a kernel over its output, with the ``rows``, ``columns``, ``pixels`` or ``channels``
    per iteration.
    """

    kind: str
    count: int


LOOP_KINDS = ("rows", "columns", "pixels", "channels")
_ONCE = " once"

#: Movement of a window, whose values a kernel's header may give if they are not fields of it.
WINDOW_FIELDS = {
    "filter_h": None,
    "filter_w": None,
    "stride_h": None,
    "stride_w": None,
    "dilation_h": 1,
    "dilation_w": 1,
    "pad_top": 0,
    "pad_left": 0,
}

Evaluator = Callable[[Mapping[str, Any], Sequence[Tensor], Sequence[Tensor]], "_Elements"]


@dataclass(frozen=True, eq=False)
class _Elements:
    """Steps as in :class:`Access`, of elements."""

    steps: int
    last_read: Sequence[npt.NDArray[np.int64]]
    first_write: Sequence[npt.NDArray[np.int64]]


def kernel_access(
    order: str | Sequence[Loop],
    reads: str,
    fields: Mapping[str, Any],
    types: tuple[Sequence[str], Sequence[str]],
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
) -> Access | None:
    """Return the access order that ``order`` and ``reads`` of a kernel's header mean for these
    ``fields``.

    ``types`` are the C types of its inputs and outputs as the header states them.
    """
    if order == "none":
        return None
    if order == "elementwise":
        found = _elementwise(inputs, outputs)
    elif order == "walk":
        found = _WALKS[reads](fields, inputs, outputs)
    else:
        assert not isinstance(order, str)
        found = _loops(order, reads, fields, inputs[0], outputs[0])
    return Access(
        found.steps,
        _bytes(found.last_read, inputs),
        _bytes(found.first_write, outputs),
        argument_types(types[0], len(inputs)),
        argument_types(types[1], len(outputs)),
    )


def argument_types(declared: Sequence[str], count: int) -> tuple[str, ...]:
    """Return the C types of ``count`` arguments that a kernel's header declares."""
    listed = [t[:-2] for t in declared if t.endswith("[]")]
    return tuple(listed * count if listed else declared)


def _bytes(steps: Sequence[npt.NDArray[np.int64]], tensors: Sequence[Tensor]) -> tuple[Steps, ...]:
    """Return the steps of every byte, from those of every element, or of every byte already."""
    found = []
    for own, tensor in zip(steps, tensors, strict=True):
        each, times = own.astype(np.int32).reshape(-1), tensor.nbytes // own.size
        found.append(each if times == 1 else np.repeat(each, times))
    return tuple(found)


def _elementwise(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> _Elements:
    """Return a step an element. Inputs of another size may be read until the end."""
    count = outputs[0].size
    each = np.arange(count)
    return _Elements(
        count,
        [each if x.size == count else np.full(x.size, count - 1) for x in inputs],
        [each] * len(outputs),
    )


def _loops(
    order: Sequence[Loop], reads: str, fields: Mapping[str, Any], x: Tensor, out: Tensor
) -> _Elements:
    """Return a walk over the pixels and channels of images, of which the rows of a matrix are
    one.
    """
    if reads == "rows":
        rows = int(fields["rows"])
        steps, count = _output_steps(order, 1, rows, out.size // rows)
        last = steps.max(axis=-1, keepdims=True)
        return _Elements(count, [np.repeat(last, x.size // rows, axis=-1)], [steps])
    batch, out_h, out_w, out_c = _image(out)
    steps, count = _output_steps(order, out_h, out_w, out_c)
    in_c = x.shape[3]
    once = reads.endswith(_ONCE)
    pick = np.minimum if once else np.maximum
    if reads.removesuffix(_ONCE) == "window":
        # The same for all channels.
        needed = pick.reduce(steps, axis=-1, keepdims=True)
    else:
        needed = pick.reduce(steps.reshape(out_h, out_w, in_c, -1), axis=-1)
    window = {name: _window_field(fields, name) for name in WINDOW_FIELDS}
    for axis, (name, pad) in enumerate((("h", "pad_top"), ("w", "pad_left"))):
        needed = _under_windows(
            np.moveaxis(needed, axis, 0),
            x.shape[1 + axis],
            window[f"filter_{name}"],
            window[f"stride_{name}"],
            window[f"dilation_{name}"],
            window[pad],
            once,
        )
        needed = np.moveaxis(needed, 0, axis)
    images = np.arange(batch).reshape(-1, 1, 1, 1) * count
    needed = np.where(needed == NEVER, NEVER, needed + images)
    return _Elements(
        batch * count, [np.broadcast_to(needed, (*needed.shape[:3], in_c))], [steps + images]
    )


def _image(x: Tensor) -> tuple[int, ...]:
    """Return the shape of images, of which a mean may have dropped the only row and column."""
    return x.shape if len(x.shape) == 4 else (x.shape[0], 1, 1, x.shape[-1])


def _window_field(fields: Mapping[str, Any], name: str) -> int:
    for known in (name, name.removesuffix("_h").removesuffix("_w")):
        if known in fields:
            return int(fields[known])
    if (default := WINDOW_FIELDS[name]) is None:
        raise KeyError(f"nothing says the window's {name}")
    return default


def _under_windows(
    steps: npt.NDArray[np.int64],
    size: int,
    filter: int,
    stride: int,
    dilation: int,
    pad: int,
    once: bool,
) -> npt.NDArray[np.int64]:
    """Return, for each position, the step of the last window along the first axis that covers it.

    If positions are read ``once``, it is the step of the first window.
    """
    found = np.full((size, *steps.shape[1:]), NEVER, np.int64)
    for tap in range(filter):
        # No two windows have the same position under the same tap.
        positions = np.arange(steps.shape[0]) * stride - pad + tap * dilation
        inside = (positions >= 0) & (positions < size)
        positions, new = positions[inside], steps[inside]
        old = found[positions]
        if once:
            new = np.where((old == NEVER) | ((new != NEVER) & (new < old)), new, old)
        found[positions] = new if once else np.maximum(old, new)
    return found


def _output_steps(
    order: Sequence[Loop], height: int, width: int, channels: int
) -> tuple[npt.NDArray[np.int64], int]:
    """Return the step that writes each element ``[height, width, channels]``, and how many there
    are.
    """
    # Offset of an element within the block of the loops so far, and its size.
    row = np.arange(height).reshape(-1, 1, 1)
    pixel = row * width + np.arange(width).reshape(1, -1, 1)
    column = np.arange(width).reshape(1, -1, 1)
    channel = np.arange(channels).reshape(1, 1, -1)
    sizes = {
        "rows": height,
        "columns": width,
        "pixels": height * width,
        "channels": channels,
    }
    steps, count = np.zeros((height, width, channels), np.int64), 1
    for loop in order:
        part = max(1, min(loop.count, sizes[loop.kind]))
        parts = -(-sizes[loop.kind] // part)
        places = {"rows": row, "columns": column, "pixels": pixel, "channels": channel}
        index = places[loop.kind] // part
        steps, count = steps * parts + index, count * parts
        sizes[loop.kind] = part
        if loop.kind == "rows":
            row, pixel = row % part, pixel - index * (part * width)
            sizes["pixels"] = part * width
        elif loop.kind == "columns":
            column = column % part
        elif loop.kind == "pixels":
            pixel = pixel % part
        else:
            channel = channel % part
    return steps, count


# Walks of kernels with fields of their own, whose steps are runs of bytes or single outputs ------


def _positions(count: int, counts: Sequence[int], jumps: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return the start of each of ``count`` iterations of ``hil_walk_next``."""
    iterations = np.arange(1, count)
    moves = np.full(count - 1, jumps[-1], np.int64)
    inner = 1
    for loop in range(len(counts) - 1, 0, -1):
        inner *= counts[loop]
        moves[iterations % inner == 0] = jumps[loop - 1]
    return np.concatenate([[0], np.cumsum(moves)])


def _last_use(size: int, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the last row of ``positions`` that names each of ``size`` positions."""
    last = np.full(size, NEVER, np.int64)
    rows = np.arange(positions.shape[0]).reshape(-1, *(1,) * (positions.ndim - 1))
    np.maximum.at(last, positions, np.broadcast_to(rows, positions.shape))
    return last


def _mean(
    fields: Mapping[str, Any], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> _Elements:
    size = fields["size"]
    starts = _positions(size, fields["counts"], fields["jumps"]).reshape(-1, 1, 1)
    rows = _positions(fields["rows"], fields["row_counts"], fields["row_jumps"]).reshape(-1, 1)
    positions = starts + rows + np.arange(fields["length"]) * fields["step"]
    return _Elements(size, [_last_use(inputs[0].size, positions)], [np.arange(size)])


def _gather(
    fields: Mapping[str, Any], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> _Elements:
    rows = fields["start"] + _positions(fields["rows"], fields["counts"], fields["in_jumps"])
    runs = (rows.reshape(-1, 1) + np.arange(fields["length"]) * fields["step"]).reshape(-1, 1)
    positions = runs + np.arange(fields["run"])
    written = np.repeat(np.arange(len(runs)), fields["run"])
    return _Elements(len(runs), [_last_use(inputs[0].nbytes, positions)], [written])


def _swap(
    fields: Mapping[str, Any], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> _Elements:
    blocks, rows, columns = fields["blocks"], fields["rows"], fields["columns"]
    row, column = np.ogrid[:rows, :columns]
    # Sixteen columns of each row in turn, or sixteen rows of each column.
    by_row = rows < columns
    steps = column // 16 * rows + row if by_row else column * -(-rows // 16) + row // 16
    of_block = int(steps.max()) + 1
    every = np.arange(blocks).reshape(-1, 1, 1) * of_block + steps
    return _Elements(blocks * of_block, [every.reshape(-1)], [every.transpose(0, 2, 1).reshape(-1)])


def _join(
    fields: Mapping[str, Any], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> _Elements:
    rows, parts = fields["rows"], fields["parts"]
    row_steps = np.arange(rows).reshape(-1, 1) * parts
    blocks = [np.full((rows, n), part) + row_steps for part, n in enumerate(fields["blocks"])]
    return _Elements(rows * parts, blocks, [np.concatenate(blocks, axis=1)])


def _split(
    fields: Mapping[str, Any], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> _Elements:
    rows, parts, block = fields["rows"], fields["parts"], fields["block"]
    row_steps = np.arange(rows).reshape(-1, 1) * parts
    blocks = [np.full((rows, block), part) + row_steps for part in range(parts)]
    return _Elements(rows * parts, [np.concatenate(blocks, axis=1)], blocks)


def _svdf(
    fields: Mapping[str, Any], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> _Elements:
    """Return steps of one element of the state: it is written when the next one has been read."""
    batch, units, rank, memory = (fields[name] for name in ("batch", "units", "rank", "memory"))
    rows = np.arange(batch * units * rank).reshape(-1, 1) * memory
    written = rows + np.arange(memory)
    read = np.where(np.arange(memory) == 0, NEVER, written - 1)
    ends = rows.reshape(batch, -1)[:, -1:] + memory - 1
    outs = rows.reshape(batch * units, -1)[:, -1] + memory - 1
    return _Elements(
        rows.size * memory,
        [np.repeat(ends, fields["depth"], axis=1), read],
        [outs, written],
    )


def _lstm(
    fields: Mapping[str, Any], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> _Elements:
    """Return, for each time step, a step per unit that updates its cell state, and one for the
    hidden state.

    Only the first time step of a sequence reads the old states; states are written from it on.
    """
    batch, steps, units = (fields[name] for name in ("batch", "steps", "units"))
    begins = np.arange(batch * steps) * (units + 1)
    ends = begins + units
    first = begins.reshape(batch, steps)[:, :1]
    if fields["time_major"]:
        ends = ends.reshape(batch, steps).T.reshape(-1)
    hidden = np.repeat(first + units, units, axis=1)
    cell = first + np.arange(units)
    last_steps = ends.reshape(-1, 1)
    return _Elements(
        batch * steps * (units + 1),
        [np.repeat(last_steps, fields["depth"], axis=1), hidden, cell],
        [np.repeat(last_steps, units, axis=1), hidden, cell],
    )


def _shift(
    fields: Mapping[str, Any], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> _Elements:
    """Return two steps: all bytes move up but the first ones, then the new ones follow."""
    kept, row = fields["kept"], fields["row"]
    read = np.where(np.arange(kept + row) < row, NEVER, 0)
    return _Elements(2, [np.full(row, 1), read], [np.repeat([0, 1], [kept, row])])


def _split_blocks(
    fields: Mapping[str, Any], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> _Elements:
    joined = _join(fields, outputs, inputs)
    return _Elements(joined.steps, joined.first_write, joined.last_read)


def _take(
    fields: Mapping[str, Any], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> _Elements:
    counts = (*fields["counts"], fields["length"])
    runs = np.zeros((), np.int64)
    for table in np.split(fields["places"].astype(np.int64), np.cumsum(counts)[:-1]):
        runs = np.add.outer(runs, table)
    positions = runs.reshape(-1, 1) + np.arange(fields["run"])
    written = np.repeat(np.arange(runs.size), fields["run"])
    return _Elements(runs.size, [_last_use(inputs[0].nbytes, positions)], [written])


def _transposed(
    fields: Mapping[str, Any], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> _Elements:
    """Return a step an output, which reads each pixel of the input whose window covers it."""
    lasts = []
    for name, pad in (("h", "pad_top"), ("w", "pad_left")):
        begins = np.arange(fields[f"in_{name}"]) * fields[f"stride_{name}"] - fields[pad]
        ends = np.minimum(begins + fields[f"filter_{name}"], fields[f"out_{name}"])
        lasts.append(np.where(ends > np.maximum(begins, 0), ends - 1, NEVER))
    rows, columns = lasts[0].reshape(-1, 1), lasts[1]
    # The last channel of the last pixel.
    last = (rows * fields["out_w"] + columns + 1) * fields["out_c"] - 1
    images = np.arange(fields["batch"]).reshape(-1, 1, 1)
    steps = fields["out_h"] * fields["out_w"] * fields["out_c"]
    read = np.where((rows == NEVER) | (columns == NEVER), NEVER, last + images * steps)
    count = fields["batch"] * steps
    return _Elements(count, [np.repeat(read.reshape(-1), fields["in_c"])], [np.arange(count)])


def _scatter(
    fields: Mapping[str, Any], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> _Elements:
    """Return a copy of the first input, byte by byte, and then a step that reads all others."""
    x, *others = inputs
    each = np.arange(x.nbytes)
    late = [np.full(other.size, x.nbytes) for other in others]
    return _Elements(x.nbytes + 1, [each, *late], [each])


_WALKS: Mapping[str, Evaluator] = {
    "mean": _mean,
    "gather": _gather,
    "join": _join,
    "split": _split,
    "swap": _swap,
    "svdf": _svdf,
    "lstm": _lstm,
    "shift": _shift,
    "split_blocks": _split_blocks,
    "scatter": _scatter,
    "take": _take,
    "transposed": _transposed,
}

#: Values of ``reads``, by ``order``.
READS = {
    "none": ("",),
    "elementwise": ("", "elements"),
    "walk": tuple(_WALKS),
    "loops": ("window", "channel window", "window once", "channel window once", "rows"),
}
