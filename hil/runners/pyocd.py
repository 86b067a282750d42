"""Run a firmware on a board with a debug probe: program, reset, prove which line is its own."""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hil import virtual_probe
from hil.board.config import remember
from hil.errors import DeviceError, FlashError, InputError, LinkError, Mend, ProbeError
from hil.firmware.image import Segment, read_image, symbol_address
from hil.link.line import check_port
from hil.link.ports import is_lasting, lasting_name
from hil.link.rtt import RttLine
from hil.probe import flash
from hil.probe.probes import (
    ProbeInfo,
    choose_probe,
    connected_probes,
    is_obvious,
    lines_of,
    lock_names,
    same_probe,
)
from hil.runners import proof
from hil.runners.choice import VIRTUAL, Choice
from hil.runners.qemu import QemuBoard, QemuMemory
from hil.support.board_lock import board_lock

if TYPE_CHECKING:
    from pyocd.core.session import Session

    from hil.board import Board
    from hil.link.bulk import BoardMemory
    from hil.link.line import Line
    from hil.runners.proof import Proven
    from hil.virtual_probe import VirtualBoard


_LOG = logging.getLogger("hil.runners")
_BAUDRATE = 115200
#: Pause between two looks for a probe that is awaited.
_APPEAR_LOOK_S = 0.1


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
        reset: Callable[[], Proven] | None = None,
        memory: BoardMemory | None = None,
        port: str | None = None,
        probe: str | None = None,
    ) -> None:
        """Create it; ``probe`` is the probe's unique id. ``reset`` restarts the firmware through
        the free probe and returns its line, which is proven anew.
        """
        self.url = url
        self.line = line
        self.port = port
        self.probe = probe
        self.memory = memory
        self._reset = reset

    @property
    def can_reset(self) -> bool:
        """Return whether :meth:`reset` may be called."""
        return self._reset is not None

    def reset(self) -> None:
        """Reset the board through its probe; the serial line must be closed."""
        assert self._reset is not None, "reset is called only if can_reset"
        proven = self._reset()
        self.url, self.line = proven.url, proven.line

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
def reached(board: Board, choice: Choice) -> Iterator[Reached]:
    """Yield the requested probe for ``board``, or the only matching one; one that is not there is
    awaited for ``choice.appear_s``.

    ``virtual`` starts the board's QEMU machine, which ends with the context. During the context no
    other process uses the board.
    """
    if choice.probe == VIRTUAL:
        with virtual_probe.start(board) as (virtual, process):
            yield Reached(virtual.uid, None, virtual, process.alive)
        return
    probe = _appearing(board, choice)
    running = next((v for v in virtual_probe.running_boards() if v.uid == probe.uid), None)
    if running is not None and running.board != board.name:
        raise InputError(
            f"the probe {probe.uid} is on the board {running.board}, not {board.name}",
            f"use --board {running.board}, or another probe",
        )
    with board_lock(f"the board behind the probe {probe.uid}", probe.uid):
        yield Reached(probe.uid, probe, running, _aliveness(running))


def pinned(board: Board, choice: Choice) -> Choice:
    """Return the choice of the one probe that it finds now, by the probe's whole unique id."""
    if choice.uid or choice.probe == VIRTUAL:
        return choice
    return replace(choice, uid=_appearing(board, choice).uid)


def _appearing(board: Board, choice: Choice) -> ProbeInfo:
    deadline = time.monotonic() + choice.appear_s
    while True:
        try:
            probes = connected_probes()
            if choice.uid:
                return same_probe(choice.uid, probes)
            return choose_probe(board, choice.probe, probes)
        except ProbeError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_APPEAR_LOOK_S)


