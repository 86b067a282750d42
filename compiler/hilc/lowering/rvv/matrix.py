"""Matrix products and convolutions with RISC-V's vectors (Zve32x), emitted for each layer.

Inputs are int8, or int16 with int8 weights.

The elements of a vector are channels of the output. A row's value, a scalar, is multiplied with the
weights of its element of depth in all of them, widened to int16, and added to sums of int32. What
is checked here for each layer:

* int8: sums stay below 2**30, and every shift is to the right; the outputs of each channel are
  exact for every sum (:mod:`hilc.lowering.riscv.outputs`);
* int16: sums fit 32 bits, and are rounded as :mod:`hilc.lowering.riscv.wide` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from hilc.ir import Rounding
from hilc.lowering.kernels import KernelCall
from hilc.lowering.linear import (
    LINEAR,
    Convolution,
    LinearWeights,
    MatrixProduct,
    WideRequantization,
    linear_calls,
    packed_once,
)
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.riscv.arithmetic import scale_words
from hilc.lowering.riscv.emitted import NAME, Description, EmittedParameters, emitted
from hilc.lowering.riscv.emitter import LARGEST_OFFSET, ZERO, Register
from hilc.lowering.riscv.linear import (
    IMAGE_FIELDS,
    ConvParameters,
    MatmulParameters,
    kernel_text,
)
from hilc.lowering.riscv.outputs import Output, output_of
from hilc.lowering.riscv.wide import WideOutput, wide_output_of
from hilc.lowering.rvv import depthwise
from hilc.lowering.rvv.emitter import (
    VectorFunction,
    blocks_of,
    bounds_text,
    emit_advance,
    emit_outputs,
    emit_wide_outputs,
)
from hilc.lowering.v7m.channels import require_right_shifts

#: Rows of a tile: their sums take eight registers each, and signed outputs sixteen others.
_ROWS, _SIGNED_ROWS = 3, 2
#: Elements of depth of a turn of the loop.
_TURN = 8
#: Bits by which sums are scaled, at most.
_MOST_BITS = 13
#: The first registers of widened weights, and of weights before that: the upper half of these.
_WEIGHTS, _NARROW = 24, 26
_INCLUDE = "hil/kernels/rvv/rows_s8.h"
#: Instructions of the glue, which gcc compiles: of a call, of a tile; of a row of the
#: filter under a window.
_GLUE = {"call": 40.0, "tile": 30.0}
_WINDOW_GLUE = {"window_row": 34.0}


_P = TypeVar("_P", bound=EmittedParameters)
_T = TypeVar("_T", bound=np.generic)


@dataclass(frozen=True)
class Tile:
    """What the emitted function is specialised for."""

    depth: int
    columns: int
    rows: int
    output: Output | WideOutput

    @property
    def element(self) -> int:
        """Bytes of an input, and of an output."""
        return 2 if isinstance(self.output, WideOutput) else 1

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of inputs."""
        return self.element * self.depth

    @property
    def out_bytes(self) -> int:
        """Bytes of a row of outputs."""
        return self.element * self.columns

    @property
    def dtype(self) -> str:
        """C type of inputs and outputs."""
        return f"int{8 * self.element}_t"

    @property
    def form(self) -> str:
        """Form of the variant."""
        return f"{self.rows}_row{'s' if self.rows > 1 else ''}"


@dataclass(frozen=True, eq=False)
class _Packed:
    weights: npt.NDArray[np.int8]
    scales: npt.NDArray[np.int32]
    output: Output | WideOutput


@lowers(*LINEAR, dtypes={"int8", "int16"}, requires={"zve32x"}, roundings=Rounding)
def linear(layer: Layer) -> Iterator[KernelCall]:
    """Return the emitted kernels for a linear layer."""
    return linear_calls(layer, rows=_matmul, convolution=_conv2d, depthwise=depthwise.depthwise)


def _matmul(form: MatrixProduct) -> Iterable[EmittedParameters]:
    packed = _packed(form.packing)
    if packed is not None:
        made = _matmul_class(form.packing, min(form.rows, _most_rows(packed)))
        yield made(rows=form.rows, scales=packed.scales, weights=packed.weights)


def _conv2d(form: Convolution) -> Iterable[EmittedParameters]:
    packed = _packed(form.packing)
    if packed is not None:
        made = _conv_class(form.packing)
        yield made(
            images=form.images,
            window=form.window,
            in_zero_point=form.pad_value,
            scales=packed.scales,
            weights=packed.weights,
        )


def _most_rows(packed: _Packed) -> int:
    signed = isinstance(packed.output, Output) and packed.output.signed
    return _SIGNED_ROWS if signed else _ROWS


