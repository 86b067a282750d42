"""Optional parts of the distribution, and the places that they fill.

A part is a package with a module ``register``, whose function ``register()`` hands over what the
part has to a :class:`Registry` or a :class:`Slot` of the rest. It is imported when one of these is
first asked for what is not built in, so nothing of the rest imports it, and all else works where
its folder is absent.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Generic, TypeVar

from hilc.errors import InputError

T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """An optional package."""

    package: str
    #: What it is for, as the errors say it.
    purpose: str

    def load(self) -> None:
        """Import the part, once, where it is installed, and let it register what it has."""
        _load(self.package)

    def missing(self, what: str, instead: str) -> InputError:
        """The error for ``what``, which only the part knows."""
        return InputError(
            f"{what} is part of {self.package} ({self.purpose}), which is not installed",
            "install the whole distribution (pip install --force-reinstall hil-harness), "
            f"{instead}",
        )


#: What microTVM's users need: packed functions, TVM's metadata and archives, its C run time.
TVM = Part("hilc.compat.tvm", "compatibility with microTVM")


@functools.cache
def _load(package: str) -> None:
    try:
        is_there = find_spec(f"{package}.register") is not None
    except ModuleNotFoundError:  # not even the folder around it
        is_there = False
    if is_there:
        import_module(f"{package}.register").register()


class Registry(Generic[T]):
    """Implementations of an option's words: those built in, and those of an optional part."""

    def __init__(self, option: str, built_in: Mapping[str, T], part: Part = TVM) -> None:
        self._option = option
        self._found = dict(built_in)
        self._default = next(iter(built_in))
        self._part = part

    def add(self, word: str, value: T) -> None:
        self._found[word] = value

    def __getitem__(self, word: str) -> T:
        """What ``word`` stands for; InputError where the part that has it is not installed."""
        if word not in self._found:
            self._part.load()
        if word not in self._found:
            asked = f"{self._option}={word}"
            raise self._part.missing(asked, f"or use {self._option}={self._default}")
        return self._found[word]

    def installed(self) -> Mapping[str, T]:
        """All that there are, by their words."""
        self._part.load()
        return self._found


class Slot(Generic[T]):
    """What an optional part provides to the rest, where the part is installed."""

    def __init__(self, part: Part = TVM) -> None:
        self._part = part
        self._value: T | None = None

    def fill(self, value: T) -> None:
        self._value = value

    def found(self) -> T | None:
        """What the part provides; None where it is not installed."""
        self._part.load()
        return self._value

    def get(self, what: str, instead: str) -> T:
        """What the part provides; InputError where it is not installed.

        The error says that ``what`` asks for it, and in its hint what to do ``instead``: the rest
        of a sentence that begins with "install".
        """
        value = self.found()
        if value is None:
            raise self._part.missing(what, instead)
        return value
