"""Depthwise convolutions of int8, int16 and float32 on RV32IM and RV32F, emitted for each layer.

A tile of two rows of outputs, or one, stays in registers with the weights of a channel; each pixel
under it is loaded once, from the image. The function processes all channels. Taps outside the
image on the left and right are left out: their part, the zero point times their weights, begins the
sums. Rows outside are read from a row of zero points.

A filter of more than nine taps has a tile of one row, and the weights of one row of the filter in
registers; taps outside the image are multiplied with the zero point. Several filters of a channel
are one after the other, and read its pixels once each. Pixels that the offset of a load does not
reach are read from an address of their own.

What is checked here for each layer:

* int8: sums stay below 2**30, and every shift is to the right; scaled as the weights are, the sums
  of a channel stay below 2**31; the outputs of each channel are exact for every sum
  (:mod:`hilc.lowering.riscv.outputs`);
* int16: sums fit 32 bits, and are rounded as :mod:`hilc.lowering.riscv.wide` says;
* float32: weights are finite, so that taps outside the image add 0.0 and may be left out. Products
  are added in the order of the portable kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from hilc.lowering.linear import (
    DepthwiseConvolution,
    FloatParameters,
    LinearWeights,
    WideRequantization,
    packed_once,
)
from hilc.lowering.parameters import HilImages
from hilc.lowering.records import record
from hilc.lowering.riscv.arithmetic import (
    AnyOutput,
    Arithmetic,
    Floats,
    arithmetic_of,
    float_output_of,
    scale_words,
)
from hilc.lowering.riscv.emitted import NAME, Description, EmittedParameters, emitted
from hilc.lowering.riscv.emitter import LARGEST_OFFSET, Function, Moving, OutOfRegisters, Register
from hilc.lowering.riscv.linear import kernel_head
from hilc.lowering.riscv.outputs import output_of
from hilc.lowering.riscv.wide import wide_output_of
from hilc.lowering.v7m.channels import require_right_shifts

#: Bits by which weights, and so sums, are scaled, at most.
_MOST_BITS = 14
#: Taps that are kept in registers.
_MOST_TAPS = 9
#: Rows of outputs of a tile, and the columns that are tried.
_ROWS = 2
_COLUMNS = range(1, 7)
#: Columns of a tile of one row, for filters whose weights are in registers row by row; the most
#: columns of such a filter.
_LONG_COLUMNS = range(1, 13)
_MOST_FILTER_COLUMNS = 16
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
    #: Filters of a channel.
    multiplier: int
    arithmetic: Arithmetic

    @property
    def pixel_bytes(self) -> int:
        """Bytes of a pixel of the input."""
        return self.arithmetic.element * self.in_c

    @property
    def out_bytes(self) -> int:
        """Bytes of a pixel of the output."""
        return self.pixel_bytes * self.multiplier

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of outputs."""
        return self.out_w * self.out_bytes

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
    output: AnyOutput

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
    def is_far(self) -> bool:
        """Whether the offset of a load does not reach all pixels of a row."""
        last = self.begin + LARGEST_OFFSET // self.geometry.pixel_bytes
        return max(columns_of(self), default=0) > last

    @property
    def held(self) -> int:
        """Weights of a channel that are in registers at a time: all, or those of a row."""
        taps = self.geometry.taps
        return taps if taps <= _MOST_TAPS else self.geometry.filter_w

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
        g = self.geometry
        reach = (self.rows - 1) * g.row_bytes + (self.columns - 1) * g.out_bytes
        return 1 if reach <= LARGEST_OFFSET else self.rows


@dataclass(frozen=True, eq=False)
class Packed:
    channels: npt.NDArray[np.int32]
    output: AnyOutput


def depthwise(form: DepthwiseConvolution, extension: str) -> Iterator[EmittedParameters]:
    """Yield the emitted kernel of a depthwise convolution, if it serves the layer."""
    window, images = form.window, form.images
    if window.filter_w > _MOST_FILTER_COLUMNS or window.stride_h != window.stride_w:
        return
    packed = _packed(form.packing, extension)
    if packed is None:
        return
    geometry = geometry_of(form, packed.output)
    if (made := _class(form.packing, geometry, extension)) is not None:
        yield made(images=images, pad_top=window.pad_top, channels=packed.channels)


def geometry_of(form: DepthwiseConvolution, output: AnyOutput) -> Geometry:
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
        multiplier=form.multiplier,
        arithmetic=arithmetic_of(output),
    )


