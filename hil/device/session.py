"""``hil.open``: open a device for models on a board."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hil.access import Connection, Counter, Resettable, Running, Simulated, start
from hil.access.bench_boards import held_board, reach_of, refuse_options
from hil.access.board_lock import board_lock
from hil.access.probes import lock_names
from hil.board import Board, load_board
from hil.board.bench import is_of_bench
from hil.device.device import Device
from hil.device.power import Power, power_of_board
from hil.device.recovery import Recovery, Step
from hil.device.route import Route, ready_route, route_to
from hil.errors import DeviceError, HangError, InputError, LinkError, Remedy
from hil.firmware.build import Firmware, build
from hil.firmware.sources import (
    FirmwareKeywords,
    ModelOptions,
    ModelSource,
    load_sources,
    parse_sources,
)
from hil.lab.selector import parse_selector
from hil.link.bulk import Bulk
from hil.link.client import RUN_TIMEOUT_S, Client
from hil.link.line import Link, drive_line
from hil.link.ports import lasting_name
from hilc.artifact.library import ModelLibrary
from hilc.support.arguments import typed

if TYPE_CHECKING:
    from hil.access.connection import Flashed
    from hil.lab import LabBoard

#: Time for a port to return: USB enumerates the device again.
_PORT_LIMIT_S, _PORT_LOOK_S = 10.0, 0.1


class DeviceKeywords(FirmwareKeywords, total=False):
    """Options of :func:`open` and of the models of its firmware as keywords, for type checkers."""

    runner: str | None
    port: str | None
    probe: str | None
    transport: Literal["uart", "rtt"]
    bulk: bool | None
    lab: LabBoard | None
    run_timeout_s: float
    recover: bool
    wait_s: float | None


@typed
@contextlib.contextmanager
def open(
    board: str | Path | Board,
    *models: ModelLibrary | str | Path,
    runner: str | None = None,
    port: str | None = None,
    probe: str | None = None,
    transport: Literal["uart", "rtt"] = "uart",
    bulk: bool | None = None,
    progress: Callable[[float], None] | None = None,
    flashed: Callable[[Flashed], None] | None = None,
    workspace: str = "own",
    lab: LabBoard | None = None,
    run_timeout_s: float = RUN_TIMEOUT_S,
    recover: bool = True,
    wait_s: float | None = None,
) -> Iterator[Device]:
    """Open a device that runs ``models`` (libraries, model files, archives) on ``board``.

    Build the firmware and start it with ``runner``, by default the board's first. With ``probe`` (a
    debug probe's unique id or a part of it, or ``virtual``) the board's flasher programs it first;
    ``progress`` is called with the programmed fraction, 0 to 1, and ``flashed`` with the result.
    With ``transport="rtt"`` the serial line goes through the probe, too; a board's description may
    select this as well.

    Tensors are accessed in the board's memory instead of over the line if QEMU emulates the board.
    ``bulk=True`` also does so through a real probe that carries the line; ``bulk=False`` always
    uses the line (:mod:`hil.link.bulk`).

    With ``port`` (``usb:SERIAL[:INTERFACE]``, a device file or any pyserial URL) alone nothing is
    started: the firmware at the port must be the one that is built from ``models``, or any firmware
    of this project if there are no models; which board it runs on is not known
    (:attr:`Device.is_proven`). With a probe, ``port`` is the serial port of the board, by default
    the probe's own, and it is proven to be (:mod:`hil.access.proof`): a port of another board is a
    :class:`~hil.errors.LinkError`. ``workspace`` is ``own`` or ``shared``:
    whether models use the same memory one after the other. ``board`` may select a board of a lab
    (``lab:PLACE``, ``cpu=cortex-m4``: :mod:`hil.lab`), which is acquired for the time of the
    context, or of the bench (``NAME@bench``, ``arch=armv7e-m@bench``: :mod:`hil.board.bench`);
    ``lab`` is one that was acquired before. Leaving the context, also by an exception, closes the
    link and ends everything that was started. Without one, the board is asked first how deep its
    stack was: beyond the bound of the build it is a :class:`~hil.errors.StackError`.

    A run without a sign of life for ``run_timeout_s`` counts as hanging. With ``recover`` a board
    that does not answer is reset, programmed again and switched off and on, as far as possible
    (:mod:`hil.device.recovery`); the same applies to :meth:`Device.repeated`. A board that another
    process uses, and a probe or a port that is not connected, is awaited for ``wait_s``, by
    default not at all, but for a place of a lab 600 s.
    """
    _check_values(transport, run_timeout_s, wait_s)
    if isinstance(board, str) and (wanted := parse_selector(board)) is not None:
        # Not at the top: most sessions use no lab.
        from hil.lab.place import ACQUIRE_LIMIT_S, leased

        with (
            leased(wanted, ACQUIRE_LIMIT_S if wait_s is None else wait_s) as leased_board,
            open(
                leased_board.board,
                *models,
                bulk=bulk,
                workspace=workspace,
                lab=leased_board,
                run_timeout_s=run_timeout_s,
                recover=recover,
            ) as device,
        ):
            yield device
        return
    if isinstance(board, str) and is_of_bench(board):
        refuse_options(board, probe=probe, port=port, runner=runner)
        with (
            held_board(board, wait_s or 0.0) as found,
            open(
                found,
                *models,
                **reach_of(found),
                transport=transport,
                bulk=bulk,
                progress=progress,
                flashed=flashed,
                workspace=workspace,
                run_timeout_s=run_timeout_s,
                recover=recover,
                wait_s=wait_s,
            ) as device,
        ):
            yield device
        return
    if isinstance(board, str | Path):
        board = load_board(board)
    if transport == "rtt":
        board = board.over_rtt()
    connection = Connection(
        probe, port, board.is_over_rtt, progress, flashed, lab, bulk, wait_s or 0.0
    )
    route = ready_route(board, runner, connection)
    libraries = _libraries(models, board, workspace)
    with open_compiled(
        board,
        libraries,
        route,
        workspace=workspace,
        run_timeout_s=run_timeout_s,
        recover=recover,
    ) as device:
        yield device


@contextlib.contextmanager
def open_compiled(
    board: Board,
    libraries: Sequence[ModelLibrary],
    route: Route,
    *,
    workspace: str = "own",
    run_timeout_s: float = RUN_TIMEOUT_S,
    recover: bool = True,
) -> Iterator[Device]:
    """Open a device that runs compiled models on a board whose route was chosen before; otherwise
    like :func:`open`.
    """
    has_firmware = bool(libraries) or not route.attaches
    firmware = build(libraries, board, workspace=workspace) if has_firmware else None
    with _device(board, libraries, firmware, route, run_timeout_s, recover) as device:
        yield device


def _check_values(transport: str, run_timeout_s: float, wait_s: float | None) -> None:
    """Raise :class:`InputError` for arguments out of range."""
    if transport not in ("uart", "rtt"):
        raise InputError(f"transport={transport!r:.60} is not available", "choose uart or rtt")
    # NaN is not above 0 either.
    if not run_timeout_s > 0:
        raise InputError(
            f"run_timeout_s={run_timeout_s!r:.60} is not a number of seconds above 0",
            "give a number above 0",
        )
    if wait_s is not None and not 0 <= wait_s < math.inf:
        raise InputError(f"wait_s={wait_s!r:.60} is no number of seconds", "give 0 or more")


@contextlib.contextmanager
def open_firmware(
    firmware: Firmware,
    *,
    runner: str | None = None,
    port: str | None = None,
    probe: str | None = None,
    run_timeout_s: float = RUN_TIMEOUT_S,
    recover: bool = True,
) -> Iterator[Device]:
    """Open a device for a firmware that is already built; otherwise like :func:`open`."""
    board = firmware.board
    route = route_to(board, runner, Connection(probe, port)).pinned()
    with _device(board, firmware.libraries, firmware, route, run_timeout_s, recover) as device:
        yield device


@contextlib.contextmanager
def _device(
    board: Board,
    libraries: Sequence[ModelLibrary],
    firmware: Firmware | None,
    route: Route,
    run_timeout_s: float,
    recover: bool,
) -> Iterator[Device]:
    """Open a device; its route is to one board, so that recovery is for this one also while another
    is connected.
    """
    with contextlib.closing(_Way(board, firmware, route, run_timeout_s)) as way:
        recovery = Recovery(board.name, way.steps, unit=way.unit) if recover else None
        # The native board's time base is this machine's clock.
        ticks_are: Counter = "nanoseconds" if board.is_host else "cycles"

        def opened() -> Device:
            assert way.client is not None, "start and each recovery step create a client"
            known = (way.running, firmware, ticks_are, recovery, route.label)
            return Device(way.client, libraries, *known)

        try:
            way.start()
            way.device = opened()
        except DeviceError as error:
            if recovery is None:
                raise
            recovery.recover(error)
            # Not over yet: a board that fails again gets a stronger step.
            way.device = recovery.repeated(opened)
        if recovery is not None:
            recovery.mark_recovered()
        yield way.device
        # What a model did to the stack is known only now.
        way.device.check_stack()


class _Way:
    """A board's started runner, line and client; recovery steps renew them."""

    def __init__(
        self,
        board: Board,
        firmware: Firmware | None,
        route: Route,
        run_timeout_s: float,
    ) -> None:
        self._board = board
        self._firmware = firmware
        self._route = route
        self._connection = connection = route.connection
        # The system may give the name of a port that was unplugged to another board's.
        self._port = lasting_name(connection.port) if connection.port is not None else None
        self._run_timeout_s = run_timeout_s
        self._started = contextlib.ExitStack()
        self.running: Running | None = None
        self.client: Client | None = None
        #: Called after its runner was started again.
        self.device: Device | None = None

    @property
    def _attaches(self) -> bool:
        return self._route.attaches

    @property
    def unit(self) -> str:
        """Say which of the boards of that name it is; nothing for one that is started here."""
        if self._connection.lab is not None:
            return self._connection.lab.place
        return self._connection.uid or self._connection.probe or self._port or ""

    def start(self, appear_s: float = 0.0) -> None:
        """Start the firmware unless it already runs, and perform the handshake; await a probe and
        a port for ``appear_s``.
        """
        if self._attaches:
            self._lock()
            self._connect(appear_s)
            return
        assert self._firmware is not None
        appear_s = max(appear_s, self._connection.appear_s)
        connection = replace(self._connection, appear_s=appear_s)
        self.running = self._started.enter_context(
            start(self._route.board, self._firmware, self._route.runner, connection)
        )
        if self.device is not None:
            self.device.renew(self.running)
        self._connect()

    def _lock(self) -> None:
        """Lock the board at the port, which may be another device than before."""
        assert self._port is not None
        names = lock_names(None, self._port)
        lock = board_lock(f"the board at {self._port}", *names, wait_s=self._connection.appear_s)
        self._started.enter_context(lock)

    def close(self) -> None:
        """Close the line and end everything that was started."""
        with contextlib.ExitStack() as stack:
            # Also end the runner if closing the line raises or is interrupted.
            stack.callback(self._started.close)
            self.running = None
            if self.client is not None:
                self.client.close()

    def steps(self, error: DeviceError) -> list[Step]:
        """Return the recovery steps for ``error``, the mildest first."""
        steps = []
        if self._can_reset():
            steps.append(Step(Remedy.RESET, "a reset", self._reset))
        elif self._attaches and self._board.line.reset:
            steps.append(Step(Remedy.RESET, "a reset by DTR and RTS", self._reset_by_port))
        elif self._is_there and not isinstance(error, HangError):
            # Hanging firmware does not receive it.
            steps.append(Step(Remedy.RESET, "a reset over the line", self._reset_over_line))
        is_started_here = self._route.is_machine
        if self._connection.lab is not None or (not self._attaches and not is_started_here):
            steps.append(Step(Remedy.FLASH, "programming it again", self._restart))
        power = power_of_board(self._board) if self._connection.lab is None else None
        if power is not None:
            steps.append(Step(Remedy.POWER, "a power cycle", lambda: self._power_cycle(power)))
        elif self._connection.lab is None and not self._attaches and is_started_here:
            steps.append(Step(Remedy.POWER, "a new start of its machine", self._restart))
        return steps

    @property
    def _is_there(self) -> bool:
        return self._attaches or self.running is not None

    def _can_reset(self) -> bool:
        return isinstance(self.running, Resettable) and self.running.can_reset

    def _reset(self) -> None:
        assert isinstance(self.running, Resettable)
        if self.client is not None:
            self.client.close()
        self.running.reset()
        self._connect()

    def _reset_by_port(self) -> None:
        assert self._port is not None
        if self.client is not None:
            self.client.close()
        drive_line(self._port, self._board.line, self._board.line.reset)
        self._connect(_PORT_LIMIT_S)

    def _reset_over_line(self) -> None:
        self._connect(_PORT_LIMIT_S)
        assert self.client is not None
        self.client.reset()

    def _restart(self) -> None:
        self.close()
        self.start()

    def _power_cycle(self, power: Power) -> None:
        self.close()
        power.cycle()
        self.start(power.return_s)

    def _connect(self, port_limit_s: float = 0.0) -> None:
        """Open the line, waiting for a port to return, and perform the handshake."""
        if self.client is not None:
            self.client.close()
        deadline = time.monotonic() + port_limit_s
        while True:
            try:
                if self._attaches and port_limit_s:
                    self._lock()  # the port may have returned under another name
                link = open_link(self._board, self.running, self._port)
                break
            except LinkError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_PORT_LOOK_S)
        try:
            if self.client is not None:
                self.client.renew(link)
                self.client.bulk = self._bulk()
                return
            firmware, running = self._firmware, self.running
            self.client = Client(
                link,
                build_id=firmware.build_id if firmware else None,
                elf=firmware.elf if firmware else None,
                run_timeout_s=self._run_timeout_s,
                slowness=running.slowness if isinstance(running, Simulated) else 1.0,
            )
            self.client.bulk = self._bulk()
        except BaseException:
            link.close()
            raise

    def _bulk(self) -> Bulk | None:
        """Return access to tensors besides the line, if chosen or if the board is emulated."""
        running, wanted = self.running, self._connection.bulk
        if running is None or running.memory is None or self._firmware is None:
            return None
        if not (running.is_emulated if wanted is None else wanted):
            return None
        return Bulk(
            running.memory, self._firmware.elf, self._board.memory, is_demanded=bool(wanted)
        )


def _libraries(
    models: Sequence[ModelLibrary | str | Path], board: Board, workspace: str
) -> list[ModelLibrary]:
    compiled = [model for model in models if isinstance(model, ModelLibrary)]
    if len(compiled) == len(models):
        return compiled
    sources = [m if isinstance(m, ModelLibrary) else _source(m) for m in models]
    return load_sources(sources, ModelOptions(board.cpu.name, board=board, workspace=workspace))


def _source(model: str | Path) -> ModelSource:
    if isinstance(model, str | Path):
        return parse_sources([str(model)])[0]
    raise InputError(
        f"{model!r:.60} of type {type(model).__name__} is not a model",
        "give each model as its own argument, a path or a library: hil.open(board, *models)",
    )


def open_link(board: Board, running: Running | None, port: str | None = None) -> Link:
    """Return the serial line of a started firmware, or of the one at ``port``."""
    if running is None:
        assert port is not None
        return Link(port, settings=board.line)
    return Link(running.url, settings=board.line, alive=running.alive, line=running.line)
