"""Operators of ONNX's domains for classical machine learning and for training, and rare others:
interpreter and C against ONNX's own reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from campaigns import cases
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from hilc.errors import HilError, UnsupportedError
from hilc.frontends import LoadedModel, read_model
from hilc.interpreter import Interpreter
from hilc.ir import Array, ClassLabels
from hilc.onnx_backend import prepare

ML = "ai.onnx.ml"


def model(
    op: str,
    inputs: Sequence[Array],
    outputs: int = 1,
    domain: str = ML,
    version: int = 3,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node."""
    names = [f"i{i}" for i in range(len(inputs))]
    results = [f"o{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, domain=domain, **attributes)
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in zip(names, inputs, strict=True)
    ]
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.UNDEFINED, None) for name in results
    ]
    imports = [helper.make_opsetid(domain, version), helper.make_opsetid("", 20)]
    made = helper.make_model(
        helper.make_graph([node], "g", values, ends), opset_imports=imports[: 2 if domain else 1]
    )
    made = onnx.shape_inference.infer_shapes(made)
    for value in made.graph.output:
        # What inference does not know of this domain are matrices here.
        if not value.type.tensor_type.HasField("shape"):
            value.type.tensor_type.shape.dim.extend(onnx.TensorShapeProto.Dimension() for _ in "NC")
    return made


def check(made: onnx.ModelProto, inputs: Sequence[Array], expected: Sequence[Any]) -> None:
    """Hold the interpreter and C to what is expected."""
    for device in ("CPU", "CPU:C"):
        results = prepare(made, device).run(list(inputs))
        for result, wanted in zip(results, expected, strict=True):
            assert result.shape == wanted.shape
            assert result.dtype == wanted.dtype
            np.testing.assert_allclose(result, wanted, rtol=2e-6, atol=1e-6)


def same(op: str, inputs: Sequence[Array], outputs: int = 1, **attributes: Any) -> None:
    made = model(op, inputs, outputs, **attributes)
    names = (value.name for value in made.graph.input)
    expected = ReferenceEvaluator(made).run(None, dict(zip(names, inputs, strict=True)))
    check(made, inputs, [np.asarray(value) for value in expected])


def rows(*shape: int, seed: int = 3) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


CASES: Mapping[str, tuple[str, list[Array], int, dict[str, Any]]] = {
    "scaler": ("Scaler", [rows(3, 4)], 1, {"offset": [1.0, 2, 3, 4], "scale": [0.5, 2, 1, 3]}),
    "normalizer_l1": ("Normalizer", [rows(3, 4)], 1, {"norm": "L1"}),
    "normalizer_l2": ("Normalizer", [rows(3, 4)], 1, {"norm": "L2"}),
    "binarizer": ("Binarizer", [rows(3, 4)], 1, {"threshold": 0.25}),
    "imputer": (
        "Imputer", [np.array([[1, 7, 3], [7, 5, 7]], np.float32)], 1,
        {"imputed_value_floats": [-1.0, -2, -3], "replaced_value_float": 7.0},
    ),
    "imputer_nan": (
        "Imputer", [np.array([[1, np.nan], [np.nan, 5]], np.float32)], 1,
        {"imputed_value_floats": [9.0], "replaced_value_float": float("nan")},
    ),
    "one_hot": (
        "OneHotEncoder", [np.array([[3], [1], [8]], np.int64)], 1,
        {"cats_int64s": [1, 2, 3], "zeros": 1},
    ),
    "labels": (
        "LabelEncoder", [np.array([[3, 1], [8, 2]], np.int64)], 1,
        {"keys_int64s": [1, 2, 3], "values_floats": [0.5, 1.5, 2.5], "default_float": -7.0},
    ),
    "labels_of_floats": (
        "LabelEncoder", [np.array([0.5, 4, 1.5], np.float32)], 1,
        {"keys_floats": [0.5, 1.5], "values_int64s": [1 << 40, -5], "default_int64": 3},
    ),
    "linear_regressor": (
        "LinearRegressor", [rows(3, 4)], 1,
        {"coefficients": rows(8).tolist(), "intercepts": [0.5, -1], "targets": 2,
         "post_transform": "NONE"},
    ),
    "linear_classifier": (
        "LinearClassifier", [rows(5, 4)], 2,
        {"coefficients": rows(12).tolist(), "intercepts": [0.5, -1, 0], "post_transform": "SOFTMAX",
         "classlabels_ints": [7, 3, 5]},
    ),
    "linear_classifier_of_two": (
        "LinearClassifier", [rows(5, 4)], 2,
        {"coefficients": rows(4).tolist(), "intercepts": [0.5], "post_transform": "LOGISTIC",
         "classlabels_ints": [4, 9]},
    ),
}  # fmt: skip


