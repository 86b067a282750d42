"""Rounds on a bench of fake boards: faults and interruptions, and an oracle that knows the results.

In each round a pytest suite with several workers and some commands use all boards at once, while
boards are unplugged, appear late, return under other names, are dead, locked, keep another firmware
or compute wrong results, and while workers and commands are killed or cancelled. What each board
may answer follows from what was done to it (:data:`ALLOWED`); everything else is a finding. After
the round every board must answer, every lock must be free, and no process or file may be left.

    with rounds(seed=1) as campaign:
        campaign.round(0)
        print(campaign.findings, campaign.uses, campaign.events)

Round ``n`` of a seed always has the same plan; how far a process is when it is killed depends on
the machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TextIO, TypeAlias
from unittest import mock

import psutil
from bench_programs import BOARD_ID, FAMILY, Bootloaders, program
from descriptions import description_text
from fake_bench import Bench, FakeBoard, bench
from tiny_library import tiny_library
from waiting import PATIENCE_S

from hil.access.board_lock import try_lock
from hil.board import load_board
from hil.build import build
from hil.firmware.image import read_image
from hil.firmware.sources import ModelOptions, ModelSource, load_library

ROOT: Final = Path(__file__).resolve().parents[3]
DIGITS: Final = ROOT / "examples" / "digits" / "digits.tflite"
#: Longest time of a command, and of the suite: whatever still runs then hangs.
HANG_S: Final = 900.0
#: Longest time until what is left of ended processes must be gone.
GONE_S: Final = PATIENCE_S
#: More in the folder of temporary files after a round is too much: what killed processes left is
#: removed by the next ones.
TEMPORARY_BYTES: Final = 64 << 20
#: The cache may grow by so much over all rounds after the first builds.
CACHE_BYTES: Final = 16 << 20
_LOOK_S: Final = 0.05
_WATCH_S: Final = 0.4
#: Bytes of the constants that a board flips.
_FLIPPED_BYTES: Final = 64
#: What the plugin says of results that are wrong.
_DIFFER: Final = re.compile(r"differ")
_MARK: Final = "HIL_FAKE_BENCH"

SUITE: Final = """
import pytest

{small}@pytest.mark.hil(model="digits.tflite", optimize="size")
{small}@pytest.mark.parametrize("job", range({jobs}))
{small}def test_small(hil_verify, job):
{small}    hil_verify(2, seed=job)

@pytest.mark.hil(model="digits.tflite")
@pytest.mark.parametrize("job", range({jobs}))
def test_default(hil_verify, job):
    hil_verify(2, seed=job)
"""
CONFTEST: Final = """
from pathlib import Path
from fake_bench import installed

FOLDER = Path({folder!r})
_bench = installed(FOLDER)
_bench.__enter__()

def pytest_runtest_logstart():
    (FOLDER / "begun").touch()
