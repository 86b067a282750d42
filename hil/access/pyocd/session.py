"""A session of pyOCD as the session of a flasher, and its core, memory and gdb server."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hil.access.connection import Flashed
from hil.access.protocols import FlasherSession, Progress
from hil.access.pyocd import flash
from hil.access.pyocd.rtt import RttLine
from hil.errors import DeviceError, FlashError, LinkError, Remedy
from hil.firmware.image import Segment, read_image

if TYPE_CHECKING:
    from pyocd.core.session import Session

    from hil.board import Board

#: A core without a valid image locks up within this time after a reset.
_RESET_LOOK_S = 0.1


class PyOcdCore:
    """The core of pyOCD's target (:class:`~hil.access.protocols.Core`)."""

    def __init__(self, session: Session) -> None:
        self._target = session.target

    def halt(self) -> None:
        """Stop the core."""
        self._target.halt()

    def resume(self) -> None:
        """Let the core run; pyOCD writes its breakpoints now."""
        self._target.resume()

    def step(self) -> None:
        """Execute an instruction."""
        self._target.step()

    def is_halted(self) -> bool:
        """Return whether the core has stopped."""
        from pyocd.core.target import Target

        return bool(self._target.get_state() == Target.State.HALTED)

    def set_breakpoint(self, address: int) -> bool:
        """Return whether there was a free breakpoint."""
        return bool(self._target.set_breakpoint(address))

    def remove_breakpoint(self, address: int) -> None:
        """Remove the breakpoint at an address."""
        self._target.remove_breakpoint(address)

    def read_register(self, name: str) -> int:
        """Return the value of a register of the stopped core."""
        return int(self._target.read_core_register(name))

    def write_register(self, name: str, value: int) -> None:
        """Set a register of the stopped core."""
        self._target.write_core_register(name, value)

    def read_memory(self, address: int, nbytes: int) -> bytes:
        """Return bytes of the board's memory, behind its caches."""
        return bytes(self._target.read_memory_block8(address, nbytes))


class ProbeMemory:
    """A board's memory through the pyOCD session that also carries the line."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def read(self, address: int, nbytes: int) -> bytes:
        """Return ``nbytes`` bytes at an address; LinkError if the probe fails."""
        with self._explained():
            return bytes(self._session.target.read_memory_block8(address, nbytes))

    def write(self, address: int, data: bytes) -> None:
        """Write bytes at an address; LinkError if the probe fails."""
        with self._explained():
            self._session.target.write_memory_block8(address, data)
            self._session.target.flush()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        from pyocd.core.exceptions import Error

        try:
            yield
        except Error as error:
            raise LinkError(
                f"the probe failed to access a tensor: {error or type(error).__name__}",
                "check the cable, or use the serial line: --no-bulk",
            ) from None


class PyOcdSession(FlasherSession):
    """An open pyOCD session; :func:`hil.access.pyocd.flash.connected` translates its errors."""

    def __init__(self, board: Board, session: Session) -> None:
        self._board = board
        self._session = session
        self._images: dict[Path, Sequence[Segment]] = {}

    def _segments(self, image: Path) -> Sequence[Segment]:
        if image not in self._images:
            self._images[image] = read_image(image)
        return self._images[image]

    def program(self, image: Path, progress: Progress | None) -> Flashed:
        """Program an ELF file unless the board has it already; leave the core halted."""
        return flash.program(self._session, self._segments(image), progress)

    def start(self, image: Path, *, halted: bool = False) -> None:
        """Reset the board and run the image, or leave it halted before its first instruction."""
        flash.start_image(self._session, self._segments(image), halted=halted)

    def reset(self) -> str:
        """Reset the board; DeviceError if its core locks up, since it has no valid image."""
        target = self._session.target
        target.reset()
        time.sleep(_RESET_LOOK_S)
        state = target.get_state()
        if state is target.State.LOCKUP:
            raise DeviceError(
                f"{self._board.name} locked up after the reset: it has no valid image",
                f"program one: hil flash MODEL --board {self._board.name}",
            )
        return str(state.name.lower())

    def close(self) -> None:
        """Close the session: others may use the probe."""
        self._session.close()

    def erase(self) -> list[tuple[int, int]]:
        """Erase all flash; return the first address and the bytes of each region."""
        return flash.erase(self._session)

    def verify(self, image: Path) -> None:
        """Halt the core; FlashError if the board does not hold the image any more."""
        self._session.target.halt()
        wrong = flash.first_difference(self._session, self._segments(image))
        if wrong is not None:
            raise FlashError(
                f"{self._board.name} has lost its firmware: address {wrong[0]:#010x} reads "
                f"{wrong[2]:#04x} instead of {wrong[1]:#04x}",
                "flash it again; if this repeats, check the supply",
                remedy=Remedy.FLASH,
            )

    @property
    def core(self) -> PyOcdCore:
        """The selected core of the target."""
        return PyOcdCore(self._session)

    @property
    def memory(self) -> ProbeMemory:
        """The board's memory through the probe."""
        return ProbeMemory(self._session)

    def rtt(self, address: int) -> RttLine:
        """Return the line over RTT; the session has to stay open as long as the line."""
        return RttLine(self._session, address)

    @contextlib.contextmanager
    def serve_debugger(self, board: Board, stub: socket.socket) -> Iterator[Callable[[], None]]:
        """Serve gdb at ``stub`` with pyOCD's server.

        Raise :class:`DeviceError` if the server ends by itself.
        """
        from pyocd.gdbserver import GDBServer

        # Kept for a second gdb after the first, and without a TCP server for semihosting's console.
        self._session.options.update(
            {"gdbserver_port": 0, "serve_local_only": True, "persist": True, "stdio_mode": "off"}
        )
        core = self._session.target.selected_core.core_number
        server = GDBServer(self._session, core=core)
        # It opens a TCP port when it is made; nothing has been accepted there yet.
        server.listen_socket.close()
        server.listen_socket.listener = stub.dup()

        def alive() -> None:
            if not server.is_alive():
                raise DeviceError(
                    f"pyOCD's gdb server on {board.name} has ended", "start it again with hil debug"
                )

        try:
            server.start()
            yield alive
        finally:
            server.stop()
