"""A real board: programmed by its flasher, reset, and its serial line proven to be its own.

:class:`Hardware` is the runner of a flasher and has its name. A flasher that controls the board's
core proves the line (:mod:`hil.access.proof`); of one that does not, the firmware's build id alone
says which board answers.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import serial

from hil import virtual_probe
from hil.access import proof
from hil.access.board_lock import board_lock
from hil.access.connection import VIRTUAL, Connection, Image, ProbeInfo
from hil.access.probes import (
    choose_probe,
    is_obvious,
    lines_of,
    lock_names,
    only_line,
    same_probe,
)
from hil.access.protocols import (
    Capability,
    DebugServer,
    Flasher,
    FlasherSession,
    Need,
    Runner,
    Running,
    VirtualMachine,
    require,
)
from hil.access.qemu import QemuBoard, QemuMemory
from hil.access.registry import add_flasher, flashers
from hil.board.config import remember
from hil.errors import DeviceError, InputError, LinkError, ProbeError, Remedy
from hil.firmware.formats import image_in
from hil.firmware.image import symbol_address
from hil.link.line import (
    await_port,
    check_port,
    discard_received,
    open_error,
    open_line,
    raise_if_ending,
)
from hil.link.ports import is_lasting, is_there, lasting_name, resolve
from hil.support.scope import decided
from hil.virtual_probe import VirtualBoard
from hilc.support.temporary import TemporaryFolder

if TYPE_CHECKING:
    from hil.access.proof import Proven
    from hil.board import Board
    from hil.link.bulk import BoardMemory
    from hil.link.line import Line


_LOG = logging.getLogger("hil.access")
#: Pause between two looks for a probe that is awaited.
_APPEAR_LOOK_S = 0.1


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


class UnprovenBoard:
    """A firmware on a board whose flasher cannot prove which serial line is the board's."""

    counter: Final = "cycles"
    is_emulated: Final = False
    #: Another board with the same firmware would answer as this one does.
    is_proven: Final = False
    memory: Final = None

    def __init__(self, url: str, reset: Callable[[], None], *, can_reset: bool = True) -> None:
        """Create it with the URL of its line; ``reset`` starts the firmware again."""
        self.url = url
        #: The line, if it was opened before the start.
        self.line: Line | None = None
        self.reset = reset
        self.can_reset = can_reset

    def alive(self) -> None:
        """Do nothing: only silence reveals that a real board has stopped."""

    def count(self, ticks: int, ticks_hz: int) -> int:
        """Return cycles: the time base runs at the core's clock."""
        return ticks


@dataclass(frozen=True)
class Reached:
    """A board chosen for a flasher, by its probe or its port."""

    #: The probe's unique id, or the port.
    uid: str
    #: The connected probe; None for a virtual board started here, and for a port.
    probe: ProbeInfo | None
    #: The emulated or simulated machine behind the probe, if there is one.
    virtual: VirtualBoard | VirtualMachine | None
    #: Raises if that machine has ended.
    is_alive: Callable[[], None]


@contextlib.contextmanager
def reached(flasher: Flasher, board: Board, connection: Connection) -> Iterator[Reached]:
    """Yield the requested probe of ``flasher`` for ``board``, or the only matching one; one that is
    not there is awaited for ``connection.appear_s``.

    ``virtual`` starts the board's virtual machine, which ends with the context. During the context
    no other process uses the board.

    Raise :class:`InputError` if the probe is on another board.
    """
    if connection.port is not None and is_there(connection.port):
        check_port(connection.port)  # before programming, whatever needs the port afterwards
    if connection.probe == VIRTUAL:
        require(flasher, "virtual", flashers())
        with flasher.start_virtual(board) as (virtual, is_alive):
            yield Reached(virtual.uid, None, virtual, is_alive)
        return
    if not flasher.uses_probe:
        port = _port_of(flasher, board, connection)
        names = lock_names(connection.probe, port)
        with board_lock(f"the board at {port}", *names, wait_s=connection.appear_s):
            yield Reached(port, None, None, lambda: None)
        return
    probe = _appearing(flasher, board, pinned_to_probe(flasher, board, connection))
    running = next((v for v in virtual_probe.running_boards() if v.uid == probe.uid), None)
    if running is not None and running.board != board.name:
        raise InputError(
            f"the probe {probe.uid} is on the board {running.board}, not {board.name}",
            f"use --board {running.board}, or another probe",
        )
    what = f"the board behind the probe {probe.uid}"
    with board_lock(what, probe.uid, wait_s=connection.appear_s):
        yield Reached(probe.uid, probe, running, _aliveness(running))


