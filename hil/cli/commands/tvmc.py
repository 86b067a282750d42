"""``hil tvmc``: tvmc's commands, of an optional component."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from hil.cli.command import Command
from hil.cli.parser import Parser
from hil.plugins import optional_module

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Accept any words: the error says that the component is absent."""
    parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(args: argparse.Namespace, console: Console) -> int:
    """Raise InputError: the component is not installed."""
    from hil.errors import InputError

    console.command = ""  # its commands are those of the component
    raise InputError(
        "hil tvmc is part of hil.compat.tvm (compatibility with microTVM), which is not installed",
        "install the whole distribution (pip install --force-reinstall hil-harness), or use "
        "hil compile, hil build and hil run",
    )


class _Tvmc:
    """The commands of tvmc, or the error of their absence."""

    @property
    def summary(self) -> str:
        """One sentence, which help shows."""
        module = optional_module("hil.compat.tvm.tvmc_parser")
        return str(module.SUMMARY) if module is not None else _ABSENT.summary

    def add(self, commands: Any, name: str) -> None:
        """Add the component's parser, whose flags come from the compiler."""
        module = optional_module("hil.compat.tvm.tvmc_parser")
        if module is not None:
            module.add_tvmc(commands)
        else:
            _ABSENT.add(commands, name)


_ABSENT = Command("tvmc's commands; not part of this installation.", add_options, run)
COMMAND = _Tvmc()
