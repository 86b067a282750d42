"""The search for a program: exact where it can be compared, monotone, and true to its limits."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest
from campaigns import cases, sampled
from random_graphs import GraphBuilder, random_graph
from row_chains import random_chains
from small_models import convolutions
from tflite_builder import ModelBuilder

import hilc
from hil.cli.render import chosen_lines
from hilc import interpreter
from hilc.errors import InputError, LimitError
from hilc.fusion.call import FusedCall
from hilc.host import load
from hilc.ir import Graph
from hilc.lowering.choice import KernelSelection
from hilc.memory.allocate import align
from hilc.memory.plan import Planner, check_plan
from hilc.memory.pools import PoolSpec
from hilc.memory.program import Program
from hilc.schedule.bound import least_workspace
from hilc.schedule.estimate import Estimator, Segment
from hilc.schedule.goals import Goals
from hilc.schedule.groups import GroupsOfLayers, Objective
from hilc.schedule.pareto import FASTEST, ParetoFrontier, PlannedProgram
from hilc.schedule.partition import Partitioner
from hilc.schedule.policy import GOALS, POLICY, Goal
from hilc.schedule.search import choose, search
from hilc.source import PreparedModel, prepare
from hilc.target import get_cpu

CPU = get_cpu("cortex-m4")
#: Without kernels that unfold weights, as for the goal ``ram``.
ROOT = Path(__file__).resolve().parents[2]


@cache
def images() -> bytes:
    """Depthwise and 1x1 convolutions in turn, as in networks for images."""
    rng = np.random.default_rng(5)
    b = ModelBuilder()
    b.input("x", (1, 20, 10, 4), "int8", 0.05, -3)
    before, channels = "x", 4
    for index in range(3):
        wide, name = 16, f"d{index}"
        weights = rng.integers(-90, 90, (wide, 1, 1, channels), np.int8)
        b.const(f"pw{index}", weights, [0.01] * wide)
        b.const(f"pb{index}", rng.integers(-99, 99, (wide,), np.int32), [0.0005] * wide)
        b.tensor(f"p{index}", (1, 20, 10, wide), "int8", 0.05, -128)
        b.op(
            "CONV_2D",
            (before, f"pw{index}", f"pb{index}"),
            (f"p{index}",),
            padding="SAME",
            activation="RELU",
        )
        b.const(
            f"dw{index}", rng.integers(-90, 90, (1, 3, 3, wide), np.int8), [0.01] * wide, axis=3
        )
        b.const(f"db{index}", rng.integers(-99, 99, (wide,), np.int32), [0.0005] * wide)
        b.tensor(name, (1, 20, 10, wide), "int8", 0.05, -128)
        b.op(
            "DEPTHWISE_CONV_2D",
            (f"p{index}", f"dw{index}", f"db{index}"),
            (name,),
            padding="SAME",
            activation="RELU",
            depth_multiplier=1,
        )
        before, channels = name, wide
    b.output("y", (1, 1, 1, 16), "int8", 0.05, -128)
    b.op(
        "AVERAGE_POOL_2D",
        (before,),
        ("y",),
        filter_h=20,
        filter_w=10,
        stride_h=20,
        stride_w=10,
        padding="VALID",
    )
    return b.build()


@cache
def source() -> PreparedModel:
    return prepare(images(), "images", CPU)


@cache
def frontier() -> ParetoFrontier:
    return ParetoFrontier(planner())


@cache
def goals() -> Goals:
    return Goals(frontier())


def planner() -> Planner:
    return Planner(source().graph, CPU, io_in_pool=True)


def compiled(**options: Any) -> hilc.ModelLibrary:
    return hilc.compile(images(), cpu=CPU.name, name="images", io_in_pool=True, **options)


def test_kernels_are_the_cheapest_that_keep_a_limit():
    partitioner = frontier().partitioner
    singles = partitioner.singles
    needs = sorted({segment.memory_bound for segments in singles for segment in segments})
    for limit in needs[:: max(1, len(needs) // 6)]:
        allowed = [[s for s in segments if s.memory_bound <= limit] for segments in singles]
        if not all(allowed):
            continue
        best = min(sum(s.cost for s in chosen) for chosen in itertools.product(*allowed))
        partition = partitioner.cheapest(limit, FASTEST)
        assert partition is not None
        found = partition.segments
        # Groups may only better it.
        assert sum(segment.cost for segment in found) <= best
        assert max(segment.memory_bound for segment in found) <= limit
        assert [s.first for s in found] == [0, *(s.last + 1 for s in found[:-1])]


def test_a_memory_bound_is_what_no_plan_can_do_without():
    for program in frontier().programs():
        assert program.workspace_bytes >= program.program.workspace_bound_bytes - 15


@pytest.mark.parametrize("seed", range(6))
def test_no_program_is_below_the_lower_bound_of_all(seed: int) -> None:
    """Of the programs of the frontier, which have kernels and groups of every kind."""
    planner = Planner(random_graph(seed), CPU, io_in_pool=True)
    planned = list(ParetoFrontier(planner).programs())
    for one in planned:
        # The search verifies only the program that it returns.
        check_plan(one.program)
    programs = [one.workspace_bytes for one in planned]
    bound = least_workspace(planner, max(programs))
    assert 0 < bound <= min(programs)
    # Segments that take more than a known plan do not matter.
    assert least_workspace(planner, min(programs)) == bound


def test_less_is_found_between_two_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cheapest takes too many instructions at one price of flash, and too much flash at the
    next.
    """
    graph, goal = random_chains(334, 1).graph, POLICY.goals["ram"]

    def least_sum() -> float:
        planner = Planner(graph, get_cpu("cortex-m3"), io_in_pool=False)
        found = search(planner, optimize="ram").report.chosen
        return goal.sum(found.workspace_bytes, found.flash_bytes)

    found = least_sum()
    monkeypatch.setattr(Partitioner, "least_known_flash", lambda *_: None)
    assert found < least_sum()


