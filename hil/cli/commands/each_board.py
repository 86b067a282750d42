"""Run a command on several boards, one after the other: one result, the largest exit code."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from hil.board import load_board
from hil.cli.console import Console, PartConsole
from hil.cli.reports import Outcome
from hil.errors import HilError, InputError
from hil.lab.selector import parse_selector
from hil.plugins import fault_in

#: Runs a command: ``(arguments, console) -> exit code``.
Handler = Callable[[argparse.Namespace, Console], int]


def on_its_boards(args: argparse.Namespace, console: Console, handler: Handler) -> int:
    """Run the command on each board that the arguments name."""
    boards: Sequence[str] = getattr(args, "on_boards", None) or ()
    if len(boards) > 1:
        return _on_each(args, console, handler, boards)
    if boards:
        args.board = boards[0]
    with _board_of_lab(args, console):
        return handler(args, console)


def _on_each(
    args: argparse.Namespace, console: Console, handler: Handler, boards: Sequence[str]
) -> int:
    """Run the command on each board, also after one of them failed.

    Raise usage errors before the first board.
    """
    _check(args, boards)
    assert console.format is not None, "commands on several boards have formats"
    outcomes: list[Outcome] = []
    part: PartConsole | None = None
    for board in boards:
        part = PartConsole(console, after=part)
        one = argparse.Namespace(**{**vars(args), "board": board})
        if getattr(args, "output", None):
            one.output = os.path.join(args.output, _name(board))
        outcome = Outcome(args.parser.prog.split()[-1], _name(board))
        try:
            with _board_of_lab(one, part):
                code = handler(one, part)
            outcome = replace(part.found or outcome, board=_name(board), exit_code=code)
        except Exception as raised:
            error = raised if isinstance(raised, HilError) else fault_in(raised)
            if error is None:
                raise
            console.error(error, board)
            outcome = replace(outcome, exit_code=error.exit_code, error=error)
        outcomes.append(outcome)
    if not console.format.one_by_one:
        console.result_text(console.format.text(outcomes))
    return max(outcome.exit_code for outcome in outcomes)


def _check(args: argparse.Namespace, boards: Sequence[str]) -> None:
    names = [_name(board) for board in boards]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"--board names {name!r} twice", "name each board once")
    if output := getattr(args, "output", None):
        # Not at the top: most commands need no compiler.
        from hil.firmware.build import check_project, check_project_name

        check_project_name(output)
        for name in names:
            check_project(os.path.join(output, name), force=args.force)
    for option in ("port", "probe"):
        if getattr(args, option, None):
            raise InputError(
                f"--{option} belongs to one board, and {len(boards)} are given",
                "give --board once, or leave the option out",
            )


def _name(board: str) -> str:
    """Return the name of the board description, or the text of the lab selector."""
    return str(wanted) if (wanted := parse_selector(board)) else load_board(board).name


@contextlib.contextmanager
def _board_of_lab(args: argparse.Namespace, console: Console) -> Iterator[None]:
    """Acquire the board that a lab selector names, and replace the selector by it in ``args``."""
    board = getattr(args, "board", None)
    wanted = parse_selector(board) if board else None
    if wanted is None:
        yield
        return
    if "lab" not in args:
        raise InputError(
            f"{args.parser.prog} does not take a lab selector",
            "name the board's description, or use hil run, verify or bench",
        )
    given = [f"--{word}" for word in ("runner", "port", "probe", "transport") if vars(args)[word]]
    if given:
        raise InputError(f"{given[0]} does not apply to a board of a lab", f"drop {given[0]}")
    from hil.lab import leased

    with leased(wanted) as lab:
        console.log(f"using {lab.place}, a {lab.board.name} of the lab")
        args.lab, args.board = lab, str(lab.board.path)
        yield
