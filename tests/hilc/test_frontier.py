"""The programs that a user may choose from."""

from __future__ import annotations

from pathlib import Path

import pytest

import hilc
from hilc.lowering.choice import KernelSelection
from hilc.schedule.frontier import Frontier
from hilc.schedule.policy import GOALS

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"


@pytest.fixture(scope="module")
def frontier() -> Frontier:
    return hilc.frontier(DIGITS, cpu="cortex-m4", io_in_pool=True)


def test_each_listed_program_is_given_by_its_options(frontier: Frontier) -> None:
    for program in frontier.programs:
        library = hilc.compile(
            DIGITS,
            cpu="cortex-m4",
            io_in_pool=True,
            optimize=program.optimize or "balanced",
            ram=program.ram,
            flash=program.flash,
        )
        (report,) = library.reports.values()
        assert report.chosen == program.cost, program.options


def test_every_goal_and_both_limits_are_listed(frontier: Frontier) -> None:
    programs = frontier.programs
    assert {p.optimize for p in programs if p.optimize is not None} == set(GOALS)
    assert any(p.ram is not None for p in programs)
    assert any(p.flash is not None for p in programs)
    costs = [p.cost.instructions for p in programs]
    assert costs == sorted(costs)
    assert (frontier.model, frontier.cpu, frontier.counter) == (
        "digits",
        "cortex-m4",
        "instructions",
    )


def test_no_limit_gives_a_dominated_program(frontier: Frontier) -> None:
    for program in frontier.programs:
        own = program.cost
        if program.optimize is not None:
            continue
        for other in frontier.programs:
            cost = other.cost
            assert other is program or (
                cost.instructions > own.instructions
                or cost.workspace_bytes > own.workspace_bytes
                or cost.flash_bytes > own.flash_bytes
            ), (program.options, other.options)


def test_a_choice_of_kernels_leaves_no_frontier() -> None:
    with pytest.raises(hilc.InputError, match="leaves no programs to choose from"):
        hilc.frontier(DIGITS, cpu="cortex-m4", choice=KernelSelection())