def _port_of(flasher: Flasher, board: Board, connection: Connection) -> str:
    if connection.probe is not None and not flasher.passes_probe:
        raise InputError(f"the flasher {flasher.name!r} uses no probe", "choose the port: --port")
    if connection.port is None:
        raise InputError(
            f"the flasher {flasher.name!r} reaches {board.name} at a port, and none is given",
            "give it: --port usb:SERIAL[:INTERFACE] or another port",
        )
    await_port(connection.port, connection.appear_s)
    return resolve(connection.port)


def pinned_to_probe(flasher: Flasher, board: Board, connection: Connection) -> Connection:
    """Return the connection to the one probe that it finds now, by the probe's whole unique id.

    A command chooses once: its check before a build, and each start after it, use one probe.
    """
    if connection.uid or connection.probe == VIRTUAL or not flasher.uses_probe:
        return connection
    key = ("probe", flasher.name, board.path, connection.probe)
    uid = decided(key, lambda: _appearing(flasher, board, connection).uid)
    return replace(connection, uid=uid)


def _appearing(flasher: Flasher, board: Board, connection: Connection) -> ProbeInfo:
    deadline, is_asked = time.monotonic() + connection.appear_s, False
    while True:
        try:
            probes = flasher.candidates(board, connection)
            if connection.uid:
                return same_probe(connection.uid, probes)
            return choose_probe(board, connection.probe, probes)
        except ProbeError as error:
            if error.is_lost and not is_asked:
                is_asked = True
                deadline = max(deadline, time.monotonic() + flasher.summon(board, connection))
            if time.monotonic() >= deadline:
                if error.is_lost and flasher.connect:
                    error.hint = flasher.connect
                raise
        time.sleep(_APPEAR_LOOK_S)


@contextlib.contextmanager
def converted(flasher: Flasher, board: Board, elf: Path) -> Iterator[Path]:
    """Yield the file with the image of ``elf`` in the first of the flasher's formats."""
    with TemporaryFolder("image") as folder:
        yield image_in(elf, flasher.formats[0], Path(folder), flasher.uf2_family(board))


