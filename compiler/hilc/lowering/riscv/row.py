"""int8 matrix products of single rows on RV32IM, emitted for each layer; zeros are skipped.

A row's elements that are not the zero point are listed first: the element, and where its weights
are. Each block of columns takes the list, with its sums in registers. Three columns share two
words of weights as three rows do elsewhere (:mod:`hilc.lowering.riscv.tile`), so two
multiplications and two additions serve three products. These words take 8 bytes of flash for three
weights; the other form has the weights as they are, and a product and a sum for each.

The number of instructions depends on the input. A layer whose input has no values below zero is
expected to have zeros in :data:`ZEROS` of it, any other none. What is checked for each layer:

* sums stay below 2**30, and every shift is to the right;
* of no part of a column does a sum leave its 21 bits, whatever the inputs: parts are cut so;
* the outputs of each channel are exact for every sum (:mod:`hilc.lowering.riscv.outputs`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from hilc.ir import ELEMENT_TYPES, Array
from hilc.lowering.channels import padded
from hilc.lowering.linear import LinearWeights, MatrixProduct, packed_once
from hilc.lowering.records import record
from hilc.lowering.riscv.arithmetic import scale_words
from hilc.lowering.riscv.emitted import NAME, Description, EmittedParameters, emitted
from hilc.lowering.riscv.emitter import LARGEST_OFFSET, Function, Register
from hilc.lowering.riscv.linear import kernel_text
from hilc.lowering.riscv.outputs import Output, output_of
from hilc.lowering.riscv.tile import SUM_SHIFT, emit_lower, emit_part, emit_sums
from hilc.lowering.v7m.channels import require_right_shifts
from hilc.lowering.v7m.conv2d import longest_part

#: Part of the elements that are expected to be zero where none is below: about half after ReLU.
ZEROS = 0.5
#: Columns that share words, and the bytes of these.
_SHARING, _SHARED_BYTES = 3, 8
#: Such columns of a block, or columns that have a sum each.
_TRIPLES, _COLUMNS = 8, 16
#: Elements of depth of a turn of the loop that lists them, and bytes of an entry of the list.
_TURN, _ENTRY = 8, 8
#: Number of functions that are kept for layers with the same rows.
_KEPT = 256
_LOWEST = ELEMENT_TYPES["int8"].bounds[0]
_GLUE = {"call": 30.0, "row": 12.0}
_GLUE_BYTES = 150
_INCLUDE = "hil/kernels/riscv/rows_s8.h"


@record(frozen=True, eq=False, kw_only=True)
class RowParameters(EmittedParameters):
    """The fields of an emitted kernel's struct."""

    rows: int
    scales: npt.NDArray[np.int32]
    #: int32 where columns share words, else int8.
    weights: Array


