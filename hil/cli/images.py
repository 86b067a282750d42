"""Firmware images of the commands that use a debug probe: built or given, programmed."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from hil.board import Board
from hil.cli.arguments import compiled_for
from hil.cli.console import Console
from hil.cli.render import flashed_text, recovery_lines
from hil.device.deploy import deploy
from hil.errors import InputError
from hil.firmware.build import build
from hil.runners import Choice, check_ready

_ELF_MAGIC = b"\x7fELF"


def flash_image(board: Board, elf: Path, choice: Choice, console: Console) -> dict[str, Any]:
    """Program ``elf`` and check that it runs; return a report in the form of the JSON output."""
    with console.part_done(f"programming {board.name}") as progress:
        done = deploy(board, elf, replace(choice, progress=progress))
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


def image_of(args: argparse.Namespace, board: Board, console: Console) -> Path:
    """Return the given ELF file, or build an image of the given models."""
    elfs = [word for word in args.models if is_elf(Path(word))]
    if not elfs:
        _check_probe(args, board)
        libraries = compiled_for(args, board, console)
        return build(libraries, board, workspace=args.workspace).elf
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
    return Path(elfs[0])


def _check_probe(args: argparse.Namespace, board: Board) -> None:
    """Raise before the build if the debug probe is missing."""
    # QEMU has its own gdb server, so `hil debug` may run without a probe.
    runner = getattr(args, "runner", "pyocd") or ("pyocd" if args.probe else board.default_runner)
    if runner == "pyocd":
        check_ready(board, runner, Choice(args.probe, args.port, board.is_over_rtt))


def is_elf(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_ELF_MAGIC)) == _ELF_MAGIC


def require_probe(board: Board) -> Board:
    """Return ``board``; raise if it can have no debug probe."""
    if "pyocd" not in board.runners:
        kind = "this machine" if board.is_host else "emulated"
        raise InputError(
            f"board {board.name!r} has no runner 'pyocd', so no debug probe",
            f"the board is {kind}: `hil run MODEL --board {board.name}` starts it"
            if board.is_host or board.qemu or board.renode
            else "add a [pyocd] table to its description, or choose another board",
        )
    return board
