"""Checks the lab on this machine: two users, one coordinator, eight emulated boards, 200 jobs.

Each user is a ``pytest -n 8`` of its own; both want the same boards. Each job verifies random
samples of the digits model against the reference. Printed at the end: that all are exact, that no
board ever had two users, how long it took, how idle the boards were while work waited, and how soon
a board is free again whose user was killed.

    python tools/measure.py lab_proof [--boards 8] [--jobs 200] [--workers 8]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hil.board import load_board
from hil.build import build
from hil.firmware.sources import ModelOptions, ModelSource, load_library
from hil.lab.place import Keeper
from hil.lab.serve import Served, served

_DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.tflite"
#: Kinds of boards, in the order in which they are added to the lab.
_KINDS = ("mps2-an386", "mps2-an385", "netduinoplus2", "mps2-an500")
_LIMIT_S = 1800.0
_LOOK_S = 0.05
_SUITE = """
from pathlib import Path

import pytest

from hil.oracle import reference_of
from hil.samples import RandomSamples
from hil.verify import verify

MODEL = {model!r}


@pytest.mark.hil(model=MODEL)
@pytest.mark.parametrize("seed", range({first}, {end}))
def test_job(hil_device, hil_board, hil_library, seed):
    module = hil_library.modules[0]
    samples = RandomSamples(module.inputs, seed, 5)
    oracle = reference_of(hil_library, module, None)
    report = verify(hil_device[module.name], samples, oracle, board=hil_board.name)
    assert report.samples == 5
    assert report.match, report.json()
"""
_HOLDER = """
import sys, time
from hil.lab import leased
with leased(sys.argv[1]) as lab:
    print(lab.place, flush=True)
    time.sleep(600)
"""


@dataclass
class Watch:
    """What the coordinator says of the boards, looked at again and again."""

    #: Time, boards that nobody has, whether somebody waits for one.
    looks: list[tuple[float, int, bool]] = field(default_factory=list)
    end: threading.Event = field(default_factory=threading.Event)

    def run(self, places: Sequence[str]) -> None:
        """Look until told to end."""
        with contextlib.closing(Keeper()) as keeper:
            while not self.end.wait(_LOOK_S):
                now = time.monotonic()
                free = sum(
                    place["name"] in places and not place["acquired"]
                    for place in keeper.ask("list")["places"]
                )
                wanted = bool(keeper.ask("contended", place=places[0])["contended"])
                self.looks.append((now, free, wanted))


def main() -> int:
    """Print the figures; 1 where something is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--boards", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--no-lease", action="store_true", help="leave out the slow measurement")
    args = parser.parse_args()
    names = [_KINDS[i % len(_KINDS)] for i in range(args.boards)]
    _build_all(sorted(set(names)))
    with tempfile.TemporaryDirectory() as folder, served(names) as lab:
        os.environ["LG_COORDINATOR"] = lab.address
        faults = _share(Path(folder), lab, args.jobs, args.workers)
        faults += _kill(lab, with_keeper=False)
        if not args.no_lease:
            faults += _kill(lab, with_keeper=True)
    for fault in faults:
        print(f"WRONG: {fault}")
    return 1 if faults else 0


def _build_all(names: Sequence[str]) -> None:
    """Build the firmware, so that the sharing is timed and not the first build."""
    for name in names:
        board = load_board(name)
        options = ModelOptions(board.cpu.name, board=board)
        build([load_library(ModelSource(_DIGITS, None), options)], board)


