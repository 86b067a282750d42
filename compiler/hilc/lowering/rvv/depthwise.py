"""Depthwise convolutions of int8 and int16 with RISC-V's vectors (Zve32x), emitted for each layer.

The elements of a vector are channels. Two outputs next to each other stay in registers with the
weights of three columns of a row of the filter; each pixel under them is loaded once for these
columns. What is checked here for each layer:

* int8: sums stay below 2**30, and every shift is to the right; the outputs of each channel are
  exact for every sum (:mod:`hilc.lowering.riscv.outputs`);
* int16: sums fit 32 bits, and are rounded as :mod:`hilc.lowering.riscv.wide` says.

Several filters of a channel, whose outputs are no vector in memory, and filters of more rows than
there are registers for their addresses, have the kernel without vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.ir import Array
from hilc.lowering.linear import (
    DepthwiseConvolution,
    LinearWeights,
    WideRequantization,
    packed_once,
)
from hilc.lowering.riscv import depthwise as scalars
from hilc.lowering.riscv.arithmetic import scale_words
from hilc.lowering.riscv.depthwise import (
    DepthwiseParameters,
    Geometry,
    Packed,
    Tile,
    columns_of,
    emitted_depthwise,
    geometry_of,
    tiles_of,
)
from hilc.lowering.riscv.emitted import EmittedParameters
from hilc.lowering.riscv.emitter import ZERO, Function, Register
from hilc.lowering.riscv.outputs import Output, output_of
from hilc.lowering.riscv.wide import WideOutput, wide_output_of
from hilc.lowering.rvv.emitter import (
    VectorFunction,
    blocks_of,
    bounds_text,
    emit_advance,
    emit_outputs,
    emit_wide_outputs,
)
from hilc.lowering.v7m.channels import require_right_shifts

#: Outputs of a tile; columns of a filter, whose weights are in registers at a time; rows, whose
#: addresses are arguments.
_COLUMNS, _HELD, _MOST_ROWS = 2, 3, 9
#: Bits by which sums are scaled, at most.
_MOST_BITS = 13
#: The first registers of weights of a row, four each; of a pixel, and of it before it is widened:
#: the upper half of these.
_WEIGHTS, _PIXEL, _NARROW = 16, 28, 30
_FEATURES = frozenset({"zve32x"})


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


def depthwise(form: DepthwiseConvolution) -> Iterator[EmittedParameters]:
    """Yield the emitted kernel of a depthwise convolution, if it serves the layer."""
    window = form.window
    if form.multiplier != 1 or window.filter_h > _MOST_ROWS:
        yield from scalars.depthwise(form, "")
        return
    if window.stride_h != window.stride_w:
        return
    packed = _packed(form.packing)
    if packed is None:
        return
    if (made := _class(form.packing, geometry_of(form, packed.output))) is not None:
        yield made(images=form.images, pad_top=window.pad_top, channels=packed.channels)


@packed_once
def _packed(layer: LinearWeights) -> Packed | None:
    """Return the words of the channels; None where the kernel does not serve the layer."""
    if isinstance(layer.outputs, WideRequantization):
        wide = wide_output_of(layer, "zve32x")
        return None if wide is None else Packed(_words(layer.matrix, wide[1]), wide[0])
    channels = require_right_shifts(layer.matrix, layer.requantization)
    if channels is None:
        return None
    largest = max(int(np.abs(end).max()) for end in channels.ends)
    found = output_of(channels, min(_MOST_BITS, 31 - largest.bit_length()), "zve32x")
    if found is None:
        return None
    output, scales = found
    return Packed(_words(channels.weights, scales), output)


def _words(matrix: Array, scales: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return the weights ``[tap][channel]`` as int16, then the scales ``[word][channel]``."""
    weights = matrix.T.astype(np.int16).reshape(-1)
    words = np.pad(weights, (0, weights.size % 2)).view(np.int32)
    return np.concatenate([words, scales.T.reshape(-1)])


