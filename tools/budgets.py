#!/usr/bin/env python3
"""Measures the commands that have a budget in docs/explanation/design.md, and what they load.

Seconds depend on the machine, so no test asserts them: the tests count modules, programs and plans.
``measure.py bench`` prints this table first. The exit code is 0 whatever it shows.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"
_MODULES = "import sys; from hil.cli import main; main(sys.argv[1:]); print(len(sys.modules))"


@dataclass(frozen=True)
class Measured:
    """Seconds of one run of a command."""

    processor_s: float
    clock_s: float


def main() -> int:
    """Print a row for each command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="of each (default: %(default)s)")
    args = parser.parse_args()
    print(f"{'command':34} {'processor':>10} {'clock':>10}   budget; medians of {args.runs} runs")
    for words in (["--version"], ["--help"], ["verify", "--help"]):
        row(
            " ".join(words),
            [measured(words) for _ in range(args.runs)],
            f"{modules(words)} modules",
        )
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HIL_CACHE"] = folder
        library = ["compile", str(DIGITS), "--cpu", "cortex-m4", "-o", f"{folder}/library/"]
        row("compile digits.tflite", [measured(library)], "5 s of the processor's time")
        again = [measured(library) for _ in range(args.runs)]
        row("compile digits.tflite, again", again, "0.3 s of the processor's time")
        verify = ["verify", str(DIGITS), "--board", "mps2-an386", "--samples", "10"]
        row("verify digits.tflite, 10 samples", [measured(verify)], "")
        row("verify, again", [measured(verify) for _ in range(args.runs)], "5 s by the clock")
    return 0


def row(name: str, runs: Sequence[Measured], remark: str) -> None:
    """Print the medians of ``runs``."""
    processor = statistics.median(run.processor_s for run in runs)
    clock = statistics.median(run.clock_s for run in runs)
    print(f"hil {name:30} {processor:8.2f} s {clock:8.2f} s   {remark}", flush=True)


def measured(words: Sequence[str]) -> Measured:
    """Run a command, which must succeed; its times are with Python's own start."""
    command = [sys.executable, "-m", "hil", *words]
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    after, end = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(spent, end - begin)


def modules(words: Sequence[str]) -> int:
    """Return how many modules are loaded when a command ends."""
    command = [sys.executable, "-c", _MODULES, *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout.split()[-1])


if __name__ == "__main__":
    sys.exit(main())
