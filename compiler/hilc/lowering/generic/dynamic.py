"""DYNAMIC_QUANTIZE, MATMUL_INTEGER and CONV_INTEGER on any core."""

from __future__ import annotations

from hilc.lowering.integer_sums import OPERATORS, sums_form
from hilc.lowering.kernels import KernelCall
from hilc.lowering.linear import interleave
from hilc.lowering.parameters import (
    HilGenericDynamicQuantizeF32,
    HilGenericIntegerSumsS8,
    HilGenericIntegerSumsS8Groups,
    HilGenericIntegerSumsS8S16,
)
from hilc.lowering.registry import Layer, lowers
from hilc.ops.dynamic import DynamicQuantizeAttributes

#: The numbers of forms in ``dynamic_quantize.h``.
_FORMS = {"onnx": 0, "asymmetric": 1, "symmetric": 2}


@lowers("DYNAMIC_QUANTIZE")
def quantize(layer: Layer) -> KernelCall:
    """Return the call that quantizes rows of floats by their ranges."""
    attributes, x = DynamicQuantizeAttributes.of(layer.node), layer.operand(0)
    return KernelCall(
        HilGenericDynamicQuantizeF32(
            rows=attributes.rows, depth=x.size // attributes.rows, definition=_FORMS[attributes.form]
        )
    )


@lowers(*OPERATORS)
def portable(layer: Layer) -> KernelCall:
    """Return the kernel of exact sums on any core."""
    form = sums_form(layer)
    shared = {"integer_sums": form.sums, "window": form.window, "totals": form.totals}
    if form.matrix.dtype == "int8" and form.groups == 1:
        return form.call(HilGenericIntegerSumsS8(weights=interleave(form.matrix), **shared))
    wide = form.matrix.dtype == "int16"
    kind = HilGenericIntegerSumsS8S16 if wide else HilGenericIntegerSumsS8Groups
    return form.call(kind(groups=form.groups, weights=form.matrix.reshape(-1), **shared))
