"""Calls whose constant arrays are stored compressed, and decoded into scratch first.

Any call of a kernel has such a variant: the same kernel with the same parameters, of which some
arrays lie in scratch. Where an operator has weights for each output channel, the layer can as well
be computed some channels at a time, and only their weights are decoded at once: the same kernel
again, called for layers of so many channels, which differ in their arrays only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from hilc.ir import Array, Quant, Tensor
from hilc.lowering.access import Access
from hilc.lowering.compression import TABLE_BYTES, Compressed, compressed
from hilc.lowering.cost import Cost
from hilc.lowering.cost_tables import shipped_figures
from hilc.lowering.kernels import KernelCall
from hilc.lowering.registry import Layer, LoweredLayer
from hilc.ops import OPS
from hilc.target import Cpu

#: Path of the decoder, as generated code includes it, and its code in bytes.
HEADER = "hil/decode.h"
DECODER_BYTES = 380
#: Code of a layer that decodes, in bytes.
LAYER_BYTES = 60
#: Alignment of arrays in scratch, in bytes.
_ALIGNMENT = 16
#: The smallest array that is compressed, in bytes, and the ratio of its stream to it.
_LEAST_BYTES = 512
_WORTH = 0.95
#: Arrays of the same element type that are compressed along with the largest: as large in relation
#: to it.
_COMPANION = 0.25
#: Products for each byte of constants from which on decoding does not dominate.
_REUSE = 8
#: Ratio: the arrays of a kernel that is decoded for its speed to those of the smallest.
_UNFOLDED = 1.5
#: Bytes of weights that are decoded at a time, if there is no need for more.
_TILE_BYTES = 2560
#: Channels that kernels take at a time; tiles have a multiple of them.
_BLOCKS = (8, 4, 2)


#: Instructions of decoding. Its figures are fitted by hand, to counts under QEMU of a layer with
#: five distributions of weights, with compressed weights and without: the counts are within 4 %.
@cache
def _cost() -> Cost:
    return Cost(
        on=shipped_figures("hil_decode"),
        counts={
            "symbol": "symbols",
            "literal": "literals",
            "repeat": "repeats",
            "repeated": "decoded_bytes - literals",
        },
    )


#: Instructions of putting a row of a tile in its place.
_PLACE_COST = 12


@dataclass(frozen=True)
class CompressedCall(KernelCall):
    """Call that decodes the arrays ``stored`` of its parameters before it runs.

    With several ``tiles`` it computes so many output channels at a time, one after the other; then
    ``parameters`` are those of the first, and each array that is not stored compressed holds those
    of all of them, one after the other.
    """

    #: Fields of the parameters that are stored compressed.
    stored: tuple[str, ...] = ()
    #: Their arrays, tile by tile.
    code: Compressed | None = None
    #: All other arrays.
    plain: Mapping[str, Array] | None = None
    tiles: int = 1
    #: Rows of the output's matrix, and bytes of one of a tile: several rows of a tile are put
    #: in their place after it.
    rows: int = 1
    width: int = 0

    @property
    def variant(self) -> str:
        """The identity of the variant that is decoded, and whether that is done in tiles."""
        return f"{super().variant}.compressed{'_tiles' if self.tiles > 1 else ''}"

    @property
    def _code(self) -> Compressed:
        assert self.code is not None
        return self.code

    @property
    def stream(self) -> Array:
        """The stream that is stored in place of the arrays."""
        return self._code.stream

    @property
    def arrays(self) -> Mapping[str, Array]:
        """The arrays that are stored as they are, by their fields."""
        return self.plain or {}

    @property
    def compressed_bytes(self) -> tuple[int, int]:
        """Bytes of the compressed arrays: decoded, and stored."""
        return self._code.decoded_bytes, self._code.nbytes

    @property
    def constant_arrays(self) -> Iterator[Array]:
        """The compressed stream, then the arrays that are not compressed."""
        yield self.stream
        yield from self.arrays.values()

    @property
    def stream_digest(self) -> bytes:
        """Hash of the stream, which need not be made for it."""
        return self._code.digest

    @property
    def tile_bytes(self) -> int:
        """Bytes that are decoded at a time."""
        return self._code.decoded_bytes // self.tiles

    @property
    def scattered(self) -> bool:
        """Whether tiles are computed in scratch."""
        return self.tiles > 1 and self.rows > 1

    # The scratch: the kernel's own, the table (which may lie there where it is not needed any more
    # once the kernel runs), the output of a tile, the arrays.

    @property
    def table_offset(self) -> int:
        """Offset of the decoder's table in scratch, in bytes."""
        return _align(self.kernel_scratch_bytes) if self.tiles > 1 else 0

    @property
    def output_offset(self) -> int:
        """Offset of a tile's output in scratch, in bytes."""
        return max(_align(self.kernel_scratch_bytes), self.table_offset + TABLE_BYTES)

    @property
    def decoded_offset(self) -> int:
        """Offset of the decoded arrays in scratch, in bytes."""
        return self.output_offset + (_align(self.rows * self.width) if self.scattered else 0)

    @property
    def array_offsets(self) -> Mapping[str, int]:
        """Offset in scratch of each array that is stored compressed, in bytes."""
        offsets, end = {}, self.decoded_offset
        for name in self.stored:
            array = self.fields[name]
            assert isinstance(array, np.ndarray)
            offsets[name] = end
            end += _align(array.nbytes)
        return offsets

    @property
    def scratch_bytes(self) -> int:
        """Scratch memory of the call, in bytes."""
        return self.decoded_offset + self.tile_bytes

    def instructions(self, cpu: Cpu, *, shared: bool = False) -> int:
        """Return the estimated instructions: decoding, the kernel of each tile, and copies."""
        code = self._code
        facts = {
            "symbols": code.symbols,
            "literals": code.literals,
            "repeats": code.repeats,
            "decoded_bytes": code.decoded_bytes,
        }
        placed = self.rows * self.tiles * _PLACE_COST if self.scattered else 0
        own = self.tiles * super().instructions(cpu, shared=shared)
        return own + placed + _cost().instructions(facts, cpu)

    def access(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Access | None:
        """Return the kernel's access pattern; None with several tiles."""
        # Each tile reads the whole input.
        return None if self.tiles > 1 else super().access(inputs, outputs)


def compressed_calls(lowered: LoweredLayer, *, tiled: bool = True) -> Iterator[CompressedCall]:
    """Yield variants of a layer's calls with compressed arrays: of the call with the smallest
    arrays, and of the fastest if computing dominates decoding.

    Without ``tiled`` all of a layer's weights are decoded before it.
    """
    usual = [c for c in lowered.calls if isinstance(c, KernelCall) and _compresses(c)]
    if not usual:
        return
    smallest = min(usual, key=_nbytes)
    chosen = [smallest]
    # The first is the fastest: decoded, the weights of some kernels take several times the memory.
    fastest = next(c for c in usual if _nbytes(c) <= _UNFOLDED * _nbytes(smallest))
    if fastest is not smallest and fastest.macs >= _REUSE * _nbytes(fastest):
        chosen.append(fastest)
    tiles: list[Layer] | None = None
    for call in chosen:
        if (whole := _whole(call)) is None:
            continue
        yield whole
        if tiled and whole.tile_bytes > _TILE_BYTES:
            # The variants pack the same tiles.
            tiles = _tiles(lowered.layer) if tiles is None else tiles
            cut = _tiled(lowered, tiles, call, whole.stored)
            yield from () if cut is None else (cut,)


def _nbytes(call: KernelCall) -> int:
    return sum(array.nbytes for array in call.constant_arrays)


def _compresses(call: KernelCall) -> bool:
    kernel = call.kernel
    return (
        not kernel.fails
        and max((array.nbytes for array in call.constant_arrays), default=0) >= _LEAST_BYTES
    )


def _whole(call: KernelCall) -> CompressedCall | None:
    """Return the call that decodes all at once; None where that is not worth it."""
    arrays = call.arrays
    largest = max(arrays.values(), key=lambda array: array.nbytes)
    stored = tuple(
        name
        for name, array in arrays.items()
        if array.dtype == largest.dtype and array.nbytes >= _COMPANION * largest.nbytes
    )
    code = compressed([_padded(arrays[name]) for name in stored])
    if code.nbytes > _WORTH * code.decoded_bytes:
        return None
    plain = {name: array for name, array in arrays.items() if name not in stored}
    return CompressedCall(call.parameters, call.inputs, call.macs, stored, code, plain)


def _tiles(layer: Layer) -> list[Layer]:
    """Return layers that compute a layer's channels, as many each; none where there are none."""
    node, ins, outs = layer.node, layer.ins, layer.outs
    own, weights = OPS[node.op].weights, ins[1] if len(ins) > 1 else None
    if own is None or not own.sums or weights is None or weights.data is None or len(outs) > 1:
        return []
    if any(tensor is not None and tensor.data is None for tensor in ins[1:]):
        return []
    out = outs[0]
    channels = weights.shape[own.channel_axis]
    width = _tile_channels(channels, weights.nbytes // max(1, channels))
    if width is None or out.shape[-1] != channels:
        return []
    tiles = []
    for first in range(0, channels, width):
        part = slice(first, first + width)
        operands = [
            ins[0],
            _cut(weights, own.channel_axis, part),
            *(None if t is None else _cut(t, 0, part) for t in ins[2:]),
        ]
        result = replace(out, shape=(*out.shape[:-1], width))
        tiles.append(Layer(node, operands, [result], layer.cpu))
    return tiles


def _tiled(
    lowered: LoweredLayer, tiles: Sequence[Layer], call: KernelCall, stored: Sequence[str]
) -> CompressedCall | None:
    """Return the layer's ``call`` as several of the same variant, one for each of ``tiles``; None
    where there are none.
    """
    calls = []
    for tile in tiles:
        made = lowered.of_variant(call.variant, tile)
        if made is None:
            return None
        calls.append(made)
    if not calls or not all(_differ_in_arrays(calls[0], other) for other in calls):
        return None
    parts = [each.arrays for each in calls]
    if any(len({part[name].shape for part in parts}) > 1 for name in parts[0]):
        return None
    code = compressed([_padded(part[name]) for part in parts for name in stored])
    if code.nbytes > _WORTH * code.decoded_bytes:
        return None
    plain = {
        name: np.concatenate([part[name] for part in parts])
        for name in parts[0]
        if name not in stored
    }
    return CompressedCall(
        calls[0].parameters,
        calls[0].inputs,
        call.macs,
        tuple(stored),
        code,
        plain,
        len(calls),
        tiles[0].out.size // tiles[0].out.shape[-1],
        tiles[0].out.shape[-1] * tiles[0].out.nbytes // tiles[0].out.size,
    )


def _tile_channels(channels: int, nbytes: int) -> int | None:
    """Return the channels of a tile of ``channels``, each with ``nbytes`` of weights; None without
    equal tiles.
    """
    for block in _BLOCKS:
        most = min(channels - 1, _TILE_BYTES // max(1, nbytes))
        sizes = [size for size in range(block, most + 1, block) if channels % size == 0]
        if sizes:
            return sizes[-1]
    return None


def _cut(tensor: Tensor, axis: int, part: slice) -> Tensor:
    """Return some channels of a constant."""
    assert tensor.data is not None
    whole = [slice(None)] * len(tensor.shape)
    whole[axis] = part
    data = np.ascontiguousarray(tensor.data[tuple(whole)])
    quant = tensor.quant
    if isinstance(quant, Quant) and not quant.per_tensor:
        quant = replace(quant, scale=quant.scale[part], zero_point=quant.zero_point[part])
    return replace(tensor, shape=data.shape, data=data, quant=quant)


def _differ_in_arrays(one: KernelCall, other: KernelCall) -> bool:
    """Return whether two calls are of one kernel, and their arrays are all that differs."""
    return (
        one.kernel is other.kernel
        and one.inputs == other.inputs
        and one.fields.keys() == other.fields.keys()
        and all(
            isinstance(other.fields[name], np.ndarray)
            if isinstance(value, np.ndarray)
            else type(value) is type(other.fields[name]) and repr(value) == repr(other.fields[name])
            for name, value in one.fields.items()
        )
    )


def _padded(array: Array) -> Array:
    """Return the bytes of an array up to where the next one begins in scratch."""
    data = np.frombuffer(array.tobytes(), np.uint8)
    return np.pad(data, (0, _align(len(data)) - len(data)))


def _align(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT
