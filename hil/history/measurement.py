"""Measurements as they are compared: read from the JSON objects of ``hil bench``.

A file may have been written by an older version, or by hand: each value is checked when it is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hil.errors import InputError
from hil.support.fused import group_text

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

    @property
    def title(self) -> str:
        return f"{self.model} on {self.board}"


def read_measurements(data: Any, source: str) -> list[Measurement]:
    """Return the measurements in a JSON object of ``hil bench``, of one or several models and
    boards.

    Raise :class:`~hil.errors.InputError` for anything else, and for a board that failed.
    """
    boards = _parts(data, "boards", source)
    return [
        _measurement(model, source) for board in boards for model in _parts(board, "models", source)
    ]


def _parts(data: Any, key: str, source: str) -> list[Any]:
    """Return the objects of the list ``key``, or the object itself if it has no such list."""
    if not isinstance(data, dict):
        raise InputError(f"{source} is not a result of hil bench", _REMEDY)
    return _list(data, key, source) if key in data else [data]


def _measurement(data: Any, source: str) -> Measurement:
    if not isinstance(data, dict):
        raise InputError(f"{source} is not a result of hil bench", _REMEDY)
    if "error" in data:
        board = data.get("board", "a board")
        raise InputError(f"{source}: there is no measurement on {board}, which failed", _REMEDY)
    provenance = _optional(data, "provenance", dict, source) or {}
    model = _optional(provenance, "model", dict, source) or {}
    inputs = _optional(provenance, "inputs", dict, source) or {}
    energy = _optional(data, "energy", dict, source) or {}
    return Measurement(
        source=source,
        model=_value(data, "model", str, source),
        board=_value(data, "board", str, source),
        counter=_value(data, "counter", str, source),
        per_inference=_value(data, "per_inference", int, source),
        figures={f.key: _value(data, f.key, int, source) for f in FIGURES if f.key in data},
        layers=tuple(_layer(layer, source) for layer in _list(data, "layers", source)),
        model_sha256=_optional(model, "sha256", str, source),
        inputs_sha256=_optional(inputs, "sha256", str, source),
        energy_uj=_optional(energy, "per_inference_uj", float, source),
        checked=_checked(_optional(data, "checked", dict, source), source),
    )


def _checked(data: Mapping[str, Any] | None, source: str) -> Checked | None:
    if data is None:
        return None
    independent = _value(data, "independent", bool, source)
    return Checked(
        _value(data, "samples", int, source),
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


def _optional(data: Mapping[str, Any], key: str, kind: type, source: str) -> Any:
    return None if data.get(key) is None else _value(data, key, kind, source)
