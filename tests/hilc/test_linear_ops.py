"""Convolutions and fully connected layers: numpy against the reference run time, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import litert_ref
import numpy as np
import pytest
import tflm
from campaigns import cases
from linear_layers import Layer, make_layer, random_layer
from nodes import make_node

from hilc.errors import ModelError, UnsupportedError
from hilc.frontends import load_model
from hilc.ir import Array, Node, Numerics, Quant, Tensor
from hilc.lowering import candidates
from hilc.ops import OPS
from hilc.ops.depthwise_conv2d import DepthwiseConv2DAttributes
from hilc.target import get_cpu

OPERATORS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def litert(layer: Layer) -> Array:
    interpreter = litert_ref.interpreter(layer.tflite())
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], layer.x)
    interpreter.invoke()
    result: Array = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    return result


def micro(layer: Layer) -> Array:
    return tflm.run(layer.tflite(), {"x": layer.x})[layer.out.name]


#: A run time, and the definition that it computes by.
RUN_TIMES = [
    pytest.param((micro, Numerics.TFLM), marks=tflm.needs_tflm, id="tflm"),
    pytest.param((litert, Numerics.LITERT), marks=litert_ref.needs_litert_ref, id="litert-ref"),
]


def by(layer: Layer, run_time: tuple[Callable[[Layer], Array], Numerics]) -> tuple[Array, Array]:
    """What the layer's numpy reference computes, and what the run time does."""
    run, numerics = run_time
    return replace(layer, node=replace(layer.node, numerics=numerics)).reference(), run(layer)


@pytest.mark.parametrize("run_time", RUN_TIMES)
@cases("dtype", ["int8", "float32"], first=1)
@pytest.mark.parametrize("op", OPERATORS)
def test_reference_equals_both_run_times(op, dtype, run_time):
    rng = np.random.default_rng([1, OPERATORS.index(op), dtype == "int8"])
    for _ in range(60):
        layer = random_layer(rng, op, dtype, explicit_padding=False)
        # Floats, too, are equal to the last bit: the order of the additions is the same.
        np.testing.assert_array_equal(
            *by(layer, run_time), err_msg=f"{layer.ins} {layer.node.attrs}"
        )


@pytest.mark.parametrize("op", OPERATORS)
def test_layers_import_as_they_were_written(op):
    rng = np.random.default_rng([2, OPERATORS.index(op)])
    layer = random_layer(rng, op, "int8", explicit_padding=False)
    graph = load_model(layer.tflite(), name="layer")
    (node,) = graph.nodes
    assert node.op == op
    assert graph.ins(node) == layer.ins
    assert graph.outs(node) == (layer.out,)
    assert layer.node.attrs == node.attrs


@pytest.mark.parametrize("run_time", RUN_TIMES)
@pytest.mark.parametrize("op", ["FULLY_CONNECTED", "CONV_2D"])
def test_product_of_per_tensor_scales_is_as_precise(op, run_time):
    """TFLite multiplies the scales of fully connected layers in float32, all others are in double.

    With an output scale that makes the multiplier nearly 1/64, sums lie so close to ties that the
    last bits of the multiplier show.
    """
    rng = np.random.default_rng(8)
    attrs: dict[str, Any] = {"activation": "NONE"}
    x_shape: tuple[int, ...] = (64, 16)
    w_shape: tuple[int, ...] = (32, 16)
    if op == "CONV_2D":
        attrs |= dict.fromkeys(("stride_h", "stride_w", "dilation_h", "dilation_w"), 1)
        attrs |= {"padding": "VALID"}
        x_shape, w_shape = (64, 1, 1, 16), (32, 1, 1, 16)
    precisions_differ = 0
    for _ in range(10):
        layer = make_layer(rng, op, "int8", x_shape, w_shape, attrs)
        x_scale = np.float32(rng.uniform(0.01, 0.1))
        w_scale = np.float32(rng.uniform(0.001, 0.01))
        product = x_scale * w_scale
        scales = {"x": x_scale, "w": w_scale, "b": product, "y": product * 64}
        quants = {name: Quant((float(scale),), (0,)) for name, scale in scales.items()}
        ins = [replace(t, quant=quants[t.name]) for t in layer.ins if t is not None]
        for i, bias in enumerate(ins[2:], start=2):
            ins[i] = replace(bias, data=np.zeros(bias.shape, np.int32))
        layer = replace(
            layer,
            node=replace(layer.node, inputs=layer.node.inputs[: len(ins)]),
            ins=tuple(ins),
            out=replace(layer.out, quant=quants["y"]),
        )
        np.testing.assert_array_equal(*by(layer, run_time))
        precisions_differ += float(x_scale) * float(w_scale) != float(product)
    assert precisions_differ >= 5


def conv(**changes: Any) -> tuple[Node, list[Tensor | None]]:
    """A valid convolution with some of ``x``, ``w``, ``b`` and the attributes replaced."""
    x = Tensor("x", (1, 5, 5, 2), "int8", Quant((0.5,), (3,)))
    weights = np.ones((3, 2, 2, 2), np.int8)
    w = Tensor("w", weights.shape, "int8", Quant((0.1, 0.2, 0.3), (0, 0, 0), 0), weights)
    b = Tensor("b", (3,), "int32", data=np.zeros(3, np.int32))
    attrs: dict[str, Any] = {
        "stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1,
        "padding": "VALID", "activation": "NONE",
    }  # fmt: skip
    ins: list[Tensor | None] = [replace(t, **changes.pop(t.name, {})) for t in (x, w, b)]
    return make_node("CONV_2D", ("x", "w", "b"), ("y",), **attrs | changes), ins


def array(shape: tuple[int, ...], dtype: str, value: int = 1) -> dict[str, Any]:
    return {"shape": shape, "dtype": dtype, "data": np.full(shape, value, dtype)}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"x": {"shape": (5, 5, 2)}}, ModelError, "not of 4 dimensions"),
        ({"x": {"shape": (1, 5, 5, 3)}}, ModelError, "3 input channels for filters of 2"),
        ({"x": {"shape": (1, 5, 5, 4)}}, ModelError, "3 output channels for 2 groups"),
        ({"x": {"shape": (1, 1, 5, 2)}}, ModelError, "does not fit"),
        ({"x": {"dtype": "int16"}}, UnsupportedError, "int16"),
        ({"x": {"dtype": "float32", "quant": None}}, UnsupportedError, "float32 activations with"),
        ({"x": {"quant": None}}, ModelError, "without quantization"),
        ({"w": {"quant": None}}, ModelError, "'w' without quantization"),
        ({"w": {"data": None}}, UnsupportedError, "only known at run time"),
        ({"w": {"quant": Quant((0.1,), (4,))}}, UnsupportedError, "zero point other than 0"),
        ({"w": {"quant": Quant((0.1, 0.2), (0, 0))}}, ModelError, "2 scales along axis 0, not 3"),
        ({"w": {"quant": Quant((1.0,) * 3, (0,) * 3, 3)}}, ModelError, "along axis 3"),
        ({"w": array((3, 4), "int8")}, ModelError, "not of 4 dimensions"),
        ({"b": array((2,), "int32")}, ModelError, r"int32\[2\], for 3 channels"),
        ({"b": array((3,), "int64")}, ModelError, r"int64\[3\], for 3 channels"),
        ({"b": array((3,), "int32", 2**31 - 1)}, UnsupportedError, "beyond 32 bits"),
        ({"b": array((3,), "int32", -(2**31))}, UnsupportedError, "beyond 32 bits"),
        ({"stride_h": 0}, ModelError, "stride 0"),
    ],
)
def test_convolutions_are_checked(changes, error, message):
    node, ins = conv(**changes)
    with pytest.raises(error, match=message):
        OPS["CONV_2D"].infer(node, ins)


def test_the_checked_convolution_is_valid_unchanged():
    node, ins = conv()
    assert OPS["CONV_2D"].infer(node, ins) == [((1, 4, 4, 3), "int8")]


def test_depth_multiplier_must_agree_with_the_weights():
    rng = np.random.default_rng(9)
    layer = random_layer(rng, "DEPTHWISE_CONV_2D", "int8", explicit_padding=False)
    attrs = DepthwiseConv2DAttributes.of(layer.node)
    wrong = attrs.depth_multiplier + 1
    node = replace(layer.node, attrs=replace(attrs, depth_multiplier=wrong))
    with pytest.raises(ModelError, match=f"depth multiplier {wrong}"):
        OPS["DEPTHWISE_CONV_2D"].infer(node, layer.ins)


@pytest.mark.parametrize(
    ("x_shape", "keep", "expected"),
    [
        ((6,), False, (2, 4)),
        ((2, 2, 3), False, (4, 4)),
        ((2, 2, 3), True, (2, 2, 4)),
        ((2, 4), False, "8 elements for 3 weights"),
        ((3, 2), True, r"\[3, 2\] for 3 weights"),
    ],
)
def test_fully_connected_shapes(x_shape, keep, expected):
    x = Tensor("x", x_shape, "float32")
    w = Tensor("w", (4, 3), "float32", data=np.ones((4, 3), np.float32))
    attrs = {"activation": "NONE", "keep_num_dims": keep}
    node = make_node("FULLY_CONNECTED", ("x", "w", ""), ("y",), **attrs)
    infer = OPS["FULLY_CONNECTED"].infer
    if isinstance(expected, str):
        with pytest.raises(ModelError, match=expected):
            infer(node, (x, w, None))
    else:
        assert infer(node, (x, w, None)) == [(expected, "float32")]


