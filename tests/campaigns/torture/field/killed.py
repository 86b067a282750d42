"""Commands that are killed, and commands whose clock jumps."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from torture.campaign import Budget
from torture.field.forked import Forked
from torture.field.tally import Tally
from torture.field.world import JOBS, Job, World

#: A day is longer than any deadline, 40 days are more than the cache keeps, and the first years are
#: what a machine without a battery starts with.
_DAY_S = 24 * 3600
_JUMPS_S = (0, 3600, -3600, 40 * _DAY_S, 0, -40 * _DAY_S, 20 * 365 * _DAY_S, -50 * 365 * _DAY_S)
_PERIOD_MS = 50


def killed(
    world: World, server: Forked, budget: Budget, jobs: Sequence[Job] = JOBS
) -> Iterator[Tally]:
    """SIGKILL to a command at a random moment; its children get no signal."""
    dice = random.Random(budget.seed)
    for job in jobs:
        tally = Tally("harness killed", f"hil {job.name}")
        for _ in range(budget.count(6, 20)):
            moment_s = dice.uniform(0, world.seconds[job.name])
            _kill(world, server, job, moment_s, tally)
        yield tally


def _kill(world: World, server: Forked, job: Job, moment_s: float, tally: Tally) -> None:
    world.fresh(is_warm=job.is_warm)
    command = world.begin(server, job)
    time.sleep(moment_s)
    # Until its end is read, the number is its own.
    with suppress(ProcessLookupError):
        os.kill(command.pid, signal.SIGKILL)
    ended = command.ended(1.0)
    wrong = ""
    if left := world.processes():
        wrong = f"left running: {', '.join(left[:5])}"
    elif ended.code == 0 or (job.file and (world.run_folder / "out" / job.file).exists()):
        wrong = world.wrong_result(job)
    elif ended.code != -signal.SIGKILL:
        wrong = f"exit code {ended.code}: {ended.errors[-1500:]}"
    tally.add(
        is_done=ended.code == 0,
        wrong=wrong or world.wrong_again(server, job),
        how=f"kill `hil {' '.join(job.words)}` after {moment_s:.3f} s",
    )


def jumping(
    world: World, server: Forked, budget: Budget, jobs: Sequence[Job] = JOBS
) -> Iterator[Tally]:
    """A clock that jumps by hours, weeks and decades in both directions, 20 times a second."""
    for job in jobs:
        tally = Tally("clock that jumps", f"hil {job.name}")
        for _ in range(budget.count(1, 5)):
            world.fresh(is_warm=job.is_warm)
            for place, jump_s in enumerate(_JUMPS_S):
                world.state.jumps_s[place] = jump_s
            world.state.period_ms = _PERIOD_MS
            ended = world.run(server, job)
            world.heal()
            wrong = world.wrong_end(job, ended, ())
            if not wrong and (left := world.left()):
                wrong = f"left behind: {', '.join(left[:5])}"
            tally.add(
                is_done=ended.code == 0,
                wrong=wrong or world.wrong_again(server, job),
                how=f"`hil {' '.join(job.words)}` with the clock of tests/c/hooks/hooks.c",
            )
        yield tally
