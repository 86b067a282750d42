"""Operators in numpy against both run times: every operator but the linear layers."""

from __future__ import annotations

import re
import zlib
from dataclasses import replace
from typing import Any

import kernel_runner
import litert_ref
import numpy as np
import pytest
import tflm
from campaigns import PARTS, cases
from nodes import make_node
from single_op import (
    KINDS,
    ONNX_ALONE,
    STATEFUL,
    Draft,
    SingleOp,
    finish,
    index_tensor,
    random_op,
)

from hilc.errors import ModelError, UnsupportedError
from hilc.frontends import load_model
from hilc.ir import Array, Numerics, Quant, Tensor
from hilc.ops import OPS, lacked_types
from hilc.ops.batch_matmul import BatchMatmulAttributes
from hilc.ops.verify import verify
from hilc.references import get_reference


def lacked(reference: Numerics) -> set[tuple[str, str]]:
    """Operators with each type that the kernels of a reference do not take, as they state it."""
    return {(op, dtype) for op, dtypes in lacked_types(reference).items() for dtype in dtypes}


NOT_IN_LITERT, NOT_IN_TFLM = lacked(Numerics.LITERT), lacked(Numerics.TFLM)
#: Those that it runs with success, and leaves their outputs unwritten.
UNWRITTEN_BY_TFLM = {("GREATER", "int16")}
#: What of others it refuses, as a part of what it says.
LIMITS_OF_TFLM = {
    "CAST": "Output type U?INT(8|64) .* not supported",
    "LOGISTIC": r"output->params.zero_point != std::numeric_limits<int8_t>::min\(\)",
    "QUANTIZE": "output UINT8 not supported",
    "TRANSPOSE": "only supports 1D-5D input arrays",
    "STRIDED_SLICE": "strided_slice_common.cc",
}
#: float32: functions of the C library are not all rounded correctly.
RELATIVE = 2e-6


def generator(*seed: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(" ".join(seed).encode()))


def litert(single: SingleOp) -> list[Array]:
    interpreter = litert_ref.interpreter(single.tflite())
    places = {d["name"]: d["index"] for d in interpreter.get_tensor_details()}
    for tensor, value in zip(single.ins, single.values, strict=True):
        if tensor.data is None:
            interpreter.set_tensor(places[tensor.name], value)
    interpreter.invoke()
    return [interpreter.get_tensor(places[tensor.name]) for tensor in single.outs]


def micro(single: SingleOp) -> list[Array]:
    inputs = {t.name: value for t, value in zip(single.ins, single.values, strict=True)}
    values = tflm.run(single.tflite(), inputs)
    return [values[tensor.name] for tensor in single.outs]


#: A run time and the definition that it computes by.
BOTH = ((micro, Numerics.TFLM), (litert, Numerics.LITERT))
RUN_TIMES = [
    pytest.param(BOTH[0], marks=tflm.needs_tflm, id="tflm"),
    pytest.param(BOTH[1], marks=litert_ref.needs_litert_ref, id="litert-ref"),
]


def check(single: SingleOp, judge=BOTH[1]) -> None:
    run, numerics = judge
    single = single.by(numerics)
    what = f"{single.node.op} {single.ins} {single.node.attrs} {single.outs}"
    results, fill = run(single), OPS[single.node.op].fill_unwritten
    if fill is not None:
        results = fill(single.node, results)
    for tensor, ours, theirs in zip(single.outs, single.reference(), results, strict=True):
        assert (ours.shape, ours.dtype) == (tensor.shape, np.dtype(tensor.dtype)), what
        if ours.dtype == np.float32:
            assert theirs.shape == ours.shape, what
            np.testing.assert_allclose(ours, theirs, RELATIVE, 1e-30, err_msg=what)
        else:
            np.testing.assert_array_equal(ours, theirs, err_msg=what, strict=True)


#: States have a test of their own: test_recurrent.
STATELESS = [kind for kind in KINDS if kind[0] not in (*STATEFUL, *ONNX_ALONE)]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(("op", "dtype"), [kind for kind in STATELESS if kind not in NOT_IN_LITERT])
def test_reference_equals_litert(op, dtype, part):
    rng = generator("litert", op, dtype, str(part))
    for _ in range(25 if dtype == "int8" else 7):
        single = random_op(rng, op, dtype)
        # TFLite has no kernel from a byte to wider integers.
        if op == "QUANTIZE" and dtype == "int8" and single.outs[0].element.itemsize != 1:
            continue
        if op != "BATCH_MATMUL" or not leaves_products_undefined(single):
            check(single)


