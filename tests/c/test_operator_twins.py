"""Kernels of operators beside the linear layers for cores with DSP instructions, or
an FPU: their twins in C,
on the host under sanitizers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kernel_checks import Check, check, checks_of, count
from single_op import SingleOp, batch_matmul_draft, finish, random_op, transpose_conv_draft

from hilc.ir import Quant, Tensor
from hilc.target import get_cpu

#: It changes rarely, and takes long.
pytestmark = pytest.mark.full

M3, M4 = get_cpu("cortex-m3"), get_cpu("cortex-m4")
LSTM = "UNIDIRECTIONAL_SEQUENCE_LSTM"
#: Of the kernels for computed matrices.
FAST_INPUTS = {"BATCH_MATMUL": 2}


def extreme(rng: np.random.Generator, single: SingleOp) -> SingleOp:
    """The operator with every constant of int8 and every input at an end of its type."""

    def ends(value: Any, low: int | None = None) -> Any:
        info = np.iinfo(value.dtype)
        least = info.min if low is None else low
        return rng.choice(np.array([least, info.max], value.dtype), value.shape)

    ins: list[Tensor] = []
    values = []
    for tensor, value in zip(single.ins, single.values, strict=True):
        if tensor.data is not None and tensor.dtype == "int8":
            # As converters write them.
            tensor = replace(tensor, data=ends(tensor.data, -127))
        ins.append(tensor)
        values.append(ends(value) if tensor.data is None else tensor.data)
    return replace(single, ins=tuple(ins), values=tuple(values))


def singles(op: str, dtype: str, number: int) -> list[SingleOp]:
    rng = np.random.default_rng([5, *op.encode(), *dtype.encode()])
    made = [random_op(rng, op, dtype) for _ in range(number)]
    if dtype == "float32":
        return made
    return [*made, *(extreme(rng, single) for single in made)]


def fast_checks(single: SingleOp) -> list[Check]:
    """Those of kernels of the operator's own: a constant matrix is weights, which others test."""
    return [
        one
        for one in checks_of(single, M4)
        if one.kernel.startswith(("hil_dsp", "hil_fpu"))
        and len(one.case.call.inputs) == FAST_INPUTS.get(single.node.op, len(one.case.call.inputs))
    ]


@pytest.mark.parametrize(
    ("op", "dtype", "kernels"),
    [
        (LSTM, "int8", {"hil_dsp_lstm_s8"}),
        (LSTM, "int16", {"hil_dsp_lstm_s16"}),
        (LSTM, "float32", {"hil_fpu_lstm_f32"}),
        ("SVDF", "int8", {"hil_dsp_svdf_s8_state_s8", "hil_dsp_svdf_s8_state_s16"}),
        ("BATCH_MATMUL", "int8", {"hil_dsp_batch_matmul_s8"}),
        ("BATCH_MATMUL", "float32", {"hil_fpu_batch_matmul_f32"}),
        ("MUL", "int8", {"hil_dsp_mul_s8"}),
        ("MUL", "int16", {"hil_dsp_mul_s16"}),
        ("SQUARED_DIFFERENCE", "int8", {"hil_dsp_squared_difference_s8"}),
        ("ADD", "int16", {"hil_dsp_sum_s16"}),
        ("SUB", "int16", {"hil_dsp_sum_s16"}),
        ("MAX_POOL_2D", "int8", {"hil_dsp_max_pool_s8"}),
        ("MAX_POOL_2D", "int16", {"hil_dsp_max_pool_s16"}),
        (
            "TRANSPOSE_CONV",
            "int8",
            {"hil_dsp_transpose_conv2d_s8", "hil_dsp_transpose_conv2d_s8_column_pairs"},
        ),
        ("TRANSPOSE_CONV", "int16", {"hil_dsp_transpose_conv2d_s16"}),
        ("TRANSPOSE_CONV", "float32", {"hil_fpu_transpose_conv2d_f32"}),
    ],
)
def test_the_twins_of_kernels_for_dsp_cores(op: str, dtype: str, kernels: set[str]) -> None:
    found = [one for single in singles(op, dtype, 30) for one in fast_checks(single)]
    check(found)
    counts = count(found)
    assert counts.keys() == kernels
    assert min(counts.values()) >= 10


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_lstms_of_cores_that_multiply_words(dtype: str) -> None:
    checks = [
        one
        for single in singles(LSTM, dtype, 30)
        for one in checks_of(single, M3)
        if one.kernel.endswith("_4_columns")
    ]
    assert len(checks) >= 20
    check(checks)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_an_lstm_with_wide_gate_shifts_is_portable(
    dtype: str,
) -> None:
    fast = next(single for single in singles(LSTM, dtype, 30) if fast_checks(single))
    # Sums of 2^30 steps a gate step.
    weights = tuple(
        replace(tensor, quant=Quant((2.0**20,), (0,))) if 1 <= index < 9 else tensor
        for index, tensor in enumerate(fast.ins)
    )
    assert not fast_checks(replace(fast, ins=weights))


def _extreme_phases(rng: np.random.Generator, dtype: str, depth: int) -> SingleOp:
    """A TRANSPOSE_CONV with phases of one, two and four taps, values and weights at their ends."""
    draft = transpose_conv_draft(
        rng,
        dtype,
        (1, 2, 3, depth),
        (3, 3),
        (1, 4, 6, 3),
        {"stride_h": 2, "stride_w": 2, "padding": "SAME", "activation": "NONE"},
    )
    return extreme(rng, finish(rng, "TRANSPOSE_CONV", draft))


def test_transposed_sums_beyond_24_bits() -> None:
    """Phases of one, two and four taps: the sums of some are divided into parts, or of none."""
    rng, kernel, divided = np.random.default_rng(7), "hil_dsp_transpose_conv2d_s8", set()
    for depth in (60, 140, 300, 900):
        single = _extreme_phases(rng, "int8", depth)
        found = [one for one in checks_of(single, M4) if one.kernel == kernel]
        assert found
        check(found)
        fields: Any = found[0].case.call.fields
        divided.add(fields["part"] < fields["units"])
    assert divided == {False, True}


def test_transposed_sums_beyond_32_bits() -> None:
    """Those of phases of two and four taps: all phases have sums of 64 bits."""
    rng, kernel = np.random.default_rng(7), "hil_dsp_transpose_conv2d_s16"
    for depth in (300, 301, 700):
        single = _extreme_phases(rng, "int16", depth)
        found = [one for one in checks_of(single, M4) if one.kernel == kernel]
        assert {one.case.call.fields["long_sums"] for one in found} == {1}
        check(found)


def test_sums_of_matrices_beyond_29_bits_are_portable() -> None:
    rng = np.random.default_rng(6)
    for depth, is_fast in ((8256, True), (8257, False)):
        draft = batch_matmul_draft(rng, "int8", (1, depth), (depth, 1))
        ins = [replace(tensor, quant=Quant((0.05,), (-128,))) for tensor in draft.ins]
        single = finish(rng, "BATCH_MATMUL", replace(draft, ins=ins, quant=Quant((9e3,), (0,))))
        assert bool(fast_checks(single)) == is_fast
        check([one for one in checks_of(extreme(rng, single), M4)])
