"""DEPTHWISE_CONV_2D over NHWC images with weights ``[1, filter_h, filter_w, C * M]``.

Each input channel gives M output channels, next to each other. Attributes: those of CONV_2D and
``depth_multiplier``, which must be M.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hilc.ir import Array, Node, Tensor
from hilc.lowering import families, small
from hilc.lowering.kernels import FieldValue, KernelCall, kernels
from hilc.ops import geometry, linear
from hilc.ops.conv2d import emit_columns, window_fields
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import invalid, quantization
from hilc.target import Cpu

_CHANNEL_AXIS = 3

# The int8 kernel's scratch: channels of a band at most, bytes where there is a choice, the pixels
# that it computes at a time, the bytes that it copies at a time.
_BAND_CHANNELS = 16
_BAND_BYTES = 1024
_PIXEL_BLOCK = 4
_WORD = 4


def layer_operands(
    node: Node, ins: Sequence[Tensor | None]
) -> tuple[linear.Operands, geometry.Window, int]:
    """The operands, checked, the window that slides over the image, the depth multiplier."""
    ops = linear.operands(node, ins, rank=4, channel_axis=_CHANNEL_AXIS)
    if len(ops.x.shape) != 4:
        invalid(node, f"has an input of shape {list(ops.x.shape)}, not of 4 dimensions")
    one, filter_h, filter_w, channels = ops.weights.shape
    multiplier, rest = divmod(channels, ops.x.shape[3])
    if one != 1 or rest != 0 or node.attrs["depth_multiplier"] != multiplier:
        invalid(
            node,
            f"has weights of shape {list(ops.weights.shape)} for {ops.x.shape[3]} channels and "
            f"the depth multiplier {node.attrs['depth_multiplier']}",
        )
    return ops, geometry.window(node, ops.x.shape, filter_h, filter_w), multiplier


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    ops, window, _ = layer_operands(node, ins)
    shape = (ops.x.shape[0], window.h.out_size, window.w.out_size, ops.weights.shape[3])
    return [(shape, ops.x.dtype)]


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    ops, _, _ = layer_operands(node, ins)
    if ops.x.dtype == "int8":
        linear.requantization(node, linear.channel_factors(node, ops), outs[0])


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    ops, window, multiplier = layer_operands(node, ins)
    x = values[0]
    assert x is not None
    is_float = ops.x.dtype == "float32"
    zero_point = 0 if is_float else quantization(node, ops.x)[1]
    patches = geometry.patches(x, window, zero_point)
    _, filter_h, filter_w, channels = ops.weights.shape
    weights = ops.weight_data.reshape(filter_h, filter_w, -1, multiplier)
    # Tap by tap, which for floats is the order of the reference.
    dtype = np.float32 if is_float else np.int64
    sums = np.zeros((*patches.shape[:3], *weights.shape[2:]), dtype)
    for tap in np.ndindex(filter_h, filter_w):
        pixels = patches[:, :, :, tap[0], tap[1], :, np.newaxis].astype(dtype)
        sums += (pixels if is_float else pixels - zero_point) * weights[tap].astype(dtype)
    sums = sums.reshape(outs[0].shape) + ops.bias_data
    if is_float:
        return [linear.clamp_float(node, sums)]
    return [linear.requantization(node, linear.channel_factors(node, ops), outs[0]).apply(sums)]


def _emit(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], cpu: Cpu
) -> list[KernelCall]:
    ops, window, multiplier = layer_operands(node, ins)
    is_float = ops.x.dtype == "float32"
    zero_point = 0 if is_float else quantization(node, ops.x)[1]
    if is_float:
        channel_fields = linear.float_fields(node, ops)
    else:
        requant = linear.requantization(node, linear.channel_factors(node, ops), outs[0])
        channel_fields = linear.int8_fields(node, ops, requant, _CHANNEL_AXIS)
    # [C * M, filter_h, filter_w]: the taps of a channel together.
    weight_data = np.ascontiguousarray(ops.weight_data[0].transpose(2, 0, 1))
    if ops.x.shape[3] == 1:
        # One input channel: an ordinary convolution, whose kernels share loads between channels.
        weight_data = weight_data[..., np.newaxis]
        filters = replace(ops.weights, shape=weight_data.shape, data=weight_data)
        ops = replace(ops, weights=filters, weight_data=weight_data)
        return emit_columns(ops, window, outs[0], channel_fields, zero_point, cpu)
    macs = outs[0].size * window.h.filter_size * window.w.filter_size
    place = window_fields(ops.x, window)
    fast: list[KernelCall] = []
    if not is_float and multiplier == 1:
        layer = families.Depthwise(ops.x.shape, window, place, weight_data, zero_point)
        fast = families.depthwise_conv2d(cpu, layer, channel_fields, macs)
    fields: dict[str, FieldValue] = {
        **place,
        "depth_multiplier": multiplier,
        **channel_fields,
        "weights": weight_data.reshape(-1),
    }
    suffix = "f32" if is_float else "s8"
    if not is_float:
        fields.update(in_zero_point=zero_point, **_band_fields(ops.x.shape[3], window))
    generic = KernelCall(kernels()[f"hil_depthwise_conv2d_{suffix}"], fields, macs=macs)
    few_bytes: list[KernelCall] = []
    if not is_float:
        few_bytes = small.depthwise(
            place, multiplier, weight_data, ops.bias_data, zero_point, channel_fields, macs
        )
    return [*fast, generic, *few_bytes]


def _band_fields(in_channels: int, window: geometry.Window) -> dict[str, FieldValue]:
    """How the int8 kernel cuts a row of outputs, and the channels, into bands of its scratch.

    A band holds whole words of channels where they divide so, and rows of outputs as long as the
    scratch allows, in whole blocks of the pixels that the kernel computes at a time.
    """
    divisors = [d for d in range(1, _BAND_CHANNELS + 1) if in_channels % d == 0]
    block = max(divisors, key=lambda d: (d % _WORD == 0, d))

    def band_width(tile: int) -> int:
        return (tile - 1) * window.w.stride + window.w.span

    tile = window.w.out_size
    while tile > _PIXEL_BLOCK and window.h.filter_size * band_width(tile) * block > _BAND_BYTES:
        tile = (tile - 1) // _PIXEL_BLOCK * _PIXEL_BLOCK
    return {"block": block, "tile_w": tile, "band_w": band_width(tile)}


DEPTHWISE_CONV_2D = OpDef(_infer, _reference, _emit, check=_check)
