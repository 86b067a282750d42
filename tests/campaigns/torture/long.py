"""Four emulated boards at work for a long time: what grows, what is left behind."""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

import hil
import hilc
from hil.board import load_board
from hil.errors import HilError
from hil.oracle import reference_of
from hilc.artifact.library import ModelLibrary
from hilc.ir import Array
from torture.campaign import Budget, Figures, Finding

TITLE = "Long use"
ABOUT = """Four emulated boards compute for the time below, two with their tensors in the board's
memory and two over the serial line; each result is compared. Meanwhile a fifth board is opened,
used and closed repeatedly. Memory and descriptors are recorded whenever the fifth board is closed;
the table has the medians of the first and of the last quarter. Findings: growth, and processes,
ports, threads and temporary files that remain when all boards are closed."""

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits"
#: Boards, and whether their tensors use the board's memory.
STEADY = (
    ("mps2-an386", True),
    ("mps3-an547", False),
    ("netduinoplus2", True),
    ("riscv-virt", False),
)
#: Opened and closed in turn.
PASSING = ("lm3s6965evb", "mps2-an505", "native")
#: Between two inferences of a board: the campaign leaves the cores to others.
PAUSE_S = 0.5
#: More is growth.
GROWTH_BYTES = 4 << 20


@dataclass
class Load:
    """What the boards did; written by one thread each."""

    right: int = 0
    wrong: int = 0
    errors: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Sample:
    """What the processes hold, while the four boards are open and the fifth is not."""

    rss: int
    descriptors: int
    threads: int
    #: Memory of the emulators, by machine.
    emulators: dict[str, int]


def _work(name: str, bulk: bool, case: Case, load: Load, stop: threading.Event) -> None:
    try:
        with hil.open(name, case.library(name), bulk=bulk) as device:
            (model,) = device.models.values()
            number = 0
            while not stop.is_set():
                sample, known = case.numbered(number)
                model.set_input(0, sample)
                model.run()
                equal = np.array_equal(model.get_output(0), known)
                load.right, load.wrong = load.right + equal, load.wrong + (not equal)
                device.memory()
                number += 1
                stop.wait(PAUSE_S)
    except HilError as error:
        load.errors.append(f"{name}: {error}")


class Case:
    """The digits model with inputs and their results."""

    def __init__(self) -> None:
        self._libraries: dict[str, ModelLibrary] = {}
        self._turn = threading.Lock()
        self._images = np.load(DIGITS / "digits_test.npz")["image"][:50]
        library = self.library("mps2-an386")
        (module,) = library.modules
        reference = reference_of(library, module)
        self._known = [
            reference.values(index, {"image": image[np.newaxis]})[module.outputs[0].name]
            for index, image in enumerate(self._images)
        ]

    def library(self, board: str) -> ModelLibrary:
        """Return the model, compiled for a board."""
        with self._turn:
            if board not in self._libraries:
                self._libraries[board] = hilc.compile(
                    DIGITS / "digits.tflite",
                    cpu=load_board(board).cpu.name,
                    pools="external",
                    io_in_pool=True,
                )
            return self._libraries[board]

    def numbered(self, number: int) -> tuple[Array, Array]:
        """Return an input and its result."""
        at = number % len(self._images)
        return self._images[at][np.newaxis], self._known[at]


def _sample() -> Sample:
    me = psutil.Process()
    emulators = {}
    for child in me.children(recursive=True):
        words = child.cmdline()
        if "-machine" in words:
            emulators[words[words.index("-machine") + 1]] = child.memory_info().rss
    return Sample(me.memory_info().rss, me.num_fds(), me.num_threads(), emulators)


def _validity() -> tuple[int, int, int, int]:
    """Return how many children, listening ports, descriptors and threads there are."""
    me = psutil.Process()
    listening = [c for c in me.net_connections("inet") if c.status == psutil.CONN_LISTEN]
    return len(me.children(recursive=True)), len(listening), me.num_fds(), me.num_threads()


