"""Forests, boosted trees and support vector machines of ONNX, as scikit-learn exports them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from campaigns import cases
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from hilc.errors import ModelError
from hilc.ir import Array
from hilc.onnx_backend import prepare

ML = "ai.onnx.ml"
MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")
#: What features and thresholds are drawn from, so that they are often equal.
NUMBERS = np.array(
    [-np.inf, -1.5, -1e-45, -0.0, 0.0, 1e-45, 0.25, 1.5, 3e38, np.inf, np.nan], np.float32
)


def model(op: str, x: Array, outputs: Sequence[Any], version: int, **attributes: Any) -> bytes:
    """A model of one node; ``outputs`` are types and shapes."""
    names = [f"y{i}" for i in range(len(outputs))]
    stated = {name: value for name, value in attributes.items() if value is not None}
    node = helper.make_node(op, ["x"], names, domain=ML, **stated)
    values = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)]
    ends = [helper.make_tensor_value_info(n, *out) for n, out in zip(names, outputs, strict=True)]
    imports = [helper.make_opsetid(ML, version), helper.make_opsetid("", 18)]
    graph = helper.make_graph([node], "g", values, ends)
    data: bytes = helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString()
    return data


def same(data: bytes, x: Array) -> None:
    """Hold the interpreter and C to ONNX's reference; labels exactly."""
    made = onnx.load_from_string(data)
    expected = ReferenceEvaluator(made).run(None, {"x": x})
    for device in ("CPU", "CPU:C"):
        for ours, theirs in zip(prepare(made, device).run([x]), expected, strict=True):
            theirs = np.asarray(theirs).reshape(ours.shape)
            if theirs.dtype.kind == "f":
                np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_array_equal(ours, theirs)


class Forest:
    """Random trees as attributes of the old operators."""

    def __init__(self, seed: int, features: int, modes: Sequence[str], targets: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.features, self.modes, self.targets = features, modes, targets
        self.nodes: dict[str, list[Any]] = {
            name: []
            for name in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids",
                         "falsenodeids", "missing_value_tracks_true")
        }  # fmt: skip
        self.leaves: dict[str, list[Any]] = {
            name: [] for name in ("treeids", "nodeids", "ids", "weights")
        }
        for tree in range(4):
            self.count = 0
            self._node(tree, 4)

    def _node(self, tree: int, depth: int) -> int:
        rng, number = self.rng, self.count
        self.count += 1
        place = len(self.nodes["modes"])
        is_leaf = depth == 0 or rng.random() < 0.2
        row = {
            "treeids": tree,
            "nodeids": number,
            "featureids": 0 if is_leaf else int(rng.integers(self.features)),
            "modes": "LEAF" if is_leaf else f"BRANCH_{rng.choice(self.modes)}",
            "values": 0.0 if is_leaf else float(rng.choice(NUMBERS[:-1])),
            "truenodeids": 0,
            "falsenodeids": 0,
            "missing_value_tracks_true": int(rng.integers(2)),
        }
        for name, value in row.items():
            self.nodes[name].append(value)
        if is_leaf:
            for target in range(self.targets) if rng.random() < 0.5 else [0]:
                weight = float(np.float32(rng.uniform(0, 1))) * (rng.random() < 0.9)
                entry = {"treeids": tree, "nodeids": number, "ids": target, "weights": weight}
                for name, value in entry.items():
                    self.leaves[name].append(value)
        else:
            for side in ("truenodeids", "falsenodeids"):
                self.nodes[side][place] = self._node(tree, depth - 1)
        return number

    def attributes(self, kind: str) -> dict[str, Any]:
        return {
            **{f"nodes_{name}": value for name, value in self.nodes.items()},
            **{f"{kind}_{name}": value for name, value in self.leaves.items()},
        }

    def rows(self, count: int = 40) -> Array:
        return self.rng.choice(NUMBERS, size=(count, self.features))


FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


@cases("mode", MODES, first=2)
def test_each_comparison(mode: str) -> None:
    forest = Forest(MODES.index(mode), 3, [mode], 2)
    x = forest.rows()
    for aggregate, base in (("SUM", [0.5, -2.0]), ("AVERAGE", None)):
        attributes = forest.attributes("target")
        same(model("TreeEnsembleRegressor", x, [(FLOAT, (40, 2))], 3, n_targets=2,
                   aggregate_function=aggregate, base_values=base, **attributes), x)  # fmt: skip


@cases("transform", ["NONE", "LOGISTIC", "SOFTMAX"], first=1)
def test_classifiers(transform: str) -> None:
    forest = Forest(7, 4, MODES, 3)
    x = forest.rows()
    same(model("TreeEnsembleClassifier", x, [(INT64, (40,)), (FLOAT, (40, 3))], 3,
               classlabels_int64s=[5, -1, 9], base_values=[0.5, 0.25, 0.5],
               post_transform=transform, **forest.attributes("class")), x)  # fmt: skip


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
def test_one_score_of_two_classes(transform: str) -> None:
    forest = Forest(8, 4, MODES, 1)
    x = forest.rows()
    same(model("TreeEnsembleClassifier", x, [(INT64, (40,)), (FLOAT, (40, 2))], 3,
               classlabels_int64s=[3, 4], base_values=[-0.75], post_transform=transform,
               **forest.attributes("class")), x)  # fmt: skip