class Hardware(Runner):
    """Starts a real board by programming it with a flasher."""

    uses_probe = True

    def __init__(self, flasher: Flasher) -> None:
        self.flasher = flasher
        self.name = flasher.name
        self.settings = flasher.settings
        self.reaches_memory = "memory" in flasher.capabilities
        self.monitor_commands = flasher.monitor_commands

    def serves(self, board: Board) -> bool:
        """Return whether the flasher programs a board whose file does not name it."""
        return self.flasher.serves(board)

    def needs(self, board: Board) -> Need | None:
        """Return the tool or package that the flasher needs."""
        return self.flasher.needs(board)

    def check(self, board: Board, connection: Connection) -> None:
        """Raise if the probe or the port is missing, or a capability that the line needs."""
        self._require_line(connection)
        if connection.probe == VIRTUAL:
            require(self.flasher, "virtual", flashers())
            self.flasher.check_virtual(board)
            return
        with reached(self.flasher, board, connection) as chosen:
            check_line_of(board, chosen, connection)

    def _require_line(self, connection: Connection) -> None:
        needed: tuple[Capability, ...] = ("rtt",) if connection.rtt else ()
        for capability in needed:
            require(self.flasher, capability, flashers())

    @contextlib.contextmanager
    def start(self, board: Board, image: Image, connection: Connection) -> Iterator[Running]:
        """Program the image if the board does not have it yet, reset the board and start it.

        The serial line of a real board is proven to be that of the board behind the probe, also
        after each reset. The probe is free while the firmware runs, except over RTT. A virtual
        board that was started here ends with the context; a real board continues to run.
        """
        self._require_line(connection)
        flasher = self.flasher
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(converted(flasher, board, image.elf))
            chosen = stack.enter_context(reached(flasher, board, connection))
            # Before programming, which is useless without a port.
            check_line_of(board, chosen, connection)
            session = stack.enter_context(flasher.open(board, chosen.uid, connection))
            start = _Start(flasher, board, image.elf, file, chosen, connection, stack)
            with _explained(chosen):
                done = session.program(file, connection.progress)
                running = start.started(session)
            if connection.flashed is not None:
                connection.flashed(done)
            yield running

    def check_debugger(self, board: Board, connection: Connection) -> None:
        """Raise if the flasher has no gdb server, or the board no machine for a virtual probe."""
        require(self.flasher, "debug", flashers())
        if connection.probe == VIRTUAL:
            self.flasher.check_virtual(board)

    @contextlib.contextmanager
    def serve_debugger(
        self, board: Board, elf: Path, connection: Connection, stub: socket.socket
    ) -> Iterator[DebugServer]:
        """Program ``elf``, halt the board before its first instruction, and serve gdb."""
        flasher = self.flasher
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(converted(flasher, board, elf))
            chosen = stack.enter_context(reached(flasher, board, connection))
            url = _url_for_debugger(board, chosen, connection)
            session = stack.enter_context(flasher.open(board, chosen.uid, connection))
            with _explained(chosen):
                done = session.program(file, connection.progress)
                session.start(file, halted=True)
            if connection.flashed is not None:
                connection.flashed(done)
            serves = stack.enter_context(session.serve_debugger(board, stub))

            def alive() -> None:
                serves()
                chosen.is_alive()

            yield DebugServer(url, chosen.virtual is not None or url is None, alive)


def _url_for_debugger(board: Board, chosen: Reached, connection: Connection) -> str | None:
    """Return the serial line, if known; none through the probe, whose second client it would be."""
    if connection.rtt:
        return None
    if connection.port is not None:
        check_line_of(board, chosen, connection)
        return connection.port
    if chosen.virtual is not None:
        return chosen.virtual.url
    if chosen.probe is not None:
        with contextlib.suppress(ProbeError):
            return only_line(board, chosen.probe)
    return None


@contextlib.contextmanager
def _explained(chosen: Reached) -> Iterator[None]:
    """Raise the end of a virtual machine in place of the errors that it causes."""
    try:
        yield
    except DeviceError:
        if chosen.virtual is not None:
            raise_if_ending(chosen.is_alive)
        raise


