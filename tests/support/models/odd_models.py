"""Models that converters write and TFLite runs, each with something that few models have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tflite_builder import ModelBuilder

Q: Mapping[str, Any] = {"dtype": "int8", "scale": 0.1, "zero_point": 3}


def _q(dtype: str, scale: float = 0.1, zero_point: int = 3) -> tuple[str, float | None, int]:
    """Type and quantization of a tensor, as the builder takes them; float32 has none."""
    return (dtype, None, 0) if dtype == "float32" else (dtype, scale, zero_point)


def scalars() -> bytes:
    """Inputs, constants, layers and outputs without dimensions."""
    b = ModelBuilder()
    for dtype in ("int8", "float32"):
        b.input(f"x_{dtype}", (), *_q(dtype))
        b.input(f"y_{dtype}", (1, 4), *_q(dtype))
        b.const(f"c_{dtype}", np.array(3, dtype), *_q(dtype)[1:])
        b.tensor(f"s_{dtype}", (), *_q(dtype))
        b.output(f"t_{dtype}", (), *_q(dtype))
        b.output(f"z_{dtype}", (1, 4), *_q(dtype))
        b.op("ADD", (f"x_{dtype}", f"c_{dtype}"), (f"s_{dtype}",))
        b.op("RELU", (f"s_{dtype}",), (f"t_{dtype}",))
        b.op("ADD", (f"y_{dtype}", f"t_{dtype}"), (f"z_{dtype}",))
    return b.build()


def to_scalars() -> bytes:
    """RESHAPE by an empty list, by its attribute, by an old converter's [0]; SQUEEZE of all."""
    b = ModelBuilder()
    b.input("x", (1, 1), **Q)
    b.const("nothing", np.zeros(0, np.int32))
    b.const("one", np.array([1], np.int32))
    for name in ("a", "b", "c", "d"):
        b.tensor(name, (), **Q)
    b.op("RESHAPE", ("x", "nothing"), ("a",), new_shape=())
    b.op("RESHAPE", ("x",), ("b",), new_shape=())
    b.op("RESHAPE", ("x",), ("c",), new_shape=(0,))
    b.op("SQUEEZE", ("x",), ("d",), squeeze_dims=())
    for i, pair in enumerate((("a", "b"), ("c", "d"))):
        b.output(f"y{i}", (), **Q)
        b.op("ADD", pair, (f"y{i}",))
    b.output("z", (1,), **Q)
    b.op("RESHAPE", ("d", "one"), ("z",), new_shape=(1,))
    return b.build()


def layers_with_bias(axis: int, weight_scales: tuple[float, float]) -> bytes:
    """A layer of each kind with weights; its bias names ``axis``, of one, for its scales."""
    rng = np.random.default_rng(3)
    b = ModelBuilder()
    b.input("x", (1, 5, 5, 2), **Q)
    shapes = {
        "CONV_2D": ((2, 3, 3, 2), 0, (1, 5, 5, 2)),
        "DEPTHWISE_CONV_2D": ((1, 3, 3, 2), 3, (1, 5, 5, 2)),
        "FULLY_CONNECTED": ((2, 50), 0, (1, 2)),
    }
    for op, (shape, weight_axis, out_shape) in shapes.items():
        b.const(f"w_{op}", rng.integers(-127, 128, shape, np.int8), weight_scales, 0, weight_axis)
        bias_scales = [0.1 * scale for scale in weight_scales]
        b.const(f"b_{op}", rng.integers(-9999, 9999, 2, np.int32), bias_scales, 0, axis)
        b.output(f"y_{op}", out_shape, "int8", 0.5, -3)
        attrs: dict[str, Any] = {} if op == "FULLY_CONNECTED" else {"padding": "SAME"}
        b.op(op, ("x", f"w_{op}", f"b_{op}"), (f"y_{op}",), **attrs)
    return b.build()


