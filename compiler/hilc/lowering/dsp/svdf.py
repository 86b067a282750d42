"""SVDF: four filters at a time, two moments or four."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hilc.lowering.channels import padded
from hilc.lowering.dsp.packing import (
    UNIT,
    VECTOR_BLOCK,
    fits_pairs,
    paired_blocks,
)
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilDspSvdf, HilDspSvdfS8StateS8, HilDspSvdfS8StateS16
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.svdf import TENSORS, svdf_form


@lowers("SVDF", dtypes={"int8"}, requires={"dsp"}, lacks={"mve"})
def integers(layer: Layer) -> Iterator[KernelCall]:
    """Return the family's kernel."""
    form = svdf_form(layer)
    blocks = paired_blocks(padded(form.features, VECTOR_BLOCK), padded(form.offsets, VECTOR_BLOCK))
    if blocks is None or not fits_pairs(form.bound, [form.scales.feature_shift]):
        return
    common = HilDspSvdf(
        svdf=form.shape,
        svdf_scales=form.scales,
        groups=-(-form.shape.depth // UNIT),
        stream=np.ascontiguousarray(blocks).reshape(-1),
        bias=form.bias,
    )
    kernel = HilDspSvdfS8StateS16 if form.wide_state else HilDspSvdfS8StateS8
    yield KernelCall(kernel(dsp_svdf=common, moments=form.moments), TENSORS, form.macs)
