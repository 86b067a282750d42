"""Disks: full from the n-th write of a command on, for each n; a cache that is read-only."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from torture.campaign import Budget
from torture.field.forked import Forked
from torture.field.tally import Tally
from torture.field.world import JOBS, NEVER, READ_ONLY, Job, World, spread

#: Bad output paths and builds without room (docs/reference/command-line.md).
_CODES = (2, 3)
#: Attacks that are counted together.
_AT_A_TIME = 20
_ROOM = ("No space left on device", "no room to build")
#: Where all builds are there. (`build -o` holds a lock there, a virtual board is announced there.)
_NEED_NO_WRITES = ("run", "verify", "evaluate")


def full(
    world: World, server: Forked, budget: Budget, jobs: Sequence[Job] = JOBS
) -> Iterator[Tally]:
    """A disk that fills up while a command writes cache, output, stdout and temporary files."""
    dice = random.Random(budget.seed)
    for job in jobs:
        writes = _writes(world, server, job)
        line = f"`hil {' '.join(job.words)}`"
        from_on = spread(writes, budget.count(6, writes), dice)
        for part in _parts(from_on):
            tally = Tally("disk full from a write on", f"hil {job.name}")
            for first in part:
                how = f"no room from write {first} of {line} on"
                tally.add(**_filled(world, server, job, first, NEVER), how=how)
            yield tally
        alone = spread(writes, budget.count(3, writes), dice)
        for part in _parts(alone):
            tally = Tally("one write finds no room", f"hil {job.name}")
            for first in part:
                how = f"no room for write {first} of {line}"
                tally.add(**_filled(world, server, job, first, first + 1), how=how)
            yield tally


def _parts(writes: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(writes), _AT_A_TIME):
        yield writes[start : start + _AT_A_TIME]


def _writes(world: World, server: Forked, job: Job) -> int:
    """Count the writes of an undisturbed run."""
    world.fresh(is_warm=job.is_warm)
    world.fill(NEVER)
    world.run(server, job)
    return int(world.state.writes)


def _filled(world: World, server: Forked, job: Job, first: int, last: int) -> dict[str, Any]:
    world.fresh(is_warm=job.is_warm)
    world.fill(first, last)
    ended = world.run(server, job)
    world.heal()
    wrong = world.wrong_end(job, ended, _CODES)
    if not wrong and ended.code and not any(text in ended.errors for text in _ROOM):
        wrong = f"the message does not name the reason: {ended.errors[-1500:]}"
    if not wrong and (left := world.left()):
        wrong = f"left behind: {', '.join(left[:5])}"
    return {"is_done": ended.code == 0, "wrong": wrong or world.wrong_again(server, job)}


def read_only(world: World, server: Forked) -> Iterator[Tally]:
    """A read-only cache, empty and with all builds: a command whose builds are there works."""
    for job in JOBS:
        for is_warm in (True, False):
            kind = "with builds" if is_warm else "empty"
            tally = Tally("read-only cache", f"hil {job.name}, {kind}")
            world.fresh(is_warm=is_warm)
            (world.run_folder / "cache").mkdir(exist_ok=True)
            world.state.disk = READ_ONLY
            ended = world.run(server, job)
            world.heal()
            wrong = world.wrong_end(job, ended, _CODES)
            must_work = job.name == "compile" or (is_warm and job.name in _NEED_NO_WRITES)
            if not wrong and ended.code and must_work:
                wrong = f"it needs no new build, and fails: {ended.errors[-1500:]}"
            if not wrong and ended.code and "HIL_CACHE" not in ended.errors:
                wrong = f"the message gives no remedy: {ended.errors[-1500:]}"
            tally.add(
                is_done=ended.code == 0,
                wrong=wrong or world.wrong_again(server, job),
                how=f"`hil {' '.join(job.words)}` with a read-only cache ({kind})",
            )
            yield tally
