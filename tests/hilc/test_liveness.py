"""When tensors are alive, which the plan, the search and the explanation of a plan share."""

from __future__ import annotations

import numpy as np
import pytest
from tflite_builder import ModelBuilder

from hilc.ir import Graph
from hilc.lowering.choice import Group, KernelSelection
from hilc.memory.explain import explain
from hilc.memory.explanation import BEFORE
from hilc.memory.liveness import Liveness
from hilc.memory.plan import plan
from hilc.source import prepare
from hilc.target import get_cpu

CPU = get_cpu("cortex-m4")


def graph() -> Graph:
    """x -> a (convolution) -> b (convolution) -> v (a view) -> y, and y reads x too."""
    rng = np.random.default_rng(3)
    b = ModelBuilder()
    b.input("x", (1, 6, 6, 4), "int8", 0.05, 0)
    before = "x"
    for name in ("a", "b"):
        b.const(f"{name}w", rng.integers(-90, 90, (4, 3, 3, 4), np.int8), [0.01] * 4)
        b.const(f"{name}b", rng.integers(-99, 99, (4,), np.int32), [0.0005] * 4)
        b.tensor(name, (1, 6, 6, 4), "int8", 0.05, 0)
        b.op("CONV_2D", (before, f"{name}w", f"{name}b"), (name,), padding="SAME")
        before = name
    b.tensor("v", (1, 1, 36, 4), "int8", 0.05, 0)
    b.op("RESHAPE", ("b",), ("v",), new_shape=(1, 1, 36, 4))
    b.tensor("w", (1, 1, 36, 4), "int8", 0.05, 0)
    b.op("RESHAPE", ("x",), ("w",), new_shape=(1, 1, 36, 4))
    b.output("y", (1, 1, 36, 4), "int8", 0.1, 0)
    b.op("ADD", ("v", "w"), ("y",))
    return prepare(b.build(), "net", CPU).graph


@pytest.mark.parametrize("keep_inputs", [False, True])
def test_a_value_lives_until_its_last_reader(keep_inputs: bool) -> None:
    liveness = Liveness(graph(), io_in_pool=True)
    assert [node.op for node in liveness.computed] == ["CONV_2D", "CONV_2D", "ADD"]
    liveness.set_reads([("x",), ("a",), ("v", "w")], keep_inputs)
    ranges = {value.tensor.name: (value.first, value.last) for value in liveness.distinct}
    # Views are names of what they view; the caller writes x before and reads y afterwards.
    assert ranges == {"x": (BEFORE, 3 if keep_inputs else 2), "a": (0, 1), "b": (1, 2), "y": (2, 3)}
    assert liveness.by_name["v"] is liveness.by_name["b"]
    assert set(liveness.dying(2, ("v", "w"))) == ({"v"} if keep_inputs else {"v", "w"})
    alive = liveness.neighbours(0, 1)
    names = [[v.tensor.name for v in vs] for vs in (alive.around, alive.ending, alive.starting)]
    assert names == [["x"], [], ["b"]]


def test_the_callers_buffers_are_in_no_pool() -> None:
    liveness = Liveness(graph(), io_in_pool=False)
    assert [value.tensor.name for value in liveness.pooled] == ["a", "b"]


@pytest.mark.parametrize("groups", [(), (Group(("a", "b"), 2),)])
def test_what_is_explained_is_what_was_planned(groups: tuple[Group, ...]) -> None:
    """Steps and ranges count a fused group once."""
    told = explain(plan(graph(), CPU, io_in_pool=True, choice=KernelSelection({}, groups)))
    ranges = {t.name: (t.first, t.last) for t in told.slots if t.what != "scratch"}
    fused = {"x": (BEFORE, 1), "b": (0, 1), "y": (1, 2)}
    single = {"x": (BEFORE, 2), "a": (0, 1), "b": (1, 2), "y": (2, 3)}
    assert ranges == (fused if groups else single)
