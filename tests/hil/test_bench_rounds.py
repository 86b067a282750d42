"""The campaign on a bench of fake boards in short, and the faults that its oracle must find."""

from __future__ import annotations

import random
import signal

import pytest
from bench_rounds import ALLOWED, FEW, KINDS, Command, Plan, plan, rounds

SOUND = dict.fromkeys((name for kind in FEW for name in kind.names), "sound")


def test_plans_are_those_of_their_seed() -> None:
    """All that may be done to boards is done, and a third of them are always sound."""
    plans = [plan(random.Random(f"1 {number}"), KINDS) for number in range(60)]
    assert plans == [plan(random.Random(f"1 {number}"), KINDS) for number in range(60)]
    assert {what for one in plans for what in one.boards.values()} == set(ALLOWED)
    for one in plans:
        assert list(one.boards.values()).count("sound") >= 3
        assert len(one.boards) == 10
    assert {one.is_pool for one in plans} == {True, False}
    assert any(one.kill for one in plans)
    assert {one.cancel[0] for one in plans if one.cancel} == {signal.SIGINT, signal.SIGTERM}


@pytest.mark.full
def test_two_rounds_on_three_boards() -> None:
    dead = Plan({**SOUND, "m4-1": "dead"}, False, [("cmd-1", 0.0, signal.SIGKILL, 2.0)])
    wrong = Plan(
        {**SOUND, "cmd-1": "wrong results", "m4-1": "late"},
        True,
        [("cmd-1", 0.0, None, 0.0), ("cmd-2", 0.0, signal.SIGTERM, 1.0)],
        unplugged={"m4-1": (0.0, 2.0)},
        kill=(1.0, 0),
    )
    with rounds(1, FEW, workers=2, jobs=2) as bench:
        bench.round(0, dead)
        bench.round(1, wrong)
    assert bench.findings == []
    assert bench.uses["dead", "failed"] >= 2
    assert bench.uses["wrong results", "differ"] >= 1
    assert bench.uses["sound", "match"] >= 4


@pytest.mark.full
def test_a_board_that_answers_for_another() -> None:
    """A planted fault: two lines that end at one board."""
    chosen = Plan({**SOUND, "cmd-1": "wrong results"}, False, [("cmd-2", 0.0, None, 0.0)])
    with rounds(1, FEW, workers=2, planted="wires", jobs=1) as bench:
        bench.round(0, chosen)
    assert any("on cmd-2 (sound): " in what for what, _ in bench.findings), bench.findings


@pytest.mark.full
def test_locks_that_exclude_nobody() -> None:
    """A planted fault: each process has locks of its own."""
    commands: list[Command] = [("cmd-1", float(at), None, 0.0) for at in range(6)]
    with rounds(1, FEW, workers=2, planted="locks", jobs=12) as bench:
        bench.round(0, Plan(SOUND, False, commands))
    assert any("cmd-1" in what for what, _ in bench.findings), bench.findings
