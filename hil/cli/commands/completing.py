"""Completion of the command line by shells: ``hil completion`` and what its scripts ask."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from hil.cli.console import Console

#: Gives the words that an argument can be.
Words = Callable[[], Iterable[str]]


def completion_command(args: argparse.Namespace, console: Console) -> int:
    """Return the script that teaches a shell to complete ``hil``."""
    # Not at the top: most of argcomplete is for the process that completes.
    from argcomplete.shell_integration import shellcode

    script = shellcode(["hil"], shell=args.shell)
    console.result({"shell": args.shell, "script": script}, script.strip())
    return 0


def complete(parser: argparse.ArgumentParser) -> None:
    """Answers the shell's script with what ``parser`` takes, and ends the process."""
    import argcomplete

    argcomplete.autocomplete(parser, always_complete_options="long")


def completed_by(action: argparse.Action, words: Words) -> argparse.Action:
    """Return ``action``, whose values a shell completes with ``words()``."""

    def completer(**_: Any) -> Iterable[str]:
        return words()

    action.completer = completer  # type: ignore[attr-defined]
    return action


def boards() -> list[str]:
    """Return the names that ``--board`` takes."""
    from hil.board import board_names, own_board_names

    return [*board_names(), *own_board_names()]


def cores() -> tuple[str, ...]:
    """Return the names that ``--cpu`` takes."""
    from hilc.target import cpu_names

    return cpu_names()
