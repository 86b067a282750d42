"""``hil.open``: from models and a board to a device that answers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hil.board import Board, load_board
from hil.build import Firmware, build
from hil.device import Device
from hil.errors import InputError
from hil.lab.wanted import parse_wanted
from hil.rpc.client import Client
from hil.rpc.link import Link
from hil.runner import Choice, Counter, Running, start
from hil.sources import CompileOptions, load_sources, parse_sources
from hilc.library import ModelLibrary

if TYPE_CHECKING:
    from hil.flash import Flashed
    from hil.lab import LabBoard

_DEFAULT_BAUDRATE = 115200


@contextlib.contextmanager
def open(
    board: str | Board,
    *models: ModelLibrary | str | Path,
    runner: str | None = None,
    port: str | None = None,
    probe: str | None = None,
    transport: Literal["uart", "rtt"] = "uart",
    progress: Callable[[float], None] | None = None,
    flashed: Callable[[Flashed], None] | None = None,
    workspace: str = "own",
    lab: LabBoard | None = None,
) -> Iterator[Device]:
    """A device that runs ``models`` (libraries, model files, archives) on ``board``.

    Builds the firmware and starts it with ``runner``, the board's default one when None. With
    ``probe`` (a debug probe's unique id or a part of it, or ``virtual``) pyOCD programs the board
    first; ``progress`` is told how far that is, 0 to 1, and ``flashed`` what was done. With
    ``transport="rtt"`` the serial line goes through the probe too, as it does on boards whose
    description says so.

    With ``port`` (any pyserial URL) alone nothing is started: the firmware there must be the one
    that is built from ``models``, or any of this project when there are no models. With a probe it
    is the serial port of the board. ``workspace`` is ``own`` or ``shared``: whether the models work
    in the same memory, one after the other. A board of a lab is acquired for as long as the context
    lasts where ``board`` asks for one (``lab:PLACE``, ``cpu=cortex-m4``: :mod:`hil.lab`), or is
    ``lab``, which somebody acquired already. Leaving the context closes the link and ends what was
    started, however it is left.
    """
    if isinstance(board, str) and (wanted := parse_wanted(board)) is not None:
        # Not at the top: most sessions need no lab.
        from hil.lab import leased

        with (
            leased(wanted) as leased_board,
            open(leased_board.board, *models, workspace=workspace, lab=leased_board) as device,
        ):
            yield device
        return
    if isinstance(board, str):
        board = load_board(board)
    if transport == "rtt":
        board = board.over_rtt()
    if board.is_over_rtt and port is not None:
        raise InputError("RTT goes through a probe, not through a port", "drop the port")
    choice = Choice(probe, port, board.is_over_rtt, progress, flashed, lab)
    libraries = _libraries(models, board, workspace)
    has_firmware = bool(libraries) or not _attaches(runner, choice)
    firmware = build(libraries, board, workspace=workspace) if has_firmware else None
    with _device(board, libraries, firmware, runner, choice) as device:
        yield device


@contextlib.contextmanager
def open_firmware(
    firmware: Firmware,
    *,
    runner: str | None = None,
    port: str | None = None,
    probe: str | None = None,
) -> Iterator[Device]:
    """A device that runs a firmware which is built already; otherwise as :func:`open`."""
    choice = Choice(probe, port)
    with _device(firmware.board, firmware.libraries, firmware, runner, choice) as device:
        yield device


def _attaches(runner: str | None, choice: Choice) -> bool:
    """Whether the firmware runs already, behind the port that was chosen."""
    return choice.port is not None and runner is None and choice.probe is None


@contextlib.contextmanager
def _device(
    board: Board,
    libraries: Sequence[ModelLibrary],
    firmware: Firmware | None,
    runner: str | None,
    choice: Choice,
) -> Iterator[Device]:
    with contextlib.ExitStack() as stack:
        running: Running | None = None
        if not _attaches(runner, choice):
            assert firmware is not None
            running = stack.enter_context(start(board, firmware, runner, choice))
        link = open_link(board, running, choice.port)
        stack.callback(link.close)
        client = Client(link, build_id=firmware.build_id if firmware else None)
        # The time base of the native board is this machine's clock.
        ticks_are: Counter = "nanoseconds" if board.is_host else "cycles"
        yield Device(client, libraries, running, firmware, ticks_are)


def _libraries(
    models: Sequence[ModelLibrary | str | Path], board: Board, workspace: str
) -> list[ModelLibrary]:
    sources = [m if isinstance(m, ModelLibrary) else parse_sources([str(m)])[0] for m in models]
    return load_sources(sources, CompileOptions(board.cpu.name, board=board, workspace=workspace))


def open_link(board: Board, running: Running | None, port: str | None = None) -> Link:
    """The serial line to a firmware that was started, or to the one at ``port``."""
    baudrate = board.macros.get("HIL_UART_BAUD", _DEFAULT_BAUDRATE)
    if running is None:
        assert port is not None
        return Link(port, baudrate=baudrate)
    return Link(running.url, baudrate=baudrate, alive=running.alive, line=running.line)