"""


@dataclass(frozen=True)
class Kind:
    """Boards of one description."""

    description: str
    flasher: str
    #: Names in the bench file.
    names: tuple[str, ...]


#: The bench: ten boards of six kinds, which three flashers program.
KINDS: Final = (
    Kind("mps2-an385", "pyocd", ("m3-1",)),
    Kind("mps2-an386", "pyocd", ("m4-1", "m4-2")),
    Kind("mps2-an500", "pyocd", ("m7-1", "m7-2")),
    Kind("lockable", "pyocd", ("lock-1",)),
    Kind("by-command", "command", ("cmd-1", "cmd-2")),
    Kind("by-drive", "uf2", ("uf2-1", "uf2-2")),
)
#: A bench for a short test.
FEW: Final = (
    Kind("mps2-an386", "pyocd", ("m4-1",)),
    Kind("by-command", "command", ("cmd-1", "cmd-2")),
)

#: What a use of a board may come to, by what was done to the board.
ALLOWED: Final = {
    "sound": {"match"},
    "late": {"match"},
    "unplugged": {"match", "failed"},
    "renamed": {"match", "failed"},
    "dead": {"failed"},
    "locked": {"failed"},
    "other firmware": {"failed"},
    "wrong results": {"differ"},
}
#: What the error must say.
SAID: Final = {"locked": "locked", "other firmware": "runs firmware|did not start the firmware"}


@dataclass(frozen=True)
class Use:
    """A result: of a test, or of a command."""

    by: str
    #: Name of the board in the bench file; empty if it used none.
    board: str
    #: ``match``, ``differ``, ``failed``, ``cancelled``, ``crashed`` (its worker was killed), or
    #: ``wrong`` for what no use may come to.
    outcome: str
    text: str = ""


#: A command: its board, its start in seconds, and the signal that cancels it some seconds later.
Command: TypeAlias = tuple[str, float, signal.Signals | None, float]


@dataclass
class Plan:
    """What is done in a round."""

    #: What is done to each board: a key of ALLOWED.
    boards: dict[str, str]
    #: Whether the suite names each board, or properties that several have.
    is_pool: bool
    commands: list[Command]
    #: Times at which boards are unplugged, and for how long.
    unplugged: dict[str, tuple[float, float]] = field(default_factory=dict)
    #: When a worker of the suite is killed, and which one of them; None for none.
    kill: tuple[float, int] | None = None
    #: The signal that cancels the suite, and when; None for none.
    cancel: tuple[signal.Signals, float] | None = None
    #: Whether the suite has two firmwares, so that boards are programmed again and again.
    has_two: bool = False


def plan(dice: random.Random, kinds: Sequence[Kind]) -> Plan:
    """Return what is done in a round; at least a third of the boards are sound."""
    names = [name for kind in kinds for name in kind.names]
    flashers = {name: kind.flasher for kind in kinds for name in kind.names}
    left = dice.sample(names, len(names))
    boards = dict.fromkeys(names, "sound")

    def take(what: str, chance: float, of: Callable[[str], bool] = bool) -> str | None:
        name = next((name for name in left if of(name)), None)
        if name is None or dice.random() >= chance or 3 * (len(left) - 1) < len(names):
            return None
        left.remove(name)
        boards[name] = what
        return name

    def by_program(name: str) -> bool:
        return flashers[name] != "pyocd"

    take("locked", 0.6, lambda name: name.startswith("lock"))
    take("wrong results", 0.8, by_program)
    take("other firmware", 0.5, by_program)
    take("dead", 0.6)
    unplugged: dict[str, tuple[float, float]] = {}
    for what, chance, first in (("late", 0.8, 0.0), ("unplugged", 0.8, 1.0)):
        if name := take(what, chance):
            unplugged[name] = (dice.uniform(first, 20 * first), dice.uniform(2, 12))
    if len(left) * 3 >= len(names) + 6 and dice.random() < 0.6:
        # Each returns when the other one has gone, and may get its name.
        at_s = dice.uniform(1, 20)
        for number, name in enumerate(left[:2]):
            boards[name] = "renamed"
            unplugged[name] = (at_s, 3.0 - number)
    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)
    commands: list[Command] = []
    for number in range(3):
        cancel = dice.choice(signals) if number else None
        commands.append((dice.choice(names), dice.uniform(0, 15), cancel, dice.uniform(0.3, 12)))
    kill = (dice.uniform(4, 30), dice.randrange(4)) if dice.random() < 0.6 else None
    has_two = dice.random() < 0.5
    cancel_suite = (dice.choice(signals[:2]), dice.uniform(5, 30)) if dice.random() < 0.15 else None
    return Plan(boards, dice.random() < 0.5, commands, unplugged, kill, cancel_suite, has_two)


@dataclass
class Campaign:
    """The bench, and what its rounds came to."""

    rig: Bench
    kinds: Sequence[Kind]
    seed: int
    workers: int
    #: A planted fault of the bench or of hil, which the oracle must find: ``locks`` or ``wires``.
    planted: str = ""
    #: Tests of each function of the suite.
    jobs: int = 4
    #: Where every use is written.
    log: TextIO | None = None
    boards: dict[str, FakeBoard] = field(default_factory=dict)
    findings: list[tuple[str, str]] = field(default_factory=list)
    #: Uses by what was done to the board, and outcome.
    uses: Counter[tuple[str, str]] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    _cache_bytes: int = 0
    _loaders: Bootloaders | None = None
    _other: dict[str, Path] = field(default_factory=dict)
    _round: int = 0
    #: By how much this machine is slower than the one for which plans have their seconds.
    slowness: float = 1.0

    # -- the bench -------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """The folder of the bench, of the caches and of all temporary files."""
        return self.rig.folder

    def set_up(self) -> None:
        """Add the boards, write the bench file, and let every board run the model once."""
        for name in ("cache", "tmp", "suite", "boards"):
            (self.folder / name).mkdir()
        self._loaders = Bootloaders(self.rig)
        entries, programs = [], []
        for kind in self.kinds:
            description = self._description(kind)
            for name in kind.names:
                entries.append(self._add(kind, name, description))
            if kind.flasher == "command":
                words = [sys.executable, str(Path(__file__).with_name("bench_programs.py"))]
                words.append(str(self.folder))
                programs += [
                    f"[boards.{kind.description}.command]",
                    f"program = {json.dumps([*words, 'program', '{port}', '{hex}'])}",
                    f"reset = {json.dumps([*words, 'reset', '{port}'])}",
                ]
        (self.folder / "hil-bench.toml").write_text("\n".join(entries))
        (self.folder / "config.toml").write_text("\n".join([*programs, ""]))
        shutil.copyfile(DIGITS, self.folder / "suite" / "digits.tflite")
        conftest = CONFTEST.format(folder=str(self.folder))
        (self.folder / "suite" / "conftest.py").write_text(conftest)
        self._prepare_faults()
        self._require_all_back()
        self._cache_bytes = _nbytes(self.folder / "cache")

    def _description(self, kind: Kind) -> str:
        """Return the board as the bench file names it; write the description if it is own."""
        flash = {
            "by-command": ("mps2-an386", 'name = "command"\ntimeout_s = 60\n'),
            "by-drive": (
                "mps2-an385",
                f'name = "uf2"\nfamily = {FAMILY}\nboard_id = "{BOARD_ID}"\ntouch = true\n'
                "start_s = 30\nappear_s = 30\n",
            ),
        }
        if kind.description == "lockable":
            text = description_text("microbit")
        elif kind.description in flash:
            base, flasher = flash[kind.description]
            text = description_text(base).partition("[[flasher]]")[0] + f"[[flasher]]\n{flasher}"
        else:
            return kind.description
        path = self.folder / "boards" / f"{kind.description}.toml"
        path.write_text(text)
        return f"./boards/{path.name}"

    def _add(self, kind: Kind, name: str, description: str) -> str:
        """Add a board; return its lines of the bench file."""
        spec = description
        if description.endswith(".toml"):
            spec = str(self.folder / description)
        serial = f"FAKE{len(self.boards):08}"
        board = self.rig.add(spec, serial, plugged=False, has_probe=kind.flasher == "pyocd")
        board.plug()
        self.boards[name] = board
        lines = [f"[boards.{name}]", f'board = "{description}"', f'runner = "{kind.flasher}"']
        lines.append(f'port = "usb:{serial}"')
        if kind.flasher == "pyocd":
            lines.append(f'probe = "{serial}"')
        elif kind.flasher == "uf2":
            assert self._loaders is not None, "it is made before"
            lines.append(f'probe = "{self._loaders.add(board)}"')
        return "\n".join([*lines, ""])

    def _prepare_faults(self) -> None:
        """Find constants that boards flip, and build firmware that they have instead."""
        flipped = []
        for kind in self.kinds:
            if kind.flasher == "pyocd":
                continue
            board = load_board(self.boards[kind.names[0]].board.path)
            tiny = tiny_library("y[0] = x[0];", cpu=board.cpu.name)
            self._other[kind.description] = build([tiny], board).elf
            for options in ({}, {"optimize": "size"}):
                chosen = ModelOptions(board.cpu.name, dict(options), board=board)
                library = load_library(ModelSource(DIGITS, None), chosen)
                flipped.append(_constants(build([library], board).elf).hex())
        self.rig.flipped = tuple(dict.fromkeys(flipped))
        self.rig.publish()

    def close(self) -> None:
        """End the boot loaders; the bench ends the machines."""
        if self._loaders is not None:
            self._loaders.close()

    @property
    def environment(self) -> dict[str, str]:
        """The variables of every process of the campaign."""
        tests = ROOT / "tests" / "support"
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "HIL_"))}
        return {
            **kept,
            "HIL_BENCH": str(self.folder / "hil-bench.toml"),
            "HIL_CACHE": str(self.folder / "cache"),
            "TMPDIR": str(self.folder / "tmp"),
            "PYTHONPATH": os.pathsep.join(
                [str(tests / "boards"), str(tests / "harness"), os.environ.get("PYTHONPATH", "")]
            ),
            _MARK: str(self.folder),
            **({"FAKE_BENCH_LOCKS": "own"} if self.planted == "locks" else {}),
        }

    # -- a round ---------------------------------------------------------------------------------

    def round(self, number: int, chosen: Plan | None = None) -> None:
        """Do round ``number``, judge its results, and look at what it leaves.

        ``chosen`` replaces the plan that the seed makes for it.
        """
        self._round = number
        done = chosen or plan(random.Random(f"{self.seed} {number}"), self.kinds)
        self._apply(done)
        with contextlib.ExitStack() as stack:
            uses = _Uses(self, done, stack)
            uses.run()
        for use in uses.results():
            self._judge(use, done)
        self._repair()
        self._look_at_rest()
        self._require_all_back()
        self.events["rounds"] += 1

    def found(self, what: str) -> None:
        """Add a finding of the current round."""
        self.findings.append((what, f"seed {self.seed}, round {self._round}"))
        print(f"FOUND in round {self._round} of seed {self.seed}: {what}", file=sys.stderr)

    def _apply(self, done: Plan) -> None:
        kind_of = {name: kind for kind in self.kinds for name in kind.names}
        for name, what in done.boards.items():
            board = self.boards[name]
            if what != "sound":
                self.events[what] += 1
            if what == "locked":
                board.is_locked = True
            elif what == "wrong results":
                board.fault = "flip"
            elif what == "other firmware":
                segments = read_image(self._other[kind_of[name].description])
                program(board.machine, "", (), [(part.address, part.data) for part in segments])
                board.fault = "pretend"
            elif what == "dead":
                board.die()
            elif what == "late":
                board.unplug()
        self.rig.publish()
        if self.planted == "wires":
            # Two boards without a probe, of which one answers for the other.
            wrong, right = self.boards["cmd-1"], self.boards["cmd-2"]
            right.ports[0].wired_to = wrong

    def _judge(self, use: Use, done: Plan) -> None:
        if use.outcome == "wrong":
            self.found(f"{use.by}: {use.text}")
            return
        if not use.board:
            self.uses["no board", use.outcome] += 1
            return
        if use.board not in done.boards:
            self.found(f"{use.by}: {use.outcome} on {use.board!r}, which is no board: {use.text}")
            return
        what = done.boards[use.board]
        self.uses[what, use.outcome] += 1
        if use.outcome in ("cancelled", "crashed"):
            return
        text = " ".join(use.text.split())[:600]
        if self.log is not None:
            print(f"{use.by} on {use.board} ({what}): {use.outcome} {text}", file=self.log)
        if use.outcome not in ALLOWED[what]:
            self.found(f"{use.by} on {use.board} ({what}): {use.outcome}: {text}")
        elif what in SAID and not re.search(SAID[what], use.text):
            self.found(f"{use.by} on {use.board} ({what}) does not say so: {text}")
        elif use.outcome == "failed" and not text:
            self.found(f"{use.by} on {use.board} ({what}) failed without a cause")

    def _repair(self) -> None:
        """Take every planted fault back."""
        for board in self.boards.values():
            board.is_locked = False
            board.fault = ""
            board.ports[0].wired_to = board
            if board.is_dead:
                board.revive()
            if not board.is_plugged:
                board.plug()
        self.rig.publish()

    def _look_at_rest(self) -> None:
        """Look for processes, locks and files that the round leaves."""
        deadline = time.monotonic() + GONE_S
        while (left := self._processes()) and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        for process in left:
            with contextlib.suppress(psutil.Error):
                self.found(f"a process is left: {' '.join(process.cmdline())[:300]}")
                process.kill()
        for path in (self.folder / "locks").glob("*.lock"):
            lock = try_lock(path)
            if lock is None:
                self.found(f"a lock is left: {path.read_text(errors='replace')}")
            else:
                lock.close()
        grown = _nbytes(self.folder / "cache") - self._cache_bytes
        if self._cache_bytes and grown > CACHE_BYTES:
            self.found(f"the cache grew by {grown} bytes")
        if (left_bytes := _nbytes(self.folder / "tmp")) > TEMPORARY_BYTES:
            self.found(f"{left_bytes} bytes of temporary files are left")

    def _processes(self) -> list[psutil.Process]:
        """Return the processes of users of the bench, which have its mark."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(_MARK) == str(self.folder):
                    found.append(process)
        return found

    def _require_all_back(self) -> None:
        """Let every board verify the model."""
        names = [word for name in self.boards for word in ("--board", f"{name}@bench")]
        words = ["verify", str(DIGITS), *names, "--samples", "1", "--json", "--wait", "60"]
        log = self.folder / "back.txt"
        begin = time.monotonic()
        with log.open("w") as errors:
            try:
                done = subprocess.run(
                    [*self.rig.hil, *words],
                    env=self.environment,
                    cwd=self.folder / "suite",
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    timeout=HANG_S,
                )
            except subprocess.TimeoutExpired:
                self.found(f"not every board is back within {HANG_S:g} s: {_tail(log)}")
                return
        # As on the bench's first run: about two seconds for each board.
        self.slowness = max(1.0, (time.monotonic() - begin) / (2 * len(self.boards)))
        if done.returncode != 0:
            self.found(f"not every board is back: {done.stdout.decode()[-400:]} {_tail(log)}")


