"""BATCH_MATMUL of int8 on RV32IM, emitted for each layer.

A tile of some rows and four columns is summed up in registers. Elements of both matrices are loaded
where they lie, whatever their distances, and their zero points are subtracted. The function
multiplies the rows of a tile with all columns; the glue around it walks over rows and pairs of
matrices. What is checked here for each layer: sums scaled for their outputs are words, the shift is
to the right, and outputs are exact for every sum (:mod:`hilc.lowering.riscv.outputs`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hilc.ir import ELEMENT_TYPES, Rounding
from hilc.lowering.kernels import KernelCall
from hilc.lowering.matrices import MatricesForm, matrices_form
from hilc.lowering.parameters import HilBatchMatmul, HilOutputRange
from hilc.lowering.records import record
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.riscv.arithmetic import scale_words
from hilc.lowering.riscv.emitted import NAME, Description, EmittedParameters, emitted
from hilc.lowering.riscv.emitter import (
    LARGEST_OFFSET,
    Function,
    Moving,
    OutOfRegisters,
    Register,
)
from hilc.lowering.riscv.outputs import Output, output_of
from hilc.lowering.v7m.channels import RightShiftedChannels
from hilc.ops import batch_matmul

#: Rows and columns of a tile, the fastest first: what registers and offsets of loads suffice for.
_TILES = ((4, 4), (3, 4), (2, 4), (2, 2), (1, 4), (1, 2), (1, 1))
#: Elements of depth of a turn of the loop, at most.
_TURN = 8
#: The largest shift to the right of an output, and the most bits by which sums are scaled.
_MOST_SHIFT, _MOST_BITS = 23, 13
#: Instructions of the glue: of a call, of a pair of matrices, of the call of a tile.
GLUE = {"call": 40.0, "pair": 30.0, "tile": 12.0}
GLUE_BYTES = 200
_INT8 = ELEMENT_TYPES["int8"].bounds


@record(frozen=True, eq=False, kw_only=True)
class MatricesParameters(EmittedParameters):
    """The fields of an emitted product's struct."""

    batch_matmul: HilBatchMatmul
    scales: npt.NDArray[np.int32]


@dataclass(frozen=True)
class Operands:
    """Where the elements of both matrices lie, and what is added to them."""

    depth: int
    columns: int
    #: Bytes from a row of the first matrix to the next, and from an element of a row to the next.
    a_row: int
    a_step: int
    #: Bytes from a column of the second matrix to the next, and from an element of it to the next.
    b_column: int
    b_step: int
    a_offset: int
    b_offset: int


def operands_of(form: MatricesForm) -> Operands:
    """Return the operands of a layer."""
    shape = form.shape
    return Operands(
        depth=shape.depth,
        columns=shape.columns,
        a_row=shape.a_row,
        a_step=shape.a_step,
        b_column=shape.b_column,
        b_step=shape.b_step,
        a_offset=-form.a_zero_point,
        b_offset=-form.b_zero_point,
    )