def outputs() -> bytes:
    """An output listed twice, inputs handed through, a constant, and one computed of constants."""
    b = ModelBuilder()
    b.input("x", (1, 4), **Q)
    b.input("n", (2, 3), "int32")
    b.input("flag", (3,), "bool")
    b.const("c", np.arange(5, dtype=np.int8), 0.1, 3)
    b.const("f", np.linspace(-1, 1, 6, dtype=np.float32))
    b.tensor("y", (1, 4), **Q)
    b.tensor("q", (6,), **Q)
    b.tensor("d", (5,), **Q)
    b.op("RELU", ("x",), ("y",))
    b.op("QUANTIZE", ("f",), ("q",))
    b.op("ADD", ("c", "c"), ("d",))
    for name in ("y", "x", "y", "c", "x", "n", "flag", "q", "c", "d"):
        b.output(name)
    return b.build()


def other_outputs() -> bytes:
    """Outputs that are resolved at compile time, of eight dimensions, and named as copies are."""
    b = ModelBuilder()
    b.input("x", (1, 1, 1, 1, 1, 1, 1, 3), "int64")
    b.input("z", (1, 3, 4, 2), "int8", 0.1, 3, signature=(-1, 3, 4, 2))
    b.const("half", np.array([1.5, -2], np.float16))
    b.tensor("x_output1", (1, 3, 4, 2), **Q)
    b.tensor("wide", (2,))
    b.tensor("shape", (4,), "int32")
    b.op("RELU", ("z",), ("x_output1",))
    b.op("DEQUANTIZE", ("half",), ("wide",))
    b.op("SHAPE", ("z",), ("shape",), out_type=2)
    for name in ("x_output1", "x", "wide", "shape", "x"):
        b.output(name)
    return b.build()


def no_input() -> bytes:
    b = ModelBuilder()
    b.const("c", np.arange(4, dtype=np.int8), 0.1, 3)
    b.output("c")
    return b.build()


def no_operator() -> bytes:
    """One input, which is the output."""
    b = ModelBuilder()
    b.input("x", (1, 4), **Q)
    b.output("x")
    return b.build()


def open_batch() -> bytes:
    """Arithmetic on the shape of an input with an open batch; the shapes after it are open too."""
    b = ModelBuilder()
    b.input("x", (1, 4, 6), "int8", 0.1, 3, signature=(-1, 4, 6))
    b.const("first", np.array([0, 1], np.int32))
    b.const("last", np.array([2], np.int32))
    b.const("axis", np.array([0], np.int32))
    b.const("two", np.array(2, np.int32))
    b.const("minus", np.array(-1, np.int32))
    for name, size in (("shape", 3), ("sides", 2), ("depth", 1), ("target", 2), ("other", 2)):
        b.tensor(name, (size,), "int32")
    for name in ("rows", "half", "wide"):
        b.tensor(name, (), "int32")
    # Unknown sides are 1 in the shape of a file.
    for name in ("flat", "r"):
        b.tensor(name, (1, 1), "int8", 0.1, 3, signature=(-1, -1))
    b.tensor("back", (1, 1), "int8", 0.1, 3, signature=(-1, -1))
    b.output("y", (1, 1), "int8", 0.2, 3, signature=(-1, -1))
    b.op("SHAPE", ("x",), ("shape",), out_type=2)
    b.op("GATHER", ("shape", "first"), ("sides",))
    b.op("GATHER", ("shape", "last"), ("depth",))
    b.op("REDUCE_PROD", ("sides", "axis"), ("rows",), keep_dims=False)
    b.op("PACK", ("rows", "minus"), ("target",), values_count=2, axis=0)
    b.op("RESHAPE", ("x", "target"), ("flat",))
    b.op("RELU", ("flat",), ("r",))
    # Of a tensor whose own shape is open.
    b.tensor("shape2", (2,), "int32")
    b.tensor("begin", (1,), "int32")
    b.op("SHAPE", ("r",), ("shape2",), out_type=2)
    b.op("GATHER", ("shape2", "axis"), ("begin",))
    b.tensor("scalar", (), "int32")
    b.const("nothing", np.zeros(0, np.int32))
    b.op("RESHAPE", ("begin", "nothing"), ("scalar",))
    b.op("FLOOR_DIV", ("scalar", "two"), ("half",))
    b.op("MUL", ("half", "two"), ("wide",))
    b.op("PACK", ("two", "minus"), ("other",), values_count=2, axis=0)
    b.op("RESHAPE", ("r", "other"), ("back",))
    b.op("LEAKY_RELU", ("back",), ("y",), alpha=0.25)
    return b.build()