def ensemble(x: Array, modes: Sequence[int], members: Sequence[float] = ()) -> bytes:
    """A tree whose branches are one below the other, in the form of version 5."""
    count = len(modes)
    rng = np.random.default_rng(3)
    tensors = {
        "nodes_splits": rng.choice(NUMBERS[1:-2], count).astype(np.float32),
        "nodes_modes": np.array(modes, np.uint8),
        "leaf_weights": np.arange(count + 1, dtype=np.float32) + 0.5,
    }
    if members:
        tensors["membership_values"] = np.array(members, np.float32)
    falls = [*range(1, count), count]
    return model(
        "TreeEnsemble", x, [(FLOAT, (len(x), 2))], 5, n_targets=2, aggregate_function=1,
        tree_roots=[0], nodes_featureids=[i % x.shape[1] for i in range(count)],
        nodes_truenodeids=list(range(count)), nodes_trueleafs=[1] * count,
        nodes_falsenodeids=falls, nodes_falseleafs=[0] * (count - 1) + [1],
        nodes_missing_value_tracks_true=[i % 2 for i in range(count)],
        leaf_targetids=[i % 2 for i in range(count + 1)],
        **{name: numpy_helper.from_array(value, name) for name, value in tensors.items()},
    )  # fmt: skip


def test_the_form_of_version_5() -> None:
    x = np.random.default_rng(4).choice(NUMBERS, size=(60, 3))
    same(ensemble(x, [0, 1, 2, 3, 4, 5, 0]), x)
    # The reference takes a member 0 for the end of a set.
    members = [0.25, 1.5, 3e38, float("nan"), -1.5, float("nan")]
    same(ensemble(x, [0, 6, 4, 6, 1], members), x)


def test_what_is_no_tree_is_refused() -> None:
    forest = Forest(2, 3, ["LEQ"], 1)
    x, attributes = forest.rows(), forest.attributes("target")

    def refusal(**changed: Any) -> str:
        made = model("TreeEnsembleRegressor", x, [(FLOAT, (40, 1))], 3, n_targets=1,
                     **{**attributes, **changed})  # fmt: skip
        with pytest.raises(ModelError) as refused:
            prepare(onnx.load_from_string(made), "CPU").run([x])
        return refused.value.fact

    count = len(attributes["nodes_modes"])
    assert "reached twice" in refusal(nodes_truenodeids=[0] * count)
    assert "missing" in refusal(nodes_truenodeids=[999] * count)
    assert "feature 3 of 3" in refusal(nodes_featureids=[3] * count)
    assert "nodes_values for" in refusal(nodes_values=[0.5])
    assert "compares with [nan]" in refusal(nodes_values=[float("nan")] * count)
    assert "has the mode 'X'" in refusal(nodes_modes=["X"] * count)
    assert "of 1" in refusal(target_ids=[7] * len(attributes["target_ids"]))
    assert "aggregates by MAX" in refusal(aggregate_function="MAX")


# Support vectors ----------------------------------------------------------------------------------


@cases("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"], first=1)
@pytest.mark.parametrize("one_class", [0, 1])
def test_support_vector_regression(kernel: str, one_class: int) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(12, 4)).astype(np.float32)
    same(model("SVMRegressor", x, [(FLOAT, (12, 1))], 3, n_supports=7, kernel_type=kernel,
               support_vectors=rng.normal(size=28).tolist(),
               coefficients=rng.normal(size=7).tolist(),
               kernel_params=[0.25, 0.5, 3.0], rho=[-0.125], one_class=one_class), x)  # fmt: skip


@cases("counts", [[3, 4], [2, 3, 1, 4]], first=1)
def test_support_vector_classification(counts: list[int]) -> None:
    rng = np.random.default_rng(6)
    classes, total = len(counts), sum(counts)
    pairs = classes * (classes - 1) // 2
    x = rng.normal(size=(30, 3)).astype(np.float32)
    scores = 2 if classes == 2 else pairs
    same(model("SVMClassifier", x, [(INT64, (30,)), (FLOAT, (30, scores))], 3,
               vectors_per_class=counts, kernel_type="RBF", kernel_params=[0.5, 0.0, 3.0],
               support_vectors=rng.normal(size=3 * total).tolist(),
               coefficients=rng.normal(size=(classes - 1) * total).tolist(),
               rho=rng.normal(size=pairs).tolist(),
               classlabels_ints=[7, 3, 9, 1][:classes]), x)  # fmt: skip


def test_columns_may_be_known_at_run_time_only() -> None:
    x = np.array([[2, 0, 1]], np.int64)
    labels = numpy_helper.from_array(np.array([[10, 20, 30]], np.int64), "labels")
    nodes = [
        helper.make_node("ArgMax", ["x"], ["best"], axis=1),
        helper.make_node("ArrayFeatureExtractor", ["labels", "best"], ["y0"], domain=ML),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", INT64, (1, 3))],
        [helper.make_tensor_value_info("y0", INT64, (1, 1))], [labels],
    )  # fmt: skip
    imports = [helper.make_opsetid(ML, 3), helper.make_opsetid("", 18)]
    same(helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString(), x)