@cases("name", CASES, first=3)
def test_an_operator_equals_the_reference(name: str) -> None:
    op, inputs, outputs, attributes = CASES[name]
    same(op, inputs, outputs, **attributes)


def test_determinants_of_three_rows_are_expanded() -> None:
    x = rows(2, 3, 3)
    check(model("Det", [x], domain="", version=11), [x], [np.linalg.det(x).astype(np.float32)])


REFUSED: Mapping[str, tuple[str, list[Array], dict[str, Any], str]] = {
    "NonMaxSuppression": (
        "NonMaxSuppression", [rows(1, 6, 4), rows(1, 1, 6)], {"domain": "", "version": 11},
        "only known at run time",
    ),
    "Det": ("Det", [rows(4, 4)], {"domain": "", "version": 11}, "up to 3 rows"),
    "max": ("Normalizer", [rows(3, 4)], {"norm": "MAX"}, "L1 or L2"),
    "probit": (
        "LinearRegressor", [rows(3, 4)],
        {"coefficients": [1.0, 2, 3, 4], "targets": 1, "post_transform": "PROBIT"}, "PROBIT",
    ),
    "texts": (
        "LabelEncoder", [np.array([1], np.int64)],
        {"keys_int64s": [1], "values_strings": ["a"]}, "texts",
    ),
    "zeros": (
        "OneHotEncoder", [np.array([1], np.int64)], {"cats_int64s": [1], "zeros": 0}, "zeros=1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_exact_is_refused(name: str) -> None:
    op, inputs, attributes, said = REFUSED[name]
    with pytest.raises(UnsupportedError) as refusal:
        prepare(model(op, inputs, **attributes)).run(inputs)
    assert said in f"{refusal.value.fact}: {refusal.value.hint}"


def test_an_old_format_takes_a_stated_constant() -> None:
    x, columns = rows(2, 5), np.array([3, 0], np.int64)
    made = model("ArrayFeatureExtractor", [x, columns], version=1)
    made.ir_version = 3
    check(made, [x, columns], [x[:, [3, 0]]])


def test_columns_beyond_the_features_are_invalid() -> None:
    x, columns = rows(2, 5), np.array([5], np.int64)
    with pytest.raises(HilError, match="element 5 of an axis that has 5"):
        prepare(model("ArrayFeatureExtractor", [x, columns], version=1)).run([x, columns])


# Labels that are texts -----------------------------------------------------------------------


def read(made: onnx.ModelProto) -> LoadedModel:
    return read_model(made.SerializeToString(), "model")


def texts(op: str, x: Array, **attributes: Any) -> onnx.ModelProto:
    """A model of one node whose output is a text."""
    made = model(op, [x], **attributes)
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.STRING
    return made


def test_an_encoder_to_texts_gives_numbers() -> None:
    x = np.array([7, 3, 9, 4], np.int64)
    made = texts(
        "LabelEncoder", x, keys_int64s=[3, 7, 9], values_strings=["b", "a", "b"], default_string="a"
    )
    loaded = read(made)
    (found,) = Interpreter(loaded.graph).run({"i0": x}).values()
    assert found.tolist() == [1, 0, 0, 1]
    assert loaded.class_labels == (ClassLabels("o0", ("b", "a")),)


def test_a_default_that_is_no_class() -> None:
    x = np.array([7, 5], np.int64)
    made = texts("LabelEncoder", x, keys_int64s=[7], values_strings=["a"], default_string="other")
    (found,) = Interpreter(read(made).graph).run({"i0": x}).values()
    assert found.tolist() == [0, -1]


def test_an_input_of_texts_is_refused() -> None:
    made = texts("LabelEncoder", np.array([1], np.int64), keys_strings=["a"], values_strings=["b"])
    made.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    with pytest.raises(UnsupportedError, match="input 'i0' holds strings"):
        read(made)


METADATA = {"no JSON": "{", "a list": "[1]", "numbers": '{"o0": [1]}', "no output": '{"q": ["a"]}'}


@pytest.mark.parametrize("value", METADATA.values(), ids=METADATA)
def test_metadata_that_states_no_classes(value: str) -> None:
    made = model("Binarizer", [rows(2, 3)], threshold=0.5)
    made.metadata_props.append(onnx.StringStringEntryProto(key="hil.class_labels", value=value))
    assert read(made).class_labels == ()
