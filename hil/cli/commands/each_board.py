"""A command on several boards, one after the other: one result, and the worst exit code."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hil.board import load_board
from hil.cli.console import Console, PartConsole
from hil.errors import HilError, InputError
from hil.lab.selector import parse_selector

#: Runs a command: ``(arguments, console) -> exit code``.
Handler = Callable[[argparse.Namespace, Console], int]


def on_its_boards(args: argparse.Namespace, console: Console, handler: Handler) -> int:
    """Run the command on the board, or on each of the boards, that the arguments name."""
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
    """Return a board that fails leaves the others their turn; what is misspelt is refused
    before.
    """
    _check(args, boards)
    results: list[dict[str, Any]] = []
    part = PartConsole(console)
    for board in boards:
        part = PartConsole(console, after=part)
        one = argparse.Namespace(**{**vars(args), "board": board})
        if getattr(args, "output", None):
            one.output = os.path.join(args.output, _name(board))
        result: dict[str, Any] = {"board": _name(board)}
        try:
            with _board_of_lab(one, part):
                result["exit_code"] = handler(one, part)
        except HilError as error:
            console.error(error, board)
            result |= {"exit_code": error.exit_code, "error": error_json(error)}
        results.append({**result, **part.data})
    worst: int = max(result["exit_code"] for result in results)
    if console.as_json:
        console.result({"boards": results, "exit_code": worst}, "")
    return worst


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
                f"--{option} belongs to one board, and there are {len(boards)}",
                "give --board once, or leave the option out",
            )


def _name(board: str) -> str:
    """Return a board's name: by its description, or by the words that ask a lab for it."""
    return str(wanted) if (wanted := parse_selector(board)) else load_board(board).name


def error_json(error: HilError) -> dict[str, Any]:
    """Return an error as a result has it."""
    return {
        "message": error.fact,
        "hint": error.hint,
        "class": error.kind,
        "exit_code": error.exit_code,
    }


@contextlib.contextmanager
def _board_of_lab(args: argparse.Namespace, console: Console) -> Iterator[None]:
    """Acquires the board that ``--board lab:...`` asks for; the command sees which one it is."""
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
        raise InputError(f"{given[0]} does not apply to a board of a lab", "drop it")
    from hil.lab import leased

    with leased(wanted) as lab:
        console.log(f"using {lab.place}, a {lab.board.name} of the lab")
        args.lab, args.board = lab, str(lab.board.path)
        yield
