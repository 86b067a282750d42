"""The way of a command's results into the history."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from hil.cli.console import Console
from hil.errors import InputError
from hil.history import History, history_path
from hil.history.store import Kind
from hil.results.codec import encode


def history_of(args: argparse.Namespace) -> History | None:
    """Return the history that the command records in, if any; raise if it cannot be written.

    To be called before the work whose result it will hold.
    """
    if args.no_history:
        if args.history:
            raise InputError("--history and --no-history are both given", "give one of them")
        return None
    path = history_path(args.history)
    if path is None:
        return None
    history = History(path)
    history.check_writable()
    return history


def record(
    history: History | None,
    kind: Kind,
    entries: Sequence[Any],
    console: Console,
    label: str = "",
) -> None:
    """Add a command's entries (:mod:`hil.results`) to the history, if there is one; ``label`` names
    their source if there are several.
    """
    if history is None or not entries:
        return
    numbers = [history.record(kind, encode(entry)) for entry in entries]
    noun = "entry" if len(numbers) == 1 else "entries"
    at = f"{label}: " if label else ""
    console.log(f"{at}{noun} {', '.join(map(str, numbers))} of the history {history.path}")
