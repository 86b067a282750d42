"""Modules that can be called: ``hil.verify(...)`` beside ``from hil.verify import Report``.

A module's class may be changed (Python's data model, "Customizing module attribute access"), so the
name of a package in ``hil`` is always the module, whoever imported it first, and calling it calls
the function of the module with the same name. Type checkers see the function, which
``hil/__init__.py`` declares.
"""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any


class CallableModule(ModuleType):
    """A module that is called as its function ``NAME.NAME``."""

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Call the module's function of the same name."""
        return _function(self)(*args, **keywords)

    @property
    def __signature__(self) -> inspect.Signature:
        """The function's signature, for ``help`` and editors."""
        return inspect.signature(_function(self))


def _function(module: ModuleType) -> Any:
    return getattr(module, module.__name__.rpartition(".")[2])


def make_callable(name: str) -> None:
    """Let the module ``name`` be called as its function of the same name."""
    sys.modules[name].__class__ = CallableModule