def run(budget: Budget) -> Figures:
    """Use the boards for a minute, or for two hours."""
    seconds = float(budget.count(minutes=60, hours=2 * 3600))
    round_s = min(20.0, seconds / 12)
    temporary = budget.folder / "tmp"
    temporary.mkdir()
    before_folder, before_variable = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir = os.environ["TMPDIR"] = str(temporary)
    try:
        case = Case()
        # What the first use of anything keeps (modules, caches) is no growth.
        for name in (*PASSING, *(name for name, _ in STEADY)):
            _use_once(name, case)
        before = _validity()
        loads, samples, passed, lasted_s = _use(case, budget, seconds, round_s)
        time.sleep(1.0)
        after = _validity()
    finally:
        tempfile.tempdir = before_folder
        os.environ.pop("TMPDIR")
        if before_variable is not None:
            os.environ["TMPDIR"] = before_variable
    left = sorted(str(path.relative_to(temporary)) for path in temporary.rglob("*"))
    if not left:
        temporary.rmdir()
    return _figures(budget, loads, samples, passed, lasted_s, before, after, left)


def _use_once(name: str, case: Case) -> None:
    with hil.open(name, case.library(name)) as device:
        (model,) = device.models.values()
        model.set_input(0, case.numbered(0)[0])
        model.run()
        model.get_output(0)


def _use(
    case: Case, budget: Budget, seconds: float, round_s: float
) -> tuple[list[Load], list[Sample], int, float]:
    stop = threading.Event()
    loads = [Load() for _ in STEADY]
    threads = [
        threading.Thread(target=_work, args=(name, bulk, case, load, stop))
        for (name, bulk), load in zip(STEADY, loads, strict=True)
    ]
    samples = []
    passed = 0
    start = time.monotonic()
    try:
        for thread in threads:
            thread.start()
        with budget.until_stopped():
            while time.monotonic() < start + seconds and not any(load.errors for load in loads):
                begin = time.monotonic()
                _use_once(PASSING[passed % len(PASSING)], case)
                passed += 1
                stop.wait(max(0.0, begin + round_s - time.monotonic()))
                samples.append(_sample())
    finally:
        stop.set()
        for thread in threads:
            thread.join(300)
    return loads, samples, passed, time.monotonic() - start


def _figures(
    budget: Budget,
    loads: Sequence[Load],
    samples: Sequence[Sample],
    passed: int,
    lasted_s: float,
    before: tuple[int, ...],
    after: tuple[int, ...],
    left: Sequence[str],
) -> Figures:
    how = f"python tools/measure.py torture long --seed {budget.seed}"
    findings = [Finding(f"a board failed: {text}", how) for load in loads for text in load.errors]
    if wrong := sum(load.wrong for load in loads):
        findings.append(Finding(f"{wrong} wrong results", how))
    quarter = max(1, len(samples) // 4)
    first, last = samples[:quarter], samples[-quarter:]
    rows = []

    def compare(what: str, values: Sequence[Sequence[float]], unit: float, limit: float) -> None:
        begin, end = (statistics.median(part) for part in values)
        digits = 0 if unit == 1 else 1
        rows.append([what, f"{begin / unit:.{digits}f}", f"{end / unit:.{digits}f}"])
        if end > begin + limit:
            findings.append(Finding(f"{what} grew from {begin:.0f} to {end:.0f}", how))

    parts = (first, last)
    compare(
        "memory of the harness, MiB", [[s.rss for s in p] for p in parts], 1 << 20, GROWTH_BYTES
    )
    for machine in sorted(samples[0].emulators if samples else ()):
        memory = [[s.emulators.get(machine, 0) for s in part] for part in parts]
        compare(f"memory of QEMU's {machine}, MiB", memory, 1 << 20, GROWTH_BYTES)
    compare("descriptors", [[s.descriptors for s in part] for part in parts], 1, 0)
    compare("threads", [[s.threads for s in part] for part in parts], 1, 0)
    for what, earlier, later in zip(
        ("processes", "listening ports", "descriptors", "threads"), before, after, strict=True
    ):
        rows.append([f"{what} when all boards are closed", str(earlier), str(later)])
        if later > earlier:
            findings.append(Finding(f"{later - earlier} {what} are left", how))
    rows.append(["temporary files when all boards are closed", "0", str(len(left))])
    if left:
        findings.append(Finding(f"{len(left)} temporary files are left, such as {left[0]}", how))
    right = sum(load.right for load in loads)
    return Figures(
        ["", "first quarter", "last quarter"],
        rows,
        findings,
        [
            f"{lasted_s / 60:.0f} min: {right:,} inferences on {len(STEADY)} boards, all right; "
            f"{passed} times another board was opened, used and closed."
            if not wrong
            else f"{lasted_s / 60:.0f} min: {right:,} inferences right, {wrong} wrong."
        ],
    )