def mean_of_no_axes() -> bytes:
    """What is left is a requantization, or nothing."""
    b = ModelBuilder()
    b.const("none", np.zeros(0, np.int32))
    for dtype in ("int8", "float32"):
        for keep in (False, True):
            name = f"{dtype}{keep}"
            b.input(f"x{name}", (1, 3, 4), *_q(dtype))
            b.output(f"y{name}", (1, 3, 4), *_q(dtype, 0.3, -5))
            b.op("MEAN", (f"x{name}", "none"), (f"y{name}",), keep_dims=keep)
    return b.build()


def new_axes() -> bytes:
    """Slices that add axes, and take some by an ellipsis."""
    b = ModelBuilder()
    b.input("x", (2, 3, 4), **Q)
    cases: dict[str, Any] = {
        "a": ((2, 1, 3, 4), (0, 0), (2, 9), (1, 1), {"new_axis_mask": 2}),
        "b": ((1, 2, 2, 1), (0, 0, 0, 1), (0, 0, 2, 2), (1, 1, 1, 1),
              {"new_axis_mask": 1, "ellipsis_mask": 2}),
        "c": ((3, 2, 1), (1, 0, 3, 5), (2, 0, -9, 6), (1, 1, -2, 1),
              {"shrink_axis_mask": 1, "ellipsis_mask": 2, "new_axis_mask": 8}),
    }  # fmt: skip
    for name, (shape, *lists, masks) in cases.items():
        for key, values in zip("bes", lists, strict=True):
            b.const(f"{name}_{key}", np.array(values, np.int32))
        b.output(name, shape, **Q)
        operands = ("x", *(f"{name}_{key}" for key in "bes"))
        b.op("STRIDED_SLICE", operands, (name,), **masks)
    return b.build()


def conversions() -> bytes:
    """QUANTIZE and DEQUANTIZE between all types that the reference knows."""
    quants = {
        "int8": (0.1, 3),
        "uint8": (0.1, 131),
        "int16": (0.0005, 0),
        "int32": (1e-8, 0),
        "float32": (None, 0),
    }
    b = ModelBuilder()
    for source, targets in {
        "float32": ("int8", "uint8", "int16"),
        "int8": ("int8", "uint8", "float32"),
        "uint8": ("int8", "uint8", "float32"),
        "int16": ("int8", "int16", "int32", "float32"),
        "int32": ("int8", "int16"),
    }.items():
        b.input(f"x_{source}", (1, 40), source, *quants[source])
        for target in targets:
            scale, zero_point = quants[target]
            other = None if scale is None else scale * 1.3
            name = f"{source}_{target}"
            b.output(name, (1, 40), target, other, zero_point)
            op = "DEQUANTIZE" if target == "float32" else "QUANTIZE"
            b.op(op, (f"x_{source}",), (name,))
    # Zero points of wide integers, which no converter writes and TFLite computes with.
    b.input("x_odd", (1, 40), "int16", 0.0005, -999)
    b.output("odd_int8", (1, 40), "int8", 0.1, 3)
    b.output("odd_int32", (1, 40), "int32", 1e-6, 12345)
    b.op("QUANTIZE", ("x_odd",), ("odd_int8",))
    b.op("QUANTIZE", ("x_odd",), ("odd_int32",))
    return b.build()


def shared_and_unused() -> bytes:
    """Operands that are one tensor, an input, results and whole branches that nobody reads."""
    b = ModelBuilder()
    b.input("x", (1, 4), **Q)
    b.input("unused", (1, 7), **Q)
    b.const("axis", np.array(1, np.int32))
    b.tensor("sum", (1, 4), **Q)
    b.tensor("left", (1, 2), **Q)
    b.tensor("right", (1, 2), **Q)
    b.tensor("dead", (1, 4), **Q)
    b.tensor("deader", (1, 4), **Q)
    b.output("joined", (1, 4), **Q)
    b.output("packed", (2, 1, 2), **Q)
    b.output("product", (1, 2), **Q)
    b.op("ADD", ("x", "x"), ("sum",))
    b.op("RELU", ("x",), ("dead",))
    b.op("SPLIT", ("axis", "sum"), ("left", "right"), num_splits=2)
    b.op("CONCATENATION", ("right", "right"), ("joined",), axis=1)
    b.op("PACK", ("right", "right"), ("packed",), values_count=2, axis=0)
    b.op("MUL", ("right", "right"), ("product",))
    b.op("SUB", ("dead", "dead"), ("deader",))
    return b.build()


