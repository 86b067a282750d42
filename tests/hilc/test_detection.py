"""DETECTION_POSTPROCESS where one operator with random inputs does not show it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tflm
from campaigns import cases
from flatbuffers import flexbuffers
from tflite_builder import ModelBuilder

import hilc
from hilc.errors import HilError, ModelError, UnsupportedError
from hilc.frontends import load_model
from hilc.interpreter import run_all
from hilc.ir import Array

ANCHORS, CLASSES = 6, 2
OPTIONS: dict[str, Any] = {
    "max_detections": 4,
    "max_classes_per_detection": 1,
    "num_classes": CLASSES,
    "nms_score_threshold": 0.5,
    "nms_iou_threshold": 0.5,
    **{f"{side}_scale": 10.0 for side in "yxhw"},
}


def detector(dtype: str = "float32", *, known: bool = True, numbers: int = 4, **more: Any) -> bytes:
    """A file as a converter writes it: the shapes of its outputs are ``known`` or not."""
    b = ModelBuilder()
    quant = () if dtype == "float32" else (0.1, 3)
    b.input("boxes", (1, ANCHORS, numbers), dtype, *quant)
    b.input("scores", (1, ANCHORS, CLASSES), "float32")
    # Three pairs of anchors, of which each pair shares a place.
    centres = np.repeat([0.2, 0.5, 0.8], 2)
    rows = [centres, centres, np.full(6, 0.2), np.full(6, 0.2)]
    b.const("anchors", np.stack(rows, 1).astype(np.float32))
    shapes: dict[str, tuple[int, ...]] = {"b": (1, 4, 4), "c": (1, 4), "s": (1, 4), "n": (1,)}
    for name, shape in shapes.items():
        b.output(name, shape if known else (), "float32")
    b.op(
        "CUSTOM",
        ("boxes", "scores", "anchors"),
        tuple(shapes),
        custom_code="TFLite_Detection_PostProcess",
        custom_options=bytes(flexbuffers.Dumps({**OPTIONS, **more})),
    )
    return b.build()


def inputs(scores: Array) -> dict[str, Array]:
    return {
        "boxes": np.zeros((1, ANCHORS, 4), np.float32),
        "scores": scores.astype(np.float32).reshape(1, ANCHORS, CLASSES),
    }


FEW, MANY = np.zeros((ANCHORS, CLASSES)), np.linspace(0.6, 0.9, ANCHORS * CLASSES)
FEW[3] = 0.25, 0.75


@cases("regular", [False, True], first=1)
@pytest.mark.parametrize("known", [False, True])
def test_what_a_run_does_not_find_is_zero(known: bool, regular: bool) -> None:
    """Also where the run before has found more, which the reference leaves in place."""
    model = detector(known=known, use_regular_nms=regular)
    graph = load_model(model)
    reference = tflm.reference(graph, model)
    counts = []
    with hilc.host.load(hilc.compile(model, name="detector")) as code:
        for scores in (MANY, FEW, 0 * FEW):
            given = inputs(scores)
            expected, theirs = run_all(graph, given), reference.run_all(given)
            for name, value in given.items():
                code.set_input(name, value)
            code.run()
            for name in graph.outputs:
                np.testing.assert_array_equal(expected[name], theirs[name], name)
                np.testing.assert_array_equal(code.get_output(name), expected[name], name)
            counts.append(int(expected["n"][0]))
    assert counts == [4 if regular else 3, 1, 0]


def test_absent_options_have_the_references_values() -> None:
    (node,) = load_model(detector()).nodes
    stated = vars(node.attrs)
    assert (stated["use_regular_nms"], stated["detections_per_class"]) == (False, 100)
    (node,) = load_model(detector(use_regular_nms=1, detections_per_class=7)).nodes
    stated = vars(node.attrs)
    assert (stated["use_regular_nms"], stated["detections_per_class"]) == (True, 7)


@pytest.mark.parametrize("pools", ["internal", "calls"])
def test_a_box_without_height_fails_one_run(pools: Any) -> None:
    graph, good = load_model(detector()), inputs(FEW)
    bad = {**good, "boxes": good["boxes"].copy()}
    bad["boxes"][0, 2, 2] = -np.inf
    with pytest.raises(HilError, match="a box without height or width, that of anchor 2"):
        run_all(graph, bad)
    expected = run_all(graph, good)
    with hilc.host.load(hilc.compile(graph, pools=pools)) as code:
        for given in (bad, good):
            for name, value in given.items():
                code.set_input(name, value)
            if given is bad:
                with pytest.raises(HilError, match="-1"):
                    code.run()
        code.run()
        for name in graph.outputs:
            np.testing.assert_array_equal(code.get_output(name), expected[name], name)


@pytest.mark.parametrize(
    ("model", "error", "fact"),
    [
        (detector("int8"), UnsupportedError, "does not support int8 input 'boxes'.*float32"),
        (detector(max_classes_per_detection=2), UnsupportedError, "up to box 16 of outputs with 8"),
        (detector(numbers=3), ModelError, r"boxes \[1, 6, 3\].*\[1, anchors, 4 or more\]"),
        (detector(num_classes=4), ModelError, "2 scores for 4 classes"),
        (detector(nms_iou_threshold=0.0), ModelError, "nms_iou_threshold 0.0.*above 0, up to 1"),
        (detector(y_scale=0.0), ModelError, "y_scale 0.0.*any number but 0"),
        (detector(max_detections=0), ModelError, "max_detections 0.*1 to 65535"),
        (detector(max_detections="x"), ModelError, "max_detections = 'x'.*accepted: int"),
    ],
)
def test_refusals(model: bytes, error: type[HilError], fact: str) -> None:
    with pytest.raises(error, match=fact):
        load_model(model)
