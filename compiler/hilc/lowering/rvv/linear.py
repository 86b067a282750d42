"""Matrix products and convolutions with vectors: which layers the tiles of
:mod:`hilc.lowering.rvv.matrix` serve, as they are or in parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from hilc.ir import Array, Rounding
from hilc.lowering.kernels import KernelCall
from hilc.lowering.linear import LINEAR, Convolution, MatrixProduct, linear_calls
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.riscv import parts
from hilc.lowering.riscv.emitted import EmittedParameters
from hilc.lowering.riscv.linear import Runs, padded_rows
from hilc.lowering.riscv.wide import PartialSums
from hilc.lowering.riscv.wide_matrix import has_integers
from hilc.lowering.rvv import depthwise
from hilc.lowering.rvv.emitter import VectorFunction
from hilc.lowering.rvv.matrix import (
    COPIED_BYTES,
    ROWS,
    Tile,
    conv_class,
    emit_tile,
    matmul_class,
    most_rows,
    packed_weights,
    padded_class,
    transposed,
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
    elif has_integers(form.packing):
        yield from parts.matmul(form, _PARTS)


def _conv2d(form: Convolution) -> Iterable[EmittedParameters]:
    packed = packed_weights(form.packing)
    if packed is None:
        if has_integers(form.packing):
            yield from parts.conv2d(form, _PARTS)
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


def _emit_part(part: parts.Part) -> VectorFunction:
    run = _WIDE * part.depth
    runs = Runs(1, run, run, _WIDE * part.pitch)
    return emit_tile(
        Tile(part.depth, part.columns, part.rows, runs, PartialSums("zve32x"), part.suffix)
    )


def _packed_part(matrix: Array, single: bool) -> Array:
    del single
    return transposed(matrix)


#: Bytes of an element of int16.
_WIDE = 2
_PARTS = parts.Family(
    name="rvv",
    features=frozenset({"zve32x"}),
    include="hil/rvv.h",
    rows=ROWS,
    emit=_emit_part,
    pack=_packed_part,
    apart=True,
    gathered=28 / COPIED_BYTES,
)