@dataclass(frozen=True)
class Tile:
    """What the emitted function is specialised for."""

    operands: Operands
    rows: int
    #: Columns that are summed up at a time.
    block: int
    output: Output

    @property
    def name(self) -> str:
        """Name of the function."""
        return f"{NAME}_tile{self.rows}"

    @property
    def turn(self) -> int:
        """Elements of depth whose offsets reach from one address; 0 if not even one's do."""
        own = self.operands
        room_a = LARGEST_OFFSET - (self.rows - 1) * own.a_row
        room_b = LARGEST_OFFSET - (self.block - 1) * own.b_column
        if room_a < own.a_step or room_b < own.b_step:
            return 0
        return min(_TURN, room_a // own.a_step, room_b // own.b_step)


@lowers(
    "BATCH_MATMUL",
    dtypes={"int8"},
    requires={"riscv", "mul32"},
    lacks={"zve32x"},
    roundings=Rounding,
)
def products(layer: Layer) -> Iterator[KernelCall]:
    """Yield the emitted kernel of products of matrices."""
    features = layer.cpu.features
    extension = next((name for name in ("zbb", "xpulp") if name in features), "")
    form = matrices_form(layer)
    if (found := matrices_output(layer, form, extension)) is None:
        return
    output, words = found
    for rows, block in _TILES:
        tile = Tile(operands_of(form), min(rows, form.shape.rows), block, output)
        if not tile.turn:
            continue
        try:
            emit_tile(tile)
        except OutOfRegisters:
            continue
        yield form.call(_class(tile, form.shape.rows)(batch_matmul=form.shape, scales=words))
        return


def matrices_output(
    layer: Layer, form: MatricesForm, extension: str
) -> tuple[Output, npt.NDArray[np.int32]] | None:
    """Return how the sums of a layer become outputs, and the words of the scale that all have; None
    where that is not exact, or a word overflows.
    """
    multiplier, shift = batch_matmul.scale(layer.node, layer.ins, layer.out)
    if not 1 <= -shift <= _MOST_SHIFT:
        return None
    low, high = _INT8
    bound = np.array([form.bound], np.int64)
    everything = RightShiftedChannels(
        weights=np.zeros((1, 1), np.int8),
        bias=np.zeros(1, np.int64),
        multipliers=np.array([multiplier], np.int32),
        right=np.array([-shift], np.int64),
        lowest=-bound,
        highest=bound,
        emptied=np.zeros(1, np.bool_),
        rounding=layer.node.rounding,
        range=HilOutputRange(out_zero_point=form.out_zero_point, out_min=low, out_max=high),
    )
    bits = min(_MOST_BITS, 30 - form.bound.bit_length())
    found = output_of(everything, bits, extension)
    return None if found is None else (found[0], found[1].reshape(-1))


# The function -------------------------------------------------------------------------------------


def emit_tile(tile: Tile) -> Function:
    """Return the function that multiplies a tile's rows with all columns."""
    parameters = [("a", "read"), ("b", "read"), ("scales", "read"), ("out", "write")]
    output, own = tile.output, tile.operands
    f = Function(tile.name, parameters, output.extensions, xpulp=output.extension == "xpulp")
    a, b, scales, out = f.arguments
    f.save(scales, "scales")
    f.save(out, "out")
    blocks, left = divmod(own.columns, tile.block)
    if blocks > 1:
        f.distance(scales, b, blocks * tile.block * own.b_column)
        f.save(scales, "b_end")
    f.release(scales, out)
    if blocks:
        end = f.address("end")
        f.release(end)
        with f.loop(blocks, b, end):
            _emit_block(f, tile, a, b, tile.block)
            if blocks > 1:
                f.restore(end, "b_end")
    if left:
        _emit_block(f, tile, a, b, left)
    return f


def _emit_block(f: Function, tile: Tile, a: Register, b: Register, columns: int) -> None:
    """Emit the products of a block of columns, and its outputs; move on to the next."""
    own = tile.operands
    sums = [f.words(f"s{r}_", columns) for r in range(tile.rows)]
    _emit_products(f, tile, a, b, sums)
    spare = f.word("spare")
    f.step(a, -own.depth * own.a_step, spare)
    f.step(b, columns * own.b_column - own.depth * own.b_step, spare)
    _emit_outputs(f, tile, sums, spare)
    f.release(spare, *(total for row in sums for total in row))


def _emit_products(
    f: Function, tile: Tile, a: Register, b: Register, sums: list[list[Register]]
) -> None:
    own, columns = tile.operands, len(sums[0])
    factors = f.words("w", columns)
    x, product = f.words("x", 2)

    def elements(count: int, first: bool) -> None:
        for index in range(count):
            for c, factor in enumerate(factors):
                f.load("lb", factor, own.b_step * index + own.b_column * c, b)
            for factor in factors:
                f.advance(factor, own.b_offset)
            for r, row in enumerate(sums):
                f.load("lb", x, own.a_step * index + own.a_row * r, a)
                f.advance(x, own.a_offset)
                for total, factor in zip(row, factors, strict=True):
                    if first and index == 0:
                        f.operate("mul", total, x, factor)
                    else:
                        f.multiply_add(total, x, factor, product)
        f.step(a, count * own.a_step, product)
        f.step(b, count * own.b_step, product)

    # The first element begins the sums: what precedes the loop is a turn of it, or what is left.
    turns, left = divmod(own.depth, tile.turn)
    if left == 0:
        turns, left = turns - 1, tile.turn
    elements(left, True)
    if turns:
        end = f.address("end")
        if turns > 1:
            f.distance(end, a, turns * tile.turn * own.a_step)
        with f.loop(turns, a, end):
            elements(tile.turn, False)
        f.release(end)
    f.release(*factors, x, product)


def _emit_outputs(f: Function, tile: Tile, sums: list[list[Register]], spare: Register) -> None:
    output = tile.output
    scales, out = f.address("scales"), f.address("out", "write")
    scale, constants = output.scale(f), output.constants(f)
    f.restore(scales, "scales")
    f.restore(out, "out")
    output.load(f, scale, 0, scales)
    address = Moving(f, out, spare)
    for r, row in enumerate(sums):
        for c, value in enumerate(row):
            f.shift("slli", value, value, output.bits)
            output.emit(f, value, scale, constants, spare)
            f.store_byte(value, address.reach(r * tile.operands.columns + c), out)
    address.move(len(sums[0]))
    f.save(out, "out")
    f.release(scales, out, *scale, *constants)


# The kernel ---------------------------------------------------------------------------------------

#: Declarations of the fields of an emitted product.
FIELDS = "    HIL_BATCH_MATMUL_FIELDS;\n    const int32_t *scales; /* how sums become outputs */\n"
INCLUDE = "hil/kernels/generic/batch_matmul.h"


def matrices_code(functions: Sequence[Function], calls: Sequence[tuple[str, int, int]]) -> str:
    """Return emitted functions and the code that has them multiply each pair of matrices. ``calls``
    are functions by name, their rows, and how many of their calls follow each other.
    """
    body = ""
    for name, rows, times in calls:
        body += (
            f"        for (int32_t i = 0; i < {times}; i++) {{\n"
            f"            {name}(from, b, (const int8_t *)p->scales, out);\n"
            f"            from += {rows} * p->a_row;\n"
            f"            out += {rows} * p->columns;\n        }}\n"
        )
    text = "\n".join(function.text() for function in functions)
    return (
        f"{text}\nHIL_INLINE void {NAME}(const struct {NAME} *p, const int8_t *a, "
        "const int8_t *b,\n    int8_t *out) {\n"
        f"    HIL_BATCH_MATMUL_EACH(p, a, b, {{\n        const int8_t *from = a;\n{body}    }});\n"
        "}\n"
    )


def _class(tile: Tile, rows: int) -> type[MatricesParameters]:
    whole, left = divmod(rows, tile.rows)
    tiles = [(tile, whole)] + ([(replace(tile, rows=left), 1)] if left else [])
    functions = [emit_tile(each) for each, _ in tiles]
    own, figures = tile.operands, dict(GLUE)
    of_pair = sum(
        times * (function.instructions + GLUE["tile"])
        for function, (_, times) in zip(functions, tiles, strict=True)
    )
    figures["pair"] += of_pair
    del figures["tile"]
    return emitted(
        MatricesParameters,
        Description(
            family="riscv",
            operator="batch_matmul_s8",
            form=f"{tile.rows}x{tile.block}",
            requires=tile.output.features,
            scratch="0",
            order="none",
            reads="",
            window={},
            functions=sum(function.code_bytes for function in functions),
            glue=GLUE_BYTES,
            figures=figures,
            counts={"pair": "batches"},
            head={
                "Tile": f"{tile.rows} rows x {tile.block} columns x 1 element of depth, for all "
                f"{own.columns} columns and a depth of {own.depth}.",
                "Registers": f"{tile.rows * tile.block} sums, {tile.block} elements of columns, an "
                "element of a row, a product, addresses; given out by the emitter.",
                "Data": "elements of both matrices where they lie; scales, words "
                f"[{scale_words(tile.output)}], by matrices_output().",
                "Order": "Outputs are written while later rows are still to be read.",
                "Bounds": f"Sums scaled by 2^{tile.output.bits} are below 2^30 for all inputs.",
                "Output": tile.output.text,
                "Scratch": "none.",
                "Cost": f"Counted by the emitter: {of_pair / (rows * own.columns * own.depth):.3f} "
                "instructions a MAC.",
                "Tests": "tests/board/test_riscv_kernels.py, tests/c/test_riscv_kernels.py: the C "
                "form is the same list of instructions.",
            },
            inputs=2,
        ),
        FIELDS,
        [INCLUDE, "hil/riscv.h"],
        matrices_code(functions, [(each.name, each.rows, times) for each, times in tiles]),
    )
