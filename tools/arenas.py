#!/usr/bin/env python3
"""Write the workspace of each network beside TFLite Micro's arena into docs/reference/networks.md.

``measure.py networks`` prints the table. With names only these networks are measured anew. The
workspace is that of a Cortex-M4, inputs and outputs in it, for the goals ``ram`` and ``balanced``;
states are beside it. The arena is the one that TFLite Micro reports of itself on this machine.
``--print`` only prints. Networks that TFLite Micro or the compiler refuses are left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import keras_files
import models
from marked import replaced, section, table
from tqdm import tqdm
from whole_networks import NETWORKS

import hilc
from hilc.errors import ModelError
from hilc.references.tflm import tflm_arena_bytes

ROOT = Path(__file__).resolve().parents[1]

PAGE = ROOT / "docs" / "reference" / "networks.md"
CPU = "cortex-m4"
HEADER = ("network", "`ram`", "`balanced`", "state", "arena", "of them tensors", "share")
#: Of the arena, that the workspace of goal ``ram`` and the state may be.
BAR = 0.5
#: Why networks need more, by the beginning of their names.
WHY = {
    "detector": "its float32 input alone has 16,384 bytes",
    "mobilenet_v1.float32": "its input alone has 6,912 bytes, more than half of the arena",
    "preprocessing.float32": "its input alone has 5,760 bytes, more than half of the arena",
    "mobilenet_v3": "images of 4,096 bytes of float32 change to int16 and back, or to those of the "
    "next layer; a buffer of one type is not reused in place for the other, and the fast float "
    "kernels have scratch",
    "spatial_attention.float32": "the image of 4,608 bytes waits for its attention, which is made "
    "of two images joined",
    "unet_transposed.float32": "TRANSPOSE_CONV runs on whole images: the enlarged one, of 4,096 "
    "bytes, is joined to another of that size",
    "super_resolution.float32": "the output of 1,024 bytes is rearranged from an image of that "
    "size, and portable kernels, which have no scratch, cost more than the goal allows",
    "space_to_depth.float32": "the fast float kernel has 2,304 bytes of scratch, and the portable "
    "one costs more than the goal allows",
    "best_class.float32": "an image of 2,400 bytes is reduced as a whole, of an arena of 4,512",
}


@dataclass(frozen=True)
class Row:
    """A network's bytes."""

    name: str
    ram: int
    balanced: int
    state: int
    arena: int
    #: The part of the arena that tensors and scratch share over time.
    planned: int

    @property
    def share(self) -> float:
        return (self.ram + self.state) / self.arena

    @property
    def cells(self) -> list[str]:
        numbers = (self.ram, self.balanced, self.state, self.arena, self.planned)
        share = f"{self.share:.2f}"
        return [
            f"`{self.name}`",
            *(f"{number:,}" for number in numbers),
            share if self.share <= BAR else f"**{share}**",
        ]

    @classmethod
    def parse(cls, line: str) -> Row:
        """Return the row that :attr:`cells` made."""
        name, *numbers, _ = (cell.strip(" `") for cell in line.strip("|").split("|"))
        return cls(name, *(int(number.replace(",", "")) for number in numbers))


def files() -> Iterator[tuple[str, bytes]]:
    """Yield the names and files of all networks."""
    for name in (*models.INT8_MODELS, *models.FLOAT_MODELS):
        yield name, models.model_path(name).read_bytes()
    yield "digits", (ROOT / "examples" / "digits" / "digits.tflite").read_bytes()
    for network in NETWORKS.values():
        if network.path.exists():
            yield network.name, network.path.read_bytes()
    for file in keras_files.files():
        yield file.name, file.data


def measured(name: str, data: bytes) -> Row | None:
    """Return a network's bytes; None for one that is refused."""
    try:
        arena = tflm_arena_bytes(data)
        modules = [
            hilc.compile(
                data, cpu=CPU, name="network", optimize=goal, pools="external", io_in_pool=True
            ).modules[0]
            for goal in ("ram", "balanced")
        ]
    except ModelError:
        return None
    ram, balanced = (module.workspace_bytes for module in modules)
    return Row(name, ram, balanced, modules[0].state_bytes, arena.total, arena.planned)


def written() -> list[Row]:
    """Return the rows of the page."""
    lines = section(PAGE.read_text(encoding="utf-8"), "arenas").splitlines()
    return [Row.parse(line) for line in lines if line.startswith("| `")]


def section_text(rows: Sequence[Row]) -> str:
    """Return the generated part of the page."""
    over = [row.name for row in rows if row.share > BAR]
    reasons = [
        f"- `{start}`: {why}"
        for start, why in WHY.items()
        if any(name.startswith(start) for name in over)
    ]
    parts = [f"{len(rows) - len(over)} of {len(rows)} networks need at most half of the arena."]
    if reasons:
        parts += ["The others, and why:", "\n".join(reasons)]
    return "\n\n".join((*parts, table(HEADER, [row.cells for row in rows], "---:")))


def main() -> int:
    """Write the table; 1 where a network of ``make.py`` is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a network; default: all")
    parser.add_argument("--print", action="store_true", help="print the table, write nothing")
    args = parser.parse_args()
    chosen = {name: data for name, data in files() if not args.names or name in args.names}
    if unknown := set(args.names) - chosen.keys():
        parser.error(f"unknown network {min(unknown)!r}")
    missing = [n.name for n in NETWORKS.values() if not n.path.exists()]
    found = {n: row for n, d in tqdm([*chosen.items()], disable=None) if (row := measured(n, d))}
    if args.names:
        # The others stay, also those whose files are not here.
        missing = []
        found = {row.name: row for row in written() if row.name not in chosen} | found
    order = {row.name: i for i, row in enumerate(written())}
    text = section_text(sorted(found.values(), key=lambda row: order.get(row.name, len(order))))
    if args.print:
        print(text)
        return 0
    if missing:
        print(f"python examples/networks/make.py {' '.join(missing)}: missing", file=sys.stderr)
        return 1
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), "arenas", text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
