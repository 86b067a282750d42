"""Firmware images of the commands that use a flasher: built or given, programmed."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from hil.access import Connection, Flasher, FlasherSession, check_installed, check_ready
from hil.access.hardware import reached
from hil.board import Board
from hil.cli.arguments import compiled_for
from hil.cli.console import Console
from hil.cli.render import flashed_text, recovery_lines
from hil.device.deploy import deploy
from hil.device.elf import is_elf
from hil.errors import InputError
from hil.firmware.build import build
from hil.results.boards import FlashEntry


def flash_image(
    board: Board,
    elf: Path,
    connection: Connection,
    console: Console,
    flasher: str | None = None,
) -> FlashEntry:
    """Program ``elf`` and check that it runs; return the entry of ``hil flash``."""
    with console.progress_fraction(f"programming {board.name}") as progress:
        done = deploy(board, elf, replace(connection, progress=progress), flasher)
    return FlashEntry(
        board=board.name,
        elf=str(elf),
        programmed=done.flashed.programmed,
        bytes=done.flashed.nbytes,
        seconds=round(done.flashed.seconds, 3),
        build_id=done.hello.build_id if done.hello else None,
        recoveries=tuple(done.recoveries),
        text="\n".join([flashed_text(done.flashed), *recovery_lines(done.recoveries)]),
    )


def image_of(
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


@contextmanager
def flasher_session(
    flasher: Flasher, board: Board, connection: Connection, *, attach: bool = False
) -> Iterator[tuple[str, FlasherSession]]:
    """Yield the unique id of the chosen probe, or the port, and a session on the board there."""
    check_installed(flasher, board)
    with (
        reached(flasher, board, connection) as chosen,
        flasher.open(board, chosen.uid, connection, attach=attach) as session,
    ):
        yield chosen.uid, session
