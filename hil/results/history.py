"""The entries of ``hil history``, ``hil compare`` and ``hil gate``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hil.results.answer import entry_of
from hil.results.bench import CheckedOutputs
from hil.results.codec import omitted


@entry_of("history")
@dataclass(frozen=True)
class HistoryEntry:
    """A recorded result."""

    #: UTC, in ISO 8601.
    time: str
    #: The command: ``verify``, ``bench`` or ``evaluate``.
    kind: str
    model: str
    board: str
    #: The entry of the command.
    result: Any
    #: Never used again, also after entries are deleted.
    id: int | None = None
    #: The commit that was checked out, and whether files differed from it; None outside of a
    #: repository.
    commit: str | None = None
    dirty: bool | None = None


@dataclass(frozen=True)
class Measured:
    """One side of a comparison."""

    #: Where the measurement comes from: a file, an entry of a history, or a run.
    source: str
    model: str
    board: str
    #: None in older files, which do not record it.
    goal: str | None
    model_sha256: str | None
    #: None where the outputs were not compared.
    checked: CheckedOutputs | None


@dataclass(frozen=True)
class FigureChange:
    """A figure of both measurements; None where one lacks it."""

    name: str
    a: float | None
    b: float | None
    difference: float | None
    percent: float | None


@dataclass(frozen=True)
class CountChange(FigureChange):
    """The count of a layer in both measurements."""

    op: str
    #: Operators of a fused group; absent for a single layer.
    ops: tuple[str, ...] = omitted(())


@entry_of("compare")
@dataclass(frozen=True)
class CompareEntry:
    """Two measurements of a model on a board."""

    a: Measured
    b: Measured
    #: Unit of the counts.
    counter: str
    per_inference: FigureChange
    figures: tuple[FigureChange, ...]
    layers: tuple[CountChange, ...]


@dataclass(frozen=True)
class ExceededLimit(FigureChange):
    """A figure above its limit."""

    #: The limit as it was given.
    limit: str
    #: The layer whose count has grown most; None for other figures.
    layer: str | None
    layer_change: FigureChange | None


@entry_of("gate")
@dataclass(frozen=True)
class GateEntry:
    """A measurement compared with its baseline under limits."""

    model: str
    board: str
    goal: str | None
    #: Whether no limit is exceeded, and no compared output differs.
    passed: bool
    #: None where the outputs were not compared.
    checked: CheckedOutputs | None
    excesses: tuple[ExceededLimit, ...]
    comparison: CompareEntry
