"""Boards of the bench in use: one that is free is locked, and reached as the bench file says."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any, Final

from hil.access.board_lock import board_lock, is_own
from hil.access.probes import connected_probes, lock_names
from hil.access.registry import runner_named
from hil.board import Board
from hil.board.bench_selector import selected_boards
from hil.board.settings import parse_named
from hil.errors import InputError, ProbeError
from hil.link.ports import is_there

_LOOK_S: Final = 0.1


def reach_of(board: Board) -> dict[str, Any]:
    """Return the probe, the port and the runner by which a board of the bench is used, as
    :func:`hil.open` takes them.

    A board with a flasher is programmed; any other one with a port runs already.
    """
    unit = board.unit
    assert unit is not None, "it is of a bench"
    runner = unit.runner
    if runner is None and unit.probe is None and unit.port is not None and board.flashers:
        runner = board.flashers[0]
    return {"probe": unit.probe, "port": unit.port, "runner": runner}


def refuse_options(text: str, **given: Any) -> None:
    """Raise InputError for an option that the bench file states."""
    for name, value in given.items():
        if value:
            raise InputError(
                f"{name} is given for {text}, and the bench file says how it is reached",
                f"drop {name}, or name the board's description",
            )


def lock_names_of(board: Board) -> list[str]:
    """Return the names by which a board of the bench is locked; none for an emulated one."""
    unit = board.unit
    assert unit is not None, "it is of a bench"
    names = lock_names(unit.probe, unit.port)
    if names or unit.runner is None:
        return names
    name, words = parse_named("runner", unit.runner)
    runner = runner_named(name)
    if not runner.exists_once:
        return []
    return [runner.lock_name(board.with_settings("runner", name, words))]


@contextlib.contextmanager
def held_board(text: str, wait_s: float = 0.0) -> Iterator[Board]:
    """Yield a board that a board option of the bench names, locked during the context: of several
    the first that is connected and free.

    Raise :class:`~hil.errors.InputError` if it names none, and :class:`~hil.errors.ProbeError` if
    none is free within ``wait_s``.
    """
    boards = selected_boards(text)
    if len(boards) == 1:
        names = lock_names_of(boards[0])
        with board_lock(f"the board {text}", *names, wait_s=wait_s):
            yield boards[0]
        return
    deadline = time.monotonic() + wait_s
    with contextlib.ExitStack() as stack:
        while (found := _free(boards, stack)) is None:
            if time.monotonic() >= deadline:
                raise _none_free(text, boards)
            time.sleep(_LOOK_S)
        yield found


def _free(boards: list[Board], stack: contextlib.ExitStack) -> Board | None:
    for board in boards:
        names = lock_names_of(board)
        if not is_connected(board) or any(map(is_own, names)):
            continue
        with contextlib.suppress(ProbeError):
            stack.enter_context(board_lock("the board", *names))
            return board
    return None


def is_connected(board: Board) -> bool:
    """Return whether the probe and the port of a board of the bench are there."""
    unit = board.unit
    assert unit is not None, "it is of a bench"
    if unit.port is not None and not is_there(unit.port):
        return False
    if unit.probe is None:
        return True
    return any(unit.probe.lower() in probe.uid.lower() for probe in connected_probes())


def _none_free(text: str, boards: list[Board]) -> ProbeError:
    lines = []
    for board in boards:
        assert board.unit is not None, "it is of a bench"
        why = "not connected"
        if any(map(is_own, lock_names_of(board))):
            why = "in use by this process"
        elif is_connected(board):
            try:
                with board_lock("it", *lock_names_of(board)):
                    why = "free now"
            except ProbeError as error:
                why = error.fact.removeprefix("it is ")
        lines.append(f"  {board.unit.name} ({board.name}): {why}")
    return ProbeError(
        f"no board of the bench that fits {text} is free:\n" + "\n".join(lines),
        "wait for one: --wait S; or connect another",
    )
