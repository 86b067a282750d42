#!/usr/bin/env python3
"""Measures how long ``hil compile`` takes: processor time and peak memory by network, core, goal.

Each compile is a process of its own with an empty cache; its time includes Python's start.
``--write`` writes the rows into the table of docs/reference/networks.md, in place of those of the
same networks, cores and goals. ``--seconds`` and ``--megabytes`` are limits; the exit code is 1
where one is exceeded.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from marked import replaced, section, table

from hilc.schedule.policy import GOALS
from hilc.target import get_cpu

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "networks.md"
MARK = "compile time"
HEADER = ("network", "core", "goal", "layers", "processor, s", "peak memory, MB")
CORES = ("cortex-m4", "cortex-m55")


@dataclass(frozen=True)
class Row:
    """One compile of a network."""

    network: str
    core: str
    goal: str
    layers: int
    seconds: float
    megabytes: float

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of the table."""
        seconds, megabytes = f"{self.seconds:.1f}", f"{self.megabytes:.0f}"
        return (
            self.network,
            f"`{self.core}`",
            f"`{self.goal}`",
            f"{self.layers}",
            seconds,
            megabytes,
        )


def measured(model: Path, core: str, goal: str) -> Row:
    """Compile a model in a new process, which must succeed."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["compile", str(model), "--cpu", core, "--optimize", goal, "--json"]
        command = [sys.executable, "-m", "hil", *words, "-o", f"{folder}/library/"]
        environment = {**os.environ, "HIL_CACHE": f"{folder}/cache"}
        # As installed packages have it; the first compile writes what is missing.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        with open(f"{folder}/answer", "wb") as answer:
            process = subprocess.Popen(command, stdout=answer, env=environment)
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        (result,) = json.loads(Path(folder, "answer").read_text(encoding="utf-8"))["results"]
    groups = result["choice"]["groups"]
    layers = result["layer_count"] + sum(len(group["nodes"]) - 1 for group in groups)
    seconds = used.ru_utime + used.ru_stime
    return Row(model.stem, core, goal, layers, seconds, used.ru_maxrss / 1024)


def write(rows: Sequence[Row]) -> None:
    """Write rows into the page; those of other networks, cores and goals stay."""
    page = PAGE.read_text(encoding="utf-8")
    found: dict[tuple[str, ...], Sequence[str]] = {}
    for line in section(page, MARK).splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        found[tuple(cells[:3])] = cells
    found |= {row.cells[:3]: row.cells for row in rows}
    text = table(HEADER, [found[key] for key in sorted(found)])
    PAGE.write_text(replaced(page, MARK, text), encoding="utf-8")


def models(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield files, and the models in folders."""
    for path in paths:
        files = path.glob("*") if path.is_dir() else [path]
        yield from sorted(f for f in files if f.suffix in (".tflite", ".onnx", ".pt2"))


def main() -> int:
    """Print a row for each compile as it ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path, help="model files, or folders with some")
    parser.add_argument("--cpu", nargs="+", default=CORES, metavar="CORE")
    parser.add_argument("--optimize", nargs="+", default=("balanced",), choices=tuple(GOALS))
    parser.add_argument("--seconds", type=float, metavar="S", help="limit of each compile")
    parser.add_argument("--megabytes", type=float, metavar="MB", help="limit of each compile")
    parser.add_argument("--write", action="store_true", help=f"into {PAGE.relative_to(ROOT)}")
    args = parser.parse_args()
    for path in args.models:
        if not path.exists():
            parser.error(f"{path} does not exist")
    if not (found := list(models(args.models))):
        parser.error("there is no .tflite, .onnx or .pt2 file in what is given")
    for core in args.cpu:
        get_cpu(core)  # before anything is compiled
    rows: list[Row] = []
    for model, core, goal in product(found, args.cpu, args.optimize):
        rows.append(measured(model, core, goal))
        print(*rows[-1].cells, sep="\t", flush=True)
    if args.write:
        write(rows)
    most = args.seconds or float("inf"), args.megabytes or float("inf")
    beyond = [row for row in rows if row.seconds > most[0] or row.megabytes > most[1]]
    for row in beyond:
        print(f"over the limit: {' '.join(row.cells)}", file=sys.stderr)
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
