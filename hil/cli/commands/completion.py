"""``hil completion``: print the script that completes ``hil`` in a shell."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.parser import Parser

if TYPE_CHECKING:
    from hil.cli.console import Console


_SHELL = "bash, zsh or fish; load it where the shell starts (~/.bashrc, config.fish)"


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help=_SHELL)


def run(args: argparse.Namespace, console: Console) -> int:
    """Print the completion script of a shell."""
    # Not at the top: only the completing process needs most of argcomplete.
    from argcomplete.shell_integration import shellcode

    from hil.results.boards import CompletionEntry

    script = shellcode(["hil"], shell=args.shell)
    console.result(CompletionEntry(args.shell, script), script.strip())
    return 0


COMMAND = Command(
    "Print the script that completes `hil` in a shell: source <(hil completion bash)",
    add_options,
    run,
    uses_plugins=False,
)
