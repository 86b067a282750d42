#!/usr/bin/env python3
"""Compares what `hil fit` says of models on boards with their builds.

Each program that `hil fit` names is built: its workspace must be the one that was said, its RAM and
flash must be within the errors that were said. What "fits" must build, and what does not must be
refused. The exit code is 1 where one of these is not so.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from marked import table

from hil.board import Board, load_board
from hil.build import build
from hil.errors import BuildError
from hil.firmware.build import Firmware
from hil.firmware.fitting import fit
from hil.firmware.sources import ModelOptions, ModelSource, load_sources
from hil.results.fit import FitEntry, ProgramFit

ROOT = Path(__file__).resolve().parents[2]
#: A board of each kind of core, small ones among them.
BOARDS = (
    *("microbit", "stm32vldiscovery", "nucleo-f401re", "nucleo-h563zi"),
    *("mps3-an547", "riscv-virt", "riscv-virt-v", "esp32-c3-devkitm-1"),
)
TITLES = ("model", "board", "program", "said", "workspace", "RAM", "flash", "wrong")


@dataclass(frozen=True)
class Compared:
    """A program of a model on a board, and its build; None where that failed."""

    said: ProgramFit
    entry: FitEntry
    built: Firmware | None

    @property
    def wrong(self) -> list[str]:
        """Return what is not as it was said."""
        if self.built is None:
            return ["the build fails"] if self.said.fits == "yes" else []
        found = ["it builds"] if self.said.fits == "no" else []
        if self.workspace != self.said.workspace_bytes:
            found.append(f"workspace {self.workspace}")
        if not 0 <= self.ram - self.said.ram_with_stacks_bytes <= self.entry.ram_error_bytes:
            found.append("RAM")
        (model,) = self.built.sizes.models.values()
        error = self.entry.flash_error * model.flash_bytes + self.entry.flash_error_bytes
        if abs(self.built.sizes.flash_bytes - self.said.flash_bytes) > error:
            found.append("flash")
        return found

    @property
    def workspace(self) -> int:
        """Bytes of the built program's workspace."""
        assert self.built is not None
        return self.built.libraries[0].modules[0].workspace_bytes

    @property
    def ram(self) -> int:
        """RAM of the image, with its stacks."""
        assert self.built is not None
        sizes = self.built.sizes
        return sizes.ram_bytes + sizes.stack_bytes + sizes.handler_stack_bytes

    def row(self, model: str, board: str) -> list[str]:
        """Return the line of the table: differences of the build from what was said."""
        said = self.said
        words = [model, board, " ".join(said.options) or "balanced", said.fits]
        if self.built is None:
            return [*words, "-", "-", "-", ", ".join(self.wrong)]
        flash = self.built.sizes.flash_bytes
        return [
            *words,
            f"{said.workspace_bytes}",
            f"{self.ram - said.ram_with_stacks_bytes:+}",
            f"{flash - said.flash_bytes:+} of {flash}",
            ", ".join(self.wrong),
        ]


def built(model: Path, board: Board, options: tuple[str, ...]) -> Firmware | None:
    """Return the firmware of a program; None where the board does not hold it."""
    names = {"--optimize": "optimize", "--ram": "ram", "--flash": "flash"}
    given: dict[str, object] = {}
    for name, value in zip(options[::2], options[1::2], strict=True):
        given[names[name]] = value if name == "--optimize" else int(value)
    try:
        chosen = ModelOptions(board.cpu.name, given=given, board=board)
        return build(load_sources([ModelSource(model, None)], chosen), board)
    except BuildError:
        return None


def compared(model: Path, names: list[str], every: bool) -> Iterator[tuple[str, Compared]]:
    """Yield the programs that are said of a model, by board: the one to take, or every one."""
    entry = fit(model, names)
    for each in entry.boards:
        best = each.programs if every else each.programs[each.best or 0 :][:1]
        for said in best:
            yield (
                each.board,
                Compared(said, entry, built(model, load_board(each.board), said.options)),
            )


def main() -> int:
    """Compare; 1 where `hil fit` said what is not so."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path, help="model files")
    parser.add_argument("--board", action="append", help=f"default: {', '.join(BOARDS)}")
    parser.add_argument("--every", action="store_true", help="every program, not only the best")
    args = parser.parse_args()
    rows = []
    wrong = 0
    for model in args.models:
        for board, one in compared(model, args.board or list(BOARDS), args.every):
            rows.append(one.row(model.stem, board))
            wrong += bool(one.wrong)
            print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    print(table(TITLES, rows))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