@packed_once
def _packed(layer: LinearWeights) -> _Packed | None:
    """Return weights and scales; None where the kernel does not serve the layer."""
    if isinstance(layer.outputs, WideRequantization):
        if (wide := wide_output_of(layer, "zve32x")) is None:
            return None
        return _Packed(_transposed(layer.matrix), _transposed(wide[1]), wide[0])
    channels = require_right_shifts(layer.matrix, layer.requantization)
    if channels is None:
        return None
    largest = max(int(np.abs(end).max()) for end in channels.ends)
    found = output_of(channels, min(_MOST_BITS, 31 - largest.bit_length()), "zve32x")
    if found is None:
        return None
    output, scales = found
    return _Packed(_transposed(channels.weights), _transposed(scales), output)


def _transposed(matrix: npt.NDArray[_T]) -> npt.NDArray[_T]:
    return np.ascontiguousarray(matrix.T).reshape(-1)


# The functions ------------------------------------------------------------------------------------


def emit_copy() -> VectorFunction:
    """Return the function that copies bytes."""
    f = VectorFunction(f"{NAME}_copy", [("from", "read"), ("to", "write"), ("bytes", "word")])
    source, to, count = f.arguments
    length = f.word("length")
    with f.loop(1, count, ZERO, always=True):
        f.length(length, count, 1)
        f.load_vector(0, 1, source)
        f.add_to(source, length)
        f.operate("sub", count, count, length)
        f.store_vector(0, 1, to)
        f.add_to(to, length)
    return f


def emit_tile(tile: Tile) -> VectorFunction:
    """Return the function that multiplies a tile's rows with all columns."""
    outs = [(f"out{r}", "write") for r in range(tile.rows)]
    f = VectorFunction(
        f"{NAME}_tile", [("rows", "read"), ("weights", "read"), ("scales", "read"), *outs]
    )
    rows, weights, scales, *places = f.arguments
    left, length = f.word("left"), f.word("length")
    turn_bytes = _TURN * tile.element
    apart = (tile.rows - 1) * tile.row_bytes + turn_bytes > LARGEST_OFFSET
    others = [f.address(f"row{r}") for r in range(1, tile.rows)] if apart else []
    bases = [rows, *others]
    at, x = f.address("weight"), f.words("x", tile.rows)
    end = f.address("end")
    f.round_down()
    f.constant(left, tile.columns)
    turns, rest = divmod(tile.depth, _TURN)
    for r, other in enumerate(others, start=1):
        f.distance(other, rows, r * tile.row_bytes)
    if turns > 2:
        f.distance(end, rows, turns * turn_bytes)
    with f.loop(blocks_of(tile.columns), left, ZERO, always=True):
        f.length(length, left, 2)
        f.move(at, weights)
        begun = False
        if turns:
            # The first turn begins the sums.
            begun = True
            _emit_elements(f, tile, bases, at, x, _TURN, True)
            if turns > 1:
                with f.loop(turns - 1, rows, end):
                    _emit_elements(f, tile, bases, at, x, _TURN, False)
        _emit_elements(f, tile, bases, at, x, rest, not begun)
        for base in bases:
            f.step(base, -tile.row_bytes, x[0])
        sums = [8 * r for r in range(tile.rows)]
        if isinstance(tile.output, WideOutput):
            emit_wide_outputs(f, tile.output, tile.columns, sums, scales, places)
        else:
            emit_outputs(f, tile.output, tile.columns, sums, scales, places)
        f.operate("sub", left, left, length)
        emit_advance(f, length, [(1, [weights]), (tile.element, places), (4, [scales])])
    return f


def _emit_elements(
    f: VectorFunction,
    tile: Tile,
    bases: list[Register],
    weights: Register,
    x: list[Register],
    count: int,
    begin: bool,
) -> None:
    for index in range(count):
        f.load_vector(_NARROW, 1, weights)
        f.step(weights, tile.columns, x[0])
        f.widen(_WEIGHTS, _NARROW)
        for r, value in enumerate(x):
            base, offset = (bases[r], 0) if len(bases) > 1 else (bases[0], r * tile.row_bytes)
            load = "lb" if tile.element == 1 else "lh"
            f.load(load, value, offset + tile.element * index, base)
        for r, value in enumerate(x):
            f.multiply(8 * r, _WEIGHTS, value, begin and index == 0)
    for base in bases:
        f.advance(base, tile.element * count)


# The kernels --------------------------------------------------------------------------------------

_ARRAYS = (
    "    const int32_t *scales; /* multipliers of all columns, then constants, then places */\n"
    "    const int8_t *weights; /* [depth][columns] */\n"
)


def _tile(layer: LinearWeights, rows: int) -> Tile:
    packed = _packed(layer)
    assert packed is not None
    return Tile(layer.depth, layer.channels, min(rows, _most_rows(packed)), packed.output)


