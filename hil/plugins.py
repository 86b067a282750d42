"""Optional parts of the harness, found without loading the compiler."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType


def optional_module(name: str) -> ModuleType | None:
    """Return the module ``name``; None where the part of the installation that has it is absent."""
    try:
        is_there = find_spec(name) is not None
    except ModuleNotFoundError:  # not even the package around it
        is_there = False
    return import_module(name) if is_there else None
