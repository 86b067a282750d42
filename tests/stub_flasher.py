"""A flasher from outside the package: it programs an emulated board through its gdb stub.

The tool is gdb itself, with an Intel HEX file; the board is a machine of :mod:`hil.virtual_probe`,
of which no probe is used: this flasher lists it by an id of its own. gdb controls the core, but this
flasher does not offer that, so the serial line is not proven.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from hil import virtual_probe
from hil.access import Connection, Flashed, Flasher, FlasherSession, Need, Setting, register_flasher
from hil.access.probes import ProbeInfo
from hil.access.protocols import Progress
from hil.board import Board
from hil.errors import FlashError

_GDB = "gdb-multiarch"
_LIMIT_S, _PAUSE_S = 120.0, 0.05


class StubSession(FlasherSession):
    """gdb, once for each command; the machine runs between them."""

    def __init__(self, sockets: str, flag: str) -> None:
        self._sockets = sockets
        self._flag = flag

    def program(self, image: Path, progress: Progress | None) -> Flashed:
        begin = time.monotonic()
        assert image.suffix == ".hex", "the format that this flasher declares"
        self._gdb(f"load {image}")
        if progress is not None:
            progress(1.0)
        return Flashed(True, image.stat().st_size, time.monotonic() - begin)

    def start(self, image: Path, *, halted: bool = False) -> None:
        self.reset()

    def reset(self) -> str:
        self._gdb("monitor system_reset")
        return "running"

    def close(self) -> None:
        pass

    def _gdb(self, command: str) -> None:
        words = [_GDB, "-nx", "-batch", "-ex", f"target remote {self._sockets}/gdb"]
        words += ["-ex", command, "-ex", "detach"]
        deadline = time.monotonic() + _LIMIT_S
        while True:
            done = subprocess.run(words, capture_output=True, text=True, timeout=_LIMIT_S)
            # QEMU listens again a moment after the last client has left.
            if "Connection refused" not in done.stderr or time.monotonic() > deadline:
                break
            time.sleep(_PAUSE_S)
        if log := os.environ.get("STUB_FLASHER_LOG"):
            with open(log, "a") as file:
                file.write(f"{command.partition(' ')[0]} {self._flag}\n")
        if done.returncode:
            raise FlashError(f"gdb failed: {done.stderr.strip()}", "start the board again")


class StubFlasher(Flasher):
    """Programs the virtual boards of this user."""

    name = "stub"
    title = "the gdb stub"
    settings: Mapping[str, Setting] = {
        "flag": Setting("name", "a word for the log of the tests", "plain"),
        "tries": Setting("integer", "how often it is tried", 1, 1, 3),
    }
    formats = ("hex",)

    def serves(self, board: Board) -> bool:
        return board.name == "mps2-an385"

    def needs(self, board: Board | None) -> Need:
        return Need(_GDB, f"apt install {_GDB}")

    def probes(self) -> list[ProbeInfo]:
        return [
            ProbeInfo(v.uid.replace("hil-", "stub-"), "gdb stub", v.board, "")
            for v in virtual_probe.running_boards()
        ]

    @contextlib.contextmanager
    def open(
        self, board: Board, uid: str, connection: Connection, *, attach: bool = False
    ) -> Iterator[StubSession]:
        boards = {v.uid.replace("hil-", "stub-"): v for v in virtual_probe.running_boards()}
        flag = board.settings.get(self.name, {}).get("flag", "plain")
        with boards[uid].claim():
            yield StubSession(boards[uid].sockets, str(flag))


register_flasher(StubFlasher())