@packed_once
def _packed(layer: LinearWeights, extension: str) -> Packed | None:
    """Return the words of the channels; None where the kernel does not serve the layer."""
    if isinstance(layer.outputs, FloatParameters):
        if (floats := float_output_of(layer)) is None:
            return None
        rows = np.concatenate([layer.matrix, floats[1][:, np.newaxis]], axis=1)
        return Packed(np.ascontiguousarray(rows, np.float32).view(np.int32).reshape(-1), floats[0])
    if isinstance(layer.outputs, WideRequantization):
        if (wide := wide_output_of(layer, extension)) is None:
            return None
        own = np.concatenate([layer.matrix.astype(np.int32), wide[1]], axis=1)
        return Packed(own.reshape(-1), wide[0])
    channels = require_right_shifts(layer.matrix, layer.requantization)
    if channels is None:
        return None
    largest = max(int(np.abs(end).max()) for end in channels.ends)
    bits = min(_MOST_BITS, 31 - largest.bit_length())
    if (found := output_of(channels, bits, extension)) is None:
        return None
    output, scales = found
    scaled = channels.weights.astype(np.int32) << output.bits
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
    is_long = geometry.taps > _MOST_TAPS
    heights = [[1]] if is_long else [[_ROWS, 1], [1]]
    for tried in heights:
        if ways := _ways(packed, geometry, layer.pad_value, tried, is_long):
            _, way = min(ways, key=lambda way: way[0])
            return emitted_depthwise(
                "xpulp" if extension == "xpulp" else "riscv",
                _INCLUDE,
                geometry,
                way,
                packed.output.features,
                _head(geometry, way[0]),
                f"{tried[0]}x{way[0][0].columns}",
            )
    return None


def _ways(
    packed: Packed, geometry: Geometry, pad_value: int, heights: Sequence[int], is_long: bool
) -> list[tuple[float, list[list[Tile]]]]:
    """Return the rows of tiles of these heights, by the columns of a tile, that registers suffice
    for, with the instructions of the first.
    """
    ways: list[tuple[float, list[list[Tile]]]] = []
    for columns in _LONG_COLUMNS if is_long else _COLUMNS:
        if columns > geometry.out_w:
            break
        way = [tiles_of(Tile, geometry, packed, pad_value, rows, columns) for rows in heights]
        if not all(columns_of(tile) for tiles in way for tile in tiles):
            # Windows that lie beside the image as a whole.
            continue
        try:
            costs = [[_known(tile).instructions for tile in tiles] for tiles in way]
        except OutOfRegisters:
            continue
        ways.append((sum(costs[0]) + _GLUE["tile"] * len(costs[0]), way))
    return ways


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
    f.distance(end, channels, 4 * tile.words * g.in_c * g.multiplier)
    # What stays in a register, where one is left, besides those that the products take.
    sums = tile.rows * tile.columns
    taken = tile.held + sums + 3 + tile.is_far
    constants = None
    free = g.arithmetic.free(f)
    keeps_end = free >= taken
    if keeps_end and free >= taken + tile.output.constant_count:
        constants = tile.output.constants(f)
    if not keeps_end:
        f.save(end, "end")
        f.release(end)
    shared = tile.outs < tile.rows
    places = [(0, r * g.row_bytes) if shared else (r, 0) for r in range(tile.rows)]
    with f.loop(g.in_c, channels, end):
        if g.multiplier > 1:
            _emit_filters(f, tile, rows, channels, constants, places)
        else:
            _emit_channel(f, tile, rows, channels, constants, places)
        for row in rows.values():
            f.advance(row, g.arithmetic.element)
        if not keeps_end:
            f.restore(end, "end")
    return f


