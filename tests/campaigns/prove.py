#!/usr/bin/env python3
"""Checks the MLPerf Tiny models on every emulated board, with the code that users run.

The results go to ``build/prove.json`` as they come; what is there already
for the same firmware, inputs and reference is not run again (``--fresh`` forgets it).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
from steps import ROOT, Result, Results, Step, compiled, models, one_line, run_step, run_steps

import hil
from hil import verify
from hil.bench import bench
from hil.board import load_board
from hil.build import build
from hil.cli.console import table
from hil.firmware.fit import FitError
from hil.oracle import reference_of
from hil.support.cache import cache_folder
from hil.verify.samples import Sample
from hilc.artifact.library import ModelLibrary

BOARDS = ("native", "mps2-an385", "mps2-an386", "mps2-an500", "mps2-an505", "mps3-an547")
FLOAT_BOARD = "mps2-an386"
#: Boards with little memory, and what is to run on them or to be refused.
SMALL_RUNS = (
    ("kws", "lm3s6965evb"),
    ("digits", "microbit"),
    ("digits", "netduinoplus2"),
    ("digits", "stm32vldiscovery"),
    ("vww", "lm3s6965evb"),
)
SMALL_REFUSALS = (("ad", "lm3s6965evb"),)
#: Every way to call a model and to give it memory: (operators, entry), language, workspace.
APIS = (("packed", "packed"), ("unpacked", "packed"), ("unpacked", "c"))
CODEGENS = ("c", "llvm")
POOLS = ("internal", "external", "calls")
INTERFACE_BOARDS = ("native", "mps2-an386")
#: The models that run in every cell of the table above, and in one packed cell only.
FULL_TABLE_MODEL = "kws"
PACKED_CELL: Mapping[str, str] = {"api": "packed", "interface": "packed", "pools": "calls"}
#: Two models in one image: runs of each, in turn.
TOGETHER = ("kws", "ad")
TOGETHER_RUNS = 100
COMPILE_LIMIT_S = 5.0
VERIFY_LIMIT_S = 5.0


class Proof:
    """What the steps share: the options, the results of earlier runs."""

    def __init__(self, samples: int, results: Results) -> None:
        self.samples = samples
        self.results = results

    def equal(self, model: str, board_name: str, **options: str) -> Result:
        """Every output and every layer of ``samples`` inputs, against ``tflm``.

        ``options`` are the compiler's; without any the model is compiled as for ``hil verify``.
        """
        board = load_board(board_name)
        library = compiled(model, board.cpu.name, **options)
        module = library.modules[0]
        inputs = self._inputs(model, library)
        oracle = reference_of(library, module, "tflm")
        firmware = build([library], board)
        key = f"{firmware.build_id} {oracle.description} {len(inputs)}"
        if (known := self.results.known(key)) is not None:
            return known
        with hil.open(board, library) as device:
            report = verify(device[module.name], inputs, oracle, board=board_name, per_layer=True)
        layers = report.layers or ()
        return {
            # A layer that could not be compared would be a gap in the proof.
            "ok": report.match and all(layer.outputs for layer in layers),
            "key": key,
            "shown": f"{report.samples} inputs, {len(layers)} layers, "
            f"{report.outputs[0].max_abs_diff:.3g} off at most",
            "report": report.json(),
        }

    def _inputs(self, model: str, library: ModelLibrary) -> list[Sample]:
        tensor = library.modules[0].inputs[0]
        if model == "digits":
            images = np.load(ROOT / "examples" / "digits" / "digits_test.npz")["image"]
            return [{tensor.name: image[np.newaxis]} for image in images[: self.samples]]
        return [{tensor.name: array} for array in models.samples(model, self.samples)]

    def together(self, board_name: str, workspace: Literal["own", "shared"]) -> Result:
        """Two models of one image, each step of both before the next: every byte as alone."""
        board = load_board(board_name)
        options: Mapping[str, Any] = {"pools": "external", "io_in_pool": workspace == "own"}
        libraries = [compiled(name, board.cpu.name, **options) for name in TOGETHER]
        samples = [self._inputs(name, lib) for name, lib in zip(TOGETHER, libraries, strict=True)]
        expected = []
        for library, inputs in zip(libraries, samples, strict=True):
            oracle = reference_of(library, library.modules[0], "tflm")
            expected.append([oracle.values(index, sample) for index, sample in enumerate(inputs)])
        different = 0
        with hil.open(board, *libraries, workspace=workspace) as device:
            models_ = [device[name] for name in TOGETHER]
            for turn in range(TOGETHER_RUNS):
                for model, inputs in zip(models_, samples, strict=True):
                    for name, array in inputs[turn % len(inputs)].items():
                        model.set_input(name, array)
                for model in models_:
                    model.run()
                for model, wanted in zip(models_, expected, strict=True):
                    values = wanted[turn % len(wanted)]
                    for output in model.outputs:
                        got = model.get_output(output.name)
                        different += int(np.count_nonzero(got != values[output.name]))
            ram_bytes = device.firmware.sizes.ram_bytes if device.firmware else 0
        return {
            "ok": different == 0,
            "shown": f"{TOGETHER_RUNS} runs of each in turn, {different} values differ, "
            f"{ram_bytes:,} B of RAM",
        }

    def fits_or_refused(self, model: str, board_name: str) -> Result:
        """Equal where the model fits; else the refusal, which is no failure but is shown."""
        try:
            return self.equal(model, board_name)
        except FitError as error:
            return {"ok": "bytes needed" in error.fact, "shown": one_line(error)}


def refused(model: str, board_name: str) -> Result:
    """Refused before anything is built, with the figures."""
    board = load_board(board_name)
    library = compiled(model, board.cpu.name)
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        try:
            build([library], board, project)
        except FitError as error:
            return {"ok": not project.exists(), "shown": one_line(error)}
    return {"ok": False, "shown": "it was built"}


def counted_twice(model: str, board_name: str) -> Result:
    """Return the same figures from two starts of the emulator."""
    board = load_board(board_name)
    library = compiled(model, board.cpu.name)
    reports = []
    for _ in range(2):
        with hil.open(board, library) as device:
            reports.append(bench(device, library.modules[0]).check().json())
    return {
        "ok": reports[0] == reports[1],
        "shown": " and ".join(f"{report['per_inference']:,}" for report in reports)
        + f" {reports[0]['counter']}, {reports[0]['workspace_bytes']:,} B workspace, "
        f"{reports[0]['model_flash_bytes']:,} B flash",
        "reports": reports,
    }


def timed(limit_s: float, *words: str) -> Result:
    """Return the command line in a process of its own, start of Python included."""
    command = [sys.executable, "-m", "hil.cli", *words]
    start = time.monotonic()
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - start
    return {
        "ok": result.returncode == 0 and seconds < limit_s,
        "shown": f"{seconds:.2f} s (limit {limit_s:g} s), exit code {result.returncode}",
        "seconds": seconds,
    }


def all_steps(proof: Proof, boards: Sequence[str], names: Sequence[str]) -> list[Step]:
    """Return the whole matrix, cut down to ``boards`` and models of ``names``."""
    int8 = [(model, board) for board in BOARDS for model in models.INT8_MODELS]
    groups: tuple[tuple[str, Callable[[str, str], Result], Sequence[tuple[str, str]]], ...] = (
        ("int8", proof.equal, int8),
        ("float", proof.equal, [(model, FLOAT_BOARD) for model in models.FLOAT_MODELS]),
        ("small", proof.fits_or_refused, SMALL_RUNS),
        ("refused", refused, SMALL_REFUSALS),
        # The native board's clock counts no instructions.
        ("counts", counted_twice, [("ad", board) for board in BOARDS if board != "native"]),
    )
    steps = [
        Step(f"{group}: {model} on {board}", partial(prove, model, board))
        for group, prove, pairs in groups
        for model, board in pairs
        if model in names and board in boards
    ]
    return steps + list(interface_steps(proof, boards, names))


def interface_steps(proof: Proof, boards: Sequence[str], names: Sequence[str]) -> Iterator[Step]:
    """Every way to call a model, and two models in one image."""
    cells = [
        (FULL_TABLE_MODEL, {"api": api, "interface": interface, "codegen": codegen, "pools": pools})
        for (api, interface), codegen, pools in product(APIS, CODEGENS, POOLS)
    ]
    others = [model for model in models.INT8_MODELS if model != FULL_TABLE_MODEL]
    cells += [(model, dict(PACKED_CELL)) for model in others]
    for board in (board for board in INTERFACE_BOARDS if board in boards):
        for model, options in cells:
            if model in names:
                label = " ".join(options.values())
                prove = partial(proof.equal, model, board, **options)
                yield Step(f"interfaces: {model} on {board}, {label}", prove)
        if set(TOGETHER) <= set(names):
            for workspace in ("own", "shared"):
                prove = partial(proof.together, board, workspace)
                yield Step(f"together: {' and '.join(TOGETHER)} on {board}, {workspace}", prove)


def timings() -> list[Step]:
    """Return the steps with a time limit, which run alone since they measure time."""
    target = cache_folder() / "prove-vww.tar"
    vww, kws = str(models.model_path("vww")), str(models.model_path("kws"))
    compile_words = ("compile", vww, "-o", str(target), "--cpu", "cortex-m4")
    verify_words = ("verify", kws, "--board", FLOAT_BOARD, "--samples", "10")
    return [
        Step("time: compile of vww", partial(timed, COMPILE_LIMIT_S, *compile_words)),
        # The first builds the firmware, so that the second is warm.
        Step("time: first verify of kws", partial(timed, 60, *verify_words)),
        Step(
            "time: verify of 10 inputs of kws, warm", partial(timed, VERIFY_LIMIT_S, *verify_words)
        ),
    ]


def main() -> int:
    """Run the proof; 1 when any part of it fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    every = (*models.INT8_MODELS, *models.FLOAT_MODELS, "digits")
    parser.add_argument("--samples", type=int, default=10, help="inputs a model (default: 10)")
    parser.add_argument("--board", action="append", metavar="B", help="only this board")
    parser.add_argument("--model", action="append", choices=every, help="only this model")
    parser.add_argument("--jobs", type=int, default=2, help="boards side by side (default: 2)")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "prove.json")
    args = parser.parse_args()
    if not models.models_dir().is_dir():
        parser.error(f"no models in {models.models_dir()}: {models.HOW_TO_GET}")

    results = Results(args.output, args.fresh)
    small = tuple(board for _, board in (*SMALL_RUNS, *SMALL_REFUSALS))
    steps = all_steps(
        Proof(args.samples, results), args.board or (*BOARDS, *small), args.model or every
    )
    start = time.monotonic()
    done = run_steps(steps, results, args.jobs, "proof")
    if not args.board and not args.model:
        done |= {step.name: run_step(step, results) for step in timings()}

    rows = [
        [name, "ok" if result["ok"] else "FAILED", result["step_seconds"], result["shown"]]
        for name, result in done.items()
    ]
    print(table(rows, ["proof", "", "seconds", "what was seen"]))
    failed = [name for name, result in done.items() if not result["ok"]]
    print(
        f"\n{len(done) - len(failed)} of {len(done)} hold, in {time.monotonic() - start:.0f} s; "
        f"{args.output} has the figures"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
