"""Small changes of the product that its tests should notice.

The changes are our own (``mutants.py``). mutmut keeps all mutants in one file and chooses by a
variable of the environment; the product's cache is keyed by its sources, so that each mutant would
get what another compiled. cosmic-ray runs one command for all mutants, not the tests that reach
each, and brings twenty packages.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import coverage
import psutil
from mutants import Mutant, mutants, sample, written

from hilc.support.toml import tomllib
from torture.campaign import Budget, Counts, Figures, Finding

TITLE = "The tests themselves"
ABOUT = """Changes a copy of the product in one place at a time: another comparison or operator, a
number incremented, a condition negated, or a call, an error or a result removed. Then the area's
tests that reach the changed lines run, fastest first, until one fails; in a short run, as many as
take a minute. A change that no test detects survives, so the percentage is a lower bound. Survivors
that do not change the behaviour are listed beside the campaign, with the reason, and are not
counted. An area with less than 85 % killed is a finding. Branches: those of the area that its tests
take in their own process, in `make test`, without the tests of `make test-full`."""

ROOT = Path(__file__).resolve().parents[3]
EQUIVALENT = Path(__file__).with_name("mutation_equivalent.toml")
#: The least part of an area's mutants that its tests must notice.
BAR = 0.85
_FEW, _MANY = 20, 200
#: Seconds of tests for a change, as they took without it.
_FEW_S, _MANY_S = 60, 3600
#: Not copied: what others made, and what git keeps.
_LEFT = shutil.ignore_patterns(".*", "__pycache__", "build", "site", "*.egg-info")
_MEMORY_BYTES = 3 << 30
_LOOK_S = 0.2
#: For tests that are slower beside other programs, and a limit in which they start.
_TIMES, _START_S = 6, 60
_BASELINE_S = 3600


@dataclass(frozen=True)
class Area:
    """A package, and the tests that concern it."""

    name: str
    package: str
    tests: tuple[str, ...]


def _tests(folder: str, names: str) -> tuple[str, ...]:
    return tuple(f"tests/{folder}/test_{name}.py" for name in names.split())


AREAS = (
    Area(
        "numerics",
        "compiler/hilc/numerics",
        _tests(
            "hilc",
            "quant fixed_point number_functions tables signal complex_numbers float_sums types "
            "ops_reference channels",
        ),
    ),
    Area(
        "plan",
        "compiler/hilc/memory",
        _tests(
            "hilc",
            "bounds allocate replay liveness plan plan_parts checker explain pins access state "
            "carried_states fusion feed",
        ),
    ),
    Area(
        "schedule",
        "compiler/hilc/schedule",
        (
            *_tests(
                "hilc",
                "schedule segments offsets tuning hostile_tuning search cost pins options "
                "control_flow feed",
            ),
            *_tests("hil", "tune tuned"),
        ),
    ),
    Area(
        "RPC",
        "hil/link",
        _tests(
            "hil",
            "codec protocol messages replies line transfer timing fault_text client hostile_board "
            "bulk tensor_table calls faults taps tap_line recovery noise riscv",
        ),
    ),
    Area(
        "verify",
        "hil/verify",
        _tests(
            "hil",
            "metrics samples taps datasets cycles diagnosis fidelity oracle jobs rerun tune tuned "
            "verify verify_parts bench evaluate evaluation_parts provenance",
        ),
    ),
)


@dataclass(frozen=True)
class Equivalent:
    """A mutant that behaves as the product does."""

    package: str
    key: tuple[str, str, str, str, int]
    why: str


def equivalent() -> list[Equivalent]:
    """Return the survivors that were read and found to change no behaviour."""
    listed = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["mutant"]
    return [
        Equivalent(
            one["package"],
            (one["file"], one["function"], one["source"], one["change"], one.get("nth", 0)),
            one["why"],
        )
        for one in listed
    ]


def run(budget: Budget) -> Counts:
    """Mutate each area and run its tests."""
    counts = Counts([])
    for area in AREAS:
        with budget.until_stopped():
            counts += _attacked(area, budget)
        if budget.is_stopped:
            break
    return counts


def _attacked(area: Area, budget: Budget) -> Counts:
    known = {one.key for one in equivalent() if one.package == area.package}
    survivors: list[Mutant] = []
    tried = same = hung = 0
    with _Copy(area, budget.count(_FEW_S, _MANY_S)) as copy:
        with budget.until_stopped():
            for mutant in sample(copy.mutants, budget.count(_FEW, _MANY), budget.seed):
                if mutant.key in known:
                    same += 1
                    continue
                ended = copy.attack(mutant)
                tried += 1
                hung += ended == "hang"
                if ended == "survived":
                    survivors.append(mutant)
                    print(f"survived {area.package}/{mutant}", file=sys.stderr, flush=True)
        branches = copy.branches()
        row = {
            "area": area.name,
            "most_possible": len(copy.mutants),
            "equal": same,
            "tried": tried,
            "killed": tried - len(survivors),
            "hung": hung,
            "most_branches": branches.taken,
            "most_of_branches": branches.of,
        }
    return Counts([row, *({"of": area.name, "survivor": _named(one)} for one in survivors)])


def _named(mutant: Mutant) -> str:
    where = f"`{mutant.file}`" + f" in `{mutant.function}`" * bool(mutant.function)
    return f"{where}, `{mutant.change}` in `{mutant.source}`"


def figures(counts: Counts) -> Figures:
    """Return by area what its tests noticed, and below the table what they did not."""
    rows, findings, notes = [], [], []
    for row in (row for row in counts.rows if "area" in row):
        name, tried, killed = row["area"], row["tried"], row["killed"]
        rows.append(
            [
                name,
                f"{row['most_possible']:,}",
                f"{tried + row['equal']:,}",
                f"{row['equal']:,}",
                f"{killed:,} of {tried:,}",
                f"{killed / max(1, tried):.0%}",
                f"{row['hung']:,}",
                f"{row['most_branches']:,} of {row['most_of_branches']:,}",
                f"{row['most_branches'] / max(1, row['most_of_branches']):.0%}",
            ]
        )
        if killed < BAR * tried:
            findings.append(Finding(f"{name}: {tried - killed} changes survive", "the list above"))
        survivors = [one["survivor"] for one in counts.rows if one.get("of") == name]
        if survivors:
            notes.append(f"Survivors in {name}: {'; '.join(survivors)}.")
    heads = [
        "area", "changes possible", "drawn", "equal", "killed", "of those", "hung",
        "branches taken", "of those",
    ]  # fmt: skip
    about = (
        "Equal: drawn changes that change no behaviour. Hung: of the killed, those at which the "
        "tests came to no end or took all memory."
    )
    return Figures(heads, rows, [*counts.findings, *findings], [about, *notes])


@dataclass(frozen=True)
class Branches:
    """How many of an area's branches its tests take."""

    taken: int
    of: int


