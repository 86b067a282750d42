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
from hilc.lowering.riscv.emitted import NAME, Description, EmittedParameters, emitted
from hilc.lowering.riscv.emitter import LARGEST_OFFSET
from hilc.lowering.riscv.linear import (
    IMAGE_FIELDS,
    ConvParameters,
    MatmulParameters,
    kernel_text,
)
from hilc.lowering.riscv.outputs import Output, output_of
from hilc.lowering.v7m.channels import require_right_shifts
from hilc.lowering.xpulp.tile import (
    BLOCK,
    ROWS,
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
    packed = _packed(form.packing)
    if packed is not None:
        made = _matmul_class(form.packing, min(form.rows, ROWS))
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


@packed_once
def _packed(layer: LinearWeights) -> _Packed | None:
    """Return weights and scales; None where the kernel does not serve the layer."""
    channels = require_right_shifts(layer.matrix, layer.requantization)
    if channels is None or (ROWS - 1) * layer.channels + BLOCK > LARGEST_OFFSET:
        return None
    largest = max(int(np.abs(end).max()) for end in channels.ends)
    found = output_of(channels, min(_MOST_BITS, 31 - largest.bit_length()), "xpulp")
    if found is None:
        return None
    output, scales = found
    filled = np.pad(channels.weights, [(0, 0), (0, -layer.depth % WORD)])
    blocks = padded(filled, BLOCK).reshape(-1, BLOCK, filled.shape[1] // WORD, WORD)
    weights = np.ascontiguousarray(blocks.transpose(0, 2, 1, 3)).reshape(-1)
    return _Packed(weights, scales.reshape(-1), output)


# The functions ------------------------------------------------------------------------------------


# The kernels --------------------------------------------------------------------------------------

_ARRAYS = (
    "    const int32_t *scales; /* how the sums of each column become outputs */\n"
    "    const int8_t *weights; /* [blocks of four columns][words of depth][4][4] */\n"
)


def _tile(layer: LinearWeights, rows: int) -> Tile:
    packed = _packed(layer)
    assert packed is not None
    return Tile(layer.depth, layer.channels, rows, packed.output)


@packed_once
def _matmul_class(layer: LinearWeights, rows: int) -> type[MatmulParameters]:
    tile = _tile(layer, rows)
    copy = emit_copy(tile)
    struct = f"    int32_t rows; /* rows of the input, and of the output */\n{_ARRAYS}"
    rows_text = (
        "        for (int32_t i = 0; i < count; i++) {\n"
        f"            {NAME}_copy(in, (int8_t *)scratch + {tile.row_bytes} * i);\n"
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
        f"        hil_rvv_gather(&windows, in, count, {tile.row_bytes}, {NAME}_copy,\n"
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


def _code(tile: Tile, functions: str, begin: str, rows: str, images: bool = False) -> str:
    """Return the emitted functions and the glue around them."""
    multiply = (
        f"        {NAME}_tile((const int8_t *)scratch, p->weights, (const int8_t *)p->scales,\n"
    )
    last = f"(int8_t *)scratch + {tile.rows * tile.row_bytes}"
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
) -> type[_P]:
    function = emit_tile(tile)
    products = tile.rows * tile.columns * tile.depth
    return emitted(
        parameters,
        Description(
            family="xpulp",
            operator=operator,
            form=tile.form,
            requires=tile.output.features,
            scratch=str(tile.rows * (tile.row_bytes + tile.columns)),
            order=(("pixels", str(tile.rows)),),
            reads=reads,
            window={},
            code=function.code_bytes + 500,
            figures=figures | {"tile": figures["tile"] + function.instructions},
            counts=counts,
            head={
                "Tile": f"{tile.rows} rows x {BLOCK} columns x 4 elements of depth, for all "
                f"{tile.columns} columns and a depth of {tile.depth}.",
                "Registers": f"{tile.rows * BLOCK} sums, {tile.rows} words of rows, two of "
                "weights, the addresses.",
                "Data": "rows in scratch, int8, filled up to words, whose weights are 0; weights "
                "int8 [blocks of four columns][words of depth][4 columns][4], packed by _packed(); "
                "scales int32 [column][multiplier, constant, place if signed].",
                "Order": f"{tile.rows} rows are copied to scratch, then their outputs are written. "
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
