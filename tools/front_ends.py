#!/usr/bin/env python3
"""Count the MLPerf Tiny models through three front ends: TensorFlow Lite, ONNX in QDQ form, PT2E.

The three files of a model have the same integers and scales
(``tests/support/models/quantized_twins.py``, ``tools/pt2_twins.py``); those of ONNX and PyTorch
take images channels first. Outputs of the two are compared byte for byte with the reference
``qdq``. ``--write`` writes the rows into docs/reference/networks.md. Exits with 1 where one
differs, or takes 3 % more instructions than the TFLite file.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import onnx
from marked import replaced, table
from models import INT8_MODELS, model_path
from quantized_twins import qdq_twin

import hil
from hil import verify
from hil.bench import bench
from hil.board import load_board
from hil.oracle import reference_of
from hil.verify.samples import random_sample
from hilc.frontends import load_model

ROOT = Path(__file__).resolve().parents[1]

PAGE = ROOT / "docs" / "reference" / "networks.md"
BOARDS = ("mps2-an386", "mps3-an547")
HEADER = ("model", "board", "TFLite", "ONNX", "of TFLite's", "PT2E", "of TFLite's")
#: How many times the TFLite file's instructions another may take.
BOUND = 1.03
SAMPLES = 10


def files(name: str, folder: Path) -> list[Path]:
    """Return the model's files; PyTorch's is made by tools/pt2_twins.py, which needs torch."""
    program = ROOT / "build" / "pt2_twins" / f"{name}.pt2"
    if not program.is_file():
        raise SystemExit(
            f"{program} is not there: run python tools/measure.py pt2_twins, which needs torch"
        )
    path = folder / f"{name}.onnx"
    onnx.save(qdq_twin(load_model(model_path(name))), path)
    return [model_path(name), path, program]


def count(path: Path, board_name: str, compared: bool) -> tuple[int, bool]:
    """Return the instructions of a run on a board, and whether it gives what the reference does."""
    board = load_board(board_name)
    library = hil.compile(path, board=board, optimize="speed")
    (module,) = library.modules
    samples = [random_sample(module.inputs, 0, index) for index in range(SAMPLES)]
    with hil.open(board, library) as device:
        counted = bench(device, module).per_inference
        if not compared:
            return counted, True
        oracle = reference_of(library, module, "qdq")
        report = verify(device[module.name], samples, oracle, board=board.name)
    return counted, report.match


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--write", action="store_true", help="write the table into its page")
    arguments = parser.parse_args()
    rows, good = [], True
    with tempfile.TemporaryDirectory() as folder:
        for name in INT8_MODELS:
            paths = files(name, Path(folder))
            for board in BOARDS:
                (first, _), *others = [count(p, board, p is not paths[0]) for p in paths]
                cells = [name, f"`{board}`", f"{first:,}"]
                for counted, equal in others:
                    good &= equal and counted <= BOUND * first
                    cells += [f"{counted:,}", f"{counted / first:.1%}" if equal else "**differs**"]
                rows.append(cells)
                print(" ".join(cells), flush=True)
    if arguments.write:
        text = replaced(PAGE.read_text(encoding="utf-8"), "front-ends", table(HEADER, rows))
        PAGE.write_text(text, encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
