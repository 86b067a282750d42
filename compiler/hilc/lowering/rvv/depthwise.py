"""int8 depthwise convolutions with RISC-V's vectors (Zve32x), emitted for each layer.

The elements of a vector are channels. Two outputs next to each other stay in registers with the
weights of a row of the filter; each pixel under them is loaded once. What is checked here for each
layer:

* sums stay below 2**30, and every shift is to the right;
* the outputs of each channel are exact for every sum (:mod:`hilc.lowering.riscv.outputs`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hilc.lowering.linear import DepthwiseConvolution, LinearWeights, packed_once
from hilc.lowering.riscv.depthwise import (
    DepthwiseParameters,
    Geometry,
    OutOfReach,
    Packed,
    Tile,
    emitted_depthwise,
    geometry_of,
    tiles_of,
)
from hilc.lowering.riscv.emitter import ZERO, Function, Register
from hilc.lowering.riscv.outputs import output_of
from hilc.lowering.rvv.emitter import VectorFunction, blocks_of, emit_outputs
from hilc.lowering.v7m.channels import require_right_shifts

#: Outputs of a tile, and columns of a filter, whose weights stay in registers; rows, whose
#: addresses are arguments.
_COLUMNS, _MOST_COLUMNS, _MOST_ROWS = 2, 3, 5
#: Bits by which sums are scaled, at most.
_MOST_BITS = 13
#: The first registers of weights of a row, four each; of a pixel, and of it before it is widened:
#: the upper half of these.
_WEIGHTS, _PIXEL, _NARROW = 16, 28, 30


@dataclass(frozen=True)
class VectorTile(Tile):
    """A tile of outputs of one row."""

    @property
    def more(self) -> tuple[str, ...]:
        """Arguments of the function after the channels."""
        return ("pad",)

    def emit(self) -> Function:
        """Return the function for the tile."""
        return emit_tile(self)


def depthwise(form: DepthwiseConvolution) -> Iterator[DepthwiseParameters]:
    """Yield the emitted kernel of a depthwise convolution, if it serves the layer."""
    window = form.window
    if (
        form.multiplier != 1
        or window.filter_w > _MOST_COLUMNS
        or window.filter_h > _MOST_ROWS
        or window.stride_h != window.stride_w
    ):
        return
    packed = _packed(form.packing)
    if packed is not None:
        made = _class(form.packing, geometry_of(form))
        yield made(images=form.images, pad_top=window.pad_top, channels=packed.channels)


@packed_once
def _packed(layer: LinearWeights) -> Packed | None:
    """Return the words of the channels; None where the kernel does not serve the layer."""
    channels = require_right_shifts(layer.matrix, layer.requantization)
    if channels is None:
        return None
    largest = max(int(np.abs(end).max()) for end in channels.ends)
    found = output_of(channels, min(_MOST_BITS, 31 - largest.bit_length()), "zve32x")
    if found is None:
        return None
    output, scales = found
    weights = channels.weights.T.astype(np.int16).reshape(-1)
    words = np.pad(weights, (0, weights.size % 2)).view(np.int32)
    return Packed(np.concatenate([words, scales.T.reshape(-1)]), output)


@packed_once
def _class(layer: LinearWeights, geometry: Geometry) -> type[DepthwiseParameters]:
    packed = _packed(layer)
    assert packed is not None
    tiles = tiles_of(VectorTile, geometry, packed, layer.pad_value, 1, _COLUMNS)
    g = geometry
    functions = {tile.missing: tile for tile in tiles}
    instructions = sum(tile.emit().instructions for tile in tiles)
    products = g.out_w * g.in_c * g.taps
    head = {
        "Tile": f"1 row x {_COLUMNS} columns of outputs x as many channels as a group of eight "
        f"vector registers has words; {len(functions)} functions for the tiles of a row.",
        "Registers": "sums: eight vector registers a column from v0 on; weights of a row of the "
        "filter: v16 to v27; a pixel: v28 to v31, loaded into the upper half of these.",
        "Data": "channels: int16 weights [tap][channel], filled up to words, then int32 "
        "[multiplier, constant, place if signed][channel], packed by _packed().",
        "Order": "Tile by tile, channels by channels: what is under the tile in some channels is "
        "read, then the outputs of these channels are written.",
        "Bounds": "Sums are below 2^30, which require_right_shifts() asks for; scaled by "
        f"2^{packed.output.bits} below 2^31.",
        "Output": f"{packed.output.text} The narrowing shifts round down and saturate.",
        "Scratch": "Zero points, which are read in the place of pixels outside the image.",
        "Cost": f"Counted by the emitter for registers of 128 bits: {instructions:.0f} "
        f"instructions for a row, {instructions / products:.3f} a MAC.",
        "Tests": "tests/board/test_riscv_kernels.py, tests/c/test_riscv_kernels.py: the C form is "
        "the same list of instructions.",
    }
    return emitted_depthwise(
        "rvv", "hil/rvv.h", geometry, [tiles], frozenset({"zve32x"}), head, f"{_COLUMNS}_columns"
    )


def emit_tile(tile: VectorTile) -> VectorFunction:
    """Return the function that computes a tile of outputs of all channels.

    Its arguments are the rows of the image under the tile, from the first column inside, the
    outputs, the channels' words, and zero points.
    """
    g = tile.geometry
    if tile.in_rows > (g.filter_h - 1) * g.dilation_h + 1 or len(tile.used) > _MOST_ROWS:
        raise OutOfReach
    parameters = [(f"row{y}", "read") for y in tile.used]
    parameters += [("out0", "write"), ("channels", "read"), ("pad", "read")]
    f = VectorFunction(tile.name, parameters)
    *rows, out, channels, pad = f.arguments
    scales, at = f.address("scales"), f.address("at")
    left, length = f.word("left"), f.word("length")
    others = [f.address(f"out{c}", "write") for c in range(1, tile.columns)]
    f.round_down()
    f.constant(left, g.in_c)
    f.distance(scales, channels, 4 * ((g.taps * g.in_c + 1) // 2))
    for c, other in enumerate(others, start=1):
        f.distance(other, out, c * g.in_c)
    sums = [8 * c for c in range(tile.columns)]
    with f.loop(blocks_of(g.in_c), left, ZERO, always=True):
        f.length(length, left, 2)
        for ky, row in enumerate(rows):
            _emit_row(f, tile, ky, row, channels, pad, at)
        emit_outputs(f, tile.output, g.in_c, sums, scales, [out, *others])
        f.operate("sub", left, left, length)
        for address in (*rows, out, *others, pad):
            f.add_to(address, length)
        f.shift("slli", length, length, 1)
        f.add_to(channels, length)
        f.shift("slli", length, length, 1)
        f.add_to(scales, length)
    return f


def _emit_row(
    f: VectorFunction,
    tile: VectorTile,
    ky: int,
    row: Register,
    channels: Register,
    pad: Register,
    at: Register,
) -> None:
    """Emit the products of a row of the filter."""
    g = tile.geometry
    for kx in range(g.filter_w):
        offset = 2 * (ky * g.filter_w + kx) * g.in_c
        f.distance(at, channels, offset)
        f.load_vector(_WEIGHTS + 4 * kx, 2, at)
    taps = [(c, kx) for c in range(tile.columns) for kx in range(g.filter_w)]
    begun: set[int] = set()
    for x in sorted({tile.position(c, kx) for c, kx in taps}):
        base = pad
        if 0 <= x < g.in_w:
            f.distance(at, row, (x - tile.begin) * g.in_c)
            base = at
        f.load_vector(_NARROW, 1, base)
        f.widen(_PIXEL, _NARROW)
        for c, kx in taps:
            if tile.position(c, kx) == x:
                first = ky == 0 and c not in begun
                f.multiply_vectors(8 * c, _PIXEL, _WEIGHTS + 4 * kx, first)
                begun.add(c)
