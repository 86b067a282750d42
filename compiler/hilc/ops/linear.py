"""Common parts of convolutions and fully connected layers: weights, bias, requantization, layouts.

All three compute ``bias + sum(weight * (x - zero_point))`` in int32 for each output channel and
requantize it, or the same in float32. The kernels want the zero point inside the bias and the
weights in the order in which they read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Node, Rounding, Tensor
from hilc.numerics.floats import add, clamped, multiply_add
from hilc.numerics.requantize import SUMS, requantize, shifts_wrap
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.operands import (
    float_range,
    invalid,
    operand,
    output_clamp,
    quantization,
    require_counts,
    require_dtype,
    require_rounding,
    require_symmetric,
    sum_multiplier,
    unsupported,
)
from hilc.ops.traits import Interval


@dataclass(frozen=True)
class Operands:
    """The input tensors of a layer, weights and bias constant."""

    x: Tensor
    weights: Tensor
    weight_data: Array
    #: One value an output channel; zeros where the model has no bias.
    bias_data: Array

    @property
    def sums(self) -> str:
        """The type that sums are kept in: that of the bias."""
        return self.bias_data.dtype.name


def operands(
    node: Node,
    ins: Sequence[Tensor | None],
    rank: int,
    channel_axis: int,
    bias_types: int | None = None,
) -> Operands:
    """Return the operands image, weights and bias or none, as :func:`checked` does."""
    require_counts(node, inputs=(2, 3))
    x, weights = operand(node, ins, 0), operand(node, ins, 1)
    bias = ins[2] if len(ins) > 2 else None
    return checked(node, x, weights, bias, rank, channel_axis, bias_types)


def checked(
    node: Node,
    x: Tensor,
    weights: Tensor,
    bias: Tensor | None,
    rank: int,
    channel_axis: int,
    bias_types: int | None = None,
) -> Operands:
    """Return the operands, checked for everything but their shapes against each other.

    ``rank`` is that of the weights, whose output channels lie along ``channel_axis``; the operator
    takes the first ``bias_types`` of the types of a bias, None for all.
    """
    require_dtype(node, x)
    biases = x.element.biases[:bias_types]
    accepted = weight_types(node, x)
    if weights.dtype not in accepted:
        unsupported(
            node,
            f"has {x.dtype} activations with {weights.dtype} weights (supported: "
            f"{' or '.join(accepted)})",
            "convert the model with full integer quantization, or leave its weights in float32",
        )
    if len(weights.shape) != rank:
        invalid(node, f"has weights of shape {list(weights.shape)}, not of {rank} dimensions")
    channels = weights.shape[channel_axis]
    weight_data = _constant(node, weights)
    if bias is None:
        bias_data: Array = np.zeros(channels, x.element.sums(None))
    else:
        bias_data = _constant(node, bias)
        if bias.dtype not in biases or bias.size != channels:
            invalid(
                node,
                f"has the bias {bias.name!r}, {bias.dtype}{list(bias.shape)}, "
                f"for {channels} channels of {x.dtype} "
                f"(supported: {' or '.join(biases)}[{channels}])",
            )
        bias_data = bias_data.reshape(-1)
    if x.element.quantized:
        _check_quantized(node, x, weights, weight_data, bias_data, channel_axis)
    return Operands(x, weights, weight_data, bias_data)


def weight_types(node: Node, x: Tensor) -> tuple[str, ...]:
    """Return the types of weights that a node takes for activations ``x``."""
    wider = x.element.wider_weights if node.rounding is Rounding.NEAREST_EVEN else ()
    return (x.element.weights, *wider)


def _constant(node: Node, tensor: Tensor) -> Array:
    if tensor.data is None:
        unsupported(
            node,
            f"takes {tensor.name!r}, which is only known at run time, for its weights",
            "weights and bias must be constants of the model",
        )
    return tensor.data


def _check_quantized(
    node: Node, x: Tensor, weights: Tensor, weight_data: Array, bias_data: Array, channel_axis: int
) -> None:
    require_symmetric(node, x)
    quant = weights.quant
    if quant is None:
        invalid(node, f"has the weights {weights.name!r} without quantization")
    if any(quant.zero_point):
        unsupported(
            node,
            f"has the weights {weights.name!r} with a zero point other than 0",
            "quantize weights symmetrically, as the TFLite quantization scheme asks",
        )
    channels = weights.shape[channel_axis]
    if not quant.per_tensor and (quant.axis != channel_axis or len(quant.scale) != channels):
        invalid(
            node,
            f"has the weights {weights.name!r} with {len(quant.scale)} scales along axis "
            f"{quant.axis}, not {channels} along axis {channel_axis}",
        )
    # Both forms of the sum must fit: with x - zero_point as the reference adds it up, and with
    # the zero point folded into the bias as the kernels do.
    zero_point = quantization(node, x)[1]
    low, high = x.element.bounds
    sums = SUMS[bias_data.dtype.name]
    require_rounding(node, bias_data.dtype.name)
    for bias, largest in (
        (bias_data.astype(np.int64), max(high - zero_point, zero_point - low)),
        (fold_zero_point(weight_data, bias_data, zero_point, channel_axis), -low),
    ):
        bound = accumulator_bound(weight_data, bias, largest, channel_axis)
        if bound >= sums.limit:
            unsupported(
                node,
                f"has sums that reach {bound}, beyond {sums.limit.bit_length()} bits",
                "check its bias: no reference defines the result of an overflow",
            )


def pad_value(node: Node, ops: Operands) -> int:
    """Return the value of padding: the integer that represents 0."""
    return quantization(node, ops.x)[1] if ops.x.element.quantized else 0


def _per_channel_sum(values: Array, channel_axis: int) -> npt.NDArray[np.int64]:
    other = tuple(a for a in range(values.ndim) if a != channel_axis % values.ndim)
    total: npt.NDArray[np.int64] = values.sum(axis=other, dtype=np.int64)
    return total


def fold_zero_point(
    weight_data: Array, bias_data: Array, zero_point: int, channel_axis: int
) -> npt.NDArray[np.int64]:
    """Return the bias that makes ``bias + sum(weight * x)`` of raw inputs right."""
    weight_sums = _per_channel_sum(weight_data, channel_axis)
    return bias_data.astype(np.int64) - zero_point * weight_sums


def accumulator_bound(
    weight_data: Array, bias: npt.NDArray[np.int64], largest_input: int, channel_axis: int
) -> int:
    """Return the largest magnitude of a sum, in accumulator steps, for inputs whose magnitude is
    at most ``largest_input``; ``bias`` has one element for each output channel.
    """
    # The least number has no magnitude of its own type; the next wider one takes little memory.
    wider = np.promote_types(weight_data.dtype, f"int{16 * weight_data.dtype.itemsize}")
    magnitudes = _per_channel_sum(np.abs(weight_data.astype(wider)), channel_axis)
    return int((np.abs(bias) + largest_input * magnitudes).max())


@dataclass(frozen=True)
class Requantization:
    """From sums to outputs; one entry for all channels or one each."""

    multipliers: npt.NDArray[np.int32]
    shifts: npt.NDArray[np.int8]
    zero_point: int
    low: int
    high: int
    #: The type of the outputs.
    dtype: str = "int8"
    #: The type that sums are kept in, and how they are rounded.
    sums: str = "int32"
    rounding: Rounding = Rounding.DOUBLE

    def apply(self, sums: npt.NDArray[np.int64]) -> Array:
        """Return the outputs of ``sums``, channels last."""
        shifts = self.shifts.astype(np.int32)
        values = requantize(sums, self.multipliers, shifts, self.rounding, self.sums)
        outputs: Array = np.clip(values + self.zero_point, self.low, self.high).astype(self.dtype)
        return outputs


def requantization(
    node: Node, factors: Sequence[float], out: Tensor, sums: str = "int32"
) -> Requantization:
    """Return the requantization of the sums.

    ``factors`` are input scale times weight scale, in the reference's own precision; ``sums`` is
    the type that sums are kept in.
    """
    out_scale, zero_point = quantization(node, out)
    low, high = output_clamp(node, out)
    parts = [sum_multiplier(node, factor / out_scale, sums) for factor in factors]
    return Requantization(
        np.array([part.multiplier for part in parts], np.int32),
        # Any shift will do for a factor of 0; this one lets hil_requantize_narrow take it.
        np.array([part.shift if part.multiplier else -1 for part in parts], np.int8),
        zero_point,
        low,
        high,
        out.dtype,
        sums,
        node.rounding,
    )


def same_outputs(a: Requantization, b: Requantization, largest: int) -> bool:
    """Return whether two per-tensor requantizations give equal outputs for sums to ``largest``."""
    if (a.multipliers == b.multipliers).all() and (a.shifts == b.shifts).all():
        return True
    # Raised sums may wrap around.
    if max(a.shifts[0], b.shifts[0]) > 0:
        return False
    return np.array_equal(_first_sums(a, largest), _first_sums(b, largest))


def _first_sums(requant: Requantization, largest: int) -> npt.NDArray[np.int64]:
    """Return the first sum from ``-largest`` on that gives each output but the lowest, or one
    more.
    """
    outputs = np.arange(requant.low + 1, requant.high + 1)
    # More outputs come with larger sums, so each is found by halving.
    below = np.full(outputs.shape, -largest - 1, np.int64)
    above = np.full(outputs.shape, largest + 1, np.int64)
    for _ in range((2 * largest + 2).bit_length()):
        middle = (below + above) >> 1
        reached = requant.apply(middle) >= outputs
        above, below = np.where(reached, middle, above), np.where(reached, below, middle)
    return above


def channel_factors(node: Node, ops: Operands) -> list[float]:
    """Return input scale times weight scale of each channel, as doubles."""
    assert ops.weights.quant is not None
    x_scale = quantization(node, ops.x)[0]
    return [x_scale * scale for scale in ops.weights.quant.scale]


def check_output(node: Node, ops: Operands, out: Tensor) -> None:
    """Raise for an output scale without valid factors, or a zero point out of the type's range."""
    if ops.x.element.quantized:
        require_symmetric(node, out)
        channel_requantization(node, ops, out)


