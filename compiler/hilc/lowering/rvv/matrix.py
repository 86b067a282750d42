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

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from hilc.lowering.linear import (
    LinearWeights,
    WideRequantization,
    packed_once,
)
from hilc.lowering.riscv.arithmetic import scale_words
from hilc.lowering.riscv.emitted import NAME, Description, EmittedParameters, emitted
from hilc.lowering.riscv.emitter import LARGEST_OFFSET, ZERO, Register
from hilc.lowering.riscv.linear import (
    IMAGE_FIELDS,
    ConvParameters,
    MatmulParameters,
    PaddedRows,
    Runs,
    kernel_text,
)
from hilc.lowering.riscv.outputs import Output, output_of
from hilc.lowering.riscv.wide import PartialSums, WideOutput, wide_output_of
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
ROWS, _SIGNED_ROWS = 3, 2
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
    runs: Runs
    output: Output | WideOutput | PartialSums
    #: Distinguishes functions of a kernel.
    suffix: str = ""

    @property
    def element(self) -> int:
        """Bytes of an input, and of an output."""
        return 1 if isinstance(self.output, Output) else 2

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
    def name(self) -> str:
        """Name of the function."""
        return f"{NAME}_tile{self.rows}{self.suffix}"

    @property
    def form(self) -> str:
        """Form of the variant."""
        return f"{self.rows}_row{'s' if self.rows > 1 else ''}"


@dataclass(frozen=True, eq=False)
class Packed:
    weights: npt.NDArray[np.int8]
    scales: npt.NDArray[np.int32]
    output: Output | WideOutput

    @property
    def element(self) -> int:
        """Bytes of an input."""
        return 2 if isinstance(self.output, WideOutput) else 1


def most_rows(packed: Packed) -> int:
    signed = isinstance(packed.output, Output) and packed.output.signed
    return _SIGNED_ROWS if signed else ROWS


@packed_once
def packed_weights(layer: LinearWeights) -> Packed | None:
    """Return weights and scales; None where the kernel does not serve the layer."""
    if isinstance(layer.outputs, WideRequantization):
        if (wide := wide_output_of(layer, "zve32x")) is None:
            return None
        return Packed(transposed(layer.matrix), transposed(wide[1]), wide[0])
    channels = require_right_shifts(layer.matrix, layer.requantization)
    if channels is None:
        return None
    largest = max(int(np.abs(end).max()) for end in channels.ends)
    found = output_of(channels, min(_MOST_BITS, 31 - largest.bit_length()), "zve32x")
    if found is None:
        return None
    output, scales = found
    return Packed(transposed(channels.weights), transposed(scales), output)


def transposed(matrix: npt.NDArray[_T]) -> npt.NDArray[_T]:
    """Return values ``[columns, depth]`` as ``[depth][columns]``."""
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
        tile.name, [("rows", "read"), ("weights", "read"), ("scales", "read"), *outs]
    )
    rows, weights, scales, *places = f.arguments
    left, length = f.word("left"), f.word("length")
    runs = tile.runs
    apart = (tile.rows - 1) * runs.step + _TURN * tile.element > LARGEST_OFFSET
    others = [f.address(f"row{r}") for r in range(1, tile.rows)] if apart else []
    bases = [rows, *others]
    at, x = f.address("weight"), f.words("x", tile.rows)
    end, end_of_runs = f.address("end"), f.address("end_of_runs")
    f.round_down()
    f.constant(left, tile.columns)
    for r, other in enumerate(others, start=1):
        f.distance(other, rows, r * runs.step)
    with f.loop(blocks_of(tile.columns), left, ZERO, always=True):
        f.length(length, left, 2)
        f.move(at, weights)
        _emit_run(f, tile, bases, at, x, end, True)
        if runs.count > 1:
            f.distance(end_of_runs, rows, (runs.count - 1) * runs.pitch)
            with f.loop(runs.count - 1, rows, end_of_runs):
                _emit_run(f, tile, bases, at, x, end, False)
        for base in bases:
            f.step(base, -runs.row_bytes, x[0])
        sums = [8 * r for r in range(tile.rows)]
        if isinstance(tile.output, PartialSums):
            f.elements(4)
            for value, out in zip(sums, places, strict=True):
                f.store_vector(value, 4, out)
        elif isinstance(tile.output, WideOutput):
            emit_wide_outputs(f, tile.output, tile.columns, sums, scales, places)
        else:
            emit_outputs(f, tile.output, tile.columns, sums, scales, places)
        f.operate("sub", left, left, length)
        written = 4 if isinstance(tile.output, PartialSums) else tile.element
        emit_advance(f, length, [(1, [weights]), (written, places), (4, [scales])])
    return f


