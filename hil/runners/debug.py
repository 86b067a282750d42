"""A gdb server on a board: pyOCD's behind a debug probe, or QEMU's own."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hil.errors import DeviceError, InputError, ProbeError
from hil.firmware.image import check_image, read_image
from hil.probe import flash
from hil.probe.probes import only_line
from hil.runners.choice import Choice
from hil.support.process import ChildProcess
from hil.support.qemu import install_hint, program

if TYPE_CHECKING:
    from hil.board import Board

#: The debugger for every core, used if the toolchain has none.
_ANY_DEBUGGER = "gdb-multiarch"


@dataclass(frozen=True)
class GdbServer:
    """A gdb server on a board that is halted before its first instruction."""

    port: int
    elf: Path
    #: The debugger of the board's toolchain.
    gdb: str
    #: The serial line, if known: ``hil run --port`` connects to the firmware there.
    url: str | None
    #: Raises if the server has ended.
    alive: Callable[[], None]
    #: Whether the line is known to be the board's: a real one that is halted cannot prove it.
    is_proven: bool = True

    @property
    def command(self) -> str:
        """The shell command that connects gdb."""
        debugger = self.gdb if shutil.which(self.gdb) else _ANY_DEBUGGER
        words = [debugger, str(self.elf)]
        # Source paths in the ELF file are relative to the firmware's project.
        project = self.elf.resolve().parent.parent
        if (project / "CMakeLists.txt").is_file():
            words += ["-ex", f"directory {project}"]
        return shlex.join([*words, "-ex", f"target remote 127.0.0.1:{self.port}"])


@contextlib.contextmanager
def serve(board: Board, elf: Path, runner: str | None, choice: Choice) -> Iterator[GdbServer]:
    """Put ``elf`` on the board and serve gdb; leaving the context ends the server.

    ``runner`` is ``pyocd`` or ``qemu``; the default is ``pyocd`` if a probe is chosen, otherwise
    the board's first runner.
    """
    name = runner or ("pyocd" if choice.probe is not None else board.default_runner)
    if name not in board.runners:
        raise InputError(
            f"board {board.name!r} has no runner {name!r}",
            f"choose one of {', '.join(board.runners)}",
        )
    if name not in _SERVERS:
        raise InputError(
            f"there is no gdb server for {name}", f"start gdb directly: gdb {shlex.quote(str(elf))}"
        )
    check_image(board, elf)
    with _SERVERS[name](board, elf, choice) as server:
        yield server


@contextlib.contextmanager
def _serve_qemu(board: Board, elf: Path, choice: Choice) -> Iterator[GdbServer]:
    assert board.qemu is not None, "the runner qemu implies a [qemu] table"
    if choice.probe is not None:
        raise InputError("the runner 'qemu' uses no probe", "drop --probe, or use pyocd")
    with contextlib.ExitStack() as stack:
        gdb, uart = (stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2))
        listening = "server=on,wait=off,nodelay=on"
        command = [
            *(program(board.cpu), "-machine", board.qemu.machine),
            *("-nodefaults", "-display", "none", "-S"),
            *("-icount", f"shift={board.qemu.icount_shift},align=off,sleep=on"),
            *("-kernel", str(elf)),
            *("-chardev", f"socket,id=gdb,fd={gdb.fileno()},{listening}", "-gdb", "chardev:gdb"),
            *("-chardev", f"socket,id=uart,fd={uart.fileno()},{listening}"),
            *("-serial", "null") * board.qemu.serial,
            *("-serial", "chardev:uart"),
            *board.qemu.args,
        ]
        process = ChildProcess(
            "QEMU",
            command,
            install_hint=install_hint(board.cpu),
            pass_fds=(gdb.fileno(), uart.fileno()),
        )
        stack.callback(process.stop)
        url = f"socket://127.0.0.1:{uart.getsockname()[1]}"
        yield GdbServer(gdb.getsockname()[1], elf, _gdb(board), url, process.alive)


@contextlib.contextmanager
def _serve_pyocd(board: Board, elf: Path, choice: Choice) -> Iterator[GdbServer]:
    from pyocd.gdbserver import GDBServer

    # Not at the top: pyOCD takes a third of a second to import.
    from hil.runners.pyocd import check_line_of, reached

    image = read_image(elf)
    with contextlib.ExitStack() as stack:
        chosen = stack.enter_context(reached(board, choice.probe))
        url = chosen.virtual.url if chosen.virtual is not None else None
        # No serial line: one through the probe would need a second client of the probe.
        if choice.rtt:
            url = None
        elif choice.port is not None:
            check_line_of(board, chosen, choice)
            url = choice.port
        elif chosen.probe is not None and url is None:
            with contextlib.suppress(ProbeError):
                url = only_line(board, chosen.probe)
        session = stack.enter_context(flash.connected(board, chosen.uid))
        done = flash.program(session, image, choice.progress)
        if choice.flashed is not None:
            choice.flashed(done)
        flash.start_image(session, image, halted=True)
        # Any free port, bound to this machine, and kept for a second gdb after the first.
        session.options.update({"gdbserver_port": 0, "serve_local_only": True, "persist": True})
        server = GDBServer(session, core=session.target.selected_core.core_number)
        stack.callback(server.stop)
        server.start()

        def alive() -> None:
            if not server.is_alive():
                raise DeviceError(
                    f"pyOCD's gdb server on {board.name} has ended", "start it again with hil debug"
                )
            chosen.is_alive()

        is_proven = chosen.virtual is not None or url is None
        yield GdbServer(server.port, elf, _gdb(board), url, alive, is_proven)


def _gdb(board: Board) -> str:
    return board.cpu.toolchain.program("gdb")


_SERVERS = {"qemu": _serve_qemu, "pyocd": _serve_pyocd}
