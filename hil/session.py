"""``hil.open``: from models and a board to a device that answers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from hil.board import Board, load_board
from hil.build import build
from hil.device import Device
from hil.errors import InputError
from hil.rpc.client import Client
from hil.rpc.link import Link
from hil.runner import Counter, Running, start
from hil.sources import CompileOptions, load_library, parse_sources
from hilc.library import ModelLibrary

_DEFAULT_BAUDRATE = 115200


@contextlib.contextmanager
def open(
    board: str | Board,
    *models: ModelLibrary | str | Path,
    runner: str | None = None,
    port: str | None = None,
    probe: str | None = None,
    workspace: str = "own",
) -> Iterator[Device]:
    """A device that runs ``models`` (libraries, model files, archives) on ``board``.

    Builds the firmware and starts it with ``runner``, the board's default one when None. With
    ``port`` (any pyserial URL) nothing is started: the firmware there must be the one that is built
    from ``models``, or any of this project when there are no models. ``workspace`` is ``own`` or
    ``shared``: whether the models work in the same memory, one after the other. Leaving the context
    closes the link and ends what was started, however it is left.
    """
    if probe is not None:
        raise InputError(
            f"no runner of this version uses a probe (given: {probe!r})",
            "flash the board with another program and give its port",
        )
    if isinstance(board, str):
        board = load_board(board)
    libraries = [_library(model, board, workspace) for model in models]
    has_firmware = bool(libraries) or port is None
    firmware = build(libraries, board, workspace=workspace) if has_firmware else None
    with contextlib.ExitStack() as stack:
        running: Running | None = None
        if port is None:
            assert firmware is not None
            running = stack.enter_context(start(board, firmware, runner))
        link = _link(board, running, port)
        stack.callback(link.close)
        client = Client(link, build_id=firmware.build_id if firmware else None)
        # The time base of the native board is this machine's clock.
        ticks_are: Counter = "nanoseconds" if board.is_host else "cycles"
        yield Device(client, libraries, running, firmware, ticks_are)


def _library(model: ModelLibrary | str | Path, board: Board, workspace: str) -> ModelLibrary:
    if isinstance(model, ModelLibrary):
        return model
    (source,) = parse_sources([str(model)])
    return load_library(source, CompileOptions(board.cpu.name, board=board, workspace=workspace))


def _link(board: Board, running: Running | None, port: str | None) -> Link:
    baudrate = board.macros.get("HIL_UART_BAUD", _DEFAULT_BAUDRATE)
    if running is None:
        assert port is not None
        return Link(port, baudrate=baudrate)
    return Link(running.url, baudrate=baudrate, alive=running.alive)
