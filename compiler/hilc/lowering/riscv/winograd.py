"""int8 convolutions with 3x3 filters and stride 1 on RV32IM by Winograd's F(2x2, 3x3), emitted.

Four outputs of a 2x2 tile follow from the 4x4 pixels d under them as A' (U . V) A, where
V = B' d B, and U = 2G g (2G)' is made of the filter g when the layer is compiled::

         1  0 -1  0         2  0  0
    B' = 0  1  1  0    2G = 1  1  1    A' = 1  1  1  0
         0 -1  1  0         1 -1  1         0  1 -1 -1
         0  1  0 -1         0  0  2

16 products take the place of 36. All numbers are whole, and the result is exactly four times the
sum. A group of up to four tiles of a row is computed at a time: its V lies in scratch, then all
columns of outputs follow, four at a time. What is checked here for each layer:

* |V| <= 512, and U, scaled by a power of two, are half-words;
* four times the sum, scaled as U is, is below 2**31: words may overflow on the way, the result not;
* the outputs of each channel are exact for every sum (:mod:`hilc.lowering.riscv.outputs`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.lowering.channels import padded
from hilc.lowering.linear import Convolution, LinearWeights, packed_once
from hilc.lowering.parameters import HilImages
from hilc.lowering.records import record
from hilc.lowering.riscv.arithmetic import scale_words
from hilc.lowering.riscv.emitted import NAME, Description, EmittedParameters, emitted
from hilc.lowering.riscv.emitter import LARGEST_OFFSET, Function, Register
from hilc.lowering.riscv.outputs import Output, output_of
from hilc.lowering.v7m.channels import require_right_shifts

#: Tiles of a group, and columns of outputs whose weights lie next to each other.
_TILES, _BLOCK = 4, 4
#: Rows and columns of a tile's outputs, and of the pixels under it; the products of a tile.
_OUT, _UNDER, _PLACES = 2, 4, 16
#: Columns of a group's outputs.
_WIDE = _OUT * _TILES
#: Elements of depth of a turn of the loop.
_TURN = 8
#: Bits of four, by which the sums are too large.
_FOURFOLD = 2
#: Bits by which sums are scaled, at most.
_MOST_BITS = 13
_HALF_WORD = 2**15
_FILTER = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]])
_SUM_BYTES = 4 * _PLACES * _BLOCK * _TILES
#: Instructions of the glue: of a call, of a row of tiles, of a group.
_GLUE = {"call": 60.0, "pad_byte": 0.5, "row": 40.0, "group": 45.0}
_GLUE_BYTES = 700
_INCLUDE = "hil/kernels/riscv/depthwise_s8.h"


@record(frozen=True, eq=False, kw_only=True)
class WinogradParameters(EmittedParameters):
    """The fields of an emitted kernel's struct."""

    images: HilImages
    pad_top: int
    scales: npt.NDArray[np.int32]
    weights: npt.NDArray[np.int16]


