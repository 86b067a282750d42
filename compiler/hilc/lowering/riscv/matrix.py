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
from hilc.lowering.parameters import HilImages, HilWindow
from hilc.lowering.records import record
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.riscv import depthwise
from hilc.lowering.riscv.emitted import NAME, Description, EmittedParameters, emitted
from hilc.lowering.riscv.emitter import LARGEST_OFFSET, Function, Register
from hilc.lowering.riscv.outputs import Output, output_of
from hilc.lowering.v7m.channels import require_right_shifts
from hilc.lowering.v7m.conv2d import FEW_ROWS, longest_part

#: Columns of a tile.
_BLOCK = 4
#: Threes of rows of a tile: two take 27 of 28 registers, one is for few rows and little scratch.
_TRIPLES = (2, 1)
#: Elements of depth of a turn of the loop.
_TURN = 8
#: Bits by which sums lie higher after they are taken out of their words.
_SUM_SHIFT = 11
_ROWS_INCLUDE = "hil/kernels/riscv/rows_s8.h"
#: Instructions of the glue, which gcc compiles: of a call, of a tile, of three rows, of an element
#: of three rows; of a window and of one of its pixels.
_GLUE = {"call": 40.0, "tile": 24.0, "row_three": 12.0, "widened": 11.8}
_WINDOW_GLUE = {"window": 14.0, "window_row": 17.0, "pixel": 2.0}


@record(frozen=True, eq=False, kw_only=True)
class MatmulParameters(EmittedParameters):
    """The fields of an emitted matrix product's struct."""

    rows: int
    scales: npt.NDArray[np.int32]
    weights: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class ConvParameters(EmittedParameters):
    """The fields of an emitted convolution's struct."""

    images: HilImages
    window: HilWindow
    in_zero_point: int
    scales: npt.NDArray[np.int32]
    weights: npt.NDArray[np.int8]


_P = TypeVar("_P", bound=EmittedParameters)


@dataclass(frozen=True)
class Tile:
    """What the emitted function is specialised for."""

    depth: int
    columns: int
    triples: int
    #: Depth after which sums are taken out of their words.
    part: int
    output: Output

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return 3 * self.triples

    @property
    def element_bytes(self) -> int:
        """Bytes of the words of an element."""
        return 8 * self.triples

    @property
    def row_bytes(self) -> int:
        """Bytes of the rows' words."""
        return self.element_bytes * self.depth

    @property
    def form(self) -> str:
        """Form of the variant."""
        return f"{self.rows}_rows"


@dataclass(frozen=True, eq=False)
class _Packed:
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
    if form.rows < FEW_ROWS:
        return
    for triples in _TRIPLES:
        if (packed := _packed(form.packing, triples, extension)) is not None:
            made = _matmul_class(form.packing, triples, extension)
            yield made(rows=form.rows, scales=packed.scales, weights=packed.weights)


def _conv2d(form: Convolution, extension: str) -> Iterable[EmittedParameters]:
    for triples in _TRIPLES:
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
def _packed(layer: LinearWeights, triples: int, extension: str) -> _Packed | None:
    """Return weights, scales and the tile; None where the kernel does not serve the layer."""
    channels = require_right_shifts(layer.matrix, layer.requantization)
    if channels is None:
        return None
    weights = channels.weights
    part = longest_part(weights, 0)
    bits = _SUM_SHIFT
    if part < layer.depth:
        largest = max(int(np.abs(end).max()) for end in channels.ends)
        bits = min(_SUM_SHIFT, 31 - largest.bit_length())
    if (3 * triples - 1) * layer.channels + _BLOCK > LARGEST_OFFSET:
        return None
    if (found := output_of(channels, bits, extension)) is None:
        return None
    output, scales = found
    tile = Tile(layer.depth, layer.channels, triples, part, output)
    blocks = padded(weights, _BLOCK).reshape(-1, _BLOCK, layer.depth).transpose(0, 2, 1)
    return _Packed(np.ascontiguousarray(blocks).reshape(-1), scales.reshape(-1), tile)


# The function -------------------------------------------------------------------------------------


