"""What operators reject: every bad combination is a ModelError that says what is wrong."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from campaigns import sampled
from kernel_runner import kernel_call
from nodes import make_node
from single_op import KINDS, Draft, index_tensor, pick, random_op

from hilc.errors import ModelError, UnsupportedError
from hilc.ir import Node, Quant, Tensor
from hilc.ops import OPS
from hilc.ops.verify import check_attributes

NONE = {"activation": "NONE"}
MASKS = dict.fromkeys(
    ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0
)
PACK_TWO = {"axis": 0, "values_count": 2}
POOL = {
    "filter_h": 2, "filter_w": 2, "stride_h": 1, "stride_w": 1, "padding": "VALID", **NONE,
}  # fmt: skip


def f32(*shape: int, name: str = "x") -> Tensor:
    return Tensor(name, shape, "float32")


def s8(*shape: int, scale: float = 0.1, zero_point: int = 0, name: str = "x") -> Tensor:
    quant = Quant((float(np.float32(scale)),), (zero_point,))
    return Tensor(name, shape, "int8", quant)


def s16(size: int, scale: float, zero_point: int) -> Tensor:
    return Tensor("x", (size,), "int16", Quant((scale,), (zero_point,)))


def q(scale: float, zero_point: int = 0) -> Quant:
    return Quant((float(np.float32(scale)),), (zero_point,))


def run_time(name: str = "n", count: int = 2) -> Tensor:
    return Tensor(name, (count,), "int32")


def ints(*values: Any, name: str = "i") -> Tensor:
    return index_tensor(values, name)


def slice_of(x: Tensor, *operands: Sequence[int], **masks: int) -> Draft:
    names = ("b", "e", "s")
    indices = [index_tensor(v, n) for v, n in zip(operands, names, strict=True)]
    return Draft([x, *indices], attrs={**MASKS, **masks})


# operator, operands, error, a part of the message
CASES: Sequence[tuple[str, Draft, type[ModelError], str]] = [
    ("ADD", Draft([f32(2)], attrs=NONE), ModelError, "1 inputs, not 2"),
    ("ADD", Draft([f32(2), f32(3)], attrs=NONE), ModelError, "shapes [2] and [3]"),
    ("ADD", Draft([f32(2), s8(2)], attrs=NONE), ModelError, "float32 and int8"),
    (
        "ADD",
        Draft([Tensor("x", (2,), "uint8")] * 2, attrs=NONE),
        UnsupportedError,
        "support uint8 input",
    ),
    (
        "ADD",
        Draft([run_time(), run_time("m")], attrs={"activation": "RELU"}),
        UnsupportedError,
        "fused activation RELU on int32",
    ),
    ("DIV", Draft([s8(2), s8(2)], q(1e-8), NONE), UnsupportedError, "2^22 times finer"),
    ("DIV", Draft([run_time(), ints(1, 0)], attrs=NONE), ModelError, "holds a zero"),
    ("FLOOR_MOD", Draft([run_time(), ints(1, 0)]), ModelError, "holds a zero"),
    ("SQUARED_DIFFERENCE", Draft([s8(2), s8(2)], q(1e-8)), UnsupportedError, "too fine"),
    ("MAXIMUM", Draft([s8(2), s8(2, scale=0.2)], q(0.1)), UnsupportedError, "requantize"),
    ("LOGICAL_AND", Draft([f32(2), f32(2)]), UnsupportedError, "support float32 input"),
    ("EQUAL", Draft([s8(2, scale=1.5), s8(2)]), UnsupportedError, "less than 1"),
    ("EQUAL", Draft([s16(2, 0.1, 0), s16(2, 0.2, 0)]), UnsupportedError, "requantize"),
    ("SELECT", Draft([f32(2), f32(2), f32(2)]), UnsupportedError, "support float32 input"),
    (
        "SELECT",
        Draft([Tensor("c", (3,), "bool"), f32(2, 3), f32(2, 3)]),
        ModelError,
        "selects by [3]",
    ),
    (
        "SELECT_V2",
        Draft([Tensor("c", (3,), "bool"), s8(3), s8(3, scale=0.2)], q(0.1)),
        UnsupportedError,
        "requantize",
    ),
    ("FILL", Draft([ints(2, 0), f32()]), ModelError, "at least 1"),
    ("FILL", Draft([run_time(), f32()]), UnsupportedError, "at run time"),
    ("FILL", Draft([ints(2), f32(1)]), ModelError, "over [2]"),
    ("BROADCAST_TO", Draft([f32(3), ints(2, 2)]), ModelError, "over [2, 2]"),
    ("BROADCAST_TO", Draft([s8(1), ints(2)], q(1)), UnsupportedError, "requantize"),
    ("ADD_N", Draft([f32(3)]), ModelError, "1 inputs"),
    ("ADD_N", Draft([f32(3), f32(2, name="z")]), ModelError, "adds float32[2]"),
    ("ADD_N", Draft([s8(3), s8(3, scale=1, name="z")], q(1)), UnsupportedError, "'z'"),
    ("CUMSUM", Draft([f32(3), ints(1)]), ModelError, "axis 1"),
    ("CUMSUM", Draft([s8(3, scale=1e6), ints(0)], q(1e-1)), UnsupportedError, "2^19 times"),
    ("LOG_SOFTMAX", Draft([f32()]), ModelError, "scalar"),
    ("LOG_SOFTMAX", Draft([s8(3)], q(1 / 256, -128)), UnsupportedError, "output scale"),
    ("L2_NORMALIZATION", Draft([s8(3)], q(1)), UnsupportedError, "output scale 1.0"),
    ("L2_NORMALIZATION", Draft([s8(40000)], q(1 / 128)), UnsupportedError, "32767"),
    ("PRELU", Draft([f32(1), f32(3)]), ModelError, "slopes of shape [3]"),
    ("PRELU", Draft([s8(3), s8(3)], q(1e-9)), UnsupportedError, "too fine"),
    ("CAST", Draft([f32(2)], attrs={"dtype": "bfloat16"}), UnsupportedError, "casts to bfloat16"),
    ("ABS", Draft([s8(3)], q(1e-9)), UnsupportedError, "e-10 out"),
    ("RSQRT", Draft([s8(3, scale=1e-20)], q(1e-9)), UnsupportedError, "less than 2^30"),
    ("SIN", Draft([s8(3)], q(1)), UnsupportedError, "support int8 input"),
    ("ADD", Draft([f32(2), f32(2)], attrs={"activation": "TANH"}), ModelError, "'TANH'"),
    ("ADD", Draft([s8(2), s8(2)], None, NONE), ModelError, "without quantization"),
    ("ADD", Draft([s8(2, zero_point=300), s8(2)], q(1), NONE), ModelError, "zero point 300"),
    ("ADD", Draft([s8(2, scale=1e6), s8(2)], q(0.1), NONE), UnsupportedError, "2^19 times finer"),
    ("SUB", Draft([s8(2), s8(2)], q(1e-30), NONE), ModelError, "out of range"),
    ("MUL", Draft([s8(2), s8(2)], q(1e-7), NONE), UnsupportedError, "2^14 times finer"),
    (
        "MUL",
        Draft([s8(2, scale=1e29), s8(2, scale=1e29)], q(1), NONE),
        UnsupportedError,
        "a factor of 1e+58",
    ),
    (
        "ADD",
        Draft([replace(s8(2), quant=Quant((0.1, 0.2), (0, 0))), s8(2)], q(1), NONE),
        UnsupportedError,
        "2 scales",
    ),
    ("ADD", Draft([f32(*[2] * 7), f32(1)], attrs=NONE), UnsupportedError, "7 dimensions"),
    ("MAX_POOL_2D", Draft([f32(2, 2)], attrs=POOL), ModelError, "not of 4 dimensions"),
    ("MAX_POOL_2D", Draft([f32(1, 1, 1, 1)], attrs=POOL), ModelError, "does not fit"),
    (
        "AVERAGE_POOL_2D",
        Draft([f32(1, 4, 4, 1)], attrs={**POOL, "stride_w": 0}),
        ModelError,
        "at least 1",
    ),
    (
        "AVERAGE_POOL_2D",
        Draft([s8(1, 4, 4, 1)], q(0.2), POOL),
        UnsupportedError,
        "requantize",
    ),
    (
        "AVERAGE_POOL_2D",
        Draft([f32(1, 4, 4, 1)], attrs={**POOL, "padding": (9, 9, 9, 9)}),
        ModelError,
        "padding",
    ),
    ("SOFTMAX", Draft([f32(3)], attrs={"beta": None}), ModelError, "beta = None"),
    ("SOFTMAX", Draft([f32(3)], attrs={"beta": -1.0}), ModelError, "beta -1.0"),
    ("SOFTMAX", Draft([f32()], attrs={"beta": 1.0}), ModelError, "scalar"),
    (
        "SOFTMAX",
        Draft([s8(3)], q(1 / 128, -128), {"beta": 1.0}),
        UnsupportedError,
        "scale 0.0078125",
    ),
    ("SOFTMAX", Draft([s8(3)], q(1 / 256, 0), {"beta": 1.0}), UnsupportedError, "point 0"),
    ("SOFTMAX", Draft([s8(4096)], q(1 / 256, -128), {"beta": 1.0}), UnsupportedError, "4095"),
    (
        "SOFTMAX",
        Draft([s8(3, scale=1e-9)], q(1 / 256, -128), {"beta": 1.0}),
        UnsupportedError,
        "no two values differ",
    ),
    ("LOGISTIC", Draft([s8(3)], q(1 / 128)), UnsupportedError, "not 1/256"),
    ("HARD_SWISH", Draft([s8(3)], q(1e-4)), UnsupportedError, "128 times finer"),
    ("RELU", Draft([s8(3)], None), ModelError, "without quantization"),
    ("RELU", Draft([s8(3)], q(1e-9)), UnsupportedError, "times its output"),
    ("RELU", Draft([s8(3)], q(1e-40)), ModelError, "out of range"),
    ("RELU6", Draft([run_time()]), UnsupportedError, "support int32 input"),
    ("LEAKY_RELU", Draft([f32(3)], attrs={"alpha": None}), ModelError, "alpha = None"),
    ("LEAKY_RELU", Draft([f32(3)], attrs={"alpha": float("nan")}), ModelError, "slope nan"),
    ("QUANTIZE", Draft([f32(3)]), ModelError, "without quantization"),
    ("QUANTIZE", Draft([f32(3)], attrs={"dtype": "int32"}), UnsupportedError, "float32 to int32"),
    (
        "QUANTIZE",
        Draft([s16(3, 0.1, 1)], q(0.1, 1), {"dtype": "int16"}),
        UnsupportedError,
        "zero point 1",
    ),
    ("QUANTIZE", Draft([s16(3, 1e4, 0)], q(1e-4)), UnsupportedError, "requantizes int16"),
    ("QUANTIZE", Draft([s16(3, 1e9, 0)], q(1e-9)), UnsupportedError, "less than 2^30"),
    ("QUANTIZE", Draft([s8(3, scale=1e9)], q(1e-9)), UnsupportedError, "output scale"),
    ("DEQUANTIZE", Draft([replace(s8(3), quant=None)]), ModelError, "without quantization"),
    ("MEAN", Draft([f32(2, 3), run_time()], attrs={"keep_dims": True}), UnsupportedError, "run"),
    ("MEAN", Draft([f32(2, 3), ints(2)], attrs={"keep_dims": True}), ModelError, "axis 2"),
    (
        "MEAN",
        Draft([f32(2, 3), ints(0)], attrs={"keep_dims": None}),
        ModelError,
        "keep_dims = None",
    ),
    ("MEAN", Draft([f32(2, 3), f32(1)], attrs={"keep_dims": True}), ModelError, "integers"),
    ("MEAN", Draft([s8(2, 3), ints(0)], q(1e-9), {"keep_dims": True}), UnsupportedError, "scale"),
    ("SUM", Draft([s8(2, 3), ints(0)], q(1e-9), {"keep_dims": True}), UnsupportedError, "scale"),
    ("REDUCE_MAX", Draft([s8(2), ints(0)], q(0.5)), UnsupportedError, "requantize"),
    ("REDUCE_PROD", Draft([s8(2), ints(0)], q(0.1)), UnsupportedError, "int8 input"),
    ("REDUCE_ANY", Draft([f32(2), ints(0)]), UnsupportedError, "float32 input"),
    ("ARG_MAX", Draft([f32(2), ints(1)]), ModelError, "axis 1"),
    ("ARG_MAX", Draft([f32(2), ints(0)], attrs={"dtype": "int8"}), ModelError, "dtype = 'int8'"),
    ("RESIZE_BILINEAR", Draft([f32(1, 2, 2, 1), ints(0, 2)]), UnsupportedError, "to [0, 2]"),
    ("RESIZE_BILINEAR", Draft([f32(2, 2), ints(2, 2)]), ModelError, "shape [2, 2]"),
    (
        "RESIZE_BILINEAR",
        Draft([s8(1, 1, 1, 1), ints(600, 1)], q(0.1)),
        UnsupportedError,
        "beyond the last",
    ),
    (
        "RESIZE_NEAREST_NEIGHBOR",
        Draft(
            [f32(1, 2, 2, 1), ints(4, 4)],
            attrs={"align_corners": True, "half_pixel_centers": True},
        ),
        UnsupportedError,
        "exclude each other",
    ),
    ("L2_POOL_2D", Draft([s8(1, 4, 4, 1)], q(0.1), POOL), UnsupportedError, "int8 input"),
    ("RESHAPE", Draft([f32(2, 3), ints(7)]), ModelError, "6 elements"),
    ("RESHAPE", Draft([f32(2, 3), ints(4, -1)]), ModelError, "6 elements"),
    ("RESHAPE", Draft([f32(2, 3), ints(-1, -1)]), ModelError, "[-1, -1]"),
    ("RESHAPE", Draft([f32(2, 3), ints(0, -1)]), ModelError, "[0, -1]"),
    ("RESHAPE", Draft([f32(2, 3), run_time()]), UnsupportedError, "at run time"),
    ("RESHAPE", Draft([f32(2, 3)]), ModelError, "6 elements"),
    ("SQUEEZE", Draft([f32(2, 1)], attrs={"squeeze_dims": (0,)}), ModelError, "axis 0"),
    ("SQUEEZE", Draft([f32(2, 1)], attrs={"squeeze_dims": (5,)}), ModelError, "axis 5"),
    ("EXPAND_DIMS", Draft([f32(2), ints(3)]), ModelError, "axis 3"),
    ("EXPAND_DIMS", Draft([f32(2), ints(0, 1)]), ModelError, "2 values"),
    ("TRANSPOSE", Draft([f32(2, 3), ints(0, 0)]), ModelError, "[0, 0]"),
    ("TRANSPOSE", Draft([f32(2, 3), ints(1)]), ModelError, "[1]"),
    ("TRANSPOSE", Draft([f32(*[2] * 7), ints(*range(7))]), UnsupportedError, "7 axes"),
    ("PAD", Draft([f32(2, 3), ints(1, 1)]), ModelError, "int32[2]"),
    ("PAD", Draft([f32(2), ints([-1, 1])]), ModelError, "[[-1, 1]]"),
    ("PAD", Draft([f32(2), Tensor("p", (1, 2), "int32")]), UnsupportedError, "at run time"),
    ("PAD", Draft([s8(2), ints([1, 1])], q(0.5)), UnsupportedError, "requantize"),
    ("PAD", Draft([f32(*[1] * 6), ints(*[[1, 1]] * 6)]), UnsupportedError, "6 axes"),
    ("STRIDED_SLICE", slice_of(f32(4), [0], [4], [0]), ModelError, "stride 0"),
    ("STRIDED_SLICE", slice_of(f32(4), [2], [2], [1]), ModelError, "no element"),
    ("STRIDED_SLICE", slice_of(f32(4), [0], [4, 4], [1]), ModelError, "2 ends"),
    ("STRIDED_SLICE", slice_of(f32(4), [0, 0], [1, 1], [1, 1]), ModelError, "2 begins"),
    ("STRIDED_SLICE", slice_of(f32(4), [9], [10], [1], shrink_axis_mask=1), ModelError, "of 4"),
    ("STRIDED_SLICE", slice_of(f32(4), [0, 0], [4, 4], [1, 1], ellipsis_mask=3), ModelError, "ell"),
    (
        "STRIDED_SLICE",
        slice_of(f32(1, 1, 1, 1, 4), [0], [4], [1], new_axis_mask=1),
        UnsupportedError,
        "into 6",
    ),
    ("CONCATENATION", Draft([], attrs={"axis": 0}), ModelError, "0 tensors"),
    ("CONCATENATION", Draft([f32(2), f32(2)], attrs={"axis": 1}), ModelError, "axis 1"),
    ("CONCATENATION", Draft([f32(2), f32(2, 2)], attrs={"axis": 0}), ModelError, "[2, 2]"),
    (
        "CONCATENATION",
        Draft([f32(2, 3), f32(2, 4)], attrs={"axis": 0}),
        ModelError,
        "along axis 0",
    ),
    (
        "CONCATENATION",
        Draft([f32(2)], attrs={"axis": 0, "activation": "RELU"}),
        ModelError,
        "activation = 'RELU' (accepted: 'NONE')",
    ),
    (
        "CONCATENATION",
        Draft([s8(2), s8(2, scale=0.3, name="z")], q(0.1), {"axis": 0}),
        UnsupportedError,
        "takes 'z' and gives 'y0'",
    ),
    ("PACK", Draft([f32(2), f32(3)], attrs=PACK_TWO), ModelError, "[2] and [3]"),
    ("PACK", Draft([f32(2)] * 2, attrs={**PACK_TWO, "axis": 2}), ModelError, "axis 2"),
    ("PACK", Draft([f32(2)], attrs=PACK_TWO), ModelError, "states 2"),
    ("SLICE", Draft([f32(4), ints(1), ints(4)]), ModelError, "4 elements from 1 on of axis 0"),
    ("SLICE", Draft([f32(4), ints(1), ints(0)]), ModelError, "0 elements from 1"),
    ("SLICE", Draft([f32(4), ints(-1), ints(1)]), ModelError, "from -1"),
    ("SLICE", Draft([f32(4), ints(0, 0), ints(1)]), ModelError, "2 begins for 1 axes"),
    ("SLICE", Draft([f32(4), run_time(count=1), ints(1)]), UnsupportedError, "run time"),
    ("REVERSE_V2", Draft([f32(2, 3), ints(0, -2)]), ModelError, "twice"),
    ("TILE", Draft([f32(2, 3), ints(0, 2)]), ModelError, "at least 1"),
    (
        "MIRROR_PAD",
        Draft([f32(2), ints([2, 0])], attrs={"mode": "REFLECT"}),
        ModelError,
        "(at most 1)",
    ),
    ("PADV2", Draft([f32(2), ints([1, 1]), ints(1)]), ModelError, "float32 with int32[1]"),
    ("PADV2", Draft([f32(2), ints([1, 1]), f32()]), UnsupportedError, "run time"),
    (
        "SPACE_TO_DEPTH",
        Draft([f32(1, 4, 3, 1)], attrs={"block_size": 2}),
        ModelError,
        "4 x 3 pixels into blocks of 2 x 2",
    ),
    (
        "DEPTH_TO_SPACE",
        Draft([f32(1, 4, 3, 6)], attrs={"block_size": 2}),
        ModelError,
        "of 6 channels",
    ),
    (
        "SPACE_TO_BATCH_ND",
        Draft([f32(1, 3, 1), ints(2), ints([0, 0])]),
        ModelError,
        "3 rows or columns into blocks of 2",
    ),
    (
        "BATCH_TO_SPACE_ND",
        Draft([f32(3, 3, 1), ints(2), ints([0, 0])]),
        ModelError,
        "of 3 images",
    ),
    (
        "BATCH_TO_SPACE_ND",
        Draft([f32(2, 3, 1), ints(2), ints([3, 3])]),
        ModelError,
        "crops 3 and 3 of 6",
    ),
    ("GATHER", Draft([f32(4), ints(0, 4)]), ModelError, "element 4 of axis 0, which has 4"),
    ("GATHER", Draft([f32(4), ints(-1)]), ModelError, "element -1"),
    ("GATHER", Draft([f32(4), f32(1)]), UnsupportedError, "float32 input"),
    ("GATHER", Draft([f32(4), ints(0)], attrs={"axis": 1}), ModelError, "axis 1"),
    ("GATHER", Draft([f32(4), ints(0)], attrs={"batch_dims": 1}), ModelError, "batch_dims 1"),
    ("GATHER_ND", Draft([f32(4, 2), ints(4)]), ModelError, "outside of 'x'"),
    ("GATHER_ND", Draft([f32(4), ints(0, 0)]), ModelError, "2 numbers for 1 axes"),
    ("EMBEDDING_LOOKUP", Draft([ints(2), f32(2, 3)]), ModelError, "element 2"),
    (
        "DYNAMIC_UPDATE_SLICE",
        Draft([f32(4), f32(5, name="u"), run_time(count=1)]),
        ModelError,
        "which is smaller",
    ),
    (
        "ONE_HOT",
        Draft([run_time(), ints(0), f32(), f32()], attrs={"axis": -1}),
        ModelError,
        "0 classes",
    ),
    ("UNPACK", Draft([f32(3)], attrs={"axis": 0, "num": 2}, outputs=2), ModelError, "states 2"),
    (
        "SPLIT_V",
        Draft([f32(5), ints(2, 2), ints(0)], attrs={"num_splits": 2}, outputs=2),
        ModelError,
        "parts of [2, 2]",
    ),
    ("SPLIT", Draft([ints(0), f32(5)], attrs={"num_splits": 2}, outputs=2), ModelError, "5 elem"),
    ("SPLIT", Draft([ints(0), f32(4)], attrs={"num_splits": 2}, outputs=3), ModelError, "3 out"),
    ("SPLIT", Draft([ints(0), f32(4)], attrs={"num_splits": 0}, outputs=0), ModelError, "0 parts"),
    ("SPLIT", Draft([ints(3), f32(4)], attrs={"num_splits": 2}, outputs=2), ModelError, "axis 3"),
    (
        "SPLIT",
        Draft([run_time(count=1), f32(4)], attrs={"num_splits": 2}, outputs=2),
        UnsupportedError,
        "run time",
    ),
]


def accept(op: str, draft: Draft) -> tuple[Node, Sequence[Tensor | None], tuple[Tensor, ...]]:
    """Infer and check, as the verifier does."""
    names = tuple(f"y{i}" for i in range(draft.outputs))
    node = make_node(op, [t.name if t else "" for t in draft.ins], names, **draft.attrs)
    check_attributes(node)
    signatures = OPS[op].infer(node, draft.ins)
    assert len(signatures) == len(names)
    outs = tuple(
        Tensor(name, shape, dtype, draft.quant)
        for name, (shape, dtype) in zip(names, signatures, strict=True)
    )
    OPS[op].check(node, draft.ins, outs)
    return node, draft.ins, outs


@pytest.mark.parametrize(
    ("op", "draft", "error", "words"), CASES, ids=[f"{c[0]}: {c[3]}" for c in CASES]
)
def test_refusal(op, draft, error, words):
    with pytest.raises(error) as caught:
        accept(op, draft)
    # A model that is not supported is not an invalid one.
    assert isinstance(caught.value, UnsupportedError) is (error is UnsupportedError)
    assert words in caught.value.fact
    assert ("'y0'" if draft.outputs else op) in caught.value.fact


def ramp(scale: float) -> Draft:
    """HARD_SWISH that brings its input from ``scale`` to that of the ramp; input and output alike.

    The ramp's own scale is 3/32768, and the input is raised by 7 bits.
    """
    return Draft([s8(3, scale=scale * 128 * 3 / 32768)], q(scale * 128 * 3 / 32768))


def test_a_hard_swish_ramp_that_overflows_is_refused():
    accept("HARD_SWISH", ramp(2.0**30.9))
    with pytest.raises(UnsupportedError, match=r"less than 2\^31"):
        accept("HARD_SWISH", ramp(2.0**31.1))


@pytest.mark.parametrize(
    ("op", "draft", "remedy"),
    [
        ("SOFTMAX", Draft([f32()], attrs={"beta": 1.0}), "[1, classes]"),
        ("ADD", Draft([s8(2), s8(2)], q(1.7e-9), NONE), "check the quantization"),
        ("RELU", Draft([s8(3)], q(1e-40)), "check the quantization"),
        ("MUL", Draft([s8(2, scale=1e29)] * 2, q(1), NONE), "check the quantization"),
        ("ADD", Draft([s8(2, scale=1e6), s8(2)], q(0.1), NONE), "no reference defines this"),
    ],
)
def test_refusals_of_values_name_a_remedy(op, draft, remedy):
    with pytest.raises(ModelError) as caught:
        accept(op, draft)
    assert remedy in caught.value.hint


WILD: Sequence[Any] = (
    None, "", "SAME", True, 0, 1, -1, 2, 3, 7, 255, 2**31 - 1, -(2**31), 2**40, 0.0, -1.5,
    float("nan"), float("inf"), (), (1,), (0, -1), (2**31, 1),
)  # fmt: skip
WILD_SCALES = (1e-45, 1e-38, 1e-9, 1e-3, 1.0, 1e9, 3e38)


def damaged(rng: np.random.Generator, op: str, dtype: str) -> Draft:
    """A random operator with one or two things wrong."""
    single = random_op(rng, op, dtype)
    ins: list[Tensor | None] = list(single.ins)
    attrs = dict(vars(single.node.attrs))
    quant = single.outs[0].quant
    outputs = len(single.outs)
    for _ in range(int(rng.integers(1, 3))):
        place = int(rng.integers(len(ins))) if ins else 0
        tensor = ins[place] if ins else None
        match int(rng.integers(9)):
            case 0 if ins:
                ins[place] = None
            case 1:
                ins.append(tensor)
            case 2 if ins:
                ins.pop(place)
            case 3 if tensor is not None:
                other = pick(rng, "int8", "int32", "float32", "bool", "int64")
                data = None if tensor.data is None else tensor.data.astype(other)
                ins[place] = replace(tensor, dtype=other, data=data)
            case 4 if tensor is not None and tensor.data is None:
                shape = tuple(int(n) for n in rng.integers(1, 5, int(rng.integers(0, 8))))
                ins[place] = replace(tensor, shape=shape)
            case 5 if tensor is not None and tensor.data is not None:
                info = np.iinfo(np.int32)
                if tensor.dtype == "int32":
                    wild = pick(rng, -1, 0, 1, 5, info.min, info.max)
                    data = np.where(rng.random(tensor.shape) < 0.5, wild, tensor.data)
                    ins[place] = replace(tensor, data=data.astype(np.int32))
            case 6 if attrs:
                attrs[pick(rng, *attrs)] = pick(rng, *WILD)
            case 7:
                scale, zero_point = pick(rng, *WILD_SCALES), int(rng.integers(-200, 300))
                wild_quant = pick(rng, None, q(scale, zero_point), Quant((1.0, 2.0), (0, 0)))
                if tensor is not None and rng.random() < 0.5:
                    ins[place] = replace(tensor, quant=wild_quant)
                else:
                    quant = wild_quant
            case 8:
                outputs = int(rng.integers(0, 4))
    return Draft(ins, quant, attrs, outputs)  # type: ignore[arg-type]


@pytest.mark.parametrize("draws", sampled([100, 400], keep=[100]))
@pytest.mark.parametrize("op", sorted({op for op, _ in KINDS}))
def test_damage_raises_nothing_else(op, draws):
    """Whatever infer and check let pass, reference and emit can do."""
    rng = np.random.default_rng(zlib.crc32(op.encode()))
    dtypes = [dtype for kind, dtype in KINDS if kind == op]
    refused = 0
    for _ in range(draws):
        draft = damaged(rng, op, pick(rng, *dtypes))
        try:
            node, ins, outs = accept(op, draft)
        except ModelError:
            refused += 1
            continue
        call = kernel_call(node, ins, outs)
        # A limit of floats may be infinite.
        assert not any(np.isnan(np.asarray(v, float)).any() for v in call.fields.values())
        if sum(t.nbytes for t in outs) < 1 << 16:
            values = [
                t if t is None else t.data if t.data is not None else np.zeros(t.shape, t.dtype)
                for t in ins
            ]
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                results = OPS[op].reference(node, ins, outs, values)
            assert [(r.shape, r.dtype) for r in results] == [
                (t.shape, np.dtype(t.dtype)) for t in outs
            ]
    assert draws // 10 < refused < draws
