"""The suite in random order: what fails by its neighbours, or by chance."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from torture.campaign import Budget, Counts, Figures, Finding

TITLE = "The order of the tests"
ABOUT = """All tests of `make test` run repeatedly in two or more workers. pytest-random-order draws
the order of modules and of the tests of each module. A failed test is run alone; if it passes
there, the failure depends on other tests or on chance. Each failure is a finding."""

ROOT = Path(__file__).resolve().parents[3]
#: A run of minutes has the quick folders.
_SHORT = ("tests/c", "tests/hilc", "tests/lab", "tests/plugin")
_RUNS = 10
#: Between the seeds of two runs.
_SEEDS = 1_000_003
_WORKERS = max(2, min(8, os.cpu_count() or 2))
_PYTEST = (
    sys.executable, "-m", "pytest", "-q", "-m", "not full", "-p", "no:cacheprovider", "--tb=no",
    "--no-header", "-rfE",
)  # fmt: skip
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.M)


def run(budget: Budget) -> Counts:
    """Run the suite in random order, once or ten times."""
    counts = Counts([])
    for number in range(budget.count(1, _RUNS)):
        one = shuffled(budget, () if budget.is_long else _SHORT, number)
        if budget.is_stopped:
            # An order counts when all of it has run.
            break
        counts += one
    return counts


def shuffled(budget: Budget, tests: Sequence[str], number: int = 0) -> Counts:
    """Run these tests in one random order; all where none are named."""
    seed = budget.seed + number * _SEEDS
    order = ["--random-order", f"--random-order-seed={seed}"]
    with tempfile.TemporaryDirectory(prefix="torture-order-") as made:
        report = Path(made) / "report.xml"
        output = Path(made) / "output.txt"
        workers = ["-n", str(_WORKERS), "--dist", "worksteal"]
        with output.open("w") as told:
            child = subprocess.Popen(
                [*_PYTEST, *workers, *order, f"--junitxml={report}", *tests],
                cwd=ROOT, stdout=told, stderr=told,
            )  # fmt: skip
            with budget.until_stopped():
                child.wait()
            if budget.is_stopped:
                child.send_signal(signal.SIGINT)
                child.wait()
        text = output.read_text(encoding="utf-8", errors="replace")
        if not report.is_file():
            raise RuntimeError(f"the tests did not run: {text[-2000:]}")
        ran = _by_folder(report)
        if child.returncode and not budget.is_stopped and not _FAILED.search(text):
            raise RuntimeError(f"pytest ended with {child.returncode}: {text[-2000:]}")
    flakes: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    findings = []
    for test in [] if budget.is_stopped else _FAILED.findall(text):
        is_flake = _passes(test)
        (flakes if is_flake else broken)[_folder(test)] += 1
        what = "fails beside others, and passes alone" if is_flake else "fails"
        findings.append(Finding(f"{test} {what}", f"pytest {' '.join((*order, *tests))}"))
        # It is long until the last order has run.
        print(f"{test} {what}", file=sys.stderr, flush=True)
    rows = [
        {
            "tests": folder,
            "runs": 1,
            "ran": count,
            "flakes": flakes[folder],
            "broken": broken[folder],
        }
        for folder, count in sorted(ran.items())
    ]
    return Counts(rows, findings)


def _by_folder(report: Path) -> Counter[str]:
    """Return how many tests of each folder ran."""

    def folders() -> Iterator[str]:
        for case in ET.parse(report).iter("testcase"):
            if case.find("skipped") is None:
                yield "/".join(case.get("classname", "").split(".")[:2])

    return Counter(folders())


def _folder(test: str) -> str:
    return "/".join(test.split("/")[:2])


def _passes(test: str) -> bool:
    """Whether a test passes alone."""
    done = subprocess.run([*_PYTEST, "-n", "0", test], cwd=ROOT, capture_output=True)
    return done.returncode == 0


def figures(counts: Counts) -> Figures:
    """Return by folder how many tests ran, and which of them failed."""
    rows = [
        [row["tests"], *(f"{row[name]:,}" for name in ("runs", "ran", "flakes", "broken"))]
        for row in counts.rows
    ]
    heads = ["tests", "orders", "ran", "failed, and passed alone", "failed"]
    return Figures(heads, rows, counts.findings)
