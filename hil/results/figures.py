"""Checks of figures that were read: what nothing can have measured is refused, not shown.

Their types are checked before (:func:`hilc.support.jsondata.decode`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from hilc.errors import InputError
from hilc.support.jsondata import key_of

#: Fields that may be negative: values of tensors and their differences, metrics; and entries of an
#: answer, which are checked again by their own types.
_SIGNED = frozenset({"low", "high", "expected", "got", "value", "min", "max"}) | frozenset(
    {"nse", "cos", "snr_db", "expected_real", "got_real", "zero_point", "options"}
    | {"first", "last", "difference", "percent", "results"}
)
#: Fields that are not 0 either: what is divided by them, or what there is nothing without.
_POSITIVE = frozenset({"samples", "clock_hz"})
#: Fields that have another range than those of the same name in other classes, and which.
_AS: Mapping[tuple[str, str], str] = {
    ("MissedFaults", "samples"): "count",
    ("Saving", "instructions"): "difference",
    ("Saving", "flash_bytes"): "difference",
}
#: The largest value of fields that are shares.
_SHARES: Mapping[str, float] = {"top1": 1.0, "top5": 1.0}


def check_figures(part: Any, label: str, remedy: str) -> None:
    """Raise :class:`~hilc.errors.InputError` for a figure in the dataclass ``part`` that no result
    has: a negative count, time or size, or what contradicts another one.

    A class says by its method ``contradictions`` what cannot all be true of its fields.
    """
    for field in fields(part):
        key = key_of(field.name)
        name = _AS.get((type(part).__name__, key), key)
        _check(getattr(part, field.name), name, f"{label}: {key}", remedy)
    if hasattr(part, "contradictions"):
        for contradiction in part.contradictions():
            raise InputError(f"{label}: {contradiction}", remedy)


def _check(value: Any, name: str, label: str, remedy: str) -> None:
    if is_dataclass(value):
        check_figures(value, label, remedy)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            _check(inner, name, f"{label}[{key!r}]", remedy)
    elif isinstance(value, tuple):
        for index, inner in enumerate(value):
            _check(inner, name, f"{label}[{index}]", remedy)
    elif isinstance(value, int | float) and name not in _SIGNED:
        if value < 0 or (value == 0 and name in _POSITIVE):
            raise InputError(f"{label} is {value}, which no result has", remedy)
        if value > _SHARES.get(name, value):
            raise InputError(f"{label} is {value}, and is a share", remedy)


def is_ascending(*values: float | None) -> bool:
    """Return whether those of the values that are known are in order."""
    known = [value for value in values if value is not None]
    return known == sorted(known)