class _Uses:
    """The suite and the commands of a round."""

    def __init__(self, campaign: Campaign, done: Plan, stack: contextlib.ExitStack) -> None:
        self._campaign = campaign
        self._plan = done
        self._stack = stack
        self._rig = campaign.rig
        self._suite = campaign.folder / "suite"
        self._report = campaign.folder / "report.xml"
        self._report.unlink(missing_ok=True)
        (campaign.folder / "begun").unlink(missing_ok=True)  # of the round before
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._boards: dict[str, str] = {}
        self._cancelled: set[str] = set()
        self._killed = False
        self._conflicts: set[str] = set()

    # -- running

    def run(self) -> None:
        """Run everything to its end."""
        self._start_suite()
        begin = self._begin()
        agenda = self._agenda()
        watched = 0.0
        while agenda or any(p.poll() is None for p in self._processes.values()):
            now = time.monotonic() - begin
            while agenda and agenda[0][0] <= now:
                agenda.pop(0)[1]()
            if now - watched > _WATCH_S:
                watched = now
                self._watch_ports()
            if now > HANG_S:
                for name, process in self._processes.items():
                    if process.poll() is None:
                        said = _tail(self._log(name))
                        self._campaign.found(f"{name} hangs after {HANG_S:g} s: {said}")
                        process.send_signal(signal.SIGKILL)
                break
            time.sleep(_LOOK_S)

    def _begin(self) -> float:
        """Return when the first test of the suite began: that is when the plan begins."""
        begun, limit = self._campaign.folder / "begun", time.monotonic() + HANG_S
        while not begun.exists() and time.monotonic() < limit:
            if self._processes["suite"].poll() is not None:
                break
            time.sleep(_LOOK_S)
        begun.unlink(missing_ok=True)
        return time.monotonic()

    def _agenda(self) -> list[tuple[float, Callable[[], None]]]:
        """Return what is done when, in order; on a busy machine everything is later."""
        done, boards = self._plan, self._campaign.boards
        agenda: list[tuple[float, Callable[[], None]]] = []
        for number, (name, start_s, cancel, after_s) in enumerate(done.commands):
            label = f"command {number}"
            self._boards[label] = name
            agenda.append((start_s, partial(self._start_hil, label, name)))
            if cancel is not None:
                agenda.append((start_s + after_s, partial(self._cancel, label, cancel)))
        for name, (at_s, away_s) in done.unplugged.items():
            if done.boards[name] != "late":
                agenda.append((at_s, boards[name].unplug))
            agenda.append((at_s + away_s, boards[name].plug))
        if done.kill is not None:
            at_s, which = done.kill
            agenda.append((at_s, partial(self._kill_worker, which)))
        if done.cancel is not None:
            cancel, at_s = done.cancel
            agenda.append((at_s, partial(self._cancel, "suite", cancel)))
        slowness = self._campaign.slowness
        return sorted(((at * slowness, do) for at, do in agenda), key=lambda entry: entry[0])

    def _log(self, label: str) -> Path:
        return self._campaign.folder / f"{label.replace(' ', '-')}.txt"

    def _start(self, label: str, words: Sequence[str]) -> None:
        environment = self._campaign.environment
        out = self._stack.enter_context(self._log(label).open("wb"))
        answer = self._stack.enter_context(self._log(f"{label} answer").open("wb"))
        self._processes[label] = process = subprocess.Popen(
            words, env=environment, cwd=self._suite, stdout=answer, stderr=out
        )
        self._stack.callback(_end, process)

    def _start_suite(self) -> None:
        campaign, done = self._campaign, self._plan
        text = SUITE.format(jobs=campaign.jobs, small="" if done.has_two else "# ")
        (self._suite / "test_bench.py").write_text(text)
        specs = self.specs()
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rA"]
        words += ["-n", str(campaign.workers), "--tb=short", "-o", "junit_family=xunit1"]
        words += [f"--junit-xml={self._report}", f"--basetemp={campaign.folder}/tmp/pytest"]
        words += ["--hil-wait", "120", "--hil-retries", "4" if done.is_pool else "1"]
        words += [word for spec in specs for word in ("--hil-board", spec)]
        self._start("suite", words)

    def specs(self) -> list[str]:
        """Return the boards that the suite names."""
        boards = self._campaign.boards
        if not self._plan.is_pool:
            return [f"{name}@bench" for name in boards]
        arches = dict.fromkeys(board.board.cpu.arch for board in boards.values())
        return [f"arch={arch}@bench" for arch in arches]

    def _start_hil(self, label: str, name: str) -> None:
        words = ["verify", str(DIGITS), "--board", f"{name}@bench", "--samples", "2", "--json"]
        hil = self._rig.hil
        self._start(label, [*hil, *words, "--wait", "300", "--no-history"])

    def _cancel(self, label: str, number: signal.Signals) -> None:
        process = self._processes[label]
        if process.poll() is None:
            self._cancelled.add(label)
            self._campaign.events[f"{label.partition(' ')[0]} {number.name}"] += 1
            process.send_signal(number)

    def _kill_worker(self, which: int) -> None:
        controller = self._processes["suite"]
        with contextlib.suppress(psutil.Error):
            children = psutil.Process(controller.pid).children()
            workers = sorted((c for c in children if "-u" in c.cmdline()), key=lambda c: c.pid)
            if workers:
                workers[which % len(workers)].kill()
                self._killed = True
                self._campaign.events["worker SIGKILL"] += 1

    def _watch_ports(self) -> None:
        """Look whether two processes have one port open."""
        with self._rig.lock:
            ports = {
                os.ttyname(port.slave): name
                for name, board in self._campaign.boards.items()
                for port in board.ports
                if port.slave >= 0
            }
        users: dict[str, dict[int, psutil.Process]] = {}
        with contextlib.suppress(psutil.Error):
            for process in psutil.Process().children(recursive=True):
                for path in _open_files(process.pid) & ports.keys():
                    users.setdefault(path, {})[process.pid] = process
        for path, found in users.items():
            # A child that is just being started has its parent's files until it runs its program.
            own = [p for p in found.values() if not _has_parent_in(p, found)]
            still = [p for p in own if path in _open_files(p.pid)]
            if len(still) < 2 or ports[path] in self._conflicts:
                continue
            self._conflicts.add(ports[path])
            lines = "; ".join(" ".join(_command(p))[-160:] for p in still)
            self._campaign.found(f"{len(still)} processes have the port of {ports[path]}: {lines}")

    # -- results

    def results(self) -> Iterator[Use]:
        """Yield the outcome of every command and every test."""
        for label, name in self._boards.items():
            yield self._of_command(label, name)
        yield from self._of_suite()

    def _of_command(self, label: str, name: str) -> Use:
        process = self._processes[label]
        code = process.wait()
        said = self._log(f"{label} answer").read_text(errors="replace")
        errors = self._log(label).read_text(errors="replace")
        signals = {-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, 130, 143}
        if label in self._cancelled and code in signals:
            return Use(label, name, "cancelled")
        try:
            answer = json.loads(said)
            results = answer["results"]
            match = [entry["match"] for entry in results if "match" in entry]
            # The entry of a board that failed has the error; the answer, if no board was there.
            errors_of = [one["error"]["message"] for one in [answer, *results] if one.get("error")]
        except (ValueError, KeyError, TypeError):
            return Use(label, name, "wrong", f"ended with {code}: {said[-300:]} {errors[-600:]}")
        if code == 0 and match == [True]:
            return Use(label, name, "match")
        if code == 1 and match == [False]:
            return Use(label, name, "differ")
        if code == 4 and not match and errors_of:
            return Use(label, name, "failed", "\n".join(errors_of))
        return Use(label, name, "wrong", f"ended with {code}: {said[-600:]} {errors[-600:]}")

    def _of_suite(self) -> Iterator[Use]:
        code = self._processes["suite"].wait()
        log = self._log("suite answer").read_text(errors="replace")
        if "suite" in self._cancelled and code in (2, 130, 143, -signal.SIGTERM, -signal.SIGINT):
            yield Use("suite", "", "cancelled")
            return
        if code not in (0, 1) or not self._report.is_file():
            said = f"{log[-1500:]} {_tail(self._log('suite'))}"
            yield Use("suite", "", "wrong", f"pytest ended with {code}: {said}")
            return
        cases = list(ElementTree.parse(self._report).iter("testcase"))
        tests = self._campaign.jobs * (1 + self._plan.has_two) * len(self.specs())
        names = {str(case.get("name")) for case in cases}
        if len(names) != tests:
            said = f"{len(names)} of {tests} tests are named: {log[-900:]}"
            yield Use("suite", "", "wrong", said)
        crashed = 0
        for case in cases:
            for use in self._of_case(case):
                crashed += use.outcome == "crashed"
                yield use
        if crashed > self._killed:
            yield Use("suite", "", "wrong", f"{crashed} workers crashed: {log[-1500:]}")

    def _of_case(self, case: ElementTree.Element) -> Iterator[Use]:
        name = str(case.get("name"))
        texts = [
            f"{part.get('message')} {part.text}"
            for part in case
            if part.tag in ("failure", "error", "skipped")
        ]
        text = "\n".join(texts)
        values: dict[str, list[str]] = {}
        for one in case.iter("property"):
            values.setdefault(str(one.get("name")), []).append(str(one.get("value")))
        if re.search(r"worker '?gw\d+'? crashed", text):
            yield Use(name, "", "crashed", text)
            return
        (spec,) = re.findall(r"\[(.*@bench)", name) or [""]
        # What failed before the test ran again on another board.
        for attempt in values.get("hil_infrastructure", []):
            board, _, said = attempt.partition(": ")
            yield from self._of_board(f"{name}, an attempt", board, "failed", said)
        board = (values.get("hil_board") or [spec])[-1]
        outcome = "match" if not texts else "differ" if _DIFFER.search(text) else "failed"
        yield from self._of_board(name, board, outcome, text)

    def _of_board(self, name: str, spec: str, outcome: str, text: str) -> Iterator[Use]:
        """Yield a use of a board, or of each board of a pool of which none was left."""
        word = spec.removesuffix("@bench")
        if word in self._campaign.boards or outcome != "failed":
            yield Use(name, word, outcome, text)
            return
        arch = word.removeprefix("arch=")
        pool = [n for n, b in self._campaign.boards.items() if b.board.cpu.arch == arch]
        if not pool:
            yield Use(name, "", "wrong", f"of {spec!r}, which is no board: {outcome}: {text}")
        for board in pool:
            yield Use(name, board, "failed", text)