def empty_parts() -> bytes:
    """A join with constants that hold nothing."""
    b = ModelBuilder()
    b.input("x", (1, 4), **Q)
    b.tensor("none", (1, 0), data=np.zeros((1, 0), np.int8), **Q)
    b.output("y", (1, 8), **Q)
    b.op("CONCATENATION", ("none", "x", "none", "x"), ("y",), axis=1)
    return b.build()


def computed_shapes() -> bytes:
    """Operands with the shape of the output that a run computes; the file states the shape."""
    rng = np.random.default_rng(5)
    b = ModelBuilder()
    b.input("shape", (4,), "int32")
    b.input("x", (1, 3, 4, 3), **Q)
    for dtype, weights in (("int8", "int8"), ("float32", "float32")):
        b.tensor(f"x_{dtype}", (1, 3, 4, 3), *_q(dtype))
        values = rng.integers(-127, 128, (2, 3, 3, 3)).astype(weights)
        scales: dict[str, Any] = (
            {} if dtype == "float32" else {"scale": (0.01, 0.02), "zero_point": 0, "axis": 0}
        )
        b.const(f"w_{dtype}", values, **scales)
        b.output(f"y_{dtype}", (1, 6, 8, 2), *_q(dtype))
        b.output(f"z_{dtype}", (2, 8, 6, 1), *_q(dtype))
    b.tensor("doubled", (4,), "int32")
    b.op("ADD", ("shape", "shape"), ("doubled",), activation="NONE")
    b.op("DEQUANTIZE", ("x",), ("x_float32",))
    b.op("QUANTIZE", ("x_float32",), ("x_int8",))
    for dtype in ("int8", "float32"):
        operands = ("doubled", f"w_{dtype}", f"x_{dtype}")
        options: dict[str, Any] = {
            "stride_h": 2,
            "stride_w": 2,
            "padding": "SAME",
            "activation": "NONE",
        }
        b.op("TRANSPOSE_CONV", operands, (f"y_{dtype}",), **options)
        b.op("RESHAPE", (f"y_{dtype}", "doubled"), (f"z_{dtype}",))
    return b.build()


def wide_shares() -> bytes:
    """SOFTMAX of int8 with shares of 16 bits, of one class to several hundred."""
    b = ModelBuilder()
    for depth, scale, beta in ((1, 0.1, 1.0), (2, 0.01, 1.0), (40, 0.3, 0.5), (300, 0.02, 2.0)):
        b.input(f"x{depth}", (3, depth), "int8", scale, 7)
        b.output(f"y{depth}", (3, depth), "int16", 1 / 65536, -32768)
        b.op("SOFTMAX", (f"x{depth}",), (f"y{depth}",), beta=beta)
    return b.build()


