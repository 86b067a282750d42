"""Formulas of what kernels cost: what they may say, and that every int8 kernel has one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from linear_layers import random_layer
from loose_call import loose_call

from hilc.lowering import candidates, cost
from hilc.lowering.bodies import body_key
from hilc.lowering.kernels import Kernel, KernelCall, described_kernels, kernels
from hilc.target import get_cpu

FIELDS: dict[str, Any] = {"rows": 5, "depth": 12, "wide": 0, "weights": np.zeros(4, np.int8)}


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("7", 7.0),
        ("1.5 * rows * depth", 90.0),
        ("2 + 3 * ((rows + 2) // 3) + depth % 5", 10.0),
        ("depth / 8 - rows", -3.5),
        ("10 * (wide == 0) + 100 * (depth > 12) + (rows <= 5)", 11.0),
        ("max(rows, depth) - min(rows, 2)", 10.0),
        ("-rows\n+ depth", 7.0),
    ],
)
def test_formulas(formula: str, value: float):
    assert cost.value(formula, FIELDS) == pytest.approx(value)


@pytest.mark.parametrize(
    "formula", ["weights", "height", "rows ** 2", "abs(rows)", "rows if wide else 1", "'a'"]
)
def test_what_no_formula_may_say(formula: str):
    with pytest.raises(ValueError, match="a cost cannot have"):
        cost.value(formula, FIELDS)


def test_terms_are_the_summands():
    texts = [cost.unparsed(term) for term in cost.terms("1 + 2 * rows + (3 + depth) * 4")]
    assert texts == ["1", "2 * rows", "(3 + depth) * 4"]


def test_architectures_differ_by_a_factor():
    kernel = Kernel(
        "k", "k.h", frozenset(), (), (), "0", cost="100 * rows", cost_factors={"armv6-m": 2.5}
    )
    call = loose_call(kernel, FIELDS)
    m3, m0 = (cost.instructions(call, get_cpu(name)) for name in ("cortex-m3", "cortex-m0"))
    assert (m3, m0) == (500 + cost.CALL_INSTRUCTIONS, 1250 + cost.CALL_INSTRUCTIONS)


def test_a_kernel_without_a_cost_is_refused():
    header = '/*@kernel\nname = "k"\nrequires = []\ninputs = []\noutputs = []\nscratch = "0"\n@*/'
    with pytest.raises(ValueError, match="kernel k of k.h states no cost"):
        list(described_kernels({"k.h": header}))


def test_no_formula_has_terms_that_count_nothing():
    found = {k: [cost.unparsed(t) for t in cost.terms(v.cost)] for k, v in kernels().items()}
    assert [k for k, terms in found.items() if any(t.startswith("0 *") for t in terms)] == []


@pytest.mark.parametrize("cpu", ["cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55"])
def test_every_formula_can_be_evaluated_for_every_layer(cpu: str):
    rng = np.random.default_rng(3)
    core = get_cpu(cpu)
    for op in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
        for _ in range(20):
            layer = random_layer(rng, op, "int8", explicit_padding=True)
            for call in candidates(layer.node, layer.ins, (layer.out,), core):
                assert isinstance(call, KernelCall)
                assert cost.instructions(call, core) >= cost.CALL_INSTRUCTIONS


def test_which_layers_share_a_body():
    kernel = Kernel("k", "k.h", frozenset(), (), (), "0", "0")
    calls = [
        loose_call(kernel, {"rows": rows, "weights": np.full(3, seed, np.int8)})
        for rows, seed in ((1, 1), (1, 2), (2, 1))
    ]
    for goal, shared in (("balanced", (True, False)), ("size", (True, True))):
        first, second, third = (body_key(call, goal) for call in calls)
        assert first is not None
        assert (first == second, first == third) == shared
    assert body_key(calls[0], "speed") is None