@contextlib.contextmanager
def rounds(
    seed: int,
    kinds: Sequence[Kind] = KINDS,
    *,
    workers: int = 4,
    planted: str = "",
    jobs: int = 4,
) -> Iterator[Campaign]:
    """Yield a bench that is ready for rounds; leaving the context ends it."""
    with contextlib.ExitStack() as stack:
        # Short, since sockets are in it.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hil-rig-")))
        rig = stack.enter_context(bench(folder))
        stack.enter_context(rig.installed())
        cache = {"HIL_CACHE": str(rig.folder / "cache")}
        stack.enter_context(mock.patch.dict(os.environ, cache))
        campaign = Campaign(rig, kinds, seed, workers, planted, jobs)
        stack.callback(campaign.close)
        campaign.set_up()
        yield campaign


def _constants(elf: Path) -> bytes:
    """Return some of the constants of the model in an image."""
    words = ["arm-none-eabi-nm", "-S", str(elf)]
    listing = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    found = re.search(r"^(\w+) (\w+) [rR] global_const_workspace$", listing, re.MULTILINE)
    assert found is not None, "the name of the constants of a model library"
    at = int(found[1], 16) + int(found[2], 16) // 2
    for segment in read_image(elf):
        start = at - segment.address
        if 0 <= start <= len(segment.data) - _FLIPPED_BYTES:
            return segment.data[start : start + _FLIPPED_BYTES]
    raise ValueError(f"no constants in {elf}")


def _open_files(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found.add(os.readlink(entry.path))
    return found


def _has_parent_in(process: psutil.Process, others: dict[int, psutil.Process]) -> bool:
    with contextlib.suppress(psutil.Error):
        return any(parent.pid in others for parent in process.parents())
    return True  # it has ended


def _command(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        found: list[str] = process.cmdline()
        return found
    return ["it has ended"]


def _end(process: subprocess.Popen[Any]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()


def _nbytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.lstat().st_size
    return total


def _tail(path: Path) -> str:
    return " ".join(path.read_text(errors="replace")[-900:].split())
