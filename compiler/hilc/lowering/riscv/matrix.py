"""int8 matrix products and convolutions on RV32IM, emitted for each layer.

Three rows share two words (``kernels/riscv/rows_s8.h``), so two multiplications and two additions
serve three products. :func:`emit_tile` writes the function that multiplies six or three such rows
with all columns; the glue around it is C. What is checked here for each layer:

* sums stay below 2**30, and every shift is to the right;
* of no part of a column does a sum leave its 21 bits, whatever the inputs: parts are cut so;
* the outputs of each channel are exact for every sum (:mod:`hilc.lowering.riscv.outputs`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Rounding
from hilc.lowering.channels import padded
from hilc.lowering.kernels import KernelCall
from hilc.lowering.linear import (
    LINEAR,
    Convolution,
    LinearWeights,
    MatrixProduct,
    linear_calls,
    packed_once,
)
from hilc.lowering.parameters import HilRequantization
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.riscv import depthwise, row, winograd
from hilc.lowering.riscv.arithmetic import scale_words
from hilc.lowering.riscv.emitted import NAME, Description, EmittedParameters, emitted
from hilc.lowering.riscv.emitter import Function
from hilc.lowering.riscv.linear import (
    IMAGE_FIELDS,
    ConvParameters,
    MatmulParameters,
    kernel_text,
)
from hilc.lowering.riscv.outputs import output_of
from hilc.lowering.riscv.tile import BLOCK, SUM_SHIFT, Tile, emit_tile
from hilc.lowering.v7m.channels import require_right_shifts
from hilc.lowering.v7m.conv2d import FEW_ROWS, longest_part

#: Threes of rows of a tile: two take 27 of 28 registers, one is for few rows and little scratch.
TRIPLES = (2, 1)
ROWS_INCLUDE = "hil/kernels/riscv/rows_s8.h"
#: Instructions of the glue, which gcc compiles: of a call, of a tile, of three rows, of an element
#: of three rows; of a window and of one of its pixels.
GLUE = {"call": 40.0, "tile": 24.0, "row_three": 12.0, "widened": 11.8}
_GLUE_BYTES = 600
WINDOW_GLUE = {"window": 14.0, "window_row": 17.0, "pixel": 2.0}


_P = TypeVar("_P", bound=EmittedParameters)


@dataclass(frozen=True, eq=False)
class PackedRows:
    """Weights and scales in the order of an emitted function, and its tile."""

    weights: npt.NDArray[np.int8]
    scales: npt.NDArray[np.int32]
    tile: Tile


@lowers(
    *LINEAR,
    dtypes={"int8"},
    requires={"riscv", "mul32"},
    lacks={"zve32x", "xpulp"},
    roundings=Rounding,
)
def linear(layer: Layer) -> Iterator[KernelCall]:
    """Return the emitted kernels for a linear layer."""
    extension = "zbb" if "zbb" in layer.cpu.features else ""
    return linear_calls(
        layer,
        rows=lambda form: _matmul(form, extension),
        convolution=lambda form: _conv2d(form, extension),
        depthwise=lambda form: depthwise.depthwise(form, extension),
    )


def _matmul(form: MatrixProduct, extension: str) -> Iterable[EmittedParameters]:
    yield from row.single_rows(form, extension)
    if form.rows < FEW_ROWS:
        return
    for triples in TRIPLES:
        if (packed := _packed(form.packing, triples, extension)) is not None:
            made = _matmul_class(form.packing, triples, extension)
            yield made(rows=form.rows, scales=packed.scales, weights=packed.weights)


def _conv2d(form: Convolution, extension: str) -> Iterable[EmittedParameters]:
    yield from winograd.winograd(form, extension)
    for triples in TRIPLES:
        if (packed := _packed(form.packing, triples, extension)) is not None:
            made = _conv_class(form.packing, triples, extension)
            yield made(
                images=form.images,
                window=form.window,
                in_zero_point=form.pad_value,
                scales=packed.scales,
                weights=packed.weights,
            )


@packed_once
def _packed(layer: LinearWeights, triples: int, extension: str) -> PackedRows | None:
    """Return weights, scales and the tile; None where the kernel does not serve the layer."""
    return packed_rows(layer.matrix, layer.requantization, triples, extension)


def packed_rows(
    matrix: Array, requantization: HilRequantization, triples: int, extension: str
) -> PackedRows | None:
    """Return weights ``[columns, depth]`` as tiles of so many threes of rows take them, how their
    sums become outputs, and the tile; None where that is not exact.
    """
    channels = require_right_shifts(matrix, requantization)
    if channels is None:
        return None
    weights = channels.weights
    count, depth = weights.shape
    part = longest_part(weights, 0)
    bits = SUM_SHIFT
    if part < depth:
        largest = max(int(np.abs(end).max()) for end in channels.ends)
        bits = min(SUM_SHIFT, 31 - largest.bit_length())
    if (found := output_of(channels, bits, extension)) is None:
        return None
    output, scales = found
    tile = Tile(depth, count, triples, part, output)
    blocks = padded(weights, BLOCK).reshape(-1, BLOCK, depth).transpose(0, 2, 1)
    return PackedRows(np.ascontiguousarray(blocks).reshape(-1), scales.reshape(-1), tile)


# The kernels --------------------------------------------------------------------------------------

_ARRAYS = (
    "    const int32_t *scales; /* how the sums of each column become outputs */\n"
    "    const int8_t *weights; /* [blocks of four columns][depth][4] */\n"
)


@packed_once
def _matmul_class(layer: LinearWeights, triples: int, extension: str) -> type[MatmulParameters]:
    packed = _packed(layer, triples, extension)
    assert packed is not None
    tile = packed.tile
    struct = f"    int32_t rows; /* rows of the input, and of the output */\n{_ARRAYS}"
    widen = (
        f"        hil_riscv_widen_matrix(in, left < {tile.rows} ? left : {tile.rows}, "
        f"{tile.depth},\n                               {triples}, (uint32_t *)scratch);\n"
    )
    code = _code(
        tile, "    int32_t left = p->rows;\n", widen, f"        in += {tile.rows * tile.depth};\n"
    )
    counts = {
        "tile": f"(rows + {tile.rows - 1}) // {tile.rows}",
        "row_three": f"tile * {triples}",
        "widened": f"row_three * {tile.depth}",
    }
    return _emitted(MatmulParameters, "matmul_s8", tile, struct, code, counts, dict(GLUE), "rows")


@packed_once
def _conv_class(layer: LinearWeights, triples: int, extension: str) -> type[ConvParameters]:
    packed = _packed(layer, triples, extension)
    assert packed is not None
    tile = packed.tile
    struct = IMAGE_FIELDS + _ARRAYS
    begin = (
        "    struct hil_riscv_windows windows = HIL_RISCV_WINDOWS_OF(p, in);\n"
        "    int32_t left = p->out_h * p->out_w;\n"
    )
    gather = (
        f"        hil_riscv_gather_windows(&windows, left < {tile.rows} ? left : {tile.rows},\n"
        f"                                 {triples}, (uint32_t *)scratch);\n"
    )
    code = _code(tile, begin, gather, "", images=True)
    counts = {
        "tile": f"batch * ((out_h * out_w + {tile.rows - 1}) // {tile.rows})",
        "row_three": f"tile * {triples}",
        "window": f"tile * {tile.rows}",
        "window_row": "row_three * filter_h",
        "pixel": "window_row * filter_w",
        "widened": f"row_three * {tile.depth}",
    }
    figures = GLUE | WINDOW_GLUE
    return _emitted(ConvParameters, "conv2d_s8", tile, struct, code, counts, figures, "window")


def _code(tile: Tile, begin: str, rows: str, end: str, images: bool = False) -> str:
    """Return the emitted function and the glue around it."""
    work = tile.row_bytes
    multiply = f"{NAME}_tile((const int8_t *)scratch, p->weights, (const int8_t *)p->scales, %s);\n"
    body = (
        f"{begin}    while (left > 0) {{\n{rows}"
        f"        if (left >= {tile.rows}) {{\n            {multiply % 'out'}        }} else {{\n"
        f"            int8_t *const last = (int8_t *)scratch + {work};\n"
        f"            {multiply % 'last'}"
        f"            memcpy(out, last, (size_t)(left * {tile.columns}));\n        }}\n{end}"
        f"        out += (left < {tile.rows} ? left : {tile.rows}) * {tile.columns};\n"
        f"        left -= {tile.rows};\n    }}\n"
    )
    return kernel_text(emit_tile(tile).text(), body, images=images)


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
    return emitted(
        parameters,
        Description(
            family="riscv",
            operator=operator,
            form=tile.form,
            requires=tile.output.features,
            scratch=str(tile.row_bytes + tile.rows * tile.columns),
            order=(("pixels", str(tile.rows)),),
            reads=reads,
            window={},
            functions=function.code_bytes,
            glue=_GLUE_BYTES,
            figures=figures | {"tile": figures["tile"] + function.instructions},
            counts=counts,
            head=_head(tile, function),
        ),
        struct,
        [ROWS_INCLUDE],
        code,
    )


def _head(tile: Tile, function: Function) -> dict[str, str]:
    products = tile.rows * tile.columns * tile.depth
    parts = -(-tile.depth // tile.part)
    return {
        "Tile": f"{tile.rows} rows x {BLOCK} columns x 1 element of depth, for all "
        f"{tile.columns} columns and a depth of {tile.depth}.",
        "Registers": f"{4 * 2 * tile.triples} words of sums, {2 * tile.triples} of rows, two "
        "weights, two products, three addresses; given out by the emitter.",
        "Data": "rows: words in scratch, [depth][threes of rows][x, y], by hil_riscv_widen; "
        "weights: int8 [blocks of four columns][depth][4], the last filled up with zeros, packed "
        f"by _packed(); scales: int32 [column][{scale_words(tile.output)}], by scales_of().",
        "Order": f"{tile.rows} rows are read whole, then their outputs are written. What is "
        "missing of the last rows is the last one again, whose outputs are not copied.",
        "Bounds": f"Of each part of a column -2^20 <= sum < 2^20 for all inputs: longest_part() "
        f"cuts the depth into {parts} of at most {tile.part}. Scaled by 2^{tile.output.bits}, the "
        "sums of all parts are below 2^31.",
        "Output": tile.output.text,
        "Scratch": f"{tile.row_bytes} bytes of words, and outputs of rows that are missing.",
        "Cost": f"Counted by the emitter: {function.instructions:.0f} instructions a call, "
        f"{function.instructions / products:.3f} a MAC.",
        "Tests": "tests/board/test_riscv_kernels.py, tests/c/test_riscv_kernels.py: the C form is "
        "the same list of instructions.",
    }
