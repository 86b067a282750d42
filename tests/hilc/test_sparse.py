"""Sparse constants of TFLite files, expanded as TFLite's DENSIFY does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import litert_ref
import numpy as np
import pytest
from tflite_builder import ModelBuilder, Sparsity

from hilc.errors import ModelError
from hilc.frontends import load_model
from hilc.interpreter import run
from hilc.ir import Array


def numbers(*values: int, dtype: str = "int32") -> Array:
    return np.array(values, dtype)


#: Rows of a 4 x 6 matrix, of which the second has no entry.
ROWS = Sparsity((0, 1), (), (4, (numbers(0, 2, 2, 5, 6), numbers(1, 4, 0, 3, 5, 2, dtype="uint8"))))
#: The same by columns, which are the outer axis.
COLUMNS = Sparsity(
    (1, 0),
    (),
    (6, (numbers(0, 1, 2, 3, 4, 5, 6, dtype="uint8"), numbers(2, 0, 3, 2, 0, 2, dtype="uint16"))),
)
#: Blocks of 2 x 2, two of them in the second row of blocks.
BLOCKS = Sparsity(
    (0, 1, 2, 3), (0, 1), (2, (numbers(0, 0, 2), numbers(0, 2, dtype="uint16")), 2, 2)
)
#: Blocks of 1 x 3 along the second axis alone.
STRIPES = Sparsity((0, 1, 2), (1,), (4, (numbers(0, 1, 1, 2, 3), numbers(0, 1, 0)), 3))
KINDS = {"rows": (ROWS, 6), "columns": (COLUMNS, 6), "blocks": (BLOCKS, 8), "stripes": (STRIPES, 9)}


def file(sparsity: Sparsity, count: int, dtype: str = "int8") -> bytes:
    """Return a sum of an input and a sparse matrix of ``count`` stored values."""
    quant = (0.5, 0) if dtype == "int8" else ()
    b = ModelBuilder()
    b.input("x", (4, 6), dtype, *quant)
    values = np.arange(1, count + 1).astype(dtype)
    b.tensor("stored", (4, 6), dtype, *quant, data=values, sparsity=sparsity)
    b.tensor("dense", (4, 6), dtype, *quant)
    b.output("y", (4, 6), dtype, *quant)
    b.op("DENSIFY", ("stored",), ("dense",))
    b.op("ADD", ("x", "dense"), ("y",))
    return b.build()


@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize("kind", KINDS)
@litert_ref.needs_litert_ref
def test_equal_to_tflite(kind: str, dtype: str) -> None:
    data = file(*KINDS[kind], dtype)
    graph = load_model(data)
    assert [node.op for node in graph.nodes] == ["ADD"]
    x = {"x": np.arange(24).reshape(4, 6).astype(dtype)}
    expected = litert_ref.reference(graph, data).run_all(x)["y"]
    np.testing.assert_array_equal(run(graph, x)["y"], expected)


def test_weights_that_no_operator_expands() -> None:
    """Which TFLite computes by sparse kernels, to the same results."""
    b = ModelBuilder()
    b.input("x", (1, 6))
    b.tensor("w", (4, 6), data=np.arange(1, 7, dtype=np.float32), sparsity=ROWS)
    b.output("y", (1, 4))
    b.op("FULLY_CONNECTED", ("x", "w", ""), ("y",))
    x = np.arange(6, dtype=np.float32)[np.newaxis]
    rows = np.zeros((4, 6), np.float32)
    rows[[0, 0, 2, 2, 2, 3], [1, 4, 0, 3, 5, 2]] = range(1, 7)
    found = run(load_model(b.build()), {"x": x})["y"]
    np.testing.assert_array_equal(found, x @ rows.T)


SEGMENTS, INDICES = numbers(0, 2, 2, 5, 6), numbers(1, 4, 0, 3, 5, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"order": (0, 0)}, "the axes"),
        ({"order": (0,)}, "the axes"),
        ({"blocks": (7,)}, "the axes"),
        ({"axes": (4,)}, "the axes"),
        ({"axes": (5, (SEGMENTS, INDICES))}, "5 segments of its axis 1"),
        ({"axes": (1 << 30, (SEGMENTS, INDICES))}, "1073741824 entries"),
        ({"axes": (4, (SEGMENTS[::-1].copy(), INDICES))}, "segments"),
        ({"axes": (4, (SEGMENTS * 9, INDICES))}, "indices"),
        ({"axes": (4, (SEGMENTS + 3, INDICES))}, "indices"),
        ({"axes": (4, (SEGMENTS, INDICES + 2))}, "outside of its shape"),
        ({"axes": (4, (SEGMENTS - 3, INDICES))}, "segments"),
        ({"axes": (4, (SEGMENTS, INDICES - 2))}, "outside of its shape"),
    ],
)
def test_damaged_descriptions_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_model(file(replace(ROWS, **changes), 6))


def test_values_that_are_missing() -> None:
    with pytest.raises(ModelError, match="5 values, and number 5 is used"):
        load_model(file(ROWS, 5))
