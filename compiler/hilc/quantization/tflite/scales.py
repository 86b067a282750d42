"""Scales and zero points of tensors, and constants as integers of them, as TFLite defines them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hilc.ir import Array
from hilc.quantization.settings import ACTIVATIONS
from hilc.quantization.tflite.ranges import Range

#: Largest weight: -128 is not used, so that the kernels may negate weights.
_MOST = 127
#: Biases, and the largest one, which leaves place for the sums, by the type of activations.
_BIASES = {"int8": ("int32", 2**30), "int16": ("int64", 2**40)}
#: The least scale: denormal numbers are none.
_TINY = float(np.finfo(np.float32).tiny)


class Form(NamedTuple):
    """The quantization of a tensor: one scale, or one for each index along ``axis``."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int = 0


def form_of(limits: Range, activations: str) -> Form:
    """Return the quantization of activations with these limits; 0 is a number of it."""
    kind = ACTIVATIONS[activations]
    low, high = min(limits.low, 0.0), max(limits.high, 0.0)
    if kind.symmetric:
        return Form((_scale(max(-low, high) / kind.high),), (0,))
    scale = _scale((high - low) / (kind.high - kind.low))
    zero_point = round(kind.low - low / scale)
    return Form((scale,), (int(np.clip(zero_point, kind.low, kind.high)),))


def _scale(value: float) -> float:
    """Return a scale as a file holds it; 1 for a tensor of zeros."""
    return max(float(np.float32(value)), _TINY) if value > 0 else 1.0


def quantized(values: Array, form: Form, activations: str) -> Array:
    """Return a constant operand as integers."""
    kind = ACTIVATIONS[activations]
    steps = np.rint(values.astype(np.float64) / form.scale[0]) + form.zero_point[0]
    made: Array = np.clip(steps, kind.low, kind.high).astype(activations)
    return made


def weight_form(
    weights: Array,
    bias: Array | None,
    axis: int,
    image: Form,
    activations: str,
    *,
    per_channel: bool,
) -> Form:
    """Return the scales of weights: one for each channel along ``axis``, or one for all.

    A scale is larger where the bias, whose scale follows from it, would not fit.
    """
    others = tuple(i for i in range(weights.ndim) if i != axis)
    most = np.abs(weights.astype(np.float64)).max(axis=others)
    scales = most / _MOST
    if bias is not None:
        limit = _BIASES[activations][1]
        scales = np.maximum(scales, np.abs(bias.astype(np.float64)) / (image.scale[0] * limit))
    if not per_channel:
        scales = scales.max(keepdims=True)
    values = tuple(_scale(float(scale)) for scale in scales)
    return Form(values, (0,) * len(values), axis if per_channel else 0)


def quantized_weights(weights: Array, form: Form) -> npt.NDArray[np.int8]:
    """Return weights as int8 without a zero point."""
    along = [1] * weights.ndim
    along[form.axis] = -1
    scale = np.array(form.scale, np.float64).reshape(along)
    steps = np.rint(weights.astype(np.float64) / scale)
    return np.clip(steps, -_MOST, _MOST).astype(np.int8)


def bias_form(image: Form, weights: Form) -> Form:
    """Return the quantization of a bias: that of the sums of products."""
    scales = tuple(float(np.float32(image.scale[0]) * np.float32(s)) for s in weights.scale)
    return Form(scales, (0,) * len(scales))


def quantized_bias(bias: Array, form: Form, activations: str) -> Array:
    """Return a bias as integers."""
    steps = np.rint(bias.astype(np.float64) / np.array(form.scale, np.float64))
    return steps.astype(_BIASES[activations][0])
