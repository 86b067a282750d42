"""A command of a distribution of its own: ``hil count-models FOLDER``, and ``hil rig on``."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hil.cli.command import Command, CommandGroup
from hil.cli.parser import Parser

if TYPE_CHECKING:
    from hil.cli.console import Console


@dataclass(frozen=True)
class Counted:
    """The entry of the JSON answer."""

    folder: str
    models: int


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    parser.add_argument("folder", metavar="FOLDER", help="where the models are")
    parser.add_argument("--suffix", default=".tflite", metavar="S", help="default: .tflite")


def run(args: argparse.Namespace, console: Console) -> int:
    """Print the number of models."""
    # What takes long to load is imported here: `hil --help` imports this module.
    from hil.errors import InputError

    folder = Path(args.folder)
    if not folder.is_dir():
        raise InputError(f"{args.folder} is no folder", "name a folder with models")
    count = len(list(folder.glob(f"*{args.suffix}")))
    console.result(Counted(args.folder, count), f"{count} models in {args.folder}")
    return 0


def switch_on(args: argparse.Namespace, console: Console) -> int:
    """Raise what this project does not know."""
    raise KeyError("no rig")


COMMAND = Command("Count the models of a folder.", add_options, run)
GROUP = CommandGroup(
    "A rig of boards.", {"on": Command("Switch it on.", lambda _: None, switch_on)}
)
