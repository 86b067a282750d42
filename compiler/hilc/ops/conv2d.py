"""CONV_2D over NHWC images with weights ``[O, filter_h, filter_w, I]``.

Attributes: ``stride_h``, ``stride_w``, ``dilation_h``, ``dilation_w``, ``padding``
(:mod:`hilc.ops.geometry`), ``activation``.
"""

from __future__ import annotations

from collections.abc import Sequence

from hilc.ir import Array, Node, Tensor
from hilc.lowering import families, small
from hilc.lowering.kernels import FieldValue, KernelCall, kernels
from hilc.ops import geometry, linear
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import invalid, quantization, unsupported
from hilc.target import Cpu


def layer_operands(
    node: Node, ins: Sequence[Tensor | None]
) -> tuple[linear.Operands, geometry.Window]:
    """The operands, checked, and the window that slides over the image."""
    ops = linear.operands(node, ins, rank=4, channel_axis=0)
    if len(ops.x.shape) != 4:
        invalid(node, f"has an input of shape {list(ops.x.shape)}, not of 4 dimensions")
    _, filter_h, filter_w, depth = ops.weights.shape
    channels = ops.x.shape[3]
    if channels % depth == 0 and channels != depth:
        unsupported(
            node,
            f"is a grouped convolution: {channels} input channels for filters of {depth}",
            "split the groups into convolutions of their own before the export",
        )
    if channels != depth:
        invalid(node, f"has {channels} input channels for filters of {depth}")
    return ops, geometry.window(node, ops.x.shape, filter_h, filter_w)


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    ops, window = layer_operands(node, ins)
    shape = (ops.x.shape[0], window.h.out_size, window.w.out_size, ops.weights.shape[0])
    return [(shape, ops.x.dtype)]


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    ops, _ = layer_operands(node, ins)
    if ops.x.dtype == "int8":
        linear.requantization(node, linear.channel_factors(node, ops), outs[0])


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    ops, window = layer_operands(node, ins)
    x = values[0]
    assert x is not None
    columns = ops.weight_data.reshape(ops.weights.shape[0], -1)
    is_float = ops.x.dtype == "float32"
    zero_point = 0 if is_float else quantization(node, ops.x)[1]
    rows = geometry.patches(x, window, zero_point).reshape(-1, columns.shape[1])
    if is_float:
        result: Array = linear.float_products(node, rows, columns, ops.bias_data)
    else:
        sums = linear.int8_products(rows, zero_point, columns, ops.bias_data)
        factors = linear.channel_factors(node, ops)
        result = linear.requantization(node, factors, outs[0]).apply(sums)
    return [result.reshape(outs[0].shape)]


def _emit(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], cpu: Cpu
) -> list[KernelCall]:
    ops, window = layer_operands(node, ins)
    if ops.x.dtype == "float32":
        return emit_columns(ops, window, outs[0], linear.float_fields(node, ops), 0, cpu)
    requant = linear.requantization(node, linear.channel_factors(node, ops), outs[0])
    fields = linear.int8_fields(node, ops, requant, channel_axis=0)
    return emit_columns(ops, window, outs[0], fields, quantization(node, ops.x)[1], cpu)


def emit_columns(
    ops: linear.Operands,
    window: geometry.Window,
    out: Tensor,
    channel_fields: dict[str, FieldValue],
    fill: int,
    cpu: Cpu,
) -> list[KernelCall]:
    """The kernel calls of a convolution, its output channels being columns of a matrix.

    ``channel_fields`` describe the channels, ``fill`` is what positions outside the image hold.
    """
    channels = ops.weights.shape[0]
    columns = ops.weight_data.reshape(channels, -1)
    depth = columns.shape[1]
    macs = out.size * depth
    place = window_fields(ops.x, window)
    rows = ops.x.size // depth if _windows_follow_each_other(window) else None
    is_float = ops.x.dtype == "float32"
    fast: list[KernelCall] = []
    if not is_float:
        if rows is not None:
            fast = families.matmul(cpu, rows, columns, channel_fields, macs)
        else:
            filled = {**place, "in_zero_point": fill}
            fast = families.conv2d(cpu, filled, columns, channel_fields, macs)
    few_bytes: list[KernelCall] = []
    if not is_float and rows is not None:
        few_bytes = small.matmul(rows, columns, ops.bias_data, fill, channel_fields, macs)
    elif not is_float:
        few_bytes = small.conv2d(place, columns, ops.bias_data, fill, channel_fields, macs)
    suffix = "f32" if is_float else "s8"
    weights: dict[str, FieldValue] = {"weights": linear.interleave(columns)}
    if rows is not None:
        shape: dict[str, FieldValue] = {"rows": rows, "depth": depth, "columns": channels}
        fields = {**shape, **channel_fields, **weights}
        return [*fast, KernelCall(kernels()[f"hil_matmul_{suffix}"], fields, macs=macs), *few_bytes]
    outside: dict[str, FieldValue] = {} if is_float else {"in_zero_point": fill}
    fields = {**place, "out_c": channels, **outside, **channel_fields, **weights}
    return [*fast, KernelCall(kernels()[f"hil_conv2d_{suffix}"], fields, macs=macs), *few_bytes]


def _windows_follow_each_other(window: geometry.Window) -> bool:
    """Whether the windows, one after the other, are the image itself: rows of a matrix."""
    if window.padded:
        return False
    h, w = window.h, window.w
    pixels = h.span == h.stride == w.span == w.stride == 1
    whole = h.filter_size == h.in_size and w.filter_size == w.in_size
    return pixels or whole


def window_fields(x: Tensor, window: geometry.Window) -> dict[str, FieldValue]:
    """The fields of the convolution kernels' structs that place the window over the image."""
    h, w = window.h, window.w
    return {
        "batch": x.shape[0],
        "in_h": h.in_size,
        "in_w": w.in_size,
        "in_c": x.shape[3],
        "out_h": h.out_size,
        "out_w": w.out_size,
        "filter_h": h.filter_size,
        "filter_w": w.filter_size,
        "stride_h": h.stride,
        "stride_w": w.stride,
        "dilation_h": h.dilation,
        "dilation_w": w.dilation,
        "pad_top": h.pad_before,
        "pad_left": w.pad_before,
    }


CONV_2D = OpDef(_infer, _reference, _emit, check=_check)