def without_scales() -> bytes:
    """int8 without scale and zero point, between operators that move it, choose from it or clamp
    nothing, and beside tensors with both.
    """
    b = ModelBuilder()
    b.input("bytes", (1, 4, 4, 2), "int8")
    b.input("x", (1, 4, 4, 2), **Q)
    b.const("order", np.array([0, 2, 1, 3], np.int32))
    b.const("pads", np.array([[0, 0], [1, 1], [0, 2], [0, 0]], np.int32))
    b.const("begin", np.array([0, 1, 0, 0], np.int32))
    b.const("size", np.array([1, 3, 4, 2], np.int32))
    b.const("axis", np.array(3, np.int32))
    b.const("rows", np.array([2, 0], np.int32))
    window = {"filter_h": 2, "filter_w": 2, "stride_h": 2, "stride_w": 2, "padding": "VALID"}
    window["activation"] = "NONE"
    steps: list[tuple[str, tuple[str, ...], tuple[int, ...], dict[str, Any]]] = [
        ("TRANSPOSE", ("bytes", "order"), (1, 4, 4, 2), {}),
        ("PAD", ("bytes", "pads"), (1, 6, 6, 2), {}),
        ("SLICE", ("bytes", "begin", "size"), (1, 3, 4, 2), {}),
        ("CONCATENATION", ("bytes", "bytes"), (1, 4, 4, 4), {"axis": 3, "activation": "NONE"}),
        ("MAXIMUM", ("bytes", "x"), (1, 4, 4, 2), {}),
        ("GATHER", ("bytes", "rows"), (1, 2, 4, 2), {"axis": 1, "batch_dims": 0}),
        ("MAX_POOL_2D", ("bytes",), (1, 2, 2, 2), window),
        ("AVERAGE_POOL_2D", ("bytes",), (1, 2, 2, 2), window),
        ("DEPTH_TO_SPACE", ("both",), (1, 8, 8, 1), {"block_size": 2}),
        ("RESHAPE", ("x",), (2, 16), {"new_shape": (2, 16)}),
    ]
    b.tensor("both", (1, 4, 4, 4), "int8")
    for index, (op, inputs, shape, attrs) in enumerate(steps):
        name = "both" if op == "CONCATENATION" else f"y{index}"
        if name != "both":
            b.output(name, shape, "int8")
        b.op(op, inputs, (name,), **attrs)
    return b.build()


def clamps_of_two_scales() -> bytes:
    """RELU6 whose output has another scale: TFLite Micro clamps the numbers alone."""
    b = ModelBuilder()
    for dtype in ("int8", "int16"):
        for number, scales in enumerate(((0.05, 0.1), (0.1, 0.05), (0.0001, 0.0003))):
            b.input(f"x_{dtype}{number}", (1, 300), dtype, scales[0], 0)
            b.output(f"y_{dtype}{number}", (1, 300), dtype, scales[1], 0)
            b.op("RELU6", (f"x_{dtype}{number}",), (f"y_{dtype}{number}",))
    return b.build()


def negative_slopes() -> bytes:
    """LEAKY_RELU that rises again below zero."""
    b = ModelBuilder()
    for dtype in ("int8", "int16", "float32"):
        zero_point = 3 if dtype == "int8" else 0
        for number, slope in enumerate((-0.3, -1.0, -1.7, -1e-9)):
            b.input(f"x_{dtype}{number}", (1, 300), *_q(dtype, 0.1, zero_point))
            b.output(f"y_{dtype}{number}", (1, 300), *_q(dtype, 0.07, zero_point))
            x, y = f"x_{dtype}{number}", f"y_{dtype}{number}"
            b.op("LEAKY_RELU", (x,), (y,), alpha=slope)
    return b.build()


ODD_MODELS: Mapping[str, Callable[[], bytes]] = {
    "scalars": scalars,
    "to_scalars": to_scalars,
    "bias_axis": lambda: layers_with_bias(3, (0.01, 0.02)),
    "zero_scale": lambda: layers_with_bias(0, (0.01, 0.0)),
    "outputs": outputs,
    "other_outputs": other_outputs,
    "no_input": no_input,
    "no_operator": no_operator,
    "open_batch": open_batch,
    "mean_of_no_axes": mean_of_no_axes,
    "new_axes": new_axes,
    "conversions": conversions,
    "shared_and_unused": shared_and_unused,
    "empty_parts": empty_parts,
    "computed_shapes": computed_shapes,
    "wide_shares": wide_shares,
    "without_scales": without_scales,
    "clamps_of_two_scales": clamps_of_two_scales,
    "negative_slopes": negative_slopes,
}

#: Those that TensorFlow Lite Micro refuses: float16, REDUCE_PROD, a new axis in STRIDED_SLICE, and
#: float32 to uint8. TFLite's reference kernels compute them, and nothing in them is defined in two
#: ways.
REFUSED_BY_TFLM = frozenset({"other_outputs", "open_batch", "new_axes", "conversions"})


def reference_name(model: str) -> str:
    """Return the reference that an odd model is compared with."""
    return "litert-ref" if model in REFUSED_BY_TFLM else "tflm"
