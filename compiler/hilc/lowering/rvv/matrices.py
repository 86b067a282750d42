"""BATCH_MATMUL of int8 with RISC-V's vectors (Zve32x), emitted for each layer.

The elements of a vector are columns of the output. An element of a row, a scalar, is multiplied
with the elements of the second matrix at its depth, which are loaded where they lie and widened to
int16. Zero points are subtracted from both. The sums become outputs as those of
:mod:`hilc.lowering.riscv.matrices`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from hilc.ir import Rounding
from hilc.lowering.kernels import KernelCall
from hilc.lowering.matrices import matrices_form
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.riscv.arithmetic import scale_words
from hilc.lowering.riscv.emitted import NAME, Description, emitted
from hilc.lowering.riscv.emitter import LARGEST_OFFSET, ZERO, Register
from hilc.lowering.riscv.matrices import (
    FIELDS,
    GLUE,
    GLUE_BYTES,
    INCLUDE,
    MatricesParameters,
    Operands,
    matrices_code,
    matrices_output,
    operands_of,
)
from hilc.lowering.riscv.outputs import Output
from hilc.lowering.rvv.emitter import VectorFunction, blocks_of, emit_outputs

#: Rows of a tile: their sums take eight registers each, and signed outputs sixteen others.
_ROWS, _SIGNED_ROWS = 3, 2
#: Elements of depth of a turn of the loop, at most.
_TURN = 8
#: The first registers of widened elements, and of these before: the upper half of the others.
_WIDE, _NARROW = 24, 26


@dataclass(frozen=True)
class Tile:
    """What the emitted function is specialised for."""

    operands: Operands
    rows: int
    output: Output

    @property
    def name(self) -> str:
        """Name of the function."""
        return f"{NAME}_tile{self.rows}"

    @property
    def turn(self) -> int:
        """Elements of depth whose offsets reach from one address; 0 if not even one's do."""
        own = self.operands
        room = LARGEST_OFFSET - (self.rows - 1) * own.a_row
        return max(0, min(_TURN, room // own.a_step))


@lowers("BATCH_MATMUL", dtypes={"int8"}, requires={"zve32x"}, roundings=Rounding)
def products(layer: Layer) -> Iterator[KernelCall]:
    """Yield the emitted kernel of products of matrices."""
    form = matrices_form(layer)
    if (found := matrices_output(layer, form, "zve32x")) is None:
        return
    output, words = found
    most = min(form.shape.rows, _SIGNED_ROWS if output.signed else _ROWS)
    for rows in range(most, 0, -1):
        tile = Tile(operands_of(form), rows, output)
        if tile.turn:
            made = _class(tile, form.shape.rows)
            # Vectors of scales: of each word that of all columns.
            scales = np.repeat(words, form.shape.columns)
            yield form.call(made(batch_matmul=form.shape, scales=scales))
            return


def emit_tile(tile: Tile) -> VectorFunction:
    """Return the function that multiplies a tile's rows with all columns."""
    own = tile.operands
    parameters = [("a", "read"), ("b", "read"), ("scales", "read"), ("out", "write")]
    f = VectorFunction(tile.name, parameters)
    a, b, scales, out = f.arguments
    outs = [out, *(f.address(f"out{r}", "write") for r in range(1, tile.rows))]
    left, length, spare = f.word("left"), f.word("length"), f.word("spare")
    offset, stride = f.word("b_offset"), f.word("stride")
    at, end = f.address("column"), f.address("end")
    f.round_down()
    f.constant(left, own.columns)
    if own.b_offset:
        f.constant(offset, own.b_offset)
    if own.b_column > 1:
        f.constant(stride, own.b_column)
    for r, other in enumerate(outs[1:], start=1):
        f.distance(other, out, r * own.columns)
    with f.loop(blocks_of(own.columns), left, ZERO, always=True):
        f.length(length, left, 2)
        f.move(at, b)
        _emit_products(f, tile, (a, at, end), f.words("x", tile.rows), offset, stride)
        f.step(a, -own.depth * own.a_step, spare)
        emit_outputs(f, tile.output, own.columns, [8 * r for r in range(tile.rows)], scales, outs)
        f.operate("sub", left, left, length)
        if own.b_column > 1:
            f.operate("mul", spare, length, stride)
        f.add_to(b, spare if own.b_column > 1 else length)
        for address in outs:
            f.add_to(address, length)
        f.shift("slli", length, length, 2)
        f.add_to(scales, length)
    return f


def _emit_products(
    f: VectorFunction,
    tile: Tile,
    places: tuple[Register, Register, Register],
    x: list[Register],
    offset: Register,
    stride: Register,
) -> None:
    """Emit the sums of a block of columns. ``places`` are the addresses of the rows and of the
    columns, and one for the end of the loop.
    """
    own, (a, b, end) = tile.operands, places

    def elements(count: int, first: bool) -> None:
        for index in range(count):
            if own.b_column == 1:
                f.load_vector(_NARROW, 1, b)
            else:
                f.load_strided(_NARROW, b, stride)
            f.step(b, own.b_step, x[0])
            f.widen(_WIDE, _NARROW)
            if own.b_offset:
                f.with_scalar("vadd", _WIDE, _WIDE, offset)
            for r, value in enumerate(x):
                f.load("lb", value, own.a_step * index + own.a_row * r, a)
                f.advance(value, own.a_offset)
            for r, value in enumerate(x):
                f.multiply(8 * r, _WIDE, value, first and index == 0)
        f.step(a, count * own.a_step, x[0])

    # The first element begins the sums: what precedes the loop is a turn of it, or what is left.
    turns, left = divmod(own.depth, tile.turn)
    if left == 0:
        turns, left = turns - 1, tile.turn
    elements(left, True)
    if turns:
        if turns > 1:
            f.distance(end, a, turns * tile.turn * own.a_step)
        with f.loop(turns, a, end):
            elements(tile.turn, False)
    f.release(*x)


def _class(tile: Tile, rows: int) -> type[MatricesParameters]:
    whole, left = divmod(rows, tile.rows)
    tiles = [(tile, whole)] + ([(replace(tile, rows=left), 1)] if left else [])
    functions = [emit_tile(each) for each, _ in tiles]
    own = tile.operands
    of_pair = sum(
        times * (function.instructions + GLUE["tile"])
        for function, (_, times) in zip(functions, tiles, strict=True)
    )
    return emitted(
        MatricesParameters,
        Description(
            family="rvv",
            operator="batch_matmul_s8",
            form=f"{tile.rows}_row{'s' if tile.rows > 1 else ''}",
            requires=frozenset({"zve32x"}),
            scratch="0",
            order="none",
            reads="",
            window={},
            functions=sum(function.code_bytes for function in functions),
            glue=GLUE_BYTES,
            figures={"call": GLUE["call"], "pair": GLUE["pair"] + of_pair},
            counts={"pair": "batches"},
            head={
                "Tile": f"{tile.rows} rows x as many columns as a group of eight vector registers "
                f"has words, for all {own.columns} columns and a depth of {own.depth}.",
                "Registers": "sums: eight vector registers a row from v0 on; elements of columns: "
                "v24 to v27, loaded into the upper half of these; scales: v24 to v31.",
                "Data": "elements of both matrices where they lie; scales int32 "
                f"[{scale_words(tile.output)}][columns], by matrices_output().",
                "Order": "Outputs are written while later rows are still to be read.",
                "Bounds": f"Sums scaled by 2^{tile.output.bits} are below 2^30 for all inputs.",
                "Output": f"{tile.output.text} The narrowing shifts round down and saturate.",
                "Scratch": "none.",
                "Cost": "Counted by the emitter for registers of 128 bits: "
                f"{of_pair / (rows * own.columns * own.depth):.3f} instructions a MAC.",
                "Tests": "tests/board/test_riscv_kernels.py, tests/c/test_riscv_kernels.py: the C "
                "form is the same list of instructions.",
            },
            inputs=2,
        ),
        FIELDS,
        [INCLUDE, "hil/rvv.h"],
        matrices_code(functions, [(each.name, each.rows, times) for each, times in tiles]),
    )
