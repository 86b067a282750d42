"""The entry of ``hil fit``: the boards that hold a model, and why others do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from hil.results.answer import entry_of
from hilc.support.jsondata import Renamed

#: ``maybe``: the board has about what the estimates say, so that only a build decides.
Verdict = Literal["yes", "maybe", "no"]


@dataclass(frozen=True)
class ProgramFit:
    """A program of the model on a board, and the option that gives it: a goal or limits."""

    #: Words of the command line.
    options: tuple[str, ...]
    #: The goal; None for a program of limits.
    optimize: str | None
    fits: Verdict
    #: With inputs and outputs: what ``--ram`` of ``hil build`` limits.
    workspace_bytes: int
    #: Static RAM of the whole firmware, which ``ram_bytes`` of bench and build is, and its stacks.
    ram_with_stacks_bytes: Annotated[int, Renamed("ram_bytes")]
    #: RAM of the board, in all its regions.
    ram_available: int
    #: Flash of the whole firmware, an estimate, and what the board has.
    flash_bytes: int
    flash_available: int
    #: An estimate, in the unit of the entry's ``counter``.
    per_inference: int


@dataclass(frozen=True)
class BoardFit:
    """A model on one board."""

    board: str
    cpu: str
    fits: Verdict
    #: Index of the program to take: the first that fits; None where none does.
    best: int | None
    programs: tuple[ProgramFit, ...]
    #: What is too small, and what would help; empty where a program fits.
    reason: str
    remedies: tuple[str, ...]


@entry_of("fit")
@dataclass(frozen=True)
class FitEntry:
    """A model on boards."""

    model: str
    #: Unit of ``per_inference``.
    counter: str
    #: Errors of the estimates: of flash as a part of the model's, and bytes of libraries; of the
    #: count as a part of it. RAM is exact to ``ram_error_bytes``.
    flash_error: float
    flash_error_bytes: int
    per_inference_error: float
    ram_error_bytes: int
    #: The real board with the least RAM, and of those the least flash, that surely holds the model;
    #: None where none does.
    smallest: str | None
    boards: tuple[BoardFit, ...]
    seconds: float
