"""A board that restarts in the middle of any request or answer of a session."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from lossy_proxy import proxy
from rpc_board import BoardProcess, board_program, running_board

import hil
from hil.device import Device
from hil.errors import DeviceError
from torture.campaign import Budget
from torture.field.tally import Tally

#: The parts of a frame after which the board restarts: before it, amid it, behind it.
_PARTS = (0.0, 0.5, 1.0)
_LIMIT_S = 60.0
_A, _B = np.array([[1, 2, 3, 4]], np.int32), np.array([[50, 60, 70, 80]], np.int32)
_SUM = [[102, 124, 146, 168]]


@dataclass
class _Restarts:
    """Restarts the board at a frame of one direction, once."""

    board: BoardProcess
    at: int
    part: float
    to_board: bool
    frames: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})

    def spoil(self, frame: bytes, to_board: bool) -> bytes:
        number, self.frames[to_board] = self.frames[to_board], self.frames[to_board] + 1
        if to_board != self.to_board or number != self.at:
            return frame
        if to_board:
            # What is on the line arrives first.
            threading.Timer(0.002, self._restart).start()
        else:
            self._restart()
        return frame[: round(self.part * len(frame))]

    def _restart(self) -> None:
        """End the board's process, with all that it had received, and start it again."""
        self.board.process.kill()
        self.board.process.wait()
        self.board.process = subprocess.Popen([board_program()], stdin=self.board.master)


def _job(device: Device) -> list[object]:
    """Every request of the protocol that a model needs."""
    adder, copier = device["adder"], device["copier"]
    adder.set_input("a", _A)
    adder.set_input("b", _B)
    adder.run()
    found: list[object] = [adder.get_output("sum").tolist()]
    for layer, outputs in adder.layer_outputs():
        found.append((layer.name, outputs[0].tolist()))
    profile = len(adder.profile())
    found.append(profile)
    values = np.arange(copier.inputs[0].nbytes, dtype=np.uint32).astype(np.uint8)
    copier.set_input(0, values.reshape(copier.inputs[0].shape))
    copier.run()
    found.append(bool(np.array_equal(copier.get_output(0).ravel(), values)))
    return found


def resets(budget: Budget) -> Iterator[Tally]:
    """A restart at frames all over a session, in both directions, before, amid and behind one."""
    frames, expected = undisturbed()
    for to_board in (True, False):
        total = frames[to_board]
        step = max(1, total // budget.count(10, 80))
        tally = Tally("board reset", "amid a request" if to_board else "amid an answer")
        for at in range(budget.seed % step, total, step):
            part = _PARTS[at % len(_PARTS)]
            wrong, is_done = reset(at, part, to_board, expected)
            how = f"restart at frame {at} {'to' if to_board else 'from'} the board, part {part}"
            tally.add(is_done=is_done, wrong=wrong, how=how)
        yield tally


def undisturbed() -> tuple[dict[bool, int], list[object]]:
    """Return the frames of a session to and from the board, and its result."""
    with running_board() as board:
        never = _Restarts(board, -1, 0.0, True)
        result, _ = _attempt(board, never)
    assert isinstance(result, list)
    if result[0] != _SUM:
        raise RuntimeError(f"the undisturbed session computes {result[0]}")
    return never.frames, result


def _attempt(board: BoardProcess, restarts: _Restarts) -> tuple[object, float]:
    """Return the result or the error of a session, and its seconds."""
    start = time.monotonic()
    with proxy(
        board.url,
        to_board=lambda frame: restarts.spoil(frame, True),
        to_host=lambda frame: restarts.spoil(frame, False),
    ) as line:
        result: object
        try:
            with hil.open("native", port=line.url) as device:
                result = device.repeated(lambda: _job(device))
        except DeviceError as error:
            result = error
        return result, time.monotonic() - start


def reset(at: int, part: float, to_board: bool, expected: list[object]) -> tuple[str, bool]:
    """Return what is wrong, and whether the job was done nevertheless."""
    with running_board() as board:
        try:
            result, seconds = _attempt(board, _Restarts(board, at, part, to_board))
            is_done = not isinstance(result, DeviceError)
            if is_done and result != expected:
                return f"a wrong result: {result}", False
            if seconds > _LIMIT_S:
                return f"it took {seconds:.0f} s", False
            again, _ = _attempt(board, _Restarts(board, -1, 0.0, True))
        except Exception as error:
            return f"not an error of the board: {error!r}", False
    return ("" if again == expected else f"the next session: {again!r}"), is_done
