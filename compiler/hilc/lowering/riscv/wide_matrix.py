"""Matrix products and convolutions of int16 and float32: which layers the tiles of
:mod:`hilc.lowering.riscv.columns` serve, as they are or in parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from hilc.ir import Rounding
from hilc.lowering.kernels import KernelCall
from hilc.lowering.linear import (
    LINEAR,
    Convolution,
    LinearWeights,
    MatrixProduct,
    WideRequantization,
    linear_calls,
)
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.riscv import depthwise, parts
from hilc.lowering.riscv.columns import (
    BLOCK,
    SINGLE_BLOCK,
    Tile,
    conv_class,
    emit_tile,
    in_blocks,
    matmul_class,
    packed_columns,
)
from hilc.lowering.riscv.emitted import EmittedParameters
from hilc.lowering.riscv.emitter import Function
from hilc.lowering.riscv.wide import PartialSums


@lowers(
    *LINEAR,
    dtypes={"int16"},
    requires={"riscv", "mul32"},
    lacks={"zve32x"},
    roundings={Rounding.SINGLE, Rounding.NEAREST_EVEN},
)
def wide(layer: Layer) -> Iterator[KernelCall]:
    """Return the emitted kernels for a linear layer of int16."""
    return _calls(layer)


@lowers(*LINEAR, dtypes={"float32"}, requires={"riscv", "fpu"})
def floats(layer: Layer) -> Iterator[KernelCall]:
    """Return the emitted kernels for a linear layer of float32."""
    return _calls(layer)


def _calls(layer: Layer) -> Iterator[KernelCall]:
    features = layer.cpu.features
    extension = next((name for name in ("zbb", "xpulp") if name in features), "")
    return linear_calls(
        layer,
        rows=lambda form: _matmul(form, extension),
        convolution=lambda form: _conv2d(form, extension),
        depthwise=lambda form: depthwise.depthwise(form, extension),
    )


def _matmul(form: MatrixProduct, extension: str) -> Iterator[EmittedParameters]:
    single = form.rows == 1
    if (packed := packed_columns(form.packing, extension, single)) is not None:
        made = matmul_class(form.packing, extension, single)
        yield made(rows=form.rows, scales=packed.scales, weights=packed.weights)
    elif has_integers(form.packing):
        yield from parts.matmul(form, _parts_family(extension))


def _conv2d(form: Convolution, extension: str) -> Iterator[EmittedParameters]:
    if (packed := packed_columns(form.packing, extension, False)) is not None:
        made = conv_class(form.packing, extension)
        yield made(
            images=form.images,
            window=form.window,
            scales=packed.scales,
            weights=packed.weights,
        )
    elif has_integers(form.packing):
        yield from parts.conv2d(form, _parts_family(extension))


def has_integers(layer: LinearWeights) -> bool:
    """Whether a layer of the two types has int16."""
    return isinstance(layer.outputs, WideRequantization)


@cache
def _parts_family(extension: str) -> parts.Family:
    output = PartialSums(extension)

    def block(single: bool) -> int:
        return SINGLE_BLOCK if single else BLOCK

    def emit(part: parts.Part) -> Function:
        return emit_tile(
            Tile(
                part.depth, part.columns, part.rows, block(part.single), output, part.suffix,
                part.pitch,
            )
        )  # fmt: skip

    return parts.Family(
        name="riscv",
        features=output.features,
        include="hil/riscv.h",
        rows=parts.MOST_ROWS,
        emit=emit,
        pack=lambda matrix, single: in_blocks(matrix, block(single)),
        apart=False,
        gathered=5.0,
    )
