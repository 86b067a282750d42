"""Functions and lookups that random operators do not show.

Some are in releases of TFLite alone that no test can run: by digests of their results for every
number from zero on (SQRT), and for every number (GELU), as TensorFlow 2.21 computes them with its
reference kernels.
"""

from __future__ import annotations

import zlib

import numpy as np
import pytest
import tflm
from campaigns import cases
from nodes import make_node
from single_op import SingleOp
from tflite_builder import ModelBuilder

import hilc
from hilc.errors import UnsupportedError
from hilc.frontends import load_model
from hilc.interpreter import run_all
from hilc.ir import Quant, Tensor
from hilc.ops import OPS

#: Scales and zero points of the input and of the output, and the digest.
SQRT = (
    (0.02, -128, 0.03, -128, 2834343070),
    (0.5, -100, 0.1, -128, 1019109914),
    (0.001, 0, 0.004, -60, 384655822),
    (3.0, 17, 0.2, 5, 1558240395),
    (0.1, -128, 0.0003, -128, 3682667807),
    (1 / 256, -128, 1 / 256, -128, 3526034765),
)
#: Scales of the input and of the output, whether it is approximate, and the digest.
GELU = (
    (0.001, 0.0005, False, 4170505337),
    (0.001, 0.0005, True, 2742266618),
    (2.0**-12, 2.0**-12, False, 1877330800),
    (2.0**-12, 2.0**-12, True, 3305749686),
    (0.0003, 0.0001, False, 1699195936),
    (0.0003, 0.0001, True, 1576385215),
)


def digest(op: str, ins: Quant, outs: Quant, first: int, dtype: str, **attrs: bool) -> int:
    """The results for every number from ``first`` on."""
    values = np.arange(first, np.iinfo(dtype).max + 1).astype(dtype)
    x, y = (Tensor(name, values.shape, dtype, q) for name, q in (("x", ins), ("y", outs)))
    node = make_node(op, ("x",), ("y",), **attrs)
    OPS[op].check(node, [x], [y])
    (result,) = OPS[op].reference(node, [x], [y], [values])
    return zlib.crc32(result.tobytes())


def quant(scale: float, zero_point: int = 0) -> Quant:
    return Quant((float(np.float32(scale)),), (zero_point,))


@pytest.mark.parametrize(("in_scale", "first", "out_scale", "zero_point", "expected"), SQRT)
def test_square_roots(
    in_scale: float, first: int, out_scale: float, zero_point: int, expected: int
) -> None:
    scales = quant(in_scale, first), quant(out_scale, zero_point)
    assert digest("SQRT", *scales, first, "int8") == expected


@pytest.mark.parametrize(("in_scale", "out_scale", "approximate", "expected"), GELU)
def test_gelu_of_16_bits(
    in_scale: float, out_scale: float, approximate: bool, expected: int
) -> None:
    scales = quant(in_scale), quant(out_scale)
    found = digest("GELU", *scales, -(1 << 15), "int16", approximate=approximate)
    assert found == expected


@tflm.needs_tflm
@cases(
    ("in_scale", "out_scale"),
    [(5.8e-5, 8.75e-5), (1.143e-5, 7.35e-5), (1e-7, 1e-4), (1e-8, 1e-5)],
    first=1,
)
def test_inverse_roots_of_fine_scales(in_scale: float, out_scale: float) -> None:
    """Of variances: raised by more than the 20 bits by which they are brought back otherwise."""
    values = np.array([0, 1, 2, 3, 40, 999, 12345, 32767], np.int16)
    x, y = (
        Tensor(name, values.shape, "int16", q)
        for name, q in (("x", quant(in_scale)), ("y", quant(out_scale)))
    )
    single = SingleOp(make_node("RSQRT", ("x",), ("y",)), (x,), (y,), (values,))
    OPS["RSQRT"].check(single.node, [x], [y])
    expected = tflm.run(single.tflite(), {"x": values})["y"]
    np.testing.assert_array_equal(single.reference()[0], expected)
    with hilc.host.load(hilc.compile(single.graph())) as code:
        code.set_input("x", values)
        code.run()
        np.testing.assert_array_equal(code.get_output("y"), expected)


def embedding(scales: tuple[float, ...], zero_point: int = 0) -> bytes:
    b = ModelBuilder()
    b.input("i", (5,), "int32")
    table = np.arange(-6, 6).astype(np.int8).reshape(4, 3)
    b.const("w", table, scales, zero_point)
    b.output("y", (5, 3), "float32")
    b.op("EMBEDDING_LOOKUP", ("i", "w"), ("y",))
    return b.build()


@tflm.needs_tflm
def test_rows_of_bytes_as_floats() -> None:
    model, given = embedding((0.3,)), {"i": np.array([0, 3, 1, 1, 2], np.int32)}
    expected = tflm.run(model, given)["y"]
    np.testing.assert_array_equal(run_all(load_model(model), given)["y"], expected)
    reference = tflm.reference(load_model(model), model)
    np.testing.assert_array_equal(reference.run_all(given)["y"], expected)


@pytest.mark.parametrize(("scales", "zero_point"), [((0.3,), 2), ((0.1, 0.2, 0.3, 0.4), 0)])
def test_rows_of_other_bytes_are_refused(scales: tuple[float, ...], zero_point: int) -> None:
    with pytest.raises(UnsupportedError, match="float32 of a table with one scale and the zero"):
        load_model(embedding(scales, zero_point))
