"""QUANTIZE and DEQUANTIZE: between float32 and int8, and from one quantisation of bytes to another.

Attributes: ``dtype`` (QUANTIZE: the output's type, "int8" by default).

From one quantisation to another every byte has one answer: a table, as in :mod:`hilc.ops.unary`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hilc.cpu import Cpu
from hilc.ir import Array, Node, Tensor
from hilc.kernels import KernelCall, kernels
from hilc.ops.opdef import OpDef, Signature, only
from hilc.ops.operands import (
    multiplier,
    operand,
    quantization,
    require_counts,
    require_dtype,
    unsupported,
)
from hilc.ops.unary import look_up, table_call
from hilc.quant import requantize

_BYTES = ("int8", "uint8")


def _infer_quantize(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=1)
    x = operand(node, ins, 0)
    require_dtype(node, x, ("float32", *_BYTES))
    dtype = node.attrs.get("dtype", "int8")
    if x.dtype in _BYTES:
        quantization(node, x)
    if dtype not in (_BYTES if x.dtype in _BYTES else ("int8",)):
        unsupported(node, f"quantises {x.dtype} to {dtype}", "quantise to int8")
    return [(x.shape, dtype)]


def _table(node: Node, source: Tensor, target: Tensor) -> Array:
    """The new quantisation's byte for each byte of the old one."""
    (in_scale, in_zero), (out_scale, out_zero) = (quantization(node, t) for t in (source, target))
    ratio = multiplier(node, in_scale / out_scale)
    # 256 steps times 2^22 and the rounding stay within 31 bits.
    if ratio.shift > 22:
        unsupported(node, f"has input scale {in_scale} and output scale {out_scale}")
    every_byte = np.arange(256, dtype=np.uint8).view(source.dtype)
    scaled = requantize(every_byte.astype(np.int64) - in_zero, *ratio)
    info = np.iinfo(target.dtype)
    return np.clip(scaled + out_zero, info.min, info.max).astype(target.dtype)


def _check_quantize(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    x, y = operand(node, ins, 0), outs[0]
    quantization(node, y)
    if x.dtype in _BYTES:
        _table(node, x, y)


def _quantize(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    source, x = operand(node, ins, 0), values[0]
    assert x is not None
    if source.dtype in _BYTES:
        return [look_up(_table(node, source, outs[0]), x)]
    scale, zero_point = quantization(node, outs[0])
    with np.errstate(all="ignore"):
        scaled = (x / np.float32(scale)).astype(np.float64)
    rounded = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled) + zero_point
    # What is no number becomes the smallest, as in the kernel.
    return [np.clip(np.nan_to_num(rounded, nan=-128.0), -128, 127).astype(np.int8)]


def _emit_quantize(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], cpu: Cpu
) -> KernelCall:
    x = operand(node, ins, 0)
    if x.dtype in _BYTES:
        return table_call(_table(node, x, outs[0]).view(np.int8), x.size)
    scale, zero_point = quantization(node, outs[0])
    return KernelCall(
        kernels()["hil_quantize_f32_s8"],
        {"size": x.size, "scale": scale, "zero_point": zero_point},
    )


def _infer_dequantize(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=1)
    x = operand(node, ins, 0)
    require_dtype(node, x, ("int8",))
    quantization(node, x)
    return [(x.shape, "float32")]


def _dequantize(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    scale, zero_point = quantization(node, operand(node, ins, 0))
    x = values[0]
    assert x is not None
    return [np.float32(scale) * (x.astype(np.int32) - zero_point).astype(np.float32)]


def _emit_dequantize(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], cpu: Cpu
) -> KernelCall:
    x = operand(node, ins, 0)
    scale, zero_point = quantization(node, x)
    return KernelCall(
        kernels()["hil_dequantize_s8_f32"],
        {"size": x.size, "scale": scale, "zero_point": zero_point},
    )


QUANTIZE = OpDef(_infer_quantize, _quantize, only(_emit_quantize), check=_check_quantize)
DEQUANTIZE = OpDef(_infer_dequantize, _dequantize, only(_emit_dequantize))
