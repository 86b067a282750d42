"""SVDF."""

from __future__ import annotations

import numpy as np

from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilGenericSvdfF32,
    HilGenericSvdfS8StateS8,
    HilGenericSvdfS8StateS16,
    HilSvdfS8,
)
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.svdf import TENSORS, constant, svdf_form, svdf_shape
from hilc.ops.operands import ACTIVATION_RANGES
from hilc.ops.svdf import SvdfAttributes


@lowers("SVDF", dtypes={"float32"})
def floats(layer: Layer) -> KernelCall:
    """Return the kernel of any core for floats."""
    shape, macs = svdf_shape(layer)
    low, high = ACTIVATION_RANGES[SvdfAttributes.of(layer.node).activation]
    bias = np.zeros(shape.units, np.float32) if layer.ins[3] is None else constant(layer, 3)
    parameters = HilGenericSvdfF32(
        svdf=shape,
        low=low,
        high=high,
        weights=constant(layer, 1).reshape(-1),
        moments=constant(layer, 2).reshape(-1),
        bias=bias,
    )
    return KernelCall(parameters, TENSORS, macs)


@lowers("SVDF", dtypes={"int8"})
def integers(layer: Layer) -> KernelCall:
    """Return the kernel of any core for int8."""
    form = svdf_form(layer)
    narrow = HilSvdfS8(
        svdf_scales=form.scales,
        weights=form.features.reshape(-1),
        offsets=form.offsets.astype(np.int32),
        bias=form.bias,
    )
    kernel = HilGenericSvdfS8StateS16 if form.wide_state else HilGenericSvdfS8StateS8
    parameters = kernel(svdf=form.shape, svdf_s8=narrow, moments=form.moments)
    return KernelCall(parameters, TENSORS, form.macs)