def leaves_products_undefined(single: SingleOp) -> bool:
    """Whether TFLite takes transposed matrices for one larger one, and computes some products only.

    It does where the second input has one matrix for several of the first, also where adj_x says
    that these are transposed.
    """
    a, b = (tensor.shape for tensor in single.ins)
    transposed = BatchMatmulAttributes.of(single.node).adj_x
    return transposed and len(a) > 2 and a[-3] > 1 and len(b) > 2 and b[-3] == 1


@tflm.needs_tflm
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    ("op", "dtype"),
    [kind for kind in STATELESS if kind not in NOT_IN_TFLM | UNWRITTEN_BY_TFLM],
)
def test_reference_equals_tflm(op, dtype, part):
    rng = generator("tflm", op, dtype, str(part))
    refusals, count = [], 25
    for _ in range(count):
        try:
            check(random_op(rng, op, dtype), BOTH[0])
        except ModelError as error:
            refusals.append(error.fact)
    assert len(refusals) <= (count * 0.85 if op in LIMITS_OF_TFLM else 0), refusals[:3]
    for refusal in refusals:
        assert re.search(LIMITS_OF_TFLM[op], refusal)


@tflm.needs_tflm
@pytest.mark.parametrize(("op", "dtype"), sorted(NOT_IN_TFLM))
def test_tflm_refuses_what_it_lacks(op, dtype):
    with pytest.raises(ModelError, match="TensorFlow Lite Micro cannot run this model"):
        micro(random_op(generator("lacks"), op, dtype))


@tflm.needs_tflm
@pytest.mark.parametrize(("op", "dtype"), sorted(UNWRITTEN_BY_TFLM))
def test_tflm_is_no_reference_of_unwritten_outputs(op, dtype):
    data = random_op(generator("unwritten"), op, dtype).tflite()
    with pytest.raises(ModelError, match=f"TensorFlow Lite Micro computes {op} .* by chance"):
        get_reference("tflm", load_model(data), data)


@pytest.mark.parametrize(("op", "dtype"), [kind for kind in STATELESS if kind[1] == "int8"])
def test_operators_import_as_they_were_written(op, dtype):
    rng = generator("import", op)
    for _ in range(10):
        single = random_op(rng, op, dtype)
        if not any(tensor.data is None for tensor in single.ins):
            continue
        graph = load_model(single.tflite(), name="one")
        verify(graph)
        (node,) = graph.nodes
        assert node.op == op
        assert graph.ins(node) == single.ins
        assert graph.outs(node) == single.outs
        assert single.node.attrs == node.attrs


def every_int8(scale: float, zero_point: int, name: str = "x", repeat: int = 1) -> Tensor:
    quant = Quant((float(np.float32(scale)),), (zero_point,))
    return Tensor(name, (256 * repeat,), "int8", quant)


ALL = np.arange(-128, 128, dtype=np.int8)


@pytest.mark.parametrize("run_time", RUN_TIMES)
@pytest.mark.parametrize(
    "op",
    [
        *("RELU", "RELU6", "LOGISTIC", "TANH", "HARD_SWISH", "LEAKY_RELU"),
        *("ABS", "ELU", "EXP", "GELU", "LOG", "RELU_0_TO_1", "RELU_N1_TO_1"),
    ],
)
def test_every_int8_of_unary_operators(op, run_time):
    """Tables for many scales; a wrong rounding shows in a few entries of a few of them."""
    if (op, "int8") in (NOT_IN_TFLM if run_time[0] is micro else NOT_IN_LITERT):
        pytest.skip("there is no kernel for int8")
    rng = generator("tables", op)
    for _ in range(150):
        in_scale = float(np.exp(rng.uniform(-8, 2)))
        out_scale = 1 / 256 if op == "LOGISTIC" else in_scale * float(np.exp(rng.uniform(-4, 3)))
        zero_points = [int(z) for z in rng.integers(-128, 128, 2)]
        if op == "LOGISTIC" and run_time[0] is micro:
            zero_points[1] = -128
        if op == "EXP":
            in_scale = min(in_scale, 0.2)
            out_scale *= float(np.exp(in_scale * (127 - zero_points[0])))
        draft = Draft(
            [every_int8(in_scale, zero_points[0])],
            Quant((float(np.float32(out_scale)),), (zero_points[1],)),
            {"alpha": float(np.float32(rng.uniform(0, 1.5)))} if op == "LEAKY_RELU" else {},
        )
        check(finish(rng, op, draft, [ALL]), run_time)


@pytest.mark.parametrize("run_time", RUN_TIMES)
@pytest.mark.parametrize("op", ["ADD", "SUB", "MUL"])
def test_every_pair_of_int8(op, run_time):
    rng = generator("pairs", op)
    x, y = np.repeat(ALL, 256), np.tile(ALL, 256)
    for _ in range(12):
        a, b, out = (float(s) for s in np.exp(rng.uniform(-5, 1, 3)))
        zero_points = [int(z) for z in rng.integers(-128, 128, 3)]
        out *= a * b if op == "MUL" else max(a, b)
        draft = Draft(
            [every_int8(a, zero_points[0], "a", 256), every_int8(b, zero_points[1], "b", 256)],
            Quant((float(np.float32(out)),), (zero_points[2],)),
            {"activation": "NONE"},
        )
        check(finish(rng, op, draft, [x, y]), run_time)


