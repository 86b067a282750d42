"""Optional parts of the distribution, and the registries that they extend.

A part is a package with a module ``register``, whose function ``register()`` adds its features to
each :class:`Registry` and :class:`Slot`. It is imported when a feature that is not built in is
first requested, so no other module imports it, and everything else works without its folder.
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
    #: Purpose, for error messages.
    purpose: str

    def load(self) -> None:
        """Import the part, once, if it is installed, and let it register its features."""
        _load(self.package)

    def missing(self, what: str, instead: str) -> InputError:
        """Return the error for ``what``, which only the part provides."""
        return InputError(
            f"{what} is part of {self.package} ({self.purpose}), which is not installed",
            "install the whole distribution (pip install --force-reinstall hil-harness), "
            f"{instead}",
        )


#: Features for users of microTVM: packed functions, TVM's metadata and archives, its C runtime.
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
    """Implementations of an option's values: those built in, and those of an optional part."""

    def __init__(self, option: str, built_in: Mapping[str, T], part: Part = TVM) -> None:
        self._option = option
        self._found = dict(built_in)
        self._default = next(iter(built_in))
        self._part = part

    def add(self, word: str, value: T) -> None:
        """Register an implementation for the option's value ``word``."""
        self._found[word] = value

    def __getitem__(self, word: str) -> T:
        """Return the implementation of ``word``; raise InputError if its part is not installed."""
        if word not in self._found:
            self._part.load()
        if word not in self._found:
            asked = f"{self._option}={word}"
            raise self._part.missing(asked, f"or use {self._option}={self._default}")
        return self._found[word]

    def installed(self) -> Mapping[str, T]:
        """Return all installed implementations, by value."""
        self._part.load()
        return self._found


class Slot(Generic[T]):
    """Feature that an optional part provides, if it is installed."""

    def __init__(self, part: Part = TVM) -> None:
        self._part = part
        self._value: T | None = None

    def fill(self, value: T) -> None:
        """Register the feature's implementation."""
        self._value = value

    def found(self) -> T | None:
        """Return the feature; None if the part is not installed."""
        self._part.load()
        return self._value

    def get(self, what: str, instead: str) -> T:
        """Return the feature; raise InputError if the part is not installed.

        The error says that ``what`` needs it, and ``instead`` completes its hint, a sentence that
        begins with "install".
        """
        value = self.found()
        if value is None:
            raise self._part.missing(what, instead)
        return value