@pytest.mark.filterwarnings("error")
def raised(op: str, factor: float) -> Layer:
    """A layer of one weight a channel, from whose sums to whose output it is ``factor``."""
    attrs: dict[str, Any] = {"activation": "NONE"}
    x_shape: tuple[int, ...] = (2, 1)
    w_shape: tuple[int, ...] = (3, 1)
    if op == "FULLY_CONNECTED":
        attrs |= {"keep_num_dims": False}
    else:
        attrs |= {"padding": "VALID", **dict.fromkeys(("stride_h", "stride_w"), 1)}
        attrs |= dict.fromkeys(("dilation_h", "dilation_w"), 1)
        x_shape, w_shape = (1, 1, 2, 1), (3, 1, 1, 1)
    if op == "DEPTHWISE_CONV_2D":
        attrs, w_shape = attrs | {"depth_multiplier": 3}, (1, 1, 1, 3)
    x_quant = Quant((float(np.float32(factor)),), (0,))
    x = Tensor("x", x_shape, "int8", x_quant)
    weights = np.array([1, -1, 3], np.int8).reshape(w_shape)
    scales = Quant((1.0,) * 3, (0,) * 3, axis=w_shape.index(3))
    bias = Tensor("b", (3,), "int32", x_quant, np.zeros(3, np.int32))
    ins = (x, Tensor("w", w_shape, "int8", scales, weights), bias)
    node = make_node(op, ("x", "w", "b"), ("y",), **attrs)
    ((shape, _),) = OPS[op].infer(node, ins)
    out = Tensor("y", shape, "int8", Quant((1.0,), (5,)))
    return Layer(node, ins, out, np.array([1, -2], np.int8).reshape(x_shape))


@pytest.mark.parametrize("run_time", RUN_TIMES)
@pytest.mark.parametrize("op", OPERATORS)
def test_sums_are_raised_by_what_the_reference_defines(op, run_time):
    """Up to 2^30 both wrap around at 32 bits; from there the reference shifts by 31 bits."""
    last = raised(op, 1.3 * 2.0**29)
    OPS[op].check(last.node, last.ins, last.outs)
    np.testing.assert_array_equal(*by(last, run_time))
    for factor in (2.0**30, 1.3 * 2.0**30, 1.3 * 2.0**35):
        with pytest.raises(UnsupportedError, match=r"less than 2\^30") as caught:
            load_model(raised(op, factor).tflite(), name="layer")
        assert f"({op})" in caught.value.fact
        assert "check the quantization" in caught.value.hint


def test_scales_whose_product_is_no_float_are_refused():
    x = Tensor("x", (1, 3), "int8", Quant((1e20,), (0,)))
    weights = np.ones((4, 3), np.int8)
    w = Tensor("w", weights.shape, "int8", Quant((1e30,), (0,)), weights)
    y = Tensor("y", (1, 4), "int8", Quant((1.0,), (0,)))
    node = make_node("FULLY_CONNECTED", ("x", "w", ""), ("y",))
    with pytest.raises(ModelError, match=r"factor of 1e\+50 from its input scales"):
        candidates(node, (x, w, None), (y,), get_cpu("host"))


@pytest.mark.parametrize("op", OPERATORS)
def test_a_bias_of_another_scale_is_refused(op):
    """That is in fully connected layers with one scale for all weights."""
    rng = np.random.default_rng([5, OPERATORS.index(op)])
    steps = []
    for _ in range(40):
        layer = random_layer(rng, op, "int8", explicit_padding=False)
        x, weights, bias = (*layer.ins, None)[:3]
        assert x is not None
        assert weights is not None
        quants = x.quant, weights.quant, layer.out.quant
        if bias is None or not all(quant and quant.per_tensor for quant in quants):
            continue
        x_scale, weight_scale, out_scale = (quant.scale[0] for quant in quants if quant)
        steps.append(float(rng.choice([0, 0.019, 0.021, 0.5])))
        wrong = float(np.float32(x_scale * weight_scale + steps[-1] * out_scale))
        changed = replace(layer, ins=(x, weights, replace(bias, quant=Quant((wrong,), (0,)))))
        check = partial(OPS[op].check, changed.node, changed.ins, changed.outs)
        if op == "FULLY_CONNECTED" and steps[-1] > 0.02:
            with pytest.raises(ModelError, match="has the bias 'b' with scale"):
                check()
            with pytest.raises(RuntimeError, match="scale_diff"):
                litert(changed)
        else:
            check()
            litert(changed)
    assert {0.019, 0.021} <= set(steps)
