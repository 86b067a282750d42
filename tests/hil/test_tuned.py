"""What ``hil tune`` measures, and in which order: on a device that counts what it is told to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from small_models import convolutions

import hilc
from hil.errors import InputError
from hil.verify import tune as module
from hil.verify.tune import tune, variant_names
from hilc.lowering.choice import Group, KernelSelection
from hilc.schedule.tuning import Measured, TunedGroup, TunedProgram, Tuning
from hilc.source import PreparedModel, prepare
from hilc.target import get_cpu

CPU = get_cpu("cortex-m4")


@cache
def source() -> PreparedModel:
    return prepare(convolutions(), "net", CPU)


def names() -> list[str]:
    return [node.name for node in source().graph.nodes]


def count_of(choice: KernelSelection, name: str) -> int:
    """Return what a layer costs: something else with each kernel."""
    return 1000 * (1 + names().index(name)) + sum(choice.kernels.get(name, "").encode())


@dataclass
class Rig:
    """Compiles by remembering the choice; its devices count."""

    counter: str = "instructions"
    compiled: list[tuple[KernelSelection, str | None]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    repeated: int = 0

    def compile(self, choice: KernelSelection, goal: str | None) -> Any:
        self.compiled.append((choice, goal))
        grouped = {name: group for group in choice.groups for name in group.nodes}
        layers = []
        for name in names():
            group = grouped.get(name)
            if group is None or len(group.nodes) == 1:
                layers.append(SimpleNamespace(name=name, group=()))
            elif group.nodes[-1] == name:
                layers.append(SimpleNamespace(name=name, group=group.nodes))
        # The planner adds a copy, which is no layer of the graph.
        layers.append(SimpleNamespace(name="y:copy", group=()))
        module_ = SimpleNamespace(layers=layers, workspace_bytes=64, choice=choice, style="tvm")
        return SimpleNamespace(modules=(module_,))

    def repeated_(self, job: Any) -> Any:
        self.repeated += 1
        return job()

    @property
    def device(self) -> Any:
        return SimpleNamespace(counter=self.counter, repeated=self.repeated_, simulated=None)

    def tuned(self, **options: Any) -> Tuning:
        @contextmanager
        def open_(library: Any) -> Iterator[Any]:
            yield self.device

        board: Any = SimpleNamespace(name="some board")
        programs_for = options.pop("programs_for", None)
        return tune(
            source(), CPU, board, self.compile, open_, programs_for, started=self.said.append,
            **options,
        )  # fmt: skip


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    def layer_counts(device: Any, module_: Any, *, seed: int = 0) -> list[int]:
        assert seed == 5
        return [
            count_of(module_.choice, layer.name) if layer.name in names() else 1
            for layer in module_.layers
        ]

    def whole_counts(
        device: Any, module_: Any, *, runs: int = 1, seed: int = 0
    ) -> tuple[int, list[int]]:
        return 10_000 + runs, layer_counts(device, module_, seed=seed)

    monkeypatch.setattr(module, "layer_counts", layer_counts)
    monkeypatch.setattr(module, "whole_counts", whole_counts)
    return Rig()


def kernels() -> dict[str, list[str]]:
    return {name: list(variant_names(source(), name, CPU)) for name in names()}


def test_each_kernel_of_each_layer_is_counted_once(rig: Rig) -> None:
    log = rig.tuned(seed=5)
    most = max(map(len, kernels().values()))
    assert most > 1
    assert len({len(found) for found in kernels().values()}) > 1
    assert rig.said == [f"layers: image {image + 1} of {most}" for image in range(most)]
    assert rig.repeated == most
    # The first kernel of each layer in the first image; the last one where there are no more.
    for image, (choice, goal) in enumerate(rig.compiled):
        assert goal is None
        assert choice.groups == ()
        assert choice.kernels == {
            name: found[min(image, len(found) - 1)] for name, found in kernels().items() if found
        }
    assert [layer.name for layer in log.layers] == names()
    for layer in log.layers:
        assert layer.kernels == tuple(
            Measured(variant, count_of(KernelSelection({layer.name: variant}), layer.name))
            for variant in kernels()[layer.name]
        )
    assert log.programs == ()
    assert replace(log, layers=()) == Tuning(
        3, "net", source().digest, CPU.name, hilc.__version__, "some board", "instructions", (), ()
    )


def test_a_board_with_another_counter_is_refused(rig: Rig) -> None:
    rig.counter = "cycles"
    with pytest.raises(InputError, match="counts instructions, and some board here counts cycles"):
        rig.tuned(seed=5, counter="instructions")
    assert len(rig.compiled) == 1
    assert rig.tuned(seed=5, counter="cycles").counter == "cycles"


class Found:
    """What a search proposes: the next of these for each program that is known, and a frontier."""

    def __init__(
        self, proposals: list[KernelSelection], frontier: Sequence[tuple[KernelSelection, int]]
    ) -> None:
        self._proposals, self._frontier = proposals, frontier

    def chosen(self, log: Tuning) -> tuple[KernelSelection, int]:
        known = min(len(log.programs), len(self._proposals) - 1)
        return self._proposals[known], 100

    def frontier(self, log: Tuning) -> list[tuple[KernelSelection, int]]:
        return list(self._frontier)


def choices(count: int) -> list[KernelSelection]:
    name = next(name for name, found in kernels().items() if len(found) > 1)
    return [KernelSelection({name: f"variant_{n}"}) for n in range(count)]


def test_proposals_are_measured_until_known(rig: Rig) -> None:
    made = choices(7)
    # It is proposed first 0, then 1, and 1 again: it stays.
    frontier = list(zip(made[1:], (100, 200, 90, 40, 115, 103), strict=True))
    found = Found([made[0], made[1]], frontier)
    asked: list[str] = []

    def programs_for(goal: str) -> Any:
        asked.append(goal)
        return found

    log = rig.tuned(seed=5, goals=("speed",), programs=9, programs_for=programs_for)
    # The two nearest by memory in either direction: of 103 and 90 bytes.
    wanted = [made[0], made[1], made[6], made[3]]
    measured = [(choice, goal) for choice, goal in rig.compiled if goal is not None]
    assert measured == [(choice, "speed") for choice in wanted]
    assert [program.choice for program in log.programs] == wanted
    assert rig.said[-4:] == [f"speed: program {number} of at most 9" for number in (1, 2, 3, 4)]
    assert asked == ["speed"]


def test_the_number_of_programs_is_limited(rig: Rig) -> None:
    made = choices(6)
    asked: list[str] = []

    def programs_for(goal: str) -> Any:
        asked.append(goal)
        return Found(made, [])

    log = rig.tuned(seed=5, goals=("ram", "size"), programs=2, programs_for=programs_for)
    # In turns; code is shared for `ram` as for `balanced`.
    assert [p.sharing for p in log.programs] == ["balanced", "size", "balanced", "size"]
    assert asked == ["ram", "size"]
    assert rig.tuned(seed=5, goals=("ram",), programs_for=programs_for).programs == ()
    assert asked == ["ram", "size"]


def test_a_program_tells_what_its_groups_cost(rig: Rig) -> None:
    first, second, third = names()[:3]
    groups = (Group((first, second), 2), Group((third,), 1, "backward"))
    choice = KernelSelection({}, groups)
    programs_for: Any = lambda goal: Found([choice], [])  # noqa: E731
    for counter, runs in (("instructions", 1), ("cycles", 5)):
        rig.counter = counter
        log = rig.tuned(seed=5, goals=("speed",), programs=1, programs_for=programs_for)
        assert log.programs == (
            TunedProgram(
                "speed",
                {},
                # A group is counted at its last layer, where it is told of.
                (
                    TunedGroup(groups[0], count_of(choice, second)),
                    TunedGroup(groups[1], count_of(choice, third)),
                ),
                64,
                10_000 + runs,
            ),
        )


def test_kernels_of_a_layer_are_those_of_the_core() -> None:
    found = kernels()
    assert any("generic.conv2d.s8" in own for own in found.values())
    families = {name.split(".")[0] for own in found.values() for name in own}
    assert families == {"generic", "compact", "dsp"}
