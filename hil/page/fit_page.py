"""The page of ``hil fit``: the boards that hold models, with their memory as bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import hilc
from hil.page.page import Page, check_installed, css, now, template
from hil.page.views import number
from hil.results.fit import BoardFit, FitEntry, ProgramFit
from hilc.support.suggest import counted

#: Class and word of a verdict.
_WORDS = {"yes": ("match", "fits"), "maybe": ("measured", "may fit"), "no": ("differ", "does not")}


@dataclass(frozen=True)
class _Bar:
    """Needed and available bytes."""

    needed: str
    available: str
    #: Percent of the available bytes, at most 100.
    share: int


@dataclass(frozen=True)
class _Row:
    """A program on a board."""

    board: str
    cpu: str
    status: str
    word: str
    ram: _Bar
    flash: _Bar
    count: str
    options: str
    reason: str


@dataclass(frozen=True)
class _Model:
    """A model on all boards."""

    name: str
    summary: str
    counter: str
    errors: str
    rows: Sequence[_Row]


def fit_page(entries: Sequence[FitEntry]) -> Page:
    """Return the page of models; raise :class:`~hilc.errors.InputError` without the extra
    ``report``.
    """
    check_installed()
    models = [_model(entry) for entry in entries]
    title = " and ".join(model.name for model in models)
    html = template("fit.html.jinja").render(
        models=models, title=title, made=now(), version=hilc.__version__, css=css()
    )
    good = all(any(board.fits == "yes" for board in entry.boards) for entry in entries)
    return Page(title, "; ".join(model.summary for model in models), good, html)


def _model(entry: FitEntry) -> _Model:
    held = sum(board.fits != "no" for board in entry.boards)
    summary = f"{entry.model} fits {held} of {counted(len(entry.boards), 'board')}"
    boards = sorted(entry.boards, key=lambda b: (b.fits == "no", b.programs[0].ram_available))
    return _Model(
        entry.model,
        summary
        if entry.smallest is None
        else f"{summary}; the smallest that can be flashed is {entry.smallest}",
        entry.counter,
        f"RAM is exact to {entry.ram_error_bytes} bytes; flash is an estimate within "
        f"{entry.flash_error:.0%} and {entry.flash_error_bytes:,} bytes, "
        f"{entry.counter} within {entry.per_inference_error:.0%}.",
        [_row(board) for board in boards],
    )


def _row(board: BoardFit) -> _Row:
    program = _shown(board)
    status, word = _WORDS[board.fits]
    return _Row(
        board.board,
        board.cpu,
        status,
        word,
        _bar(program.ram_with_stacks_bytes, program.ram_available),
        _bar(program.flash_bytes, program.flash_available),
        number(program.per_inference),
        " ".join(program.options),
        "; ".join([board.reason, *board.remedies]) if board.reason else "",
    )


def _shown(board: BoardFit) -> ProgramFit:
    """Return the program to take, or where none fits that with the least RAM."""
    if board.best is not None:
        return board.programs[board.best]
    return min(board.programs, key=lambda program: program.ram_with_stacks_bytes)


def _bar(needed: int, available: int) -> _Bar:
    share = min(100, -(-100 * needed // max(1, available)))
    return _Bar(number(needed), number(available), share)