def emit_tile(tile: Tile) -> Function:
    """Return the function that multiplies a tile's rows with all columns."""
    parameters = [("rows", "read"), ("weights", "read"), ("scales", "read"), ("out", "write")]
    f = Function(f"{NAME}_tile", parameters, tile.output.extensions)
    rows, weights, scales, out = f.arguments
    f.save(rows, "rows")
    f.save(scales, "scales")
    f.save(out, "out")
    blocks, left = divmod(tile.columns, _BLOCK)
    if blocks > 1:
        f.distance(scales, weights, blocks * tile.depth * _BLOCK)
        f.save(scales, "weights_end")
    f.release(scales, out)
    if blocks:
        end = f.address("end")
        f.release(end)
        with _blocks(f, blocks, weights, end):
            _emit_block(f, tile, rows, weights, _BLOCK)
    if left:
        _emit_block(f, tile, rows, weights, left)
    return f


class _blocks:
    """Loop over blocks of columns, whose end lies on the stack."""

    def __init__(self, f: Function, times: int, at: Register, end: Register) -> None:
        self._f, self._times, self._end = f, times, end
        self._loop = f.loop(times, at, end)

    def __enter__(self) -> None:
        self._loop.__enter__()

    def __exit__(self, *error: object) -> None:
        if self._times > 1 and error[0] is None:
            self._f.restore(self._end, "weights_end")
        self._loop.__exit__(None, None, None)


def _emit_block(f: Function, tile: Tile, rows: Register, weights: Register, columns: int) -> None:
    """Emit the products of a block of columns, and its outputs."""
    sums = [f.words(f"s{c}_", 2 * tile.triples) for c in range(columns)]
    for begin in range(0, tile.depth, tile.part):
        if begin == 0:
            f.restore(rows, "rows")
        _emit_products(f, tile, rows, weights, sums, min(tile.part, tile.depth - begin))
        if begin + tile.part < tile.depth:
            _emit_part(f, tile, sums, begin == 0)
    _emit_outputs(f, tile, sums, tile.part < tile.depth)
    for column in sums:
        f.release(*column)


def _emit_products(
    f: Function,
    tile: Tile,
    rows: Register,
    weights: Register,
    sums: list[list[Register]],
    depth: int,
) -> None:
    words = f.words("x", 2 * tile.triples)
    factors = f.words("w", 2)
    products = f.words("t", 2)

    def element(index: int, first: bool = False) -> None:
        for i, word in enumerate(words):
            f.load("lw", word, tile.element_bytes * index + 4 * i, rows)
        f.load("lb", factors[0], _BLOCK * index, weights)
        for c, column in enumerate(sums):
            if c + 1 < len(sums):
                f.load("lb", factors[(c + 1) % 2], _BLOCK * index + c + 1, weights)
            factor = factors[c % 2]
            if first:
                for word, total in zip(words, column, strict=True):
                    f.operate("mul", total, factor, word)
                continue
            for pair in range(tile.triples):
                for i in range(2):
                    f.operate("mul", products[i], factor, words[2 * pair + i])
                for i in range(2):
                    total = column[2 * pair + i]
                    f.operate("add", total, total, products[i])

    def elements(count: int, first: bool = False) -> None:
        for index in range(count):
            element(index, first and index == 0)
        f.advance(weights, count * _BLOCK)
        f.advance(rows, count * tile.element_bytes)

    # The first element begins the sums: what precedes the loop is a turn of it, or what is left.
    turns, left = divmod(depth, _TURN)
    if left == 0:
        turns, left = turns - 1, _TURN
    elements(left, first=True)
    if turns:
        end = f.address("end")
        if turns > 1:
            f.distance(end, rows, turns * _TURN * tile.element_bytes)
        with f.loop(turns, rows, end):
            elements(_TURN)
        f.release(end)
    f.release(*words, *factors, *products)


def _emit_sums(
    f: Function, first: Register, second: Register, b: Register, t: Register
) -> list[Register]:
    """Take three sums out of two words; they lie :data:`_SUM_SHIFT` bits higher then."""
    f.shift("slli", b, second, 11)
    f.shift("slli", t, b, 10)
    f.operate("sub", first, first, t)
    f.shift("srai", t, b, 11)
    f.operate("sub", second, second, t)
    # The lower 11 bits of C.
    f.shift("srai", second, second, 10)
    f.operate("sub", second, first, second)
    f.shift("slli", second, second, 11)
    f.shift("srai", t, second, 11)
    f.operate("sub", first, first, t)
    return [second, b, first]


