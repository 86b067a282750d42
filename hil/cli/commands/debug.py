"""``hil debug``: start a gdb server on a board."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.options import (
    add_board,
    add_code_options,
    add_compile_options,
    add_models,
    add_port,
    add_probe,
)
from hil.cli.parser import Parser

if TYPE_CHECKING:
    from hil.cli.console import Console


_POLL_S = 0.2


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    add_models(parser, "or the ELF file of an image")
    board = add_board(parser)
    add_probe(board)
    add_port(board, "the board's serial port, if not the probe's own")
    board.add_argument(
        "--runner",
        metavar="NAME[:KEY=VALUE]",
        help="the gdb server: an emulator or a flasher (default: the board's first)",
    )
    board.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="serve gdb on this TCP port, without access control (default: a socket in a "
        "folder of this user)",
    )
    add_code_options(parser)
    add_compile_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Serve gdb on a board until Ctrl-C."""
    # Not at the top: it loads the compiler.
    from hil.access import Connection
    from hil.access.debug import debugger_of, parse_address, serve
    from hil.cli.arguments import board_of
    from hil.cli.images import image_of
    from hil.cli.render import flashed_text
    from hil.results.boards import DebugEntry
    from hilc.support.packages import install_command

    listen = parse_address(args.listen) if args.listen else None
    board = board_of(args)
    connection = Connection(
        args.probe,
        args.port,
        board.is_over_rtt,
        flashed=lambda done: console.log(f"{board.name}: {flashed_text(done)}"),
        appear_s=args.wait or 0.0,
    )
    debugger_of(board, args.runner, connection)
    connection, elf = image_of(args, board, args.runner, connection, console)
    with console.progress_fraction(f"programming {board.name}") as progress:
        connection = replace(connection, progress=progress)
        with serve(board, elf, args.runner, connection, listen) as server:
            lines = [f"halted before the first instruction; connect with\n\n  {server.command}\n"]
            if server.url is not None:
                doubt = "" if server.is_proven else "; not proven to be this board's"
                lines.append(
                    f"serial line: {server.url} (active while gdb lets the board run{doubt})"
                )
            if missing := server.missing_debugger:
                console.warn(f"{missing} is not installed: {install_command(missing)}")
            lines.append("Ctrl-C ends the server")
            console.result(
                DebugEntry(
                    board=board.name,
                    elf=str(elf),
                    gdb_address=server.address,
                    gdb=server.command,
                    serial=server.url,
                    serial_proven=server.is_proven and server.url is not None,
                ),
                "\n".join(lines),
            )
            while True:
                server.alive()
                time.sleep(_POLL_S)


COMMAND = Command("Start a gdb server on a board; print the gdb command.", add_options, run)
