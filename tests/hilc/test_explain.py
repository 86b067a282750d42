"""What is told of a plan: it must be what the program does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from campaigns import cases
from noise_campaign import DIGITS
from small_models import SMALL_MODELS

import hilc
from hil.cli.plan_report import plan_text
from hil.page.plan_json import plan_json, plan_of
from hil.results.codec import decode
from hil.results.figures import check_figures
from hil.results.plan import PlanEntry
from hilc.errors import InputError
from hilc.frontends import load_model
from hilc.lowering.choice import Group, KernelSelection
from hilc.memory.explain import explain
from hilc.memory.explanation import BEFORE, Explanation, PlannedLayer, Saving, StepMemory
from hilc.memory.plan import plan
from hilc.memory.program import Program
from hilc.target import get_cpu
from hilc.transforms import run_passes

MODELS = sorted(SMALL_MODELS)


def program_of(name: str, choice: KernelSelection | None = None) -> Program:
    graph = run_passes(load_model(SMALL_MODELS[name]()))
    return plan(graph, get_cpu("cortex-m4"), io_in_pool=True, choice=choice or KernelSelection())


@pytest.mark.parametrize("name", MODELS)
def test_what_is_told_is_what_the_program_does(name: str) -> None:
    program = program_of(name)
    told = explain(program)
    assert told.workspace_bytes == program.workspace_bytes
    assert len(told.steps) == len(program.steps)
    by_name = {slot.name: slot for slot in told.slots if slot.what != "scratch"}
    for index, step in enumerate(program.steps):
        for tensor in (*step.inputs, *step.outputs):
            place = program.buffers[tensor]
            if place.kind != "pool":
                continue
            here = [t for t in told.at(index) if (t.pool, t.offset) == (place.pool, place.value)]
            assert any(t.bytes == program.graph.tensors[tensor].nbytes for t in here), tensor
    for tensor in program.graph.inputs:
        assert by_name[tensor].first == BEFORE
    assert max(t.end for t in told.slots) <= program.workspace_bytes
    # Nothing that lives reaches further than at the peak, whose bytes are counted one by one.
    peak = told.steps[told.peak]
    assert peak.ends == tuple(max(s.ends[p] for s in told.steps) for p in range(len(told.pools)))
    taken = np.zeros(program.workspace_bytes, bool)
    for slot in told.at(told.peak):
        taken[slot.offset : slot.end] = True
    assert peak.used_bytes == int(taken.sum())


@pytest.mark.parametrize("name", MODELS)
def test_text_and_json(name: str) -> None:
    told = explain(program_of(name))
    text, data = plan_text(told), plan_json(told)
    assert f"{told.workspace_bytes:,} bytes of workspace" in text
    assert len(data["slots"]) == len(told.slots)
    assert data["next_saving"] is None
    assert plan_of(decode(PlanEntry, data, "the plan")) == told
    assert "no program with less memory" in text


def test_rows_that_a_group_keeps() -> None:
    program = program_of("convolutions")
    nodes = tuple(step.node.name for step in program.steps[:2])
    told = explain(program_of("convolutions", KernelSelection(groups=(Group(nodes),))))
    first = told.steps[0]
    assert [node.name for node in first.nodes] == list(nodes)
    (kept,) = first.kept
    assert kept[0] == nodes[0]
    (scratch,) = (t for t in told.at(0) if t.what == "scratch")
    assert 0 <= kept[1] < kept[2] <= scratch.bytes
    named = replace(told, peak=0)
    assert "rows kept in the scratch" in plan_text(named)


def test_the_next_saving_is_a_program_that_can_be_had() -> None:
    graph = load_model(SMALL_MODELS["convolutions"]())
    told = hilc.explain(graph, cpu="cortex-m4", optimize="speed", pools="external", io_in_pool=True)
    assert isinstance(told, Explanation)
    assert told.saving is not None
    assert told.saving.instructions >= 0
    smaller = told.workspace_bytes - told.saving.bytes
    library = hilc.compile(graph, cpu="cortex-m4", ram=smaller, pools="external", io_in_pool=True)
    assert library.modules[0].workspace_bytes == smaller
    assert f"--ram {smaller}" in plan_text(told)


def test_the_next_smaller_program_may_take_less_flash() -> None:
    told = replace(explain(program_of("convolutions")), saving=Saving(300, 30, 100, -100))
    read = decode(PlanEntry, plan_json(told), "the plan")
    check_figures(read, "the plan", "no remedy")
    assert plan_of(read) == told


@pytest.mark.full
@cases("options", [{"optimize": "size"}, {"flash": 12_000}, {"flash": 16_000}], first=1)
def test_the_next_saving_keeps_goal_and_flash_limit(options: dict[str, Any]) -> None:
    graph = load_model(DIGITS / "digits.tflite")
    given: dict[str, Any] = {"cpu": "cortex-m4", "pools": "external", "io_in_pool": True, **options}
    told = hilc.explain(graph, **given)
    assert isinstance(told, Explanation)
    if told.saving is None:
        with pytest.raises(InputError):
            hilc.compile(graph, ram=told.workspace_bytes - 1, **given)
        return
    smaller = told.workspace_bytes - told.saving.bytes
    assert hilc.compile(graph, ram=smaller, **given).modules[0].workspace_bytes == smaller
    fewer = told.saving.instructions < 0
    assert ("more instructions" not in plan_text(told)) == fewer


def test_a_tensor_is_named_as_bench_names_its_layer() -> None:
    fused = "functional_1/activation_2/Relu;functional_1/conv2d_4/Conv2D;" + "x/" * 60 + "Conv2D1"
    told = explain(program_of("convolutions"))
    slots = tuple(replace(slot, name=fused) for slot in told.slots)
    text = plan_text(replace(told, slots=slots))
    assert "\nfunctional_1/activation_2/Relu " in text
    assert "conv2d_4" not in text
    assert plan_json(replace(told, slots=slots))["slots"][0]["name"] == fused


def test_a_long_group_is_named_by_its_ends() -> None:
    def ops(*names: str) -> str:
        nodes = tuple(PlannedLayer(f"n{at}", name) for at, name in enumerate(names))
        return StepMemory(nodes, 0, 0, (), (), ()).ops

    assert ops("PAD") == "PAD"
    assert ops("PAD", "ADD", "MUL") == "PAD + ADD + MUL"
    assert ops("PAD", "ADD", "MUL", "MEAN") == "PAD ... MEAN (4 layers)"


def test_each_layer_names_its_kernel_variant() -> None:
    """Those of a fused group, too."""
    plan = hilc.explain(DIGITS / "digits.tflite", cpu="cortex-m4", optimize="ram")
    variants = [node.variant for step in plan.steps for node in step.nodes]
    assert len(variants) == 6
    assert all(variant.count(".") >= 2 for variant in variants)