@contextlib.contextmanager
def start(board: Board, elf: Path, choice: Choice) -> Iterator[ProbedBoard | QemuBoard]:
    """Program ``elf`` if the board does not have it yet, reset the board and start it.

    The serial line of a real board is proven to be that of the board behind the probe
    (:mod:`hil.runners.proof`), also after each reset. The probe is free while the firmware runs,
    except over RTT. A virtual board that was started here ends with the context; a real board
    continues to run.
    """
    image = read_image(elf)
    with contextlib.ExitStack() as stack:
        chosen = stack.enter_context(reached(board, choice))
        virtual = chosen.virtual
        # Before programming, which is useless without a port.
        check_line_of(board, chosen, choice)
        session = stack.enter_context(
            flash.connected(board, chosen.uid, erase_to_unlock=choice.erase_to_unlock)
        )
        done = flash.program(session, image, choice.progress)
        if virtual is None and not choice.rtt:
            started = _Started(board, elf, image, chosen, choice)

            def lock(line: Proven) -> None:
                names = lock_names(None, line.url)
                stack.enter_context(board_lock(f"the port {line.url}", *names))

            proven = started.run(session)
            session.close()  # others may use the probe while the firmware runs
            stack.callback(started.close)
            lock(proven)
            if choice.flashed is not None:
                choice.flashed(done)

            def reset() -> Proven:
                again = started.reset()
                lock(again)  # it may have returned under another name
                return again

            yield ProbedBoard(proven.url, proven.line, reset, port=proven.name, probe=chosen.uid)
            return
        flash.start_image(session, image)
        url = virtual.url if virtual is not None else ""
        line: Line | None = None
        memory: BoardMemory | None = None
        if choice.rtt:
            url = f"rtt://{chosen.uid}"  # for messages only
            line = RttLine(session, symbol_address(elf, "_SEGGER_RTT"))
            memory = ProbeMemory(session)
        else:
            session.close()
        if choice.flashed is not None:
            choice.flashed(done)

        def claim() -> tuple[socket.socket, BoardMemory]:
            assert virtual is not None
            control = stack.enter_context(_Control(virtual, chosen.is_alive))
            return control, control.memory

        def reset_virtual() -> tuple[socket.socket, BoardMemory]:
            with flash.connected(board, chosen.uid) as session:
                _check_firmware(board, session, image)
                flash.start_image(session, image)
            return claim()

        if virtual is None:
            assert chosen.probe is not None, "only a virtual board has no connected probe"
            _remember(board, chosen.probe, choice, None)
            # The line uses the probe, so there is no reset.
            yield ProbedBoard(url, line, None, memory, url, chosen.uid)
        else:
            assert board.qemu is not None
            qmp: socket.socket | None = None
            if not choice.rtt:
                qmp, memory = claim()
            shift = board.qemu.icount_shift
            yield QemuBoard(
                chosen.is_alive, url, qmp, shift, line=line, memory=memory, reset=reset_virtual
            )


class _Started:
    """A firmware on a real board; its line is searched for whenever it starts."""

    def __init__(
        self, board: Board, elf: Path, image: Sequence[Segment], chosen: Reached, choice: Choice
    ) -> None:
        assert chosen.probe is not None, "only a virtual board has no connected probe"
        self._board = board
        self._image = image
        self._probe = chosen.probe
        self._choice = choice
        self._handler = proof.handler_of(elf)
        # Now: the board that is programmed may return under another name.
        self._asked = lasting_name(choice.port) if choice.port is not None else None
        #: The candidates, and the one that was proven to be the line.
        self._names: list[str] = []
        self._proven: Proven | None = None

    def run(self, session: Session) -> Proven:
        """Start the firmware; return its line, and remember which it is."""
        flash.start_image(session, self._image)
        baudrate = self._board.macros.get("HIL_UART_BAUD", _BAUDRATE)
        proven = proof.prove(
            session,
            self._board,
            self._probe.uid,
            self._handler,
            self._candidates,
            baudrate,
            self._choice.appear_s,
        )
        if self._proven is None:
            _remember(self._board, self._probe, self._choice, proven.name)
        self._names, self._proven = [proven.name], proven
        return proven

    def reset(self) -> Proven:
        """Restart the same firmware."""
        with flash.connected(self._board, self._probe.uid) as session:
            _check_firmware(self._board, session, self._image)
            return self.run(session)

    def close(self) -> None:
        """Close the line, which its user may have closed."""
        assert self._proven is not None, "it was started"
        self._proven.line.close()

    def _candidates(self) -> list[str]:
        """Return the ports that may be the line: a board's own ports appear when it has started."""
        if self._proven is None:
            with contextlib.suppress(ProbeError):
                self._names = lines_of(self._board, self._probe, self._asked)
        return self._names


def _remember(board: Board, probe: ProbeInfo, choice: Choice, port: str | None) -> None:
    """Store the board of a generic probe that the user chose, and a port that was proven."""
    is_worth = port is not None and is_lasting(port) and not is_obvious(probe, port)
    try:
        remember(
            probe.uid,
            board=board.name if choice.probe is not None and not probe.target else None,
            port=port if is_worth else None,
        )
    except InputError as error:  # the next command chooses again
        _LOG.warning("the choice of probe and port is not remembered: %s", error.fact)


def _check_firmware(board: Board, session: Session, image: Sequence[Segment]) -> None:
    """Halt the core; raise if the board does not hold the firmware any more."""
    session.target.halt()
    if wrong := flash.first_difference(session, image):
        raise FlashError(
            f"{board.name} has lost its firmware: address {wrong[0]:#010x} reads "
            f"{wrong[2]:#04x} instead of {wrong[1]:#04x}",
            "flash it again; if this repeats, check the supply",
            mend=Mend.FLASH,
        )


def check_line_of(board: Board, chosen: Reached, choice: Choice) -> None:
    """Raise if no port can be the board's line."""
    if choice.rtt:
        return
    if chosen.virtual is not None:
        if choice.port is not None:
            raise InputError(
                f"the virtual board {chosen.uid} has its own serial line, not {choice.port}",
                "drop the port",
            )
        return
    if choice.appear_s:
        return  # it may come
    assert chosen.probe is not None, "only a virtual board has no connected probe"
    names = lines_of(board, chosen.probe, choice.port)
    if choice.port is not None and len(names) == 1:
        check_port(names[0])


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
