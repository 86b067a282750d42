#!/usr/bin/env python3
"""Run public architectures of PyTorch on emulated boards, in floats and in int8 of PT2E.

    python tools/measure.py architectures [NAME...] [--python PYTHON] [--exports FOLDER] [--write]

Each is exported once by ``tools/torch_networks.py``, which needs a
Python with PyTorch, torchvision and timm (``--python``), into a folder outside of the repository.
On the board the answers are compared with the reference, ``qdq`` for int8 and ``hilc`` for floats,
and with what PyTorch computed itself. The reference is compared with PyTorch layer by layer too:
each is given the integers that PyTorch computed in front of it. ``--write`` writes the rows into
docs/reference/architectures.md. Exits with 1 where an answer differs from the reference, or is
further from PyTorch's than the bounds below.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np
from marked import replaced, section, table
from whole_networks import board_named

import hil
from hil import Report, verify
from hil.board import Board, load_board
from hil.errors import HilError
from hil.firmware.sources import ModelOptions, ModelSource, load_sources
from hil.oracle import reference_of
from hil.support.cache import cache_folder
from hilc.artifact.library import ModelLibrary
from hilc.frontends import load_model, read_model
from hilc.interpreter import run_node
from hilc.ir import Array
from hilc.transforms.fuse_quantized import fuse_quantized

ROOT = Path(__file__).resolve().parents[1]

PAGE = ROOT / "docs" / "reference" / "architectures.md"
MAKER = Path(__file__).with_name("torch_networks.py")
KINDS = {"float": "hilc", "int8": "qdq"}
#: The board, and that of files whose weights its flash has no room for.
BOARD, LARGE_BOARD = "mps2-an386", "mps3-an547-ddr"
FLASH = 3 << 20
#: Of the largest output: sums in another order.
EAGER_RTOL = 1e-5
#: Integers of a network's layers that may be one step from PyTorch's.
EAGER_SHARE = 1e-4
HEADER = (
    "network", "type", "board", "inputs", "off the reference", "off PyTorch",
    "off PyTorch, each layer", "instructions", "flash", "workspace", "compiled in",
)  # fmt: skip


@dataclass(frozen=True)
class Steps:
    """How many integers are not PyTorch's, and by how many steps at most."""

    size: int
    off: int
    largest: int

    @property
    def is_near(self) -> bool:
        return self.largest <= 1 and self.off <= EAGER_SHARE * self.size

    def __str__(self) -> str:
        counted = f"{self.off:,} of {self.size:,}"
        return f"{counted} by {self.largest}" if self.off else counted


@dataclass(frozen=True)
class Row:
    name: str
    kind: str
    report: Report
    #: Difference of the outputs from PyTorch's, of the largest; None for int8.
    largest: float | None
    #: What the layers of int8 differ by; None for floats.
    layers: Steps | None
    cells: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        near = self.largest is None or self.largest <= EAGER_RTOL
        return self.report.match and near and (self.layers is None or self.layers.is_near)