@pytest.mark.parametrize("run_time", RUN_TIMES)
@pytest.mark.parametrize("op", ["MUL", "RELU", "LEAKY_RELU"])
def test_the_precision_in_which_scales_are_divided(op, run_time):
    """TFLM divides in double, TFLite in float32: with factors nearly of 1/2 it shows in ties."""
    rng = generator("precision", op)
    x, y = np.repeat(ALL, 256), np.tile(ALL, 256)
    differ = 0
    for _ in range(12):
        a, b = (np.float32(scale) for scale in rng.uniform(0.01, 0.1, 2))
        if op == "MUL":
            draft = Draft(
                [every_int8(float(a), 0, "a", 256), every_int8(float(b), 0, "b", 256)],
                Quant((float(a * b * np.float32(64)),), (0,)),
                {"activation": "NONE"},
            )
            single = finish(rng, op, draft, [x, y])
        else:
            alpha = np.float32(rng.uniform(0.1, 1))
            odd = np.float32(rng.choice([1, 3, 5, 7, 9])) / np.float32(2)
            scale = odd * a / (alpha if op == "LEAKY_RELU" else np.float32(1))
            draft = Draft(
                [every_int8(float(scale), 0)],
                Quant((float(a),), (0,)),
                {"alpha": float(alpha)} if op == "LEAKY_RELU" else {},
            )
            single = finish(rng, op, draft, [ALL])
        check(single, run_time)
        (tflms,), (literts,) = (
            single.by(numerics).reference() for numerics in (Numerics.TFLM, Numerics.LITERT)
        )
        differ += not np.array_equal(tflms, literts)
    assert differ


@pytest.mark.parametrize("run_time", RUN_TIMES)
def test_softmax_of_many_rows(run_time):
    rng = generator("softmax")
    for scale, beta in ((0.03, 1.0), (0.1, 0.7), (1e-6, 1.0), (30.0, 1.0)):
        x = Tensor("x", (4000, 5), "int8", Quant((float(np.float32(scale)),), (0,)))
        draft = Draft([x], Quant((1 / 256,), (-128,)), {"beta": float(np.float32(beta))})
        check(finish(rng, "SOFTMAX", draft), run_time)


def int16(name: str, shape: tuple[int, ...], scale: float) -> Tensor:
    return Tensor(name, shape, "int16", Quant((float(np.float32(scale)),), (0,)))


