"""int8 depthwise convolutions on RV32IM, emitted for each layer.

A tile of two rows of outputs, or one, stays in registers with the weights of a channel; each pixel
under it is loaded once, from the image. The function goes through all channels. Taps outside the
image on the left and right are left out: their part, the zero point times their weights, begins the
sums. Rows outside are read from a row of zero points. What is checked here for each layer:

* sums stay below 2**30, and every shift is to the right;
* scaled as the weights are, the sums of a channel stay below 2**31;
* the outputs of each channel are exact for every sum (:mod:`hilc.lowering.riscv.outputs`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from hilc.lowering.linear import DepthwiseConvolution, LinearWeights, packed_once
from hilc.lowering.parameters import HilImages
from hilc.lowering.records import record
from hilc.lowering.riscv.emitted import NAME, Description, EmittedParameters, emitted
from hilc.lowering.riscv.emitter import LARGEST_OFFSET, Function, OutOfRegisters, Register
from hilc.lowering.riscv.outputs import Output, output_of
from hilc.lowering.v7m.channels import require_right_shifts

#: Bits by which weights, and so sums, are scaled, at most.
_MOST_BITS = 14
#: Taps that are kept in registers.
_MOST_TAPS = 9
#: Rows of outputs of a tile, and the columns that are tried.
_ROWS = 2
_COLUMNS = range(1, 7)
#: Instructions of the glue: of a call, of a row of tiles, of a tile.
_GLUE = {"call": 60.0, "pad_byte": 0.5, "row": 50.0, "tile": 30.0}
_GLUE_BYTES = 700
_INCLUDE = "hil/kernels/riscv/depthwise_s8.h"


@record(frozen=True, eq=False, kw_only=True)
class DepthwiseParameters(EmittedParameters):
    """The fields of an emitted depthwise convolution's struct."""

    images: HilImages
    pad_top: int
    channels: npt.NDArray[np.int32]


@dataclass(frozen=True)
class Geometry:
    """What is the same for all bands of a layer's rows."""

    in_w: int
    out_w: int
    in_c: int
    filter_h: int
    filter_w: int
    stride: int
    dilation_h: int
    dilation_w: int
    pad_left: int

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of outputs."""
        return self.out_w * self.in_c

    @property
    def taps(self) -> int:
        """Taps of a filter."""
        return self.filter_h * self.filter_w


@dataclass(frozen=True)
class Tile:
    """What an emitted function is specialised for."""

    geometry: Geometry
    rows: int
    #: First column of outputs, and their number. All that is inside of the image is alike.
    first: int
    columns: int
    pad_value: int
    output: Output

    @property
    def words(self) -> int:
        """Words of a channel: weights and scale."""
        return self.geometry.taps + self.output.words

    @property
    def in_rows(self) -> int:
        """Rows of the image under the tile."""
        g = self.geometry
        return (self.rows - 1) * g.stride + (g.filter_h - 1) * g.dilation_h + 1

    def position(self, column: int, tap: int) -> int:
        """Return the column of the image under a tap of an output."""
        g = self.geometry
        return (self.first + column) * g.stride - g.pad_left + tap * g.dilation_w

    @cached_property
    def begin(self) -> int:
        """The first column of the image that is read."""
        return max(0, self.position(0, 0))

    @cached_property
    def missing(self) -> tuple[int, int]:
        """Columns under the tile that lie before and behind the image."""
        g = self.geometry
        last = self.position(self.columns - 1, g.filter_w - 1)
        return max(0, -self.position(0, 0)), max(0, last - g.in_w + 1)

    @cached_property
    def used(self) -> tuple[int, ...]:
        """Rows of the image, from the first under the tile on, that are under a tap."""
        return tuple(y for y in range(self.in_rows) if _vertical(self, y))

    @property
    def more(self) -> tuple[str, ...]:
        """Arguments of the function after the channels."""
        return ()

    def emit(self) -> Function:
        """Return the function for the tile."""
        return emit_tile(self)

    @property
    def name(self) -> str:
        """Name of the function."""
        left, right = self.missing
        return f"{NAME}_{self.rows}x{self.columns}_{left}_{right}"

    @property
    def outs(self) -> int:
        """Addresses of outputs: one serves all rows where offsets reach them."""
        reach = (self.rows - 1) * self.geometry.row_bytes + (self.columns - 1) * self.geometry.in_c
        return 1 if reach <= LARGEST_OFFSET else self.rows


@dataclass(frozen=True, eq=False)
class Packed:
    channels: npt.NDArray[np.int32]
    output: Output


def depthwise(form: DepthwiseConvolution, extension: str) -> Iterator[EmittedParameters]:
    """Yield the emitted kernel of a depthwise convolution, if it serves the layer."""
    window, images = form.window, form.images
    taps = window.filter_h * window.filter_w
    if form.multiplier != 1 or taps > _MOST_TAPS or window.stride_h != window.stride_w:
        return
    packed = _packed(form.packing, extension)
    if packed is None:
        return
    geometry = geometry_of(form)
    if (made := _class(form.packing, geometry, extension)) is not None:
        yield made(images=images, pad_top=window.pad_top, channels=packed.channels)


def geometry_of(form: DepthwiseConvolution) -> Geometry:
    """Return what is the same for all bands of a layer's rows."""
    window, images = form.window, form.images
    return Geometry(
        in_w=images.in_w,
        out_w=images.out_w,
        in_c=images.in_c,
        filter_h=window.filter_h,
        filter_w=window.filter_w,
        stride=window.stride_h,
        dilation_h=window.dilation_h,
        dilation_w=window.dilation_w,
        pad_left=window.pad_left,
    )