def _emit_part(f: Function, tile: Tile, sums: list[list[Register]], first: bool) -> None:
    """Add the sums of a part to those on the stack."""
    b, t = f.words("part", 2)
    for c, column in enumerate(sums):
        for pair in range(tile.triples):
            values = _emit_sums(f, column[2 * pair], column[2 * pair + 1], b, t)
            for i, value in enumerate(values):
                _emit_lower(f, tile, value)
                slot = f"sum{c}_{3 * pair + i}"
                if not first:
                    f.restore(t, slot)
                    f.operate("add", value, value, t)
                f.save(value, slot)
    f.release(b, t)


def _emit_lower(f: Function, tile: Tile, value: Register) -> None:
    if tile.output.bits < _SUM_SHIFT:
        f.shift("srai", value, value, _SUM_SHIFT - tile.output.bits)


def _emit_outputs(f: Function, tile: Tile, sums: list[list[Register]], parts: bool) -> None:
    scales, out = f.address("scales"), f.address("out", "write")
    b, t = f.words("o", 2)
    output = tile.output
    scale, constants = output.scale(f), output.constants(f)
    f.restore(scales, "scales")
    f.restore(out, "out")
    for c, column in enumerate(sums):
        output.load(f, scale, 4 * output.words * c, scales)
        for pair in range(tile.triples):
            values = _emit_sums(f, column[2 * pair], column[2 * pair + 1], b, t)
            for i, value in enumerate(values):
                row = 3 * pair + i
                if parts:
                    _emit_lower(f, tile, value)
                    f.restore(t, f"sum{c}_{row}")
                    f.operate("add", value, value, t)
                output.emit(f, value, scale, constants, t)
                f.store_byte(value, row * tile.columns + c, out)
    f.advance(scales, 4 * output.words * _BLOCK)
    f.advance(out, _BLOCK)
    f.save(scales, "scales")
    f.save(out, "out")
    f.release(scales, out, b, t, *scale, *constants)


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
    return _emitted(MatmulParameters, "matmul_s8", tile, struct, code, counts, dict(_GLUE), "rows")


@packed_once
def _conv_class(layer: LinearWeights, triples: int, extension: str) -> type[ConvParameters]:
    packed = _packed(layer, triples, extension)
    assert packed is not None
    tile = packed.tile
    struct = (
        "    HIL_IMAGES_FIELDS;\n    HIL_WINDOW_FIELDS;\n"
        "    int32_t in_zero_point; /* the input that stands for 0.0 */\n" + _ARRAYS
    )
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
    figures = _GLUE | _WINDOW_GLUE
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
    if images:
        inner = "".join(f"    {line}\n" for line in body.splitlines())
        body = (
            f"    for (int32_t image = 0; image < p->batch; image++) {{\n{inner}"
            "        in += p->in_h * p->in_w * p->in_c;\n    }\n"
        )
    return (
        f"{emit_tile(tile).text()}\nHIL_INLINE void {NAME}(const struct {NAME} *p, "
        f"const int8_t *in, int8_t *out,\n    void *scratch) {{\n{body}}}\n"
    )


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
            code=function.code_bytes + 600,
            figures=figures | {"tile": figures["tile"] + function.instructions},
            counts=counts,
            head=_head(tile, function),
        ),
        struct,
        [_ROWS_INCLUDE],
        code,
    )


def _head(tile: Tile, function: Function) -> dict[str, str]:
    products = tile.rows * tile.columns * tile.depth
    parts = -(-tile.depth // tile.part)
    return {
        "Tile": f"{tile.rows} rows x {_BLOCK} columns x 1 element of depth, for all "
        f"{tile.columns} columns and a depth of {tile.depth}.",
        "Registers": f"{4 * 2 * tile.triples} words of sums, {2 * tile.triples} of rows, two "
        "weights, two products, three addresses; given out by the emitter.",
        "Data": "rows: words in scratch, [depth][threes of rows][x, y], by hil_riscv_widen; "
        "weights: int8 [blocks of four columns][depth][4], the last filled up with zeros, packed "
        "by _packed(); scales: int32 [column][multiplier, constant, place if signed], by "
        "scales_of().",
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