def test_flash_bounds_hold_at_all_prices() -> None:
    """What partitions at some prices prove of flash holds for those at all others."""
    partitioner = ParetoFrontier(planner()).partitioner
    limits = [None, *(int(part * 9600) for part in (1, 0.8, 0.6, 0.4, 0.3))]
    found = [
        (limit, partition)
        for worth in POLICY.flash_worths
        for limit in limits
        if (partition := partitioner.cheapest(limit, Objective(worth))) is not None
    ]
    bounds = [partitioner.flash_bound(limit, p.cost) for limit, p in found]
    # The cheapest at a price shows its own flash; layers share some code, which no price has.
    for bound, (_, partition) in zip(bounds, found, strict=True):
        assert bound <= (1 + POLICY.equal_sums) * partition.flash
    assert max(bounds) > 0.9 * max(p.flash for _, p in found)
    assert partitioner.flash_bound(limits[-1], 0) > partitioner.flash_bound(None, 0) > 0


def test_both_limits_give_no_less_than_a_goal() -> None:
    """A program of a goal is among those that keep limits of what it takes."""
    planner = Planner(random_chains(302288, 1).graph, CPU, io_in_pool=True)
    for goal in ("balanced", "ram"):
        own = search(planner, optimize=goal).report.chosen
        found = search(planner, ram=own.workspace_bytes, flash=own.flash_bytes).report.chosen
        assert found.workspace_bytes <= own.workspace_bytes
        assert found.flash_bytes <= own.flash_bytes
        assert found.instructions <= own.instructions


def test_the_bound_of_a_single_layer_is_its_program() -> None:
    builder = GraphBuilder()
    graph = builder.graph(builder.dense(builder.input(1, 64), 16))
    planner = Planner(graph, CPU, io_in_pool=True)
    smallest = min(p.workspace_bytes for p in ParetoFrontier(planner).programs())
    assert smallest - 16 < least_workspace(planner, 1000) <= smallest


def test_a_memory_bound_is_what_the_plan_takes_here():
    for partition in itertools.islice(frontier().partitions(), 3):
        found = frontier().planned(partition)
        assert isinstance(found, PlannedProgram)
        assert found.workspace_bytes == align(partition.memory_bound)


def test_a_dominated_kernel_is_not_tried():
    for segments in frontier().partitioner.singles:
        for before, after in itertools.combinations(segments, 2):
            assert (
                before.cost > after.cost
                or before.memory_bound > after.memory_bound
                or before.flash > after.flash
                or before.in_place < after.in_place
            )


