"""Matrix products and convolutions of int16 and float32 on RV32IM and RV32F, emitted for a layer.

A tile of some rows and four columns is summed up in registers: an element of each row and a weight
of each column are loaded, and multiplied with each other. Windows of a convolution are gathered
into scratch, and are rows then. What is checked here for each layer:

* int16: sums fit 32 bits, and are rounded as :mod:`hilc.lowering.riscv.wide` says;
* float32: weights are finite. Products are added in the order of the portable kernels, each rounded
  by itself, and the bias last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from hilc.ir import Array
from hilc.lowering.linear import (
    LinearWeights,
    packed_once,
)
from hilc.lowering.parameters import HilImages, HilWindow
from hilc.lowering.records import record
from hilc.lowering.riscv.arithmetic import (
    Arithmetic,
    FloatOutput,
    Integers,
    arithmetic_of,
    float_output_of,
    scale_words,
)
from hilc.lowering.riscv.emitted import NAME, Description, EmittedParameters, emitted
from hilc.lowering.riscv.emitter import LARGEST_OFFSET, Function, OutOfRegisters, Register
from hilc.lowering.riscv.linear import kernel_text
from hilc.lowering.riscv.wide import PartialSums, WideOutput, wide_output_of

#: Columns of a tile, and those of a matrix of one row.
BLOCK, SINGLE_BLOCK = 4, 8
#: Rows of a tile, by the bytes of an element: the most that registers suffice for, and fewer.
_ROWS = {2: (4, 3), 4: (6,)}
#: Elements of depth of a turn of the loop.
_TURN = 8
#: Instructions of the glue, which gcc compiles: of a call, of a tile; of a window, of one of its
#: rows and of a word of these.
_GLUE = {"call": 40.0, "tile": 12.0}
_WINDOW_GLUE = {"window": 22.0, "window_row": 24.0, "gathered": 5.0}
_GLUE_BYTES = 500
_INCLUDES = ("hil/kernels/generic/patch.h", "hil/riscv.h")

_P = TypeVar("_P", bound=EmittedParameters)


@record(frozen=True, eq=False, kw_only=True)
class RowsParameters(EmittedParameters):
    """The fields of a matrix product's struct."""

    rows: int
    scales: npt.NDArray[np.int32]
    weights: Array


@record(frozen=True, eq=False, kw_only=True)
class WindowsParameters(EmittedParameters):
    """The fields of a convolution's struct."""

    images: HilImages
    window: HilWindow
    scales: npt.NDArray[np.int32]
    weights: Array


