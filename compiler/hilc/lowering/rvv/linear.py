"""Matrix products and convolutions with vectors: which layers the tiles of
:mod:`hilc.lowering.rvv.matrix` serve.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from hilc.ir import Rounding
from hilc.lowering.kernels import KernelCall
from hilc.lowering.linear import LINEAR, Convolution, MatrixProduct, linear_calls
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.riscv.emitted import EmittedParameters
from hilc.lowering.riscv.linear import padded_rows
from hilc.lowering.rvv import depthwise
from hilc.lowering.rvv.matrix import (
    conv_class,
    matmul_class,
    most_rows,
    packed_weights,
    padded_class,
)


@lowers(*LINEAR, dtypes={"int8", "int16"}, requires={"zve32x"}, roundings=Rounding)
def linear(layer: Layer) -> Iterator[KernelCall]:
    """Return the emitted kernels for a linear layer."""
    return linear_calls(layer, rows=_matmul, convolution=_conv2d, depthwise=depthwise.depthwise)


def _matmul(form: MatrixProduct) -> Iterable[EmittedParameters]:
    packed = packed_weights(form.packing)
    if packed is not None:
        made = matmul_class(form.packing, min(form.rows, most_rows(packed)))
        yield made(rows=form.rows, scales=packed.scales, weights=packed.weights)


def _conv2d(form: Convolution) -> Iterable[EmittedParameters]:
    packed = packed_weights(form.packing)
    if packed is None:
        return
    classes = [conv_class(form.packing)]
    if (rows := padded_rows(form)) is not None:
        # Its columns consist of bytes.
        rows = replace(rows, in_c=packed.element * rows.in_c)
        classes.insert(0, padded_class(form.packing, rows))
    for made in classes:
        yield made(
            images=form.images,
            window=form.window,
            in_zero_point=form.pad_value,
            scales=packed.scales,
            weights=packed.weights,
        )
