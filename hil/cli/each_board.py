"""Run a command on the one board that its arguments name."""

from __future__ import annotations

import argparse
import contextlib
import importlib
from collections.abc import Callable, Iterator

from hil.board.bench import is_of_bench
from hil.cli.console import Console
from hil.errors import InputError
from hil.lab.selector import parse_selector

#: Runs a command: ``(arguments, console) -> exit code``.
Handler = Callable[[argparse.Namespace, Console], int]


def run_command(args: argparse.Namespace, console: Console) -> int:
    """Run the command's function on the board of the arguments, if there is one."""
    module_name, function_name = args.handler
    handler: Handler = getattr(importlib.import_module(module_name), function_name)
    with board_of_bench(args, console), board_of_lab(args, console):
        return handler(args, console)


@contextlib.contextmanager
def board_of_bench(args: argparse.Namespace, console: Console) -> Iterator[None]:
    """Lock the board that ``--board`` names in the bench file, and put how it is reached into
    ``args``; commands that use no board only read its description.

    Raise :class:`InputError` if an option contradicts the bench file.
    """
    text = getattr(args, "board", None)
    if not isinstance(text, str) or "probe" not in args or not is_of_bench(text):
        yield
        return
    # Not at the top: the help of the program needs no boards.
    from hil.access.bench_boards import held_board, reach_of, refuse_options

    names = ("probe", "port", "runner", "flasher")
    refuse_options(text, **{f"--{name}": getattr(args, name, None) for name in names})
    with held_board(text, args.wait or 0.0) as board:
        assert board.unit is not None, "it is of a bench"
        reach = reach_of(board)
        args.board, args.probe, args.port = board.unit.spec, reach["probe"], reach["port"]
        if "runner" in args:
            args.runner = reach["runner"]
        elif "flasher" in args and reach["runner"] in board.flashers:
            args.flasher = reach["runner"]
        if board.unit.spec != text:
            console.log(f"using {board.unit.spec}, a {board.name}")
        yield


@contextlib.contextmanager
def board_of_lab(args: argparse.Namespace, console: Console) -> Iterator[None]:
    """Acquire the board that a lab selector names, and replace the selector by it in ``args``.

    Raise :class:`InputError` if the command, or another option, does not work with a lab.
    """
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
    from hil.lab.place import ACQUIRE_LIMIT_S, leased

    limit_s = ACQUIRE_LIMIT_S if args.wait is None else args.wait
    with leased(wanted, limit_s, avoid=getattr(args, "failed_places", ())) as lab:
        console.log(f"using {lab.place}, a {lab.board.name} of the lab")
        args.lab, args.board = lab, str(lab.board.path)
        yield
