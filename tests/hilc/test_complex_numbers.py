"""RFFT2D and what takes complex numbers apart, against TFLite, and compiled."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import litert_ref
import numpy as np
import pytest
from campaigns import cases
from tflite_builder import ModelBuilder

import hilc
from hilc.errors import ModelError, UnsupportedError
from hilc.frontends import load_model
from hilc.interpreter import run_all
from hilc.ir import Array

#: Of a part, by the size of the largest number of the spectrum: both are computed in double
#: precision, and rounded.
RELATIVE = 1e-7


def spectrum(shape: Sequence[int], lengths: Sequence[int], *, reshaped: bool = False) -> bytes:
    """A file with the real and the imaginary part of a spectrum, and its magnitude."""
    b = ModelBuilder()
    b.input("x", shape)
    b.const("lengths", np.array(lengths, np.int32))
    out = (*shape[:-2], lengths[0], lengths[1] // 2 + 1)
    name = b.tensor("c", out, "complex64")
    b.op("RFFT2D", ("x", "lengths"), (name,))
    if reshaped:
        out = (int(np.prod(out)), 1)
        b.const("shape", np.array(out, np.int32))
        name = b.tensor("d", out, "complex64")
        b.op("RESHAPE", ("c", "shape"), (name,), new_shape=out)
    for op in ("REAL", "IMAG", "COMPLEX_ABS"):
        b.output(op, out)
        b.op(op, (name,), (op,))
    return b.build()


def of_tflite(model: bytes, x: Array) -> dict[str, Array]:
    """The outputs of TFLite's other kernels: it has no reference kernel of RFFT2D."""
    module = importlib.import_module("ai_edge_litert.interpreter")
    kernels = module.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    runtime = module.Interpreter(model_content=model, experimental_op_resolver_type=kernels)
    runtime.allocate_tensors()
    runtime.set_tensor(runtime.get_input_details()[0]["index"], x)
    runtime.invoke()
    return {d["name"]: runtime.get_tensor(d["index"]) for d in runtime.get_output_details()}


def close(ours: Array, theirs: Array) -> None:
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, 0, RELATIVE * float(np.abs(theirs).max()))


@litert_ref.needs_litert_ref
@cases("reshaped", [False, True], first=1)
@cases(
    ("shape", "lengths"),
    [
        ((1, 64), (1, 64)),
        ((2, 3, 1, 40), (1, 64)),
        ((4, 1, 100), (1, 32)),
        ((8, 16), (8, 16)),
        ((2, 5, 3), (8, 4)),
        ((3, 7, 9), (4, 2)),
        ((16, 2), (32, 2)),
    ],
    first=2,
)
def test_spectra(shape: Sequence[int], lengths: Sequence[int], reshaped: bool) -> None:
    model = spectrum(shape, lengths, reshaped=reshaped)
    graph = load_model(model)
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    ours, theirs = run_all(graph, {"x": x}), of_tflite(model, x)
    for name, value in theirs.items():
        close(ours[name], value)
    with hilc.host.load(hilc.compile(graph)) as code:
        code.set_input("x", x)
        code.run()
        for name in graph.outputs:
            close(code.get_output(name), ours[name])


def other(op: str, dtype: str = "complex64") -> bytes:
    b = ModelBuilder()
    b.input("x", (4, 8))
    b.const("lengths", np.array([4, 8], np.int32))
    b.tensor("c", (4, 5), "complex64")
    b.op("RFFT2D", ("x", "lengths"), ("c",))
    b.output("y", (4, 5), dtype)
    b.op(op, ("c",), ("y",))
    return b.build()


@pytest.mark.parametrize(
    ("model", "error", "fact"),
    [
        (other("NEG", "float32"), UnsupportedError, "operator 1 .NEG.: it takes or gives complex"),
        (other("REAL"), UnsupportedError, "'y' is an input or an output, and complex"),
        (spectrum((4, 6), (4, 6)), ModelError, r"transforms \[4, 6\].*powers of two"),
        (spectrum((4, 1), (4, 1)), ModelError, "rows of 1"),
    ],
)
def test_refusals(model: bytes, error: type[ModelError], fact: str) -> None:
    with pytest.raises(error, match=fact):
        load_model(model)
