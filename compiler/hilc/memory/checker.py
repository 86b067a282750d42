"""Checker of memory plans: by replay on a map of memory, and by execution.

Both use the program and the access orders that its calls declare (:mod:`hilc.lowering.access`), and
share no code with the planner. :func:`check_plan` tracks the owner of each byte.
:func:`execute_plan` computes: every step reads and writes the bytes of shared buffers in the
declared order, with values from the reference (:mod:`hilc.interpreter`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hilc.fusion.call import FusedCall
from hilc.interpreter import check_inputs, run_node
from hilc.ir import Array, State, Tensor
from hilc.lowering.access import NEVER, Access, access_of
from hilc.memory.allocate import ALIGNMENT, align
from hilc.memory.check_fused import check_group
from hilc.memory.program import BufferRef, PlanError, Program, Step
from hilc.ops import OPS

#: Byte value of memory before its first write.
_GARBAGE = 0xA5


def check_plan(program: Program) -> None:
    """Raise :class:`~hilc.memory.program.PlanError` unless every step reads its inputs intact.

    The error names the first read that finds something else: the tensor and byte, the step, and who
    wrote over it.
    """
    _Replay(program).run()


def execute_plan(program: Program, *inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the outputs by their names in the program's graph, computed where the program says.

    Runs once for each of ``inputs``, the states reset before the first; returns the last outputs.

    Inputs that are the caller's buffers are read in place. :class:`~hilc.memory.program.PlanError`
    where a step reads a byte after another value was written there; other values that were
    overwritten show in the outputs.
    """
    execution = _Execution(program)
    outputs: dict[str, Array] = {}
    for values in inputs:
        outputs = execution.run(values)
    return outputs


