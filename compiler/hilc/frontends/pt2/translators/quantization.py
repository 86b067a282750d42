"""Quantization as PT2E writes it: QuantizeLinear and DequantizeLinear around float operators."""

from __future__ import annotations

import numpy as np

from hilc.frontends.pt2.model import TYPES, Operation, translates
from hilc.frontends.pt2.program import Ref
from hilc.ir import ELEMENT_TYPES, Array

_PREFIX = "quantized_decomposed."


@translates(f"{_PREFIX}quantize_per_tensor", f"{_PREFIX}quantize_per_channel")
def quantize(c: Operation) -> str:
    """Translate quantize_per_tensor and quantize_per_channel to QuantizeLinear.

    A range narrower than the type's adds a Clip; a constant input is quantized to a constant.
    """
    dtype, low, high = _range(c)
    known = c.constant_value(c.tensor("input"))
    if known is not None:
        return c.constant(_quantized(c, known, low, high), dtype)
    scale, zero_point, axis = _parameters(c, dtype)
    y = c.emit("QuantizeLinear", c.tensor("input"), scale, zero_point, axis=axis)
    if (low, high) == ELEMENT_TYPES[dtype].bounds:
        return y
    # A range narrower than the type's, such as the symmetric one of weights.
    return c.emit("Clip", y, c.constant(low, dtype), c.constant(high, dtype))


@translates(f"{_PREFIX}dequantize_per_tensor", f"{_PREFIX}dequantize_per_channel")
def dequantize(c: Operation) -> str:
    """Translate dequantize_per_tensor and dequantize_per_channel to DequantizeLinear."""
    dtype, _, _ = _range(c)
    scale, zero_point, axis = _parameters(c, dtype)
    return c.emit("DequantizeLinear", c.tensor("input"), scale, zero_point, axis=axis)


def _range(c: Operation) -> tuple[str, int, int]:
    dtype = c.code("dtype") or "int8"
    if dtype not in TYPES or "int" not in dtype:
        c.refuse(f"quantizes to {dtype}", "integers of 8, 16 and 32 bits are supported")
    return dtype, c.get("quant_min"), c.get("quant_max")


def _parameters(c: Operation, dtype: str) -> tuple[str, str, int | None]:
    """Return scale, zero point and axis, of which a tensor's has none."""
    per_channel = "per_channel" in c.call.target
    scale = _number(c, "scales" if per_channel else "scale").astype(np.float32)
    name = "zero_points" if per_channel else "zero_point"
    zero_point = _number(c, name).astype(np.int64) if c.has(name) else np.zeros_like(scale, int)
    axis = c.get("axis") if per_channel else None
    return c.constant(scale), c.constant(zero_point.astype(dtype)), axis


def _quantized(c: Operation, value: Array, low: int, high: int) -> Array:
    """Return the integers of a constant, as PyTorch computes them: times one over the scale."""
    per_channel = "per_channel" in c.call.target
    scale = _number(c, "scales" if per_channel else "scale")
    name = "zero_points" if per_channel else "zero_point"
    zero_point = _number(c, name) if c.has(name) else np.zeros_like(scale, int)
    factor = 1 / scale
    if per_channel:
        shape = [1] * value.ndim
        shape[c.axis("axis", "input")] = -1
        factor, zero_point = factor.reshape(shape), zero_point.reshape(shape)
    else:
        factor = factor.astype(value.dtype)
    steps: Array = np.clip(np.rint(value * factor) + zero_point, low, high)
    return steps


def _number(c: Operation, name: str) -> Array:
    value = c.get(name)
    if not isinstance(value, Ref):
        return np.array(value)
    constant = c.value(name)
    return constant if "per_channel" in c.call.target else constant.reshape(())
