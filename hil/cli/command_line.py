"""The whole command line: the commands, in the sections of the help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from hil.cli.command import AnyCommand, Command, CommandGroup
from hil.cli.parser import Parser, Version
from hil.plugins import Plugin, load_command, plugin_commands

#: The commands of this project by section of the help; each is a module of `hil.cli.commands`.
SECTIONS = {
    "models": ("quantize", "fit", "compile", "explain", "build", "export"),
    "models on boards": (
        "run",
        "verify",
        "evaluate",
        "bench",
        "tune",
        "mlperf",
        "flash",
        "debug",
        "monitor",
    ),
    "results": ("report", "history", "compare", "gate"),
    "boards": ("boards", "board", "erase", "reset", "power", "lab"),
    "this program": ("doctor", "help", "completion", "mcp", "tvmc"),
}


def build_parser(words: Sequence[str] | None = None) -> Parser:
    """Return the parser of the whole command line, or of the part that ``words`` need.

    Of the commands that ``words`` do not name, only the names are known then, and the summaries if
    they name none: modules and options take a while to load, and so do the flags of tvmc, which
    come from the compiler.
    """
    parser = Parser(
        prog="hil",
        description="Compile trained models for microcontrollers and check the results on a board.",
        epilog="`hil COMMAND --help` describes a command. Exit: 0 good, 1 outputs differ, "
        "2 bad input or usage, 3 build failed, 4 board or link failed, 130 interrupted.",
    )
    parser.add_argument("--version", action=Version, nargs=0, help="show the version and exit")
    parser.add_help_all()
    parser.set_defaults(json=False, format=None, quiet=False, verbose=0, uses_plugins=True)
    parser.sections = SECTIONS
    commands = parser.add_commands()
    known = [name for names in SECTIONS.values() for name in names]
    named = set(known).intersection(words or ())
    if words is not None and not named:
        # A look for distributions takes as long as all else here.
        _add_plugin_commands(parser, commands, words)
    for name in known:
        if words is None or name in named:
            _command(name).add(commands, name)
        else:
            commands.add_parser(name, help=None if named else _command(name).summary)
    return parser


def _add_plugin_commands(parser: Parser, commands: Any, words: Sequence[str]) -> None:
    """Add the commands of other distributions: those that ``words`` name, or their summaries."""
    found = {name: plugin for name, plugin in plugin_commands().items() if not _is_own(name)}
    if not found:
        return
    parser.sections = {**SECTIONS, "commands of plug-ins": tuple(found)}
    named = set(found).intersection(words)
    for name, plugin in found.items():
        if name in named:
            _loaded(plugin).add(commands, name)
        else:
            commands.add_parser(name, help=None if named else _summary(plugin))


def _is_own(name: str) -> bool:
    """Return whether ``name`` is a command of this project, which no plug-in replaces."""
    return any(name in names for names in SECTIONS.values())


def checked_commands() -> tuple[Plugin, ...]:
    """Return the commands of other distributions, each imported; a problem says why it failed."""
    return tuple(replace(plugin, problem=_problem(plugin)) for plugin in plugin_commands().values())


def _problem(plugin: Plugin) -> Exception | None:
    from hil.errors import InputError

    if _is_own(plugin.name):
        return InputError(f"hil has a command {plugin.name!r} of its own", plugin.remedy)
    try:
        _loaded(plugin)
    except Exception as error:
        return error
    return None


def _loaded(plugin: Plugin) -> AnyCommand:
    command = load_command(plugin)
    if isinstance(command, Command | CommandGroup):
        return command
    from hil.errors import InputError

    raise InputError(
        f"the entry point {plugin.target!r} of the command {plugin.name!r} is of type "
        f"{type(command).__name__}, not a Command or CommandGroup of hil.cli.command",
        plugin.remedy,
    )


def _summary(plugin: Plugin) -> str:
    """Return the summary of a command, or why there is none: help is there for all others."""
    try:
        return _loaded(plugin).summary
    except Exception as error:
        return f"CANNOT be loaded: {getattr(error, 'fact', error)}"


def _command(name: str) -> AnyCommand:
    """Return the command ``name`` of this project."""
    command: AnyCommand = import_module(f"hil.cli.commands.{name}").COMMAND
    return command
