#!/usr/bin/env python3
"""Writes which MLPerf Tiny models each board holds, into docs/reference/boards.md.

Every model is built for every board; what each image takes is recorded, or why it is refused.
``--check`` builds them and writes nothing, but tells which figures of the page are not those of
today's compiler. The other tables of the page are written by tools/reference.py.
"""

from __future__ import annotations

import argparse
import functools
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import models
from marked import replaced, section, table
from tqdm import tqdm

import hilc
from hil.board import Board, board_names, load_board
from hil.build import Firmware, build
from hil.firmware.fit import FitError, workspace_regions
from hil.firmware.sources import ModelOptions, ModelSource, load_sources
from hilc.artifact.library import ModelLibrary

ROOT = Path(__file__).resolve().parents[1]

PAGE = ROOT / "docs" / "reference" / "boards.md"


def fits() -> str:
    """Return the table of models on boards, from real builds."""
    boards = real_boards()
    # The first of each core compiles for the others; builds are processes, two at a time.
    with ThreadPoolExecutor(2) as pool:
        rows = list(tqdm(pool.map(_row, boards), total=len(boards), desc="boards"))
    return table(["board", *models.INT8_MODELS], rows)


def _row(board: Board) -> list[str]:
    return [f"`{board.name}`", *(outcome(board, model) for model in models.INT8_MODELS)]


def cells(text: str) -> dict[tuple[str, str], str]:
    """Return a table of :func:`fits`: the outcome by board and model."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    return {
        (row[0].strip("`"), model): cell
        for row in rows[2:]
        for model, cell in zip(rows[0][1:], row[1:], strict=True)
    }


def real_boards() -> list[Board]:
    """All but this machine, which has no limits."""
    return [board for board in map(load_board, board_names()) if not board.is_host]


def outcome(board: Board, model: str) -> str:
    """Return the sizes of a model's image on a board, or the resources that it exceeds."""
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
    return load_sources([source], ModelOptions(board.cpu.name, board=board))[0]


@functools.cache
def _compiled(model: str, cpu: str) -> ModelLibrary:
    """Return the same for all boards with one core."""
    options = ModelOptions(cpu).compiler(model)
    return hilc.compile(models.model_path(model), options=options)


def _kb(nbytes: int) -> int:
    """Return the needed bytes, rounded up."""
    return -(-nbytes // 1024)


def main() -> int:
    """Rewrite the table; or 1 where ``--check`` finds a figure that is not today's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the page, write nothing")
    args = parser.parse_args()
    text = PAGE.read_text(encoding="utf-8")
    if args.check:
        today, written = cells(fits()), cells(section(text, "models"))
        stale = [where for where in {**today, **written} if today.get(where) != written.get(where)]
        for board, model in stale:
            where = (board, model)
            print(
                f"{model} on {board}: {PAGE.name} says {written.get(where)!r}, and it is "
                f"{today.get(where)!r}",
                file=sys.stderr,
            )
        print(f"{len(today) - len(stale)} of {len(today)} figures are up to date")
        return 1 if stale else 0
    PAGE.write_text(replaced(text, "models", fits()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
