"""The runner ``jumpstarter``: programs a board by its exporter's drivers, and forwards its line.

The exporter is that of the surrounding ``jmp shell``, or one that this machine's configuration of
Jumpstarter describes (setting ``exporter``). Jumpstarter itself leases boards: the lease is that of
the shell.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from hil.access.board_lock import board_lock
from hil.access.connection import Flashed
from hil.access.protocols import Need, Runner
from hil.access.qemu import QemuBoard
from hil.board.settings import Setting
from hil.errors import DeviceError, FlashError, HilError, InputError
from hil.firmware.formats import ImageFormat, image_in
from hil.support import unix_socket
from hil.support.poll import is_readable
from hil.support.process import ChildProcess, python_module
from hilc.support import optional
from hilc.support.counters import Counter
from hilc.support.temporary import TemporaryFolder

if TYPE_CHECKING:
    from hil.access.connection import Connection, Image
    from hil.board import Board

#: Jumpstarter's variable: the address of the exporter of the surrounding shell.
HOST_VARIABLE: Final = "JUMPSTARTER_HOST"
#: Time for an exporter's drivers to be ready.
_CONNECT_LIMIT_S = 30.0
#: Time to program a large image through a slow probe, and to switch a board off and on.
_FLASH_LIMIT_S, _POWER_LIMIT_S = 180.0, 60.0
_RETRY_S = 0.5
_FORMATS: Final[tuple[ImageFormat, ...]] = get_args(ImageFormat)
_KINDS: Final[Mapping[str, type[HilError]]] = {
    error.__name__: error for error in (InputError, FlashError)
}
SETTINGS: Final[Mapping[str, Setting]] = {
    "exporter": Setting("name", "an exporter of this machine; without: that of `jmp shell`", ""),
    "serial": Setting("name", "the driver of the serial line, if there are several", ""),
    "flasher": Setting("name", "the driver that programs, if there are several", ""),
    "power": Setting("name", "the driver of the power switch, if there are several", ""),
    "format": Setting("name", "what the flasher takes: elf, hex, bin or uf2", "elf"),
    "family": Setting("integer", "number of the family of a UF2 image", 0, 0, 0xFFFFFFFF),
    "emulated": Setting(
        "boolean", "the exporter's board is QEMU, which counts instructions", False
    ),
}


class JumpstarterRunner(Runner):
    """Starts boards by the drivers of their exporter."""

    name = "jumpstarter"
    settings = SETTINGS
    exists_once = True

    def serves(self, board: Board) -> bool:
        """Return whether ``board`` is a board, not this machine."""
        return not board.is_host

    def needs(self, board: Board) -> Need | None:
        """Return Jumpstarter's package."""
        return Need(
            "jumpstarter",
            optional.install_hint("jumpstarter"),
            find=lambda: optional.is_installed("jumpstarter"),
        )

    def lock_name(self, board: Board) -> str:
        """Return the name of the exporter's lock: it serves one user at a time."""
        exporter = board.settings[self.name]["exporter"] or os.environ.get(HOST_VARIABLE, "")
        return f"{self.name} {exporter}"

    def check(self, board: Board, connection: Connection) -> None:
        """Raise :class:`~hil.errors.InputError` for a setting without a meaning, and where no
        exporter is named.
        """
        settings = board.settings[self.name]
        if settings["format"] not in _FORMATS:
            raise InputError(
                f"{self.name}: format={settings['format']} is not a format of images",
                f"choose one of {', '.join(_FORMATS)}",
            )
        if settings["emulated"] and board.qemu is None:
            raise InputError(
                f"{self.name}: emulated=true, and {board.name} is no machine of QEMU",
                "drop emulated",
            )
        if not settings["exporter"] and not os.environ.get(HOST_VARIABLE):
            raise InputError(
                f"no exporter is named, and {HOST_VARIABLE} is not set",
                "run the command in `jmp shell`, as in: jmp shell --selector board="
                f"{board.name} -- hil ...; or name an exporter of this machine: --runner "
                f"{self.name}:exporter=NAME",
            )

    def start(
        self, board: Board, image: Image, connection: Connection
    ) -> contextlib.AbstractContextManager[ExportedBoard]:
        """Program the board and start it; the exporter is free again when the context ends."""
        self.check(board, connection)
        return _started(self, board, image, connection)


