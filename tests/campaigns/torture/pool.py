"""A pool of many boards in one process."""

from __future__ import annotations

import contextlib
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil
import pytest
from noise_campaign import Case, case

import hil
from hil.access import native
from hil.device import Device
from hil.lab.pool import Pool, Unit, open_pool
from torture.campaign import Budget, Figures, Finding

TITLE = "A pool of a thousand boards"
ABOUT = """One process acquires every board of a pool, opens all of them and keeps them open. The
boards are processes of this machine on pseudo-terminals, with the firmware of the digits model. The
table has the memory and descriptors that a board adds to the process, and beside them the memory of
the board's own process. A command is one inference with its input and output, on one board after
another while all are open. Findings: costs per board that grow with the size of the pool, wrong
results, and processes, locks or files that remain."""

SIZES = (10, 100, 1000)
#: By how much more a board of a larger pool may take than one of the smallest.
_GROWTH = 2.0
#: Processes, descriptors and the like, beside the boards'.
_OTHER_DESCRIPTORS = 256


@dataclass(frozen=True)
class Cost:
    """What one board of a pool costs."""

    start_s: float
    acquire_s: float
    open_s: float
    command_s: float
    close_s: float
    memory_bytes: float
    descriptors: float
    board_bytes: float
    wrong: int


def _timed(job: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.monotonic()
    return job(), time.monotonic() - begin


def _infer(device: Device, digits: Case, number: int) -> bool:
    (model,) = device.models.values()
    at = number % len(digits.inputs)
    model.set_input(0, digits.inputs[at])
    model.run()
    return np.array_equal(model.get_output(0), digits.known[at])


@contextlib.contextmanager
def _pool(ports: list[str]) -> Iterator[Pool]:
    """Open a pool whose locks are kept apart from the user's."""
    with tempfile.TemporaryDirectory(prefix="hil-pool-") as folder:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HIL_CACHE", folder)
            pool = open_pool("native", ports)
        assert pool is not None
        with contextlib.closing(pool):
            yield pool


def _cost(digits: Case, size: int) -> Cost:
    me = psutil.Process()
    with contextlib.ExitStack() as started, contextlib.ExitStack() as opened:
        start = [
            _timed(lambda: started.enter_context(native.start(digits.firmware)))
            for _ in range(size)
        ]
        ports = [board.url for board, _ in start]
        before = me.memory_info().rss, me.num_fds()
        with _pool(ports) as pool:
            acquire: list[tuple[Unit, float]] = [_timed(pool.acquire) for _ in range(size)]
            for unit, _ in acquire:
                opened.callback(unit.release)
            way = [
                _timed(
                    lambda unit=unit: opened.enter_context(  # type: ignore[misc]
                        hil.open(unit.board, digits.library, **unit.options)
                    )
                )
                for unit, _ in acquire
            ]
            devices: list[Device] = [device for device, _ in way]
            _infer(devices[0], digits, 0)
            memory, descriptors = (
                now - then
                for now, then in zip((me.memory_info().rss, me.num_fds()), before, strict=True)
            )
            right, commands_s = _timed(
                lambda: sum(_infer(device, digits, n) for n, device in enumerate(devices))
            )
            boards = [child.memory_info().rss for child in me.children()]
            _, close_s = _timed(opened.close)
    start_s, acquire_s, open_s = (
        sum(seconds for _, seconds in part) / size for part in (start, acquire, way)
    )
    return Cost(
        start_s=start_s,
        acquire_s=acquire_s,
        open_s=open_s,
        command_s=commands_s / size,
        close_s=close_s / size,
        memory_bytes=memory / size,
        descriptors=descriptors / size,
        board_bytes=float(np.median(boards)),
        wrong=size - right,
    )


def run(budget: Budget) -> Figures:
    """Open pools of 10 and 100 boards, and of 1,000 in a long run."""
    sizes = SIZES[: budget.count(minutes=2, hours=3)]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    # A board takes nine: three for its process, six for its line and its lock.
    wanted = 10 * sizes[-1] + _OTHER_DESCRIPTORS
    if limits[1] != resource.RLIM_INFINITY and limits[1] < wanted:
        raise OSError(f"{limits[1]} descriptors are allowed, {wanted} are needed: raise ulimit -Hn")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], wanted), limits[1]))
    try:
        digits = case("digits")
        _cost(digits, 2)  # what the first use of anything keeps is no board's cost
        held = _validity()
        costs = {size: _cost(digits, size) for size in sizes}
        left = _validity()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    return _figures(costs, held, left)


def _validity() -> tuple[int, int]:
    me = psutil.Process()
    return me.num_fds(), len(me.children(recursive=True))


def _figures(costs: dict[int, Cost], held: tuple[int, int], left: tuple[int, int]) -> Figures:
    how = "TORTURE=hours python tools/measure.py torture pool"
    findings = []
    first = next(iter(costs.values()))
    for size, cost in costs.items():
        if cost.wrong:
            findings.append(Finding(f"{cost.wrong} wrong results of {size} boards", how))
        for what, small, large in (
            ("descriptors", first.descriptors, cost.descriptors),
            (
                "memory, with 1 MiB for the first boards",
                first.memory_bytes + (1 << 20),
                cost.memory_bytes,
            ),
            ("a command, with 5 ms for a busy machine", first.command_s + 0.005, cost.command_s),
            ("opening, with 50 ms for a busy machine", first.open_s + 0.05, cost.open_s),
        ):
            if large > _GROWTH * small:
                text = f"{what}: {large:g} for each of {size} boards, {small:g} for each of 10"
                findings.append(Finding(text, how))
    for what, earlier, later in zip(("descriptors", "processes"), held, left, strict=True):
        if later > earlier:
            findings.append(Finding(f"{later - earlier} {what} are left", how))
    rows = [
        [
            f"{size:,}",
            f"{cost.memory_bytes / 1024:.0f}",
            f"{cost.descriptors:.1f}",
            f"{cost.board_bytes / 1024:,.0f}",
            *(
                f"{1000 * seconds:.1f}"
                for seconds in (
                    cost.start_s, cost.acquire_s, cost.open_s, cost.command_s, cost.close_s
                )
            ),
        ]
        for size, cost in costs.items()
    ]  # fmt: skip
    return Figures(
        [
            *("boards", "KiB", "descriptors", "KiB of its own process", "start, ms"),
            *("acquire, ms", "open, ms", "command, ms", "close, ms"),
        ],
        rows,
        findings,
        ["Each figure is one board's share."],
    )