@pytest.mark.parametrize("run_time", RUN_TIMES)
@pytest.mark.parametrize("op", ["MUL", "RELU", "LEAKY_RELU", "SOFTMAX"])
def test_definitions_that_differ_on_int16(op, run_time):
    """Scales divided in double or single precision, SOFTMAX's table of reciprocals the reverse."""
    rng = generator("int16", op)
    differ = 0
    for _ in range(40):
        a, b, factor = (float(2.0**x) for x in rng.uniform((-14, -14, -1), (-6, -6, 1.5)))
        shape = (300, 20)
        operands, scale = [int16("a", shape, a)], a * factor
        attrs: dict[str, Any] = {}
        match op:
            case "MUL":
                operands.append(int16("b", shape, b))
                attrs, scale = {"activation": "NONE"}, a * b * factor * 2**14
            case "LEAKY_RELU":
                attrs = {"alpha": float(np.float32(rng.uniform(0.1, 1)))}
            case "SOFTMAX":
                attrs, scale = {"beta": 1.0}, 2.0**-15
        draft = Draft(operands, int16("y", shape, scale).quant, attrs)
        values = [rng.integers(-(2**15), 2**15, shape).astype(np.int16) for _ in operands]
        if op == "SOFTMAX":
            # Near each other, or one has it all.
            values = [value // int(2 ** rng.uniform(0, 14)) for value in values]
        single = finish(rng, op, draft, values)
        check(single, run_time)
        (tflms,), (literts,) = (
            single.by(numerics).reference() for numerics in (Numerics.TFLM, Numerics.LITERT)
        )
        differ += not np.array_equal(tflms, literts)
    assert differ


@litert_ref.needs_litert_ref
def test_space_to_batch_pads_with_the_zero_point():
    x = Tensor("x", (1, 3, 5, 2), "int8", Quant((0.5,), (17,)))
    block, pads = np.array([2, 3], np.int32), np.array([[0, 1], [1, 0]], np.int32)
    ins = (x, index_tensor(block.tolist(), "block"), index_tensor(pads.tolist(), "pads"))
    node = make_node("SPACE_TO_BATCH_ND", ("x", "block", "pads"), ("y",))
    out = replace(x, name="y", shape=(6, 2, 2, 2))
    values = np.arange(30, dtype=np.int8).reshape(x.shape), block, pads
    single = SingleOp(node, ins, (out,), values)
    check(single)
    both = (Numerics.TFLM, Numerics.LITERT)
    ours, literts = (single.by(numerics).reference()[0] for numerics in both)
    np.testing.assert_array_equal(ours, literts)
    with pytest.raises(ModelError, match="never wrote, not with the zero point 17"):
        tflm.reference(single.graph(), single.tflite())


@litert_ref.needs_litert_ref
@pytest.mark.parametrize("op", ["ARG_MAX", "ARG_MIN"])
def test_positions_in_64_bits(op):
    rng = generator("positions", op)
    x = Tensor("x", (3, 7, 2), "float32")
    for axis in (0, 1, 2):
        check(finish(rng, op, Draft([x, index_tensor(axis, "axis")], attrs={"dtype": "int64"})))


@tflm.needs_tflm
@cases("op", ["REDUCE_MAX", "REDUCE_MIN", "ARG_MAX", "ARG_MIN"], first=1)
def test_the_largest_of_what_is_no_number(op):
    rng = generator("nan", op)
    x = Tensor("x", (40, 4), "float32")
    values = rng.choice(np.array([np.nan, np.inf, -np.inf, 1, 2], np.float32), x.shape)
    attrs = {"dtype": "int32"} if op.startswith("ARG") else {"keep_dims": False}
    axis = index_tensor(1, "axis")
    single = finish(rng, op, Draft([x, axis], attrs=attrs), [values, np.array(1, np.int32)])
    check(single, BOTH[0])
    (expected,) = single.reference()
    ((out,),) = kernel_runner.run(
        [
            kernel_runner.Case(
                kernel_runner.kernel_call(single.node, single.ins, single.outs),
                [values],
                [(expected.shape, expected.dtype.name)],
            )
        ]
    )
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("run_time", RUN_TIMES)
def test_mean_of_many_values(run_time):
    """Counts whose inverse takes all 32 bits of the multiplier, and sums of one sign."""
    rng = generator("mean")
    for shape, axes in (((1, 100, 90, 3), [1, 2]), ((7, 2000), [1]), ((3, 65537), -1)):
        for scale in (0.02, 0.5, 1.7):
            x = Tensor("x", shape, "int8", Quant((float(np.float32(scale)),), (-128,)))
            draft = Draft(
                [x, index_tensor(axes, "axes")], Quant((0.5,), (-128,)), {"keep_dims": False}
            )
            check(finish(rng, "MEAN", draft), run_time)


@pytest.mark.parametrize(
    "operands",
    [
        ((0, -2, 1), (3, 5, 5), (1, 2, 2)),
        ((-1, -1, -1), (-9, -9, -9), (-1, -2, -3)),
        ((-100, 100, 1), (100, -100, 2), (1, -1, 1)),
        ((2, 3), (3, -1), (1, 1)),
    ],
)
@pytest.mark.parametrize("masks", [{}, {"begin_mask": 5}, {"end_mask": 3}, {"begin_mask": 7}])
def test_slices_beyond_the_ends(operands, masks):
    begin, end, strides = operands
    x = Tensor("x", (4, 5, 6), "int32")
    ins = [x, *(index_tensor(v, n) for v, n in ((begin, "b"), (end, "e"), (strides, "s")))]
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    attrs: dict[str, Any] = {**dict.fromkeys(names, 0), **masks}
    check(finish(generator(), "STRIDED_SLICE", Draft(ins, attrs=attrs)))


def requantizing(op: str, **attrs: Any) -> SingleOp:
    """An operator whose output is quantized unlike its input, which our checks refuse."""
    node = make_node(op, ("x",), ("y",), **attrs)
    ((shape, dtype),) = OPS[op].infer(node, [every_int8(0.1, 0)])
    out = Tensor("y", shape, dtype, Quant((0.25,), (3,)))
    return SingleOp(node, (every_int8(0.1, 0),), (out,), (ALL,))


@pytest.mark.parametrize(
    "single",
    [
        requantizing("CONCATENATION", axis=0, activation="NONE"),
        requantizing("PACK", axis=0, values_count=1),
        requantizing("SOFTMAX", beta=1.0),
        requantizing("LOGISTIC"),
    ],
    ids=lambda single: single.node.op,
)
def test_the_reference_refuses_these_too(single):
    with pytest.raises(UnsupportedError):
        OPS[single.node.op].check(single.node, single.ins, single.outs)
    with pytest.raises(RuntimeError, match="failed to prepare|failed to invoke"):
        litert(single)