class _Copy:
    """A copy of the repository in which one area is changed."""

    def __init__(self, area: Area, most_s: float) -> None:
        self._area, self._most_s = area, most_s
        self._made = tempfile.TemporaryDirectory(prefix="hil-mutation-")
        self._place = Path(self._made.name)
        self._tree = self._place / "tree"
        self._package = self._tree / area.package
        self._seconds: dict[str, float] = {}

    def __enter__(self) -> _Copy:
        shutil.copytree(ROOT, self._tree, ignore=_LEFT)
        self._cover()
        return self

    def __exit__(self, *error: object) -> None:
        self._made.cleanup()

    @cached_property
    def mutants(self) -> list[Mutant]:
        """All mutants of the area."""
        return mutants(self._package)

    @cached_property
    def _environment(self) -> dict[str, str]:
        paths = [self._tree / "compiler", self._tree, self._tree / "tests" / "support" / "programs"]
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "HIL_CACHE": str(self._place / "cache"),
            "LINE_CONTEXTS": str(self._place / "seconds.json"),
            "TMPDIR": str(self._place),
        }

    def _cover(self) -> None:
        """Run the unchanged area's tests, and learn which of them runs each line."""
        command = [
            "-m", "coverage", "run", "--branch", f"--data-file={self._place / 'coverage'}",
            f"--source={self._package}", "-m", "pytest", "-p", "line_contexts", *_PYTEST,
            *self._area.tests,
        ]  # fmt: skip
        done = subprocess.run(
            [sys.executable, *command], cwd=self._tree, env=self._environment,
            capture_output=True, text=True, errors="replace", timeout=_BASELINE_S,
        )  # fmt: skip
        if done.returncode:
            told = done.stdout[-3000:] + done.stderr[-1000:]
            raise RuntimeError(f"the tests of {self._area.name} fail without a change: {told}")
        self._seconds = json.loads((self._place / "seconds.json").read_text(encoding="utf-8"))
        data = coverage.CoverageData(str(self._place / "coverage"))
        data.read()
        self._contexts = {
            Path(name).relative_to(self._package.resolve()).as_posix(): (
                data.contexts_by_lineno(name)
            )
            for name in data.measured_files()
        }

    def branches(self) -> Branches:
        """Return how many of the area's branches were taken."""
        report = self._place / "branches.json"
        subprocess.run(
            [sys.executable, "-m", "coverage", "json", f"--data-file={self._place / 'coverage'}",
             "-q", "-o", report],
            cwd=self._tree, env=self._environment, check=True,
        )  # fmt: skip
        totals = json.loads(report.read_text(encoding="utf-8"))["totals"]
        return Branches(totals["covered_branches"], totals["num_branches"])

    def attack(self, mutant: Mutant) -> str:
        """Return ``killed``, ``hang`` or ``survived``."""
        path = self._package / mutant.file
        source = path.read_bytes()
        written(path, mutant.apply(source))
        try:
            return self._ended(self._reaching(mutant))
        finally:
            written(path, source)

    def _reaching(self, mutant: Mutant) -> list[str]:
        """Return the tests that run one of its lines, the quickest first.

        What runs at import concerns all of them. What a fixture or a cache keeps for later tests
        is known to the first only, so a survivor may be killed by another: the figure is a bound.
        """
        contexts = self._contexts.get(mutant.file, {})

        def running(lines: range) -> set[str]:
            return {name for line in lines for name in contexts.get(line, ())}

        reach = running(mutant.lines) or running(mutant.statement)
        chosen = [
            test
            for test in self._seconds
            if "" in reach or test in reach or test.partition("::")[0] in reach
        ]
        chosen.sort(key=self._seconds.__getitem__)
        spent = accumulate(self._seconds[test] for test in chosen)
        most = sum(seconds <= self._most_s for seconds in spent)
        return chosen[: max(1, most)]

    def _ended(self, tests: Sequence[str]) -> str:
        if not tests:
            return "survived"
        listed = self._place / "tests.txt"
        listed.write_text("\n".join(tests), encoding="utf-8")
        limit = _START_S + _TIMES * sum(self._seconds[test] for test in tests)
        output = self._place / "output.txt"
        with output.open("w") as file:
            child = subprocess.Popen(
                [sys.executable, "-m", "pytest", "-x", *_PYTEST, f"@{listed}"],
                cwd=self._tree, env=self._environment, stdout=file, stderr=file,
                start_new_session=True,
            )  # fmt: skip
        end = time.monotonic() + limit
        try:
            while child.poll() is None:
                if time.monotonic() > end or _memory(child.pid) > _MEMORY_BYTES:
                    return "hang"
                time.sleep(_LOOK_S)
        finally:
            _end(child)
        return "killed" if child.returncode else "survived"


#: In one process, without the campaigns, with nothing kept from run to run.
_PYTEST = (
    "-q", "-n", "0", "-p", "no:cacheprovider", "-m", "full or not full", "--no-header", "--tb=no",
)  # fmt: skip


def _memory(pid: int) -> int:
    try:
        process = psutil.Process(pid)
        return sum(one.memory_info().rss for one in (process, *process.children(recursive=True)))
    except psutil.NoSuchProcess:
        return 0


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the tests and whatever they have left."""
    try:
        left = psutil.Process(child.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        left = []
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    for one in left:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    child.wait()