def _emit_run(
    f: VectorFunction,
    tile: Tile,
    bases: list[Register],
    weights: Register,
    x: list[Register],
    end: Register,
    begin: bool,
) -> None:
    """Emit the products of a run, the first of which may begin the sums; move on to the next."""
    runs, turn_bytes = tile.runs, _TURN * tile.element
    load = "lb" if tile.element == 1 else "lh"

    def elements(count: int, first: bool) -> None:
        for index in range(count):
            f.load_vector(_NARROW, 1, weights)
            f.step(weights, tile.columns, x[0])
            f.widen(_WEIGHTS, _NARROW)
            for r, value in enumerate(x):
                base, offset = (bases[r], 0) if len(bases) > 1 else (bases[0], r * runs.step)
                f.load(load, value, offset + tile.element * index, base)
            for r, value in enumerate(x):
                f.multiply(8 * r, _WEIGHTS, value, first and index == 0)

    turns, rest = divmod(runs.bytes // tile.element, _TURN)
    # The first turn begins the sums.
    if begin and turns:
        elements(_TURN, True)
        for base in bases:
            f.advance(base, turn_bytes)
        turns -= 1
        begin = False
    if turns:
        if turns > 1:
            f.distance(end, bases[0], turns * turn_bytes)
        with f.loop(turns, bases[0], end):
            elements(_TURN, False)
            for base in bases:
                f.advance(base, turn_bytes)
    elements(rest, begin)
    for base in bases:
        f.step(base, runs.pitch - runs.bytes + rest * tile.element, x[0])


# The kernels --------------------------------------------------------------------------------------

_ARRAYS = (
    "    const int32_t *scales; /* [words of a scale][columns] */\n"
    "    const int8_t *weights; /* [depth][columns] */\n"
)


def _tile(layer: LinearWeights, rows: int, runs: Runs | None = None) -> Tile:
    packed = packed_weights(layer)
    assert packed is not None
    row = layer.depth * packed.element
    runs = runs or Runs(1, row, row, row)
    return Tile(layer.depth, layer.channels, min(rows, most_rows(packed)), runs, packed.output)


@packed_once
def matmul_class(layer: LinearWeights, rows: int) -> type[MatmulParameters]:
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
def conv_class(layer: LinearWeights) -> type[ConvParameters]:
    tile = _tile(layer, ROWS)
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


@packed_once
def padded_class(layer: LinearWeights, rows: PaddedRows) -> type[ConvParameters]:
    most = _tile(layer, ROWS).rows
    tiles = [_tile(layer, count, rows.runs) for count in rows.sizes(most)]
    functions = [emit_tile(tile) for tile in tiles]
    element, row = tiles[0].element, tiles[0].out_bytes
    calls = rows.calls([(tile.name, tile.rows) for tile in tiles], row, apart=True)
    of_row = rows.instructions(
        [(tile.rows, f.instructions) for tile, f in zip(tiles, functions, strict=True)]
    )
    figures = rows.figures | {"copied": 7 / COPIED_BYTES}
    figures["row"] += of_row
    text = "\n".join(function.text() for function in (emit_copy(), *functions))
    return _emitted(
        ConvParameters,
        "conv2d",
        tiles[0],
        IMAGE_FIELDS + _ARRAYS,
        kernel_text(
            text, rows.body(calls, row), images=True, dtype=tiles[0].dtype, element=element
        ),
        rows.counts,
        figures,
        "window",
        rows,
    )


def _code(tile: Tile, functions: str, begin: str, rows: str, images: bool = False) -> str:
    """Return the emitted functions and the glue around them."""
    row = tile.out_bytes
    outs = "".join(
        f",\n            {r} < count ? out + {r * row} : out" for r in range(1, tile.rows)
    )
    body = (
        f"{begin}    while (left > 0) {{\n"
        f"        const int32_t count = left < {tile.rows} ? left : {tile.rows};\n{rows}"
        f"        {tile.name}((const int8_t *)scratch, p->weights, (const int8_t *)p->scales, out"
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
    padded: PaddedRows | None = None,
) -> type[_P]:
    function = emit_tile(tile)
    if padded is None:
        figures |= {"tile": figures["tile"] + function.instructions}
    products = tile.rows * tile.columns * tile.depth
    return emitted(
        parameters,
        Description(
            family="rvv",
            operator=f"{operator}_s{8 * tile.element}",
            form=f"{tile.form}_padded" if padded else tile.form,
            requires=frozenset({"zve32x"}),
            scratch=str(padded.scratch if padded else tile.rows * tile.row_bytes),
            order=(("rows", "1"),) if padded else (("pixels", str(tile.rows)),),
            reads=reads,
            window={},
            functions=function.code_bytes * (2 if padded else 1),
            glue=500,
            figures=figures,
            counts=counts,
            head={
                "Tile": f"{tile.rows} rows x as many columns as a group of eight vector registers "
                f"has words, for all {tile.columns} columns and a depth of {tile.depth}.",
                "Registers": "sums: eight vector registers a row from v0 on; weights: v24 to v27, "
                "loaded into the upper half of these; scales: v24 to v31.",
                "Data": f"rows in scratch, int{8 * tile.element} [row][depth], or rows of the "
                "image with their padding, of which a window has runs; weights int8 "
                f"[depth][columns]; scales int32 [{scale_words(tile.output)}][columns], packed by "
                "packed_weights().",
                "Order": "What is under a row of outputs is copied to scratch, then it is written."
                if padded
                else f"{tile.rows} rows are copied to scratch, then their outputs are written, "
                "the last row first: what is missing of the last rows is written to the place of "
                "the first, and overwritten.",
                "Bounds": bounds_text(tile.output),
                "Output": f"{tile.output.text} The narrowing shifts round down and saturate.",
                "Scratch": "The rows.",
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