@dataclass(frozen=True)
class Tile:
    """What the emitted function is specialised for."""

    depth: int
    columns: int
    rows: int
    #: Columns that are summed up at a time.
    block: int
    output: WideOutput | FloatOutput | PartialSums
    #: Distinguishes functions of a kernel.
    suffix: str = ""
    #: Elements from a row to the next; 0: rows follow each other.
    pitch: int = 0

    @property
    def arithmetic(self) -> Arithmetic:
        """The arithmetic of the elements."""
        return arithmetic_of(self.output)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of inputs."""
        return self.arithmetic.element * self.depth

    @property
    def pitch_bytes(self) -> int:
        """Bytes from a row of inputs to the next."""
        return self.arithmetic.element * (self.pitch or self.depth)

    @property
    def out_element(self) -> int:
        """Bytes of an output."""
        return 4 if isinstance(self.output, PartialSums) else self.arithmetic.element

    @property
    def out_bytes(self) -> int:
        """Bytes of a row of outputs."""
        return self.out_element * self.columns

    @property
    def weight_bytes(self) -> int:
        """Bytes of a weight."""
        return 4 if isinstance(self.output, FloatOutput) else 1

    @property
    def name(self) -> str:
        """Name of the function."""
        return f"{NAME}_{self.rows}{self.suffix}"


@dataclass(frozen=True, eq=False)
class Packed:
    """Weights and scales in the order of an emitted function, and this function."""

    weights: Array
    #: Words of each column.
    scales: npt.NDArray[np.int32]
    #: The tile of most rows; its ``rows`` is the number of rows that a call of the layer takes.
    tile: Tile
    function: Function


@packed_once
def packed_columns(layer: LinearWeights, extension: str, single: bool) -> Packed | None:
    """Return weights, scales and the tile; None where the kernel does not serve the layer."""
    found: tuple[WideOutput | FloatOutput, Array] | None
    if layer.matrix.dtype == np.float32:
        found = float_output_of(layer)
    else:
        found = wide_output_of(layer, extension)
    if found is None:
        return None
    output, scales = found
    block = SINGLE_BLOCK if single else BLOCK
    tile = Tile(layer.depth, layer.channels, 1, block, output)
    rows = (1,) if single else _ROWS[tile.arithmetic.element]
    for tried in (replace(tile, rows=count) for count in rows):
        try:
            function = emit_tile(tried)
        except OutOfRegisters:
            continue
        words = np.ascontiguousarray(scales).view(np.int32).reshape(-1)
        return Packed(in_blocks(layer.matrix, block), words, tried, function)
    return None


def in_blocks(matrix: Array, block: int) -> Array:
    """Return weights ``[columns, depth]`` as ``[blocks of columns][depth][columns of a block]``."""
    return np.concatenate(
        [matrix[i : i + block].T.reshape(-1) for i in range(0, len(matrix), block)]
    )


# The function -------------------------------------------------------------------------------------


def emit_tile(tile: Tile) -> Function:
    """Return the function that multiplies a tile's rows with all columns.

    Its arguments are the rows, one behind the other, the weights, the words of the columns, and the
    outputs.
    """
    parameters = [("rows", "read"), ("weights", "read"), ("scales", "read"), ("out", "write")]
    output = tile.output
    f = Function(tile.name, parameters, output.extensions, xpulp=output.extension == "xpulp")
    rows, weights, scales, out = f.arguments
    f.save(scales, "scales")
    f.save(out, "out")
    blocks, left = divmod(tile.columns, tile.block)
    if blocks > 1:
        f.distance(scales, weights, blocks * tile.depth * tile.block * tile.weight_bytes)
        f.save(scales, "weights_end")
    f.release(scales, out)
    bases = [rows]
    if (tile.rows - 1) * tile.pitch_bytes + _TURN * tile.arithmetic.element > LARGEST_OFFSET:
        bases += [f.address(f"row{r}") for r in range(1, tile.rows)]
        for r, base in enumerate(bases[1:], start=1):
            f.distance(base, rows, r * tile.pitch_bytes)
    if blocks:
        end = f.address("end")
        f.release(end)
        with f.loop(blocks, weights, end):
            _emit_block(f, tile, bases, weights, tile.block)
            if blocks > 1:
                f.restore(end, "weights_end")
    if left:
        _emit_block(f, tile, bases, weights, left)
    return f


def _emit_block(
    f: Function, tile: Tile, bases: list[Register], weights: Register, columns: int
) -> None:
    """Emit the products of a block of columns, and its outputs."""
    registers = tile.arithmetic.registers
    sums = [registers(f, f"s{r}_", columns) for r in range(tile.rows)]
    _emit_products(f, tile, bases, weights, sums)
    spare = f.word("spare")
    for base in bases:
        f.step(base, -tile.row_bytes, spare)
    _emit_outputs(f, tile, sums, columns, spare)
    f.release(spare, *(total for row in sums for total in row))


def _emit_products(
    f: Function,
    tile: Tile,
    bases: list[Register],
    weights: Register,
    sums: list[list[Register]],
) -> None:
    arithmetic, columns = tile.arithmetic, len(sums[0])
    factors = arithmetic.registers(f, "w", columns)
    # An address is the end of the loop.
    pairs = min(2, (arithmetic.free(f) - isinstance(arithmetic, Integers)) // 2)
    if not pairs:
        raise OutOfRegisters(f"{f.name} has no register left for an element and a product")
    xs, ts = arithmetic.registers(f, "x", pairs), arithmetic.registers(f, "t", pairs)

    def element(index: int, first: bool) -> None:
        for c, factor in enumerate(factors):
            offset = tile.weight_bytes * (columns * index + c)
            if tile.weight_bytes == 1:
                f.load("lb", factor, offset, weights)
            else:
                f.load_float(factor, offset, weights)
        for r, row in enumerate(sums):
            base, beyond = (bases[r], 0) if len(bases) > 1 else (bases[0], r * tile.pitch_bytes)
            x = xs[r % pairs]
            arithmetic.load(f, x, beyond + arithmetic.element * index, base)
            write = arithmetic.begin if first else arithmetic.add
            for c, total in enumerate(row):
                write(f, total, x, factors[c], ts[c % pairs])

    def elements(count: int, first: bool = False) -> None:
        for index in range(count):
            element(index, first and index == 0)
        f.advance(weights, count * columns * tile.weight_bytes)
        for base in bases:
            f.advance(base, count * arithmetic.element)

    # The first element begins the sums: what precedes the loop is a turn of it, or what is left.
    turns, left = divmod(tile.depth, _TURN)
    if left == 0:
        turns, left = turns - 1, _TURN
    elements(left, first=True)
    if turns:
        end = f.address("end")
        if turns > 1:
            f.distance(end, bases[0], turns * _TURN * arithmetic.element)
        with f.loop(turns, bases[0], end):
            elements(_TURN)
        f.release(end)
    f.release(*factors, *xs, *ts)


def _emit_outputs(
    f: Function, tile: Tile, sums: list[list[Register]], columns: int, spare: Register
) -> None:
    output, arithmetic = tile.output, tile.arithmetic
    scales, out = f.address("scales"), f.address("out", "write")
    f.restore(scales, "scales")
    scale, constants = output.scale(f), output.constants(f)
    for c in range(columns):
        output.load(f, scale, 4 * output.words * c, scales)
        for row in sums:
            output.emit(f, row[c], scale, constants, spare)
    f.advance(scales, 4 * output.words * columns)
    f.save(scales, "scales")
    f.restore(out, "out")
    for r, row in enumerate(sums):
        if r:
            f.step(out, tile.out_bytes, spare)
        for c, value in enumerate(row):
            if tile.out_element == arithmetic.element:
                arithmetic.store(f, value, arithmetic.element * c, out)
            else:
                f.store_word(value, tile.out_element * c, out)
    f.step(out, columns * tile.out_element - (tile.rows - 1) * tile.out_bytes, spare)
    f.save(out, "out")
    f.release(scales, out, *scale, *constants)


# The kernels --------------------------------------------------------------------------------------


def _arrays(tile: Tile) -> str:
    dtype = "float" if tile.weight_bytes > 1 else "int8_t"
    return (
        f"    const int32_t *scales; /* of each column: {scale_words(tile.output)} */\n"
        f"    const {dtype} *weights; /* [blocks of columns][depth][columns of a block] */\n"
    )


@packed_once
def matmul_class(layer: LinearWeights, extension: str, single: bool) -> type[RowsParameters]:
    """Return the class of the kernel for rows, or for a single one."""
    packed = packed_columns(layer, extension, single)
    assert packed is not None
    tile = packed.tile
    struct = f"    int32_t rows; /* rows of the input, and of the output */\n{_arrays(tile)}"
    step = f"        in += %d;\n        out += %d;\n        left -= {tile.rows};\n    }}\n"
    body = (
        f"    int32_t left = p->rows;\n    while (left >= {tile.rows}) {{\n{_call(tile, 'in', 2)}"
    )
    body += step % (tile.rows * tile.row_bytes, tile.rows * tile.out_bytes)
    scratch = "0"
    if tile.rows > 1:
        # The last rows are read before the outputs of the first of them are written.
        body += (
            "    if (left > 1) {\n"
            f"        memcpy(scratch, in, (size_t)(left * {tile.row_bytes}));\n"
            "        in = (const int8_t *)scratch;\n    }\n"
            f"    for (; left > 0; left--) {{\n{_call(replace(tile, rows=1), 'in', 2)}"
            f"        in += {tile.row_bytes};\n        out += {tile.out_bytes};\n    }}\n"
        )
        left = f"(rows - rows // {tile.rows} * {tile.rows})"
        scratch = f"{tile.row_bytes} * {left} * (({left} + {tile.rows - 2}) // {tile.rows})"
    counts = {"tile": f"rows // {tile.rows}", "single": f"rows % {tile.rows}"}
    order = (("pixels", str(tile.rows)), ("channels", str(tile.block)))
    return _emitted(RowsParameters, "matmul", packed, struct, body, counts, _GLUE, order, scratch)


@packed_once
def conv_class(layer: LinearWeights, extension: str) -> type[WindowsParameters]:
    """Return the class of the kernel for windows."""
    packed = packed_columns(layer, extension, False)
    assert packed is not None
    tile = packed.tile
    struct = f"    HIL_IMAGES_FIELDS;\n    HIL_WINDOW_FIELDS;\n{_arrays(tile)}"
    work = "(const int8_t *)scratch"
    body = (
        f"    const struct hil_patch window = HIL_PATCH_OF(p, {tile.arithmetic.element}, 0);\n"
        "    int32_t count = 0;\n"
        "    for (int32_t y = 0; y < p->out_h; y++) {\n"
        "        for (int32_t x = 0; x < p->out_w; x++) {\n"
        "            hil_gather_patch(&window, in, y * p->stride_h - p->pad_top,\n"
        "                x * p->stride_w - p->pad_left,\n"
        f"                (int8_t *)scratch + count * {tile.row_bytes});\n"
        f"            if (++count == {tile.rows}) {{\n{_call(tile, work, 4)}"
        f"                out += {tile.rows * tile.out_bytes};\n"
        "                count = 0;\n            }\n        }\n    }\n"
        "    for (int32_t i = 0; i < count; i++) {\n"
        f"{_call(replace(tile, rows=1), f'{work} + i * {tile.row_bytes}', 2)}"
        f"        out += {tile.out_bytes};\n    }}\n"
    )
    counts = {
        "tile": f"batch * ((out_h * out_w) // {tile.rows})",
        "single": f"batch * ((out_h * out_w) % {tile.rows})",
        "window": "batch * out_h * out_w",
        "window_row": "window * filter_h",
        "gathered": f"window * {-(-tile.row_bytes // 4)}",
    }
    order = (("pixels", str(tile.rows)),)
    figures = _GLUE | _WINDOW_GLUE
    scratch = str(tile.rows * tile.row_bytes)
    return _emitted(
        WindowsParameters, "conv2d", packed, struct, body, counts, figures, order, scratch
    )


def _call(tile: Tile, rows: str, depth: int) -> str:
    indent = "    " * depth
    return (
        f"{indent}{tile.name}({rows}, (const int8_t *)p->weights,\n"
        f"{indent}    (const int8_t *)p->scales, out);\n"
    )


def _emitted(
    parameters: type[_P],
    operator: str,
    packed: Packed,
    struct: str,
    body: str,
    counts: dict[str, str],
    figures: dict[str, float],
    order: tuple[tuple[str, str], ...],
    scratch: str,
) -> type[_P]:
    tile, function = packed.tile, packed.function
    functions, single = [function], figures["tile"] + function.instructions
    if tile.rows > 1:
        functions.append(emit_tile(replace(tile, rows=1)))
        single = figures["tile"] + functions[1].instructions
    images = parameters is WindowsParameters
    text = "\n".join(each.text() for each in functions)
    element, dtype = tile.arithmetic.element, tile.arithmetic.dtype
    own = {"tile": figures["tile"] + function.instructions, "single": single}
    return emitted(
        parameters,
        Description(
            family="riscv",
            operator=f"{operator}_{tile.arithmetic.name}",
            form=f"{tile.rows}_row{'s' if tile.rows > 1 else ''}",
            requires=tile.output.features,
            scratch=scratch,
            order=order,
            reads="window" if images else "rows",
            window={},
            functions=sum(each.code_bytes for each in functions),
            glue=_GLUE_BYTES,
            figures=figures | own,
            counts=counts,
            head=_head(tile, function),
            dtype=dtype,
        ),
        struct,
        _INCLUDES if images else ["hil/kernels/generic/fields.h", "hil/riscv.h"],
        kernel_text(
            text, body, images=images, dtype=dtype, element=element, scratch=scratch != "0"
        ),
    )


def _head(tile: Tile, function: Function) -> dict[str, str]:
    is_real = isinstance(tile.output, FloatOutput)
    products = tile.rows * tile.columns * tile.depth
    return {
        "Tile": f"{tile.rows} rows x {tile.block} columns x 1 element of depth, for all "
        f"{tile.columns} columns and a depth of {tile.depth}; and one row of them.",
        "Registers": f"{tile.rows * tile.block} sums, {tile.block} weights, elements of rows and "
        "products, addresses; given out by the emitter.",
        "Data": "weights [blocks of columns][depth][columns of a block]; scales, words "
        f"[column][{scale_words(tile.output)}], packed by packed_columns().",
        "Order": "A block of columns of the rows' outputs is written after all rows are read for "
        "it; windows are gathered before.",
        "Bounds": "any float."
        if is_real
        else "Sums with their biases are words for all inputs: narrow_sums().",
        "Output": tile.output.text,
        "Scratch": "windows; of a matrix the rows beyond the last whole tile, if not a single one.",
        "Cost": f"Counted by the emitter: {function.instructions:.0f} instructions a call, "
        f"{function.instructions / products:.3f} a MAC.",
        "Tests": "tests/board/test_riscv_kernels.py, tests/c/test_riscv_kernels.py: the C form is "
        "the same list of instructions.",
    }