def _emit_filters(
    f: Function,
    tile: Tile,
    rows: dict[int, Register],
    channels: Register,
    constants: list[Register] | None,
    places: list[tuple[int, int]],
) -> None:
    """Emit the products and outputs of the filters of a channel."""
    multiplier = tile.geometry.multiplier
    behind = f.address("behind")
    f.distance(behind, channels, 4 * tile.words * multiplier)
    f.save(behind, "behind")
    f.release(behind)
    with f.loop(multiplier, channels, behind):
        _emit_channel(f, tile, rows, channels, constants, places)
        f.restore(behind, "behind")


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
    taken = g.arithmetic.registers
    weights = taken(f, "w", tile.held)
    sums = {
        (r, c): total
        for r in range(tile.rows)
        for c, total in enumerate(taken(f, f"s{r}_", tile.columns))
    }
    pixels = taken(f, "x", 2)
    (product,) = taken(f, "t", 1)
    begun: set[tuple[int, int]] = set()
    floats = isinstance(g.arithmetic, Floats)
    if tile.held == g.taps:
        for tap, weight in enumerate(weights):
            _load_weight(f, tile, weight, tap, channels)
        if not floats:
            begun = _emit_padding(f, tile, weights, sums, product)
        _emit_products(f, tile, rows, 0, weights, sums, pixels, product, begun)
    else:
        for ky, (y, row) in enumerate(rows.items()):
            for kx, weight in enumerate(weights):
                _load_weight(f, tile, weight, ky * g.filter_w + kx, channels)
            if not floats:
                _emit_outside(f, tile, weights, sums, pixels[0], product, begun)
            _emit_products(f, tile, {y: row}, ky, weights, sums, pixels, product, begun)
    for place in sorted(sums.keys() - begun):
        # All of its taps lie outside the image.
        f.zero_float(sums[place])
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
            address = Moving(f, out, spare)
        for c in range(tile.columns):
            value = sums[r, c]
            output.emit(f, value, scale, constants or own, spare)
            g.arithmetic.store(f, value, address.reach(offset + c * g.out_bytes), out)
        if r + 1 == len(out_places) or out_places[r + 1][1] == 0:
            address.move(g.arithmetic.element)
            f.save(out, f"out{index}")
    f.release(out, spare, *scale, *own, *sums.values())


def _emit_products(
    f: Function,
    tile: Tile,
    rows: dict[int, Register],
    first: int,
    weights: list[Register],
    sums: dict[tuple[int, int], Register],
    pixels: list[Register],
    product: Register,
    begun: set[tuple[int, int]],
) -> None:
    """Emit the products of rows of the image. ``weights`` are those of the rows of the filter from
    ``first`` on; sums that are not among ``begun`` begin.
    """
    g = tile.geometry
    under = {x: _horizontal(tile, x) for x in columns_of(tile)}
    places = [(y, row, x) for y, row in rows.items() for x in under]
    far = f.address("far") if tile.is_far else None
    # The row that the address of its own belongs to, and by how much it is behind that.
    ahead: tuple[Register | None, int] = None, 0

    def load_pixel(index: int) -> None:
        nonlocal ahead
        _, row, x = places[index]
        base, at = row, (x - tile.begin) * g.pixel_bytes
        if at > LARGEST_OFFSET and far is not None:
            if ahead[0] is not row or at - ahead[1] > LARGEST_OFFSET:
                f.distance(far, row, at)
                ahead = row, at
            base, at = far, at - ahead[1]
        g.arithmetic.load(f, pixels[index % 2], at, base)

    # A pixel that was just loaded would stall its first product. A tile may lie beside the image.
    if places:
        load_pixel(0)
    for index, (y, _, x) in enumerate(places):
        if index + 1 < len(places):
            load_pixel(index + 1)
        pixel = pixels[index % 2]
        for r, ky in _vertical(tile, y):
            for c, kx in under[x]:
                weight = weights[(ky - first) * g.filter_w + kx]
                _emit_product(f, tile, (r, c), sums, pixel, weight, product, begun)
    if far is not None:
        f.release(far)


def _load_weight(f: Function, tile: Tile, weight: Register, tap: int, channels: Register) -> None:
    if not isinstance(tile.geometry.arithmetic, Floats):
        # Weights of integers are words, and those outside the image count.
        f.load("lw", weight, 4 * tap, channels)
        return
    kx = tap % tile.geometry.filter_w
    columns = (tile.position(c, kx) for c in range(tile.columns))
    if any(0 <= x < tile.geometry.in_w for x in columns):
        f.load_float(weight, 4 * tap, channels)


def _emit_product(
    f: Function,
    tile: Tile,
    place: tuple[int, int],
    sums: dict[tuple[int, int], Register],
    pixel: Register,
    weight: Register,
    product: Register,
    begun: set[tuple[int, int]],
) -> None:
    arithmetic = tile.geometry.arithmetic
    write = arithmetic.add if place in begun else arithmetic.begin
    write(f, sums[place], pixel, weight, product)
    begun.add(place)


def _emit_outside(
    f: Function,
    tile: Tile,
    weights: list[Register],
    sums: dict[tuple[int, int], Register],
    pad: Register,
    product: Register,
    begun: set[tuple[int, int]],
) -> None:
    """Emit the products of a row of the filter with zero points beside the image."""
    g = tile.geometry
    outside = [
        (c, kx)
        for c in range(tile.columns)
        for kx in range(g.filter_w)
        if not 0 <= tile.position(c, kx) < g.in_w
    ]
    if outside:
        f.constant(pad, tile.pad_value)
    for c, kx in outside:
        _emit_product(f, tile, (0, c), sums, pad, weights[kx], product, begun)


