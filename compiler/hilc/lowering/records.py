"""Dataclasses of C structs that take little time to import.

There are some hundreds of them, and every start of the compiler makes all. A frozen dataclass has
four functions of its own, each compiled from text when its class is made; these classes share the
functions of :class:`Record`, which go by the fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

__all__ = ["Record", "record"]

_T = TypeVar("_T")


class Record:
    """Base of a dataclass that :func:`record` makes: its fields are given by name, all of them,
    and stay as they are.
    """

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    def __init__(self, **values: Any) -> None:
        names = _names(type(self))
        if values.keys() != names.keys():
            missing = [name for name in names if name not in values]
            unknown = [name for name in values if name not in names]
            problems = [
                f"{kind} {', '.join(n)}"
                for kind, n in (("lacks", missing), ("has no", unknown))
                if n
            ]
            raise TypeError(f"{type(self).__name__} {' and '.join(problems)}")
        # In the order of the struct.
        self.__dict__.update((name, values[name]) for name in names)

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __repr__(self) -> str:
        shown = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self))
        return f"{type(self).__qualname__}({', '.join(shown)})"


_NAMES: dict[type[Record], dict[str, None]] = {}


def _names(kind: type[Record]) -> dict[str, None]:
    """Return the names of a class's fields, in the order of the struct."""
    if kind not in _NAMES:
        _NAMES[kind] = dict.fromkeys(field.name for field in dataclasses.fields(kind))
    return _NAMES[kind]


if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:

    def record(*, frozen: bool, eq: bool, kw_only: bool) -> Callable[[type[_T]], type[_T]]:
        """Return a decorator that makes a subclass of :class:`Record` a dataclass; the options are
        those that it has, and that type checkers read.
        """
        if not frozen or eq or not kw_only:
            raise TypeError("a record is frozen, takes its fields by name, and equals itself only")
        return dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=True)
