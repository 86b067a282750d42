"""``hil flash``, ``hil erase``, ``hil reset``, ``hil debug``: a board and its debug probe."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from hil.board import Board, load_board
from hil.cli.commands.options import board_of, compiled_for
from hil.cli.console import Console
from hil.cli.render import flashed_text
from hil.device.deploy import deploy
from hil.errors import DeviceError, InputError
from hil.firmware.build import build
from hil.probe import flash
from hil.runners import Choice, check_ready
from hil.runners.debug import serve

_ELF_MAGIC = b"\x7fELF"
_POLL_S = 0.2
#: Long enough for a firmware that cannot run to be where it stays.
_RESET_LOOK_S = 0.1


def flash_command(args: argparse.Namespace, console: Console) -> int:
    """Return a firmware onto a board: programmed, read back, reset, and asked who it is."""
    board = board_of(args)
    elf = _image(args, board, console)
    data = flash_image(board, elf, args.probe, args.port, console)
    lines = [f"{board.name}: {data['text']}"]
    if data["build_id"] is None:
        lines.append(f"{elf} is none of this project's firmwares: started, and not asked anything")
    else:
        lines.append(f"runs build {data['build_id']}")
    console.result(data, "\n".join(lines))
    return 0


def flash_image(
    board: Board, elf: Path, probe: str | None, port: str | None, console: Console
) -> dict[str, Any]:
    """Program ``elf`` and check that it runs; return a report in the form of the JSON output."""
    with console.part_done(f"programming {board.name}") as progress:
        done = deploy(board, elf, Choice(probe, port, progress=progress))
    return {
        "board": board.name,
        "elf": str(elf),
        "programmed": done.flashed.programmed,
        "bytes": done.flashed.nbytes,
        "seconds": round(done.flashed.seconds, 3),
        "build_id": done.hello.build_id if done.hello else None,
        "text": flashed_text(done.flashed),
    }


def _image(args: argparse.Namespace, board: Board, console: Console) -> Path:
    """Return the image that the words name: an ELF file as it is, or models, which are built."""
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
            f"{elfs[0]} is a firmware image, to which --include-dir and --source do not apply",
            "give the models that it was built from",
        )
    return Path(elfs[0])


def _check_probe(args: argparse.Namespace, board: Board) -> None:
    """Raise before anything is built where the probe is missing that the image needs."""
    # A gdb server may do without: QEMU has one of its own.
    runner = getattr(args, "runner", "pyocd") or ("pyocd" if args.probe else board.default_runner)
    if runner == "pyocd":
        check_ready(board, runner, Choice(args.probe, args.port, board.is_over_rtt))


def is_elf(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_ELF_MAGIC)) == _ELF_MAGIC


def erase_command(args: argparse.Namespace, console: Console) -> int:
    """Return the whole flash of a board."""
    from hil.runners.pyocd import reached

    board = _with_probe(args)
    start = time.monotonic()
    with (
        reached(board, args.probe) as chosen,
        flash.connected(board, chosen.uid) as session,
    ):
        nbytes = flash.erase(session)
    seconds = time.monotonic() - start
    console.result(
        {
            "board": board.name,
            "probe": chosen.uid,
            "bytes": nbytes,
            "seconds": round(seconds, 3),
        },
        f"{board.name}: erased {nbytes:,} bytes of flash in {seconds:.1f} s",
    )
    return 0


def reset_command(args: argparse.Namespace, console: Console) -> int:
    """Return a board from the start, whatever it does."""
    from hil.runners.pyocd import reached

    board = _with_probe(args)
    with (
        reached(board, args.probe) as chosen,
        flash.connected(board, chosen.uid, connect_mode="attach") as session,
    ):
        session.target.reset()
        time.sleep(_RESET_LOOK_S)
        state = session.target.get_state()
        if state is session.target.State.LOCKUP:
            raise DeviceError(
                f"{board.name} was reset and locked up: it has no image that can run",
                f"program one: hil flash MODEL --board {board.name}",
            )
    name = state.name.lower()
    console.result(
        {"board": board.name, "probe": chosen.uid, "state": name},
        f"{board.name}: reset, {name}",
    )
    return 0


def _with_probe(args: argparse.Namespace) -> Board:
    board = load_board(args.board)
    if "pyocd" not in board.runners:
        raise InputError(
            f"board {board.name!r} has no runner 'pyocd', so no debug probe",
            "add a [pyocd] table to its description, or choose another board",
        )
    return board


def debug_command(args: argparse.Namespace, console: Console) -> int:
    """Return a gdb server on a board, until Ctrl-C."""
    board = board_of(args)
    elf = _image(args, board, console)
    with console.part_done(f"programming {board.name}") as progress:
        choice = Choice(
            args.probe,
            args.port,
            board.is_over_rtt,
            progress,
            lambda done: console.log(f"{board.name}: {flashed_text(done)}"),
        )
        with serve(board, elf, args.runner, choice) as server:
            lines = [f"halted before the first instruction; connect with\n\n  {server.command}\n"]
            if server.url is not None:
                lines.append(f"serial line: {server.url} (when gdb lets the board run)")
            lines.append("Ctrl-C ends the server")
            console.result(
                {
                    "board": board.name,
                    "elf": str(elf),
                    "gdb_port": server.port,
                    "gdb": server.command,
                    "serial": server.url,
                },
                "\n".join(lines),
            )
            while True:
                server.alive()
                time.sleep(_POLL_S)
