"""``hil flash``: program a board, and check the firmware."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.options import (
    add_board,
    add_code_options,
    add_compile_options,
    add_erase_to_unlock,
    add_models,
    add_port,
    add_probe,
)
from hil.cli.parser import Parser

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    add_models(parser, "or the ELF file of an image")
    board = add_board(parser)
    add_probe(board)
    add_port(board, "the board's serial port, if not the probe's own")
    add_erase_to_unlock(board)
    add_code_options(parser)
    add_compile_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Program a board, verify the flash, reset, and check the firmware's build id."""
    # Not at the top: it loads the compiler.
    from hil.cli.arguments import board_of
    from hil.cli.images import flash_image, image_of, require_probe
    from hil.runners import Choice

    board = require_probe(board_of(args))
    elf = image_of(args, board, console)
    choice = Choice(args.probe, args.port, erase_to_unlock=args.erase_to_unlock)
    data = flash_image(board, elf, choice, console)
    lines = [f"{board.name}: {data['text']}"]
    if data["build_id"] is None:
        lines.append(f"{elf} is not a firmware of hil: started, build id not checked")
    else:
        lines.append(f"runs build {data['build_id']}")
    console.result(data, "\n".join(lines))
    return 0


COMMAND = Command(
    "Program a board, verify, reset, and check the firmware.",
    add_options,
    run,
)
