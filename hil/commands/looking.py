"""``hil boards``, ``hil doctor``, ``hil monitor``: look at what is there."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from serial.tools.list_ports import comports

from hil.board import Board, board_names, load_board
from hil.build import build
from hil.commands.options import compiled_for
from hil.console import Console, table
from hil.doctor import diagnose, self_test
from hil.errors import DeviceError, HilError, InputError
from hil.monitor import listen, open_line
from hil.runner import start


def boards_command(args: argparse.Namespace, console: Console) -> int:
    """The boards that ship with the project."""
    boards = [load_board(name) for name in board_names()]
    rows = [
        [
            board.name,
            board.cpu.name,
            _size(_memory_bytes(board, "flash")),
            _size(_memory_bytes(board, "ram")),
            " ".join(board.runners),
            board.description,
        ]
        for board in boards
    ]
    text = table(rows, ["board", "core", "flash", "RAM", "runners", "description"])
    console.result({"boards": [_board_json(board) for board in boards]}, text)
    return 0


def _board_json(board: Board) -> dict[str, Any]:
    return {
        "name": board.name,
        "description": board.description,
        "cpu": board.cpu.name,
        "clock_hz": board.clock_hz,
        "flash_bytes": _memory_bytes(board, "flash"),
        "ram_bytes": _memory_bytes(board, "ram"),
        "runners": list(board.runners),
        "default": board.is_default,
    }


def _memory_bytes(board: Board, kind: Literal["flash", "ram"]) -> int | None:
    """None for a process of this machine, which has no memory map."""
    return None if board.is_host else sum(region.size for region in board.regions(kind))


def _size(size: int | None) -> str:
    if size is None:
        return "-"
    return f"{size >> 20} MB" if size % (1 << 20) == 0 else f"{size >> 10} KB"


def doctor_command(args: argparse.Namespace, console: Console) -> int:
    """What is installed, and what is missing."""
    findings = diagnose()
    missing = [finding for finding in findings if finding.version is None]
    ports = [{"url": port.device, "description": port.description} for port in comports()]
    problem = None
    try:
        tested = self_test()
    except HilError as error:
        problem = tested = error.fact
    works = problem is None and not any(finding.tool.required for finding in missing)
    rows = [[f.tool.name, f.version or "MISSING", f.tool.purpose] for f in findings]
    lines = [table(rows, ["tool", "version", "for"]), ""]
    lines += [f"{f.tool.name} is missing: {f.tool.remedy}" for f in missing]
    lines += [f"serial port {port['url']}: {port['description']}" for port in ports]
    lines.append(f"self-test: {tested}")
    lines.append("emulated boards work" if works else "emulated boards do NOT work")
    data = {
        "ok": works,
        "tools": [finding.json() for finding in findings],
        "ports": ports,
        "self_test": {"ok": problem is None, "result": tested},
    }
    console.result(data, "\n".join(lines))
    return 0 if works else DeviceError.exit_code


@contextmanager
def _line(args: argparse.Namespace) -> Iterator[tuple[str, Callable[[], None]]]:
    """The serial line to listen to: that of a running board, or of a firmware started for it."""
    if args.port is not None:
        if args.models:
            raise InputError(
                "--port listens to a firmware that runs already, so it takes no MODEL", "drop one"
            )
        yield args.port, lambda: None
        return
    if args.board is None:
        raise InputError("nothing to listen to", "give --port URL, or --board B to start one")
    board = load_board(args.board)
    libraries = compiled_for(args, board)
    firmware = build(libraries, board, workspace=args.workspace)
    with start(board, firmware, args.runner) as running:
        yield running.url, running.alive


def monitor_command(args: argparse.Namespace, console: Console) -> int:
    """What the board says, until Ctrl-C or --seconds."""
    heard: list[dict[str, Any]] = []
    with _line(args) as (url, alive), open_line(url) as port:
        console.log(f"listening to {url}; Ctrl-C ends it")
        try:
            for seconds, line in listen(port, args.seconds, alive):
                heard.append({"seconds": round(seconds, 3), "kind": line.kind, "text": line.text})
                if not console.as_json:
                    print(f"{seconds:9.3f} {line.kind:5} {line.text}", flush=True)
        except KeyboardInterrupt:
            console.log("")
    if console.as_json:
        console.result({"board": args.board, "lines": heard}, "")
    return 0
