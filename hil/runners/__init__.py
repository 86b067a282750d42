"""Start a firmware on the board of a description: a runner returns its serial URL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from hil.errors import DeviceError, InputError
from hil.link.ports import resolve
from hil.plugins import blaming, is_own
from hil.probe.probes import lock_names
from hil.runners import native, qemu, renode
from hil.runners.choice import VIRTUAL, Choice, Image
from hil.runners.registry import (
    RUNNING,
    Need,
    Resettable,
    Runner,
    Running,
    Wired,
    need_of,
    register_runner,
    runner_named,
    runners_for,
)
from hil.support.board_lock import board_lock
from hil.support.qemu import install_hint, program
from hilc.support.counters import Counter
from hilc.support.suggest import nearest

if TYPE_CHECKING:
    from hil.board import Board

__all__ = [
    "VIRTUAL",
    "Choice",
    "Counter",
    "Image",
    "Need",
    "Resettable",
    "Runner",
    "Running",
    "Wired",
    "check_line",
    "check_ready",
    "chosen_runner",
    "is_machine",
    "is_real",
    "need_of",
    "pinned",
    "register_runner",
    "runner_name",
    "runner_named",
    "start",
]


def _start_pyocd(board: Board, firmware: Image, choice: Choice) -> AbstractContextManager[Running]:
    # Not at the top: pyOCD takes a third of a second to import.
    from hil.runners import pyocd

    return pyocd.start(board, firmware.elf, choice)


def _check_pyocd(board: Board, choice: Choice) -> None:
    if choice.probe == VIRTUAL:
        return
    from hil.runners import pyocd

    with pyocd.reached(board, choice) as chosen:
        pyocd.check_line_of(board, chosen, choice)


register_runner(Runner("native", lambda board, image, choice: native.start(board, image)))
register_runner(
    Runner(
        "qemu",
        lambda board, image, choice: qemu.start(board, image),
        needs=lambda board: Need(program(board.cpu), install_hint(board.cpu)),
        reaches_memory=True,
    )
)
register_runner(
    Runner(
        "renode",
        lambda board, image, choice: renode.start(board, image),
        needs=lambda board: Need(renode.PROGRAM, renode.INSTALL_HINT),
    )
)
register_runner(
    Runner(
        "pyocd",
        _start_pyocd,
        needs=lambda board: Need(
            "pyocd", "install it: pip install pyocd", lambda: find_spec("pyocd") is not None
        ),
        check=_check_pyocd,
        uses_probe=True,
        reaches_memory=True,
    )
)


def runner_name(board: Board, runner: str | None, choice: Choice) -> str:
    """Return the runner that :func:`start` uses: ``runner`` if given, pyOCD if a probe or RTT is
    chosen, otherwise the board's first.
    """
    needs_probe = choice.probe is not None or choice.rtt or board.is_over_rtt
    return runner or ("pyocd" if needs_probe else board.default_runner)


def check_line(choice: Choice) -> None:
    """Raise if a port is given for a line that goes through the probe."""
    if choice.rtt and choice.port is not None:
        raise InputError("RTT goes through a probe, not through a port", "drop the port")


def check_ready(board: Board, runner: str | None, choice: Choice) -> None:
    """Raise if :func:`start` would because a program, a probe or a port is missing.

    Called before a build, so that the user does not wait for a firmware that cannot start.
    """
    check_line(choice)
    if choice.lab is not None:
        return
    chosen = chosen_runner(board, runner, choice)
    need = need_of(chosen, board)
    if need is not None and not need.is_there():
        raise DeviceError(f"{need.name} is not installed", need.hint)
    chosen.check(board, choice)


def pinned(board: Board, runner: str | None, choice: Choice) -> Choice:
    """Return the choice of one probe, by its whole unique id, so that later starts use no other.

    Raise as :func:`start` does where no probe or several may be meant. Another runner than pyOCD
    finds its board itself, and a lab assigns one place.
    """
    if choice.lab is not None or runner_name(board, runner, choice) != "pyocd":
        return choice
    from hil.runners import pyocd

    return pyocd.pinned(board, choice)


def is_machine(board: Board, runner: str | None, choice: Choice) -> bool:
    """Return whether :func:`start` creates the machine of the firmware, which ends with it."""
    return (
        choice.probe == VIRTUAL or not runner_named(runner_name(board, runner, choice)).uses_probe
    )


def start(
    board: Board,
    firmware: Image,
    runner: str | None = None,
    choice: Choice | None = None,
) -> AbstractContextManager[Running]:
    """Start ``firmware``; leaving the context ends everything that was started.

    ``runner`` must be one of the board's runners; see :func:`runner_name`.
    """
    choice = choice or Choice()
    if choice.lab is not None:
        return choice.lab.start(firmware.elf, choice)
    choice = replace(choice, rtt=choice.rtt or board.is_over_rtt)
    chosen = chosen_runner(board, runner, choice)
    if is_own(chosen.start):
        return chosen.start(board, firmware, choice)
    if choice.port is not None:
        choice = replace(choice, port=resolve(choice.port))
    return _started(chosen, board, firmware, choice)


@contextmanager
def _started(runner: Runner, board: Board, firmware: Image, choice: Choice) -> Iterator[Running]:
    """Yield what a plugin's runner starts; raise InputError if it breaks the rules of runners."""
    with ExitStack() as stack:
        if names := _lock_names(runner, board, choice):
            stack.enter_context(board_lock(f"the board behind {names[0]}", *names))
        with blaming(runner.start, f"the runner {runner.name!r}"):
            context: object = runner.start(board, firmware, choice)
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


def _lock_names(runner: Runner, board: Board, choice: Choice) -> list[str]:
    """Return the names by which other processes know a plugin's real board."""
    if not is_real(runner) or choice.probe == VIRTUAL:
        return []
    return lock_names(choice.probe, choice.port) or [f"{runner.name} {board.name}"]


def chosen_runner(board: Board, runner: str | None, choice: Choice) -> Runner:
    """Return the runner; raise InputError if the board lacks it or it cannot use the choice."""
    name = runner_name(board, runner, choice)
    offered = board.runners if name in board.runners else runners_for(board)
    if name not in offered:
        raise InputError(
            f"board {board.name!r} has no runner {name!r}{nearest(name, offered)}",
            f"choose one of {', '.join(offered)}",
        )
    chosen = runner_named(name)
    if not chosen.uses_probe and (choice.probe is not None or choice.rtt or board.is_over_rtt):
        if board.is_over_rtt:
            raise InputError(
                f"the serial line of {board.name} goes through a probe, but the runner "
                f"{name!r} uses none",
                "use the runner pyocd (with --probe virtual for an emulated board)",
            )
        raise InputError(f"the runner {name!r} uses no probe", "drop --probe, or use pyocd")
    if choice.port is not None and (not chosen.uses_probe or choice.probe == VIRTUAL):
        what = "a virtual probe" if chosen.uses_probe else f"the runner {name!r}"
        raise InputError(f"{what} has its own serial line, not {choice.port}", "drop the port")
    return chosen