@dataclass(frozen=True)
class _Group:
    """Neighbouring tiles of a row: their outputs are ``columns`` from ``first`` on."""

    in_w: int
    in_c: int
    pad_left: int
    first: int
    columns: int

    @property
    def tiles(self) -> int:
        return -(-self.columns // _OUT)

    @property
    def inside(self) -> list[bool]:
        """Whether each column of pixels under the tiles lies in the image."""
        x = self.first - self.pad_left
        return [0 <= x + i < self.in_w for i in range(_OUT * self.tiles + _UNDER - _OUT)]

    @property
    def begin(self) -> int:
        """The first column of the image that is read."""
        return max(0, self.first - self.pad_left)

    @property
    def missing(self) -> tuple[int, int]:
        """Columns that lie before and behind the image."""
        return self.inside.index(True), self.inside[::-1].index(True)

    @property
    def element_bytes(self) -> int:
        """Bytes of V of an element of depth."""
        return 2 * _PLACES * self.tiles

    @property
    def input_name(self) -> str:
        left, right = self.missing
        return f"{NAME}_input{self.tiles}_{left}_{right}"

    @property
    def output_name(self) -> str:
        return f"{NAME}_outputs{self.columns}"


@dataclass(frozen=True)
class _Shape:
    """What the emitted functions are specialised for, beside the group."""

    depth: int
    columns: int
    pad_value: int
    #: Bits by which sums are shifted to the left before they become outputs.
    left: int
    output: Output


@dataclass(frozen=True, eq=False)
class _Packed:
    weights: npt.NDArray[np.int16]
    scales: npt.NDArray[np.int32]
    shape: _Shape


def winograd(form: Convolution, extension: str) -> Iterator[EmittedParameters]:
    """Yield the emitted kernel of a convolution, if it serves the layer."""
    window, images = form.window, form.images
    ones = (window.stride_h, window.stride_w, window.dilation_h, window.dilation_w)
    if (window.filter_h, window.filter_w) != (3, 3) or ones != (1, 1, 1, 1):
        return
    groups = [
        _Group(images.in_w, images.in_c, window.pad_left, first, min(_WIDE, images.out_w - first))
        for first in range(0, images.out_w, _WIDE)
    ]
    reach = max((_WIDE + _UNDER - _OUT - 1) * images.in_c, (_WIDE - 1) * form.channels)
    if reach > LARGEST_OFFSET or not all(any(group.inside) for group in groups):
        return
    if (packed := _packed(form.packing, extension)) is not None:
        made = _class(form.packing, tuple(groups), images.out_w, extension)
        yield made(
            images=images, pad_top=window.pad_top, scales=packed.scales, weights=packed.weights
        )


@packed_once
def _packed(layer: LinearWeights, extension: str) -> _Packed | None:
    """Return weights and scales; None where the kernel does not serve the layer."""
    channels = require_right_shifts(layer.matrix, layer.requantization)
    if channels is None:
        return None
    filters = channels.weights.astype(np.int64).reshape(layer.channels, 3, 3, -1)
    u = np.einsum("iy,jx,oyxc->ijco", _FILTER, _FILTER, filters)
    u = u.reshape(_PLACES, -1, layer.channels)
    largest = max(int(np.abs(end).max()) for end in channels.ends)
    bits = min(_MOST_BITS, 31 - largest.bit_length())
    found = output_of(channels, bits, extension)
    if found is None or found[0].bits < _FOURFOLD:
        return None
    output, scales = found
    # U takes as many of these bits as its half-words have room for.
    spare = (_HALF_WORD - 1) // max(int(np.abs(u).max()), 1)
    own = min(spare.bit_length() - 1, output.bits - _FOURFOLD)
    # [blocks of four columns][16 places][depth][4].
    scaled = padded(np.moveaxis(u << own, 2, 0), _BLOCK)
    blocks = scaled.reshape(-1, _BLOCK, *u.shape[:2]).transpose(0, 2, 3, 1)
    left = output.bits - _FOURFOLD - own
    shape = _Shape(u.shape[1], layer.channels, layer.pad_value, left, output)
    return _Packed(
        np.ascontiguousarray(blocks).astype(np.int16).reshape(-1), scales.reshape(-1), shape
    )


# The functions ------------------------------------------------------------------------------------


def _emit_input(group: _Group, shape: _Shape) -> Function:
    """Return the function that makes V, ``[depth][16 places][tiles]``, of four rows of pixels."""
    parameters = [(f"row{y}", "read") for y in range(_UNDER)] + [("v", "write")]
    f = Function(group.input_name, parameters, shape.output.extensions)
    *rows, v = f.arguments
    end = f.address("end")
    f.distance(end, rows[0], shape.depth)
    with f.loop(shape.depth, rows[0], end):
        # B' d: rows 1 and 2 are made of the same pixels.
        _emit_v_rows(f, group, shape, (rows[0], rows[2]), [(0, "sub", False)], v)
        _emit_v_rows(f, group, shape, (rows[1], rows[2]), [(1, "add", False), (2, "sub", True)], v)
        _emit_v_rows(f, group, shape, (rows[1], rows[3]), [(3, "sub", False)], v)
        for row in rows:
            f.advance(row, 1)
        f.advance(v, group.element_bytes)
    return f


def _emit_v_rows(
    f: Function,
    group: _Group,
    shape: _Shape,
    rows: tuple[Register, Register],
    v_rows: Sequence[tuple[int, str, bool]],
    v: Register,
) -> None:
    """Emit rows of V that are made of two rows of pixels: their place, and how: the operation, and
    whether on the second and the first.
    """
    inside, step = group.inside, group.in_c
    first = inside.index(True)
    pixels, product = f.words("d", 2), f.word("t")
    columns: list[list[Register]] = []

    def column(x: int) -> list[Register]:
        """Emit a column of the rows of V."""
        found = f.words(f"c{x % _UNDER}_", len(v_rows))
        for pixel, row in zip(pixels, rows, strict=True):
            if inside[x]:
                f.load("lb", pixel, (x - first) * step, row)
            else:
                f.constant(pixel, shape.pad_value)
        for to, (_, operation, reverse) in zip(found, v_rows, strict=True):
            f.operate(operation, to, *(pixels[::-1] if reverse else pixels))
        return found

    for tile in range(group.tiles):
        columns += [column(x) for x in range(_OUT * tile + len(columns), _OUT * tile + _UNDER)]
        for (place, _, _), values in zip(v_rows, zip(*columns, strict=True), strict=True):
            c0, c1, c2, c3 = values
            for i, (operation, a, b) in enumerate(
                [("sub", c0, c2), ("add", c1, c2), ("sub", c2, c1), ("sub", c1, c3)]
            ):
                f.operate(operation, product, a, b)
                at = 2 * ((_UNDER * place + i) * group.tiles + tile)
                f.store_half(product, at, v)
        for registers in columns[:_OUT]:
            f.release(*registers)
        del columns[:_OUT]
    for registers in columns:
        f.release(*registers)
    f.release(*pixels, product)


def _emit_outputs(group: _Group, shape: _Shape) -> Function:
    """Return the function that makes all outputs of a group of tiles of its V."""
    names = [("v", "read"), ("weights", "read"), ("scales", "read"), ("out", "write")]
    names += [("below", "write"), ("sums", "write")]
    f = Function(group.output_name, names, shape.output.extensions)
    v, weights, scales, out, below, sums = f.arguments
    for register in (v, scales, out, below, sums):
        f.save(register, register.variable)
    f.distance(sums, sums, _sum_bytes(group, _BLOCK))
    f.save(sums, "sums_end")
    blocks, left = divmod(shape.columns, _BLOCK)
    if blocks > 1:
        f.distance(v, weights, 2 * blocks * _PLACES * shape.depth * _BLOCK)
        f.save(v, "weights_end")
    f.release(v, scales, out, below, sums)
    if blocks:
        end = f.address("end")
        f.release(end)
        with f.loop(blocks, weights, end):
            _emit_block(f, group, shape, weights, _BLOCK)
            if blocks > 1:
                f.restore(end, "weights_end")
    if left:
        _emit_block(f, group, shape, weights, left)
    return f


def _sum_bytes(group: _Group, columns: int) -> int:
    return 4 * _PLACES * columns * group.tiles


def _emit_block(f: Function, group: _Group, shape: _Shape, weights: Register, columns: int) -> None:
    """Emit the products of a block of columns at all places, then the outputs."""
    v, to = f.address("v"), f.address("sums", "write")
    f.restore(v, "v")
    f.restore(to, "sums")
    f.save(to, "place")
    if columns < _BLOCK:
        f.distance(to, to, _sum_bytes(group, columns))
        f.save(to, "sums_end")
    f.release(to)
    totals = [f.words(f"s{c}_", group.tiles) for c in range(columns)]
    # The products take these registers, too.
    to, end = f.address("sums", "write"), f.address("sums_end", "write")
    f.release(to, end)
    with f.loop(_PLACES, to, end):
        _emit_products(f, group, shape, v, weights, totals)
        f.restore(to, "place")
        for i, total in enumerate(total for column in totals for total in column):
            f.store_word(total, 4 * i, to)
        f.advance(to, 4 * columns * group.tiles)
        f.save(to, "place")
        f.restore(end, "sums_end")
    f.release(v, *(total for column in totals for total in column))
    _emit_columns(f, group, shape, columns)


def _emit_products(
    f: Function,
    group: _Group,
    shape: _Shape,
    v: Register,
    weights: Register,
    totals: list[list[Register]],
) -> None:
    """Emit the products of one place; leave ``v`` at the next."""
    tiles, factors, product = f.words("x", group.tiles), f.words("w", 2), f.word("t")
    columns = len(totals)

    def elements(count: int, first: bool = False) -> None:
        for index in range(count):
            for t, value in enumerate(tiles):
                f.load("lh", value, group.element_bytes * index + 2 * t, v)
            f.load("lh", factors[0], 2 * _BLOCK * index, weights)
            for c, column in enumerate(totals):
                if c + 1 < columns:
                    f.load("lh", factors[(c + 1) % 2], 2 * (_BLOCK * index + c + 1), weights)
                for value, total in zip(tiles, column, strict=True):
                    if first and index == 0:
                        f.operate("mul", total, factors[c % 2], value)
                    else:
                        f.operate("mul", product, factors[c % 2], value)
                        f.operate("add", total, total, product)
        f.advance(weights, 2 * _BLOCK * count)
        f.advance(v, group.element_bytes * count)

    turns, left = divmod(shape.depth, _TURN)
    if left == 0:
        turns, left = turns - 1, _TURN
    elements(left, first=True)
    if turns:
        end = f.address("end")
        if turns > 1:
            f.distance(end, v, turns * _TURN * group.element_bytes)
        with f.loop(turns, v, end):
            elements(_TURN)
        f.release(end)
    f.step(v, 2 * group.tiles - shape.depth * group.element_bytes, product)
    f.release(*tiles, *factors, product)


def _emit_columns(f: Function, group: _Group, shape: _Shape, columns: int) -> None:
    """Emit the outputs of a block of columns, one after the other."""
    output = shape.output
    at, end = f.address("sums", "write"), f.address("end", "write")
    scales, out, below = f.address("scales"), f.address("out", "write"), f.address("below", "write")
    scale, constants, spare = output.scale(f), output.constants(f), f.word("spare")
    named = ((at, "sums"), (scales, "scales"), (out, "out"), (below, "below"))
    for register, slot in named:
        f.restore(register, slot)
    f.distance(end, at, 4 * columns * group.tiles)
    sums = [f.words(f"m{i}_", _UNDER) for i in range(_OUT)]
    others = f.words("t", 2)
    with f.loop(columns, at, end):
        output.load(f, scale, 0, scales)
        for tile in range(group.tiles):
            for j in range(_UNDER):
                values = [sums[0][j], sums[1][j], *others]
                for i, value in enumerate(values):
                    place = _UNDER * i + j
                    f.load("lw", value, 4 * (place * columns * group.tiles + tile), at)
                _emit_inverse(f, *values)
            # The lower row first: it may share the place of the upper.
            for row, line in ((below, sums[1]), (out, sums[0])):
                _emit_inverse(f, *line)
                for x in range(min(_OUT, group.columns - _OUT * tile)):
                    if shape.left:
                        f.shift("slli", line[x], line[x], shape.left)
                    output.emit(f, line[x], scale, constants, spare)
                    f.store_byte(line[x], (_OUT * tile + x) * shape.columns, row)
        f.advance(at, 4 * group.tiles)
        f.advance(scales, 4 * output.words)
        f.advance(out, 1)
        f.advance(below, 1)
    for register, slot in named[1:]:
        f.save(register, slot)
    f.release(at, end, scales, out, below, *scale, *constants, spare, *others, *sums[0], *sums[1])


def _emit_inverse(f: Function, a: Register, b: Register, c: Register, d: Register) -> None:
    """Emit a row of A' times a column: ``a`` and ``b`` become the two sums."""
    f.operate("add", a, a, b)
    f.operate("add", a, a, c)
    f.operate("sub", b, b, c)
    f.operate("sub", b, b, d)


# The kernel ---------------------------------------------------------------------------------------


@packed_once
def _class(
    layer: LinearWeights, groups: tuple[_Group, ...], out_w: int, extension: str
) -> type[WinogradParameters]:
    packed = _packed(layer, extension)
    assert packed is not None
    shape = packed.shape
    functions = {group.input_name: _emit_input(group, shape) for group in groups}
    functions |= {group.output_name: _emit_outputs(group, shape) for group in groups}
    instructions = sum(
        functions[name].instructions
        for group in groups
        for name in (group.input_name, group.output_name)
    )
    in_c = groups[0].in_c
    pad_bytes = max(sum(group.inside) for group in groups) * in_c
    pad_bytes = -(-pad_bytes // 4) * 4
    v_bytes = shape.depth * max(group.element_bytes for group in groups)
    struct = (
        "    HIL_IMAGES_FIELDS;\n"
        "    int32_t pad_top; /* rows by which the first window reaches above the image */\n"
        "    const int32_t *scales; /* how the sums of each column become outputs */\n"
        "    const int16_t *weights; /* [blocks of four columns][16 places][depth][4] */\n"
    )
    texts = "\n".join(function.text() for function in functions.values())
    return emitted(
        WinogradParameters,
        Description(
            family="riscv",
            operator="conv2d_s8",
            form="winograd",
            requires=shape.output.features,
            scratch=str(_SUM_BYTES + v_bytes + pad_bytes),
            order=(("rows", str(_OUT)), ("columns", str(_WIDE))),
            reads="window",
            window={
                "filter_h": "3",
                "filter_w": "3",
                "stride_h": "1",
                "stride_w": "1",
                "pad_left": str(groups[0].pad_left),
            },
            functions=sum(function.code_bytes for function in functions.values()),
            glue=_GLUE_BYTES,
            figures=_GLUE | {"row": _GLUE["row"] + instructions},
            counts={
                "pad_byte": f"{pad_bytes} * (batch > 0)",
                "row": "batch * ((out_h + 1) // 2)",
                "group": f"row * {len(groups)}",
            },
            head=_head(shape, groups, instructions, pad_bytes),
        ),
        struct,
        [_INCLUDE],
        f"{texts}\n{_glue(shape, groups, out_w, v_bytes, pad_bytes)}",
    )


def _glue(shape: _Shape, groups: Sequence[_Group], out_w: int, v_bytes: int, pad_bytes: int) -> str:
    """Return the function of a row of tiles, and the one that layers call."""
    in_w, in_c = groups[0].in_w, groups[0].in_c
    lines = [
        "    const struct hil_riscv_rows rows = {.in = in, .pad = (const int8_t *)scratch, "
        f".in_h = p->in_h,\n        .row_bytes = {in_w * in_c}}};",
        f"    int8_t *const v = (int8_t *)scratch + {pad_bytes};",
    ]
    index = 0
    while index < len(groups):
        first = groups[index]
        names = first.input_name, first.output_name
        alike = 1
        while index + alike < len(groups) and names == (
            groups[index + alike].input_name,
            groups[index + alike].output_name,
        ):
            alike += 1
        pixel, place = str(first.begin * in_c), str(first.first * shape.columns)
        if alike > 1:
            pixel += f" + {_WIDE * in_c} * i"
            place += f" + {_WIDE * shape.columns} * i"
        under = ", ".join(f"hil_riscv_row(&rows, y + {y}, {pixel})" for y in range(_UNDER))
        calls = (
            f"        {names[0]}({under}, v);\n"
            f"        {names[1]}(v, (const int8_t *)p->weights, (const int8_t *)p->scales,\n"
            f"            out + {place}, below + {place}, v + {v_bytes});"
        )
        lines.append(f"    for (int32_t i = 0; i < {alike}; i++) {{\n{calls}\n    }}")
        index += alike
    body = "\n".join(lines)
    row = out_w * shape.columns
    return (
        "__attribute__((noinline, unused)) static void\n"
        f"{NAME}_row(const struct {NAME} *p, const int8_t *in, int32_t y, int8_t *out,\n"
        f"    int8_t *below, void *scratch) {{\n{body}\n}}\n\n"
        f"HIL_INLINE void {NAME}(const struct {NAME} *p, const int8_t *in, int8_t *out,\n"
        "    void *scratch) {\n"
        f"    memset(scratch, {shape.pad_value}, {pad_bytes});\n"
        "    for (int32_t image = 0; image < p->batch; image++) {\n"
        "        for (int32_t row = 0; row < p->out_h; row += 2) {\n"
        "            const int32_t both = row + 1 < p->out_h;\n"
        f"            {NAME}_row(p, in, row - p->pad_top, out, both ? out + {row} : out,\n"
        f"                scratch);\n"
        f"            out += both ? {2 * row} : {row};\n        }}\n"
        f"        in += p->in_h * {in_w * in_c};\n    }}\n}}\n"
    )


def _head(
    shape: _Shape, groups: Sequence[_Group], instructions: float, pad_bytes: int
) -> dict[str, str]:
    products = 2 * 9 * shape.depth * shape.columns * sum(group.columns for group in groups)
    output = shape.output
    return {
        "Tile": f"{_TILES} tiles of 2 x 2 outputs x {_BLOCK} columns x 1 element of depth at one "
        f"of 16 places; then the next place, and all {shape.columns} columns.",
        "Registers": f"{_TILES * _BLOCK} sums, {_TILES} words of V, two weights, a product, three "
        "addresses; given out by the emitter.",
        "Data": "V in scratch, int16 [depth][16 places][tiles]; sums in scratch, int32 [16 places]"
        "[columns][tiles]; weights int16 [blocks of four columns][16 places][depth][4], the last "
        "filled up with zeros, packed by _packed(); scales int32 "
        f"[column][{scale_words(output)}], by scales_of().",
        "Order": "Group by group: what lies under its tiles is read, then all their outputs are "
        "written, the lower row of a tile before the upper, whose place it may share.",
        "Bounds": "|V| <= 4 * 128, and U is packed into half-words. Words add up modulo 2^32; the "
        f"sum, times 2^{output.bits}, is below 2^31 for all inputs, which _packed() asks for.",
        "Output": output.text,
        "Scratch": f"{pad_bytes} zero points, which are read in the place of rows outside the "
        f"image; V of a group; {_SUM_BYTES} bytes of sums.",
        "Cost": f"Counted by the emitter: {instructions:.0f} instructions for two rows, "
        f"{instructions / products:.3f} a MAC.",
        "Tests": "tests/board/test_riscv_kernels.py, tests/c/test_riscv_kernels.py: the C form is "
        "the same list of instructions.",
    }
