"""``hil tvmc``: tvmc's commands, of an optional component."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
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

    raise InputError(
        "hil tvmc is part of hil.compat.tvm (compatibility with microTVM), which is not installed",
        "install the whole distribution (pip install --force-reinstall hil-harness), or use "
        "hil compile, hil build and hil run",
    )


class _Tvmc:
    """The commands of tvmc; their flags come from the compiler, which takes a while to load."""

    def add(self, commands: Any, name: str, words: Sequence[str] | None) -> None:
        """Add the component's parser, or the error of its absence."""
        module = optional_module("hil.compat.tvm.tvmc_parser")
        if module is not None:
            module.add_tvmc(commands, flags=words is None or name in words)
            return
        absent = Command("tvmc's commands; not part of this installation.", add_options, run)
        absent.add(commands, name, words)


COMMAND = _Tvmc()
