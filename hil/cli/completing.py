"""Shell completion: the words of arguments, and the requests of a shell's script."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

#: Returns the words that an argument accepts.
Words = Callable[[], Iterable[str]]


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
    """Return the names that ``hil export --build-system`` accepts."""
    from hil.export.registry import export_formats

    return export_formats()
