"""Run a firmware on a board with a debug probe: program, reset, find the serial port."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hil import virtual_probe
from hil.board.config import remember
from hil.errors import DeviceError, FlashError, InputError, LinkError, Mend, ProbeError
from hil.firmware.image import read_image, symbol_address
from hil.link.rtt import RttLine
from hil.probe import flash
from hil.probe.probes import ProbeInfo, choose_port, choose_probe, connected_probes
from hil.runners.choice import VIRTUAL, Choice
from hil.runners.qemu import QemuBoard, QemuMemory
from hil.support.board_lock import board_lock

if TYPE_CHECKING:
    from pyocd.core.session import Session

    from hil.board import Board
    from hil.link.bulk import BoardMemory
    from hil.link.line import Line
    from hil.virtual_probe import VirtualBoard


class ProbeMemory:
    """A board's memory through the pyOCD session that also carries the line."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def read(self, address: int, nbytes: int) -> bytes:
        with self._explained():
            return bytes(self._session.target.read_memory_block8(address, nbytes))

    def write(self, address: int, data: bytes) -> None:
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


class ProbedBoard:
    """A firmware on a board that a probe programmed."""

    counter: Final = "cycles"
    is_emulated: Final = False

    def __init__(
        self,
        url: str,
        line: Line | None,
        reset: Callable[[], None] | None = None,
        memory: BoardMemory | None = None,
    ) -> None:
        """Create it; ``reset`` restarts the firmware through the free probe."""
        self.url = url
        self.line = line
        self.memory = memory
        self._reset = reset

    @property
    def can_reset(self) -> bool:
        """Return whether :meth:`reset` may be called."""
        return self._reset is not None

    def reset(self) -> None:
        """Reset the board through its probe; the serial line must be closed."""
        assert self._reset is not None, "reset is called only if can_reset"
        self._reset()

    def alive(self) -> None:
        """Do nothing: only silence reveals that a real board has stopped."""

    def count(self, ticks: int, ticks_hz: int) -> int:
        """Return cycles: the time base runs at the core's clock."""
        return ticks


@dataclass(frozen=True)
class Reached:
    """A probe chosen for a board."""

    uid: str
    #: The connected probe; None for a virtual board started here.
    probe: ProbeInfo | None
    #: The QEMU machine behind the probe, if there is one.
    virtual: VirtualBoard | None
    #: Raises if that machine has ended.
    is_alive: Callable[[], None]


@contextlib.contextmanager
def reached(board: Board, asked: str | None) -> Iterator[Reached]:
    """Yield the requested probe for ``board``, or the only matching one.

    ``virtual`` starts the board's QEMU machine, which ends with the context. During the context no
    other process uses the board.
    """
    if asked == VIRTUAL:
        with virtual_probe.start(board) as (virtual, process):
            yield Reached(virtual.uid, None, virtual, process.alive)
        return
    probe = choose_probe(board, asked, connected_probes())
    running = next((v for v in virtual_probe.running_boards() if v.uid == probe.uid), None)
    if running is not None and running.board != board.name:
        raise InputError(
            f"the probe {probe.uid} is on the board {running.board}, not {board.name}",
            f"use --board {running.board}, or another probe",
        )
    with board_lock(f"the board behind the probe {probe.uid}", probe.uid):
        yield Reached(probe.uid, probe, running, _aliveness(running))


@contextlib.contextmanager
def start(board: Board, elf: Path, choice: Choice) -> Iterator[ProbedBoard | QemuBoard]:
    """Program ``elf`` if the board does not have it yet, reset the board and start it.

    The probe is free while the firmware runs, except over RTT. A virtual board that was started
    here ends with the context; a real board continues to run.
    """
    image = read_image(elf)
    with contextlib.ExitStack() as stack:
        chosen = stack.enter_context(reached(board, choice.probe))
        virtual = chosen.virtual
        # Before programming, which is useless without a port.
        url = line_url(board, chosen, choice)
        if virtual is None and not choice.rtt:
            stack.enter_context(board_lock(f"the port {url}", url))
        session = stack.enter_context(
            flash.connected(board, chosen.uid, erase_to_unlock=choice.erase_to_unlock)
        )
        done = flash.program(session, image, choice.progress)
        flash.start_image(session, image)
        line: Line | None = None
        memory: BoardMemory | None = None
        if choice.rtt:
            line = RttLine(session, symbol_address(elf, "_SEGGER_RTT"))
            memory = ProbeMemory(session)
        else:
            session.close()  # others may use the probe while the firmware runs
        if choice.flashed is not None:
            choice.flashed(done)

        def reset() -> None:
            with flash.connected(board, chosen.uid) as session:
                session.target.halt()
                if wrong := flash.first_difference(session, image):
                    raise FlashError(
                        f"{board.name} has lost its firmware: address {wrong[0]:#010x} reads "
                        f"{wrong[2]:#04x} instead of {wrong[1]:#04x}",
                        "flash it again; if this repeats, check the supply",
                        mend=Mend.FLASH,
                    )
                flash.start_image(session, image)

        def claim() -> tuple[socket.socket, BoardMemory]:
            assert virtual is not None
            control = stack.enter_context(_Control(virtual, chosen.is_alive))
            return control, control.memory

        def reset_virtual() -> tuple[socket.socket, BoardMemory]:
            reset()
            return claim()

        if virtual is None:
            remember(board.name, probe=choice.probe, port=choice.port)
            # Over RTT the line uses the probe.
            yield ProbedBoard(url, line, None if choice.rtt else reset, memory)
        else:
            assert board.qemu is not None
            qmp: socket.socket | None = None
            if not choice.rtt:
                qmp, memory = claim()
            shift = board.qemu.icount_shift
            yield QemuBoard(
                chosen.is_alive, url, qmp, shift, line=line, memory=memory, reset=reset_virtual
            )


def line_url(board: Board, chosen: Reached, choice: Choice) -> str:
    """Return the serial line's URL; over RTT a name for messages only."""
    if choice.rtt:
        return f"rtt://{chosen.uid}"
    if chosen.virtual is not None:
        return chosen.virtual.url
    assert chosen.probe is not None, "only a virtual board has no connected probe"
    return choose_port(board, chosen.probe, choice.port)


class _Control(socket.socket):
    """A QMP connection to a machine, and its memory; closing it frees both for the probe."""

    def __init__(self, virtual: VirtualBoard, is_alive: Callable[[], None]) -> None:
        super().__init__(socket.AF_UNIX)
        try:
            self._claim = virtual.claim()
        except BlockingIOError:
            super().close()
            raise ProbeError(
                f"the probe {virtual.uid} is busy: another session uses it",
                "end that session, or start another virtual board",
            ) from None
        self._qtest = socket.socket(socket.AF_UNIX)
        try:
            self.connect(f"{virtual.sockets}/qmp")
            self.setblocking(False)
            self._qtest.connect(f"{virtual.sockets}/qtest")
        except OSError as error:
            self.close()
            raise DeviceError(
                f"the virtual board {virtual.uid} does not accept connections: {error}",
                "start it again and repeat the command",
                mend=Mend.POWER,
            ) from None
        self.memory = QemuMemory(self._qtest, is_alive)

    def close(self) -> None:
        self._qtest.close()
        super().close()
        self._claim.close()


def _aliveness(virtual: VirtualBoard | None) -> Callable[[], None]:
    def check() -> None:
        if virtual is not None and virtual not in virtual_probe.running_boards():
            raise DeviceError(
                f"the virtual board {virtual.uid} has ended",
                "start it again and repeat the command",
                mend=Mend.POWER,
            )

    return check
