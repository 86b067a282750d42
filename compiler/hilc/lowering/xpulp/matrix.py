"""int8 matrix products and convolutions with CV32E40P's instructions, emitted for each layer.

One instruction adds four products of int8 to a sum of int32. Four rows lie in scratch, each filled
up to whole words; the weights of four columns lie next to each other. What is checked here for each
layer:

* sums stay below 2**30, and every shift is to the right;
* the outputs of each channel are exact for every sum (:mod:`hilc.lowering.riscv.outputs`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from hilc.ir import Rounding
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
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.riscv import depthwise
from hilc.lowering.riscv.arithmetic import scale_words
from hilc.lowering.riscv.emitted import NAME, Description, EmittedParameters, emitted
from hilc.lowering.riscv.linear import (
    IMAGE_FIELDS,
    ConvParameters,
    MatmulParameters,
    PaddedRows,
    Runs,
    kernel_text,
    padded_rows,
)
from hilc.lowering.riscv.outputs import Output, output_of
from hilc.lowering.v7m.channels import require_right_shifts
from hilc.lowering.xpulp.tile import (
    BLOCK,
    ROWS,
    SINGLE_ROW_BLOCK,
    WORD,
    Tile,
    emit_copy,
    emit_gathered_copy,
    emit_tile,
)

#: Bits by which sums are scaled, at most.
_MOST_BITS = 13
_INCLUDE = "hil/kernels/rvv/rows_s8.h"
#: Instructions of the glue, which gcc compiles: of a call, of a tile; of the filter's rows under a
#: window, and of each word that is gathered.
_GLUE = {"call": 40.0, "tile": 30.0}
_WINDOW_GLUE = {"window_row": 34.0, "word": 5.0}
#: Instructions for a word that is copied.
_COPIED_WORD = 5


_P = TypeVar("_P", bound=EmittedParameters)


@dataclass(frozen=True, eq=False)
class _Packed:
    weights: npt.NDArray[np.int8]
    scales: npt.NDArray[np.int32]
    output: Output


@lowers(*LINEAR, dtypes={"int8"}, requires={"xpulp"}, roundings=Rounding)
def linear(layer: Layer) -> Iterator[KernelCall]:
    """Return the emitted kernels for a linear layer."""
    return linear_calls(
        layer,
        rows=_matmul,
        convolution=_conv2d,
        depthwise=lambda form: depthwise.depthwise(form, "xpulp"),
    )


def _matmul(form: MatrixProduct) -> Iterable[EmittedParameters]:
    rows = min(form.rows, ROWS)
    packed = _packed(form.packing, block=_block(rows))
    if packed is not None:
        made = _matmul_class(form.packing, rows)
        yield made(rows=form.rows, scales=packed.scales, weights=packed.weights)


def _conv2d(form: Convolution) -> Iterable[EmittedParameters]:
    for rows in dict.fromkeys((padded_rows(form), None)):
        packed = _packed(form.packing, 1 if rows is None else rows.filter_h)
        if packed is None:
            continue
        made = _conv_class(form.packing) if rows is None else _padded_class(form.packing, rows)
        if made is not None:
            yield made(
                images=form.images,
                window=form.window,
                in_zero_point=form.pad_value,
                scales=packed.scales,
                weights=packed.weights,
            )


@packed_once
def _packed(layer: LinearWeights, runs: int = 1, block: int = BLOCK) -> _Packed | None:
    """Return weights of so many runs, in blocks of so many columns, and scales; None where the
    kernel does not serve the layer.
    """
    channels = require_right_shifts(layer.matrix, layer.requantization)
    if channels is None:
        return None
    largest = max(int(np.abs(end).max()) for end in channels.ends)
    found = output_of(channels, min(_MOST_BITS, 31 - largest.bit_length()), "xpulp")
    if found is None:
        return None
    output, scales = found
    split = channels.weights.reshape(layer.channels, runs, -1)
    filled = np.pad(split, [(0, 0), (0, 0), (0, -split.shape[2] % WORD)])
    filled = filled.reshape(layer.channels, -1)
    blocks = padded(filled, block).reshape(-1, block, filled.shape[1] // WORD, WORD)
    weights = np.ascontiguousarray(blocks.transpose(0, 2, 1, 3)).reshape(-1)
    return _Packed(weights, scales.reshape(-1), output)


# The functions ------------------------------------------------------------------------------------


# The kernels --------------------------------------------------------------------------------------

_ARRAYS = (
    "    const int32_t *scales; /* how the sums of each column become outputs */\n"
    "    const int8_t *weights; /* [blocks of columns][words of depth][columns][4] */\n"
)


def _block(rows: int) -> int:
    return SINGLE_ROW_BLOCK if rows == 1 else BLOCK


def _tile(layer: LinearWeights, rows: int) -> Tile:
    packed = _packed(layer, block=_block(rows))
    assert packed is not None
    row_bytes = WORD * -(-layer.depth // WORD)
    runs = Runs(1, row_bytes, row_bytes, row_bytes)
    return Tile(layer.depth, layer.channels, rows, runs, packed.output, _block(rows))


@packed_once
def _matmul_class(layer: LinearWeights, rows: int) -> type[MatmulParameters]:
    tile = _tile(layer, rows)
    copy = emit_copy(tile)
    struct = f"    int32_t rows; /* rows of the input, and of the output */\n{_ARRAYS}"
    rows_text = (
        "        for (int32_t i = 0; i < count; i++) {\n"
        f"            {NAME}_copy(in, (int8_t *)scratch + {tile.runs.step} * i);\n"
        f"            in += {tile.depth};\n        }}\n"
    )
    functions = f"{copy.text()}\n{emit_tile(tile).text()}"
    code = _code(tile, functions, "    int32_t left = p->rows;\n", rows_text)
    figures = _GLUE | {"row": copy.instructions + 7}
    counts = {"tile": f"(rows + {tile.rows - 1}) // {tile.rows}", "row": "rows"}
    return _emitted(MatmulParameters, "matmul_s8", tile, struct, code, counts, figures, "rows")


@packed_once
def _conv_class(layer: LinearWeights) -> type[ConvParameters]:
    tile = _tile(layer, ROWS)
    struct = IMAGE_FIELDS + _ARRAYS
    begin = (
        "    struct hil_rvv_windows windows = HIL_RVV_WINDOWS_OF(p);\n"
        "    int32_t left = p->out_h * p->out_w;\n"
    )
    gather = (
        f"        hil_rvv_gather(&windows, in, count, {tile.runs.step}, {NAME}_copy,\n"
        "                       (int8_t *)scratch);\n"
    )
    functions = f"{emit_gathered_copy().text()}\n{emit_tile(tile).text()}"
    code = _code(tile, functions, begin, gather, images=True)
    counts = {
        "tile": f"batch * ((out_h * out_w + {tile.rows - 1}) // {tile.rows})",
        "window_row": "batch * out_h * out_w * filter_h",
        "word": f"batch * out_h * out_w * {tile.words}",
    }
    figures = _GLUE | _WINDOW_GLUE
    return _emitted(ConvParameters, "conv2d_s8", tile, struct, code, counts, figures, "window")


@packed_once
def _padded_class(layer: LinearWeights, rows: PaddedRows) -> type[ConvParameters] | None:
    packed = _packed(layer, rows.filter_h)
    assert packed is not None
    tiles = [
        Tile(layer.depth, layer.channels, count, rows.runs, packed.output)
        for count in rows.sizes(ROWS)
    ]
    if not all(tile.reaches for tile in tiles):
        return None
    copy = emit_gathered_copy()
    functions = [emit_tile(tile) for tile in tiles]
    calls = rows.calls([(tile.name, tile.rows) for tile in tiles], layer.channels, apart=False)
    of_row = rows.instructions(
        [(tile.rows, f.instructions) for tile, f in zip(tiles, functions, strict=True)]
    )
    figures = rows.figures | {"copied": _COPIED_WORD / WORD}
    figures["row"] += of_row
    text = "\n".join(function.text() for function in (copy, *functions))
    return _emitted(
        ConvParameters,
        "conv2d_s8",
        tiles[0],
        IMAGE_FIELDS + _ARRAYS,
        kernel_text(text, rows.body(calls, layer.channels), images=True),
        rows.counts,
        figures,
        "window",
        rows,
    )


def _code(tile: Tile, functions: str, begin: str, rows: str, images: bool = False) -> str:
    """Return the emitted functions and the glue around them."""
    multiply = (
        f"        {tile.name}((const int8_t *)scratch, p->weights, (const int8_t *)p->scales,\n"
    )
    last = f"(int8_t *)scratch + {tile.rows * tile.runs.step}"
    body = (
        f"{begin}    while (left > 0) {{\n"
        f"        const int32_t count = left < {tile.rows} ? left : {tile.rows};\n{rows}"
        f"        int8_t *const to = count == {tile.rows} ? out : {last};\n"
        f"{multiply}            to);\n"
        f"        if (to != out) {{\n"
        f"            memcpy(out, to, (size_t)(count * {tile.columns}));\n        }}\n"
        f"        out += count * {tile.columns};\n        left -= count;\n    }}\n"
    )
    return kernel_text(functions, body, images=images)


def _emitted(
    parameters: type[_P],
    operator: str,
    tile: Tile,
    struct: str,
    code: str,
    counts: dict[str, str],
    figures: dict[str, float],
    reads: str,
    padded: PaddedRows | None = None,
) -> type[_P]:
    function = emit_tile(tile)
    if padded is None:
        figures |= {"tile": figures["tile"] + function.instructions}
    products = tile.rows * tile.columns * tile.depth
    return emitted(
        parameters,
        Description(
            family="xpulp",
            operator=operator,
            form=f"{tile.form}_padded" if padded else tile.form,
            requires=tile.output.features,
            scratch=str(padded.scratch if padded else tile.rows * (tile.runs.step + tile.columns)),
            order=(("rows", "1"),) if padded else (("pixels", str(tile.rows)),),
            reads=reads,
            window={},
            functions=function.code_bytes * (2 if padded else 1),
            glue=500,
            figures=figures,
            counts=counts,
            head={
                "Tile": f"{tile.rows} rows x {tile.block} columns x 4 elements of depth, for all "
                f"{tile.columns} columns and a depth of {tile.depth}.",
                "Registers": f"{tile.rows * tile.block} sums, {tile.rows} words of rows, two of "
                "weights, the addresses.",
                "Data": "rows in scratch, int8, filled up to words, or rows of the image with "
                "their padding, of which a window has runs; weights of what is beyond a run are "
                "0; weights int8 [blocks of columns][words of depth][columns][4], packed by "
                f"_packed(); scales int32 [column][{scale_words(tile.output)}].",
                "Order": "What is under a row of outputs is copied to scratch, then it is written."
                if padded
                else f"{tile.rows} rows are copied to scratch, then their outputs are written. "
                "Outputs of rows that are missing of the last are not copied.",
                "Bounds": "Sums are below 2^30, which require_right_shifts() asks for; scaled by "
                f"2^{tile.output.bits} below 2^31.",
                "Output": tile.output.text,
                "Scratch": "The rows, and the outputs of rows that are missing.",
                "Cost": f"Counted by the emitter: {function.instructions:.0f} instructions a call, "
                f"{function.instructions / products:.3f} a MAC.",
                "Tests": "tests/board/test_riscv_kernels.py, tests/c/test_riscv_kernels.py: the C "
                "form is the same list of instructions.",
            },
        ),
        struct,
        [_INCLUDE],
        code,
    )