class _Start:
    """The start of a programmed image, each time that it is started; ``stack`` ends with it."""

    def __init__(
        self,
        flasher: Flasher,
        board: Board,
        elf: Path,
        image: Path,
        chosen: Reached,
        connection: Connection,
        stack: contextlib.ExitStack,
    ) -> None:
        self._flasher = flasher
        self._board = board
        self._elf = elf
        self._image = image
        self._chosen = chosen
        self._connection = connection
        self._stack = stack

    def started(self, session: FlasherSession) -> Running:
        """Start the firmware in the way that suits the board and its connection."""
        virtual, connection = self._chosen.virtual, self._connection
        if isinstance(virtual, VirtualBoard):
            return self.emulated(session, virtual)
        if virtual is not None:
            return self.simulated(session, virtual)
        if connection.rtt:
            return self.over_rtt(session)
        if connection.is_foreign:
            return self.foreign(session)
        if "core" in self._flasher.capabilities:
            return self.proven(session)
        return self.unproven(session)

    def proven(self, session: FlasherSession) -> ProbedBoard:
        """Start the firmware, and prove which line is its own; others may use the probe then."""
        search = _Line(self._board, self._elf, self._image, self._chosen, self._connection)

        def hold(line: Proven) -> None:
            names = lock_names(None, line.url)
            lock = board_lock(f"the port {line.url}", *names, wait_s=self._connection.appear_s)
            self._stack.enter_context(lock)

        line = search.run(session)
        session.close()
        self._stack.callback(search.close)
        hold(line)

        def reset() -> Proven:
            with self._reopened() as session:
                again = search.run(session)
            hold(again)  # it may have returned under another name
            return again

        return ProbedBoard(line.url, line.line, reset, port=line.name, probe=self._chosen.uid)

    def foreign(self, session: FlasherSession) -> UnprovenBoard:
        """Start other people's firmware. The line is opened before, for what is said first."""
        line = self._line_before() if self._flasher.uses_probe else None
        # Where programming starts the firmware, the line has its first text already.
        if line is not None and self._flasher.can_reset(self._board):
            self._discard(line)
        board = self.unproven(session)
        board.line = line
        return board

    def _line_before(self) -> Line | None:
        """Return the board's line before its firmware starts; None if the port is not there yet."""
        try:
            url = self._only_port()
        except (ProbeError, LinkError):
            return None
        return self._opened(url)

    def _opened(self, url: str) -> Line:
        """Return the open line at ``url``, which is closed at the end."""
        try:
            line = open_line(url, self._board.line)
        except (serial.SerialException, OSError, ValueError) as error:
            raise open_error(url, error) from None
        self._stack.callback(line.close)
        return line

    def _discard(self, line: Line) -> None:
        """Read away what the firmware before has printed."""
        try:
            discard_received(line)
        except (serial.SerialException, OSError, ValueError) as error:
            raise open_error(self._chosen.uid, error) from None

    def _only_port(self) -> str:
        """Return the device of the only port that may be the board's, locked for this process."""
        chosen, port = self._chosen, self._connection.port
        if port is None:
            assert chosen.probe is not None, "a flasher without probes has a port"
            port = only_line(self._board, chosen.probe)
        url = resolve(port)
        names = lock_names(None, url)
        lock = board_lock(f"the port {url}", *names, wait_s=self._connection.appear_s)
        self._stack.enter_context(lock)
        return url

    def unproven(self, session: FlasherSession) -> UnprovenBoard:
        """Start the firmware; its line is the only port that may be the board's."""
        session.start(self._image)
        session.close()
        url = self._only_port()

        def reset() -> None:
            with self._reopened() as session:
                session.start(self._image)

        return UnprovenBoard(url, reset, can_reset=self._flasher.can_reset(self._board))

    def over_rtt(self, session: FlasherSession) -> ProbedBoard:
        """Start the firmware; the line uses the probe, so there is no reset."""
        if self._connection.is_foreign and "memory" in self._flasher.capabilities:
            # The RAM still has the text of the start before, until the firmware initialises RTT.
            session.memory.write(symbol_address(self._elf, "_SEGGER_RTT"), bytes(16))
        session.start(self._image)
        chosen = self._chosen
        assert chosen.probe is not None, "only a virtual board has no connected probe"
        _remember(self._board, chosen.probe, self._connection, None)
        url, line, memory = self._through_probe(session)
        return ProbedBoard(url, line, None, memory, url, chosen.uid)

    def simulated(self, session: FlasherSession, machine: VirtualMachine) -> Running:
        """Start the firmware on a simulated core behind its debug module."""
        session.start(self._image)
        session.close()

        def reset() -> None:
            with self._reopened() as session:
                session.start(self._image)

        return machine.running(reset)

    def emulated(self, session: FlasherSession, virtual: VirtualBoard) -> QemuBoard:
        """Start the firmware on the QEMU machine behind a virtual probe."""
        board, chosen = self._board, self._chosen
        assert board.qemu is not None, "its machine was started"
        url, memory = virtual.url, None
        # QEMU drops what other people's firmware says while nobody is connected.
        line = self._opened(url) if self._connection.is_foreign else None
        if line is not None:
            self._discard(line)
        session.start(self._image)
        qmp: socket.socket | None = None

        def claim() -> tuple[socket.socket, BoardMemory]:
            control = self._stack.enter_context(_Control(virtual, chosen.is_alive))
            return control, control.memory

        def reset() -> tuple[socket.socket, BoardMemory]:
            with self._reopened() as session:
                session.start(self._image)
            return claim()

        if self._connection.rtt:
            url, line, memory = self._through_probe(session)
        else:
            session.close()
            qmp, memory = claim()
        return QemuBoard(
            chosen.is_alive,
            url,
            qmp,
            board.qemu.icount_shift,
            line=line,
            memory=memory,
            reset=reset,
        )

    def _through_probe(self, session: FlasherSession) -> tuple[str, Line, BoardMemory | None]:
        """Return the URL of the line over RTT, which is for messages only, the line, and memory."""
        line = session.rtt(symbol_address(self._elf, "_SEGGER_RTT"))
        memory = session.memory if "memory" in self._flasher.capabilities else None
        return f"rtt://{self._chosen.uid}", line, memory

    @contextlib.contextmanager
    def _reopened(self) -> Iterator[FlasherSession]:
        """Yield a new session on the board, which still has the firmware."""
        # The user consented to erase the chip once, for the first session.
        connection = replace(self._connection, erase_to_unlock=False)
        with self._flasher.open(self._board, self._chosen.uid, connection) as session:
            if "verify" in self._flasher.capabilities:
                session.verify(self._image)
            yield session