def columns_of(tile: Tile) -> list[int]:
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
    pad_bytes = max((max(columns_of(tile)) - tile.begin + 1) * g.pixel_bytes for tile in ways[0])
    texts = "\n".join(function.text() for function in functions.values())
    struct = (
        "    HIL_IMAGES_FIELDS;\n"
        "    int32_t pad_top; /* rows by which the first window reaches above the image */\n"
        "    const int32_t *channels; /* weights and scales of all channels */\n"
    )
    # Filters of a channel are not the kernel's own channel.
    reads = "channel window" if g.multiplier == 1 else "window"
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
    code_bytes = sum(function.code_bytes for function in functions.values())
    return emitted(
        DepthwiseParameters,
        Description(
            family=family,
            operator=f"depthwise_conv2d_{g.arithmetic.name}",
            form=form,
            requires=requires,
            scratch=str(-(-pad_bytes // 4) * 4),
            order=(("rows", str(first.rows)), ("columns", str(first.columns)), ("channels", "1")),
            reads=reads,
            window={
                "filter_h": str(g.filter_h),
                "filter_w": str(g.filter_w),
                "stride_h": str(g.stride),
                "stride_w": str(g.stride),
                "dilation_h": str(g.dilation_h),
                "dilation_w": str(g.dilation_w),
                "pad_left": str(g.pad_left),
            },
            functions=code_bytes,
            glue=_GLUE_BYTES,
            figures=figures,
            counts=counts,
            head=head,
            dtype=g.arithmetic.dtype,
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
        f"{rows}{kernel_head(g.arithmetic.dtype)}"
        f"    memset(scratch, {ways[0][0].pad_value}, {pad_bytes});\n"
        "    for (int32_t image = 0; image < p->batch; image++) {\n"
        f"        int32_t y = -p->pad_top;\n        int32_t row = 0;\n{steps}"
        f"        in += p->in_h * {g.in_w * g.pixel_bytes};\n    }}\n}}\n"
    )


def _row_of_tiles(g: Geometry, tiles: Sequence[Tile]) -> str:
    """Return the function that computes a row of tiles."""
    tile = tiles[0]
    lines = [
        f"    const struct hil_riscv_rows rows = {{.in = in, .pad = pad, .in_h = p->in_h, "
        f".row_bytes = {g.in_w * g.pixel_bytes}}};"
    ]
    index = 0
    while index < len(tiles):
        own = _known(tiles[index])
        alike = 1
        while index + alike < len(tiles) and _known(tiles[index + alike]) is own:
            alike += 1
        first = tiles[index]
        steps = f"{first.columns * g.stride * g.pixel_bytes} * i"
        pixel = f"{first.begin * g.pixel_bytes}" + (f" + {steps}" if alike > 1 else "")
        place = f"{first.first * g.out_bytes}" + (
            f" + {first.columns * g.out_bytes} * i" if alike > 1 else ""
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
    products = tile.rows * g.out_w * g.in_c * g.filter_h * g.filter_w
    single = ", and those for a single row" if tile.rows > 1 else ""
    return {
        "Tile": f"{tile.rows} rows x {tile.columns} columns of outputs of a channel, then of the "
        f"next; {len(functions)} functions for the tiles of a row{single}.",
        "Registers": f"{tile.held} weights, {tile.rows * tile.columns} sums, two pixels, product, "
        f"{tile.in_rows} rows of the image, the channels' words.",
        "Data": f"channels: int32 [channel][weights times 2^{tile.output.bits}, "
        f"{scale_words(tile.output)}], packed by _packed().",
        "Order": "Tile by tile, channel by channel: what is under the tile in a channel is read, "
        "then the outputs of the channel are written.",
        "Bounds": f"|sum| * 2^{tile.output.bits} < 2^31 for all inputs, which _packed() asks for.",
        "Output": tile.output.text,
        "Scratch": "Zero points, which are read in the place of rows outside the image.",
        "Cost": f"Counted by the emitter: {row:.0f} instructions for {tile.rows} rows, "
        f"{row / products:.3f} a MAC.",
        "Tests": "tests/board/test_riscv_kernels.py, tests/c/test_riscv_kernels.py: the C form is "
        "the same list of instructions.",
    }