@pytest.mark.full
@cases("objective", [FASTEST, Objective(20.0), Objective(1e6)], first=1)
@pytest.mark.parametrize(
    "cpu", sampled(["cortex-m0", "cortex-m4", "cortex-m55"], keep=["cortex-m4"])
)
def test_partitions_are_those_of_all_groups_laid_out(
    monkeypatch: pytest.MonkeyPatch, cpu: str, objective: Objective
) -> None:
    """Of the groups only those are laid out that may be in one; none costs less than was known."""
    lay_out, laid_out = GroupsOfLayers.lay_out, Counter[str]()

    def checked(self: GroupsOfLayers) -> None:
        before, count = getattr(self, "rest", None), len(self.found)
        lay_out(self)
        for segment in self.found[count:] if before is not None else ():
            assert before is not None
            assert before.cost <= segment.cost
            assert before.priced <= segment.cost_at(objective.flash_worth)
            assert before.memory_bound <= segment.memory_bound
        laid_out[name] += before is not None

    monkeypatch.setattr(GroupsOfLayers, "lay_out", checked)
    found = {}
    graph = prepare(images(), "images", get_cpu(cpu)).graph
    for name, bounds in (("all", False), ("some", True)):
        monkeypatch.setattr(Estimator, "bounds_groups", bounds)
        one = ParetoFrontier(Planner(graph, get_cpu(cpu), io_in_pool=True))
        found[name] = [
            (p.choice, p.cost, p.memory_bound, p.flash) for p in one.partitions(objective)
        ]
    assert found["some"] == found["all"]
    assert len(found["all"]) > 3
    # Partitions of little flash alone that fit together may need all of them.
    most = laid_out["all"] - (objective.flash_worth < 1e6)
    assert 0 < laid_out["some"] <= most


def test_groups_save_what_kernels_cannot():
    programs = list(frontier().programs())
    assert not programs[0].choice.groups
    assert programs[-1].choice.groups
    assert programs[-1].workspace_bytes < 0.9 * programs[0].workspace_bytes


def skipping(kind: str) -> Graph:
    """A convolution of which a 1x1 convolution, a pooling or a resizing reads every other row; or
    none but the last row is left out.
    """
    b = GraphBuilder(2)
    wide = b.conv(b.input(1, 16 if kind != "end" else 15, 12, 6), 8)
    match kind:
        case "stride":
            last = b.conv(wide, 4, size=1, stride=2)
        case "chain":
            last = b.conv(b.relu(b.add(wide, b.conv(wide, 8, size=1))), 4, size=1, stride=2)
        case "pool":
            last = b.pool("MAX_POOL_2D", wide, size=2, stride=3, padding="VALID")
        case "end":
            last = b.pool("MAX_POOL_2D", wide, size=2, stride=2, padding="VALID")
        case "both":
            # All rows are read by one of the two.
            small = b.conv(wide, 4, size=1, stride=2)
            last = b.add(small, b.conv(wide, 4, size=3, stride=2))
    return b.graph(last)


@pytest.mark.parametrize(
    ("kind", "shares"),
    [
        ("stride", {"t2": 0.5}),
        ("chain", {"t2": 0.5, "t4": 0.5, "t5": 0.5, "t6": 0.5}),
        ("pool", {"t2": 0.625}),
        ("end", {"t2": 14 / 15}),
        ("both", {}),
    ],
)
def test_the_fastest_program_leaves_unread_rows_out(kind: str, shares: dict[str, float]) -> None:
    planner = Planner(skipping(kind), CPU, io_in_pool=True)
    assert planner.lowering.row_shares == shares
    known: dict[str, Goals] = {}
    fastest = search(planner, optimize="speed", known=known)
    assert any("t2" in group.nodes for group in fastest.choice.groups) == bool(shares)
    for goal in GOALS:
        found = search(planner, optimize=goal, known=known).report.chosen
        assert found.instructions >= fastest.report.chosen.instructions


def test_a_tighter_limit_never_gives_a_faster_program():
    programs = list(frontier().programs())
    most, least = programs[0].workspace_bytes, programs[-1].workspace_bytes
    instructions = []
    for limit in np.linspace(most, least, 10).round().astype(int).tolist():
        found = goals().within(limit, None)
        assert found.workspace_bytes <= limit
        instructions.append(found.instructions)
    assert instructions == sorted(instructions)
    assert instructions[0] == goals().fastest.instructions < instructions[-1]


