"""Run a firmware in QEMU with deterministic instruction counts and private sockets."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hil.access.protocols import DebugServer, Need, Runner
from hil.board.board import QEMU_SETTINGS
from hil.board.machine import counted_words, uart_words
from hil.errors import DeviceError, InputError, LinkError, Remedy
from hil.link.line import raise_if_ending
from hil.support import unix_socket
from hil.support.poll import is_readable
from hil.support.process import ChildProcess
from hil.support.qemu import Memory, install_hint, program

if TYPE_CHECKING:
    from hil.access.connection import Connection, Image
    from hil.board import Board
    from hil.link.bulk import BoardMemory
    from hil.link.line import Line

_NANOSECONDS = 1_000_000_000
#: QEMU answers QMP immediately, also while the firmware computes.
_MEMORY_TIMEOUT_S = 4.0
_RESET_TIMEOUT_S = 4.0
#: Part of the event that ends a reset by QMP; resets by the firmware have another reason.
_RESET_DONE = b'"reason": "host-qmp-system-reset"'
#: Interval at which a wait checks whether QEMU still runs.
_LOOK_S = 0.01


class QemuRunner(Runner):
    """Starts the board's machine in QEMU."""

    name = "qemu"
    settings = QEMU_SETTINGS
    reaches_memory = True
    #: QEMU's monitor has other commands, which start programs; its machine is reset by starting it
    #: again.
    monitor_commands: tuple[str, ...] = ()

    def needs(self, board: Board) -> Need:
        """Return the QEMU program of the board's core."""
        return Need(program(board.cpu), install_hint(board.cpu))

    def start(
        self, board: Board, image: Image, connection: Connection
    ) -> contextlib.AbstractContextManager[QemuBoard]:
        """Start the machine with the image; it ends with the context."""
        return start(board, image)

    @contextlib.contextmanager
    def serve_debugger(
        self, board: Board, elf: Path, connection: Connection, stub: socket.socket
    ) -> Iterator[DebugServer]:
        """Serve gdb with QEMU's own server; the machine has not started."""
        with contextlib.ExitStack() as stack:
            uart, path = stack.enter_context(unix_socket.listener("uart"))
            listening = "server=on,wait=off"
            command = [
                *counted_words(board),
                *("-S", "-kernel", str(elf)),
                *("-chardev", f"socket,id=gdb,fd={stub.fileno()},{listening}"),
                *("-gdb", "chardev:gdb"),
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
            yield DebugServer(unix_socket.url(path), True, process.alive)


class QemuMemory:
    """A machine's memory through QEMU's qtest, as its core sees it: QEMU emulates no cache.

    The core keeps running and executes no instructions for an access, so no count changes.
    """

    def __init__(self, connection: socket.socket, is_alive: Callable[[], None]) -> None:
        """Create a client of ``connection``, a machine's qtest socket; ``is_alive`` raises if the
        machine has ended.
        """
        self._qtest = Memory(connection, _MEMORY_TIMEOUT_S)
        self._is_alive = is_alive

    def read(self, address: int, nbytes: int) -> bytes:
        """Return ``nbytes`` bytes from ``address`` on; raise :class:`DeviceError` if QEMU fails."""
        with self._explained():
            return self._qtest.read_block(address, nbytes)

    def write(self, address: int, data: bytes) -> None:
        """Write ``data`` to ``address``; raise :class:`DeviceError` if QEMU fails."""
        with self._explained():
            self._qtest.write_block(address, data)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except DeviceError as error:
            raise_if_ending(self._is_alive)
            raise LinkError(
                f"a tensor was not transferred: {error.fact}",
                "run it again, or use the serial line: --no-bulk",
                remedy=Remedy.POWER,
            ) from None


class QemuBoard:
    """A firmware in QEMU; ``qmp`` is a connected socket without other users."""

    counter: Final = "instructions"
    is_emulated: Final = True

    def __init__(
        self,
        is_alive: Callable[[], None],
        url: str,
        qmp: socket.socket | None,
        icount_shift: int,
        *,
        line: Line | None = None,
        memory: BoardMemory | None = None,
        reset: Callable[[], tuple[socket.socket, BoardMemory]] | None = None,
    ) -> None:
        """Create it; ``reset``, if given, restarts the firmware when the machine's own reset would
        lose it, and returns the new QMP socket and memory. ``qmp`` is closed before that.
        """
        self.url = url
        self.line = line
        self.memory = memory
        self._is_alive = is_alive
        self._qmp = qmp
        self._icount_shift = icount_shift
        self._reset = reset
        self._qmp_turn = threading.Lock()
        self._say(b'{"execute": "qmp_capabilities"}')

    def alive(self) -> None:
        """Raise if QEMU has ended; otherwise wake its main loop, so that it polls the serial line.

        Input can stall: after a character device was full, QEMU may poll it only when another event
        wakes the main loop. A QMP command is such an event.
        """
        self._is_alive()
        self._say(b'{"execute": "query-status"}')

    @property
    def can_reset(self) -> bool:
        """Return whether :meth:`reset` may be called: it needs QMP."""
        return self._qmp is not None

    def reset(self) -> None:
        """Reset the machine, which loads its image again; the serial line must be closed.

        Returns after the reset, so a later answer comes from the restarted firmware.
        """
        if self._reset is None:
            self._reset_machine()
            return
        assert self._qmp is not None, "reset is called only if can_reset"
        self._qmp.close()
        self._qmp, self.memory = self._reset()
        self._say(b'{"execute": "qmp_capabilities"}')

    def _reset_machine(self) -> None:
        assert self._qmp is not None, "reset is called only if can_reset"
        deadline = time.monotonic() + _RESET_TIMEOUT_S
        with self._qmp_turn:
            try:
                with contextlib.suppress(BlockingIOError):
                    while self._qmp.recv(1 << 16):  # possibly events of an earlier reset
                        pass
                self._qmp.send(b'{"execute": "system_reset"}')
                # QMP has its own thread and only requests the reset: the main loop may serve
                # the old firmware for a moment.
                received = b""
                while _RESET_DONE not in received:
                    self._is_alive()
                    ready = is_readable(self._qmp, _LOOK_S)
                    if ready and not (part := self._qmp.recv(1 << 16)):
                        raise ConnectionResetError("QEMU closed the connection")
                    received += part if ready else b""
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"no answer in {_RESET_TIMEOUT_S:g} s")
            except OSError as error:
                raise_if_ending(self._is_alive)
                raise LinkError(
                    f"QEMU did not reset the machine: {error}", "run it again", remedy=Remedy.POWER
                ) from None

    def count(self, ticks: int, ticks_hz: int) -> int:
        """Return instructions: each takes ``2**icount_shift`` ns of virtual time."""
        per_second = ticks_hz << self._icount_shift
        return (ticks * _NANOSECONDS + per_second // 2) // per_second

    def _say(self, command: bytes) -> None:
        # Without QMP, which a probe uses, there is no serial line to wake. If another thread
        # uses QMP, it waits for a reset, which wakes the main loop as well.
        if self._qmp is None or not self._qmp_turn.acquire(blocking=False):
            return
        try:
            # Drain answers, which would fill the socket. If QEMU accepts no command (it is starting
            # or ending), there is nothing to wake.
            with contextlib.suppress(OSError):
                self._qmp.send(command)
            with contextlib.suppress(OSError):
                self._qmp.recv(1 << 16)
        finally:
            self._qmp_turn.release()


@contextlib.contextmanager
def start(board: Board, firmware: Image) -> Iterator[QemuBoard]:
    """Start the firmware in QEMU, which waits for a connection to its serial line.

    Raise :class:`InputError` if the board has no QEMU machine.
    """
    if board.qemu is None:
        raise InputError(
            f"board {board.name!r} has no runner 'qemu'",
            f"choose one of {', '.join(board.runners)}",
        )
    unix_socket.require_local_sockets("QEMU")
    with contextlib.ExitStack() as stack:
        # TCP merges the single bytes that QEMU writes; a socket with a path holds 278 of them, and
        # QEMU may not notice that there is room again.
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        # Unnamed pairs: nothing else can connect to them.
        qmp, qemu_qmp = (stack.enter_context(end) for end in socket.socketpair())
        qtest, qemu_qtest = (stack.enter_context(end) for end in socket.socketpair())
        qmp.setblocking(False)
        command = [
            *counted_words(board),
            *("-kernel", str(firmware.elf)),
            *("-chardev", f"socket,id=uart,fd={listener.fileno()},server=on,wait=on,nodelay=on"),
            *uart_words(board, "chardev:uart"),
            *("-chardev", f"socket,id=qmp,fd={qemu_qmp.fileno()}"),
            *("-mon", "chardev=qmp,mode=control"),
            *("-chardev", f"socket,id=qtest,fd={qemu_qtest.fileno()}"),
            *("-qtest", "chardev:qtest", "-qtest-log", "none"),
        ]
        process = ChildProcess(
            "QEMU",
            command,
            install_hint=install_hint(board.cpu),
            pass_fds=(listener.fileno(), qemu_qmp.fileno(), qemu_qtest.fileno()),
        )
        stack.callback(process.stop)
        url = f"socket://127.0.0.1:{listener.getsockname()[1]}"
        # QEMU has copies: the connections must end with it.
        for its_own in (listener, qemu_qmp, qemu_qtest):
            its_own.close()
        memory = QemuMemory(qtest, process.alive)
        yield QemuBoard(process.alive, url, qmp, board.qemu.icount_shift, memory=memory)