def _share(folder: Path, lab: Served, jobs: int, workers: int) -> list[str]:
    watch = Watch()
    watching = threading.Thread(target=watch.run, args=(sorted(lab.boards),))
    begin = time.monotonic()
    with contextlib.ExitStack() as stack:
        users = [
            stack.enter_context(_user(folder, name, first, first + jobs // 2, workers))
            for name, first in (("ada", 0), ("ben", jobs // 2))
        ]
        watching.start()
        try:
            codes = [user.wait(_LIMIT_S) for user in users]
        finally:
            watch.end.set()
            watching.join()
    seconds = time.monotonic() - begin
    reports = [ElementTree.parse(folder / f"{name}.xml") for name in ("ada", "ben")]
    cases = [case for report in reports for case in report.iter("testcase")]
    bad = [case for case in cases if any(case.find(w) is not None for w in ("failure", "error"))]
    uses = {
        place: sorted(server.uses, key=lambda use: use.begin)
        for place, server in lab.boards.items()
    }
    overlaps = sum(
        later.begin < earlier.end
        for list_ in uses.values()
        for earlier, later in zip(list_, list_[1:], strict=False)
    )
    refused = sum(server.status()["refused_clients"] for server in lab.boards.values())
    first = min(use.begin for list_ in uses.values() for use in list_)
    last = max(use.end for list_ in uses.values() for use in list_)
    span = (last - first) * len(uses)
    busy = sum(use.end - use.begin for list_ in uses.values() for use in list_)
    counts = Counter(
        value
        for case in cases
        for p in case.iter("property")
        if p.get("name") == "hil_board" and (value := p.get("value"))
    )
    print(
        f"{len(cases)} jobs, {len(cases) - len(bad)} exact, in {seconds:.1f} s "
        f"({last - first:.1f} s from the first board's use to the last)"
    )
    print(f"{len(uses)} boards, 2 users with {workers} workers each")
    print("jobs a board: " + ", ".join(f"{place} {n}" for place, n in sorted(counts.items())))
    print(f"clients refused: {refused}; overlapping uses: {overlaps}")
    print(f"boards in use, from the first use to the last: {busy / span:.1%} of the time")
    looks = [(free, wanted) for now, free, wanted in watch.looks if first <= now <= last]
    free_looks = [free for free, _ in looks]
    wanted_looks = [free for free, wanted in looks if wanted]
    print(
        f"boards idle (nobody's) in that time: {_share_of(free_looks, len(uses)):.1%}; "
        f"while somebody waited: {_share_of(wanted_looks, len(uses)):.1%} "
        f"({len(wanted_looks)} of {len(looks)} looks)"
    )
    faults = [f"a user's pytest ended with {code}" for code in codes if code]
    faults += [f"{len(bad)} jobs failed"] if bad else []
    faults += [f"{len(cases)} jobs were run instead of {jobs}"] if len(cases) != jobs else []
    faults += ["a board had two users"] if overlaps or refused else []
    return faults


def _share_of(free: Sequence[int], boards: int) -> float:
    return sum(free) / (len(free) * boards) if free else 0.0


@contextlib.contextmanager
def _user(
    folder: Path, name: str, first: int, end: int, workers: int
) -> Iterator[subprocess.Popen[bytes]]:
    suite = folder / name
    suite.mkdir()
    text = _SUITE.format(model=str(_DIGITS), first=first, end=end)
    (suite / f"test_{name}.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "-p", "no:cacheprovider"]
    command += ["--hil-board", "emulated=yes", f"--junit-xml={folder / name}.xml"]
    environment = {**os.environ, "LG_USERNAME": name}
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=suite, env=environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
        if process.returncode:
            print((folder / f"{name}.log").read_text(encoding="utf-8")[-4000:])


def _kill(lab: Served, with_keeper: bool) -> list[str]:
    """Kill the user of a board, and its keeper too, as when its machine loses power."""
    place = sorted(lab.boards)[0]
    command = [sys.executable, "-c", _HOLDER, f"lab:{place}"]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline().strip() == place
    with contextlib.closing(Keeper()) as keeper:
        listing = {p["name"]: p for p in keeper.ask("list")["places"]}
        owner = listing[place]["acquired"]
        begin = time.monotonic()
        if with_keeper:
            os.kill(_keeper_of(owner), signal.SIGKILL)
        holder.kill()
        holder.wait()
        holder.stdout.close()
        if with_keeper:
            answer = keeper.ask("acquire", 90, tags=(("name", place),), limit_s=60)
            keeper.ask("release", place=answer["place"]["name"])
        else:
            while _acquired(keeper, place):
                time.sleep(0.005)
        seconds = time.monotonic() - begin
    what = "a worker and its keeper, as by power loss," if with_keeper else "a worker"
    limit_s = 20.0 if with_keeper else 2.0
    print(f"{what} killed: its board is another's after {seconds:.2f} s (limit {limit_s:g} s)")
    return [f"a killed worker's board took {seconds:.1f} s"] if seconds > limit_s else []


def _acquired(keeper: Keeper, place: str) -> bool:
    return any(p["name"] == place and p["acquired"] for p in keeper.ask("list")["places"])


def _keeper_of(owner: str) -> int:
    """Return the process that keeps places for ``owner``: it is on its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode("utf-8", "replace").split("\0")
            if "hil.lab.keeper" in words and owner in words:
                return int(path.parent.name)
    raise RuntimeError(f"no keeper of {owner}: {json.dumps(sorted(os.listdir('/proc')))[:200]}")


if __name__ == "__main__":
    sys.exit(main())
