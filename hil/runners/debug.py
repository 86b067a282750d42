"""A gdb server on a board: pyOCD's behind a debug probe, or QEMU's own.

It is served on a socket in a private folder, or on TCP where that is asked for; in both cases
through a filter (:mod:`hil.runners.gdb_filter`).
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hil.board.machine import counted_words, uart_words
from hil.errors import DeviceError, InputError, ProbeError
from hil.firmware.image import check_image, read_image
from hil.probe import flash
from hil.probe.probes import only_line
from hil.runners.choice import Choice
from hil.runners.gdb_filter import GdbFilter
from hil.support import unix_socket
from hil.support.process import ChildProcess
from hil.support.qemu import install_hint

if TYPE_CHECKING:
    from hil.board import Board

#: The debugger for every core, used if the toolchain has none.
_ANY_DEBUGGER = "gdb-multiarch"


@dataclass(frozen=True)
class GdbServer:
    """A gdb server on a board that is halted before its first instruction."""

    #: What gdb connects to: the path of a socket, or HOST:PORT.
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
    def command(self) -> str:
        """The shell command that connects gdb."""
        debugger = self.gdb if shutil.which(self.gdb) else _ANY_DEBUGGER
        words = [debugger, str(self.elf)]
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


@contextlib.contextmanager
def serve(
    board: Board,
    elf: Path,
    runner: str | None,
    choice: Choice,
    listen: tuple[str, int] | None = None,
) -> Iterator[GdbServer]:
    """Put ``elf`` on the board and serve gdb; leaving the context ends the server.

    ``runner`` is ``pyocd`` or ``qemu``; the default is ``pyocd`` if a probe is chosen, otherwise
    the board's first runner. ``listen`` is the host and the port of a TCP server; None for a socket
    in a private folder.
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
    with contextlib.ExitStack() as stack:
        stub, upstream = stack.enter_context(unix_socket.listener("stub"))
        url, is_proven, alive = stack.enter_context(_SERVERS[name](board, elf, choice, stub))
        listener, address = _listener(stack, listen)
        passed = GdbFilter(listener, upstream, _MONITOR_COMMANDS[name])
        stack.callback(passed.close)
        gdb = board.cpu.toolchain.program("gdb")
        yield GdbServer(address, elf, gdb, url, alive, is_proven)


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


#: The URL of the serial line, if known; whether it is known to be the board's; and what raises if
#: the server has ended.
_Started = tuple[str | None, bool, Callable[[], None]]


@contextlib.contextmanager
def _serve_qemu(board: Board, elf: Path, choice: Choice, stub: socket.socket) -> Iterator[_Started]:
    """Serve at ``stub``, a listening socket."""
    assert board.qemu is not None, "the runner qemu implies a [qemu] table"
    if choice.probe is not None:
        raise InputError("the runner 'qemu' uses no probe", "drop --probe, or use pyocd")
    with contextlib.ExitStack() as stack:
        uart, path = stack.enter_context(unix_socket.listener("uart"))
        listening = "server=on,wait=off"
        command = [
            *counted_words(board),
            *("-S", "-kernel", str(elf)),
            *("-chardev", f"socket,id=gdb,fd={stub.fileno()},{listening}", "-gdb", "chardev:gdb"),
            *("-chardev", f"socket,id=uart,fd={uart.fileno()},{listening}"),
            *uart_words(board, "chardev:uart"),
        ]
        process = ChildProcess(
            "QEMU",
            command,
            install_hint=install_hint(board.cpu),
            pass_fds=(stub.fileno(), uart.fileno()),
        )
        stack.callback(process.stop)
        yield unix_socket.url(path), True, process.alive


@contextlib.contextmanager
def _serve_pyocd(
    board: Board, elf: Path, choice: Choice, stub: socket.socket
) -> Iterator[_Started]:
    """Serve at ``stub``, a listening socket."""
    from pyocd.gdbserver import GDBServer

    # Not at the top: pyOCD takes a third of a second to import.
    from hil.runners.pyocd import check_line_of, reached

    image = read_image(elf)
    with contextlib.ExitStack() as stack:
        chosen = stack.enter_context(reached(board, choice))
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
        # Kept for a second gdb after the first, and without a TCP server for semihosting's console.
        session.options.update(
            {"gdbserver_port": 0, "serve_local_only": True, "persist": True, "stdio_mode": "off"}
        )
        server = GDBServer(session, core=session.target.selected_core.core_number)
        # It opens a TCP port when it is made; nothing has been accepted there yet.
        server.listen_socket.close()
        server.listen_socket.listener = stub.dup()
        stack.callback(server.stop)
        server.start()

        def alive() -> None:
            if not server.is_alive():
                raise DeviceError(
                    f"pyOCD's gdb server on {board.name} has ended", "start it again with hil debug"
                )
            chosen.is_alive()

        yield url, chosen.virtual is not None or url is None, alive


_SERVERS = {"qemu": _serve_qemu, "pyocd": _serve_pyocd}
#: Commands of the servers' monitors that gdb may give. QEMU's monitor has others that start
#: programs; its machine is reset by starting it again.
_MONITOR_COMMANDS = {"qemu": (), "pyocd": ("halt", "init", "reset", "reset halt", "status")}
_LAST_PORT = 65535
