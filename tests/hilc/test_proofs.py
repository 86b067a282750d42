"""The proofs about generated code: what they must notice, and a small model as a sample."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from accumulator_proofs import Outputs, Prover
from address_traces import dependences
from boundary_layers import at_the_ends, boundaries, shapes
from kernel_layers import tamed
from kernel_runner import kernel_call
from linear_layers import Layer, make_layer
from model_proofs import prove

from hilc.ir import Rounding
from hilc.lowering.kernels import KernelCall
from hilc.source import prepare
from hilc.target import get_cpu

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.tflite"


@pytest.mark.full
def test_a_whole_model() -> None:
    proof = prove(prepare(DIGITS, None, get_cpu("host")).graph)
    assert not proof.faults
    assert proof.layers >= 5
    assert proof.calls > proof.layers
    assert proof.covered >= proof.checked > 10_000_000


# Addresses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("out[0] = in[in[0] & 7];", {"an address"}),
        ("out[in[0] & 7] = 1;", {"an address"}),
        ("if (in[0] > 3) { out[0] = in[1]; touch(out); }", {"a branch", "a call"}),
        ("for (int i = 0; i < in[0]; i++) { out[i] = 0; }", {"a branch", "a length"}),
        ("__builtin_memcpy(out, in, (unsigned char)in[0]);", {"a length"}),
        ("out[0] = (signed char)(100 / in[0]);", {"a divisor"}),
        ("signed char t[4] = {0}; t[1] = in[0]; out[t[in[8] & 1] & 7] = 1;", {"an address"}),
        ("const signed char *q[2] = {in, in + 1}; out[0] = *q[in[1] & 1];", {"an address"}),
        # Of these nothing depends on data.
        ("out[0] = in[0] > 3 ? 5 : 3;", set()),
        ("for (int i = 0; i < 8; i++) { out[i] = (signed char)(in[7 - i] * table[i]); }", set()),
        ("for (int i = 0; i < 4; i++) { out[table[i]] = in[i]; }", set()),
        (
            "int at[2] = {0}; for (int i = 0; i < 9; i++) { at[i % 2]++; } out[at[1]] = in[0];",
            set(),
        ),
    ],
)
def test_what_depends_on_data(body: str, found: set[str]) -> None:
    source = (
        "void touch(void *);\nstatic const signed char table[8] = {1, 2, 3, 4, 5, 6, 7, 0};\n"
        f"signed char last(void) {{ return table[7]; }}\n"
        f"void f(const signed char *in, signed char *out) {{ {body} }}\n"
    )
    told = {one.what for one in dependences(source, [])}
    if found:
        assert told & found
    else:
        assert not told


# Sums --------------------------------------------------------------------------------------------


def _layer() -> tuple[Layer, KernelCall]:
    """A layer of several channels, each with a multiplier of its own."""
    attrs = {"stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1, "padding": "SAME"}
    for seed in itertools.count():
        rng = np.random.default_rng(seed)
        shape = (1, 3, 3, 8), (6, 1, 1, 8)
        layer = tamed(make_layer(rng, "CONV_2D", "int8", *shape, {**attrs, "activation": "NONE"}))
        weights = layer.ins[1]
        assert weights is not None
        assert weights.quant is not None
        if not weights.quant.per_tensor:
            break
    return layer, kernel_call(layer.node, layer.ins, layer.outs)


def _faults(layer: Layer, call: KernelCall) -> list[str]:
    prover = Prover()
    faults = prover.add("layer", call, layer.node, layer.ins, layer.out)
    return faults + prover.run()[1]


def test_a_layer_without_a_fault() -> None:
    layer, call = _layer()
    assert not _faults(layer, call)


@pytest.mark.parametrize(
    ("field", "change", "told"),
    [
        ("multipliers", -(2**20), "gives"),
        ("shifts", 1, "gives"),
        ("out_max", -1, "has the range"),
        ("out_zero_point", 1, "has the range"),
    ],
)
def test_a_wrong_parameter_is_noticed(field: str, change: int, told: str) -> None:
    layer, call = _layer()
    outputs = call.parameters.requantization  # type: ignore[attr-defined]
    holder = outputs if field in vars(outputs) else outputs.output_range
    value = getattr(holder, field)
    wrong = value.copy() if isinstance(value, np.ndarray) else value + change
    if isinstance(value, np.ndarray):
        wrong[2] += change
    holder = replace(holder, **{field: wrong})
    outputs = holder if field in vars(outputs) else replace(outputs, output_range=holder)
    spoiled = replace(call, parameters=replace(call.parameters, requantization=outputs))
    faults = _faults(layer, spoiled)
    assert any(told in fault for fault in faults)
    if told == "gives":
        assert "channel 2" in faults[0]
        assert len(faults) == 1


@pytest.mark.parametrize("rounding", Rounding)
def test_the_definition_and_the_interpreter_agree(rounding: Rounding) -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        shift = -int(rng.integers(1, 12))
        outputs = Outputs(int(rng.integers(2**30, 2**31)), shift, 3, -128, 127, rounding)
        sums = rng.integers(-(2**18), 2**18, 200)
        assert outputs.of(sums).tolist() == [outputs.exactly(int(total)) for total in sums]


# Layers for assembly -----------------------------------------------------------------------------


def test_inputs_around_each_change_of_an_output() -> None:
    graph = prepare(DIGITS, None, get_cpu("host")).graph
    found = set()
    for layer in boundaries(graph, 1, np.random.default_rng(1)):
        if layer.node.op == "FULLY_CONNECTED":
            continue  # single targets
        outputs = layer.reference().reshape(-1).astype(int)
        before, at = outputs[0::2], outputs[1::2]
        assert len(outputs) > 20
        assert (at > before).all()
        found.add((layer.node.op, layer.ins[1].shape[1:3]))  # type: ignore[union-attr]
    assert found == {("CONV_2D", (1, 1)), ("CONV_2D", (3, 3)), ("DEPTHWISE_CONV_2D", (3, 3))}


def test_shapes_have_every_remainder() -> None:
    """Of channels of inputs and outputs, and of widths, rows of a matrix for lack of one."""
    sizes: dict[str, list[set[int]]] = {}
    for op, x, w, _ in shapes():
        known = sizes.setdefault(op, [set(), set(), set()])
        channels = w[3] if op == "DEPTHWISE_CONV_2D" else w[0]
        for some, number in zip(known, (x[-1], channels, x[-2]), strict=True):
            some.add(number % 16)
    assert {op: [len(some) for some in known] for op, known in sizes.items()} == {
        "FULLY_CONNECTED": [16, 16, 5],
        "CONV_2D": [16, 16, 16],
        "DEPTHWISE_CONV_2D": [16, 16, 16],
    }


def test_values_at_the_ends_of_their_ranges() -> None:
    layer = at_the_ends(np.random.default_rng(1), _layer()[0])
    weights = layer.ins[1]
    assert weights is not None
    assert weights.data is not None
    assert set(np.unique(layer.x)) == {-128, 127}
    assert set(np.unique(weights.data)) == {-127, 127}
