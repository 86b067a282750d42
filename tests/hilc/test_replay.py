"""The checker of a fused group, on groups of one call that are made for it."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hilc.memory import check_fused
from hilc.memory.program import PlanError


def replay(**attributes: Any) -> Any:
    made = object.__new__(check_fused._Replay)
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def test_an_input_under_scratch_is_read_first() -> None:
    """At any distance of the two, with the scratch before it, behind it, or over a part."""
    stage = SimpleNamespace(node=SimpleNamespace(name="conv"))
    call = SimpleNamespace(inputs=("x",), stages=[stage])
    entry: Any = SimpleNamespace(stage=0, in_first=2)
    room = 6
    for written, place, offset, rows in itertools.product(
        range(room), range(-4, 8), (0, 2), (1, 3)
    ):
        tensor: Any = SimpleNamespace(nbytes=rows, shape=(1, rows, 1, 1))
        location: Any = SimpleNamespace(index=0, offset=offset)
        used = np.arange(room) == written
        made = replay(_call=call, _places={"x": place}, _used=used)
        # Byte `place + offset` of the scratch is the first of the band.
        if place + offset <= written < place + offset + rows:
            with pytest.raises(PlanError, match=f"reads rows 2 to {1 + rows} of 'x', over which"):
                made._require_input(entry, location, tensor)
        else:
            made._require_input(entry, location, tensor)
    elsewhere = replay(_call=call, _places={}, _used=np.ones(room, bool))
    elsewhere._require_input(entry, location, tensor)


class Order:
    """The last steps at which the bytes of an input are read, the first that write the output."""

    def __init__(self, reads: list[int], writes: list[int]) -> None:
        self.last_read = (np.array(reads, np.int32),)
        self.first_write = (np.array(writes, np.int32),)


def test_rows_are_overwritten_only_once_they_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """At every distance of the output from the input, byte by byte."""
    name, nbytes, size = "rows", 4, 3
    stage = SimpleNamespace(node=SimpleNamespace(name="conv"))
    tensor: Any = SimpleNamespace(name=name, nbytes=nbytes, shape=(1, 2, 2, 1))
    output: Any = SimpleNamespace(nbytes=size)
    reads, writes = [0, 2, 1, 3], [1, 2, 3]
    order: list[Any] = [Order(reads, writes)]
    monkeypatch.setattr(check_fused, "access_of", lambda call, inputs, outputs: order[0])
    at = 20
    scratch = np.full(40, -1, np.int64)
    # Row 1 is the first that is read: its bytes are the owners from 100 + 2 on.
    scratch[at : at + nbytes] = 100 + 2 + np.arange(nbytes)
    made = replay(
        _call=SimpleNamespace(stages=[stage]), _scratch=scratch, _first_owner={name: 100},
        _offsets={"scratch": 0, "output": scratch.size},
    )  # fmt: skip
    location: Any = SimpleNamespace(kind="scratch", offset=at)

    def entry(difference: int, writes_at_all: bool = True, kind: str = "scratch") -> Any:
        return SimpleNamespace(
            stage=0, in_first=1, writes=writes_at_all, inputs=(tensor,), output=output, call=None,
            write=SimpleNamespace(kind=kind, offset=at + difference),
        )  # fmt: skip

    for difference in range(-6, 8):
        shared = [(d, d - difference) for d in range(nbytes) if 0 <= d - difference < size]
        is_late = any(writes[w] < reads[r] for r, w in shared)
        if is_late:
            with pytest.raises(PlanError, match="'conv' overwrites its input 'rows' before"):
                made._require(entry(difference), location, tensor)
        else:
            made._require(entry(difference), location, tensor)
        # Elsewhere, or if nothing is written, it does not matter.
        made._require(entry(difference, writes_at_all=False), location, tensor)
        made._require(entry(difference, kind="output"), location, tensor)
        # The output may lie over the scratch: the same bytes, by another name.
        made._offsets = {"scratch": 7, "output": 7}
        if is_late:
            with pytest.raises(PlanError, match="'conv' overwrites its input 'rows' before"):
                made._require(entry(difference, kind="output"), location, tensor)
        else:
            made._require(entry(difference, kind="output"), location, tensor)
        made._offsets = {"scratch": 0, "output": scratch.size}
    order[0] = None  # without an order they share no byte
    for difference in range(-6, 8):
        if -size < difference < nbytes:
            with pytest.raises(PlanError, match="overwrites its input"):
                made._require(entry(difference), location, tensor)
        else:
            made._require(entry(difference), location, tensor)
    scratch[at + 1] = 7
    with pytest.raises(PlanError, match="reads rows 1 to 2 of 'rows', which are overwritten"):
        made._require(entry(9), location, tensor)


def test_a_call_stays_within_scratch_and_output() -> None:
    stage = SimpleNamespace(node=SimpleNamespace(name="conv"))
    made = replay(
        _call=SimpleNamespace(stages=[stage]), _scratch=np.arange(10), _output=np.arange(4)
    )
    entry: Any = SimpleNamespace(stage=0)
    for kind, size in (("scratch", 10), ("output", 4)):
        for offset, nbytes in itertools.product(range(-2, 12), range(12)):
            location: Any = SimpleNamespace(kind=kind, offset=offset)
            if offset >= 0 and offset + nbytes <= size:
                view = made._view(location, nbytes, entry)
                assert view.tolist() == list(range(offset, offset + nbytes))
            else:
                with pytest.raises(PlanError, match=f"of the {size} bytes of {kind}"):
                    made._view(location, nbytes, entry)
