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
    rows = attributes.rows_of(x)
    parameters = HilGenericDynamicQuantizeF32(
        rows=rows, depth=x.size // rows, definition=_FORMS[attributes.form]
    )
    return KernelCall(parameters)


@lowers(*OPERATORS)
def portable(layer: Layer) -> KernelCall:
    """Return the kernel of exact sums on any core."""
    form = sums_form(layer)
    if form.is_narrow:
        return form.call(
            HilGenericIntegerSumsS8(
                integer_sums=form.sums,
                window=form.window,
                weights=interleave(form.matrix),
                totals=form.totals,
            )
        )
    narrow = form.matrix.itemsize == 1
    kind = HilGenericIntegerSumsS8Groups if narrow else HilGenericIntegerSumsS8S16
    parameters = kind(
        integer_sums=form.sums,
        window=form.window,
        groups=form.groups,
        weights=form.matrix.reshape(-1),
        totals=form.totals,
    )
    return form.call(parameters)