def channel_requantization(node: Node, ops: Operands, out: Tensor) -> Requantization:
    """From sums to outputs, with a factor for each scale of the weights."""
    return requantization(node, channel_factors(node, ops), out, ops.sums)


def integer_products(
    rows: Array, zero_point: int, weights: Array, bias: Array
) -> npt.NDArray[np.int64]:
    """Return ``bias + (rows - zero_point) @ weights.T``, exact: all sums are below 2**53."""
    left = rows.astype(np.float64) - zero_point
    product = left @ weights.T.astype(np.float64, copy=False)
    sums: npt.NDArray[np.int64] = product.astype(np.int64) + bias
    return sums


def float_products(node: Node, rows: Array, weights: Array, bias: Array) -> npt.NDArray[np.float32]:
    """Return ``rows @ weights.T + bias`` in float32, added up in the order in which the reference
    does.
    """
    sums = np.zeros((rows.shape[0], weights.shape[0]), np.float32)
    by_depth = np.ascontiguousarray(weights.T)
    for k in range(weights.shape[1]):
        sums = multiply_add(sums, rows[:, k, np.newaxis], by_depth[k], node.rounding)
    return clamp_float(node, add(sums, bias, node.rounding))


def clamp_float(node: Node, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Apply the fused activation."""
    low, high = float_range(node, ActivationAttributes.of(node).activation)
    return clamped(values, low, high)


def product_bounds(
    low: Array,
    high: Array,
    zero_point: int,
    weights: Array,
    bias: Array,
    requant: Requantization,
    out: Tensor,
) -> list[Interval]:
    """Return the bounds of rows of inputs between ``low`` and ``high`` times ``weights`` [channels,
    depth].
    """
    # Most rows of an image have the same bounds.
    ends = np.ascontiguousarray(np.concatenate([low, high], axis=1))
    rows = ends.view(np.dtype((np.void, ends[:1].nbytes))).reshape(-1)
    _, first, place = np.unique(rows, return_index=True, return_inverse=True)
    low, high = (end[first].astype(np.int64) for end in (low, high))
    # A sum is twice the middle of its bounds, less or more what the weights make of half the width.
    wide = weights.astype(np.float64)
    middle = integer_products(low + high, 2 * zero_point, wide, 2 * bias.astype(np.int64))
    width = integer_products(high - low, 0, np.abs(wide, out=wide), np.zeros_like(bias))
    least, most = (middle - width) >> 1, (middle + width) >> 1
    found = requantized_bounds(least, most, requant)
    return [Interval(*(end[place].reshape(out.shape) for end in found))]


def requantized_bounds(
    least: npt.NDArray[np.int64], most: npt.NDArray[np.int64], requant: Requantization
) -> Interval:
    """Return the bounds of the outputs of sums between ``least`` and ``most``, channels last.

    A multiplier that first shifts to the left wraps around what that takes beyond 32 bits; where
    that may happen the output can be anything within its clamp.
    """
    low, high = requant.apply(least), requant.apply(most)
    wraps = shifts_wrap(least, most, requant.shifts)
    low[wraps], high[wraps] = requant.low, requant.high
    return Interval(low, high)
