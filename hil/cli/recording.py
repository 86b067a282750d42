"""Provenance of a command's results, and their way into the history."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hil.access import Connection
from hil.board import Board
from hil.cli.arguments import compile_options
from hil.cli.console import Console
from hil.device import Device
from hil.device.session import runner_label
from hil.errors import InputError
from hil.history import History, history_path
from hil.history.store import Kind
from hil.results.codec import encode
from hil.results.parts import Provenance
from hil.verify.provenance import provenance
from hil.verify.samples import Sample
from hilc.artifact.library import ModelLibrary, Module


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


def record(history: History | None, kind: Kind, entries: Sequence[Any], console: Console) -> None:
    """Add a command's entries (:mod:`hil.results`) to the history, if there is one."""
    if history is None:
        return
    numbers = [history.record(kind, encode(entry)) for entry in entries]
    noun = "entry" if len(numbers) == 1 else "entries"
    console.log(f"{noun} {', '.join(map(str, numbers))} of the history {history.path}")


@contextmanager
def recorded(
    history: History | None, kind: Kind, entries: Sequence[Any], console: Console
) -> Iterator[None]:
    """Show results, then record them: also where the reader of the output has gone away."""
    try:
        yield
    finally:
        record(history, kind, entries, console)


def provenance_of(
    args: argparse.Namespace,
    board: Board,
    device: Device,
    library: ModelLibrary,
    module: Module,
    samples: Iterable[Sample],
) -> Provenance:
    """Return the provenance of the command's result for one model."""
    assert device.firmware is not None, "a command with models builds their firmware"
    return provenance(
        device,
        device.firmware,
        library,
        module,
        samples,
        runner=runner_label(
            board, args.runner, Connection(args.probe, args.port, board.is_over_rtt), args.lab
        ),
        options=compile_options(args, board, for_firmware=True).chosen,
        words=args.words,
    )
