"""Measurements as they are compared: from the entries of ``hil bench``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hil.errors import InputError
from hil.results.answer import FailedEntry
from hil.results.bench import BenchEntry, CheckedOutputs, MeasuredLayer
from hil.results.read import read_answers
from hil.results.v0 import DEFAULT_GOAL

_REMEDY = "write it with `hil bench MODEL --board B --json`"


@dataclass(frozen=True)
class Figure:
    """A figure of a measurement beside its count."""

    #: Its key in the JSON object.
    key: str
    title: str
    #: The option of ``hil gate`` that limits it, without ``--max-``; empty for none.
    limit: str = ""


#: The figures that are compared, where both measurements have them.
FIGURES: Sequence[Figure] = (
    Figure("model_flash_bytes", "flash of the model"),
    Figure("firmware_flash_bytes", "flash of the firmware", "flash"),
    Figure("workspace_bytes", "workspace", "workspace"),
    Figure("ram_bytes", "static RAM of the firmware", "ram"),
    Figure("stack_peak_bytes", "stack, at its peak", "stack"),
)


@dataclass(frozen=True)
class Measurement:
    """A measurement of one model on one board."""

    #: Where it comes from, for messages: a file, an entry of a history, or a run.
    source: str
    model: str
    board: str
    counter: str
    per_inference: int
    #: By the keys of :data:`FIGURES`; older files may lack some.
    figures: Mapping[str, int]
    layers: tuple[MeasuredLayer, ...]
    #: SHA-256 of the model's file and of the inputs; None where it is not known.
    model_sha256: str | None = None
    inputs_sha256: str | None = None
    #: Energy of an inference in microjoules; None where it was not measured.
    energy_uj: float | None = None
    #: None where the outputs were not compared, and in older files.
    checked: CheckedOutputs | None = None
    #: Goal of the compiler; None in older files, which do not name it.
    goal: str | None = None
    #: Identity of the run: its own number, or the file of an older result.
    run: str | None = None
    #: Wait states of the memory of a simulated core; "" for another board.
    memory_model: str = ""

    @property
    def title(self) -> str:
        """Model and board as text, with the goal unless it is the default."""
        goal = f", goal {self.goal}" if self.goal not in (None, DEFAULT_GOAL) else ""
        return f"{self.model} on {self.board}{goal}"

    @property
    def key(self) -> tuple[str, str, str | None]:
        """Return its key among the measurements of a result: model, board and goal."""
        return self.model, self.board, self.goal

    def is_like(self, other: Measurement) -> bool:
        """Whether both are of the same model, board and goal, where both name their goal."""
        goals = {self.goal, other.goal}
        return self.key[:2] == other.key[:2] and (len(goals) == 1 or None in goals)


def partner_of(measurement: Measurement, others: Sequence[Measurement]) -> Measurement | None:
    """Return the one of ``others`` of the same model, board and goal; None if there is none.

    Raise :class:`~hil.errors.InputError` if there are several.
    """
    found = [other for other in others if other.key == measurement.key] or [
        other for other in others if other.is_like(measurement)
    ]
    if len(found) > 1:
        raise InputError(
            f"{found[0].source} has {len(found)} measurements that may be that of "
            f"{measurement.title}: of {'; '.join(other.title for other in found)}",
            "keep the one to compare with",
        )
    return found[0] if found else None


def read_measurements(data: Any, source: str, *, stored_at: str | None = None) -> list[Measurement]:
    """Return the measurements in an answer of ``hil bench``, as JSON.

    ``stored_at`` identifies the file that holds it. Raise :class:`~hil.errors.InputError` for
    anything else, for an answer without results, and for a board that failed.
    """
    answers = read_answers(data, source, _REMEDY)
    entries = [entry for answer in answers for entry in answer.results]
    if not entries:
        raise InputError(f"{source} has no results: nothing was measured", _REMEDY)
    return [measurement_of(entry, source, stored_at=stored_at) for entry in entries]


def measurement_of(entry: Any, source: str, *, stored_at: str | None = None) -> Measurement:
    """Return the measurement in an entry of ``hil bench``; raise InputError for any other entry."""
    if isinstance(entry, FailedEntry):
        board = entry.board or "a board"
        raise InputError(f"{source}: there is no measurement on {board}, which failed", _REMEDY)
    if not isinstance(entry, BenchEntry):
        raise InputError(f"{source} is not a result of hil bench", _REMEDY)
    if not entry.per_inference:
        raise InputError(f"{source}: per_inference is 0, which no result has", _REMEDY)
    made_from = entry.provenance
    stored = f"{stored_at}: {entry.model}, {entry.board}, {entry.goal}" if stored_at else None
    return Measurement(
        source=source,
        model=entry.model,
        board=entry.board,
        counter=entry.counter,
        per_inference=entry.per_inference,
        figures={figure.key: getattr(entry, figure.key) for figure in FIGURES},
        layers=entry.layers,
        model_sha256=made_from.model.sha256 if made_from else None,
        inputs_sha256=made_from.inputs.sha256 if made_from else None,
        energy_uj=entry.energy.per_inference_uj if entry.energy else None,
        checked=entry.checked,
        goal=entry.goal,
        run=(made_from.run if made_from else None) or stored,
        memory_model=entry.simulated[0].memory_model if entry.simulated else "",
    )
