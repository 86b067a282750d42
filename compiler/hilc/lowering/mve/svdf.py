"""SVDF: features as columns of a vector's product, moments a vector at a time."""

from __future__ import annotations

from collections.abc import Iterator

from hilc.lowering.kernels import KernelCall
from hilc.lowering.mve.packing import CHUNK, VECTOR_COLUMNS, wide_groups
from hilc.lowering.parameters import HilMveSvdf, HilMveSvdfS8StateS8, HilMveSvdfS8StateS16
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.svdf import TENSORS, svdf_form
from hilc.numerics.requantize import FixedPoint


@lowers("SVDF", dtypes={"int8"}, requires={"mve"})
def integers(layer: Layer) -> Iterator[KernelCall]:
    """Return the family's kernel."""
    form = svdf_form(layer)
    factor = FixedPoint(form.scales.feature_multiplier, form.scales.feature_shift)
    stream = wide_groups(form.features, form.offsets, [factor], form.bound)
    if stream is None:
        return
    common = HilMveSvdf(
        svdf=form.shape,
        svdf_scales=form.scales,
        chunks=-(-form.shape.depth // CHUNK),
        eights=-(-len(form.features) // VECTOR_COLUMNS),
        stream=stream,
        bias=form.bias,
    )
    kernel = HilMveSvdfS8StateS16 if form.wide_state else HilMveSvdfS8StateS8
    yield KernelCall(kernel(mve_svdf=common, moments=form.moments), TENSORS, form.macs)
