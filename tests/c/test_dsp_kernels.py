"""The kernels for cores that multiply pairs of half-words, by their portable twins on the host."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import kernel_runner
import numpy as np
import pytest
from campaigns import cases, sampled
from kernel_checks import check as check_all
from kernel_checks import checks_of, count, overlapping_checks
from kernel_layers import (
    DSP,
    MULTIPLIED,
    REACHING,
    case_layers,
    conv,
    extreme_layers,
    family_calls,
    limit_layers,
    rectified,
    tamed,
    uneven_layers,
)
from linear_layers import Layer, make_layer, random_layer
from single_op import random_op

from hilc.lowering import candidates
from hilc.lowering.kernels import KernelCall
from hilc.ops import OPS
from hilc.target import get_cpu

CPU = "cortex-m4"
OPERATORS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def check(layers: list[Layer], **options: Any) -> list[str]:
    """Compare every kernel of the family for every layer with the layer's reference.

    Returns the names of the kernels that compute the layers by default.
    """
    cases, expected, names = [], [], []
    for layer in layers:
        calls = candidates(layer.node, layer.ins, (layer.out,), get_cpu(CPU))
        reference = layer.reference()
        for position, call in enumerate(calls):
            assert isinstance(call, KernelCall)
            if position > 0 and "dsp" not in call.kernel.requires:
                continue
            shape = (layer.out.shape, layer.out.dtype)
            cases.append(kernel_runner.Case(call, [layer.x], [shape], **options))
            expected.append((reference, f"{call.kernel.name}: {layer.ins} {layer.node.attrs}"))
            names += [call.kernel.name] if position == 0 else []
    results = kernel_runner.run(cases)
    for (result,), (reference, message) in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, reference, err_msg=message)
    return names


@pytest.mark.full
@cases("op", OPERATORS, first=1)
def test_random_layers(op):
    rng = np.random.default_rng([13, OPERATORS.index(op)])
    names = check([random_layer(rng, op, "int8", explicit_padding=True) for _ in range(60)])
    assert sum(name.startswith("hil_dsp_") for name in names) > (6 if op[0] == "D" else 20), names


def test_cases_are_exact_and_served():
    layers = case_layers(np.random.default_rng(14), DSP, 4)
    names = check([layer for layer, _ in layers])
    wrong = [(n, k) for n, (_, k) in zip(names, layers, strict=True) if not n.startswith(k)]
    assert not wrong


#: Kernels of depthwise filters of any size.
OF_ANY_SIZE = {
    f"hil_dsp_depthwise_conv2d_s8_{form}{rounded}"
    for form in ("pairs", "channels")
    for rounded in ("", "_rounded")
}


def test_depthwise_filters_of_any_size():
    """With an affine requantization and without, outputs over inputs, too."""
    rng = np.random.default_rng(21)
    found = []
    for shapes in (*REACHING, *MULTIPLIED):
        layer = tamed(make_layer(rng, shapes[0], "int8", *shapes[1:]))
        for made in (layer, rectified(layer)):
            ones = [one for one in checks_of(made, get_cpu(CPU)) if one.kernel in OF_ANY_SIZE]
            found += [*ones, *(other for one in ones for other in overlapping_checks(one, made))]
    check_all(found)
    counts = count(found)
    assert counts.keys() == OF_ANY_SIZE
    assert min(counts.values()) >= 4


def test_channels_that_no_input_changes():
    rng = np.random.default_rng(15)
    layers = extreme_layers(rng, 20)
    names = check(layers)
    assert all(name.startswith("hil_dsp_matmul") for name in names)


@pytest.mark.full  # It changes rarely, and takes long.
def test_channels_with_shifts_of_their_own():
    """Or with sums that start from a fraction."""
    layers = uneven_layers(np.random.default_rng(20), 12)
    calls = [call for layer in layers for call in family_calls(layer, DSP)]
    pairs: list[Any] = [call.fields for call in calls if "pairs" in call.kernel.name]
    assert sum(fields["shift"] == 0 for fields in pairs) > 4
    squares = [f for f in pairs if f["shift"] and not f["signs"] and f["wide"] and f["group"] == 2]
    assert sum(bool((f["stream"][:: 6 + 4 * f["units"]] % 256).any()) for f in squares) > 4
    check(layers)


@pytest.mark.full  # It changes rarely, and takes long.
def test_sums_at_their_limits():
    names = check(limit_layers(np.random.default_rng(18)))
    assert sum(name.startswith("hil_dsp_") for name in names) > 20, names


LINE, TWICE = "hil_dsp_matvec_s8_column_pairs", "hil_dsp_matvec_s8"


@pytest.mark.parametrize("sign", sampled([-1, 1], keep=[-1]))
@cases(
    ("depth", "served"),
    [(516, {"", "wide"}), (519, {"in_parts", "wide"}), (1100, {"in_parts", "wide"})],
    first=1,
)
def test_sums_below_24_bits(depth: int, sign: int, served: set[str]):
    """127 * 128 * 516 is the last multiple below 2**23."""
    layer = heavy(
        make_layer(
            np.random.default_rng(19),
            "FULLY_CONNECTED",
            "int8",
            (1, depth),
            (8, depth),
            {"activation": "RELU"},
        ),
        sign,
    )
    ends = [np.full((1, depth), value, np.int8) for value in (-128, 127)]
    calls = family_calls(layer, DSP)
    assert {call.kernel.name for call in calls} == {LINE, TWICE}
    forms = {call.parameters.form.replace("widened", "").strip("_") for call in calls}
    assert served <= forms
    check([replace(layer, x=end) for end in ends])


def test_sums_of_the_least_weight():
    """A pair of columns takes -128 in its second one: its magnitude is no int8."""
    shapes = (1, 1100), (8, 1100)
    layer = make_layer(
        np.random.default_rng(19), "FULLY_CONNECTED", "int8", *shapes, {"activation": "RELU"}
    )
    x, weights, bias = heavy(layer, 1).ins
    assert weights is not None
    assert weights.data is not None
    data = weights.data.copy()
    data[::2], data[1::2] = 1, -128
    layer = replace(layer, ins=(x, replace(weights, data=data), bias))
    forms = {call.parameters.form for call in family_calls(layer, DSP)}
    assert any(form.startswith("in_parts") for form in forms), forms
    ends = [np.full((1, 1100), value, np.int8) for value in (-128, 127)]
    check([replace(layer, x=end) for end in ends])


DEEP: dict[str, tuple[Any, ...]] = {
    "FULLY_CONNECTED": ((2, 700), (5, 700), {"activation": "NONE"}),
    "1x1": ((1, 3, 2, 777), (5, 1, 1, 777), conv("VALID")),
    "3x3": ((1, 3, 3, 100), (3, 3, 3, 100), conv("SAME")),
    "3x3 of an odd number": ((1, 3, 3, 91), (3, 3, 3, 91), conv("SAME")),
}


@cases("kind", DEEP, first=2)
@pytest.mark.parametrize("weights", sampled(["extreme", "random"], keep=["random"]))
def test_sums_beyond_24_bits(kind: str, weights: str):
    """Each kernel for them gives the outputs at both ends and between."""
    rng = np.random.default_rng(21)
    image, shape, attributes = DEEP[kind]
    op = "FULLY_CONNECTED" if len(shape) == 2 else "CONV_2D"
    layer = make_layer(rng, op, "int8", image, shape, attributes)
    layer = heavy(layer, 1, rng if weights == "random" else None)
    calls = family_calls(layer, DSP)
    assert {call.kernel.name for call in calls} & {TWICE, "hil_dsp_matmul_s8", "hil_dsp_conv2d_s8"}
    assert any(call.parameters.form.startswith("in_parts") for call in calls)
    assert any("wide" in call.parameters.form for call in calls)
    inputs = [np.full(image, value, np.int8) for value in (-128, 127)]
    inputs += [rng.integers(-128, 128, image).astype(np.int8) for _ in range(3)]
    check([replace(layer, x=x) for x in inputs])


def heavy(layer: Any, sign: int, rng: np.random.Generator | None = None) -> Any:
    """Return the layer with weights at their extremes, or random ones of which most are."""
    x, weights, bias = rectified(tamed(layer)).ins
    assert x is not None
    assert x.quant is not None
    assert weights is not None
    assert weights.data is not None
    assert bias is not None
    assert bias.data is not None
    data = np.full(weights.data.shape, 127 * sign, np.int8)
    if rng is not None:
        data = rng.choice([127, 126, -3, 127], data.shape).astype(np.int8)
    ins = (
        replace(x, quant=replace(x.quant, scale=(0.0001,), zero_point=(0,))),
        replace(weights, data=data),
        replace(bias, data=np.zeros_like(bias.data)),
    )
    return replace(layer, ins=ins, out=rectified(tamed(layer)).out)


def test_what_pairs_cannot_hold_takes_wide_weights():
    layer = tamed(
        make_layer(
            np.random.default_rng(16), "CONV_2D", "int8", (1, 3, 3, 8), (6, 1, 1, 8), conv("SAME")
        )
    )
    x, weights, bias = layer.ins
    assert weights is not None
    assert weights.data is not None
    assert bias is not None
    data = weights.data.copy()
    data[0], data[1] = -1, -128
    no_bias = replace(bias, data=np.zeros(6, np.int32))
    assert layer.out.quant is not None
    # Not at an end of the range, where rectified outputs are all the same.
    out = replace(layer.out, quant=replace(layer.out.quant, zero_point=(0,)))
    layer = replace(layer, ins=(x, replace(weights, data=data), no_bias), out=out)
    served = {call.kernel.name for call in family_calls(layer, DSP)}
    assert served == {"hil_dsp_matmul_s8_8_columns", "hil_dsp_matmul_s8_column_pairs"}
    check([layer])


def test_sums_of_tensors():
    rng = np.random.default_rng(17)
    singles = [random_op(rng, "ADD", "int8") for _ in range(150)]
    cases = []
    for single in singles:
        call = kernel_runner.kernel_call(single.node, single.ins, single.outs, CPU)
        outs = [(out.shape, out.dtype) for out in single.outs]
        cases.append(kernel_runner.Case(call, single.values, outs))
    for single, (result,) in zip(singles, kernel_runner.run(cases), strict=True):
        (expected,) = OPS["ADD"].reference(single.node, single.ins, single.outs, single.values)
        np.testing.assert_array_equal(result, expected, err_msg=str(single))
    assert sum(case.call.kernel.name == "hil_dsp_add_s8" for case in cases) > 20