@packed_once
def _packed(layer: LinearWeights, extension: str) -> Packed | None:
    """Return the words of the channels; None where the kernel does not serve the layer."""
    channels = require_right_shifts(layer.matrix, layer.requantization)
    if channels is None:
        return None
    largest = max(int(np.abs(end).max()) for end in channels.ends)
    bits = min(_MOST_BITS, 31 - largest.bit_length())
    if (found := output_of(channels, bits, extension)) is None:
        return None
    output, scales = found
    scaled = channels.weights.astype(np.int32) << bits
    return Packed(np.concatenate([scaled, scales], axis=1).reshape(-1), output)


_T = TypeVar("_T", bound=Tile)


def tiles_of(
    kind: type[_T], geometry: Geometry, packed: Packed, pad_value: int, rows: int, columns: int
) -> list[_T]:
    """Return the tiles of a row of tiles."""
    return [
        kind(
            geometry,
            rows,
            first,
            min(columns, geometry.out_w - first),
            pad_value,
            packed.output,
        )
        for first in range(0, geometry.out_w, columns)
    ]


@packed_once
def _class(
    layer: LinearWeights, geometry: Geometry, extension: str
) -> type[DepthwiseParameters] | None:
    """Return the kernel with the columns a tile that take the fewest instructions."""
    packed = _packed(layer, extension)
    assert packed is not None
    ways: list[tuple[float, list[Tile], list[Tile]]] = []
    for columns in _COLUMNS:
        if columns > geometry.out_w:
            break
        two, one = (
            tiles_of(Tile, geometry, packed, layer.pad_value, rows, columns) for rows in (_ROWS, 1)
        )
        if not all(_columns(tile) for tile in (*two, *one)):
            # Windows that lie beside the image as a whole.
            continue
        try:
            cost = sum(_known(tile).instructions + _GLUE["tile"] for tile in two)
            for tile in one:
                _known(tile)
        except (OutOfRegisters, OutOfReach):
            continue
        ways.append((cost, two, one))
    if not ways:
        return None
    _, two, one = min(ways, key=lambda way: way[0])
    return emitted_depthwise(
        "xpulp" if extension == "xpulp" else "riscv",
        _INCLUDE,
        geometry,
        [two, one],
        packed.output.features,
        _head(geometry, two),
        f"{_ROWS}x{two[0].columns}",
    )


class OutOfReach(Exception):
    """The pixels of a tile are too far from each other for the offsets of loads."""


_FUNCTIONS: dict[Tile, Function] = {}


