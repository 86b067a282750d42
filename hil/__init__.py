"""Hardware in the loop: compiled models on boards and emulators, driven from Python.

``hil.open(board, *models)`` gives a device; the command line is ``hil`` (:mod:`hil.cli`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hil.errors import HilError
    from hil.session import open

__all__ = ["HilError", "open"]

# Loaded on first use: `hil --help` and pytest's collection need neither compiler nor link.
_HOMES = {"HilError": "hil.errors", "open": "hil.session"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
