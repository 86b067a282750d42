"""``hil flash``, ``hil erase``, ``hil reset``, ``hil debug``: commands of the debug probe."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

from hil.board import Board, load_board
from hil.cli.commands.options import board_of, compiled_for
from hil.cli.console import Console
from hil.cli.render import flashed_text, recovery_lines
from hil.device.deploy import deploy
from hil.errors import DeviceError, InputError
from hil.firmware.build import build
from hil.probe import flash
from hil.results.boards import DebugEntry, ErasedRegion, EraseEntry, FlashEntry, ResetEntry
from hil.runners import Choice, check_ready
from hil.runners.debug import parse_address, serve

_ELF_MAGIC = b"\x7fELF"
_POLL_S = 0.2
#: A core without a valid image locks up within this time after a reset.
_RESET_LOOK_S = 0.1


def flash_command(args: argparse.Namespace, console: Console) -> int:
    """Program a board, verify the flash, reset, and check the firmware's build id."""
    board = _require_probe(board_of(args))
    elf = _image(args, board, console)
    choice = Choice(args.probe, args.port, erase_to_unlock=args.erase_to_unlock)
    entry = flash_image(board, elf, choice, console)
    lines = [f"{board.name}: {entry.text}"]
    if entry.build_id is None:
        lines.append(f"{elf} is not a firmware of hil: started, build id not checked")
    else:
        lines.append(f"runs build {entry.build_id}")
    console.result(entry, "\n".join(lines))
    return 0


def flash_image(board: Board, elf: Path, choice: Choice, console: Console) -> FlashEntry:
    """Program ``elf`` and check that it runs; return the entry of ``hil flash``."""
    with console.part_done(f"programming {board.name}") as progress:
        done = deploy(board, elf, replace(choice, progress=progress))
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


def _image(args: argparse.Namespace, board: Board, console: Console) -> Path:
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


def erase_command(args: argparse.Namespace, console: Console) -> int:
    """Erase the whole flash of a board."""
    from hil.runners.pyocd import reached

    board = _require_probe(load_board(args.board))
    start = time.monotonic()
    with (
        reached(board, Choice(args.probe)) as chosen,
        flash.connected(board, chosen.uid, erase_to_unlock=args.erase_to_unlock) as session,
    ):
        regions = flash.erase(session)
    seconds = time.monotonic() - start
    nbytes = sum(size for _, size in regions)
    places = ", ".join(f"{start:#010x} to {start + size - 1:#010x}" for start, size in regions)
    console.result(
        EraseEntry(
            board=board.name,
            probe=chosen.uid,
            bytes=nbytes,
            regions=tuple(ErasedRegion(start, size) for start, size in regions),
            seconds=round(seconds, 3),
        ),
        f"{board.name}: erased {nbytes:,} bytes of flash in {seconds:.1f} s: {places}",
    )
    return 0


def reset_command(args: argparse.Namespace, console: Console) -> int:
    """Reset a board through its probe; report the state of the core afterwards."""
    from hil.runners.pyocd import reached

    board = _require_probe(load_board(args.board))
    with (
        reached(board, Choice(args.probe)) as chosen,
        flash.connected(board, chosen.uid, connect_mode="attach") as session,
    ):
        session.target.reset()
        time.sleep(_RESET_LOOK_S)
        state = session.target.get_state()
        if state is session.target.State.LOCKUP:
            raise DeviceError(
                f"{board.name} locked up after the reset: it has no valid image",
                f"program one: hil flash MODEL --board {board.name}",
            )
    name = state.name.lower()
    console.result(
        ResetEntry(board.name, chosen.uid, name),
        f"{board.name}: reset, {name}",
    )
    return 0


def _require_probe(board: Board) -> Board:
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


def debug_command(args: argparse.Namespace, console: Console) -> int:
    """Serve gdb on a board until Ctrl-C."""
    listen = parse_address(args.listen) if args.listen else None
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
        with serve(board, elf, args.runner, choice, listen) as server:
            lines = [f"halted before the first instruction; connect with\n\n  {server.command}\n"]
            if server.url is not None:
                doubt = "" if server.is_proven else "; not proven to be this board's"
                lines.append(
                    f"serial line: {server.url} (active while gdb lets the board run{doubt})"
                )
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