def _known(tile: Tile) -> Function:
    """Return the function of a tile; tiles inside of an image have the same."""
    if tile.missing == (0, 0):
        inside = -(-tile.geometry.pad_left // tile.geometry.stride)
        tile = replace(tile, first=inside)
        if tile.missing != (0, 0):
            tile = replace(tile, geometry=replace(tile.geometry, in_w=1 << 20))
    if tile not in _FUNCTIONS:
        if len(_FUNCTIONS) > 512:
            _FUNCTIONS.clear()
        _FUNCTIONS[tile] = tile.emit()
    return _FUNCTIONS[tile]


# The function -------------------------------------------------------------------------------------


def emit_tile(tile: Tile) -> Function:
    """Return the function that computes a tile of outputs of all channels.

    Its arguments are the rows of the image under the tile, from the first column inside, the rows
    of outputs, and the channels' words.
    """
    g = tile.geometry
    left, right = tile.missing
    span = (tile.columns - 1) * g.stride + (g.filter_w - 1) * g.dilation_w + 1 - left - right
    if (
        max(span - 1, tile.columns - 1) * g.in_c > LARGEST_OFFSET
        # Arguments are passed in registers.
        or tile.in_rows + tile.rows + 1 > 8
    ):
        raise OutOfReach
    used = tile.used
    parameters = [(f"row{y}", "read") for y in used]
    parameters += [(f"out{r}", "write") for r in range(tile.outs)] + [("channels", "read")]
    output = tile.output
    f = Function(tile.name, parameters, output.extensions, xpulp=output.extension == "xpulp")
    rows = dict(zip(used, f.arguments[: len(used)], strict=True))
    outs, channels = f.arguments[len(used) : -1], f.arguments[-1]
    for r, out in enumerate(outs):
        f.save(out, f"out{r}")
    f.release(*outs)
    end = f.address("end")
    f.distance(end, channels, 4 * tile.words * g.in_c)
    # What stays in a register, where one is left, besides those that the products take.
    sums = tile.rows * tile.columns
    taken = g.taps + sums + 3
    constants = None
    keeps_end = f.free >= taken
    if keeps_end and f.free >= taken + tile.output.constant_count:
        constants = tile.output.constants(f)
    if not keeps_end:
        f.save(end, "end")
        f.release(end)
    shared = tile.outs < tile.rows
    places = [(0, r * g.row_bytes) if shared else (r, 0) for r in range(tile.rows)]
    with f.loop(g.in_c, channels, end):
        _emit_channel(f, tile, rows, channels, constants, places)
        if not keeps_end:
            f.restore(end, "end")
    return f


def _vertical(tile: Tile, y: int) -> list[tuple[int, int]]:
    """Return the rows of outputs and of the filter that a row of the image is under."""
    g = tile.geometry
    found = []
    for row in range(tile.rows):
        tap, odd = divmod(y - row * g.stride, g.dilation_h)
        if not odd and 0 <= tap < g.filter_h:
            found.append((row, tap))
    return found


def _emit_channel(
    f: Function,
    tile: Tile,
    rows: dict[int, Register],
    channels: Register,
    constants: list[Register] | None,
    out_places: list[tuple[int, int]],
) -> None:
    """Emit the products and outputs of a channel. ``out_places`` are the address and the offset of
    each row of outputs.
    """
    g = tile.geometry
    weights = f.words("w", g.taps)
    sums = {(r, c): f.word(f"s{r}_{c}") for r in range(tile.rows) for c in range(tile.columns)}
    pixels = f.words("x", 2)
    product = f.word("t")
    for tap, weight in enumerate(weights):
        f.load("lw", weight, 4 * tap, channels)
    begun = _emit_padding(f, tile, weights, sums, product)
    begin = tile.begin
    places = [(y, row, x) for y, row in rows.items() for x in _columns(tile)]

    def load(index: int) -> None:
        _, row, x = places[index]
        f.load("lb", pixels[index % 2], (x - begin) * g.in_c, row)

    # A pixel that was just loaded would stall its first product. A tile may lie beside the image.
    if places:
        load(0)
    for index, (y, _, x) in enumerate(places):
        if index + 1 < len(places):
            load(index + 1)
        pixel = pixels[index % 2]
        for r, ky in _vertical(tile, y):
            for c, kx in _horizontal(tile, x):
                total, weight = sums[r, c], weights[ky * g.filter_w + kx]
                if (r, c) in begun:
                    f.multiply_add(total, pixel, weight, product)
                else:
                    f.operate("mul", total, pixel, weight)
                    begun.add((r, c))
    for row in rows.values():
        f.advance(row, 1)
    f.release(*weights, *pixels, product)
    output = tile.output
    scale = output.scale(f)
    own = output.constants(f) if constants is None else []
    output.load(f, scale, 4 * g.taps, channels)
    f.advance(channels, 4 * tile.words)
    out, spare = f.address("out", "write"), f.word("spare")
    for r, (index, offset) in enumerate(out_places):
        if offset == 0:
            f.restore(out, f"out{index}")
        for c in range(tile.columns):
            value = sums[r, c]
            output.emit(f, value, scale, constants or own, spare)
            f.store_byte(value, offset + c * g.in_c, out)
        if r + 1 == len(out_places) or out_places[r + 1][1] == 0:
            f.advance(out, 1)
            f.save(out, f"out{index}")
    f.release(out, spare, *scale, *own, *sums.values())


def _columns(tile: Tile) -> list[int]:
    """Return the columns of the image that are under a tap of the tile."""
    g = tile.geometry
    found = {tile.position(c, kx) for c in range(tile.columns) for kx in range(g.filter_w)}
    return sorted(x for x in found if 0 <= x < g.in_w)


def _horizontal(tile: Tile, x: int) -> list[tuple[int, int]]:
    """Return the columns of outputs and of the filter that a column of the image is under."""
    return [
        (c, kx)
        for c in range(tile.columns)
        for kx in range(tile.geometry.filter_w)
        if tile.position(c, kx) == x
    ]


def _emit_padding(
    f: Function,
    tile: Tile,
    weights: list[Register],
    sums: dict[tuple[int, int], Register],
    pad: Register,
) -> set[tuple[int, int]]:
    """Begin the sums of outputs with taps beside the image; return which they are."""
    g = tile.geometry
    begun: dict[tuple[int, ...], Register] = {}
    done = set()
    for c in range(tile.columns):
        outside = tuple(kx for kx in range(g.filter_w) if not 0 <= tile.position(c, kx) < g.in_w)
        if not outside:
            continue
        for r in range(tile.rows):
            total = sums[r, c]
            if outside in begun:
                f.move(total, begun[outside])
            else:
                if not begun:
                    f.constant(pad, tile.pad_value)
                taps = [weights[ky * g.filter_w + kx] for ky in range(g.filter_h) for kx in outside]
                known = taps[0]
                for weight in taps[1:]:
                    f.operate("add", total, known, weight)
                    known = total
                f.operate("mul", total, known, pad)
                begun[outside] = total
            done.add((r, c))
    return done


# The kernel ---------------------------------------------------------------------------------------


def emitted_depthwise(
    family: str,
    include: str,
    g: Geometry,
    ways: Sequence[Sequence[Tile]],
    requires: frozenset[str],
    head: Mapping[str, str],
    form: str,
) -> type[DepthwiseParameters]:
    """Return the parameters of the kernel with these rows of tiles, the highest first."""
    functions = {_known(tile).name: _known(tile) for row in ways for tile in row}
    first = ways[0][0]
    pad_bytes = max((max(_columns(tile)) - tile.begin + 1) * g.in_c for tile in ways[0])
    texts = "\n".join(function.text() for function in functions.values())
    struct = (
        "    HIL_IMAGES_FIELDS;\n"
        "    int32_t pad_top; /* rows by which the first window reaches above the image */\n"
        "    const int32_t *channels; /* weights and scales of all channels */\n"
    )
    figures = {
        "call": _GLUE["call"],
        "pad_byte": _GLUE["pad_byte"],
        "row": _GLUE["row"],
        "tile": _GLUE["tile"],
    }
    counts = {"pad_byte": f"{pad_bytes} * (batch > 0)"}
    left = "out_h"
    for row in ways:
        name = f"rows_{row[0].rows}"
        counts[name] = f"batch * (({left}) // {row[0].rows})"
        figures[name] = sum(_known(tile).instructions for tile in row)
        left = f"({left}) % {row[0].rows}"
    counts["row"] = " + ".join(f"rows_{row[0].rows}" for row in ways)
    counts["tile"] = f"row * {len(ways[0])}"
    code_bytes = sum(function.code_bytes for function in functions.values()) + _GLUE_BYTES
    return emitted(
        DepthwiseParameters,
        Description(
            family=family,
            operator="depthwise_conv2d_s8",
            form=form,
            requires=requires,
            scratch=str(-(-pad_bytes // 4) * 4),
            order=(("rows", str(first.rows)), ("columns", str(first.columns)), ("channels", "1")),
            reads="channel window",
            window={
                "filter_h": str(g.filter_h),
                "filter_w": str(g.filter_w),
                "stride_h": str(g.stride),
                "stride_w": str(g.stride),
                "dilation_h": str(g.dilation_h),
                "dilation_w": str(g.dilation_w),
                "pad_left": str(g.pad_left),
            },
            code=code_bytes,
            figures=figures,
            counts=counts,
            head=head,
        ),
        struct,
        list(dict.fromkeys([_INCLUDE, include])),
        f"{texts}\n{_glue(g, ways, pad_bytes)}",
    )


def _glue(g: Geometry, ways: Sequence[Sequence[Tile]], pad_bytes: int) -> str:
    rows = "".join(_row_of_tiles(g, tiles) for tiles in ways)
    steps = "".join(
        f"        for (; row + {tiles[0].rows} <= p->out_h; row += {tiles[0].rows}) {{\n"
        f"            {NAME}_rows{tiles[0].rows}(p, in, (const int8_t *)scratch, y, out);\n"
        f"            y += {tiles[0].rows * g.stride};\n"
        f"            out += {tiles[0].rows * g.row_bytes};\n        }}\n"
        for tiles in ways
    )
    return (
        f"{rows}HIL_INLINE void {NAME}(const struct {NAME} *p, const int8_t *in, int8_t *out,\n"
        "    void *scratch) {\n"
        f"    memset(scratch, {ways[0][0].pad_value}, {pad_bytes});\n"
        "    for (int32_t image = 0; image < p->batch; image++) {\n"
        f"        int32_t y = -p->pad_top;\n        int32_t row = 0;\n{steps}"
        f"        in += p->in_h * {g.in_w * g.in_c};\n    }}\n}}\n"
    )


def _row_of_tiles(g: Geometry, tiles: Sequence[Tile]) -> str:
    """Return the function that computes a row of tiles."""
    tile = tiles[0]
    lines = [
        f"    const struct hil_riscv_rows rows = {{.in = in, .pad = pad, .in_h = p->in_h, "
        f".row_bytes = {g.in_w * g.in_c}}};"
    ]
    index = 0
    while index < len(tiles):
        own = _known(tiles[index])
        alike = 1
        while index + alike < len(tiles) and _known(tiles[index + alike]) is own:
            alike += 1
        first = tiles[index]
        steps = f"{first.columns * g.stride * g.in_c} * i"
        pixel = f"{first.begin * g.in_c}" + (f" + {steps}" if alike > 1 else "")
        place = f"{first.first * g.in_c}" + (
            f" + {first.columns * g.in_c} * i" if alike > 1 else ""
        )
        arguments = [f"hil_riscv_row(&rows, y + {y}, {pixel})" for y in tile.used]
        arguments += [f"out + {r * g.row_bytes} + {place}" for r in range(first.outs)]
        arguments += ["(const int8_t *)p->channels", *tile.more]
        call = f"{own.name}({', '.join(arguments)});"
        if alike > 1:
            lines.append(f"    for (int32_t i = 0; i < {alike}; i++) {{\n        {call}\n    }}")
        else:
            lines.append(f"    {call}")
        index += alike
    body = "\n".join(lines)
    return (
        "__attribute__((noinline, unused)) static void\n"
        f"{NAME}_rows{tile.rows}(const struct {NAME} *p, const int8_t *in, const int8_t *pad,\n"
        f"    int32_t y, int8_t *out) {{\n{body}\n}}\n\n"
    )


def _head(g: Geometry, two: list[Tile]) -> dict[str, str]:
    tile = two[0]
    functions = {_known(each).name: _known(each) for each in two}
    row = sum(_known(each).instructions for each in two)
    products = _ROWS * g.out_w * g.in_c * g.filter_h * g.filter_w
    return {
        "Tile": f"{_ROWS} rows x {tile.columns} columns of outputs of a channel, then of the next; "
        f"{len(functions)} functions for the tiles of a row, and those for a single row.",
        "Registers": f"{g.taps} weights, {_ROWS * tile.columns} sums, two pixels, a product, "
        f"{tile.in_rows} rows of the image, the channels' words.",
        "Data": f"channels: int32 [channel][weights times 2^{tile.output.bits}; multiplier; "
        "constant; place if signed], packed by _packed().",
        "Order": "Tile by tile, channel by channel: what is under the tile in a channel is read, "
        "then the outputs of the channel are written.",
        "Bounds": f"|sum| * 2^{tile.output.bits} < 2^31 for all inputs, which _packed() asks for.",
        "Output": tile.output.text,
        "Scratch": "Zero points, which are read in the place of rows outside the image.",
        "Cost": f"Counted by the emitter: {row:.0f} instructions for {_ROWS} rows, "
        f"{row / products:.3f} a MAC.",
        "Tests": "tests/board/test_riscv_kernels.py, tests/c/test_riscv_kernels.py: the C form is "
        "the same list of instructions.",
    }
