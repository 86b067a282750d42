"""What the harness finds at run time: optional parts of its own, and plugins of others.

A plugin is an entry point of the group ``hil.plugins`` of any installed distribution::

    [project.entry-points."hil.plugins"]
    rig = "acme_rig"

It names a module, which registers what it brings when it is imported (operators, kernels, front
ends, runners, flashers, report and export formats), or a function of one, which is called. The
command line and the pytest plugin import all of them before they compile or start anything; a
program that uses the Python API imports what it needs itself. Nothing here loads the compiler.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, distributions, entry_points
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from hil.errors import InputError

T = TypeVar("T")

GROUP = "hil.plugins"
#: Group of entry points that add commands to the command line (:mod:`hil.cli.command`).
COMMANDS = "hil.commands"
_COMMAND_NAME = re.compile(r"[a-z][a-z0-9-]*")
_NAME = re.compile(r"[\w.-]+")
#: The packages of this project.
_OWN = ("hil", "hilc")
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
    def package(self) -> str:
        """The top-level package or module of its code."""
        return self.target.partition(":")[0].partition(".")[0].strip()

    @property
    def remedy(self) -> str:
        """Return the remedy for the problem."""
        if not self.distribution:
            return f"repair it, or remove its entry point in the groups {GROUP} and {COMMANDS}"
        return (
            f"repair or update {self.distribution}, or remove it: pip uninstall {self.distribution}"
        )

    def problem_text(self) -> str:
        """Return the problem in one line; empty for a plugin that works."""
        if self.problem is None:
            return ""
        return _in_one_line(self.problem, self.package)


class _EntryError(Exception):
    """An entry point that is none, or a file of entry points that cannot be read."""


@functools.cache
def plugins() -> tuple[Plugin, ...]:
    """All plugins, each imported once, in the order of their names."""
    found, malformed = _entries(GROUP)
    found.sort(key=lambda entry: (entry.name, entry.value))
    # A folder that is on the path twice shows its distributions twice.
    return (*malformed, *(_imported(entry) for entry in dict.fromkeys(found)))


@functools.cache
def plugin_commands() -> Mapping[str, Plugin]:
    """Return the commands of other distributions by name, in their order; none is imported."""
    found: dict[str, Plugin] = {}
    entries, _ = _entries(COMMANDS)  # a file that cannot be read is a problem of `plugins`
    for entry in dict.fromkeys(sorted(entries, key=lambda entry: (entry.name, entry.value))):
        problem = None
        if not _COMMAND_NAME.fullmatch(entry.name):
            problem = _EntryError("its name is no command: write lower-case letters, digits and -")
        elif entry.name in found:
            other = found[entry.name]
            problem = _EntryError(
                f"{other.distribution or other.target} adds a command of that name"
            )
        found[entry.name] = _plugin(entry, problem)
    return found


def load_command(plugin: Plugin) -> object:
    """Return what the entry point of a command names; InputError where it cannot be imported."""
    problem = plugin.problem
    if problem is None:
        try:
            return EntryPoint(plugin.name, plugin.target, COMMANDS).load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever somebody else's code does
            problem = error if isinstance(error, Exception) else _as_exception(error)
    from hil.errors import InputError

    raise InputError(
        f"the command {plugin.name!r} cannot be loaded: {_in_one_line(problem, plugin.package)}",
        plugin.remedy,
    ) from problem


def _entries(group: str) -> tuple[list[EntryPoint], list[Plugin]]:
    """Return the entry points, and a plugin with a problem for each file that cannot be read."""
    try:
        return list(entry_points(group=group)), []
    except Exception:  # a single such file, of any distribution, fails all
        pass
    found: list[EntryPoint] = []
    malformed: dict[tuple[str, str], Plugin] = {}
    for source in distributions():
        try:
            found += source.entry_points.select(group=group)
        except Exception as error:
            name, version = source.metadata["Name"], source.metadata["Version"]
            problem = _EntryError(
                f"its entry_points.txt cannot be read ({type(error).__name__}: {error}); a line is "
                "NAME = MODULE or NAME = MODULE:FUNCTION, below a [GROUP]"
            )
            malformed[name, version] = Plugin(name, "entry_points.txt", name, version, problem)
    return found, list(malformed.values())


def load_plugins() -> None:
    """Import all plugins; :class:`~hilc.errors.InputError` for the first that cannot be.

    What a plugin asks for while it is imported is found among those that were before it.
    """
    for plugin in () if _importing else plugins():
        if plugin.problem is not None:
            from hil.errors import InputError

            text = plugin.problem_text()
            if not isinstance(plugin.problem, _EntryError):
                text = f"importing {plugin.target} raised {text}"
            raise InputError(
                f"the plugin {plugin.name!r} cannot be loaded: {text}", plugin.remedy
            ) from plugin.problem


def registered(kind: str, name: str, known: Mapping[str, T]) -> T:
    """Return the part of this name, such as a runner, from what is registered of its kind; plugins
    are imported where none is known yet.

    Raise :class:`~hilc.errors.InputError` for an unknown name.
    """
    if name not in known:
        load_plugins()
    if name not in known:
        from hil.errors import InputError
        from hilc.support.suggest import listed, nearest

        raise InputError(
            f"unknown {kind} {name!r}{nearest(name, known)}",
            f"choose {listed(list(known), 'or')}; plugins may add others: hil doctor",
        )
    return known[name]


def _imported(entry: EntryPoint) -> Plugin:
    problem: Exception | None = None
    _importing.append(entry)
    try:
        if not _NAME.fullmatch(entry.name):
            raise _EntryError(
                f"its entry point has the invalid name {entry.name!r}; names have letters, digits "
                "and _ . -"
            )
        found = entry.load()
        if callable(found):
            found()
        elif not isinstance(found, ModuleType):
            raise _EntryError(
                f"its entry point {entry.value!r} is of type {type(found).__name__}; it must be a "
                "module, or a function of one"
            )
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever somebody else's code does
        problem = error if isinstance(error, Exception) else _as_exception(error)
    finally:
        _importing.pop()
    return _plugin(entry, problem)


def _plugin(entry: EntryPoint, problem: Exception | None) -> Plugin:
    # An entry point that was made by hand has no distribution.
    source = getattr(entry, "dist", None)
    name, version = (source.name, source.version) if source is not None else ("", "")
    return Plugin(entry.name, entry.value, name, version, problem)


def _as_exception(error: BaseException) -> Exception:
    """Return an exception for one that is not to end the program."""
    said = RuntimeError(f"it raises {type(error).__name__} ({error})")
    return said.with_traceback(error.__traceback__)


# Errors of what plugins registered ---------------------------------------------------------------


def is_own(function: object) -> bool:
    """Return whether a registered function is from this project."""
    from hilc.support.registering import module_of

    return module_of(function).partition(".")[0] in _OWN


@contextmanager
def attributed_to(function: object, what: str) -> Iterator[None]:
    """Turn an exception of ``function``, a plugin's, into an InputError that names its source.

    The errors of this project pass.
    """
    from hil.errors import HilError
    from hilc.support.registering import module_of

    try:
        yield
    except HilError:
        raise
    except (Exception, SystemExit) as error:
        package = module_of(function).partition(".")[0]
        raise plugin_error(function, f"{what} raised {_in_one_line(error, package)}") from error


def plugin_error(function: object, fact: str) -> InputError:
    """Return the error for a fault of a registered function: the fact and the plugin, a remedy."""
    from hil.errors import InputError
    from hilc.support.registering import module_of

    module = module_of(function)
    for plugin in plugins():
        if plugin.package == module.partition(".")[0]:
            whose = f"the plugin {plugin.name!r} ({module})"
            return InputError(f"{fact}; it comes from {whose}", plugin.remedy)
    return InputError(f"{fact}; it comes from the module {module}", f"repair {module}")


def plugin_error_from(error: BaseException) -> InputError | None:
    """Return the error for an exception that a plugin's code raised; None where it did not."""
    from hil.errors import InputError

    known = (*plugins(), *plugin_commands().values())
    packages = {plugin.package: plugin for plugin in known if plugin.package not in _OWN}
    modules = [module for module, _ in _calls(error) if module.partition(".")[0] in packages]
    if not modules:
        return None
    blamed = packages[modules[-1].partition(".")[0]]
    text = _in_one_line(error, blamed.package)
    return InputError(f"the plugin {blamed.name!r} ({modules[-1]}) raised {text}", blamed.remedy)


def _calls(error: BaseException) -> Iterator[tuple[str, str]]:
    """Yield module and ``FILE:LINE`` of each call that an exception ended, the outermost first.

    A generator that an exception passed through, as that of a context manager, called nothing.
    """
    trace = error.__traceback__
    while trace is not None:
        following = trace.tb_next
        if following is None or following.tb_frame.f_back in (trace.tb_frame, None):
            frame = trace.tb_frame
            name = str(frame.f_globals.get("__name__", ""))
            yield name, f"{frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = following


def _in_one_line(error: BaseException, package: str) -> str:
    """Return an exception in one line, with the place in ``package`` that it comes from."""
    # The errors of this project have a fact of one line.
    text = getattr(error, "fact", None) or " ".join(str(error).split())
    if isinstance(error, _EntryError):
        return text
    places = [place for module, place in _calls(error) if module.partition(".")[0] == package]
    if isinstance(error, SyntaxError) and error.filename:
        text, places = error.msg, [f"{error.filename}:{error.lineno}"]
    return f"{type(error).__name__}: {text}" + (f" ({places[-1]})" if places else "")
