"""Zeros have a sign, and infinity is no large number: the C, the interpreter and TFLM agree bit by
bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tflm
from tflite_builder import ModelBuilder

import hilc
import hilc.host
from hilc.frontends import load_model
from hilc.interpreter import run
from hilc.ir import Array

_NUMBERS = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 6, -1, 1, 7, -2, 0.5, -3], np.float32)
_PAIRS = np.array(np.meshgrid(_NUMBERS, _NUMBERS), np.float32).reshape(2, 1, -1)
_ZEROS = np.random.default_rng(0).choice(np.array([0, -0.0, -1], np.float32), (1, 6, 6, 8))

_UNARY = ("RELU", "RELU6", "ABS", "NEG", "LEAKY_RELU")
_BINARY = ("ADD", "SUB", "MUL", "DIV")
_ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")


def _same_bits(found: Array, expected: Array) -> Array:
    both = np.isnan(found) & np.isnan(expected)
    return np.asarray(both | (found.view(np.uint32) == expected.view(np.uint32)))


def _check(data: bytes, *samples: Mapping[str, Array], has_tflm: bool = True) -> None:
    graph = load_model(data)
    with hilc.host.load(hilc.compile(data)) as model:
        for given in samples:
            expected = run(graph, given)
            for name, array in given.items():
                model.set_input(name, array)
            model.run()
            sides: list[Mapping[str, Array]] = [
                {t.name: model.get_output(t.name) for t in model.outputs}
            ]
            if has_tflm and tflm.EXISTS:
                sides.append(tflm.run(data, given))
            for side in sides:
                for name in graph.outputs:
                    wanted = expected[name]
                    found = np.reshape(side[name], wanted.shape)
                    same = _same_bits(found, wanted)
                    assert same.all(), f"{name}: {found[~same][:4]}, not {wanted[~same][:4]}"


def test_elements() -> None:
    builder = ModelBuilder()
    a, b = _PAIRS
    for name in "ab":
        builder.input(name, a.shape, "float32")
    for op in _UNARY:
        builder.output(op, a.shape, "float32")
        slope: dict[str, Any] = {"alpha": 0.1} if op == "LEAKY_RELU" else {}
        builder.op(op, ["a"], [op], **slope)
    for op in ("MAXIMUM", "MINIMUM", "PRELU"):
        builder.output(op, a.shape, "float32")
        builder.op(op, ["a", "b"], [op])
    for op in _BINARY:
        for activation in _ACTIVATIONS:
            name = f"{op} {activation}"
            builder.output(name, a.shape, "float32")
            builder.op(op, ["a", "b"], [name], activation=activation)
    _check(builder.build(), {"a": a, "b": b})


def test_elements_that_tflm_lacks() -> None:
    builder = ModelBuilder()
    builder.input("x", _NUMBERS.shape, "float32")
    for op in ("RELU_N1_TO_1", "RELU_0_TO_1", "SIGN"):
        builder.output(op, _NUMBERS.shape, "float32")
        builder.op(op, ["x"], [op])
    _check(builder.build(), {"x": _NUMBERS}, has_tflm=False)


def test_layers() -> None:
    x = _ZEROS
    builder = ModelBuilder()
    builder.input("x", x.shape, "float32")
    weights = np.sign(np.random.default_rng(1).standard_normal((8, 3, 3, 8))).astype(np.float32)
    builder.const("w", weights)
    builder.const("rows", weights[:1])
    builder.const("bias", np.full(8, -0.0, np.float32))
    window: dict[str, Any] = {"padding": "VALID", "stride_h": 2, "stride_w": 2}
    for activation in ("NONE", "RELU"):
        for op in ("MAX_POOL_2D", "AVERAGE_POOL_2D"):
            name = f"{op} {activation}"
            builder.output(name, (1, 3, 3, 8), "float32")
            builder.op(op, ["x"], [name], **window, filter_h=2, filter_w=2, activation=activation)
        for op, constant in (("CONV_2D", "w"), ("DEPTHWISE_CONV_2D", "rows")):
            name = f"{op} {activation}"
            builder.output(name, (1, 2, 2, 8), "float32")
            more: dict[str, Any] = {}
            if op == "DEPTHWISE_CONV_2D":
                more = {"depth_multiplier": 1}
            builder.op(op, ["x", constant, "bias"], [name], **window, **more, activation=activation)
    for axes in ((1,), (1, 2), (3,)):
        builder.const(f"axes {axes}", np.array(axes, np.int32))
        shape = tuple(size for axis, size in enumerate(x.shape) if axis not in axes)
        for op in ("REDUCE_MAX", "REDUCE_MIN", "SUM", "MEAN"):
            builder.output(f"{op} {axes}", shape, "float32")
            builder.op(op, ["x", f"axes {axes}"], [f"{op} {axes}"], keep_dims=False)
    _check(builder.build(), {"x": x}, {"x": -x}, {"x": np.full_like(x, -0.0)})
