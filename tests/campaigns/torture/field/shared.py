"""Two harnesses that want the same board at the same time."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hil import virtual_probe
from hil.access import native
from hil.board import load_board
from torture.campaign import Budget
from torture.field.forked import Command, Ended, Forked
from torture.field.tally import Tally
from torture.field.world import LIMIT_S, MODEL, World, changed_environment

#: The second one begins at most so much later than the first.
_APART_S = 0.6
#: What the one that came later is told.
_BUSY = ("in use by another program", "busy", "another session", "no answer")


@dataclass(frozen=True)
class _Image:
    elf: Path


def shared(world: World, servers: tuple[Forked, Forked], budget: Budget) -> Iterator[Tally]:
    """Two commands on one serial port, and two on one probe."""
    rounds = budget.count(4, 20)
    dice = random.Random(budget.seed)
    world.fresh(is_warm=True)
    port = ("verify", str(MODEL), "--board", "native", "--samples", "20", "--json", "--port")
    probe = ("flash", str(MODEL), "--board", "microbit", "--json", "--probe")
    elf = _built(world, servers[0])
    with native.start(_Image(elf)) as running:
        yield _rounds(world, servers, (*port, running.url), "one serial port", rounds, dice)
    # Others find a probe by the cache that its machine is announced in.
    environment = {"HIL_CACHE": world.environment["HIL_CACHE"]}
    with (
        changed_environment(environment),
        virtual_probe.start(load_board("microbit")) as (virtual, _),
    ):
        yield _rounds(world, servers, (*probe, virtual.uid), "one probe", rounds, dice)


def _built(world: World, server: Forked) -> Path:
    ended = _begin(world, server, "a", ("build", str(MODEL), "--board", "native", "--json"))
    return Path(json.loads(ended.ended(LIMIT_S).output)["elf"])


def _begin(world: World, server: Forked, name: str, words: tuple[str, ...]) -> Command:
    folder = world.run_folder / name
    folder.mkdir(exist_ok=True)
    output = folder / "stdout.json"
    output.write_bytes(b"")
    return server.begin(words, folder, output)


def _rounds(
    world: World,
    servers: tuple[Forked, Forked],
    words: tuple[str, ...],
    what: str,
    rounds: int,
    dice: random.Random,
) -> Tally:
    tally = Tally("two harnesses at once", what)
    for _ in range(rounds):
        apart_s = dice.uniform(0, _APART_S)
        first = _begin(world, servers[0], "a", words)
        time.sleep(apart_s)
        second = _begin(world, servers[1], "b", words)
        both = [first.ended(LIMIT_S), second.ended(LIMIT_S)]
        wrong = next(filter(None, map(_wrong, both)), "")
        if not wrong and all(ended.code for ended in both):
            wrong = f"neither was served: {both[0].errors[-700:]} {both[1].errors[-700:]}"
        if not wrong:
            after = _begin(world, servers[0], "a", words).ended(LIMIT_S)
            wrong = f"the next one: {after.errors[-700:]}" if after.code else _wrong(after)
        if not wrong and (left := world.left()):
            wrong = f"left behind: {', '.join(left[:5])}"
        how = f"`hil {' '.join(words)}` twice, {apart_s:.3f} s apart"
        tally.add(is_done=not any(ended.code for ended in both), wrong=wrong, how=how)
    return tally


def _wrong(ended: Ended) -> str:
    """Return what is wrong with one of the two; empty if it was served, or told that it waits."""
    if ended.code is None:
        return f"no end within {LIMIT_S:g} s"
    if ended.code == 0:
        report = json.loads(ended.output)
        is_right = report.get("match", report.get("build_id") is not None)
        return "" if is_right else "a wrong result"
    if ended.code != 4 or "Traceback" in ended.errors:
        return f"exit code {ended.code}: {ended.errors[-1500:]}"
    if not any(text in ended.errors for text in _BUSY):
        return f"the message does not name the reason: {ended.errors[-1500:]}"
    return ""