@dataclass(frozen=True)
class _Row:
    """What the emitted function is specialised for."""

    depth: int
    columns: int
    zero_point: int
    #: Whether three columns share two words, and the depth after which sums are taken out of them.
    shared: bool
    part: int
    output: Output
    #: Bits by which sums are shifted to the left before they become outputs.
    left: int

    @property
    def zeros(self) -> float:
        """Part of the elements that are expected to be zero."""
        return ZEROS if self.zero_point == _LOWEST else 0.0

    @property
    def block(self) -> int:
        """Columns of a block."""
        return _SHARING * _TRIPLES if self.shared else _COLUMNS

    def weight_bytes(self, columns: int) -> int:
        """Bytes of the weights of an element."""
        return -(-columns // _SHARING) * _SHARED_BYTES if self.shared else columns

    @property
    def parts(self) -> range:
        """Where parts of the depth begin."""
        return range(0, self.depth, self.part)


@dataclass(frozen=True, eq=False)
class _Packed:
    weights: Array
    scales: npt.NDArray[np.int32]
    row: _Row


def single_rows(form: MatrixProduct, extension: str) -> Iterator[EmittedParameters]:
    """Yield the emitted kernels that take one row at a time, if they serve the layer."""
    for shared in (True, False):
        if (packed := _packed(form.packing, shared, extension)) is not None:
            made = _class(form.packing, shared, extension)
            yield made(rows=form.rows, scales=packed.scales, weights=packed.weights)


@packed_once
def _packed(layer: LinearWeights, shared: bool, extension: str) -> _Packed | None:
    """Return weights and scales; None where the kernel does not serve the layer."""
    raised = -layer.pad_value
    channels = require_right_shifts(layer.matrix, layer.requantization, raised)
    if channels is None:
        return None
    part = longest_part(channels.weights, raised) if shared else layer.depth
    largest = max(int(np.abs(end).max()) for end in channels.ends)
    bits = SUM_SHIFT
    if not shared or part < layer.depth:
        bits = min(SUM_SHIFT, 31 - largest.bit_length())
    if (found := output_of(channels, bits, extension)) is None:
        return None
    output, scales = found
    left = 0 if shared else output.bits
    row = _Row(layer.depth, layer.channels, layer.pad_value, shared, part, output, left)
    weights = np.ascontiguousarray(channels.weights.T).reshape(-1)
    if not shared:
        return _Packed(weights, scales.reshape(-1), row)
    a, b, c = (
        padded(channels.weights.astype(np.int64), _SHARING)
        .reshape(-1, _SHARING, layer.depth)
        .transpose(1, 2, 0)
    )
    words = np.stack([a + (c << 11) + (b << 21), b + (c << 21)], axis=-1)
    return _Packed(words.astype(np.uint32).view(np.int32).reshape(-1), scales.reshape(-1), row)


# The function -------------------------------------------------------------------------------------


@lru_cache(_KEPT)
def _emit_row(row: _Row) -> Function:
    """Return the function that multiplies a row with all columns."""
    names = [("row", "read"), ("weights", "read"), ("scales", "read"), ("out", "write")]
    names.append(("list", "write"))
    f = Function(f"{NAME}_row", names, row.output.extensions)
    source, weights, scales, out, list_ = f.arguments
    for register in (scales, out, list_):
        f.save(register, register.variable)
    f.release(scales, out)
    _emit_list(f, row, source, list_)
    f.release(source, list_)
    blocks, left = divmod(row.columns, row.block)
    if blocks > 1:
        end = f.address("end")
        f.distance(end, weights, blocks * row.weight_bytes(row.block))
        f.save(end, "weights_end")
        f.release(end)
    if blocks:
        # The products take this register, too.
        end = f.address("end")
        f.release(end)
        with f.loop(blocks, weights, end):
            _emit_block(f, row, weights, row.block)
            if blocks > 1:
                f.restore(end, "weights_end")
    if left:
        _emit_block(f, row, weights, left)
    return f


def _emit_list(f: Function, row: _Row, source: Register, list_: Register) -> None:
    """List the elements that are not zero, with the places of their weights, part by part."""
    zero, value, place, stride = (f.word(name) for name in ("zero", "x", "place", "stride"))
    step = row.weight_bytes(row.columns)
    f.constant(zero, row.zero_point)
    f.constant(place, 0)
    if step > LARGEST_OFFSET:
        f.constant(stride, step)

    def elements(count: int) -> None:
        for index in range(count):
            f.load("lb", value, index, source)
            with f.skip_if_equal(value, zero, row.zeros):
                f.operate("sub", value, value, zero)
                f.store_word(value, 0, list_)
                f.store_word(place, 4, list_)
                f.advance(list_, _ENTRY)
            if step > LARGEST_OFFSET:
                f.operate("add", place, place, stride)
            else:
                f.advance(place, step)
        f.advance(source, count)

    for index, begin in enumerate(row.parts):
        turns, left = divmod(min(row.part, row.depth - begin), _TURN)
        if turns:
            end = f.address("end")
            if turns > 1:
                f.distance(end, source, turns * _TURN)
            with f.loop(turns, source, end):
                elements(_TURN)
            f.release(end)
        if left:
            elements(left)
        f.save(list_, f"end{index}")
    f.release(zero, value, place, stride)


def _emit_block(f: Function, row: _Row, weights: Register, columns: int) -> None:
    """Emit the products of a block of columns, and its outputs."""
    words = row.weight_bytes(columns) // 4 if row.shared else columns
    sums = f.words("s", words)
    list_ = f.address("at", "write")
    f.restore(list_, "list")
    for index, _ in enumerate(row.parts):
        for total in sums:
            f.constant(total, 0)
        _emit_products(f, row, weights, sums, list_, index)
        if index + 1 < len(row.parts):
            emit_part(f, row.output, [sums], columns, index == 0)
    f.release(list_)
    f.advance(weights, row.weight_bytes(columns))
    _emit_outputs(f, row, sums, columns)
    f.release(*sums)


def _emit_products(
    f: Function, row: _Row, weights: Register, sums: list[Register], list_: Register, part: int
) -> None:
    value, factors = f.word("x"), f.words("w", 4 if row.shared else 3)
    at, end = f.address("weight"), f.address("end", "write")
    kind, size = ("lw", 4) if row.shared else ("lb", 1)
    turns = (1 - row.zeros) * min(row.part, row.depth - row.part * part)
    ahead = len(factors) - 1

    def load(index: int) -> None:
        if index < len(sums):
            f.load(kind, factors[index % len(factors)], size * index, at)

    f.restore(end, f"end{part}")
    with f.skip_if_equal(list_, end), f.loop(turns, list_, end, always=True):
        f.load("lw", factors[0], 4, list_)
        f.load("lw", value, 0, list_)
        f.index(at, weights, factors[0])
        # A word that was just loaded would stall its product.
        for index in range(ahead):
            load(index)
        f.advance(list_, _ENTRY)
        for index, total in enumerate(sums):
            load(index + ahead)
            factor = factors[index % len(factors)]
            f.operate("mul", factor, factor, value)
            f.operate("add", total, total, factor)
    f.release(value, *factors, at, end)


def _emit_outputs(f: Function, row: _Row, sums: list[Register], columns: int) -> None:
    output = row.output
    scales, out = f.address("scales"), f.address("out", "write")
    b, t = f.words("o", 2)
    scale, constants = output.scale(f), output.constants(f)
    f.restore(scales, "scales")
    f.restore(out, "out")

    def emit(value: Register, column: int) -> None:
        output.load(f, scale, 4 * output.words * column, scales)
        output.emit(f, value, scale, constants, t)
        f.store_byte(value, column, out)

    if row.shared:
        for first in range(0, columns, _SHARING):
            pair = first // _SHARING
            values = emit_sums(f, sums[2 * pair], sums[2 * pair + 1], b, t)
            for i, value in enumerate(values[: columns - first]):
                emit_lower(f, output, value)
                if len(row.parts) > 1:
                    f.restore(t, f"sum0_{first + i}")
                    f.operate("add", value, value, t)
                emit(value, first + i)
    else:
        for column, value in enumerate(sums):
            f.shift("slli", value, value, row.left)
            emit(value, column)
    f.advance(scales, 4 * output.words * columns)
    f.advance(out, columns)
    f.save(scales, "scales")
    f.save(out, "out")
    f.release(scales, out, b, t, *scale, *constants)


# The kernel ---------------------------------------------------------------------------------------


@packed_once
def _class(layer: LinearWeights, shared: bool, extension: str) -> type[RowParameters]:
    packed = _packed(layer, shared, extension)
    assert packed is not None
    row = packed.row
    function = _emit_row(row)
    kind, text = (
        ("int32_t", "[depth][threes of columns][x, y]")
        if shared
        else ("int8_t", "[depth][columns]")
    )
    struct = (
        "    int32_t rows; /* rows of the input, and of the output */\n"
        "    const int32_t *scales; /* how the sums of each column become outputs */\n"
        f"    const {kind} *weights; /* {text} */\n"
    )
    body = (
        "    for (int32_t row = 0; row < p->rows; row++) {\n"
        f"        {NAME}_row(in, (const int8_t *)p->weights, (const int8_t *)p->scales, out,\n"
        "            (int8_t *)scratch);\n"
        f"        in += {row.depth};\n        out += {row.columns};\n    }}\n"
    )
    return emitted(
        RowParameters,
        Description(
            family="riscv",
            operator="matmul_s8",
            form="1_row_words" if shared else "1_row",
            requires=row.output.features,
            scratch=str(_ENTRY * row.depth),
            order=(("pixels", "1"),),
            reads="rows",
            window={},
            functions=function.code_bytes,
            glue=_GLUE_BYTES,
            figures=_GLUE | {"row": _GLUE["row"] + function.instructions},
            counts={"row": "rows"},
            head=_head(row, function, f"{kind} {text}"),
        ),
        struct,
        [_INCLUDE],
        kernel_text(function.text(), body, images=False),
    )


def _head(row: _Row, function: Function, weights: str) -> dict[str, str]:
    products = row.columns * row.depth
    bounds = f"Sums are below 2^30, scaled by 2^{row.output.bits} below 2^31."
    if row.shared:
        bounds = (
            f"Of each part of a column -2^20 <= sum < 2^20 for all inputs: longest_part() cuts the "
            f"depth into {len(row.parts)} of at most {row.part}. {bounds}"
        )
    return {
        "Tile": f"One row x {min(row.block, row.columns)} columns x 1 element of depth that is not "
        f"the zero point, for all {row.columns} columns.",
        "Registers": "A sum for each column, or two words of sums for three columns; weights, the "
        "element, four addresses; given out by the emitter.",
        "Data": f"weights: {weights}, of three columns a, b and c the words "
        "x = a + c * 2^11 + b * 2^21 and y = b + c * 2^21, if they share words; packed by "
        f"_packed(). scales: int32 [column][{scale_words(row.output)}]. The list: words "
        "[element less the zero point, offset of its weights].",
        "Order": "A row is read whole, then its outputs are written.",
        "Bounds": bounds,
        "Output": row.output.text,
        "Scratch": f"The list: {_ENTRY} bytes for each element of a row.",
        "Cost": f"Counted by the emitter where {row.zeros:.0%} of the elements are zero: "
        f"{function.instructions:.0f} instructions a row, "
        f"{function.instructions / products:.3f} a MAC. It depends on the input.",
        "Tests": "tests/board/test_riscv_kernels.py, tests/c/test_riscv_kernels.py: the C form is "
        "the same list of instructions.",
    }
