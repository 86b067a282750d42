"""Results as JSON: the key of each value is the name of its field.

Reading is :func:`hilc.support.jsondata.decode`, which ignores unknown keys here and fills absent
ones from the fields' defaults, so that files of other versions are read. :mod:`hil.results.schema`
describes the same JSON.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any, TypeVar

from hil.results.figures import check_figures
from hilc.errors import InputError
from hilc.support.jsondata import decode as decode_dataclass
from hilc.support.jsondata import key_of

_T = TypeVar("_T")

#: Metadata of a field whose key is absent while it has its default.
_OMITTED = "omitted"


def omitted(default: Any = None) -> Any:
    """Return a dataclass field whose key is absent from the JSON while the value is ``default``."""
    return field(default=default, metadata={_OMITTED: True})


def is_omittable(one: Any) -> bool:
    """Return whether the key of a dataclass field may be absent from what this version writes."""
    return _OMITTED in one.metadata


def encode(value: Any) -> Any:
    """Return a value as ``json.dumps`` takes it; a number that is not finite is None."""
    if is_dataclass(value) and not isinstance(value, type):
        pairs = [(one, getattr(value, one.name)) for one in fields(value)]
        return {
            key_of(one.name): encode(found)
            for one, found in pairs
            if not (is_omittable(one) and found == one.default)
        }
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): encode(found) for key, found in value.items()}
    if isinstance(value, list | tuple):
        return [encode(found) for found in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, PurePath) else value


def decode(kind: type[_T], data: Any, label: str, hint: str = "") -> _T:
    """Return the dataclass ``kind`` from its JSON; ``label`` names the JSON in messages.

    Raise :class:`~hilc.errors.InputError` where a value has another type, is out of its range
    (:func:`hil.results.figures.check_figures`), or contradicts another one.
    """
    try:
        found = decode_dataclass(kind, data, label, exact=False)
    except InputError as error:
        error.hint = error.hint or hint
        raise
    check_figures(found, label, hint)
    return found
