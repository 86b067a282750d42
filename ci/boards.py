#!/usr/bin/env python3
"""Writes the tables of BOARDS.md: what each board is, and which MLPerf Tiny models it can hold.

Without an option the facts are written again, which takes a second. ``--build`` also builds every
model for every board and records what each image takes, or why it is refused.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from pathlib import Path

import hilc
from hil.board import Board, board_names, load_board
from hil.build import Firmware, build
from hil.fit import FitError, workspace_regions
from hil.render import memory_bytes, ran_on, size_text
from hil.sources import CompileOptions, ModelSource, load_sources
from hilc.library import ModelLibrary

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
import models  # noqa: E402 - the finder of the models, which the tests share

PAGE = ROOT / "BOARDS.md"


def facts() -> str:
    """The table of all boards, from their descriptions alone."""
    rows = [
        [
            f"`{board.name}`",
            board.cpu.name,
            "-" if board.is_host else f"{board.clock_hz / 1e6:.4g} MHz",
            size_text(memory_bytes(board, "flash")),
            size_text(memory_bytes(board, "ram")),
            next(port.name for port in board.ports if "uart" in port.roles),
            f"`{board.pyocd.target}`" if board.pyocd else "-",
            ran_on(board),
        ]
        for board in map(load_board, board_names())
    ]
    header = ["board", "core", "clock", "flash", "RAM", "line", "pyOCD target", "ran on"]
    return _table(header, rows)


def fits() -> str:
    """The table of models on boards, from real builds."""
    rows = []
    for board in real_boards():
        cells = [outcome(board, model) for model in models.INT8_MODELS]
        print(board.name, *cells, sep=" | ", flush=True)
        rows.append([f"`{board.name}`", *cells])
    return _table(["board", *models.INT8_MODELS], rows)


def real_boards() -> list[Board]:
    """All but this machine, which has no limits."""
    return [board for board in map(load_board, board_names()) if not board.is_host]


def outcome(board: Board, model: str) -> str:
    """What the image of a model takes on a board, or what of it there is too little."""
    try:
        return _sizes(build([_library(board, model)], board))
    except FitError as error:
        short = [
            f"{d.resource} {'>= ' if d.at_least else ''}{_kb(d.needed)} of {_kb(d.had)} KB"
            for d in error.demands
            if not d.fits
        ]
        return f"does not fit: {', '.join(short)}"


def _sizes(firmware: Firmware) -> str:
    sizes = firmware.sizes
    ram = sizes.ram_bytes + sizes.stack_bytes + sizes.handler_stack_bytes
    return f"builds: {_kb(sizes.flash_bytes)} + {_kb(ram)}"


def _library(board: Board, model: str) -> ModelLibrary:
    library = _compiled(model, board.cpu.name)
    if len(board.regions("ram")) == 1 or workspace_regions(library.modules, board):
        return library
    # Spread over the regions of this board.
    source = ModelSource(models.model_path(model), model)
    return load_sources([source], CompileOptions(board.cpu.name, board=board))[0]


@functools.cache
def _compiled(model: str, cpu: str) -> ModelLibrary:
    """The same for all boards with one core."""
    options = CompileOptions(cpu).compiled
    library: ModelLibrary = hilc.compile(models.model_path(model), cpu=cpu, name=model, **options)
    return library


def _kb(nbytes: int) -> int:
    """Rounded up: what is needed."""
    return -(-nbytes // 1024)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def replaced(text: str, name: str, new: str) -> str:
    """``text`` with what stands between the marks ``name`` replaced."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, _, rest = text.partition(begin)
    _, mark, after = rest.partition(end)
    if not mark:
        raise ValueError(f"the text lacks {begin} or {end}")
    return f"{before}{begin}\n{new}\n{end}{after}"


def section(text: str, name: str) -> str:
    """What stands between the marks ``name``."""
    return text.partition(f"<!-- {name}:begin -->\n")[2].partition(f"\n<!-- {name}:end -->")[0]


def main() -> int:
    """Rewrites BOARDS.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", action="store_true", help="build every model for every board")
    args = parser.parse_args()
    text = replaced(PAGE.read_text(encoding="utf-8"), "boards", facts())
    if args.build:
        text = replaced(text, "models", fits())
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
