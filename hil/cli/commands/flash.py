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
    add_flasher,
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
    add_flasher(board)
    add_erase_to_unlock(board)
    add_code_options(parser)
    add_compile_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Program a board, verify the flash, reset, and check the firmware's build id."""
    # Not at the top: it loads the compiler.
    from hil.access import Connection, chosen_flasher
    from hil.cli.arguments import board_of
    from hil.cli.images import flash_image, image_of

    board, flasher = chosen_flasher(board_of(args), args.flasher)
    connection = Connection(
        args.probe,
        args.port,
        appear_s=args.wait or 0.0,
        erase_to_unlock=args.erase_to_unlock,
    )
    # The board that is found before the build is the one that is programmed after it.
    connection, elf = image_of(args, board, flasher.name, connection, console)
    entry = flash_image(board, elf, connection, console, flasher.name)
    lines = [f"{board.name}: {entry.text}"]
    if entry.build_id is None:
        lines.append(f"{elf} is not a firmware of hil: started, build id not checked")
    else:
        lines.append(f"runs build {entry.build_id}")
    console.result(entry, "\n".join(lines))
    return 0


COMMAND = Command(
    "Program a board, verify, reset, and check the firmware.",
    add_options,
    run,
)
