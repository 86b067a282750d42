"""``hil flash``, ``hil erase``, ``hil reset``, ``hil debug``: commands of a board's flasher."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from hil.access import (
    Connection,
    Flasher,
    FlasherSession,
    check_installed,
    check_ready,
    chosen_flasher,
    flashers,
    require,
)
from hil.access.debug import debugger_of, parse_address, serve
from hil.access.hardware import reached
from hil.board import Board, load_board
from hil.cli.commands.options import board_of, compiled_for
from hil.cli.console import Console
from hil.cli.render import flashed_text, recovery_lines
from hil.device.deploy import deploy
from hil.errors import InputError
from hil.firmware.build import build

_ELF_MAGIC = b"\x7fELF"
_POLL_S = 0.2


def flash_command(args: argparse.Namespace, console: Console) -> int:
    """Program a board, verify the flash, reset, and check the firmware's build id."""
    board, flasher = chosen_flasher(board_of(args), args.flasher)
    connection = Connection(args.probe, args.port, erase_to_unlock=args.erase_to_unlock)
    # The board that is found before the build is the one that is programmed after it.
    connection, elf = _image(args, board, flasher.name, connection, console)
    data = flash_image(board, elf, connection, console, flasher.name)
    lines = [f"{board.name}: {data['text']}"]
    if data["build_id"] is None:
        lines.append(f"{elf} is not a firmware of hil: started, build id not checked")
    else:
        lines.append(f"runs build {data['build_id']}")
    console.result(data, "\n".join(lines))
    return 0


def flash_image(
    board: Board,
    elf: Path,
    connection: Connection,
    console: Console,
    flasher: str | None = None,
) -> dict[str, Any]:
    """Program ``elf`` and check that it runs; return a report in the form of the JSON output.

    ``flasher`` is the name of one of the board's flashers, by default its first.
    """
    with console.part_done(f"programming {board.name}") as progress:
        done = deploy(board, elf, replace(connection, progress=progress), flasher)
    return {
        "board": board.name,
        "elf": str(elf),
        "programmed": done.flashed.programmed,
        "bytes": done.flashed.nbytes,
        "seconds": round(done.flashed.seconds, 3),
        "build_id": done.hello.build_id if done.hello else None,
        "recoveries": [attempt.to_json() for attempt in done.recoveries],
        "text": "\n".join([flashed_text(done.flashed), *recovery_lines(done.recoveries)]),
    }


def _image(
    args: argparse.Namespace,
    board: Board,
    runner: str | None,
    connection: Connection,
    console: Console,
) -> tuple[Connection, Path]:
    """Return the given ELF file, or build an image of the given models; raise before the build if
    the runner or its probe is missing.

    The connection is pinned to the probe that was found before a build.
    """
    elfs = [word for word in args.models if is_elf(Path(word))]
    if not elfs:
        checked = replace(connection, rtt=board.is_over_rtt)
        connection = replace(connection, uid=check_ready(board, runner, checked).uid)
        libraries = compiled_for(args, board, console)
        return connection, build(libraries, board, workspace=args.workspace).elf
    if len(args.models) > 1:
        raise InputError(
            f"{elfs[0]} is a firmware image, and {len(args.models)} files are given",
            "give one ELF file, or models",
        )
    if args.include_dir or args.source:
        raise InputError(
            f"{elfs[0]} is a firmware image: --include-dir and --source do not apply to it",
            "give the models that it was built from",
        )
    return connection, Path(elfs[0])


def is_elf(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_ELF_MAGIC)) == _ELF_MAGIC


def erase_command(args: argparse.Namespace, console: Console) -> int:
    """Erase the whole flash of a board."""
    board, flasher = chosen_flasher(load_board(args.board), args.flasher)
    require(flasher, "erase", flashers())
    connection = Connection(args.probe, args.port, erase_to_unlock=args.erase_to_unlock)
    start = time.monotonic()
    with _session(flasher, board, connection) as (uid, session):
        regions = session.erase()
    seconds = time.monotonic() - start
    nbytes = sum(size for _, size in regions)
    places = ", ".join(f"{start:#010x} to {start + size - 1:#010x}" for start, size in regions)
    console.result(
        {
            "board": board.name,
            "probe": uid,
            "bytes": nbytes,
            "regions": [{"origin": start, "size": size} for start, size in regions],
            "seconds": round(seconds, 3),
        },
        f"{board.name}: erased {nbytes:,} bytes of flash in {seconds:.1f} s: {places}",
    )
    return 0


def reset_command(args: argparse.Namespace, console: Console) -> int:
    """Reset a board through its flasher; report the state of the core afterwards."""
    board, flasher = chosen_flasher(load_board(args.board), args.flasher)
    connection = Connection(args.probe, args.port)
    with _session(flasher, board, connection, attach=True) as (uid, session):
        state = session.reset()
    console.result(
        {"board": board.name, "probe": uid, "state": state}, f"{board.name}: reset, {state}"
    )
    return 0


@contextmanager
def _session(
    flasher: Flasher, board: Board, connection: Connection, *, attach: bool = False
) -> Iterator[tuple[str, FlasherSession]]:
    """Yield the unique id of the chosen probe, or the port, and a session on the board there."""
    check_installed(flasher, board)
    with (
        reached(flasher, board, connection) as chosen,
        flasher.open(board, chosen.uid, connection, attach=attach) as session,
    ):
        yield chosen.uid, session


def debug_command(args: argparse.Namespace, console: Console) -> int:
    """Serve gdb on a board until Ctrl-C."""
    listen = parse_address(args.listen) if args.listen else None
    board = board_of(args)
    connection = Connection(
        args.probe,
        args.port,
        board.is_over_rtt,
        flashed=lambda done: console.log(f"{board.name}: {flashed_text(done)}"),
    )
    debugger_of(board, args.runner, connection)
    connection, elf = _image(args, board, args.runner, connection, console)
    with console.part_done(f"programming {board.name}") as progress:
        connection = replace(connection, progress=progress)
        with serve(board, elf, args.runner, connection, listen) as server:
            lines = [f"halted before the first instruction; connect with\n\n  {server.command}\n"]
            if server.url is not None:
                doubt = "" if server.is_proven else "; not proven to be this board's"
                lines.append(
                    f"serial line: {server.url} (active while gdb lets the board run{doubt})"
                )
            lines.append("Ctrl-C ends the server")
            console.result(
                {
                    "board": board.name,
                    "elf": str(elf),
                    "gdb_address": server.address,
                    "gdb": server.command,
                    "serial": server.url,
                    "serial_proven": server.is_proven and server.url is not None,
                },
                "\n".join(lines),
            )
            while True:
                server.alive()
                time.sleep(_POLL_S)