def test_groups_without_band_kernels_are_skipped():
    """Some kernels that a Cortex-M3 has for speed compute whole images alone."""
    path = models.model_path("kws")
    library = hilc.compile(path, cpu="cortex-m3", ram=14_000, io_in_pool=True)
    assert library.modules[0].workspace_bytes <= 14_000


@cases(
    ("seed", "cpu"),
    [
        (3, "cortex-m55"),
        *itertools.product((15, *range(20, 40)), ("cortex-m0", "cortex-m4", "cortex-m55")),
    ],
)
def test_the_least_that_a_refusal_states_is_accepted(seed: int, cpu: str) -> None:
    """And nothing below it is, of either limit alone, and of each while the other is kept."""
    planner = Planner(random_chains(seed, 1, largest=20).graph, get_cpu(cpu), io_in_pool=True)
    known: dict[str, Goals] = {}

    def refusal(ram: int | None, flash: int | None) -> LimitError | None:
        try:
            search(planner, ram=ram, flash=flash, known=known)
        except LimitError as error:
            return error
        return None

    alone = refusal(None, 1)
    tight = refusal(16, None)
    assert alone is not None
    assert tight is not None
    assert tight.least_ram is not None
    beside = refusal(tight.least_ram, 1)
    assert beside is not None
    flashes = [(None, alone.least_flash), (tight.least_ram, beside.least_flash)]
    for ram, least in flashes:
        assert refusal(ram, least) is None
        below = refusal(ram, least - 1)
        assert below is not None
        assert below.least_flash == least
    assert refusal(tight.least_ram, None) is None
    assert refusal(tight.least_ram - 1, None) is not None


def test_a_pool_takes_what_a_limit_takes() -> None:
    """The least that fits into one pool is the least of ``ram``; with room for it, the program is
    that of the goal.
    """
    least = refused(ram=16).least_ram
    assert least is not None
    library = compiled(memory=[PoolSpec("ram", least)])
    assert library.modules[0].workspace_bytes == least
    assert refused(memory=[PoolSpec("ram", least - 16)]).least_ram == least
    for goal in GOALS:
        usual = compiled(optimize=goal)
        size = usual.modules[0].workspace_bytes
        roomy = compiled(optimize=goal, memory=[PoolSpec("ram", size)])
        assert roomy.reports["images"].chosen == usual.reports["images"].chosen
        assert roomy.reports["images"].goal == goal


def refused(**options: Any) -> LimitError:
    with pytest.raises(LimitError) as raised:
        compiled(**options)
    return raised.value


def test_a_limit_is_kept_and_its_cost_reported():
    fastest = goals().fastest
    limit = int(0.95 * fastest.workspace_bytes)
    library = compiled(ram=limit)
    report = library.reports["images"]
    assert library.modules[0].workspace_bytes == report.chosen.workspace_bytes <= limit
    assert report.chosen == goals().within(limit, None).cost
    assert report.fastest == fastest.cost
    assert report.goal == "limits"


def test_what_does_not_fit_is_refused_with_what_would():
    with pytest.raises(InputError, match="fits a workspace of 100 B") as refusal:
        compiled(ram=100)
    smallest = int(str(refusal.value).split("the smallest is ")[1].split(" B")[0])
    assert goals().within(smallest, None).workspace_bytes == smallest
    with pytest.raises(InputError, match=f"the smallest is {smallest} B"):
        goals().within(smallest - 1, None)