@packed_once
def _class(layer: LinearWeights, geometry: Geometry) -> type[DepthwiseParameters] | None:
    packed = _packed(layer)
    assert packed is not None
    tiles = tiles_of(VectorTile, geometry, packed, layer.pad_value, 1, _COLUMNS)
    if not all(columns_of(tile) for tile in tiles):
        # Windows that lie beside the image as a whole.
        return None
    g = geometry
    functions = {tile.missing: tile for tile in tiles}
    instructions = sum(tile.emit().instructions for tile in tiles)
    products = g.out_w * g.in_c * g.taps
    head = {
        "Tile": f"1 row x {_COLUMNS} columns of outputs x as many channels as a group of eight "
        f"vector registers has words; {len(functions)} functions for the tiles of a row.",
        "Registers": "sums: eight vector registers a column from v0 on; weights of three columns "
        "of the filter: v16 to v27; a pixel: v28 to v31, loaded into the upper half of these.",
        "Data": "channels: int16 weights [tap][channel], filled up to words, then int32 "
        f"[{scale_words(packed.output)}][channel], packed by _packed().",
        "Order": "Tile by tile, channels by channels: what is under the tile in some channels is "
        "read, then the outputs of these channels are written.",
        "Bounds": bounds_text(packed.output),
        "Output": f"{packed.output.text} The narrowing shifts round down and saturate.",
        "Scratch": "Zero points, which are read in the place of pixels outside the image.",
        "Cost": f"Counted by the emitter for registers of 128 bits: {instructions:.0f} "
        f"instructions for a row, {instructions / products:.3f} a MAC.",
        "Tests": "tests/board/test_riscv_kernels.py, tests/c/test_riscv_kernels.py: the C form is "
        "the same list of instructions.",
    }
    return emitted_depthwise(
        "rvv", "hil/rvv.h", geometry, [tiles], _FEATURES, head, f"{_COLUMNS}_columns"
    )


def emit_tile(tile: VectorTile) -> VectorFunction:
    """Return the function that computes a tile of outputs of all channels.

    Its arguments are the rows of the image under the tile, from the first column inside, the
    outputs, the channels' words, and zero points.
    """
    g = tile.geometry
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
        f.distance(other, out, c * g.pixel_bytes)
    sums = [8 * c for c in range(tile.columns)]
    with f.loop(blocks_of(g.in_c), left, ZERO, always=True):
        f.length(length, left, 2)
        for ky, row in enumerate(rows):
            _emit_row(f, tile, ky, row, channels, pad, at)
        if isinstance(tile.output, WideOutput):
            emit_wide_outputs(f, tile.output, g.in_c, sums, scales, [out, *others])
        else:
            assert isinstance(tile.output, Output)
            emit_outputs(f, tile.output, g.in_c, sums, scales, [out, *others])
        f.operate("sub", left, left, length)
        tensors = [*rows, out, *others, pad]
        emit_advance(f, length, [(g.arithmetic.element, tensors), (2, [channels]), (4, [scales])])
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
    """Emit the products of a row of the filter, some of its columns at a time."""
    g = tile.geometry
    for first in range(0, g.filter_w, _HELD):
        held = range(first, min(first + _HELD, g.filter_w))
        for i, kx in enumerate(held):
            f.distance(at, channels, 2 * (ky * g.filter_w + kx) * g.in_c)
            f.load_vector(_WEIGHTS + 4 * i, 2, at)
        taps = [(c, i, kx) for c in range(tile.columns) for i, kx in enumerate(held)]
        begun: set[int] = set()
        for x in sorted({tile.position(c, kx) for c, _, kx in taps}):
            base = pad
            if 0 <= x < g.in_w:
                f.distance(at, row, (x - tile.begin) * g.pixel_bytes)
                base = at
            if g.arithmetic.element == 1:
                f.load_vector(_NARROW, 1, base)
                f.widen(_PIXEL, _NARROW)
            else:
                f.load_vector(_PIXEL, 2, base)
            for c, i, kx in taps:
                if tile.position(c, kx) == x:
                    begin = ky == 0 and first == 0 and c not in begun
                    f.multiply_vectors(8 * c, _PIXEL, _WEIGHTS + 4 * i, begin)
                    begun.add(c)
