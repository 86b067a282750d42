"""Shell completion: ``hil completion`` and the requests of its scripts."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from hil.cli.console import Console
from hil.results.boards import CompletionEntry

#: Returns the words that an argument accepts.
Words = Callable[[], Iterable[str]]


def completion_command(args: argparse.Namespace, console: Console) -> int:
    """Print the completion script of a shell."""
    # Not at the top: only the completing process needs most of argcomplete.
    from argcomplete.shell_integration import shellcode

    script = shellcode(["hil"], shell=args.shell)
    console.result(CompletionEntry(args.shell, script), script.strip())
    return 0


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer a completion request of the shell's script for ``parser``, and end the process."""
    import argcomplete

    argcomplete.autocomplete(parser, always_complete_options="long")


def completed_by(action: argparse.Action, words: Words) -> argparse.Action:
    """Return ``action`` with shell completion of its values by ``words()``."""

    def completer(**_: Any) -> Iterable[str]:
        return words()

    action.completer = completer  # type: ignore[attr-defined]
    return action


def boards() -> list[str]:
    """Return the names that ``--board`` accepts."""
    from hil.board import board_names, own_board_names

    return [*board_names(), *own_board_names()]


def cores() -> tuple[str, ...]:
    """Return the names that ``--cpu`` accepts."""
    from hilc.target import cpu_names

    return cpu_names()


def exports() -> tuple[str, ...]:
    """Return the names that ``hil export --format`` accepts."""
    from hil.export.registry import export_formats

    return export_formats()
