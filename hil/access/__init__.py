"""Access to boards: what starts a firmware, what programs a board, and its serial line.

A :class:`Runner` starts a firmware; a :class:`Flasher` programs a real board, and
:class:`~hil.access.hardware.Hardware` is the runner that it makes. A word such as ``qemu`` or
``NAME:KEY=VALUE`` chooses one, with other settings than the board file's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from hil.access.board_lock import board_lock
from hil.access.connection import VIRTUAL, Connection, Flashed, Image
from hil.access.flashers import FLASHERS
from hil.access.hardware import Hardware, pinned_to_probe, register_flasher
from hil.access.jumpstarter import JumpstarterRunner
from hil.access.native import NativeRunner
from hil.access.probes import lock_names
from hil.access.protocols import (
    RUNNING,
    Capability,
    Core,
    DebugServer,
    Flasher,
    FlasherSession,
    Measurement,
    Need,
    Resettable,
    Runner,
    Running,
    Simulated,
    Wired,
    require,
)
from hil.access.pyocd import PyOcd
from hil.access.qemu import QemuRunner
from hil.access.registry import (
    flasher_named,
    flashers,
    flashers_for,
    need_of,
    register_runner,
    runner_named,
    runners_for,
)
from hil.access.renode import RenodeRunner
from hil.access.verilator import VerilatorRunner
from hil.board.settings import Kind, Setting, is_known, parse_named
from hil.errors import DeviceError, InputError
from hil.link.ports import resolve
from hil.plugins import attributed_to, is_own
from hilc.support.counters import Counter
from hilc.support.suggest import nearest

if TYPE_CHECKING:
    from hil.board import Board

__all__ = [
    "VIRTUAL",
    "Capability",
    "Connection",
    "Core",
    "Counter",
    "DebugServer",
    "Flashed",
    "Flasher",
    "FlasherSession",
    "Image",
    "Measurement",
    "Need",
    "Resettable",
    "Runner",
    "Running",
    "Setting",
    "Simulated",
    "Wired",
    "check_installed",
    "check_line",
    "check_ready",
    "chosen_flasher",
    "chosen_runner",
    "flasher_named",
    "flashers",
    "flashers_for",
    "is_machine",
    "is_real",
    "need_of",
    "pinned",
    "register_flasher",
    "register_runner",
    "require",
    "runner_name",
    "runner_named",
    "runners_for",
    "start",
]

for _runner in (
    NativeRunner(),
    QemuRunner(),
    RenodeRunner(),
    VerilatorRunner(),
    JumpstarterRunner(),
):
    register_runner(_runner)
for _flasher in (PyOcd(), *FLASHERS):
    register_flasher(_flasher)


def runner_name(board: Board, runner: str | None, connection: Connection) -> str:
    """Return the name of the runner that :func:`start` uses: that of ``runner`` if given, the
    board's flasher if a probe or RTT is chosen, otherwise the board's first.
    """
    if runner is not None:
        return parse_named("--runner", runner)[0]
    needs_probe = connection.probe is not None or connection.rtt or board.is_over_rtt
    return board.flashers[0] if needs_probe and board.flashers else board.default_runner


def check_line(connection: Connection) -> None:
    """Raise InputError if a port is given for a line through the probe."""
    if connection.rtt and connection.port is not None:
        raise InputError("RTT goes through a probe, not through a port", "drop the port")


def check_ready(board: Board, runner: str | None, connection: Connection) -> Connection:
    """Return the connection by which :func:`start` uses the board that is found now (see
    :func:`pinned`); raise if it would fail because a program, a probe or a port is missing.

    Called before a build, so that the user does not wait for a firmware that cannot start.
    """
    check_line(connection)
    if connection.lab is not None:
        return connection
    board, chosen = chosen_runner(board, runner, connection)
    check_installed(chosen, board)
    connection = pinned(board, runner, connection)
    chosen.check(board, connection)
    return connection


def check_installed(part: Runner | Flasher, board: Board) -> None:
    """Raise DeviceError if what a runner or flasher needs for a board is not installed."""
    need = need_of(part, board)
    if need is not None and not need.is_there():
        raise DeviceError(f"{need.name} is not installed", need.hint)


def pinned(board: Board, runner: str | Runner | None, connection: Connection) -> Connection:
    """Return the connection to one probe, by its whole unique id, so that later starts use no
    other.

    Raise as :func:`start` does where no probe or several may be meant. A runner without a flasher
    finds its board itself, and a lab assigns one place.
    """
    if connection.lab is not None:
        return connection
    chosen = _runner_of(board, runner, connection)
    if not isinstance(chosen, Hardware):
        return connection
    return pinned_to_probe(chosen.flasher, board, connection)


def _runner_of(board: Board, runner: str | Runner | None, connection: Connection) -> Runner:
    if runner is None or isinstance(runner, str):
        return runner_named(runner_name(board, runner, connection))
    return runner


def is_machine(board: Board, runner: str | Runner | None, connection: Connection) -> bool:
    """Return whether :func:`start` creates the machine of the firmware, which ends with it."""
    chosen = _runner_of(board, runner, connection)
    return connection.probe == VIRTUAL or not chosen.uses_probe


def start(
    board: Board,
    firmware: Image,
    runner: str | Runner | None = None,
    connection: Connection | None = None,
) -> AbstractContextManager[Running]:
    """Start ``firmware``; leaving the context ends everything that was started.

    ``runner`` (``NAME`` or ``NAME:KEY=VALUE,...``) must be one of the board's runners or flashers
    (:func:`runner_name`), or one that :func:`chosen_runner` returned. Raise
    :class:`~hil.errors.InputError` for another one, and :class:`~hil.errors.DeviceError` where
    starting fails.
    """
    connection = connection or Connection()
    if connection.lab is not None:
        return connection.lab.start(firmware.elf, connection)
    connection = replace(connection, rtt=connection.rtt or board.is_over_rtt)
    if runner is None or isinstance(runner, str):
        board, chosen = chosen_runner(board, runner, connection)
    else:
        chosen = runner
    if is_own(chosen.start):
        return chosen.start(board, firmware, connection)
    if connection.port is not None:
        connection = replace(connection, port=resolve(connection.port))
    return _started(chosen, board, firmware, connection)


@contextmanager
def _started(
    runner: Runner, board: Board, firmware: Image, connection: Connection
) -> Iterator[Running]:
    """Yield what a plugin's runner starts; InputError if it breaks the rules of runners."""
    with ExitStack() as stack:
        if names := _lock_names(runner, board, connection):
            what = f"the board behind {names[0]}"
            stack.enter_context(board_lock(what, *names, wait_s=connection.appear_s))
        with attributed_to(runner.start, f"the runner {runner.name!r}"):
            context: object = runner.start(board, firmware, connection)
            if not isinstance(context, AbstractContextManager):
                raise TypeError(f"start returned {context!r}, which is no context manager")
            running: Running = stack.enter_context(context)
            lacking = [name for name in RUNNING if not hasattr(running, name)]
            if lacking:
                raise TypeError(f"start yielded {running!r}, which lacks {', '.join(lacking)}")
        yield running


