"""Layers of int16 activations, and LSTMs, on cores that multiply words: four columns share what is
loaded of a row (``generic/four_columns.h``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Rounding
from hilc.lowering.channels import padded
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.linear import (
    LINEAR,
    Convolution,
    DepthwiseConvolution,
    LinearWeights,
    MatrixProduct,
    flat_weights,
    linear_calls,
    packed_once,
)
from hilc.lowering.lstm import TENSORS, GateSums, LstmForm, lstm_form
from hilc.lowering.parameters import (
    HilFourColumns,
    HilFourLstm,
    HilGenericConv2dS164Columns,
    HilGenericDepthwiseConv2dS16Sums32,
    HilGenericLstmS84Columns,
    HilGenericLstmS164Columns,
    HilGenericMatmulS164Columns,
)
from hilc.lowering.registry import Layer, Rank, lowers
from hilc.lowering.sums32 import narrow_sums, narrow_sums_of, sums_of
from hilc.numerics.requantize import reduced_multiplier, reduced_shift

#: Columns that share the loads of a row, and the addend of their weights.
_FOUR, _RAISED = 4, 128
#: The least and the largest shift to the right that kernels take.
_SHIFTS = (16, 46)


@lowers(
    *LINEAR,
    dtypes={"int16"},
    lacks={"dsp"},
    rank=Rank.FAST,
    roundings={Rounding.SINGLE, Rounding.NEAREST_EVEN},
)
def linear(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernels for a linear layer of 16-bit activations."""
    return linear_calls(layer, rows=_matmul, convolution=_conv2d, depthwise=_depthwise)


@lowers(
    "DEPTHWISE_CONV_2D",
    dtypes={"int16"},
    requires={"dsp"},
    rank=Rank.FAST,
    roundings={Rounding.SINGLE, Rounding.NEAREST_EVEN},
)
def windows(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernel of windows that the kernels of planes do not take."""
    return linear_calls(layer, rows=_none, convolution=_none, depthwise=_depthwise)


def _none(form: MatrixProduct | Convolution) -> Iterator[Parameters]:
    """Yield nothing: cores that multiply pairs of half-words have kernels of their own."""
    del form
    yield from ()


@lowers("UNIDIRECTIONAL_SEQUENCE_LSTM", dtypes={"int8"}, lacks={"dsp"}, rank=Rank.FAST)
def narrow_lstm(layer: Layer) -> KernelCall:
    """Return the kernel for an LSTM of int8, whose sums are modulo 2^32 in any case."""
    form = lstm_form(layer)
    factors = [[(f.multiplier, f.shift) for f in sums.factors] for sums in _both(form)]
    return KernelCall(HilGenericLstmS84Columns(four_lstm=_lstm(form, factors)), TENSORS, form.macs)


@lowers("UNIDIRECTIONAL_SEQUENCE_LSTM", dtypes={"int16"}, lacks={"dsp"}, rank=Rank.FAST)
def wide_lstm(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernel for an LSTM of int16."""
    form = lstm_form(layer)
    factors = [
        [(int(reduced_multiplier(f.multiplier)), int(reduced_shift(f.shift))) for f in sums.factors]
        for sums in _both(form)
    ]
    shifts = [shift for each in factors for _, shift in each]
    fits = max(sums.bound for sums in _both(form)) < 2**31
    if fits and _SHIFTS[0] <= min(shifts) and max(shifts) <= _SHIFTS[1]:
        parameters = HilGenericLstmS164Columns(four_lstm=_lstm(form, factors))
        yield KernelCall(parameters, TENSORS, form.macs)


def _both(form: LstmForm) -> tuple[GateSums, GateSums]:
    return form.inputs, form.hidden


def _lstm(form: LstmForm, factors: list[list[tuple[int, int]]]) -> HilFourLstm:
    inputs, hidden = factors
    return HilFourLstm(
        lstm=form.shape,
        lstm_cell=form.cell,
        in_multipliers=tuple(multiplier for multiplier, _ in inputs),
        in_shifts=tuple(shift for _, shift in inputs),
        hidden_multipliers=tuple(multiplier for multiplier, _ in hidden),
        hidden_shifts=tuple(shift for _, shift in hidden),
        in_weights=four_weights(form.inputs.columns),
        hidden_weights=four_weights(form.hidden.columns),
        in_bias=form.inputs.column_bias.astype(np.int32),
        hidden_bias=form.hidden.column_bias.astype(np.int32),
    )


def four_weights(matrix: Array) -> npt.NDArray[np.uint8]:
    """Return weights ``[columns, depth]`` in fours of columns, as ``four_columns.h`` draws them."""
    fours = padded(matrix.astype(np.int16), _FOUR).reshape(-1, _FOUR, matrix.shape[1])
    raised: npt.NDArray[np.uint8] = (fours.transpose(0, 2, 1) + _RAISED).astype(np.uint8)
    return np.ascontiguousarray(raised).reshape(-1)


@packed_once
def _outputs(form: LinearWeights) -> dict[str, Any]:
    """Return the requantization words of each channel: multiplier and shift, or multiplier, addend
    and shift.
    """
    sums = sums_of(form)
    assert sums is not None, "the caller has found them"
    found: dict[str, Any] = {
        "in_zero_point": form.pad_value,
        "shifted": sums.shifted,
        "scales": np.zeros(1, np.int16),
        "words": np.zeros(1, np.int32),
    }
    if sums.shifted:
        found["words"] = np.stack(sums.heads[1:], axis=1).reshape(-1).astype(np.int32)
    else:
        pairs = np.stack([sums.reduced, sums.shifts], axis=1)
        found["scales"] = pairs.reshape(-1).astype(np.int16)
    return found


@packed_once
def _columns(form: LinearWeights) -> HilFourColumns | None:
    """Return the columns in fours; None where sums are neither narrow nor long."""
    sums = sums_of(form)
    if sums is None:
        return None
    return HilFourColumns(
        columns=form.channels,
        out_min=sums.low,
        out_max=sums.high,
        weights=four_weights(form.matrix),
        bias=padded(sums.heads[0], _FOUR).reshape(-1).astype(np.int32),
        long_sums=sums.long_sums,
        **_outputs(form),
    )


@packed_once
def _bias_words(form: LinearWeights) -> npt.NDArray[np.int32]:
    sums = narrow_sums_of(form)
    assert sums is not None, "the caller has found them"
    return sums.bias.astype(np.int32)


def _matmul(form: MatrixProduct) -> Iterator[Parameters]:
    columns = _columns(form.packing)
    if columns is not None:
        yield form.parameters(HilGenericMatmulS164Columns, four_columns=columns)


def _conv2d(form: Convolution) -> Iterator[Parameters]:
    columns = _columns(form.packing)
    if columns is not None:
        yield form.parameters(HilGenericConv2dS164Columns, four_columns=columns)


def _depthwise(form: DepthwiseConvolution) -> Iterator[Parameters]:
    sums = narrow_sums(form)
    if sums is not None:
        yield form.parameters(
            HilGenericDepthwiseConv2dS16Sums32,
            out_min=sums.low,
            out_max=sums.high,
            weights=flat_weights(form.packing),
            bias=_bias_words(form.packing),
            **_outputs(form.packing),
        )
