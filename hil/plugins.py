"""What the harness finds at run time: optional parts of its own, and plugins of others.

A plugin is an entry point of the group ``hil.plugins`` of any installed distribution::

    [project.entry-points."hil.plugins"]
    rig = "acme_rig"

It names a module, which registers what it brings when it is imported (operators, kernels, front
ends, runners, report formats), or a function of one, which is called. The command line and the
pytest plugin import all of them before they compile or start anything; a program that uses the
Python API imports what it needs itself. Nothing here loads the compiler.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from types import ModuleType

GROUP = "hil.plugins"
#: What is being imported now.
_importing: list[EntryPoint] = []


def optional_module(name: str) -> ModuleType | None:
    """Return the module ``name``; None where the part of the installation that has it is absent."""
    try:
        is_there = find_spec(name) is not None
    except ModuleNotFoundError:  # not even the package around it
        is_there = False
    return import_module(name) if is_there else None


@dataclass(frozen=True)
class Plugin:
    """A plugin that was found, and whether it could be imported."""

    name: str
    #: What the entry point names: a module, or ``module:function``.
    target: str
    #: The distribution that brings it, and its version; empty where it has none.
    distribution: str
    version: str
    #: What importing it raised.
    problem: Exception | None

    @property
    def remedy(self) -> str:
        """Return the remedy for the problem."""
        if not self.distribution:
            return f"repair it, or remove its entry point in the group {GROUP}"
        return (
            f"repair or update {self.distribution}, or remove it: pip uninstall {self.distribution}"
        )

    def told_problem(self) -> str:
        """Return the problem in one line; empty for a plugin that works."""
        if self.problem is None:
            return ""
        # The errors of this project have a fact of one line.
        text = getattr(self.problem, "fact", None) or " ".join(str(self.problem).split())
        return f"{type(self.problem).__name__}: {text}"


@functools.cache
def plugins() -> tuple[Plugin, ...]:
    """All plugins, each imported once, in the order of their names."""
    found = sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))
    # A folder that is on the path twice shows its distributions twice.
    return tuple(_imported(entry) for entry in dict.fromkeys(found))


def load_plugins() -> None:
    """Import all plugins; :class:`~hilc.errors.InputError` for the first that cannot be.

    What a plugin asks for while it is imported is found among those that were before it.
    """
    for plugin in () if _importing else plugins():
        if plugin.problem is not None:
            from hil.errors import InputError

            raise InputError(
                f"the plugin {plugin.name!r} cannot be loaded: importing {plugin.target} raised "
                f"{plugin.told_problem()}",
                plugin.remedy,
            ) from plugin.problem


def _imported(entry: EntryPoint) -> Plugin:
    problem: Exception | None = None
    _importing.append(entry)
    try:
        found = entry.load()
        if callable(found):
            found()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever somebody else's code does
        problem = (
            error
            if isinstance(error, Exception)
            else RuntimeError(f"it raises {type(error).__name__} ({error})")
        )
    finally:
        _importing.pop()
    # An entry point that was made by hand has no distribution.
    source = getattr(entry, "dist", None)
    name, version = (source.name, source.version) if source is not None else ("", "")
    return Plugin(entry.name, entry.value, name, version, problem)
