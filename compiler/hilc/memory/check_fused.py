"""Check of a fused group: every call finds the rows that it needs, by replay on a map of memory.

Every byte of the group's scratch and output is owned by a byte of one of its tensors, or by none.
The replay follows the schedule call by call with the declared access orders
(:mod:`hilc.lowering.access`); it shares no code with :mod:`hilc.fusion.layout`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from hilc.fusion.call import Entry, FusedCall, Location
from hilc.ir import Tensor
from hilc.lowering.access import access_of
from hilc.memory.program import PlanError

_NO_OWNER = -1

NOWHERE: Mapping[str, int] = MappingProxyType({})

Owners = npt.NDArray[np.int64]


def check_group(call: FusedCall, places: Mapping[str, int] = NOWHERE) -> None:
    """Raise :class:`~hilc.memory.program.PlanError` unless each call of a stage reads the rows that
    were computed for it.

    ``places`` are the offsets of the group's inputs and output from its scratch, of those in the
    same pool.
    """
    _Replay(call, places).run()


class _Replay:
    def __init__(self, call: FusedCall, places: Mapping[str, int]) -> None:
        self._call = call
        self._places = places
        #: Owner numbers: the number of a tensor's first byte; its other bytes follow.
        self._first_owner: dict[str, int] = {}
        count = 0
        for stage in call.stages:
            entries = [e for e in call.entries if call.stages[e.stage] is stage]
            self._first_owner[stage.node.name] = count
            count += max((self._begin(e) + e.output.nbytes for e in entries), default=0)
        self._sums = count
        # Where the output may share bytes with the scratch both are views of one array.
        (output,) = call.outputs
        place = places.get(output, call.scratch_bytes)
        #: Offset of each in the array.
        self._offsets = {"scratch": max(0, -place), "output": max(0, place)}
        ends = (
            self._offsets["scratch"] + call.scratch_bytes,
            self._offsets["output"] + call.output_bytes,
        )
        memory = np.full(max(ends), _NO_OWNER, np.int64)
        self._scratch = memory[self._offsets["scratch"] : ends[0]]
        self._output = memory[self._offsets["output"] : ends[1]]
        #: Whether each byte of the scratch has been written.
        self._used = np.zeros(call.scratch_bytes, np.bool_)

    def run(self) -> None:
        fed = 0
        for entry in self._call.entries:
            if entry.stage == self._call.fed:
                if entry.first < fed:
                    raise PlanError(f"row {entry.first} is fed after {fed} rows")
                fed = entry.first + entry.count
            for move in entry.moves:
                rows = self._view(Location("scratch", move.source), move.nbytes, entry).copy()
                self._view(Location("scratch", move.target), move.nbytes, entry)[:] = rows
                self._used[move.target : move.target + move.nbytes] = True
            self._run(entry)
        (output,) = self._call.outputs
        if (self._output != self._owners(output, 0, self._output.size)).any():
            raise PlanError(f"output {output!r} is incomplete at the end of the fused group")

    def _run(self, entry: Entry) -> None:
        stage = self._call.stages[entry.stage]
        own = self._view(Location("scratch", stage.scratch), stage.scratch_bytes, entry)
        if stage.accumulates and entry.first > 0 and (own != self._sums).any():
            raise PlanError(
                f"accumulators of {stage.node.name!r} are overwritten at row {entry.first}"
            )
        # The call may write its scratch at any time.
        own[:] = self._sums if stage.accumulates else _NO_OWNER
        self._used[stage.scratch : stage.scratch + stage.scratch_bytes] = True
        if entry.write.kind == "scratch":
            begin = entry.write.offset
            self._used[begin : begin + entry.output.nbytes] = True
        for location, tensor in zip(entry.reads, entry.inputs, strict=True):
            if location.kind in ("scratch", "output"):
                self._require(entry, location, tensor)
            elif location.kind == "input":
                self._require_input(entry, location, tensor)
        if not entry.writes:
            return
        written = self._view(entry.write, entry.output.nbytes, entry)
        written[:] = self._owners(stage.node.name, self._begin(entry), written.size)
        if np.shares_memory(written, own):
            raise PlanError(f"{stage.node.name!r} writes its output rows over its own scratch")

    def _require(self, entry: Entry, location: Location, tensor: Tensor) -> None:
        """Raise unless a band is in memory and stays there until the call has read it."""
        stage = self._call.stages[entry.stage]
        row = tensor.nbytes // tensor.shape[1]
        wanted = self._owners(tensor.name, entry.in_first * row, tensor.nbytes)
        if (self._view(location, tensor.nbytes, entry) != wanted).any():
            raise PlanError(
                f"{stage.node.name!r} reads rows {entry.in_first} to "
                f"{entry.in_first + tensor.shape[1] - 1} of {tensor.name!r}, which are overwritten"
            )
        if not entry.writes:
            return
        begin, write = (self._offsets[at.kind] + at.offset for at in (location, entry.write))
        difference = write - begin
        if not -entry.output.nbytes < difference < tensor.nbytes:
            return
        access = access_of(entry.call, entry.inputs, (entry.output,))
        if access is not None:
            last = access.last_read[entry.inputs.index(tensor)][max(0, difference) :]
            first = access.first_write[0][max(0, -difference) :]
            both = min(last.size, first.size)
            if (first[:both] >= last[:both]).all():
                return
        raise PlanError(
            f"{stage.node.name!r} overwrites its input {tensor.name!r} before reading it"
        )

    def _require_input(self, entry: Entry, location: Location, tensor: Tensor) -> None:
        """Raise where the group's scratch has been written over a band of an input."""
        name = self._call.inputs[location.index]
        if name not in self._places:
            return
        begin = self._places[name] + location.offset
        if self._used[max(0, begin) : max(0, begin + tensor.nbytes)].any():
            raise PlanError(
                f"{self._call.stages[entry.stage].node.name!r} reads rows {entry.in_first} to "
                f"{entry.in_first + tensor.shape[1] - 1} of {name!r}, over which the scratch of "
                "its fused group is written"
            )

    def _begin(self, entry: Entry) -> int:
        """Return the byte offset in the stage's output at which the entry writes."""
        stage = self._call.stages[entry.stage]
        return 0 if stage.accumulates else entry.first * (entry.output.nbytes // entry.count)

    def _owners(self, name: str, begin: int, nbytes: int) -> Owners:
        return np.arange(nbytes) + (self._first_owner[name] + begin)

    def _view(self, location: Location, nbytes: int, entry: Entry) -> Owners:
        memory = self._output if location.kind == "output" else self._scratch
        if not 0 <= location.offset <= memory.size - nbytes:
            name = self._call.stages[entry.stage].node.name
            raise PlanError(
                f"{name!r} accesses {nbytes} bytes at offset {location.offset} of the "
                f"{memory.size} bytes of {location.kind}"
            )
        return memory[location.offset : location.offset + nbytes]
