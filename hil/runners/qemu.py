"""Runs a firmware in QEMU: deterministic instruction counts, no shared ports, no orphans."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from hil.errors import DeviceError, InputError, LinkError, Mend
from hil.link.line import raise_if_ending
from hil.support.process import ChildProcess
from hil.support.qemu import Memory, install_hint, program

if TYPE_CHECKING:
    from hil.board import Board
    from hil.link.bulk import BoardMemory
    from hil.link.line import Line
    from hil.runners.choice import Image

_NANOSECONDS = 1_000_000_000
#: QEMU answers at once, also while the firmware computes.
_MEMORY_TIMEOUT_S = 4.0
_RESET_TIMEOUT_S = 4.0
#: In the event that tells the end of a reset over QMP; the firmware's own have another reason.
_RESET_DONE = b'"reason": "host-qmp-system-reset"'
#: How often a wait looks whether QEMU still lives.
_LOOK_S = 0.01


class QemuMemory:
    """A machine's memory as its core sees it, through QEMU's qtest: no cache is emulated, and the
    core goes on meanwhile. It executes nothing for it, so no count changes.
    """

    def __init__(self, connection: socket.socket, is_alive: Callable[[], None]) -> None:
        """Create a client of ``connection``, the qtest socket of a machine that ``is_alive``
        watches.
        """
        self._qtest = Memory(connection, _MEMORY_TIMEOUT_S)
        self._is_alive = is_alive

    def read(self, address: int, nbytes: int) -> bytes:
        with self._explained():
            return self._qtest.read_block(address, nbytes)

    def write(self, address: int, data: bytes) -> None:
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
                "run it again; --no-bulk takes the serial line instead",
                mend=Mend.POWER,
            ) from None


class QemuBoard:
    """A firmware in QEMU; ``qmp`` is a connected socket that nobody else uses."""

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
        """``reset`` restarts the firmware where the machine's own reset would lose it, and gives
        the QMP socket and the memory to use from then on; ``qmp`` is closed before it is called.
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
        """Raise when QEMU has ended; else makes its main loop look at the serial line again.

        Input can stall: a character device that was full is sometimes not polled again until
        something else wakes the main loop. A command over QMP does.
        """
        self._is_alive()
        self._say(b'{"execute": "query-status"}')

    @property
    def can_reset(self) -> bool:
        """Return whether :meth:`reset` can be called: not without QMP."""
        return self._qmp is not None

    def reset(self) -> None:
        """Reset the machine, which loads its image again; the serial line must be closed.

        Returns when it is done: a firmware that answers afterwards is the one that started then.
        """
        if self._reset is None:
            self._reset_machine()
            return
        assert self._qmp is not None, "only what can_reset says"
        self._qmp.close()
        self._qmp, self.memory = self._reset()
        self._say(b'{"execute": "qmp_capabilities"}')

    def _reset_machine(self) -> None:
        assert self._qmp is not None, "only what can_reset says"
        deadline = time.monotonic() + _RESET_TIMEOUT_S
        with self._qmp_turn:
            try:
                with contextlib.suppress(BlockingIOError):
                    while self._qmp.recv(1 << 16):  # of an earlier reset, maybe
                        pass
                self._qmp.send(b'{"execute": "system_reset"}')
                # A thread of its own reads QMP, and the command only asks for it: for a moment the
                # main loop may still serve the old firmware.
                received = b""
                while _RESET_DONE not in received:
                    self._is_alive()
                    ready, _, _ = select.select([self._qmp], [], [], _LOOK_S)
                    if ready and not (part := self._qmp.recv(1 << 16)):
                        raise ConnectionResetError("it closed the connection")
                    received += part if ready else b""
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"no answer in {_RESET_TIMEOUT_S:g} s")
            except OSError as error:
                raise_if_ending(self._is_alive)
                raise LinkError(
                    f"QEMU did not reset the machine: {error}", "run it again", mend=Mend.POWER
                ) from None

    def count(self, ticks: int, ticks_hz: int) -> int:
        """Instructions: each takes ``2**icount_shift`` ns of the time that ``ticks`` measure."""
        per_second = ticks_hz << self._icount_shift
        return (ticks * _NANOSECONDS + per_second // 2) // per_second

    def _say(self, command: bytes) -> None:
        # Without QMP a probe has it, and there is no serial line to wake up. Another thread that
        # has it waits for a reset, which wakes up as well.
        if self._qmp is None or not self._qmp_turn.acquire(blocking=False):
            return
        try:
            # The answers are not needed, but unread ones would fill the socket. When QEMU takes
            # nothing (it is starting, or ending), there is nothing to wake up.
            with contextlib.suppress(OSError):
                self._qmp.send(command)
            with contextlib.suppress(OSError):
                self._qmp.recv(1 << 16)
        finally:
            self._qmp_turn.release()


@contextlib.contextmanager
def start(board: Board, firmware: Image) -> Iterator[QemuBoard]:
    """Start the firmware in QEMU, which waits for the first connection to its serial line."""
    if board.qemu is None:
        raise InputError(f"board {board.name!r} has no [qemu] table", "add a [qemu] table")
    with contextlib.ExitStack() as stack:
        # Sockets that exist before QEMU starts: no port can be taken by somebody else in between.
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        # Pairs without a name, which nobody else can connect to.
        qmp, qemu_qmp = (stack.enter_context(end) for end in socket.socketpair())
        qtest, qemu_qtest = (stack.enter_context(end) for end in socket.socketpair())
        qmp.setblocking(False)
        command = [
            *(program(board.cpu), "-machine", board.qemu.machine),
            *("-nodefaults", "-display", "none"),
            *("-kernel", str(firmware.elf)),
            # Between requests the firmware sleeps; with sleep=off QEMU would rush through that time
            # instead of sleeping too, from one timer interrupt to the next.
            *("-icount", f"shift={board.qemu.icount_shift},align=off,sleep=on"),
            # The UART's bytes come one by one; with Nagle's algorithm each answer would wait 40 ms
            # for the acknowledgement of its first byte.
            *("-chardev", f"socket,id=uart,fd={listener.fileno()},server=on,wait=on,nodelay=on"),
            *("-serial", "null") * board.qemu.serial,
            *("-serial", "chardev:uart"),
            *("-chardev", f"socket,id=qmp,fd={qemu_qmp.fileno()}"),
            *("-mon", "chardev=qmp,mode=control"),
            *("-chardev", f"socket,id=qtest,fd={qemu_qtest.fileno()}"),
            *("-qtest", "chardev:qtest", "-qtest-log", "none"),
            *board.qemu.args,
        ]
        process = ChildProcess(
            "QEMU",
            command,
            install_hint=install_hint(board.cpu),
            pass_fds=(listener.fileno(), qemu_qmp.fileno(), qemu_qtest.fileno()),
        )
        stack.callback(process.stop)
        url = f"socket://127.0.0.1:{listener.getsockname()[1]}"
        # QEMU has its own copies: when it ends, the connections must end with it.
        for its_own in (listener, qemu_qmp, qemu_qtest):
            its_own.close()
        memory = QemuMemory(qtest, process.alive)
        yield QemuBoard(process.alive, url, qmp, board.qemu.icount_shift, memory=memory)
