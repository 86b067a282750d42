"""``hil board new``: write a board description from options or answers."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from hil.access.chips import chip_flasher, default_chip_flasher
from hil.board import board_file
from hil.board.wizard import Answers, Ask, describe
from hil.cli.console import Console
from hil.cli.render import board_entry, board_text
from hil.errors import InputError
from hil.results.boards import NewBoardEntry
from hilc.support.outputs import check_file, write_file

_PORT_ROLES = ("soc", "timer", "uart")


def new_command(args: argparse.Namespace, console: Console) -> int:
    """Write a board description, after the loader has accepted it.

    Raise :class:`InputError` if the file exists, unless ``--force`` is given.
    """
    output = Path(args.output or f"{args.name}.toml")
    check_file(output, ".toml", kind="a board's description")
    if os.path.lexists(output) and not args.force:
        raise InputError(f"{output} exists", "replace it with --force, or choose another with -o")
    answers = Answers(
        base=args.base,
        flasher=chip_flasher(args.flasher) if args.flasher else None,
        description=args.description,
        cpu=args.cpu,
        clock_hz=args.clock_hz,
        flash=tuple(args.flash or ()),
        ram=tuple(args.ram or ()),
        ports={role: word for role in _PORT_ROLES if (word := getattr(args, role))},
        qemu=args.qemu,
        default_flasher=default_chip_flasher(),
    )
    # A caller that wants JSON is a program: do not ask it questions.
    can_ask = sys.stdin.isatty() and not args.json
    ask: Ask = _ask_user if can_ask else _ask_nobody
    if can_ask and answers.base is None and answers.flasher is None:
        answers = _first_answer(answers)
    made = describe(output.stem, answers, ask)
    write_file(output, made.text)
    for note in made.notes:
        console.log(f"note: {note}")
    board = made.board
    virtual = " --probe virtual" if board.qemu and board.is_over_rtt else ""
    found = board_file(output.stem)
    is_found = found is not None and found.samefile(output)
    where = output.stem if is_found else output.resolve()
    entry = NewBoardEntry(**vars(board_entry(board)), file=str(output), notes=tuple(made.notes))
    text = (
        f"{board_text(board)}\n\nwrote {output}; try it: hil verify MODEL --board {where}{virtual}"
    )
    console.result(entry, text)
    return 0


def _first_answer(answers: Answers) -> Answers:
    from dataclasses import replace

    question = "flasher of the board and its chip, NAME:KEY=VALUE, or nothing"
    word = _ask_user("--flasher", question, "")
    return replace(answers, flasher=chip_flasher(word) if word else None)


def _ask_user(option: str, question: str, default: str) -> str:
    shown = f" [{default}]" if default else ""
    # stdout is for the result only.
    print(f"{question}{shown}: ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer:
        raise InputError(f"the input ended before {option} was answered", f"give {option}")
    return answer.strip() or default


def _ask_nobody(option: str, question: str, default: str) -> str:
    raise InputError(
        f"{option} is missing: {question}",
        f"give {option}, for example {option} {default}",
    )
