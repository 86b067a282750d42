"""The boards that hold a model, as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from hil.cli.console import table
from hil.results.fit import BoardFit, FitEntry
from hilc.support.suggest import counted

#: Columns of the text.
_WIDTH = 80


def fit_text(entry: FitEntry) -> str:
    """Return the boards that hold a model as a table, then why the others do not."""
    held = sorted((b for b in entry.boards if b.best is not None), key=_size)
    lines = [_summary(entry, len(held))]
    if held:
        rows = [row for board in held for row in _rows(board, len(entry.boards))]
        head = ["board", "core", "RAM, KB", "flash, KB", "count", "fits", "options"]
        lines += ["", table(rows, head), "", *_wrapped(_errors(entry))]
    for board in entry.boards:
        if board.reason:
            word = "does not fit" if board.fits == "no" else "may fit"
            remedies = "".join(f"; {remedy}" for remedy in board.remedies)
            lines += ["", *_wrapped(f"{board.board} {word}: {board.reason}{remedies}")]
    return "\n".join(lines)


def _summary(entry: FitEntry, held: int) -> str:
    if len(entry.boards) == 1:
        (board,) = entry.boards
        word = {"yes": "fits", "maybe": "may fit", "no": "does not fit"}[board.fits]
        return f"{entry.model} {word} {board.board}"
    text = f"{entry.model} fits {held} of {counted(len(entry.boards), 'board')}"
    return (
        text
        if entry.smallest is None
        else f"{text}; the smallest that can be flashed is {entry.smallest}"
    )


def _size(board: BoardFit) -> tuple[int, int, str]:
    """Return the order of the table: the least RAM first, of those the least flash."""
    program = board.programs[0]
    return program.ram_available, program.flash_available, board.board


def _rows(board: BoardFit, boards: int) -> Iterator[list[object]]:
    """Yield the rows of a board: every program if few boards are asked for, else the best."""
    assert board.best is not None, "it holds the model"
    shown = [board.programs[board.best]] if boards > _FEW else board.programs
    for program in shown:
        yield [
            board.board,
            board.cpu,
            _of(program.ram_with_stacks_bytes, program.ram_available),
            _of(program.flash_bytes, program.flash_available),
            _short(program.per_inference),
            program.fits,
            " ".join(program.options),
        ]


#: Up to so many boards every goal is shown.
_FEW = 3


def _of(needed: int, had: int) -> str:
    """Return both in KB, the needed ones rounded up, the others down; in bytes where that would
    deny that they suffice.
    """
    rounded = -(-needed // 1024), had // 1024
    if (needed <= had) != (rounded[0] <= rounded[1]):
        return f"{needed:,} of {had:,} B"
    return f"{rounded[0]:,} of {rounded[1]:,}"


def _short(count: int) -> str:
    """Return a count with three digits, such as ``2.59 M``."""
    for unit, factor in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return str(count)


def _errors(entry: FitEntry) -> str:
    return (
        "The RAM is that of the whole firmware: the workspace with inputs and outputs, which --ram "
        f"of hil build limits, data and stacks, exact to {entry.ram_error_bytes} bytes. "
        f"Estimates: flash within {entry.flash_error:.0%} of the model's and "
        f"{entry.flash_error_bytes:,} bytes of libraries, and the count of an inference "
        f"({entry.counter}) within {entry.per_inference_error:.0%}."
    )


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