class _Line:
    """The search for the serial line of a real board, whenever its firmware starts."""

    def __init__(
        self, board: Board, elf: Path, image: Path, chosen: Reached, connection: Connection
    ) -> None:
        assert chosen.probe is not None, "only a virtual board has no connected probe"
        self._board = board
        self._image = image
        self._probe = chosen.probe
        self._connection = connection
        self._handler = proof.handler_of(elf)
        # Now: the board that is programmed may return under another name.
        port = connection.port
        self._asked = lasting_name(port) if port is not None else None
        #: The candidates, and the one that was proven to be the line.
        self._names: list[str] = []
        self._proven: Proven | None = None

    def run(self, session: FlasherSession) -> Proven:
        """Start the firmware; return its line, and remember which it is."""
        session.start(self._image)
        proven = proof.prove(
            session.core,
            self._board,
            self._probe.uid,
            self._handler,
            self._candidates,
            self._connection.appear_s,
        )
        if self._proven is None:
            _remember(self._board, self._probe, self._connection, proven.name)
        self._names, self._proven = [proven.name], proven
        return proven

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


def _remember(board: Board, probe: ProbeInfo, connection: Connection, port: str | None) -> None:
    """Store the board of a generic probe that the user chose, and a port that was proven."""
    is_worth = port is not None and is_lasting(port) and not is_obvious(probe, port)
    try:
        remember(
            probe.uid,
            board=board.name if connection.probe is not None and not probe.target else None,
            port=port if is_worth else None,
        )
    except InputError as error:  # the next command chooses again
        _LOG.warning("the choice of probe and port is not remembered: %s", error.fact)


def check_line_of(board: Board, chosen: Reached, connection: Connection) -> None:
    """Raise if no port can be the board's line."""
    if connection.rtt:
        return
    if chosen.virtual is not None:
        if connection.port is not None:
            raise InputError(
                f"the virtual board {chosen.uid} has its own serial line, not {connection.port}",
                "drop the port",
            )
        return
    if connection.appear_s:
        return  # it may come
    if chosen.probe is None:
        check_port(chosen.uid)
        return
    names = lines_of(board, chosen.probe, connection.port)
    if connection.port is not None and len(names) == 1:
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
                remedy=Remedy.POWER,
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
                remedy=Remedy.POWER,
            )

    return check


def register_flasher(flasher: Flasher) -> None:
    """Register ``flasher``: board files, ``--flasher`` and, for boards that it programs,
    ``--runner`` may name it.

    Raise :class:`~hilc.errors.InputError` if a runner or another flasher has its name, or the name
    or one of its methods is invalid.
    """
    add_flasher(flasher, Hardware(flasher))
