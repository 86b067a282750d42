"""A gdb server on a board: that of its flasher, or of the emulator that runs it.

It is served on a socket in a private folder, or on TCP where that is asked for; in both cases
through a filter (:mod:`hil.access.gdb_filter`).
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hil.access import chosen_runner, runner_named
from hil.access.connection import Connection
from hil.access.gdb_filter import GdbFilter
from hil.access.protocols import Debuggable
from hil.board import Board, board_names, load_board
from hil.errors import DeviceError, InputError
from hil.firmware.image import check_image
from hil.support import unix_socket

_LAST_PORT = 65535
#: The debugger for every core, used if the toolchain has none.
_ANY_DEBUGGER = "gdb-multiarch"


@dataclass(frozen=True)
class GdbServer:
    """A gdb server on a board that is halted before its first instruction."""

    #: Address for gdb: the path of a socket, or HOST:PORT.
    address: str
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
    def _debugger(self) -> str:
        return self.gdb if shutil.which(self.gdb) else _ANY_DEBUGGER

    @property
    def missing_debugger(self) -> str:
        """The debugger of the command if it is not installed, otherwise empty."""
        return "" if shutil.which(self._debugger) else self._debugger

    @property
    def command(self) -> str:
        """The shell command that connects gdb."""
        words = [self._debugger, str(self.elf)]
        # Source paths in the ELF file are relative to the firmware's project.
        project = self.elf.resolve().parent.parent
        if (project / "CMakeLists.txt").is_file():
            words += ["-ex", f"directory {project}"]
        return shlex.join([*words, "-ex", f"target remote {self.address}"])


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``; port 0 is any free one."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > _LAST_PORT:
        raise InputError(f"{text!r} is not an address", "write HOST:PORT, such as 127.0.0.1:3333")
    return host.strip("[]"), int(port)


def debugger_of(
    board: Board, runner: str | None, connection: Connection
) -> tuple[Board, Debuggable]:
    """Return the runner that serves gdb, and the board with its settings; InputError for a runner
    without a gdb server.
    """
    board, chosen = chosen_runner(board, runner, connection)
    if not isinstance(chosen, Debuggable):
        able = [name for name in board.runners if isinstance(runner_named(name), Debuggable)]
        raise InputError(
            f"the runner {chosen.name!r} has no gdb server",
            f"choose --runner {' or '.join(able)}" if able else _without_server(board),
        )
    chosen.check_debugger(board, connection)
    return board, chosen


def _without_server(board: Board) -> str:
    """Return the hint for a board none of whose runners has a gdb server."""
    if board.is_host:
        return f"`hil build MODEL --board {board.name}` names the ELF file: start gdb FILE"
    boards = map(load_board, board_names())
    similar = [b.name for b in boards if b.qemu and b.cpu.isa == board.cpu.isa]
    return f"debug the model on a board that QEMU emulates: {', '.join(similar)}"


@contextlib.contextmanager
def serve(
    board: Board,
    elf: Path,
    runner: str | None,
    connection: Connection,
    listen: tuple[str, int] | None = None,
) -> Iterator[GdbServer]:
    """Put ``elf`` on the board and serve gdb; leaving the context ends the server.

    ``runner`` is a runner with a gdb server or a flasher that has one; the default is the board's
    flasher if a probe is chosen, otherwise its first runner. ``listen`` is the host and the port of
    a TCP server; None for a socket in a private folder. Raise InputError for a runner without one.
    """
    board, chosen = debugger_of(board, runner, connection)
    check_image(board, elf)
    with contextlib.ExitStack() as stack:
        stub, upstream = stack.enter_context(unix_socket.listener("stub"))
        server = stack.enter_context(chosen.serve_debugger(board, elf, connection, stub))
        listener, address = _listener(stack, listen)
        passed = GdbFilter(listener, upstream, chosen.monitor_commands)
        stack.callback(passed.close)
        gdb = board.cpu.toolchain.program("gdb")
        yield GdbServer(address, elf, gdb, server.url, server.alive, server.is_proven)


def _listener(
    stack: contextlib.ExitStack, listen: tuple[str, int] | None
) -> tuple[socket.socket, str]:
    """Return the socket for gdb, and its address."""
    if listen is None:
        listener, path = stack.enter_context(unix_socket.listener("gdb"))
        return listener, str(path)
    try:
        family = socket.AF_INET6 if ":" in listen[0] else socket.AF_INET
        listener = stack.enter_context(socket.create_server(listen, family=family))
    except OSError as error:
        raise DeviceError(
            f"cannot listen at {listen[0]}:{listen[1]}: {error.strerror}",
            "give another address, or port 0 for any free one",
        ) from None
    host = f"[{listen[0]}]" if ":" in listen[0] else listen[0]
    return listener, f"{host}:{listener.getsockname()[1]}"