@packed_once
def _matmul_class(layer: LinearWeights, rows: int) -> type[MatmulParameters]:
    tile = _tile(layer, rows)
    struct = f"    int32_t rows; /* rows of the input, and of the output */\n{_ARRAYS}"
    copy = (
        f"        {NAME}_copy(in, (int8_t *)scratch, (uint32_t)(count * {tile.row_bytes}));\n"
        f"        in += {tile.rows * tile.row_bytes};\n"
    )
    functions = f"{emit_copy().text()}\n{emit_tile(tile).text()}"
    code = _code(tile, functions, "    int32_t left = p->rows;\n", copy)
    figures = _GLUE | {"copied": 7 / COPIED_BYTES}
    counts = {
        "tile": f"(rows + {tile.rows - 1}) // {tile.rows}",
        "copied": f"rows * {tile.row_bytes}",
    }
    return _emitted(MatmulParameters, "matmul", tile, struct, code, counts, figures, "rows")


#: Bytes that the copy takes in a turn of its loop.
COPIED_BYTES = 32


@packed_once
def _conv_class(layer: LinearWeights) -> type[ConvParameters]:
    tile = _tile(layer, _ROWS)
    struct = IMAGE_FIELDS + _ARRAYS
    # Windows consist of bytes.
    windows = f"    windows.in_c *= {tile.element};\n" if tile.element > 1 else ""
    begin = (
        "    struct hil_rvv_windows windows = HIL_RVV_WINDOWS_OF(p);\n"
        f"{windows}    int32_t left = p->out_h * p->out_w;\n"
    )
    gather = (
        f"        hil_rvv_gather(&windows, in, count, {tile.row_bytes}, {NAME}_copy,\n"
        "                       (int8_t *)scratch);\n"
    )
    functions = f"{emit_copy().text()}\n{emit_tile(tile).text()}"
    code = _code(tile, functions, begin, gather, images=True)
    counts = {
        "tile": f"batch * ((out_h * out_w + {tile.rows - 1}) // {tile.rows})",
        "window_row": "batch * out_h * out_w * filter_h",
    }
    figures = _GLUE | _WINDOW_GLUE
    return _emitted(ConvParameters, "conv2d", tile, struct, code, counts, figures, "window")


def _code(tile: Tile, functions: str, begin: str, rows: str, images: bool = False) -> str:
    """Return the emitted functions and the glue around them."""
    outs = "".join(
        f",\n            {r} < count ? out + {r * tile.out_bytes} : out"
        for r in range(1, tile.rows)
    )
    body = (
        f"{begin}    while (left > 0) {{\n"
        f"        const int32_t count = left < {tile.rows} ? left : {tile.rows};\n{rows}"
        f"        {NAME}_tile((const int8_t *)scratch, p->weights, (const int8_t *)p->scales, out"
        f"{outs});\n"
        f"        out += count * {tile.out_bytes};\n        left -= count;\n    }}\n"
    )
    return kernel_text(functions, body, images=images, dtype=tile.dtype, element=tile.element)


def _emitted(
    parameters: type[_P],
    operator: str,
    tile: Tile,
    struct: str,
    code: str,
    counts: dict[str, str],
    figures: dict[str, float],
    reads: str,
) -> type[_P]:
    function = emit_tile(tile)
    products = tile.rows * tile.columns * tile.depth
    return emitted(
        parameters,
        Description(
            family="rvv",
            operator=f"{operator}_s{8 * tile.element}",
            form=tile.form,
            requires=frozenset({"zve32x"}),
            scratch=str(tile.rows * tile.row_bytes),
            order=(("pixels", str(tile.rows)),),
            reads=reads,
            window={},
            code=function.code_bytes + 500,
            figures=figures | {"tile": figures["tile"] + function.instructions},
            counts=counts,
            head={
                "Tile": f"{tile.rows} rows x as many columns as a group of eight vector registers "
                f"has words, for all {tile.columns} columns and a depth of {tile.depth}.",
                "Registers": "sums: eight vector registers a row from v0 on; weights: v24 to v27, "
                "loaded into the upper half of these; scales: v24 to v31.",
                "Data": f"rows in scratch, int{8 * tile.element} [row][depth]; weights int8 "
                f"[depth][columns]; scales int32 [{scale_words(tile.output)}][columns], packed by "
                "_packed().",
                "Order": f"{tile.rows} rows are copied to scratch, then their outputs are written, "
                "the last row first: what is missing of the last rows is written to the place of "
                "the first, and overwritten.",
                "Bounds": bounds_text(tile.output),
                "Output": f"{tile.output.text} The narrowing shifts round down and saturate.",
                "Scratch": f"{tile.rows * tile.row_bytes} bytes.",
                "Cost": f"Counted by the emitter for registers of 128 bits: "
                f"{function.instructions:.0f} instructions a call, "
                f"{function.instructions / products:.3f} a MAC.",
                "Tests": "tests/board/test_riscv_kernels.py, tests/c/test_riscv_kernels.py: the C "
                "form is the same list of instructions.",
            },
            dtype=tile.dtype,
        ),
        struct,
        [_INCLUDE],
        code,
    )
