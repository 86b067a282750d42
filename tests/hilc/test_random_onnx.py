"""Random ONNX models equal ``onnx.reference``; ``measure.py random_models`` runs a thousand."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from campaigns import cases
from onnx import helper
from onnx_graphs import Draft, NotDrawnError, computed, mismatches, random_model

from hilc.ir import Array
from hilc.onnx_backend import run_model

random_models: Any = importlib.import_module("random_models")


@pytest.mark.full
def test_code_and_interpreter_equal_the_reference() -> None:
    campaign = random_models.Campaign(random_models.of_onnx)
    campaign.run(range(5000, 5012))
    assert campaign.wrong == []
    assert campaign.equal + sum(campaign.refused.values()) == 12
    assert campaign.equal > 6


def test_a_seed_makes_the_same_model_again() -> None:
    first, second = random_model(11), random_model(11)
    assert first.model == second.model
    assert all(np.array_equal(first.inputs[name], second.inputs[name]) for name in first.inputs)


def test_a_wrong_output_is_told() -> None:
    drawn = random_model(11)
    assert mismatches(drawn, drawn.expected) == []
    name, value = next((n, v) for n, v in drawn.expected.items() if v.dtype.kind == "f")
    told = mismatches(drawn, {**drawn.expected, name: value + 1})
    assert len(told) == 1
    assert told[0].startswith(f"{name} (")
    assert "is int32" in mismatches(drawn, {**drawn.expected, name: value.astype(np.int32)})[0]


def test_uncomputable_models_are_drawn_again() -> None:
    draft = Draft(np.random.default_rng(0), 9)
    with pytest.raises(NotDrawnError, match="newer than opset 9"):
        draft.node("Gelu", [draft.leaf("float32", (2,))])
    with pytest.raises(NotDrawnError, match="does not take"):
        draft.node("Sin", [draft.leaf("int32", (2,))])


def shape(*sizes: int, dtype: str = "float32") -> Array:
    return (np.arange(np.prod(sizes)) % 23 / 8).astype(dtype).reshape(sizes)


FOUND: Mapping[str, tuple[int, str, list[Array], dict[str, Any]]] = {
    "a large integer shifted": (
        11,
        "BitShift",
        [np.array([2**64 - 3, 5], np.uint64), np.array([3, 1], np.uint64)],
        {"direction": "RIGHT"},
    ),
    "a function that a later opset defines": (9, "Softsign", [shape(3, 2)], {}),
    "with operators that a later opset has": (7, "Softplus", [shape(3, 2)], {}),
    "before it was a function": (11, "DepthToSpace", [shape(1, 8, 2, 3)], {"blocksize": 2}),
    "with columns first": (
        13,
        "DepthToSpace",
        [shape(1, 8, 2, 3)],
        {"blocksize": 2, "mode": "CRD"},
    ),
    "the other way": (7, "SpaceToDepth", [shape(2, 3, 4, 2)], {"blocksize": 2}),
    "large exponents": (12, "ReduceLogSumExp", [shape(3, 4) * 60], {"axes": [1], "keepdims": 0}),
    "a scalar": (12, "Celu", [np.array(-1.5, np.float32)], {"alpha": 2.0}),
    "many axes": (
        13,
        "Slice",
        [shape(2, 1, 3, 2, 1, 3), *(np.array([n]) for n in (2, -9, 2, -1))],
        {},
    ),
    "a grid of one image": (
        20,
        "AffineGrid",
        [shape(1, 2, 3), np.array([1, 2, 3, 4])],
        {"align_corners": 1},
    ),
    "a grid of one pixel": (20, "AffineGrid", [shape(1, 2, 3), np.array([1, 1, 1, 1])], {}),
    "grids of three axes": (20, "AffineGrid", [shape(2, 3, 4), np.array([2, 1, 2, 3, 4])], {}),
    "wide integers without sign": (13, "Cast", [shape(9, dtype="uint16")], {"to": 13}),
    "floats to the widest": (13, "Cast", [np.array([3.7, 2.0**63, 0.0], "f")], {"to": 13}),
    "places of integers": (
        12,
        "MaxPool",
        [shape(1, 1, 5, 4, dtype="uint8")],
        {"kernel_shape": [2, 2]},
    ),
}


@cases("device", ["CPU", "CPU:C"], first=1)
@pytest.mark.parametrize("name", FOUND)
def test_what_random_models_found(name: str, device: str) -> None:
    opset, op, values, attributes = FOUND[name]
    names = [f"x{i}" for i in range(len(values))]
    node = helper.make_node(op, names, ["y"], **attributes)
    (expected,) = computed([node], dict(zip(names, values, strict=True)), ["y"], opset)

    def declared(name: str, value: Array) -> onnx.ValueInfoProto:
        code = helper.np_dtype_to_tensor_dtype(value.dtype)
        return helper.make_tensor_value_info(name, code, value.shape)

    inputs = [declared(*pair) for pair in zip(names, values, strict=True)]
    graph = helper.make_graph([node], "g", inputs, [declared("y", expected)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    (found,) = run_model(model, values, device)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
