"""Logs of measured costs, and what the search makes of them: without a board."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from small_models import convolutions

from hilc.errors import InputError
from hilc.external import ExternalCall
from hilc.lowering.choice import Group, KernelSelection
from hilc.lowering.kernels import KernelCall
from hilc.memory.plan import Planner
from hilc.schedule import tuning as tuning_module
from hilc.schedule.estimate import _Costs
from hilc.schedule.pareto import FASTEST
from hilc.schedule.partition import Partition, Partitioner
from hilc.schedule.policy import POLICY
from hilc.schedule.tuning import (
    FORMAT,
    Measured,
    TunedGroup,
    TunedLayer,
    TunedProgram,
    Tuning,
    load_tuning,
    sharing_of,
)
from hilc.source import PreparedModel, prepare
from hilc.target import get_cpu

CPU = get_cpu("cortex-m4")
GROUP = Group(("a", "b"), 2, "backward", ("fast", "slow"))


@cache
def source() -> PreparedModel:
    return prepare(convolutions(), "net", CPU)


def program(sharing: str = "speed", count: int = 100, **choice: Any) -> TunedProgram:
    groups = tuple(TunedGroup(group, count // 2) for group in choice.get("groups", ()))
    return TunedProgram(sharing, choice.get("kernels", {}), groups, 64, count)


def log(**fields: Any) -> Tuning:
    given = {
        "format": FORMAT, "model": "net", "digest": source().digest, "cpu": CPU.name,
        "compiler": "1.2", "board": "some", "counter": "instructions", "layers": (), "programs": (),
    }  # fmt: skip
    return Tuning(**{**given, **fields})


# -- the file --------------------------------------------------------------------------------------


def test_a_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    layers = (
        TunedLayer("a", "CONV_2D", (Measured("slow", 9), Measured("fast", 3))),
        TunedLayer("b", "RESHAPE", ()),
    )
    programs = (program(kernels={"a": "fast"}), program("size", groups=(GROUP,)))
    written = log(layers=layers, programs=programs)
    path = tmp_path / "log.json"
    path.write_bytes(written.to_json())
    assert load_tuning(path) == load_tuning(str(path)) == written
    assert written.counts == {"a": {"slow": 9, "fast": 3}, "b": {}}
    assert written.groups == {GROUP: 50}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "cannot be read: No such file"),
        ("{", "is not JSON"),
        ("[]", "is not a tuning log of format 3: its format is None"),
        ("{}", "is not a tuning log of format 3: its format is None"),
        ('{"format": 4}', "is not a tuning log of format 3: its format is 4"),
        ('{"format": 3}', "expected are the keys"),
        (
            '{"format": 2}',
            "of format 2, which states kernels by position; format 3 states the names",
        ),
    ],
)
def test_what_is_no_log_is_refused(tmp_path: Path, text: str | None, told: str) -> None:
    path = tmp_path / "log.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=told) as caught:
        load_tuning(path)
    assert str(path) in caught.value.fact


def test_a_log_is_a_file() -> None:
    """Of a device there may be no end."""
    with pytest.raises(InputError) as caught:
        load_tuning("/dev/null")
    assert "is not JSON" not in caught.value.fact


def test_fields_of_another_type_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps({**asdict(log()), "board": 7}))
    with pytest.raises(InputError, match="board"):
        load_tuning(path)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"compiler": "1.1"}, "another version of the compiler: 1.1, not 1.2"),
        ({"cpu": "cortex-m0"}, "another core: cortex-m0, not cortex-m4"),
        ({"digest": "0" * 64}, r"another model: net \(0{12}\.\.\.\), not net \("),
        # A model that was changed behind its first layers has another digest from there on.
        ({"digest": source().digest[:12] + "0" * 52}, "another model"),
    ],
)
def test_a_log_of_something_else_is_refused(fields: dict[str, str], told: str) -> None:
    with pytest.raises(InputError, match=told):
        log(**fields).check("net", source().digest, CPU, "1.2")
    # A model's name may change.
    log(model="other").check("net", source().digest, CPU, "1.2")


# -- programs --------------------------------------------------------------------------------------


def test_programs_are_those_whose_code_is_shared_alike() -> None:
    programs = tuple(program(sharing, kernels={"a": "fast"}) for sharing in ("speed", "balanced"))
    tuning = log(programs=programs)
    assert [sharing_of(goal) for goal in ("speed", "balanced", "ram", "size")] == [
        *("speed", "balanced", "balanced", "size")
    ]
    for goal, expected in (("speed", 0), ("balanced", 1), ("ram", 1)):
        assert list(tuning.shared_as(goal)) == [programs[expected]]
        assert tuning.program(goal, KernelSelection({"a": "fast"})) is programs[expected]
        assert tuning.program(goal, KernelSelection({"a": "slow"})) is None
    assert list(tuning.shared_as("size")) == []
    assert program(groups=(GROUP,), kernels={"c": "fast"}).choice == KernelSelection(
        {"c": "fast"}, (GROUP,)
    )


@cache
def planner() -> Planner:
    return Planner(source().graph, CPU, io_in_pool=True)


def partitioner(tuning: Tuning | None, optimize: str = "speed") -> Partitioner:
    return Partitioner(planner(), tuning, optimize, POLICY)


@cache
def untuned() -> tuple[Partition, Partition]:
    """Return the fastest partition, and the first with a fused group."""
    plain = partitioner(None)
    fastest = found = plain.cheapest(None, FASTEST)
    assert fastest is not None
    while found is not None and not found.choice.groups:
        found = plain.cheapest(found.memory_bound - 1, FASTEST)
    assert found is not None
    return fastest, found


def measured_as(partition: Partition, count: int, sharing: str = "speed") -> TunedProgram:
    choice = partition.choice
    groups = tuple(TunedGroup(group, 7) for group in choice.groups)
    return TunedProgram(sharing, dict(choice.kernels), groups, 64, count)


def same(one: Partition | None, other: Partition) -> bool:
    return one is not None and one.choice == other.choice


def test_measured_programs_scale_the_others() -> None:
    fastest, fused = untuned()
    tuned = partitioner(log(programs=(measured_as(fastest, 3 * fastest.cost),)))
    assert [(same(p, fastest), p.cost, p.measured) for p in tuned.measured] == [
        (True, 3 * fastest.cost, True)
    ]
    found = tuned.cheapest(None, FASTEST)
    assert same(found, fastest)
    assert found is not None
    assert (found.cost, found.measured) == (3 * fastest.cost, True)
    # Whole programs cost three times the sum of their layers.
    other = tuned.cheapest(fused.memory_bound, FASTEST)
    assert same(other, fused)
    assert other is not None
    assert (other.cost, other.measured) == (round(3.0 * fused.cost), False)


def test_the_median_of_measurements_scales_the_others() -> None:
    """Each program in the units of its own segments, of which a group was measured in it."""
    fastest, fused = untuned()
    grouped = measured_as(fused, 10 * fused.cost)
    tuned = partitioner(log(programs=(measured_as(fastest, 2 * fastest.cost), grouped)))
    # The group costs 7 of what was counted.
    layers = sum(s.cost for s in fused.segments if s.group is None)
    groups = len(fused.choice.groups)
    factor = (2 + 10 * fused.cost / (layers + 7 * groups)) / 2
    assert tuned._beyond == pytest.approx(factor)
    assert [p.cost for p in tuned.measured] == [2 * fastest.cost, 10 * fused.cost]
    assert same(tuned.measured[1], fused)


def test_programs_of_other_sharing_are_left_out() -> None:
    fastest, fused = untuned()
    assert partitioner(log(programs=(measured_as(fastest, 5, "size"),))).measured == []
    name = fastest.segments[0].names[0]
    lost = replace(measured_as(fastest, 5), kernels={name: "gone"})
    # A group that cannot be fused: of layers that are not in the graph, or do not follow.
    names = [segment.names[0] for segment in fastest.segments]
    apart = replace(measured_as(fastest, 5), groups=(TunedGroup(Group((names[0], names[2])), 7),))
    foreign = replace(measured_as(fastest, 5), groups=(TunedGroup(Group((names[0], "x")), 7),))
    for gone in (lost, apart, foreign):
        tuned = partitioner(log(programs=(gone, measured_as(fused, 9))))
        assert [same(p, fused) for p in tuned.measured] == [True]
    # The goals `ram` and `balanced` share code alike.
    assert len(partitioner(log(programs=(measured_as(fused, 9, "balanced"),)), "ram").measured) == 1


def test_a_kernel_measured_faster_is_taken() -> None:
    plain = partitioner(None)
    step = next(step for step, own in enumerate(plain.singles) if len(own) > 1)
    node = plain.estimator.nodes[step]
    names = [call.variant for call in planner().lowering.calls(node)]
    for wanted in names:
        counts = [5 if name == wanted else 10**6 for name in names]
        kernels = tuple(map(Measured, names, counts))
        tuned = partitioner(log(layers=(TunedLayer(node.name, node.op, kernels),)))
        best = min(tuned.singles[step], key=lambda segment: segment.cost)
        assert (best.kernel, best.cost) == (wanted, 5)


# -- cycles ----------------------------------------------------------------------------------------


def costs(counter: str, measured: dict[str, list[Measured]]) -> _Costs:
    counts = {name: {m.variant: m.count for m in found} for name, found in measured.items()}
    tuning: Any = SimpleNamespace(counts=counts, groups={GROUP: 77}, counter=counter)
    return _Costs(CPU, tuning)


def kernel(name: str, instructions: int) -> Any:
    class Call(KernelCall):
        variant = name

        def instructions(self, cpu: object, *, shared: bool = False) -> int:
            return instructions

    return object.__new__(Call)


def test_a_log_of_cycles_estimates_what_it_lacks() -> None:
    """By the median of what an instruction takes of the kernels that were measured."""
    nodes: list[Any] = [SimpleNamespace(name=name) for name in "abcd"]
    calls = [
        [kernel("k", 100), kernel("l", 100)],
        [kernel("k", 100)],
        [kernel("k", 0)],
        [kernel("k", 100), kernel("new", 50)],
    ]
    counts = {
        "a": [Measured("k", 200), Measured("l", 300)],
        "b": [Measured("k", 900)],
        "c": [Measured("k", 1)],
        "d": [Measured("other", 4)],
    }
    group: Any = SimpleNamespace(group=Group(("x",)), cost=lambda cpu: 10)
    known: Any = SimpleNamespace(group=GROUP, cost=lambda cpu: 10)
    # Ratios 2, 3, 9 and, of a kernel without instructions, 1.
    for counter, scale in (("cycles", 2.5), ("instructions", 1.0)):
        found = costs(counter, counts)
        found.calibrate(nodes, calls)
        assert found.of(nodes[0], calls[0][1]) == 300
        assert found.of(nodes[3], calls[3][0]) == 100 * scale
        assert found.of(nodes[3], calls[3][1]) == 50 * scale
        assert found.of_group(group) == 10 * scale
        assert found.of_group(known) == 77
    nothing = costs("cycles", {})
    nothing.calibrate(nodes, calls)
    assert nothing.of(nodes[0], calls[0][0]) == 100


def test_external_functions_are_never_measured() -> None:
    call: Any = object.__new__(ExternalCall)
    object.__setattr__(call, "module", SimpleNamespace(instructions=31))
    node: Any = SimpleNamespace(name="a")
    found = costs("instructions", {"a": [Measured("k", 200)]})
    assert found.of(node, call) == 31


# -- values that no measurement gives --------------------------------------------------------------

TOO_LARGE = tuning_module._LARGEST


@pytest.mark.full
def test_counts_and_groups_of_a_log_are_possible_ones(tmp_path: Path) -> None:
    path = tmp_path / "log.json"

    def told(**fields: Any) -> str:
        path.write_bytes(log(**{"layers": layer(1), **fields}).to_json())
        try:
            load_tuning(path)
        except InputError as error:
            return error.fact
        return ""

    def layer(count: int) -> tuple[TunedLayer, ...]:
        return (TunedLayer("a", "ADD", (Measured("k", 1), Measured("l", count))),)

    def grouped(count: int = 5, **fields: Any) -> tuple[TunedProgram, ...]:
        group = TunedGroup(replace(GROUP, **fields), count)
        return (replace(program(), groups=(group,)),)

    assert "it has no layers" in told(layers=())
    assert "a layer is there twice" in told(layers=2 * layer(1))
    twice = (TunedLayer("a", "ADD", (Measured("k", 1), Measured("k", 2))),)
    assert "'a' has a kernel variant twice" in told(layers=twice)
    assert "counter" in told(counter="bananas")
    for count in (0, TOO_LARGE - 1):
        assert told(layers=layer(count), programs=grouped(count)) == ""
        assert told(programs=(replace(program(), count=count, workspace_bytes=count),)) == ""
    for count in (-1, TOO_LARGE):
        for fields in (
            {"layers": layer(count)},
            {"programs": grouped(count)},
            {"programs": (replace(program(), count=count),)},
        ):
            assert "which nothing measures" in told(**fields)
        sizes = (replace(program(), workspace_bytes=count),)
        assert "a program has no such workspace" in told(programs=sizes)
    for rows in (0, -1, TOO_LARGE):
        assert f"a group of {rows} rows" in told(programs=grouped(rows=rows))
    for rows in (1, TOO_LARGE - 1):
        assert told(programs=grouped(rows=rows)) == ""
    assert "a group has no layers" in told(programs=grouped(nodes=(), kernels=()))
    for kernels in (("a",), ("a", "b", "c")):
        assert "a group has not one kernel a layer" in told(programs=grouped(kernels=kernels))
    assert told(programs=grouped(kernels=())) == ""


def test_dominated_kernels_are_left_out() -> None:
    estimator = partitioner(None).estimator
    for step in range(len(estimator.nodes)):
        kept = estimator.singles(step)
        for at, one in enumerate(kept):
            for before in kept[:at]:
                worse = (
                    before.cost <= one.cost
                    and before.memory_bound <= one.memory_bound
                    and before.flash <= one.flash
                    and before.in_place >= one.in_place
                )
                assert not worse
