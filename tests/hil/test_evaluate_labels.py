"""Evaluation of classifiers that give the number of a class, as those of scikit-learn do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import answers
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import hil
from hil.cli import main
from hil.errors import InputError
from hilc.ir import Array

_RNG = np.random.default_rng(4)
CLASSES, FEATURES, SAMPLES = 4, 5, 40
WEIGHTS = _RNG.normal(size=(FEATURES, CLASSES)).astype(np.float32)
X = _RNG.normal(size=(SAMPLES, FEATURES)).astype(np.float32)
PREDICTED = (X @ WEIGHTS).argmax(1)
#: Every fifth label is another one.
LABELS = np.where(np.arange(SAMPLES) % 5, PREDICTED, (PREDICTED + 1) % CLASSES)


@pytest.fixture(scope="module")
def classifier() -> bytes:
    """Return a linear classifier: the label, then the scores, as skl2onnx writes them."""
    make = helper.make_node
    nodes = [
        make("MatMul", ["x", "w"], ["scores"]),
        make("Softmax", ["scores"], ["probabilities"]),
        make("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, FEATURES))],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, (1,)),
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, (1, CLASSES)),
        ],
        [numpy_helper.from_array(WEIGHTS, "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data: bytes = made.SerializeToString()
    return data


@pytest.fixture
def words(classifier: bytes, tmp_path: Path) -> list[str]:
    (tmp_path / "net.onnx").write_bytes(classifier)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "labels.npy", LABELS)
    return ["evaluate", str(tmp_path / "net.onnx"), "--board", "native", "--data",
            str(tmp_path / "x.npy"), "--labels", str(tmp_path / "labels.npy")]  # fmt: skip


def _matrix(labels: Array, predicted: Array) -> Array:
    found = np.zeros((CLASSES, CLASSES), int)
    np.add.at(found, (labels, predicted), 1)
    return found


def test_a_label(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--metric", "accuracy", "--metric", "f1", "--json"]) == 0
    entry = answers.entry(capsys.readouterr().out)
    accuracy, _ = entry["metrics"]
    assert accuracy["device"]["value"] == pytest.approx(0.8)
    assert accuracy["reference"]["value"] == pytest.approx(0.8)
    assert entry["confusion"] == _matrix(LABELS, PREDICTED).tolist()
    assert entry["mismatches"] == 0


def test_an_output_by_name(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    named = ["--output-tensor", "probabilities", "--metric", "top2", "--json"]
    assert main([*words, *named]) == 0
    (top,) = answers.entry(capsys.readouterr().out)["metrics"]
    order = np.argsort(-(X @ WEIGHTS), axis=1)[:, :2]
    assert top["device"]["value"] == pytest.approx((order == LABELS[:, None]).any(1).mean())


@pytest.mark.parametrize(
    ("output", "other"), [("label", "probabilities"), ("probabilities", "label")]
)
def test_the_evaluated_output_is_named(
    output: str, other: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--output-tensor", output]) == 0
    said = f"only the output {output} is evaluated and compared, not {other}"
    assert said in capsys.readouterr().out


def test_a_class_that_no_label_names(classifier: bytes) -> None:
    few = np.where(PREDICTED == CLASSES - 1, 0, PREDICTED)
    report = hil.evaluate(classifier, X, few, board="native", name="net")
    assert report["accuracy"].device.value == pytest.approx((few == PREDICTED).mean())


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--metric", "top2"], "top2 compares scores, and the output 'label' is the number of a"),
        (["--output-tensor", "scores"], "has no output 'scores'"),
    ],
)
def test_refusals(
    words: list[str], more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, *more]) == 2
    assert message in capsys.readouterr().err


def test_an_array_without_labels(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words[:-2]) == 2
    assert "give their file: --labels LABELS.npy" in capsys.readouterr().err


def test_an_unknown_output_in_python(classifier: bytes) -> None:
    with pytest.raises(InputError, match="its outputs are label, probabilities"):
        hil.evaluate(classifier, X, LABELS, board="native", name="net", output="y").check()


def renamed(classifier: bytes, first: int) -> bytes:
    """Return the classifier with labels that begin with another number."""
    model = onnx.load_from_string(classifier)
    (argmax,) = (node for node in model.graph.node if node.op_type == "ArgMax")
    argmax.output[0] = "position"
    model.graph.initializer.append(numpy_helper.from_array(np.array([first]), "first"))
    model.graph.node.append(helper.make_node("Add", ["position", "first"], ["label"]))
    data: bytes = model.SerializeToString()
    return data


def test_scores_of_classes_that_begin_with_one(classifier: bytes) -> None:
    """Labels 1 to 3 exist as positions, too: their accuracy would be that of other classes."""
    model = renamed(classifier, 1)
    few = np.flatnonzero(PREDICTED < CLASSES - 1)
    options: Any = {"board": "native", "name": "net"}
    with pytest.raises(InputError, match="calls the class of score 0 of 'probabilities' 1"):
        hil.evaluate(model, X[few], PREDICTED[few] + 1, output="probabilities", **options)
    with pytest.raises(InputError, match="has the label 4") as found:
        hil.evaluate(model, X, PREDICTED + 1, output="probabilities", **options)
    assert "the output 'label'" in found.value.hint
    assert hil.evaluate(model, X, PREDICTED + 1, **options)["accuracy"].device.value == 1
    same = hil.evaluate(classifier, X, PREDICTED, output="probabilities", **options)
    assert same["accuracy"].device.value == 1


def test_classes_beyond_the_named_ones(classifier: bytes) -> None:
    """Names of fewer classes than the labels, or the model's own numbers, have."""
    options: Any = {"board": "native", "name": "net", "classes": ["a", "b", "c"]}
    with pytest.raises(InputError, match="has the label 3, and 3 classes are named: a, b, c"):
        hil.evaluate(classifier, X, LABELS, **options)
    few = np.where(PREDICTED == CLASSES - 1, 0, PREDICTED)
    with pytest.raises(InputError, match="has the class of 'label' 3, and 3 classes are named"):
        hil.evaluate(classifier, X, few, **options)


def test_samples_are_read_before_a_build(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A data set of another scaling is refused before a firmware is built for it."""

    def built(*_: Any, **__: Any) -> None:
        raise AssertionError("a firmware was built")

    monkeypatch.setattr("hil.device.session.build", built)
    np.save(tmp_path / "x.npy", np.zeros((SAMPLES, FEATURES), np.uint8))
    assert main(words) == 2


def test_files_that_are_left_out(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(CLASSES):
        folder = tmp_path / "data" / str(number)
        folder.mkdir(parents=True)
        np.save(folder / "x.npy", X[number])
    (tmp_path / "data" / "0" / "notes.txt").write_text("not a sample")
    folder_words = [*words[: words.index("--data")], "--data", str(tmp_path / "data")]
    assert main(folder_words) == 0
    assert "1 file of" in capsys.readouterr().err