@contextlib.contextmanager
def _started(
    runner: JumpstarterRunner, board: Board, image: Image, connection: Connection
) -> Iterator[ExportedBoard]:
    settings = board.settings[runner.name]
    what = f"the exporter {settings['exporter'] or 'of the shell'}"
    with contextlib.ExitStack() as stack:
        wait_s = connection.appear_s
        stack.enter_context(board_lock(what, runner.lock_name(board), wait_s=wait_s))
        listener, path = stack.enter_context(unix_socket.listener("line"))
        exporter = _connected(stack, what, settings, listener.fileno(), wait_s)
        folder = Path(stack.enter_context(TemporaryFolder("exported")))
        file = image_in(
            image.elf,
            next(known for known in _FORMATS if known == settings["format"]),
            folder,
            int(settings["family"]) or None,
        )
        begin = time.monotonic()
        exporter.ask(_FLASH_LIMIT_S, do="flash", image=str(file.resolve()))
        if connection.flashed is not None:
            size = file.stat().st_size
            connection.flashed(Flashed(True, size, time.monotonic() - begin))
        shift = board.qemu.icount_shift if settings["emulated"] and board.qemu else None
        yield ExportedBoard(exporter, unix_socket.url(path), shift)


class ExportedBoard:
    """A firmware on the board of an exporter."""

    #: Another board with the same firmware would answer as this one does.
    is_proven: Final = False
    line: Final = None
    memory: Final = None

    def __init__(self, exporter: Exporter, url: str, icount_shift: int | None) -> None:
        """Create it; ``icount_shift`` is that of QEMU, None for a real board."""
        self.url = url
        self._exporter = exporter
        self._emulated = (
            None if icount_shift is None else QemuBoard(exporter.alive, url, None, icount_shift)
        )
        self.is_emulated = self._emulated is not None
        self.counter: Counter = "instructions" if self.is_emulated else "cycles"

    def alive(self) -> None:
        """Raise if the connection to the exporter has ended."""
        self._exporter.alive()

    def count(self, ticks: int, ticks_hz: int) -> int:
        """Return cycles, for QEMU instructions."""
        return ticks if self._emulated is None else self._emulated.count(ticks, ticks_hz)

    @property
    def can_reset(self) -> bool:
        """Return whether the exporter has a power switch."""
        return self._exporter.has_power

    def reset(self) -> None:
        """Switch the board off and on; the serial line must be closed."""
        self._exporter.ask(_POWER_LIMIT_S, do="cycle")


class Exporter:
    """A connection to an exporter: a child process, which is asked by lines of JSON."""

    def __init__(self, what: str, settings: Mapping[str, Any], line: int) -> None:
        """Start the process, which accepts clients of the serial line at the descriptor ``line``;
        raise :class:`~hil.errors.HilError` if the exporter does not answer or lacks a driver.
        """
        self._what = what
        words = {key: settings[key] for key in ("exporter", "serial", "flasher", "power")}
        self._process = ChildProcess(
            f"the connection to {what}",
            python_module("hil.access.jumpstarter.client", json.dumps({**words, "line": line})),
            install_hint=optional.install_hint("jumpstarter"),
            pass_fds=(line,),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            self.has_power = bool(self._answer(_CONNECT_LIMIT_S)["has_power"])
        except BaseException:
            self.close()
            raise

    def ask(self, limit_s: float, **request: str) -> None:
        """Return when the request is done; raise :class:`~hil.errors.DeviceError` otherwise."""
        self.alive()
        stdin = self._process.process.stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(request).encode() + b"\n")
        except OSError:
            raise self._process.end() from None
        self._answer(limit_s)

    def alive(self) -> None:
        """Raise if the process has ended, as it does when the exporter is lost."""
        self._process.alive()

    def close(self) -> None:
        """End the process, and with it the use of the exporter."""
        self._process.stop()

    def _answer(self, limit_s: float) -> dict[str, Any]:
        stdout = self._process.process.stdout
        assert stdout is not None
        deadline, data = time.monotonic() + limit_s, b""
        while not data.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0:
                self.close()  # it may still wait for the exporter
                raise DeviceError(
                    f"{self._what} gave no answer within {limit_s:g} s",
                    "check whether it runs, and what its log says",
                )
            if is_readable(stdout, left):
                part = stdout.read(65536)
                if not part:
                    raise self._process.end()
                data += part
        answer: dict[str, Any] = json.loads(data)
        if error := answer.get("error"):
            kind = _KINDS.get(error["kind"], DeviceError)
            raise kind(f"{self._what}: {error['message']}", error["hint"])
        return answer


def _connected(
    stack: contextlib.ExitStack, what: str, settings: Mapping[str, Any], line: int, wait_s: float
) -> Exporter:
    """Return the connection to an exporter, which is awaited for ``wait_s``."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            exporter = Exporter(what, settings, line)
        except DeviceError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_RETRY_S)
        else:
            stack.callback(exporter.close)
            return exporter
