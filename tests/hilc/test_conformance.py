"""A sample of ONNX's backend suite; ``measure.py conformance`` runs the whole."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from campaigns import cases

conformance: Any = importlib.import_module("conformance")

#: A part of the suite with tests of every family; each of them passes.
SAMPLE = (
    "test_add",
    "test_and2d",
    "test_argmax_default_axis_example",
    "test_averagepool_2d_default",
    "test_basic_conv_with_padding",
    "test_clip_default_inbounds",
    "test_concat_2d_axis_0",
    "test_conv_with_strides_padding",
    "test_convtranspose",
    "test_expand_dim_changed",
    "test_flatten_axis1",
    "test_gather_1",
    "test_gemm_all_attributes",
    "test_globalaveragepool",
    "test_less",
    "test_matmul_3d",
    "test_maxpool_2d_default",
    "test_reduce_sum_keepdims_random",
    "test_reshape_negative_dim",
    "test_slice_neg_steps",
    "test_softmax_axis_1",
    "test_split_equal_parts_1d_opset18",
    "test_squeeze",
    "test_tile",
    "test_transpose_all_permutations_3",
    "test_unsqueeze_two_axes",
    "test_where_example",
)


@pytest.fixture(scope="module")
def done() -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [case for case in conformance.cases() if case.name in SAMPLE]
        with np.errstate(all="ignore"):
            for case in cases:
                conformance.interpret(case)
            conformance.in_c(conformance.passed(cases), "host")
    return cases


def test_a_sample_passes_in_the_interpreter_and_in_c(done) -> None:
    assert len(done) == len(SAMPLE)
    assert [(case.name, case.results) for case in done if case.result() != "passed"] == []


@cases("board", conformance.BOARDS, first=1)
def test_a_sample_of_the_suite_passes_on_boards(done, board: str) -> None:
    conformance.in_c(conformance.passed(done), board)
    results = {case.name: case.results[board] for case in done}
    assert {name: result for name, result in results.items() if result[0] != "passed"} == {}
    assert conformance.lines(done, ["host", board])[0] == (
        f"conformance on {board}: {len(SAMPLE)} passed, 0 failed, 0 refused of {len(SAMPLE)}"
    )


def test_a_test_that_fails_in_a_bulk_is_told_alone(done) -> None:
    right, wrong = (replace(case, results={}) for case in done[:2])
    wrong.sets = [(inputs, [output + 1 for output in outputs]) for inputs, outputs in wrong.sets]
    conformance.in_c([right, wrong], "host")
    assert [case.result() for case in (right, wrong)] == ["passed", "failed"]
