"""Measurements as they are compared: read from the JSON objects of ``hil bench``.

A file may have been written by an older version, or by hand: each value is checked when it is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hil.errors import InputError
from hil.support.fused import group_text
from hilc.codegen.options import Options

#: The goal of a measurement whose options name none.
DEFAULT_GOAL = Options.optimize
#: No count, number of bytes or energy comes near it.
_MOST = 1 << 62
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
class MeasuredLayer:
    """A layer's name, operator and count."""

    name: str
    #: Of a fused group the last one's operator.
    op: str
    count: int
    #: Operators of a fused group; empty for a single layer, and in older files.
    ops: tuple[str, ...] = ()

    @property
    def shown_op(self) -> str:
        return group_text(self.op, self.ops)


@dataclass(frozen=True)
class Checked:
    """The comparison of the measured firmware's outputs with a reference."""

    samples: int
    reference: str
    match: bool
    #: Whether this compiler's own interpreter replaced the reference, since that could not run.
    is_fallback: bool = False
    #: Whether other people's code computed the reference.
    independent: bool = True

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


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
    checked: Checked | None = None
    #: Goal of the compiler; None in older files, which do not name it.
    goal: str | None = None
    #: What identifies the run: its own number, or where an older result is stored.
    run: str | None = None

    @property
    def title(self) -> str:
        goal = f", goal {self.goal}" if self.goal not in (None, DEFAULT_GOAL) else ""
        return f"{self.model} on {self.board}{goal}"

    @property
    def key(self) -> tuple[str, str, str | None]:
        """Return what tells it from the other measurements of a result: model, board and goal."""
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


def goal_of(result: Mapping[str, Any], source: str) -> str | None:
    """Return the goal that a JSON object of ``hil bench`` names; None for older ones."""
    provenance = _optional(result, "provenance", dict, source) or {}
    options = _optional(provenance, "options", dict, source)
    named = _optional(options or {}, "optimize", str, source)
    named = named or _optional(result, "optimize", str, source)
    return named or (None if options is None else DEFAULT_GOAL)


def read_measurements(data: Any, source: str, *, stored_at: str | None = None) -> list[Measurement]:
    """Return the measurements in a JSON object of ``hil bench``, of one or several models and
    boards.

    ``stored_at`` identifies the file or the entry that holds them. Raise
    :class:`~hil.errors.InputError` for anything else, for nothing, and for a board that failed.
    """
    found = []
    for board in _parts(data, "boards", source):
        for model in _parts(board, "models", source):
            if isinstance(model, dict) and "optimize" in board:
                model = {"optimize": board["optimize"], **model}
            found.append(_measurement(model, source, stored_at))
    return found


def _parts(data: Any, key: str, source: str) -> list[Any]:
    """Return the objects of the list ``key``, or the object itself if it has no such list."""
    if not isinstance(data, dict):
        raise InputError(f"{source} is not a result of hil bench", _REMEDY)
    if key not in data:
        return [data]
    parts = _list(data, key, source)
    if not parts:
        raise InputError(f"{source}: {key} is an empty list: nothing was measured", _REMEDY)
    return parts


def _measurement(data: Any, source: str, stored_at: str | None) -> Measurement:
    if not isinstance(data, dict):
        raise InputError(f"{source} is not a result of hil bench", _REMEDY)
    if "error" in data:
        board = data.get("board", "a board")
        raise InputError(f"{source}: there is no measurement on {board}, which failed", _REMEDY)
    provenance = _optional(data, "provenance", dict, source) or {}
    model = _optional(provenance, "model", dict, source) or {}
    inputs = _optional(provenance, "inputs", dict, source) or {}
    energy = _optional(data, "energy", dict, source) or {}
    goal = goal_of(data, source)
    stored = f"{stored_at}: {data.get('model')}, {data.get('board')}, {goal}" if stored_at else None
    return Measurement(
        source=source,
        model=_value(data, "model", str, source),
        board=_value(data, "board", str, source),
        counter=_value(data, "counter", str, source),
        per_inference=_positive(data, "per_inference", source),
        figures={f.key: _value(data, f.key, int, source) for f in FIGURES if f.key in data},
        layers=tuple(_layer(layer, source) for layer in _list(data, "layers", source)),
        model_sha256=_optional(model, "sha256", str, source),
        inputs_sha256=_optional(inputs, "sha256", str, source),
        energy_uj=_optional(energy, "per_inference_uj", float, source),
        checked=_checked(_optional(data, "checked", dict, source), source),
        goal=goal,
        run=_optional(provenance, "run", str, source) or stored,
    )


def _checked(data: Mapping[str, Any] | None, source: str) -> Checked | None:
    if data is None:
        return None
    independent = _value(data, "independent", bool, source)
    return Checked(
        _positive(data, "samples", source),
        _value(data, "reference", str, source),
        _value(data, "match", bool, source),
        _optional(data, "reference_fallback", dict, source) is not None and not independent,
        independent,
    )


def _layer(data: Any, source: str) -> MeasuredLayer:
    if not isinstance(data, dict):
        raise InputError(f"{source}: a layer is {data!r:.60}, not an object", _REMEDY)
    return MeasuredLayer(
        _value(data, "name", str, source),
        _value(data, "op", str, source),
        _value(data, "count", int, source),
        tuple(_texts(data, "ops", source)) if "ops" in data else (),
    )


def _texts(data: Mapping[str, Any], key: str, source: str) -> list[str]:
    values = _list(data, key, source)
    if not all(isinstance(value, str) for value in values):
        raise InputError(f"{source}: {key} is {values!r:.60}, not a list of texts", _REMEDY)
    return values


def _list(data: Mapping[str, Any], key: str, source: str) -> list[Any]:
    values: list[Any] = _value(data, key, list, source)
    return values


def _value(data: Mapping[str, Any], key: str, kind: type, source: str) -> Any:
    if key not in data:
        raise InputError(f"{source} has no {key!r}: it is not a result of hil bench", _REMEDY)
    value = data[key]
    # A bool is an int in Python, and a whole number may stand for a float in JSON.
    kinds = (int, float) if kind is float else (kind,)
    is_kind = isinstance(value, kinds) and isinstance(value, bool) == (kind is bool)
    # JSON's whole numbers have no limit, and Python reads NaN and infinities from it.
    if not is_kind or (kind in (int, float) and not 0 <= value < _MOST):
        names = {
            bool: "true or false",
            int: "a whole number",
            str: "a text",
            list: "a list",
            dict: "an object",
        }
        wanted = names.get(kind, "a number")
        raise InputError(f"{source}: {key} is {value!r:.60}, not {wanted}", _REMEDY)
    return value


def _positive(data: Mapping[str, Any], key: str, source: str) -> int:
    """Return a count without which nothing was measured or compared."""
    count: int = _value(data, key, int, source)
    if count < 1:
        raise InputError(f"{source}: {key} is {count}, which no result has", _REMEDY)
    return count


def _optional(data: Mapping[str, Any], key: str, kind: type, source: str) -> Any:
    return None if data.get(key) is None else _value(data, key, kind, source)
