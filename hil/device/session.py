"""``hil.open``: from models and a board to a device that answers."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hil.board import Board, load_board
from hil.device.device import Device
from hil.device.power import Power, power_of
from hil.device.recovery import Recovery, Step
from hil.errors import DeviceError, HangError, InputError, LinkError, Mend
from hil.firmware.build import Firmware, build
from hil.firmware.sources import ModelOptions, ModelSource, load_sources, parse_sources
from hil.lab.selector import parse_selector
from hil.link.bulk import Bulk
from hil.link.client import RUN_TIMEOUT_S, Client
from hil.link.line import Link, check_port
from hil.runners import (
    Choice,
    Counter,
    Resettable,
    Running,
    check_line,
    check_ready,
    is_machine,
    runner_name,
    runner_named,
    start,
)
from hilc.artifact.library import ModelLibrary

if TYPE_CHECKING:
    from hil.lab import LabBoard
    from hil.probe.flash import Flashed

_DEFAULT_BAUDRATE = 115200
#: How long a port may take to come back: a USB device is recognised anew.
_PORT_LIMIT_S, _PORT_LOOK_S = 10.0, 0.1


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
) -> Iterator[Device]:
    """Open a device that runs ``models`` (libraries, model files, archives) on ``board``.

    Builds the firmware and starts it with ``runner``, the board's default one when None. With
    ``probe`` (a debug probe's unique id or a part of it, or ``virtual``) pyOCD programs the board
    first; ``progress`` is told how far that is, 0 to 1, and ``flashed`` what was done. With
    ``transport="rtt"`` the serial line goes through the probe too, as it does on boards whose
    description says so.

    Tensors are read and written in the board's memory, past the line, where it is emulated by QEMU;
    with ``bulk`` also by a real probe that the line goes through; with ``bulk=False`` they take the
    line everywhere (:mod:`hil.link.bulk`).

    With ``port`` (any pyserial URL) alone nothing is started: the firmware there must be the one
    that is built from ``models``, or any of this project when there are no models. With a probe it
    is the serial port of the board. ``workspace`` is ``own`` or ``shared``: whether the models work
    in the same memory, one after the other. A board of a lab is acquired for as long as the context
    lasts where ``board`` asks for one (``lab:PLACE``, ``cpu=cortex-m4``: :mod:`hil.lab`), or is
    ``lab``, which somebody acquired already. Leaving the context closes the link and ends what was
    started, however it is left.

    A run that is silent for ``run_timeout_s`` counts as hanging. With ``recover`` a board that does
    not come up is reset, programmed again and switched off and on, as far as there is a way to do
    so (:mod:`hil.device.recovery`), and so it is in :meth:`Device.repeated`.
    """
    if isinstance(board, str) and (wanted := parse_selector(board)) is not None:
        # Not at the top: most sessions need no lab.
        from hil.lab import leased

        with (
            leased(wanted) as leased_board,
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
    if isinstance(board, str | Path):
        board = load_board(board)
    if not isinstance(board, Board):
        raise InputError(
            f"{board!r:.60} is not a board but of type {type(board).__name__}",
            "give its name, which `hil boards` lists, or the path of a description",
        )
    if transport == "rtt":
        board = board.over_rtt()
    choice = Choice(probe, port, board.is_over_rtt, progress, flashed, lab, bulk)
    check_way(board, runner, choice)
    libraries = _libraries(models, board, workspace)
    has_firmware = bool(libraries) or not _attaches(runner, choice)
    firmware = build(libraries, board, workspace=workspace) if has_firmware else None
    way = (firmware, runner, choice, run_timeout_s, recover)
    with _device(board, libraries, *way) as device:
        yield device


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
    """Open a device that runs an already built firmware; otherwise like :func:`open`."""
    choice = Choice(probe, port)
    way = (firmware, runner, choice, run_timeout_s, recover)
    with _device(firmware.board, firmware.libraries, *way) as device:
        yield device


def _check_bulk(board: Board, runner: str | None, choice: Choice) -> None:
    """Refuse a board whose memory is known to be out of reach."""
    name = runner_name(board, runner, choice)
    if choice.lab is not None:
        why = "a lab hands on a board's serial line, not its memory"
    elif _attaches(runner, choice):
        why = "behind a port there is only the serial line"
    elif not runner_named(name).reaches_memory:
        why = f"the runner {name} has no way to the firmware's memory beside the serial line"
    elif is_machine(board, runner, choice):
        return
    elif not board.is_over_rtt:
        raise InputError(
            "tensors take the probe only where the serial line does, too", "use --transport rtt"
        )
    # A probe does not see what a core holds in its data cache; no emulator here has one.
    elif board.cpu.debug.data_cache and board.qemu is None:
        why = f"{board.name} has a data cache, past which a probe would read and write"
    else:
        return
    raise InputError(why, "leave out --bulk")


def check_way(board: Board, runner: str | None, choice: Choice) -> None:
    """Raise where what the way to the board needs is not there, before anything is built."""
    check_line(choice)
    if choice.bulk:
        _check_bulk(board, runner, choice)
    power_of(board.name)  # a mistake in it should not come to light when it is needed
    if _attaches(runner, choice):
        assert choice.port is not None
        check_port(choice.port)
    else:
        check_ready(board, runner, choice)


def _attaches(runner: str | None, choice: Choice) -> bool:
    """Return whether the firmware runs already, behind the port that was chosen."""
    return choice.port is not None and runner is None and choice.probe is None


@contextlib.contextmanager
def _device(
    board: Board,
    libraries: Sequence[ModelLibrary],
    firmware: Firmware | None,
    runner: str | None,
    choice: Choice,
    run_timeout_s: float,
    recover: bool,
) -> Iterator[Device]:
    with contextlib.closing(_Way(board, firmware, runner, choice, run_timeout_s)) as way:
        recovery = Recovery(board.name, way.steps) if recover else None
        try:
            way.start()
        except DeviceError as error:
            if recovery is None:
                raise
            recovery.recover(error)
        if recovery is not None:
            recovery.over()
        # The time base of the native board is this machine's clock.
        ticks_are: Counter = "nanoseconds" if board.is_host else "cycles"
        assert way.client is not None, "start and every step of recovery make one"
        way.device = Device(way.client, libraries, way.running, firmware, ticks_are, recovery)
        yield way.device


class _Way:
    """The way to a board: what was started for it, the line, the client; recovery renews them."""

    def __init__(
        self,
        board: Board,
        firmware: Firmware | None,
        runner: str | None,
        choice: Choice,
        run_timeout_s: float,
    ) -> None:
        self._board = board
        self._firmware = firmware
        self._runner = runner
        self._choice = choice
        self._run_timeout_s = run_timeout_s
        self._started = contextlib.ExitStack()
        self.running: Running | None = None
        self.client: Client | None = None
        #: Told when what it talks to was started anew.
        self.device: Device | None = None

    @property
    def _attaches(self) -> bool:
        return _attaches(self._runner, self._choice)

    def start(self) -> None:
        """Start the firmware unless it runs already, and shake hands with it."""
        if not self._attaches:
            assert self._firmware is not None
            self.running = self._started.enter_context(
                start(self._board, self._firmware, self._runner, self._choice)
            )
            if self.device is not None:
                self.device.renew(self.running)
        self._connect()

    def close(self) -> None:
        """Close the line and end what was started."""
        with contextlib.ExitStack() as stack:
            # Whatever happens while the line is closed, Ctrl-C too.
            stack.callback(self._started.close)
            self.running = None
            if self.client is not None:
                self.client.close()

    def steps(self, error: DeviceError) -> list[Step]:
        """Return what can be done about ``error``, the mildest first."""
        steps = []
        if self._can_reset():
            steps.append(Step(Mend.RESET, "a reset", self._reset))
        elif self._is_there and not isinstance(error, HangError):
            # A firmware that hangs would not hear it.
            steps.append(Step(Mend.RESET, "a reset over the line", self._reset_over_line))
        is_started_here = is_machine(self._board, self._runner, self._choice)
        if self._choice.lab is not None or (not self._attaches and not is_started_here):
            steps.append(Step(Mend.FLASH, "programming it again", self._restart))
        power = power_of(self._board.name) if self._choice.lab is None else None
        if power is not None:
            steps.append(Step(Mend.POWER, "a power cycle", lambda: self._power_cycle(power)))
        elif self._choice.lab is None and not self._attaches and is_started_here:
            steps.append(Step(Mend.POWER, "a new start of its machine", self._restart))
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
        if self._attaches:
            self._connect(_PORT_LIMIT_S)
        else:
            self.start()

    def _connect(self, port_limit_s: float = 0.0) -> None:
        """Open the line, for which a port may have to come back first, and shake hands."""
        if self.client is not None:
            self.client.close()
        deadline = time.monotonic() + port_limit_s
        while True:
            try:
                link = open_link(self._board, self.running, self._choice.port)
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
            firmware = self._firmware
            self.client = Client(
                link,
                build_id=firmware.build_id if firmware else None,
                elf=firmware.elf if firmware else None,
                run_timeout_s=self._run_timeout_s,
            )
            self.client.bulk = self._bulk()
        except BaseException:
            link.close()
            raise

    def _bulk(self) -> Bulk | None:
        """Return the way of tensors past the line, where it was chosen, or the board is
        emulated.
        """
        running, wanted = self.running, self._choice.bulk
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
    sources = [m if isinstance(m, ModelLibrary) else _source(m) for m in models]
    return load_sources(sources, ModelOptions(board.cpu.name, board=board, workspace=workspace))


def _source(model: str | Path) -> ModelSource:
    if isinstance(model, str | Path):
        return parse_sources([str(model)])[0]
    raise InputError(
        f"{model!r:.60} is not a model but of type {type(model).__name__}",
        "give each model as an argument of its own, a path or a library: hil.open(board, *models)",
    )


def open_link(board: Board, running: Running | None, port: str | None = None) -> Link:
    """Return the serial line to a firmware that was started, or to the one at ``port``."""
    baudrate = board.macros.get("HIL_UART_BAUD", _DEFAULT_BAUDRATE)
    if running is None:
        assert port is not None
        return Link(port, baudrate=baudrate)
    return Link(running.url, baudrate=baudrate, alive=running.alive, line=running.line)
