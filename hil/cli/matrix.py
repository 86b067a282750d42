"""The matrix of a command: boards, goals, and with ``--separate`` models; each is a combination."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hil.board import Board, board_names, load_board
from hil.board.bench import is_of_bench, unit_named
from hil.cli.reports import Outcome
from hil.errors import InputError
from hil.lab.selector import parse_selector
from hil.results.v0 import DEFAULT_GOAL
from hilc.frontends.foreign import refuse_saved_model

#: Stands for every board that QEMU emulates on this machine.
EMULATED = "emulated"
_MODEL_SUFFIXES = (".tflite", ".onnx", ".pt2")
#: Arguments that say what the whole matrix is, how it runs and where all of it is written.
_MATRIX_OPTIONS = (
    *("on_boards", "report_boards", "goals", "separate", "jobs", "retries", "skip_too_large"),
    *("junit", "summary", "stored"),
)


@dataclass(frozen=True)
class Combination:
    """One build and run of a matrix."""

    #: The board as it was given, and its name.
    board: str
    name: str
    #: Its description; None for a board of a lab.
    description: Board | None = field(default=None, repr=False)
    #: The goal; None if the matrix has no goals.
    goal: str | None = None
    #: The only model; None for all models in one image.
    model: str | None = None
    #: Names of the models, and the goal that they are compiled for.
    models: tuple[str, ...] = ()
    optimize: str | None = None

    def arguments(self, args: argparse.Namespace) -> argparse.Namespace:
        """Return the arguments of the command for this combination alone."""
        own = argparse.Namespace(**{**vars(args), "board": self.description or self.board})
        own.words = self.words(args)
        if goals := getattr(args, "goals", None):
            own.optimize = self.goal or goals[0]
        if self.model is not None:
            own.models = [self.model]
        if getattr(args, "output", None):
            own.output = os.path.join(args.output, self.name)
        return own

    def words(self, args: argparse.Namespace) -> tuple[str, ...]:
        """Return the words of a command line that runs this combination alone."""
        kept: list[str] = []
        rest: list[str] = []
        options = args.parser._option_string_actions
        words = iter(getattr(args, "words", ()))
        for word in words:
            if word == "--":
                # All others are models.
                rest += [word, *(each for each in words if self.model is None)]
                break
            flag, equals, _ = word.partition("=")
            action = options.get(word) or options.get(flag)
            if action is None or not word.startswith("-"):
                is_own = self.model is None or word not in args.models
                kept += [word] if is_own else []
                continue
            value = [] if equals or action.nargs == 0 else [next(words, "")]
            kept += [] if action.dest in _MATRIX_OPTIONS else [word, *value]
        own = ["--board", self.board] + (["--optimize", self.goal] if self.goal else [])
        if self.model is not None:
            # Where the line has its models: only behind `--` may one begin with a hyphen.
            rest, own = ([*rest, self.model], own) if rest else ([], [self.model, *own])
        return (*kept, *own, *rest) if kept else ()

    @property
    def label(self) -> str:
        """Name of the combination, for messages."""
        return self.named(Outcome("verify", ""), 0).label

    def named(self, outcome: Outcome, seconds: float) -> Outcome:
        """Return an outcome with the combination's name and duration."""
        return replace(
            outcome,
            board=self.name,
            goal=self.goal,
            model=self.model,
            models=self.models,
            optimize=self.optimize,
            seconds=seconds,
        )


def combinations(args: argparse.Namespace) -> list[Combination]:
    """Return the combinations of the arguments, boards first; raise for a repeated value."""
    boards = list(_boards(args.on_boards))
    described = [board_described(board) for board in boards]
    names = [_name(board, known) for board, known in zip(boards, described, strict=True)]
    goals = list(getattr(args, "goals", None) or [None])
    for what, words in (("--board", names), ("--optimize", goals)):
        twice = next((word for word, count in Counter(words).items() if count > 1), None)
        if twice is not None:
            raise InputError(f"{what} names {twice!r} twice", "name each once")
    models: list[str | None] = [None]
    if getattr(args, "separate", False):
        models = list(_models(args.models))
    several_goals = len(goals) > 1
    return [
        Combination(
            board,
            name,
            known,
            goal if several_goals else None,
            model,
            models=_names(args, [model] if model is not None else args.models),
            optimize=goal or getattr(args, "optimize", None) or DEFAULT_GOAL,
        )
        for model in models
        for board, name, known in zip(boards, names, described, strict=True)
        for goal in goals
    ]


def board_described(board: str) -> Board | None:
    """Return the description of a board; None for a selector of a lab or of the bench.

    Raise :class:`InputError` for one that does not exist, and for a malformed selector.
    """
    if is_of_bench(board):
        return None if unit_named(board) is None else load_board(board)
    return None if parse_selector(board) else load_board(board)


def _name(board: str, described: Board | None) -> str:
    """Return the name of a board, by which boards of one type on a bench differ."""
    if is_of_bench(board):
        return board
    return str(parse_selector(board)) if described is None else described.name


def _names(args: argparse.Namespace, words: Sequence[str]) -> tuple[str, ...]:
    """Return the names of models as the command line gives them; else the stems of their files."""
    if getattr(args, "name", None) and len(words) == 1:
        return (args.name,)
    pairs = [word.partition("=") for word in words]
    return tuple(name if equals else Path(name).stem for name, equals, _ in pairs)


def _boards(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        if word != EMULATED:
            yield word
            continue
        # Not at the top: it looks for programs.
        from hil.cli.doctor import missing_for_runner

        known = [load_board(name) for name in board_names()]
        found = [b.name for b in known if b.qemu and missing_for_runner(b, "qemu") is None]
        if not found:
            raise InputError("no board can be emulated here", "`hil doctor` says what is missing")
        yield from found


def _models(words: Sequence[str]) -> Iterator[str]:
    """Return the models; for a folder that is not a library, the model files in it."""
    for word in words:
        folder = Path(word)
        refuse_saved_model(folder)
        if not folder.is_dir() or (folder / "metadata.json").exists():
            yield word
            continue
        found = sorted(p for p in folder.rglob("*") if p.suffix in _MODEL_SUFFIXES)
        if not found:
            raise InputError(
                f"the folder {word!r} has no model file",
                f"the suffixes are {', '.join(_MODEL_SUFFIXES)}",
            )
        yield from map(str, found)
