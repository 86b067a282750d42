"""A command of ``hil``: its summary, its options, and the function that runs it.

A command is one module of :mod:`hil.cli.commands`, named as the command, or what an entry point of
the group ``hil.commands`` names; its ``COMMAND`` is one of the classes here. `hil --help` imports
all of them, so they must not load the compiler: a command's function imports what it needs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from hil.cli.parser import Parser

if TYPE_CHECKING:
    from hil.cli.console import Console

#: Runs a command: ``(arguments, console) -> exit code``.
Run = Callable[[argparse.Namespace, "Console"], int]


class AnyCommand(Protocol):
    """What can be added to the command line."""

    @property
    def summary(self) -> str:
        """One sentence, which help shows."""
        ...

    def add(self, commands: Any, name: str) -> None:
        """Add the parser ``name`` to ``commands``."""
        ...


@dataclass(frozen=True)
class Command:
    """A command with options."""

    #: One sentence, which help shows.
    summary: str
    #: Adds the options to the command's parser.
    add_options: Callable[[Parser], None]
    #: Runs the command; a function at the top of a module.
    run: Run
    #: Whether plug-ins are loaded before it runs.
    uses_plugins: bool = True
    #: Whether it answers on stdout, as text or JSON.
    answers: bool = True

    def add(self, commands: Any, name: str) -> None:
        """Add the command ``name`` to ``commands``."""
        parser: Parser = commands.add_parser(name, help=self.summary, description=self.summary)
        self.add_options(parser)
        if self.answers:
            parser.add_output_options()
        if "--help-all" not in parser._option_string_actions:
            parser.add_help_all()
        handler = (self.run.__module__, self.run.__name__)
        parser.set_defaults(handler=handler, parser=parser, uses_plugins=self.uses_plugins)


@dataclass(frozen=True)
class CommandGroup:
    """Commands below a name: ``hil lab list``."""

    summary: str
    commands: Mapping[str, AnyCommand]

    def add(self, commands: Any, name: str) -> None:
        """Add the group ``name`` and its commands."""
        parser: Parser = commands.add_parser(name, help=self.summary, description=self.summary)
        own = parser.add_commands()
        for word, command in self.commands.items():
            command.add(own, word)
