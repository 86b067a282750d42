"""A flasher from outside the package: it programs an emulated board through QEMU's own sockets.

It reads Intel HEX, writes the machine's memory through qtest, and resets it through QMP. The board
is a machine of :mod:`hil.virtual_probe`, of which no probe is used: this flasher lists it by an id
of its own. It does not control the core, so the serial line is not proven.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from hil import virtual_probe
from hil.access import Connection, Flashed, Flasher, FlasherSession, Need, Setting, register_flasher
from hil.access.connection import ProbeInfo
from hil.access.protocols import Progress
from hil.board import Board
from hil.errors import FlashError
from hil.support.qemu import Memory

_LIMIT_S = 30.0


class StubSession(FlasherSession):
    """The sockets of one machine."""

    def __init__(self, sockets: str, flag: str) -> None:
        self._sockets = Path(sockets)
        self._flag = flag

    def program(self, image: Path, progress: Progress | None) -> Flashed:
        begin = time.monotonic()
        assert image.suffix == ".hex", "the format that this flasher declares"
        nbytes = 0
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self._sockets / "qtest"))
            memory = Memory(connection, _LIMIT_S)
            for address, data in records(image):
                memory.write_block(address, data)
                nbytes += len(data)
        if progress is not None:
            progress(1.0)
        self._log("program")
        return Flashed(True, nbytes, time.monotonic() - begin)

    def start(self, image: Path, *, halted: bool = False) -> None:
        self.reset()

    def reset(self) -> str:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_LIMIT_S)
            connection.connect(str(self._sockets / "qmp"))
            with connection.makefile("rw") as lines:
                for command in ("qmp_capabilities", "system_reset", "cont"):
                    lines.write(json.dumps({"execute": command}) + "\n")
                    lines.flush()
                    while "return" not in (answer := json.loads(lines.readline())):
                        if "error" in answer:
                            raise FlashError(f"QEMU refused {command}", "start the board again")
        self._log("reset")
        return "running"

    def close(self) -> None:
        pass

    def _log(self, what: str) -> None:
        if log := os.environ.get("STUB_FLASHER_LOG"):
            with open(log, "a") as file:
                file.write(f"{what} {self._flag}\n")


def records(image: Path) -> Iterator[tuple[int, bytes]]:
    """Yield address and bytes of each record of data of an Intel HEX file."""
    upper = 0
    for line in image.read_text().splitlines():
        record = bytes.fromhex(line.removeprefix(":"))
        assert sum(record) & 0xFF == 0, "the checksum of a record"
        count, address, kind = record[0], int.from_bytes(record[1:3], "big"), record[3]
        if kind == 4:
            upper = int.from_bytes(record[4:6], "big") << 16
        elif kind == 0:
            yield upper + address, record[4 : 4 + count]


class StubFlasher(Flasher):
    """Programs the virtual boards of this user."""

    name = "stub"
    title = "the stub"
    settings: Mapping[str, Setting] = {
        "flag": Setting("name", "a word for the log of the tests", "plain"),
        "tries": Setting("integer", "how often it is tried", 1, 1, 3),
    }
    formats = ("hex",)

    def serves(self, board: Board) -> bool:
        return board.name == "mps2-an385"

    def needs(self, board: Board | None) -> Need:
        return Need("qemu-system-arm", "apt install qemu-system-arm")

    def probes(self) -> list[ProbeInfo]:
        return [
            ProbeInfo(v.uid.replace("hil-", "stub-"), "qtest", v.board, "")
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
