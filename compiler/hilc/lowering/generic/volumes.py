"""CONV_3D."""

from __future__ import annotations

from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilGenericConv3dF32
from hilc.lowering.registry import Layer, lowers
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.conv3d import layer_operands
from hilc.ops.operands import ACTIVATION_RANGES


@lowers("CONV_3D")
def convolution(layer: Layer) -> KernelCall:
    """Return the call of a convolution of volumes."""
    ops, (d, h, w) = layer_operands(layer.node, layer.ins)
    low, high = ACTIVATION_RANGES[ActivationAttributes.of(layer.node).activation]
    parameters = HilGenericConv3dF32(
        batch=ops.x.shape[0],
        in_d=d.in_size,
        in_h=h.in_size,
        in_w=w.in_size,
        in_c=ops.x.shape[4],
        out_d=d.out_size,
        out_h=h.out_size,
        out_w=w.out_size,
        out_c=layer.out.shape[4],
        filter_d=d.filter_size,
        filter_h=h.filter_size,
        filter_w=w.filter_size,
        stride_d=d.stride,
        stride_h=h.stride,
        stride_w=w.stride,
        dilation_d=d.dilation,
        dilation_h=h.dilation,
        dilation_w=w.dilation,
        pad_front=d.pad_before,
        pad_top=h.pad_before,
        pad_left=w.pad_before,
        out_min=low,
        out_max=high,
        bias=ops.bias_data,
        weights=ops.weight_data.transpose(4, 0, 1, 2, 3).reshape(-1),
    )
    macs = layer.out.size * ops.weight_data[..., 0].size
    return KernelCall(parameters, macs=macs)
