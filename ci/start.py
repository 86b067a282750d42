#!/usr/bin/env python3
"""Measures how long `hil` takes to start: processor time and modules of commands that only print.

Seconds depend on the machine, so no test asserts them; the tests count modules (tests/hil/
test_cli.py). ``make bench`` prints this table first.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys

COMMANDS = (("--version",), ("--help",), ("verify", "--help"), ("boards",))
_MODULES = (
    "import sys; from hil.cli import main; main(sys.argv[1:]); print(len(sys.modules), end='')"
)


def main() -> int:
    """Print a row for each command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7, help="of each (default: %(default)s)")
    args = parser.parse_args()
    print("command             processor time (median)  modules")
    for words in COMMANDS:
        seconds = statistics.median(processor_s(words) for _ in range(args.runs))
        print(f"hil {' '.join(words):16} {seconds * 1000:20.0f} ms  {modules(words):7}")
    return 0


def processor_s(words: tuple[str, ...]) -> float:
    """Return the processor time that a command takes, with Python's own start."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "hil", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def modules(words: tuple[str, ...]) -> int:
    """Return how many modules are loaded when a command ends."""
    command = [sys.executable, "-c", _MODULES, *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout.rpartition("\n")[2])


if __name__ == "__main__":
    sys.exit(main())
