"""A disk of its own for the commands under attack, what they should make, and what they leave."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import json
import mmap
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from torture.field.forked import Command, Ended, Forked

ROOT = Path(__file__).resolve().parents[4]
#: Folders that the child processes import from, beside those of the tests' helpers.
_IMPORTED = (ROOT / "tests" / "campaigns", ROOT / "compiler", ROOT)
DIGITS = ROOT / "examples" / "digits"
MODEL = DIGITS / "digits.tflite"
_HOOKS = ROOT / "tests" / "c" / "hooks" / "hooks.c"
#: Above what any command takes here; the machine may be busy.
LIMIT_S = 120.0
#: How long processes may take to end after the command that started them.
_END_LIMIT_S = 60.0
SAMPLES = 24


class _State(ctypes.Structure):
    """As ``struct state`` of hooks.c."""

    _fields_ = (
        ("disk", ctypes.c_int64),
        ("first", ctypes.c_int64),
        ("last", ctypes.c_int64),
        ("writes", ctypes.c_int64),
        ("period_ms", ctypes.c_int64),
        ("jumps_s", ctypes.c_int64 * 8),
    )


HEALTHY, FULL, READ_ONLY = range(3)
NEVER = 1 << 60


@dataclass(frozen=True)
class Job:
    """A command, and how to read what it made."""

    name: str
    words: Sequence[str]
    #: Of the folder ``out``; raises OSError, ValueError or LookupError where that is not whole.
    result: Callable[[Path], object]
    #: The file in ``out`` that is written at once, if there is one.
    file: str = ""
    #: Whether the model is compiled and the firmware built before.
    is_warm: bool = False


def _reported(*keys: str) -> Callable[[Path], object]:
    def result(out: Path) -> object:
        report = json.loads((out / "stdout.json").read_bytes())
        return {key: report[key] for key in keys}

    return result


def _digest(name: str) -> Callable[[Path], object]:
    return lambda out: hashlib.sha256((out / name).read_bytes()).hexdigest()


def _arrays(name: str) -> Callable[[Path], object]:
    def result(out: Path) -> object:
        with np.load(out / name) as arrays:
            return {key: array.tolist() for key, array in arrays.items()}

    return result


def _evaluation(out: Path) -> object:
    report = json.loads((out / "evaluation.json").read_bytes())
    return {key: report[key] for key in ("samples", "metrics", "mismatches")}


_NATIVE = ("--board", "native", "--json")
JOBS = (
    Job(
        "compile",
        ("compile", str(MODEL), "-o", "out/digits.tar", "--cpu", "cortex-m4", "--json"),
        _digest("digits.tar"),
        "digits.tar",
    ),
    Job(
        "build",
        ("build", str(MODEL), "-o", "out/project", *_NATIVE),
        _digest("project/build/firmware.elf"),
    ),
    Job("run", ("run", str(MODEL), "-o", "out/y.npz", *_NATIVE), _arrays("y.npz"), "y.npz", True),
    Job(
        "verify",
        ("verify", str(MODEL), "--samples", "2", "--board", "mps2-an386", "--json"),
        _reported("match", "outputs"),
        is_warm=True,
    ),
    Job(
        "evaluate",
        (
            *("evaluate", str(MODEL), "--data", "data.npz", "--reference", "hilc"),
            *("-o", "out/evaluation.json", *_NATIVE),
        ),
        _evaluation,
        "evaluation.json",
        is_warm=True,
    ),
    Job(
        "flash",
        ("flash", str(MODEL), "--board", "microbit", "--probe", "virtual", "--json"),
        _reported("board", "programmed", "bytes", "build_id"),
        is_warm=True,
    ),
)


class World:
    """A folder with ``cache``, ``out`` and ``tmp``, and the processes that run commands in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.run_folder = root / "run"
        self._template = root / "template"
        self._state_file = root / "state"
        self._state_file.write_bytes(bytes(mmap.PAGESIZE))
        with self._state_file.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self.state = _State.from_buffer(self._page)
        hooks = root / "hooks.so"
        command = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(hooks), str(_HOOKS), "-ldl"]
        subprocess.run(command, check=True)
        folder = self.run_folder
        self.environment = {
            "LD_PRELOAD": str(hooks),
            "HIL_HOOKS_STATE": str(self._state_file),
            "HIL_HOOKS_PLACES": ":".join(str(folder / name) for name in ("cache", "out", "tmp")),
            "HIL_CACHE": str(folder / "cache"),
            "HIL_CONFIG": str(folder / "config.toml"),
            "TMPDIR": str(folder / "tmp"),
            "SOURCE_DATE_EPOCH": "0",
            "PYTHONPATH": os.pathsep.join(
                map(str, [*sorted((ROOT / "tests/support").iterdir()), *_IMPORTED])
            ),
            "PYTHONDONTWRITEBYTECODE": "1",
            **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"),
        }
        if ccache := shutil.which("ccache"):
            self.environment |= {
                "CMAKE_C_COMPILER_LAUNCHER": ccache,
                "CCACHE_DIR": str(root / "ccache"),
                "CCACHE_NOHASHDIR": "1",
            }
        self._expected: dict[str, object] = {}
        #: Seconds of each job, undisturbed.
        self.seconds: dict[str, float] = {}

    def prepare(self, server: Forked, jobs: Sequence[Job]) -> None:
        """Run every job undisturbed, first to fill the cache and then for what it should make."""
        self._template.mkdir()
        self.fresh(is_warm=False)
        for job in jobs:
            if job.is_warm:
                self._undisturbed(server, job)
        # Jobs that all begin without a cache have made none.
        (self.run_folder / "cache").mkdir(exist_ok=True)
        (self.run_folder / "cache").rename(self._template / "cache")
        for job in jobs:
            self.fresh(is_warm=job.is_warm)
            ended = self._undisturbed(server, job)
            self.seconds[job.name] = ended.seconds
            self._expected[job.name] = job.result(self.run_folder / "out")

    def _undisturbed(self, server: Forked, job: Job) -> Ended:
        ended = self.run(server, job)
        if ended.code != 0:
            raise RuntimeError(f"{job.name} fails undisturbed: {ended.code}, {ended.errors}")
        return ended

    def fresh(self, *, is_warm: bool) -> None:
        """Make the folder anew, with a cache that holds all builds or none."""
        self.heal()
        shutil.rmtree(self.run_folder, ignore_errors=True)
        for name in ("out", "tmp"):
            (self.run_folder / name).mkdir(parents=True)
        if is_warm:
            shutil.copytree(self._template / "cache", self.run_folder / "cache", symlinks=True)
        images = np.load(DIGITS / "digits_test.npz")["image"][:SAMPLES]
        labels = np.load(DIGITS / "digits_labels.npy")[:SAMPLES]
        np.savez(self.run_folder / "data.npz", image=images, labels=labels)

    def fill(self, first: int, last: int = NEVER) -> None:
        """Let the writes from ``first`` to before ``last`` find no room, and count them all."""
        self.state.first, self.state.last, self.state.writes = first, last, 0
        self.state.disk = FULL

    def heal(self) -> None:
        """End all faults."""
        self.state.disk = HEALTHY
        self.state.period_ms = 0

    def begin(self, server: Forked, job: Job) -> Command:
        output = self.run_folder / "out" / "stdout.json"
        disk = self.state.disk
        self.state.disk = HEALTHY
        output.write_bytes(b"")
        self.state.disk = disk
        return server.begin(job.words, self.run_folder, output)

    def run(self, server: Forked, job: Job) -> Ended:
        return self.begin(server, job).ended(LIMIT_S)

    # -- what is wrong after a command

    def wrong_end(self, job: Job, ended: Ended, codes: Sequence[int]) -> str:
        """Return what is wrong in how a disturbed command ended; empty if nothing is.

        It may fail with one of ``codes``. What it reports or leaves as whole must be right.
        """
        if ended.code is None:
            return f"no end within {LIMIT_S:g} s"
        if "Traceback" in ended.errors or ended.code not in (0, *codes):
            return f"exit code {ended.code}: {ended.errors[-1500:]}"
        if ended.code == 0:
            return self.wrong_result(job)
        if job.file and (self.run_folder / "out" / job.file).exists():
            return self.wrong_result(job)
        return "" if ended.errors.strip() else f"exit code {ended.code} without a message"

    def wrong_result(self, job: Job) -> str:
        try:
            result = job.result(self.run_folder / "out")
        except (OSError, ValueError, LookupError) as error:
            return f"a result that is not whole: {error!r}"
        return "" if result == self._expected[job.name] else "a wrong result"

    def wrong_again(self, server: Forked, job: Job) -> str:
        """Run the job undisturbed; return what is wrong with it or with what is left then."""
        self.heal()
        ended = self.run(server, job)
        if ended.code != 0:
            return f"the next run: exit code {ended.code}: {ended.errors[-1500:]}"
        if wrong := self.wrong_result(job):
            return f"the next run: {wrong}"
        if left := self.left():
            return f"left after the next run: {', '.join(left[:5])}"
        return ""

    def left(self) -> list[str]:
        """Return temporary and partial files, held locks and processes that nobody needs."""
        found = [str(path.relative_to(self.run_folder)) for path in self._temporary()]
        found += [f"lock {path.name}" for path in self._held_locks()]
        return found + self.processes()

    def _temporary(self) -> Iterator[Path]:
        yield from (self.run_folder / "tmp").rglob("*")
        for name in ("cache", "out"):
            yield from (self.run_folder / name).rglob(".hil-*")

    def _held_locks(self) -> Iterator[Path]:
        for path in (self.run_folder / "cache" / "locks").glob("*"):
            with path.open() as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    yield path

    def processes(self, limit_s: float = _END_LIMIT_S) -> list[str]:
        """Return the processes that commands started and that do not end within the limit."""
        deadline = time.monotonic() + limit_s
        while (found := list(self._running())) and time.monotonic() < deadline:
            time.sleep(0.02)
        return found

    def _running(self) -> Iterator[str]:
        mark = f"HIL_HOOKS_STATE={self._state_file}\0".encode()
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (place / "environ").read_bytes() + b"\0":
                    words = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                    stat = (place / "stat").read_text().rpartition(")")[2].split()
                    # The processes that fork commands are children of this one.
                    if int(stat[1]) != os.getpid() and stat[0] != "Z":
                        yield f"process {place.name}: {words}"


@contextmanager
def world() -> Iterator[World]:
    """Yield a world that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="field-") as folder:
        made = World(Path(folder).resolve())
        (made.run_folder / "tmp").mkdir(parents=True)
        try:
            yield made
        finally:
            made.heal()
            # A compiler of a command that was killed may still write here.
            made.processes()


def spread(total: int, most: int, dice: Any) -> list[int]:
    """Return at most ``most`` of the numbers below ``total``: one of each equal part."""
    if total <= most:
        return list(range(total))
    edges = [total * part // most for part in range(most + 1)]
    return [dice.randrange(low, high) for low, high in zip(edges, edges[1:], strict=False)]


@contextmanager
def changed_environment(values: Mapping[str, str]) -> Iterator[None]:
    """Have these variables in the environment of this process for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
