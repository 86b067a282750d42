"""What ``hil boards --connected`` and ``hil board identify`` do."""

from __future__ import annotations

import argparse
from pathlib import Path

from hil.access.connected import Connected, connected
from hil.board import load_board
from hil.board.bench import (
    FILE,
    NAME,
    SUFFIX,
    Unit,
    bench_file,
    entry_text,
    parse_bench,
    read_bench,
)
from hil.cli.console import Console, table
from hil.errors import InputError
from hil.results.boards import ConnectedEntry, IdentifiedEntry
from hilc.support.outputs import cannot_write, write_file

_NOTHING = "nothing is plugged in that may be a board; `hil doctor` lists probes without permission"


def connected_command(args: argparse.Namespace, console: Console) -> int:
    """List what is plugged in."""
    if args.name is not None:
        raise InputError("--connected lists all that is plugged in", f"drop {args.name}")
    found = connected()
    console.result([_entry(each) for each in found], _text(found))
    return 0


def _entry(found: Connected) -> ConnectedEntry:
    return ConnectedEntry(
        name=found.name,
        usb_id=found.usb_id,
        usb_path=found.usb_path,
        probe=found.probe.uid if found.probe is not None else None,
        ports=found.ports,
        boards=found.boards,
        known_by=found.known_by,
        boot_loader=found.is_boot_loader,
        unit=found.unit or None,
        address=_address(found),
    )


def _address(found: Connected) -> str:
    """Return the options that choose a board."""
    if found.unit:
        return f"--board {found.unit}{SUFFIX}"
    board = found.boards[0] if len(found.boards) == 1 else "BOARD"
    if found.probe is not None:
        return f"--board {board} --probe {found.probe.uid}"
    return f"--board {board} --port {found.ports[0]}" if found.ports else ""


def _text(found: list[Connected]) -> str:
    if not found:
        return _NOTHING
    rows = [
        [
            each.name,
            each.usb_id,
            each.usb_path,
            _boards(each),
            " ".join(each.ports),
            _address(each),
        ]
        for each in found
    ]
    return table(rows, ["device", "USB id", "USB path", "board", "ports", "address"])


def _boards(found: Connected) -> str:
    if not found.boards:
        return "unknown"
    state = "boot loader, " if found.is_boot_loader else ""
    return f"{' or '.join(found.boards)} ({state}{found.known_by})"


def identify_command(args: argparse.Namespace, console: Console) -> int:
    """Add boards that are plugged in to the bench file."""
    path = Path(args.bench_file) if args.bench_file else bench_file() or Path(FILE)
    known = read_bench() if path.is_file() else {}
    new = [_stated(args, known, path)] if args.name else _recognized(known, path, console)
    if not new:
        console.result([], f"{path}: no board was added")
        return 0
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    parts = ([before.rstrip("\n") + "\n"] if before.strip() else []) + [entry_text(u) for u in new]
    text = "\n".join(parts)
    # A serial number of a device may contain anything: what cannot be read back is not written.
    parse_bench(path, text.encode())
    try:
        write_file(path, text)
    except OSError as error:
        raise InputError(cannot_write(path, error).fact, "name another: --bench FILE") from None
    entries = [IdentifiedEntry(u.name, u.board, u.probe, u.port, str(path)) for u in new]
    lines = [f"{u.spec}: {u.board}, {u.probe or u.port}" for u in new]
    console.result(entries, "\n".join([*lines, f"written to {path}; commit it"]))
    return 0


def _recognized(known: dict[str, Unit], path: Path, console: Console) -> list[Unit]:
    """Return an entry for each board that is plugged in, recognized, and not in the file."""
    new: list[Unit] = []
    for each in connected():
        if each.unit or (each.probe is None and not each.ports):
            continue
        if len(each.boards) != 1:
            what = " or ".join(each.boards) or "an unknown board"
            console.log(
                f"{each.name} is {what}; to add it: hil board identify NAME {_address(each)}"
            )
            continue
        taken = {*known, *(unit.name for unit in new)}
        new.append(_unit(_free_name(each.boards[0], taken), each.boards[0], each, path))
    return new


def _free_name(board: str, taken: set[str]) -> str:
    number = 1
    while f"{board}-{number}" in taken:
        number += 1
    return f"{board}-{number}"


def _unit(name: str, board: str, found: Connected, path: Path) -> Unit:
    probe = found.probe.uid if found.probe is not None else None
    # A probe with several ports: which is the board's line, is proven when it is used.
    port = found.ports[0] if len(found.ports) == 1 else None
    return Unit(name, path, board, probe, port)


def _stated(args: argparse.Namespace, known: dict[str, Unit], path: Path) -> Unit:
    """Return the entry that the options state, completed by what is plugged in."""
    if not NAME.fullmatch(args.name):
        raise InputError(f"{args.name!r} is not a name", "write letters, digits and . _ -")
    if args.name in known:
        raise InputError(f"{path} has a board {args.name!r}", "choose another name, or edit it")
    if args.board is None:
        raise InputError(f"the type of {args.name} is not given", "give it: --board B")
    load_board(args.board)
    if args.probe is None and args.port is None:
        fits = [each for each in connected() if args.board in each.boards and not each.unit]
        if len(fits) != 1:
            raise InputError(
                f"{len(fits)} boards that are plugged in may be {args.name}",
                "give --probe or --port; `hil boards --connected` lists them",
            )
        return _unit(args.name, args.board, fits[0], path)
    return Unit(args.name, path, args.board, args.probe, args.port)
