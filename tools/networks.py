#!/usr/bin/env python3
"""Compare the networks of ``examples/networks`` on boards with TFLite Micro.

Each takes 100 inputs, or 1,000 steps of a stream, on each of its boards.
Those that ``make.py`` makes and that are not there are told and left out. ``--write`` writes the
rows into the table of docs/reference/networks.md. Exits with 1 where one differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from marked import replaced, section, table
from whole_networks import NETWORKS, Network, board_named, compare

import hil
from hil.bench import bench
from hil.board import Board
from hil.verify import Report
from hilc.references.tflm import tflm_arena_bytes

ROOT = Path(__file__).resolve().parents[1]

PAGE = ROOT / "docs" / "reference" / "networks.md"
HEADER = (
    "network", "operators", "board", "equal", "instructions", "flash", "workspace", "state",
    "TFLM's arena",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    network: Network
    board: str
    found: Report
    cells: tuple[str, ...]


def measured(network: Network, board: Board, runs: int) -> Row:
    """Compare and count a network on a board."""
    library = network.library(board)
    (module,) = library.modules
    with hil.open(board, library) as device:
        found = compare(network, device, library, runs)
        cost = bench(device, module)
    arena = tflm_arena_bytes(network.path.read_bytes())
    equal = f"{found.samples:,} {'steps' if network.is_stream else 'inputs'}"
    if difference := max(output.max_abs_diff for output in found.outputs):
        equal += f" within {difference:.1g}"
    numbers = (cost.per_inference, cost.model_flash_bytes, cost.workspace_bytes, cost.state_bytes)
    return Row(
        network,
        board.name,
        found,
        (
            network.name,
            network.operators(),
            f"`{board.name}`",
            equal if found.match else "**differs**",
            *(f"{number:,}" for number in (*numbers, arena.total)),
        ),
    )


def _write(rows: Sequence[Row]) -> None:
    """Write rows into the page, in place of those of the same networks and boards."""
    page = PAGE.read_text(encoding="utf-8")
    found: dict[tuple[str, str], Sequence[str]] = {}
    for line in section(page, "networks").splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        found[cells[0], cells[2].strip("`")] = cells
    found |= {(row.network.name, row.board): row.cells for row in rows}
    keys = [(n.name, board) for n in NETWORKS.values() for board in n.boards]
    text = table(HEADER, [found[key] for key in keys if key in found])
    PAGE.write_text(replaced(page, "networks", text), encoding="utf-8")


def main() -> int:
    """Print the table; 1 where a network differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NETWORKS))
    parser.add_argument("--runs", type=int, help="inputs of each (default: 100, of a stream 1000)")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    args = parser.parse_args()
    if unknown := set(args.names) - set(NETWORKS):
        parser.error(f"unknown network {min(unknown)!r}: choose of {', '.join(NETWORKS)}")
    if args.write and args.runs:
        parser.error("--write takes all inputs")
    rows, missing = [], []
    for network in (NETWORKS[name] for name in args.names or NETWORKS):
        if not network.path.exists():
            missing.append(network.name)
        else:
            for board in map(board_named, network.boards):
                rows.append(measured(network, board, args.runs or network.runs))
                print(*rows[-1].cells, sep=" | ", file=sys.stderr)
    if missing:
        print(
            f"not there: {', '.join(missing)}; python examples/networks/make.py "
            f"{' '.join(missing)}",
            file=sys.stderr,
        )
    print(table(HEADER, [row.cells for row in rows]))
    if args.write:
        _write(rows)
    differing = [row for row in rows if not row.found.match]
    for row in differing:
        said = row.found.to_json()
        print(f"{row.network.name} on {row.board} differs: {said}", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