class _Recorded:
    """A model on a board, its answers, and what each run took."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.answers: list[Array] = []
        self.ticks: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def run(self) -> None:
        self.ticks.append(self._model.run().ticks)

    def get_output(self, name: str) -> Array:
        self.answers.append(self._model.get_output(name))
        return self.answers[-1]


def measured(path: Path, runs: int | None, board_name: str | None) -> Row:
    """Compare and count a network on a board."""
    name, kind = path.stem.split(".")
    with np.load(path.with_suffix(".npz")) as stored:
        eager = {key: stored[key][:runs] for key in stored.files}
    inputs, wanted = eager.pop("x0"), eager.pop("y0")
    board = board_named(board_name or (BOARD if path.stat().st_size < FLASH else LARGE_BOARD))
    start = time.process_time()
    library = compiled(path, board)
    seconds = time.process_time() - start
    (module,) = library.modules
    samples: Iterator[Mapping[str, Array]] = ({module.inputs[0].name: x} for x in inputs)
    oracle = reference_of(library, module, KINDS[kind])
    with hil.open(board, library) as device:
        record = _Recorded(device[module.name])
        model: Any = record
        report = verify(model, samples, oracle, board=board.name)
        instructions = device.count(median_low(record.ticks))
        assert device.firmware is not None
        flash = device.firmware.sizes.models[module.name].flash_bytes
    answers = np.stack(record.answers).astype(np.float64)
    layers = None
    if kind == "int8":
        steps = np.rint((answers - wanted) / _step(path))
        largest, said = None, str(_steps([steps]))
        layers = layer_steps(path, inputs, eager)
    else:
        largest = float(np.abs(answers - wanted).max() / np.abs(wanted).max())
        said = f"{largest:.1e}"
    mismatches = sum(output.mismatches for output in report.outputs)
    apart = max(output.max_abs_diff for output in report.outputs)
    cells = (
        name, kind, f"`{board.name}`", str(len(inputs)),
        f"**{mismatches:,}**" if mismatches else f"within {apart:.1e}" if apart else "0",
        said, "-" if layers is None else str(layers),
        f"{instructions:,}", f"{flash:,}", f"{module.workspace_bytes:,}", f"{seconds:.1f} s",
    )  # fmt: skip
    return Row(name, kind, report, largest, layers, cells)


def layer_steps(path: Path, inputs: Array, eager: Mapping[str, Array]) -> Steps:
    """Compare the integers of each layer of the reference, computed from PyTorch's integers in
    front of it, with PyTorch's; ``eager`` has them by ``layer:`` and name, ``[samples, ...]``.
    """
    read = read_model(path)
    graph = fuse_quantized(read.graph, read.dequantized).graph
    # Some are constants, or inside of what is one layer here.
    wanted = {key.removeprefix("layer:"): values for key, values in eager.items()}
    constants = {name: t.data for name, t in graph.tensors.items() if t.data is not None}
    found: list[Array] = []
    for index, x in enumerate(inputs):
        values: dict[str, Array] = {**constants, graph.inputs[0]: x}
        for node in graph.nodes:
            operands = [values[name] if name else None for name in node.inputs]
            values.update(zip(node.outputs, run_node(graph, node, operands), strict=True))
            for name in wanted.keys() & set(node.outputs):
                integers = wanted[name][index]
                found.append(values[name].astype(np.int64) - integers)
                values[name] = integers
    return _steps(found)


def _steps(differences: Sequence[Array]) -> Steps:
    return Steps(
        sum(each.size for each in differences),
        sum(int(np.count_nonzero(each)) for each in differences),
        max((int(np.abs(each).max()) for each in differences if each.size), default=0),
    )


def compiled(path: Path, board: Board) -> ModelLibrary:
    """Compile a network as ``hil verify`` does."""
    options = ModelOptions(board.cpu.name, board=board)
    (library,) = load_sources([ModelSource(path, path.stem.replace(".", "_"))], options)
    return library


def _step(path: Path) -> float:
    """Return the scale of the output, which is dequantized at the end."""
    graph = load_model(path)
    (node,) = (node for node in graph.nodes if graph.outputs[0] in node.outputs)
    quant = graph.tensors[node.inputs[0]].quant
    if quant is None:
        raise ValueError(f"{path.name}: the output is not dequantized, but made by {node.op}")
    return quant.scale[0]


def export(folder: Path, names: Sequence[str], kinds: Sequence[str], python: str) -> list[Path]:
    """Return the files of the networks, made where they are missing."""
    for kind in kinds:
        missing = [name for name in names if not (folder / f"{name}.{kind}.npz").exists()]
        if missing:
            subprocess.run([python, str(MAKER), str(folder), *missing, "--kind", kind], check=True)
    return [folder / f"{name}.{kind}.pt2" for name in names for kind in kinds]


def names_of(python: str, folder: Path) -> list[str]:
    """Return all networks: what the maker lists, or what is there if that needs no PyTorch."""
    found = subprocess.run([python, str(MAKER), "--list"], capture_output=True, text=True)
    if found.returncode == 0:
        return found.stdout.split()
    return sorted({path.name.split(".")[0] for path in folder.glob("*.npz")})


def _write(rows: Sequence[Row], names: Sequence[str]) -> None:
    """Write rows into the page, in place of those of the same networks and types."""
    page = PAGE.read_text(encoding="utf-8")
    found: dict[tuple[str, str], Sequence[str]] = {}
    for line in section(page, "architectures").splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        # Rows of another header are of another version of this page.
        if len(cells) == len(HEADER):
            found[cells[0], cells[1]] = cells
    found |= {(row.name, row.kind): row.cells for row in rows}
    order = {name: place for place, name in enumerate(names)}
    keys = sorted(found, key=lambda key: (order.get(key[0], len(order)), key))
    text = table(HEADER, [found[key] for key in keys])
    PAGE.write_text(replaced(page, "architectures", text), encoding="utf-8")


def main() -> int:
    """Print the table; 1 where a network differs or fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--python", default=sys.executable, help="a Python that has PyTorch")
    parser.add_argument("--exports", type=Path, default=cache_folder() / "architectures")
    parser.add_argument("--kind", choices=KINDS, help="one type only")
    parser.add_argument("--board", help=f"instead of {BOARD} and {LARGE_BOARD}")
    parser.add_argument("--runs", type=int, help="inputs of each (default: all of the export)")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    args = parser.parse_args()
    if args.board:
        load_board(args.board)  # before anything is exported
    listed = names_of(args.python, args.exports)
    if unknown := set(args.names) - set(listed):
        parser.error(f"unknown network {min(unknown)!r}: choose of {', '.join(listed)}")
    rows: list[Row] = []
    failed: list[str] = []
    kinds = [args.kind] if args.kind else list(KINDS)
    for path in export(args.exports, args.names or listed, kinds, args.python):
        try:
            rows.append(measured(path, args.runs, args.board))
        except HilError as error:
            failed.append(path.stem)
            print(f"{path.stem}: {error}", file=sys.stderr)
            continue
        print(*rows[-1].cells, sep=" | ", file=sys.stderr, flush=True)
        if args.write:
            _write(rows, listed)
    print(table(HEADER, [row.cells for row in rows]))
    layers = [row.layers for row in rows if row.layers is not None]
    off, size = sum(each.off for each in layers), sum(each.size for each in layers)
    print(f"int8: {off:,} of {size:,} integers of layers are not PyTorch's", file=sys.stderr)
    wrong = [f"{row.name} ({row.kind})" for row in rows if not row.is_right]
    if wrong or failed:
        print(f"differ: {', '.join(wrong)}; failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if wrong or failed else 0


if __name__ == "__main__":
    sys.exit(main())
