"""Matrix products and convolutions of int16 and float32: which layers the tiles of
:mod:`hilc.lowering.riscv.columns` serve.
"""

from __future__ import annotations

from collections.abc import Iterator

from hilc.ir import Rounding
from hilc.lowering.kernels import KernelCall
from hilc.lowering.linear import LINEAR, Convolution, MatrixProduct, linear_calls
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.riscv import depthwise
from hilc.lowering.riscv.columns import conv_class, matmul_class, packed_columns
from hilc.lowering.riscv.emitted import EmittedParameters


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


def _conv2d(form: Convolution, extension: str) -> Iterator[EmittedParameters]:
    if (packed := packed_columns(form.packing, extension, False)) is not None:
        made = conv_class(form.packing, extension)
        yield made(
            images=form.images,
            window=form.window,
            scales=packed.scales,
            weights=packed.weights,
        )
