"""QUANTIZE and DEQUANTIZE."""

from __future__ import annotations

import numpy as np

from hilc.lowering.generic.unary import table_call
from hilc.lowering.kernels import KernelCall, kernels
from hilc.lowering.registry import Layer, lowers
from hilc.numerics.requantize import INT32_MAX, INT32_MIN
from hilc.ops.operands import (
    quantization,
)
from hilc.ops.quantize import BYTES, byte_table, wide_ratio

_C_NAMES = {"int8": "s8", "uint8": "u8", "int16": "s16"}


@lowers("QUANTIZE")
def quantize(layer: Layer) -> KernelCall:
    """From floats to integers, or from one scale to another."""
    node = layer.node
    x = layer.operand(0)
    if x.dtype in BYTES:
        return table_call(byte_table(node, x, layer.out).view(np.int8), x.size)
    scale, zero_point = quantization(node, layer.out)
    if x.dtype == "float32":
        return KernelCall(
            kernels()[f"hil_quantize_f32_{_C_NAMES[layer.out.dtype]}"],
            {"size": x.size, "scale": scale, "zero_point": zero_point},
        )
    mantissa, shift = wide_ratio(node, x, layer.out)
    info = np.iinfo(layer.out.dtype)
    return KernelCall(
        kernels()["hil_requantize_wide"],
        {
            "size": x.size,
            "in_bytes": np.dtype(x.dtype).itemsize,
            "out_bytes": np.dtype(layer.out.dtype).itemsize,
            "in_zero_point": quantization(node, x)[1],
            "mantissa": mantissa,
            "shift": shift,
            # What is scaled to int32 needs no clamp.
            "low": max(int(info.min) - zero_point, INT32_MIN),
            "high": min(int(info.max) - zero_point, INT32_MAX),
            "out_zero_point": zero_point,
        },
    )


@lowers("DEQUANTIZE")
def dequantize(layer: Layer) -> KernelCall:
    """From integers to floats."""
    node = layer.node
    x = layer.operand(0)
    scale, zero_point = quantization(node, x)
    return KernelCall(
        kernels()[f"hil_dequantize_{_C_NAMES[x.dtype]}_f32"],
        {"size": x.size, "scale": scale, "zero_point": zero_point},
    )