@dataclass(frozen=True, eq=False)
class _Order:
    """Time steps at which a step reads and writes each byte; without a declared order all writes
    come before all reads.
    """

    last_read: Sequence[npt.NDArray[np.int32]]
    first_write: Sequence[npt.NDArray[np.int32]]

    @staticmethod
    def of(step: Step, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> _Order:
        access: Access | None = access_of(step.call, inputs, outputs)
        if access is not None:
            return _Order(access.last_read, access.first_write)
        return _Order(
            [np.ones(t.nbytes, np.int32) for t in inputs],
            [np.zeros(t.nbytes, np.int32) for t in outputs],
        )


class _Memory:
    """Arrays with one element per byte, of every pool and of the caller's buffers."""

    def __init__(self, program: Program, empty: int, dtype: npt.DTypeLike) -> None:
        self._program = program
        self._empty = empty
        self._pools = [np.full(pool.nbytes, empty, dtype) for pool in program.pools]
        graph = program.graph
        borders = [(BufferRef("input", i), n) for i, n in enumerate(graph.inputs)]
        borders += [(BufferRef("output", i), n) for i, n in enumerate(graph.outputs)]
        self._buffers = {
            ref: np.full(graph.tensors[name].nbytes, empty, dtype) for ref, name in borders
        }

    def forget(self) -> None:
        """All but the states is as it was at first: so a run may find it."""
        pools = zip(self._program.pools, self._pools, strict=True)
        for memory in (*(m for pool, m in pools if not pool.persistent), *self._buffers.values()):
            memory[:] = self._empty

    def tensor(self, name: str) -> npt.NDArray[Any]:
        """Return the view of a tensor's bytes."""
        nbytes = self._program.graph.tensors[name].nbytes
        return self.view(self._program.buffers[name], nbytes, repr(name))

    def scratch(self, step: Step) -> npt.NDArray[Any]:
        """Return the view of a step's scratch."""
        if step.scratch is None:
            return np.empty(0)
        return self.view(step.scratch, step.call.scratch_bytes, "scratch")

    def view(self, ref: BufferRef, nbytes: int, what: str) -> npt.NDArray[Any]:
        """Return the view of ``nbytes`` at ``place``."""
        if ref.kind != "pool":
            if ref not in self._buffers:
                raise PlanError(f"{what} is in {ref}, which is not a buffer of the caller")
            buffer, start, step = self._buffers[ref], 0, 1
        else:
            if not 0 <= ref.pool < len(self._pools):
                raise PlanError(
                    f"{what} is in pool {ref.pool}, but there are {len(self._pools)} pools"
                )
            buffer, start, step = self._pools[ref.pool], ref.value, ALIGNMENT
        if start % step or not 0 <= start <= buffer.size - nbytes:
            raise PlanError(f"{what} ({nbytes} bytes) is at offset {start} of {buffer.size} bytes")
        return buffer[start : start + nbytes]


class _Replay:
    _NO_OWNER = -1
    #: Owner of the buffer that is kept between fed rows.
    _FEED = -2
    _LATER = np.iinfo(np.int32).max

    def __init__(self, program: Program) -> None:
        self._program = program
        self._graph = program.graph
        self._owners = _Memory(program, self._NO_OWNER, np.int32)
        #: For the current step: the time of each byte's first write, and the index of the output.
        self._written = _Memory(program, self._LATER, np.int32)
        self._writers = _Memory(program, self._NO_OWNER, np.int32)
        #: The value number of each name, and the first name of each value.
        self._value_of: dict[str, int] = {}
        self._first_name: list[str] = []

    def run(self) -> None:
        graph, refs = self._graph, self._program.buffers
        self._require_size()
        for index, name in enumerate(graph.inputs):
            self._require_border(name, BufferRef("input", index))
            self._claim(name)
        for state in graph.states:
            self._require_state(state)
            self._claim(state.name)
        for name in graph.given:
            self._require_intact(name, "the first step")
        self._claim_feed()
        steps = {step.node.name: step for step in self._program.steps}
        # Tensors inside a fused group have no buffer of their own.
        inner = {node.name for step in self._program.steps for node in step.nodes[:-1]}
        for node in graph.nodes:
            if node.name in inner:
                continue
            if (step := steps.pop(node.name, None)) is not None:
                self._execute(step)
            elif refs[node.name] == refs[node.inputs[0]] and OPS[node.op].view:
                self._value_of[node.name] = self._value_of[node.inputs[0]]
            else:
                raise PlanError(f"no step computes {node.name!r}")
        if steps:
            raise PlanError(f"steps {sorted(steps)} compute no node of the graph")
        for index, name in enumerate(graph.outputs):
            self._require_border(name, BufferRef("output", index))
            self._require_intact(name, "the caller")
        for name in graph.inputs if self._program.keep_inputs else ():
            self._require_intact(name, "the caller")
        for state in graph.states:
            self._require_intact(state.after, "the next run")
        if (self._feed() != self._FEED).any():
            raise PlanError("what is kept between the rows that are fed is overwritten")

    def _feed(self) -> npt.NDArray[np.int32]:
        """Return the owners of the buffer that an inference keeps between fed rows."""
        program = self._program
        if program.feed is None:
            return np.empty(0, np.int32)
        return self._owners.view(program.feed, program.fed_call.feed_bytes, "the feed")

    def _claim_feed(self) -> None:
        if (self._feed() != self._NO_OWNER).any():
            raise PlanError("what is kept between the rows that are fed lies in a state")
        self._feed()[:] = self._FEED
        for step in self._program.steps[1:]:
            if isinstance(step.call, FusedCall) and step.call.fed is not None:
                raise PlanError(f"{step.node.name!r} takes in rows after other layers")

    def _require_size(self) -> None:
        """Check the workspace size; steps without planned scratch allocate theirs one at a time."""
        own = [align(s.call.scratch_bytes) for s in self._program.steps if s.scratch is None]
        pools = (pool for pool in self._program.pools if not pool.persistent)
        needed = sum(pool.nbytes for pool in pools) + max(own, default=0)
        if needed != self._program.workspace_bytes:
            raise PlanError(
                f"workspace_bytes is {self._program.workspace_bytes}, but the plan takes {needed}"
            )

    def _require_border(self, name: str, buffer: BufferRef) -> None:
        ref = self._program.buffers[name]
        # Rows that are fed are the caller's.
        is_fed = self._program.feed is not None and buffer.kind == "input"
        is_pooled = self._program.io_in_pool and not is_fed
        if ref.kind != "pool" if is_pooled else ref != buffer:
            raise PlanError(f"the model's {buffer.kind} {name!r} is in {ref}")

    def _require_state(self, state: State) -> None:
        """Check that the old and the new value of a state share a buffer in a pool that survives
        runs.
        """
        before, after = (self._program.buffers[name] for name in (state.name, state.after))
        if before != after or not self._is_persistent(before):
            raise PlanError(
                f"the state {state.name!r} lies in {before}, its new value {state.after!r} in "
                f"{after}"
            )

    def _is_persistent(self, ref: BufferRef) -> bool:
        pools = self._program.pools
        inside = ref.kind == "pool" and 0 <= ref.pool < len(pools)
        return inside and pools[ref.pool].persistent

    def _execute(self, step: Step) -> None:
        tensors = self._graph.tensors
        reader = repr(step.node.name)
        for name in step.outputs:
            if self._program.buffers[name].kind not in ("pool", "output"):
                raise PlanError(f"{reader} writes to {self._program.buffers[name]}")
        if step.scratch is not None and self._is_persistent(step.scratch):
            raise PlanError(f"{reader} has its scratch among the states")
        for name in step.inputs:
            if not tensors[name].is_constant:
                self._require_intact(name, reader)
        inputs, outputs = [tensors[n] for n in step.inputs], [tensors[n] for n in step.outputs]
        if isinstance(step.call, FusedCall):
            check_group(step.call, _beside_scratch(self._program, step))
        order = _Order.of(step, inputs, outputs)
        self._write(step, order)
        for tensor, last_read in zip(inputs, order.last_read, strict=True):
            if not tensor.is_constant:
                self._require_read_in_time(step, tensor.name, last_read)
        for name in step.outputs:
            self._written.tensor(name)[:] = self._LATER
        self._written.scratch(step)[:] = self._LATER
        self._owners.scratch(step)[:] = self._NO_OWNER
        for name in step.outputs:
            self._claim(name)

    def _write(self, step: Step, order: _Order) -> None:
        """Record when the step writes each byte; its scratch counts as written from the start, but
        for that of a fused group, which is checked call by call.
        """
        writes = [
            (name, self._written.tensor(name), self._writers.tensor(name), times)
            for name, times in zip(step.outputs, order.first_write, strict=True)
        ]
        if step.scratch is not None and not isinstance(step.call, FusedCall):
            never = np.full(step.call.scratch_bytes, NEVER, np.int32)
            scratch = self._written.scratch(step), self._writers.scratch(step)
            writes.append(("scratch", *scratch, never))
        for index, (name, written, writers, times) in enumerate(writes):
            if (taken := written != self._LATER).any():
                other = writes[writers[taken][0]][0]
                raise PlanError(f"{step.node.name!r} overwrites {other!r} with {name!r}")
            written[:] = times
            writers[:] = index

    def _require_read_in_time(
        self, step: Step, name: str, last_read: npt.NDArray[np.int32]
    ) -> None:
        written = self._written.tensor(name)
        late = np.flatnonzero((written < last_read) & (last_read != NEVER))
        if late.size:
            # The earliest read that comes too late.
            byte = int(late[np.argmin(last_read[late])])
            writer = int(self._writers.tensor(name)[byte])
            what = repr(step.outputs[writer]) if writer < len(step.outputs) else "its scratch"
            raise PlanError(
                f"{step.node.name!r} writes {what} over its input {name!r}: byte {byte} is "
                f"overwritten at step {written[byte]} and read at step {last_read[byte]}"
            )

    def _claim(self, name: str) -> None:
        self._value_of[name] = len(self._first_name)
        self._first_name.append(name)
        self._owners.tensor(name)[:] = self._value_of[name]

    def _require_intact(self, name: str, reader: str) -> None:
        if name not in self._value_of:
            raise PlanError(f"{reader} reads {name!r} before it is written")
        owners = self._owners.tensor(name)
        wrong = np.flatnonzero(owners != self._value_of[name])
        if wrong.size:
            owner = owners[wrong[0]]
            culprit = "scratch" if owner == self._NO_OWNER else repr(self._first_name[owner])
            raise PlanError(
                f"{reader} reads {name!r}, which {culprit} overwrote from byte {wrong[0]} on"
            )


class _Execution:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._graph = program.graph
        self._memory = _Memory(program, _GARBAGE, np.uint8)
        for state in self._graph.states:
            self._memory.tensor(state.name)[:] = _contents(self._graph.reset_value(state))

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        check_inputs(self._graph, inputs)
        self._memory.forget()
        for name in self._graph.inputs:
            self._memory.tensor(name)[:] = _contents(np.asarray(inputs[name]))
        for step in self._program.steps:
            self._execute(step)
        return {name: self._load(name) for name in self._graph.outputs}

    def _load(self, name: str) -> Array:
        tensor = self._graph.tensors[name]
        if tensor.data is not None:
            return tensor.data
        data = self._memory.tensor(name).copy()
        return data.view(tensor.dtype).reshape(tensor.shape)

    def _execute(self, step: Step) -> None:
        node, tensors = step.node, self._graph.tensors
        given = {name: self._load(name) for name in (*step.inputs, *_fed(step))}
        results = self._compute(step, given)
        inputs = [tensors[name] for name in step.inputs]
        order = _Order.of(step, inputs, [tensors[name] for name in step.outputs])
        reads = [
            (tensor.name, _contents(given[tensor.name]), last_read)
            for tensor, last_read in zip(inputs, order.last_read, strict=True)
            if not tensor.is_constant
        ]
        if isinstance(step.call, FusedCall):
            (output,) = results
            self._use_scratch(
                step, step.call, {name: data for name, data, _ in reads}, _contents(output)
            )
            for name, data, _ in reads:
                # What follows checks when the output overwrites them.
                self._memory.tensor(name)[:] = data
        else:
            self._memory.scratch(step)[:] = _GARBAGE
        writes = [
            (self._memory.tensor(name), _contents(np.asarray(result)), first_write)
            for name, result, first_write in zip(
                step.outputs, results, order.first_write, strict=True
            )
        ]
        read_at = [_by_time(last_read) for *_, last_read in reads]
        written_at = [_by_time(first_write) for *_, first_write in writes]
        for time in sorted(set().union(*read_at, *written_at) - {NEVER}):
            for (name, expected, _), bytes_at in zip(reads, read_at, strict=True):
                now = bytes_at.get(time, _NO_BYTES)
                wrong = now[self._memory.tensor(name)[now] != expected[now]]
                if wrong.size:
                    raise PlanError(
                        f"{node.name!r} reads byte {wrong[0]} of {name!r} at time step {time}, "
                        f"after it was overwritten"
                    )
            for (memory, data, _), bytes_at in zip(writes, written_at, strict=True):
                now = bytes_at.get(time, _NO_BYTES)
                memory[now] = data[now]
        if isinstance(step.call, FusedCall):
            self._memory.scratch(step)[:] = _GARBAGE
            for memory, data, _ in writes:
                memory[:] = data

    def _use_scratch(
        self,
        step: Step,
        call: FusedCall,
        given: Mapping[str, npt.NDArray[np.uint8]],
        result: npt.NDArray[np.uint8],
    ) -> None:
        """Write over the scratch of a fused group, call by call, write its output and read its
        inputs meanwhile.
        """
        scratch, output = self._memory.scratch(step), self._memory.tensor(*call.outputs)
        for entry in call.entries:
            stage = call.stages[entry.stage]
            ranges = [(move.target, move.nbytes) for move in entry.moves]
            ranges.append((stage.scratch, stage.scratch_bytes))
            if entry.write.kind == "scratch":
                ranges.append((entry.write.offset, entry.output.nbytes))
            for offset, nbytes in ranges:
                scratch[offset : offset + nbytes] = _GARBAGE
            for location, tensor in zip(entry.reads, entry.inputs, strict=True):
                if location.kind != "input":
                    continue
                name, end = call.inputs[location.index], location.offset + tensor.nbytes
                found = self._memory.tensor(name)[location.offset : end]
                if (found != given[name][location.offset : end]).any():
                    raise PlanError(
                        f"{stage.node.name!r} reads rows of {name!r} after the scratch of its "
                        "fused group was written over them"
                    )
            if entry.write.kind == "output" and entry.writes:
                rows = slice(entry.write.offset, entry.write.offset + entry.output.nbytes)
                output[rows] = result[rows]
        if (output != result).any():
            raise PlanError(f"scratch is written over the output {call.outputs[0]!r}")

    def _compute(self, step: Step, given: Mapping[str, Array]) -> list[Array]:
        """Return the outputs of the step's last node, computed from the values that the step
        reads.
        """
        graph, known = self._graph, dict(given)
        results: list[Array] = []
        for node in step.nodes:
            values = [_value(graph.tensors[name], known) if name else None for name in node.inputs]
            results = run_node(graph, node, values)
            known |= zip(node.outputs, results, strict=True)
        return results


_NO_BYTES = np.empty(0, np.int64)


def _value(tensor: Tensor, known: Mapping[str, Array]) -> Array:
    """Return an operand's value: garbage for one that the step does not read, such as that of
    ZEROS_LIKE.
    """
    value = known.get(tensor.name, tensor.data)
    if value is not None:
        return value
    garbage = np.full(tensor.nbytes, _GARBAGE, np.uint8)
    return garbage.view(tensor.dtype).reshape(tensor.shape)


def _beside_scratch(program: Program, step: Step) -> dict[str, int]:
    """Return the offsets of a step's inputs and outputs from its scratch, of those in the same
    pool.
    """
    if (scratch := step.scratch) is None:
        return {}
    refs = {name: program.buffers[name] for name in (*step.inputs, *step.outputs)}
    return {
        name: ref.value - scratch.value
        for name, ref in refs.items()
        if (ref.kind, ref.pool) == (scratch.kind, scratch.pool)
    }


def _fed(step: Step) -> list[str]:
    """Return the tensors that the caller feeds row by row while the step runs."""
    return [name for node in step.nodes if OPS[node.op].fed for name in node.inputs]


def _by_time(times: npt.NDArray[np.int32]) -> dict[int, npt.NDArray[np.int64]]:
    """Return the bytes that are read or written at each time step."""
    order = np.argsort(times, kind="stable")
    bytes_at, starts = np.unique(times[order], return_index=True)
    return dict(zip(bytes_at.tolist(), np.split(order, starts[1:]), strict=True))


def _contents(array: Array) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
