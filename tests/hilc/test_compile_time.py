"""What a compilation works out, and how often: the work of a large network grows with its layers.

Seconds depend on the machine, so most of these count. Some hold the budgets of
docs/explanation/design.md with a wide margin, by the speed that the machine has at that time;
``tools/bench.py`` prints the seconds.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import large_models
import models
import numpy as np
import pytest
from campaigns import cases, sampled

import hilc
from hilc.frontends import load_model
from hilc.fusion import fused
from hilc.fusion.bands import Geometry, Variant
from hilc.fusion.bounds import Bounds, StageWays
from hilc.fusion.call import Entry
from hilc.fusion.fused import GroupCalls
from hilc.fusion.layout import Layout
from hilc.fusion.schedule import Schedule, _Walk
from hilc.fusion.stages import StageCalls, _Signature
from hilc.lowering.choice import ChoiceReport, Group
from hilc.lowering.dsp import affine
from hilc.lowering.kernels import KernelCall
from hilc.lowering.registry import Layer, LoweredLayer
from hilc.memory.plan import Planner
from hilc.ops import OPS
from hilc.schedule.groups import FusedGroups
from hilc.schedule.partition import Partitioner
from hilc.schedule.search import search
from hilc.target import get_cpu
from hilc.transforms import run_passes

#: By how much a compilation may exceed its budget on the machine of the budgets: much, since the
#: yardstick is short, and other programs that come and pass slow a core and its caches.
_MARGIN = 6
#: Processor time of :func:`_work` on that machine.
_WORK_S = 0.03
#: Outputs of int8 but the least.
LEVELS = np.arange(-127, 128)


def _work() -> float:
    """Return the processor time of what compilations do most: tuples, dictionaries, sorting."""
    start = time.process_time()
    found: dict[tuple[int, int], int] = {}
    for i in range(120_000):
        key = i % 977, i % 31
        found[key] = max(found.get(key, 0), i) + len(found)
    sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
    return time.process_time() - start


@contextmanager
def within(budget_s: float) -> Iterator[None]:
    """Require what is inside to keep a budget at the speed that this machine has now."""
    times = [_work() for _ in range(3)]
    start = time.process_time()
    yield
    spent = time.process_time() - start
    slowness = max(1, min([*times, *(_work() for _ in range(3))]) / _WORK_S)
    text = f"{spent:.1f} s of processor time on a machine that is {slowness:.1f} times as slow"
    assert spent < _MARGIN * slowness * budget_s, text


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each layer was lowered, by its name."""
    found = Counter[str]()

    lower = LoweredLayer.__init__

    def counted(self: LoweredLayer, layer: Layer) -> None:
        found[layer.node.name] += 1
        lower(self, layer)

    monkeypatch.setattr(LoweredLayer, "__init__", counted)
    return found


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The choices that were planned."""
    found: list[object] = []
    plan = Planner.plan_unchecked

    def counted(self: Planner, choice):
        found.append(choice)
        return plan(self, choice)

    monkeypatch.setattr(Planner, "plan_unchecked", counted)
    return found


@pytest.mark.parametrize(
    ("size", "cells", "layers"), sampled([(48, 1, 200), (224, 4, 500)], keep=[(48, 1, 200)])
)
def test_hundreds_of_layers_are_lowered_once(
    lowered, planned, size: int, cells: int, layers: int
) -> None:
    data = large_models.nasnet_mobile(size, cells)
    with within(30 * layers / 200):
        library = hilc.compile(data, cpu="cortex-m4", name="nasnet", io_in_pool=True)
    assert len(library.modules[0].layers) > layers
    assert set(lowered.values()) == {1}
    assert 1 < len(planned) < 10


@pytest.mark.parametrize(
    ("model", "cpu", "goal", "budget_s"),
    sampled(
        [
            ("kws", "cortex-m4", "balanced", 5),
            ("ic", "cortex-m33", "balanced", 5),
            ("vww", "cortex-m4", "ram", 5),
            ("vww", "rv32imac", "balanced", 5),
            ("vww", "cortex-m0", "balanced", 10),
            ("vww", "cortex-m55", "ram", 10),
        ],
        keep=[("kws", "cortex-m4", "balanced", 5)],
    ),
)
def test_models_compile_within_their_budget(
    model: str, cpu: str, goal: str, budget_s: float
) -> None:
    with within(budget_s):
        hilc.compile(models.model_path(model), cpu=cpu, optimize=goal)


def test_every_limit_of_flash_lowers_once(lowered, planned) -> None:
    data = models.model_path("kws")
    limit = hilc.compile(data, cpu="cortex-m4", io_in_pool=True).reports["kws_ref_model"].chosen
    lowered.clear()
    planned.clear()
    hilc.compile(
        data,
        cpu="cortex-m4",
        io_in_pool=True,
        ram=limit.workspace_bytes,
        flash=limit.flash_bytes - 1000,
    )
    assert set(lowered.values()) == {1}
    assert len(planned) > 1


@pytest.mark.parametrize(
    ("model", "laid_out", "sketched"),
    sampled([("kws", 120, 600), ("ic", 170, 250), ("vww", 60, 1000)], keep=[("kws", 120, 600)]),
)
def test_groups_in_the_cheapest_partition_are_planned(
    monkeypatch, model: str, laid_out: int, sketched: int
) -> None:
    """Others are known to take too much, or to cost too much, by outlines; 1,332 were laid out.

    A goal tries several prices of flash, with kernels of their own."""
    made, outlined = Counter[Group](), Counter[Group]()
    call, outline = GroupCalls.call, GroupCalls.outlines
    monkeypatch.setattr(GroupCalls, "call", lambda s, g: made.update([g]) or call(s, g))
    monkeypatch.setattr(GroupCalls, "outlines", lambda s, g: outlined.update([g]) or outline(s, g))
    hilc.compile(models.model_path(model), cpu="cortex-m55", name=model, io_in_pool=True)
    assert max(made.values(), default=0) <= max(outlined.values()) == 1
    assert made.total() < laid_out
    assert outlined.total() < sketched


def test_schedules_are_made_and_laid_out_when_needed(monkeypatch) -> None:
    """All rows at a time were scheduled first, 387 times, each with the effects of its entries."""
    made: list[Schedule] = []

    class Counted(Schedule):
        def __init__(self, geometry, variant) -> None:
            super().__init__(geometry, variant)
            made.append(self)

    monkeypatch.setattr(fused, "Schedule", Counted)
    hilc.compile(models.model_path("kws"), cpu="cortex-m4")
    assert 0 < len(made) < 300
    rows = Counter(schedule.geometry.group.rows for schedule in made)
    assert rows[8] < rows[1]
    with_effects = [schedule for schedule in made if "_effects" in vars(schedule)]
    # Schedules that groups of one shape share have their effects once.
    assert 0 < len(with_effects) < len(made) / 5


def test_groups_of_one_shape_share_schedules(monkeypatch) -> None:
    """Equal layers in a row were scheduled and laid out once for each group of them."""
    found = Counter[str]()

    def count(cls: type, name: str) -> None:
        own = getattr(cls, name)
        monkeypatch.setattr(cls, name, lambda *args: found.update([name]) or own(*args))

    for cls, name in (
        (GroupCalls, "_schedule"),
        (Schedule, "__init__"),
        (Layout, "_rows"),
        (Layout, "_smallest_arena"),
    ):
        count(cls, name)
    hilc.compile(models.model_path("kws"), cpu="cortex-m4")
    assert 0 < found["__init__"] < 0.6 * found["_schedule"]
    assert 0 < found["_smallest_arena"] < found["_rows"]


def test_bands_are_compared_once_a_call(monkeypatch) -> None:
    """Each set of bands compared all numbers of its calls, for kernels that no program has."""
    compared, laid_out = Counter[int](), Counter[int]()
    of, varying = _Signature.of, vars(StageCalls)["varying"]
    kept: list[KernelCall] = []

    def signature(call: KernelCall) -> _Signature:
        kept.append(call)
        compared[id(call)] += 1
        return of(call)

    def differing(self: StageCalls) -> Any:
        laid_out[id(self)] += 1
        return varying.func(self)

    monkeypatch.setattr(_Signature, "of", staticmethod(signature))
    monkeypatch.setattr(StageCalls, "varying", property(differing))
    hilc.compile(models.model_path("kws"), cpu="cortex-m4")
    assert max(compared.values()) == 1
    assert 0 < len(laid_out) < len(compared) / 4


def test_hopeless_limits_are_not_searched(monkeypatch) -> None:
    """At ever lower prices of flash all limits of memory were searched, for the same program."""
    graph = load_model(models.model_path("kws"), "kws")
    cpu, tried = get_cpu("cortex-m4"), Counter[str]()
    within = FusedGroups.within
    monkeypatch.setattr(
        FusedGroups, "within", lambda s, *a, **k: tried.update(["limits"]) or within(s, *a, **k)
    )

    def searched() -> tuple[ChoiceReport, int]:
        tried.clear()
        report = search(Planner(run_passes(graph), cpu, io_in_pool=True)).report
        return report, tried["limits"]

    bounded, count = searched()
    monkeypatch.setattr(Partitioner, "flash_bound", lambda *_: 0.0)
    unbounded, more = searched()
    assert bounded == unbounded
    assert 0 < count < 0.9 * more


def test_stages_of_many_groups_are_priced_once(monkeypatch) -> None:
    """Each schedule of each group priced all kernels of its stages again."""
    found = Counter[str]()
    init, ways = StageWays.__init__, Bounds._of_stage

    def counted(self: StageWays, options) -> None:
        found["priced"] += 1
        init(self, options)

    def of_stage(self: Bounds, *args: Any) -> StageWays:
        found["asked"] += 1
        return ways(self, *args)

    monkeypatch.setattr(StageWays, "__init__", counted)
    monkeypatch.setattr(Bounds, "_of_stage", of_stage)
    hilc.compile(models.model_path("kws"), cpu="cortex-m4")
    assert 0 < found["priced"] < found["asked"] / 2


@pytest.mark.full
def test_tall_images_are_planned_by_shape(monkeypatch) -> None:
    """Of hundreds of groups of up to 224 rows; each call of a stage was worked out several times,
    145,617 in all, and every one of 85,597 that got a place was written out. How many it takes
    depends on how many groups the costs of kernels leave in the race."""
    worked_out, written, walked = Counter[str](), Counter[str](), Counter[object]()
    record, entry, init = _Walk._record, Layout._entry, Schedule.__init__

    def counted_record(self: _Walk, *args: Any) -> None:
        worked_out["calls"] += 1
        record(self, *args)

    def counted_entry(self: Layout, *args: Any) -> Entry:
        written["entries"] += 1
        return entry(self, *args)

    def counted_schedule(self: Schedule, geometry: Geometry, variant: Variant) -> None:
        walked[geometry.group, variant] += 1
        init(self, geometry, variant)

    monkeypatch.setattr(_Walk, "_record", counted_record)
    monkeypatch.setattr(Layout, "_entry", counted_entry)
    monkeypatch.setattr(Schedule, "__init__", counted_schedule)
    hilc.compile(large_models.mobilenet_v2(), cpu="cortex-m4", name="net", io_in_pool=True)
    assert max(walked.values()) == 1
    assert 0 < worked_out["calls"] < 160_000
    assert 0 < written["entries"] < 20_000


def test_what_a_pass_left_alone_is_verified_once(monkeypatch) -> None:
    checked = Counter[str]()
    graph = load_model(models.model_path("vww"), "vww")

    def counted(op: str):
        def check(node, ins, outs):
            checked[node.name] += 1
            OPS[op].check(node, ins, outs)

        return replace(OPS[op], check=check)

    monkeypatch.setattr("hilc.ops.verify.OPS", {op: counted(op) for op in OPS})
    run_passes(graph)
    assert len(checked) >= len(graph.nodes)
    assert max(checked.values()) <= 2


@cases("seed", range(8), first=2)
def test_affine_requantization_equals_a_full_search(seed: int) -> None:
    """The nearest of them, or none where there is none."""
    rng = np.random.default_rng(seed)
    channels, shift, bits = 12, int(rng.integers(4, 9)), 8 - seed // 2
    high = rng.integers(2000, 200_000, channels)
    low = -rng.integers(2000, 200_000, channels)
    real = 255 / (high - low) * rng.uniform(0.5, 4, channels)
    off = np.sort(rng.uniform(-1, 1, (channels, 255)) * 10.0 ** rng.integers(-4, 1), axis=1)
    first = np.ceil((LEVELS - 0.5) / real[:, np.newaxis] + off).astype(np.int64)
    first = np.clip(first, low[:, np.newaxis], high[:, np.newaxis] + 1)
    exact = np.rint(real * 2.0 ** (32 - bits + shift)).astype(np.int64)
    exact += rng.integers(-40, 40, channels)
    shifts, corrections = np.full(channels, shift), np.full(channels, seed % 2)

    def tried(channel: int) -> tuple[int, int] | None:
        for offset in sorted(
            range(-affine._TRIED_MULTIPLIERS, affine._TRIED_MULTIPLIERS + 1), key=abs
        ):
            multiplier = int(exact[channel]) + offset
            at = [
                ((x * multiplier << bits) >> 32) - (seed % 2) * (x < 0)
                for x in first[channel].tolist()
            ]
            before = [
                (((x - 1) * multiplier << bits) >> 32) - (seed % 2) * (x - 1 < 0)
                for x in first[channel].tolist()
            ]
            reached = (LEVELS << shift).tolist()
            rows = list(zip(first[channel].tolist(), reached, at, before, strict=True))
            least = max((r - a for x, r, a, _ in rows if x <= high[channel]), default=-affine._ANY)
            most = min((r - 1 - b for x, r, _, b in rows if x > low[channel]), default=affine._ANY)
            if least <= most:
                return multiplier, (max(least, -(2**31)) + min(most, 2**31)) >> 1
        return None

    expected = [tried(channel) for channel in range(channels)]
    for channel in range(channels):
        part = slice(channel, channel + 1)
        arrays = (first, low, high, shifts, exact, corrections)
        found = affine._affine_requantizations(
            LEVELS, *(array[part] for array in arrays), bits=bits
        )
        assert (None if found is None else (found[0][0], found[1][0])) == expected[channel]
    found = affine._affine_requantizations(
        LEVELS, first, low, high, shifts, exact, corrections, bits=bits
    )
    assert (found is None) == (None in expected)


@pytest.mark.full
def test_fractions_below_a_unit_of_the_addend() -> None:
    rng = np.random.default_rng(0)
    channels, shift = 40, 11
    low = -rng.integers(20_000, 90_000, channels)
    high = rng.integers(20_000, 90_000, channels)
    real = rng.uniform(0.3, 0.95, channels) / 2**shift
    sums = np.arange(low.min(), high.max() + 1)
    outputs = np.floor(real[:, np.newaxis] * sums + rng.uniform(0, 1, (channels, 1)))
    clamped = np.clip(outputs.astype(np.int64), -128, 127)
    first = sums[0] + np.array([np.searchsorted(row, LEVELS) for row in clamped])
    first = np.clip(first, low[:, np.newaxis], high[:, np.newaxis] + 1)
    exact, shifts = np.rint(real * 2.0 ** (24 + shift)).astype(np.int64), np.full(channels, shift)
    found = 0
    for channel in range(channels):
        own = slice(channel, channel + 1)
        part = (first[own], low[own], high[own], shifts[own], exact[own])
        finer = affine._finer_affine_requantizations(LEVELS, *part, 8)
        usual = affine._affine_requantizations(LEVELS, *part, np.zeros(1, np.int64), bits=8)
        if finer is None or usual is not None:
            continue
        multiplier, addend, fraction = (int(values[0]) for values in finer)
        assert 0 < fraction < 256
        lines = addend + ((256 * sums + fraction) * multiplier >> 32) >> shift
        inside = (sums >= low[channel]) & (sums <= high[channel])
        assert (np.clip(lines, -128, 127) == clamped[channel])[inside].all()
        found += 1
    assert found > channels // 4


def test_no_collection_during_a_compile() -> None:
    """It takes a fifth of the time and finds nothing; it continues afterwards, after errors too."""
    seen: list[bool] = []
    model = models.model_path("kws")
    hilc.compile(model, cpu="cortex-m4", progress=lambda: seen.append(gc.isenabled()))
    assert set(seen) == {False}
    assert gc.isenabled()
    with pytest.raises(hilc.InputError):
        hilc.compile(model, cpu="cortex-m4", ram=16)
    assert gc.isenabled()