@cases(
    ("optimize", "off"),
    # Where layers share code, what each of them takes is only known once all are chosen.
    [("speed", 0.02), ("balanced", 0.15), ("size", 0.2)],
    first=1,
)
def test_the_cheapest_kernels_within_a_flash_limit(optimize: str, off: float):
    partitioner = Partitioner(planner(), None, optimize, POLICY)
    flash_bytes = partitioner.estimator.flash_bytes

    def cost(segments: Sequence[Segment]) -> int:
        return sum(segment.cost for segment in segments)

    every = sorted(itertools.product(*partitioner.singles), key=cost)
    sizes = [flash_bytes(segments) for segments in every]
    for limit in np.linspace(min(sizes), max(sizes), 12).astype(int).tolist():
        best = next(s for s, size in zip(every, sizes, strict=True) if size <= limit)
        found = partitioner.cheapest(None, replace(FASTEST, flash_limit=limit))
        assert found is not None
        assert flash_bytes(found.segments) <= limit
        # Each layer's size is rounded up to parts of the limit.
        room = limit - len(partitioner.singles) * -(-limit // POLICY.sum_parts)
        fitting = (s for s, size in zip(every, sizes, strict=True) if size <= room)
        assert cost(best) <= found.cost <= (1 + off) * cost(next(fitting, best))
    assert partitioner.cheapest(None, replace(FASTEST, flash_limit=min(sizes) - 1)) is None


def test_less_flash_is_never_faster():
    fastest, least = goals().fastest.flash_bytes, goal("size").flash_bytes
    limits = np.linspace(fastest, least, 10).round().astype(int).tolist()
    found = [goals().within(None, limit) for limit in limits]
    assert all(f.flash_bytes <= limit for f, limit in zip(found, limits, strict=True))
    instructions = [f.instructions for f in found]
    assert instructions == sorted(instructions)
    assert instructions[0] < instructions[-1]


def test_both_limits_are_kept():
    ram = goals().fastest.workspace_bytes - 1
    by_ram = goals().within(ram, None)
    flash = by_ram.flash_bytes - 1
    found = goals().within(ram, flash)
    assert found.workspace_bytes <= ram
    assert found.flash_bytes <= flash
    assert found.instructions > by_ram.instructions
    assert found.instructions >= goals().within(None, flash).instructions


@pytest.mark.full
def test_more_flash_with_a_memory_limit() -> None:
    """Partitions whose segments were exchanged, for offsets, once exceeded the flash."""
    digits = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.tflite"
    slowest = 10**9
    for flash in (9000, 14336, 17000):
        library = hilc.compile(
            digits, cpu="cortex-m4", name="digits", io_in_pool=True, ram=1200, flash=flash
        )
        chosen = library.reports["digits"].chosen
        assert (chosen.keeps(1200, flash), chosen.instructions <= slowest) == (True, True), flash
        slowest = chosen.instructions


def test_a_refusal_states_each_limit_for_the_other():
    ram = min(program.workspace_bytes for program in frontier().programs())
    flash = goals().within(ram, None).flash_bytes // 2
    with pytest.raises(InputError) as refusal:
        goals().within(ram, flash)
    smallest, least = map(
        int, re.findall(r"the (?:smallest|least) is (?:about )?(\d+) B", str(refusal.value))
    )
    assert ram < smallest
    assert flash < least
    assert goals().within(smallest, flash).workspace_bytes == smallest
    assert goals().within(ram, least).flash_bytes <= least


def test_a_kept_flash_limit_is_planned_once(monkeypatch: pytest.MonkeyPatch):
    planned, plan = list[KernelSelection](), Planner.plan_unchecked
    fastest = goals().fastest  # planned before

    def counted(self: Planner, choice: KernelSelection) -> Program:
        planned.append(choice)
        return plan(self, choice)

    monkeypatch.setattr(Planner, "plan_unchecked", counted)
    assert Goals(ParetoFrontier(planner())).within(None, 1 << 20).cost == fastest.cost
    assert len(planned) == 1


def test_a_flash_limit_by_estimate_or_refused():
    fastest, least = goals().fastest, goal("size")
    assert least.flash_bytes < fastest.flash_bytes
    assert goals().within(None, least.flash_bytes).flash_bytes <= least.flash_bytes
    assert goals().within(None, fastest.flash_bytes).cost == fastest.cost
    with pytest.raises(InputError, match="10 B of flash"):
        goals().within(None, 10)
    # A build that was too large takes its excess off the limit, which may leave less than nothing.
    with pytest.raises(InputError, match="-10 B of flash"):
        goals().within(None, -10)


def test_a_goal_stays_with_a_limit_it_keeps():
    least = choose(goals(), optimize="size")[1].chosen
    ram = least.workspace_bytes - 1
    limited = choose(goals(), optimize="size", ram=ram)[1]
    assert limited.goal == "size"
    assert limited.chosen.workspace_bytes <= ram
    assert limited.chosen.flash_bytes <= goals().within(ram, None).flash_bytes
    smallest = choose(goals(), optimize="ram")[1].chosen
    assert choose(goals(), optimize="ram", ram=smallest.workspace_bytes)[1].chosen == smallest
    flash = smallest.flash_bytes - 1
    beside = choose(goals(), optimize="ram", flash=flash)[1]
    assert beside.goal == "limits"
    assert beside.chosen == goals().within(None, flash).cost


def goal(name: str) -> PlannedProgram:
    """Return the program of a goal, without limits."""
    found = goals().program(name)
    assert found is not None
    return found


def test_goals_are_ordered():
    fastest, balanced, smallest = (goal(name) for name in ("speed", "balanced", "ram"))
    assert fastest is goals().fastest
    assert fastest.instructions <= balanced.instructions <= 1.3 * fastest.instructions
    assert smallest.workspace_bytes <= balanced.workspace_bytes
    assert goal("size").flash_bytes <= balanced.flash_bytes


@pytest.mark.parametrize(
    ("model", "cpu"),
    sampled(
        [
            (model, cpu)
            for model in ("ad", "kws", "ic", "digits")
            for cpu in ("cortex-m3", "cortex-m4", "cortex-m55")
        ],
        keep=[
            ("ad", "cortex-m3"),
            ("ad", "cortex-m4"),
            ("ad", "cortex-m55"),
            ("digits", "cortex-m3"),
            ("digits", "cortex-m4"),
            ("digits", "cortex-m55"),
            ("kws", "cortex-m4"),
        ],
    ),
)
def test_each_goal_keeps_its_row(model: str, cpu: str):
    """No goal's program has a noticeably larger sum than that of another goal it could take."""
    digits = ROOT / "examples" / "digits" / "digits.tflite"
    path = digits if model == "digits" else models.model_path(model)
    own = Planner(prepare(path, model, get_cpu(cpu)).graph, get_cpu(cpu), io_in_pool=True)
    found = Goals(ParetoFrontier(own))
    programs = {name: found.program(name) for name in POLICY.goals}
    for name, row in POLICY.goals.items():
        program = programs[name]
        assert program is not None
        assert program.instructions <= row.most * found.fastest.instructions, name
        for other in programs.values():
            assert other is not None
            if other.instructions * POLICY.error <= row.most * found.fastest.instructions:
                own_sum = row.sum(program.workspace_bytes, program.flash_bytes)
                other_sum = row.sum(other.workspace_bytes, other.flash_bytes)
                assert own_sum <= 1.05 * other_sum, (name, other)


def test_weights_as_words_only_for_speed():
    """They take 2.7 times the flash, for ad on a Cortex-M3 with nothing else in it."""
    cpu = get_cpu("cortex-m3")
    own = Planner(prepare(models.model_path("ad"), "ad", cpu).graph, cpu, io_in_pool=True)
    found = Goals(ParetoFrontier(own))
    balanced, size = found.program("balanced"), found.program("size")
    assert balanced is not None
    assert size is not None
    # No more of them than the bound of instructions needs.
    assert size.flash_bytes < balanced.flash_bytes < found.fastest.flash_bytes
    assert balanced.instructions >= 1.2 * found.fastest.instructions
    # What fits a limit of flash is as fast as it can be.
    assert found.within(None, size.flash_bytes + 100_000).instructions < size.instructions


@pytest.mark.full  # It changes rarely, and takes long.
def test_balanced_saves_most_of_the_workspace():
    """On a Cortex-M0, whose fastest kernels have the most scratch."""
    cpu = get_cpu("cortex-m0")
    own = Planner(prepare(models.model_path("ic"), "ic", cpu).graph, cpu)
    found = Goals(ParetoFrontier(own))
    balanced = found.program("balanced")
    assert balanced is not None
    assert balanced.instructions <= 1.3 * found.fastest.instructions
    assert balanced.workspace_bytes <= 0.4 * found.fastest.workspace_bytes


@pytest.mark.full
def test_groups_take_large_weights_within_the_bound():
    own = Planner(prepare(models.model_path("ic"), "ic", CPU).graph, CPU, io_in_pool=True)
    found = Goals(ParetoFrontier(own))
    balanced = found.program("balanced")
    assert balanced is not None
    assert balanced.choice.groups
    assert balanced.workspace_bytes <= 0.7 * found.fastest.workspace_bytes
    assert balanced.flash_bytes <= 0.6 * found.fastest.flash_bytes
    # Winograd's products in rows that stream: nearly as fast as with whole images.
    within = found.within(24_000, None)
    assert within.instructions <= 1.05 * found.fastest.instructions
    names = {
        stage.call.kernel.name
        for step in within.program.steps
        if isinstance(step.call, FusedCall)
        for stage in step.call.stages
    }
    assert "hil_dsp_conv2d_s8_winograd" in names


def test_the_policy_decides_what_a_goal_takes():
    def balanced(row: Goal, **constants: Any) -> PlannedProgram:
        policy = replace(POLICY, goals={**POLICY.goals, "balanced": row}, **constants)
        found = Goals(ParetoFrontier(planner(), policy=policy)).program("balanced")
        assert found is not None
        return found

    usual = goal("balanced")
    generous = Goal(workspace=1, flash=1 / 1000, most=4)
    smaller = balanced(generous)
    assert smaller.workspace_bytes < usual.workspace_bytes
    assert smaller.instructions > usual.instructions
    assert smaller.choice.groups
    without_groups = balanced(generous, longest_group=0)
    assert not without_groups.choice.groups
    assert without_groups.workspace_bytes > smaller.workspace_bytes


def test_the_same_model_gives_the_same_program():
    first, second = (compiled(optimize="ram") for _ in range(2))
    assert first.files == second.files


@cases("goal", ["balanced", "speed", "size", "ram"], first=1)
@cases("model", [images, convolutions], first=1)
def test_every_goal_computes_the_same(model, goal: str):
    data = model()
    library = hilc.compile(data, name="m", optimize=goal, io_in_pool=True)
    graph = prepare(data, "m", get_cpu("host")).original
    rng = np.random.default_rng(2)
    values = {
        name: rng.integers(-128, 128, graph.tensors[name].shape).astype(np.int8)
        for name in graph.inputs
    }
    expected = interpreter.run(graph, values)
    with load(library) as host:
        for name, value in values.items():
            host.set_input(name, value)
        host.run()
        for name in graph.outputs:
            np.testing.assert_array_equal(host.get_output(name), expected[name])


def test_a_choice_that_is_given_is_taken():
    library = compiled(choice=KernelSelection())
    assert not library.reports
    with pytest.raises(InputError, match="has no kernel variant 'dsp.none'") as caught:
        compiled(choice=KernelSelection({"p0": "dsp.none"}))
    assert "generic." in caught.value.hint


def test_layers_share_code_under_a_flash_limit():
    alone = compiled(optimize="speed")
    # So much is not saved by smaller weights and scales of the same kernels.
    limit = int(0.9 * alone.reports["images"].chosen.flash_bytes)
    limited = compiled(optimize="speed", flash=limit)
    report = limited.reports["images"]
    assert report.chosen.flash_bytes <= limit
    # The kernels can stay as fast as they are.
    assert report.chosen.instructions <= 1.05 * alone.reports["images"].chosen.instructions
    shared = ["static int32_t shared_" in source_of(library) for library in (alone, limited)]
    assert shared == [False, True]


def source_of(library: hilc.ModelLibrary) -> str:
    return "".join(data.decode() for path, data in library.files.items() if path.endswith(".c"))


@pytest.mark.parametrize("cpu", ["cortex-m0", "cortex-m3"])
def test_float_programs_fuse_at_their_code_size(cpu: str) -> None:
    """The code of bands is stated for the float kernels: fusing pays, by much."""
    library = hilc.compile(models.model_path("kws_float"), cpu=cpu, name="kws")
    assert library.reports["kws"].groups
    assert library.modules[0].workspace_bytes < 20_000


def test_speed_says_what_its_scratch_takes() -> None:
    """More than half of the workspace, which other goals weigh."""
    builder = GraphBuilder()
    graph = builder.graph(builder.conv(builder.input(1, 8, 8, 16), 16))
    lines = {}
    for goal in ("speed", "balanced"):
        library = hilc.compile(
            graph, cpu="cortex-m4", optimize=goal, io_in_pool=True, pools="external"
        )
        report = library.reports["net"]
        lines[goal] = "\n".join(chosen_lines(report))
    workspace = report.fastest.workspace_bytes
    assert f"2,176 of {workspace:,} B of workspace are scratch" in lines["speed"]
    assert "scratch" not in lines["balanced"]


# -- the least workspace ---------------------------------------------------------------------------


def an_elementwise_layer(layer: str) -> Graph:
    builder = GraphBuilder()
    inputs = [builder.input(1, 4, 4, 4) for _ in range(2 if layer == "ADD" else 1)]
    return builder.graph(builder.add(*inputs) if layer == "ADD" else builder.relu(*inputs))


def an_elementwise_end(outputs: int) -> Graph:
    """Convolutions and a sum; other outputs are read again."""
    builder = GraphBuilder()
    one = builder.conv(builder.input(1, 4, 4, 2), 2)
    two = builder.relu(builder.conv(one, 2))
    return builder.graph(builder.add(one, two), *[one, two][: outputs - 1])


def least_of(planner: Planner, goal: str, known: dict[str, Goals]) -> int:
    """Return the smallest workspace that a refusal reports; 0 where nothing is refused."""
    try:
        search(planner, optimize=goal, ram=0, known=known)
    except LimitError as refused:
        return refused.least_ram or 0
    return 0


def check_least_workspace(graph: Graph, cpu: str, *, io_in_pool: bool) -> None:
    """The reported smallest workspace is a limit that can be kept, and one byte less is none."""
    planner = Planner(graph, get_cpu(cpu), io_in_pool=io_in_pool)
    known: dict[str, Goals] = {}
    for goal in GOALS:
        least = least_of(planner, goal, known)
        kept = search(planner, optimize=goal, ram=least, known=known)
        assert kept.program.workspace_bytes <= least
        found = search(planner, optimize=goal, known=known)
        assert found.program.workspace_bytes >= least
        assert min(found.workspaces) == least
        if least:
            with pytest.raises(LimitError, match=f"smallest is {least} B") as refused:
                search(planner, optimize=goal, ram=least - 1, known=known)
            assert refused.value.least_ram == least


_CORES = ["cortex-m4", "cortex-m55", "rv32imac", "host"]


_FEW = {
    "add": an_elementwise_layer("ADD"),
    "relu": an_elementwise_layer("RELU"),
    **{f"end of {outputs}": an_elementwise_end(outputs) for outputs in (1, 2, 3)},
}


@pytest.mark.parametrize("io_in_pool", [False, True])
@pytest.mark.parametrize(
    ("cpu", "graph"),
    sampled(
        itertools.product(_CORES, _FEW),
        keep=[*itertools.product(_CORES, ["add", "relu"]), ("cortex-m4", "end of 2")],
    ),
)
def test_the_smallest_workspace_of_few_layers(cpu: str, graph: str, io_in_pool: bool) -> None:
    check_least_workspace(_FEW[graph], cpu, io_in_pool=io_in_pool)


@pytest.mark.parametrize("io_in_pool", [False, True])
@pytest.mark.parametrize(
    ("cpu", "seed"),
    sampled(
        itertools.product(_CORES, range(60)),
        # Among these, outputs are overwritten in place in a buffer of the caller.
        keep=[*((core, 1 + at) for at, core in enumerate(_CORES)), ("cortex-m55", 1)],
    ),
)
def test_the_smallest_workspace_is_a_limit(cpu: str, seed: int, io_in_pool: bool) -> None:
    check_least_workspace(random_graph(seed), cpu, io_in_pool=io_in_pool)


@pytest.mark.parametrize("io_in_pool", [False, True])
@pytest.mark.parametrize("seed", sampled(range(60), keep=range(6)))
def test_no_plan_is_below_the_bound_of_its_partition(seed: int, io_in_pool: bool) -> None:
    frontier = ParetoFrontier(Planner(random_graph(seed), CPU, io_in_pool=io_in_pool))
    for objective in (FASTEST, Objective(20.0), Objective(1e6)):
        for partition in frontier.partitions(objective):
            found = frontier.planned(partition)
            assert isinstance(found, PlannedProgram)
            assert found.workspace_bytes >= partition.memory_bound
