"""CONV_2D over NHWC images with weights ``[O, filter_h, filter_w, I]``."""

from __future__ import annotations

from collections.abc import Sequence

from hilc.ir import Array, Node, Rounding, Tensor
from hilc.ops import geometry, linear
from hilc.ops.attributes import ConvolutionAttributes
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import invalid, quantization, unsupported
from hilc.ops.traits import Interval, Reference, Weights, WindowRows


def layer_operands(
    node: Node, ins: Sequence[Tensor | None]
) -> tuple[linear.Operands, geometry.Window]:
    """Return the operands, checked, and the window that slides over the image."""
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
    if ops.x.element.quantized:
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
    zero_point = linear.pad_value(node, ops)
    rows = geometry.patches(x, window, zero_point).reshape(-1, columns.shape[1])
    if not ops.x.element.quantized:
        result: Array = linear.float_products(node, rows, columns, ops.bias_data)
    else:
        sums = linear.integer_products(rows, zero_point, columns, ops.bias_data)
        factors = linear.channel_factors(node, ops)
        result = linear.requantization(node, factors, outs[0]).apply(sums)
    return [result.reshape(outs[0].shape)]


def _bounds(
    reference: Reference,
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Interval | None],
) -> list[Interval]:
    """Return the bounds: a sum is least where each positive weight meets the least input."""
    ops, window = layer_operands(node, ins)
    zero_point = quantization(node, ops.x)[1]
    weights = ops.weight_data.reshape(ops.weights.shape[0], -1)
    assert values[0] is not None
    low, high = (
        geometry.patches(end, window, zero_point).reshape(-1, weights.shape[1]) for end in values[0]
    )
    requant = linear.requantization(node, linear.channel_factors(node, ops), outs[0])
    return linear.product_bounds(low, high, zero_point, weights, ops.bias_data, requant, outs[0])


def _window(node: Node, ins: Sequence[Tensor | None]) -> geometry.Window:
    return layer_operands(node, ins)[1]


def _is_padded(node: Node, ins: Sequence[Tensor | None]) -> bool:
    return _window(node, ins).padded


CONV_2D = OpDef(
    _infer,
    _reference,
    _check,
    attributes=ConvolutionAttributes,
    roundings=frozenset(Rounding),
    bounds=_bounds,
    rows=WindowRows(_window),
    # Measured on vww: the kernels take channels in pairs, so that one more is faster than an odd
    # one, and smaller; up to a multiple of 4 is not.
    weights=Weights(channel_axis=0, sums=True, block=2, padded=_is_padded),
)