def is_real(runner: Runner) -> bool:
    """Return whether a runner drives boards that exist once; others start one for each user."""
    return runner.uses_probe or runner.exists_once


def _lock_names(runner: Runner, board: Board, connection: Connection) -> list[str]:
    """Return the lock names of a plugin's real board, shared by all processes."""
    if not is_real(runner) or connection.probe == VIRTUAL:
        return []
    return lock_names(connection.probe, connection.port) or [runner.lock_name(board)]


def chosen_runner(board: Board, runner: str | None, connection: Connection) -> tuple[Board, Runner]:
    """Return the runner, and the board with its settings.

    Raise InputError if the board lacks the runner, it cannot use the connection, or a setting is
    invalid.
    """
    name = runner_name(board, runner, connection)
    words = parse_named("--runner", runner)[1] if runner is not None else {}
    offered = board.runners if name in board.runners else runners_for(board)
    if name not in offered:
        raise _not_offered("runner", name, board, offered)
    chosen = runner_named(name)
    over_probe = connection.rtt or board.is_over_rtt
    if runner is None and connection.probe is not None and not board.flashers:
        raise InputError(
            f"board {board.name!r} has no flasher, so no probe",
            f"drop --probe: {_without_flasher(board)}",
        )
    if not chosen.uses_probe and (connection.probe is not None or over_probe):
        other = (
            f"use --runner {board.flashers[0]}"
            if board.flashers
            else f"no flasher is known for {board.name}: docs/how-to/flashers.md"
        )
        if board.is_over_rtt:
            raise InputError(
                f"the serial line of {board.name} goes through a probe, but the runner "
                f"{name!r} uses none",
                f"{other} (with --probe virtual for an emulated board)",
            )
        raise InputError(f"the runner {name!r} uses no probe", f"drop --probe, or {other}")
    if connection.port is not None and (not chosen.uses_probe or connection.probe == VIRTUAL):
        what = "a virtual probe" if chosen.uses_probe else f"the runner {name!r}"
        raise InputError(f"{what} has its own serial line, not {connection.port}", "drop the port")
    return board.with_settings("--runner", name, words), chosen


def chosen_flasher(board: Board, flasher: str | None) -> tuple[Board, Flasher]:
    """Return the flasher of ``--flasher NAME[:KEY=VALUE,...]``, by default the board's first, and
    the board with its settings.

    Raise InputError if nothing programs the board, or not that flasher, or a setting is invalid.
    """
    if flasher is None and not board.flashers:
        raise InputError(f"board {board.name!r} has no flasher", _without_flasher(board))
    name, words = parse_named("--flasher", flasher) if flasher else (board.flashers[0], {})
    offered = flashers_for(board)
    if name not in offered:
        raise _not_offered("flasher", name, board, offered)
    return board.with_settings("--flasher", name, words), flasher_named(name)


def _without_flasher(board: Board) -> str:
    """Return the hint for a board that nothing programs."""
    starts = f"`hil run MODEL --board {board.name}` starts"
    if board.is_host:
        return f"{starts} its firmware as a process of this machine"
    able = ", ".join(flashers_for(board))
    other = (
        f"choose --flasher {able}"
        if able
        else "write a board file with a table flasher: docs/how-to/add-board.md"
    )
    return f"{starts} it with {board.default_runner}; to program a real one, {other}"


def _not_offered(kind: Kind, name: str, board: Board, offered: Sequence[str]) -> InputError:
    # A flasher is also the runner of the boards that it programs.
    is_installed = is_known("flasher", name) or (kind == "runner" and is_known("runner", name))
    return InputError(
        f"board {board.name!r} has no {kind} {name!r}"
        if is_installed
        else f"unknown {kind} {name!r}{nearest(name, offered)}",
        f"choose one of {', '.join(offered)}" if offered else _without_flasher(board),
    )
