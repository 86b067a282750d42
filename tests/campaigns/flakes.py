#!/usr/bin/env python3
"""Run tests that start a process or wait again and again under load; name those that fail at times.

    python tools/measure.py flakes [PATTERN...] [--runs 20] [--load 8]

A test is run if its file, or a helper that the file imports, starts a process, waits, or uses a
socket or a signal, and its name has one of the patterns. Each runs ``--runs`` times, beside
``--load`` processes that keep the processor busy. Exits with 1 where a test failed at least once:
the wait or the race is then to be corrected, not its bound. Tests marked ``full`` run too.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from full_selection import Imports
from tqdm import tqdm

from hil.cli.console import table

ROOT = Path(__file__).resolve().parents[2]
#: What a file that starts a process or waits has in its text.
_WAITS = re.compile(
    r"\b(subprocess|socket|threading|multiprocessing|psutil|signal|pytester|select)\b"
    r"|\btime\.sleep\b|\bhil\.open\b|\bfake_bench\b|mps2-|ChildProcess"
)
_BUSY = "while True: pass"


def waiting_files() -> list[str]:
    """Return the test files that start a process or wait, also by a helper that they import."""
    imports = Imports()

    def waits(path: str) -> bool:
        return _WAITS.search((ROOT / path).read_text(encoding="utf-8")) is not None

    def is_waiting(test: str) -> bool:
        helpers = (p for p in imports.of(test) if p.startswith("tests/support/"))
        return waits(test) or any(waits(helper) for helper in helpers)

    tests = (path.relative_to(ROOT).as_posix() for path in ROOT.glob("tests/*/test_*.py"))
    return sorted(test for test in tests if is_waiting(test))


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Keep the processor busy with so many processes."""
    busy = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def failures(files: Collection[str], pattern: str, workers: int) -> tuple[Counter[str], int]:
    """Run the tests once; return which failed, and how many ran.

    Raises:
        RuntimeError: pytest could not run them.
    """
    with tempfile.TemporaryDirectory(prefix="flakes-") as folder:
        report = Path(folder) / "report.xml"
        command = [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"),
            *("-m", "full or not full", "-n", str(workers), "--dist", "worksteal"),
            *("-k", pattern, f"--junitxml={report}", *files),
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace")
        if done.returncode not in (0, 1) or not report.is_file():
            raise RuntimeError(f"the tests did not run: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        cases = list(ElementTree.parse(report).iter("testcase"))
    failed = (case for case in cases if any(part.tag in ("failure", "error") for part in case))
    return Counter(f"{case.get('classname')}::{case.get('name')}" for case in failed), len(cases)


def main() -> int:
    """Run the campaign; 1 where a test failed at least once."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="of names of tests")
    parser.add_argument("--runs", type=int, default=20, help="of each test; default 20")
    parser.add_argument("--load", type=int, default=8, help="busy processes beside; default 8")
    parser.add_argument("--workers", type=int, default=2, help="of pytest-xdist; default 2")
    args = parser.parse_args()
    files = waiting_files()
    failed: Counter[str] = Counter()
    ran = 0
    with load(args.load):
        for _ in tqdm(range(args.runs), desc="runs", disable=None):
            found, count = failures(files, " or ".join(args.patterns), args.workers)
            failed += found
            ran = max(ran, count)
    print(f"{ran} tests of {len(files)} files, {args.runs} times with {args.load} busy processes")
    if not failed:
        print("none failed")
        return 0
    print(table([[str(n), test] for test, n in failed.most_common()], ["failed", "test"]))
    return 1


if __name__ == "__main__":
    sys.exit(main())
