"""DECODE: the constants that TensorFlow Lite Micro's compression leaves in a file, decoded.

Of each tensor the operator takes the encoded bytes and, beside them, 16 bytes that say how, with
what this kind of encoding needs behind these (type codes of the metadata's first byte):

0, look-up table
    An index of 1 to 7 bits for each element, the first one in the highest bits of a byte, into a
    table of values: one for all, or one for each channel of the quantization (along the first or
    the last axis).
1, Huffman
    Codewords of int8 or int16 elements, the first in the highest bits, and tables that tell by so
    many bits at a time what they stand for, or where to look with further ones.
2, pruning
    A bit for each element: a value of its own, which follow each other, or the zero point.

The compressor writes the axis of look-up tables beside them; the run time follows the quantization.
A file in which these differ is refused, as the run time would decode something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from hilc.errors import ModelError, UnsupportedError
from hilc.ir import Array, Tensor
from hilc.ops.verify import no_elements

Bytes = npt.NDArray[np.uint8]

#: Bytes that say how a tensor is encoded, in front of its tables.
_METADATA = 16
_VERSION = 1
#: Types that values in a table have.
_DTYPES = ("bool", "float32", "int8", "int16", "int32", "int64")
#: Axes of look-up tables that are not counted: one table of all elements, and, of files from
#: before there were axes, that of the quantization.
_WHOLE, _UNSTATED = 15, 0


def decoded(output: Tensor, encoded: Tensor, ancillary: Tensor) -> Array:
    """Return the values of ``output``, of its shape and type.

    Raise :class:`~hilc.errors.UnsupportedError` for an unsupported format,
    :class:`~hilc.errors.ModelError` for damaged data.
    """
    for tensor in (encoded, ancillary):
        if tensor.data is None or tensor.dtype not in ("uint8", "int8"):
            raise UnsupportedError(
                f"it decodes {tensor.name!r}, {tensor.dtype}{list(tensor.shape)}",
                "only constants of uint8 are decoded, before the model runs",
            )
    data, tables = (np.asarray(t.data).view(np.uint8).reshape(-1) for t in (encoded, ancillary))
    if tables.size < _METADATA:
        raise _damaged(ancillary, f"has {tables.size} bytes, less than its metadata's {_METADATA}")
    kind, version = int(tables[0]), int(tables[1])
    if kind not in _KINDS:
        raise UnsupportedError(
            f"{ancillary.name!r} has decode type {kind}, which is not supported",
            "supported: 0 (look-up table), 1 (Huffman), 2 (pruning)",
        )
    if version != _VERSION or (kind != _PRUNING and tables[4] != _VERSION):
        raise UnsupportedError(
            f"{ancillary.name!r} has versions {version} and {tables[4]} of its format",
            f"supported: {_VERSION}",
        )
    if not output.size:
        return no_elements(output.name, output.shape, output.element.name)
    return _KINDS[kind](output, data, ancillary, tables)


def _look_up(output: Tensor, data: Bytes, ancillary: Tensor, tables: Bytes) -> Array:
    _require_type(output, _DTYPES)
    bits, axis, stride = int(tables[5]) & 7, int(tables[5]) >> 4, int(tables[6])
    if not bits:
        raise _damaged(ancillary, "has indices of 0 bits")
    values = _values(output, ancillary, tables)
    stream = _bits(data, output.size * bits, output).reshape(-1, bits)
    indices = stream @ (1 << np.arange(bits)[::-1])
    if indices.max() >= stride:
        raise _damaged(ancillary, f"has {stride} values in a table, index {indices.max()} is used")
    channels = _channels(output)
    own = _WHOLE if output.quant is None or output.quant.per_tensor else output.quant.axis
    tables_of_first = output.shape[0] * stride if output.shape else 0
    if axis not in (own, _UNSTATED) or (
        (axis, own) == (_UNSTATED, _WHOLE) and stride < tables_of_first <= values.size
    ):
        raise UnsupportedError(
            f"{ancillary.name!r} has {_tables(axis)}, but the quantization of {output.name!r} "
            f"stands for {_tables(own)}, which TensorFlow Lite Micro takes",
            "compress per channel what is quantized per channel, and per tensor what is not",
        )
    places = indices + channels * stride
    if places.max() >= values.size:
        raise _damaged(ancillary, f"has {values.size} values; number {places.max()} is used")
    found: Array = values[places].reshape(output.shape)
    return found


def _pruned(output: Tensor, data: Bytes, ancillary: Tensor, tables: Bytes) -> Array:
    _require_type(output, _DTYPES)
    values = _values(output, ancillary, tables)
    is_own = _bits(data, output.size, output).astype(np.bool_)
    count = int(np.count_nonzero(is_own))
    if count > values.size:
        raise _damaged(ancillary, f"has {values.size} values, not the {count} that are used")
    zero_points = np.array((0,) if output.quant is None else output.quant.zero_point, np.int64)
    if zero_points.any() and not output.element.clears_to_zero_point:
        raise UnsupportedError(
            f"it decodes {output.name!r}, of type {output.dtype}, with zero points {zero_points}",
            "only int8 is pruned to zero points other than 0",
        )
    result: Array = zero_points[_channels(output)].astype(output.dtype)
    result[is_own] = values[:count]
    return result.reshape(output.shape)


def _huffman(output: Tensor, data: Bytes, ancillary: Tensor, tables: Bytes) -> Array:
    is_wide, first = bool(tables[5] & 1), (int(tables[5]) >> 4) + 1
    _require_type(output, ("int8", "int16") if is_wide else ("int8",))
    # Of an entry: whether it is a symbol, the bits of that (or one less than those of the next
    # table), the symbol (or how far that table is).
    width = 32 if is_wide else 16
    raw = tables[_METADATA:]
    entries = raw[: raw.size // (width // 8) * (width // 8)].view(f"<u{width // 8}").tolist()
    shift = width - 5
    # Behind the stream it reads zeros.
    stream = data.tobytes() + bytes(8)
    total = 8 * len(stream)
    position = 0
    symbols: list[int] = []
    for _ in range(output.size):
        bits, place, before = first, 0, position
        while True:
            if position + bits > total:
                raise _damaged(output, f"ends after {len(symbols)} of {output.size} elements")
            # The next 16 bits at most, wherever they begin in a byte.
            byte = position // 8
            window = int.from_bytes(stream[byte : byte + 3].ljust(3, b"\0"), "big")
            place += window >> (24 - position % 8 - bits) & ((1 << bits) - 1)
            position += bits
            if place >= len(entries):
                raise _damaged(ancillary, f"has {len(entries)} entries; number {place} is used")
            entry = entries[place]
            count = entry >> shift & 15
            if entry >> (width - 1):
                break
            place += entry & ((1 << shift) - 1)
            bits = count + 1
        position -= max(0, bits - count)
        if position == before:
            # The stream would never end, whatever the number of elements.
            raise _damaged(ancillary, "has a codeword of no bits")
        symbols.append(entry & ((1 << shift) - 1))
    if position > 8 * data.size:
        raise _damaged(output, f"has {data.size} bytes for {output.size} elements")
    values: Array = np.array(symbols, np.uint32).astype(output.dtype).reshape(output.shape)
    return values


_PRUNING = 2
_KINDS: Mapping[int, Callable[[Tensor, Bytes, Tensor, Bytes], Array]] = {
    0: _look_up,
    1: _huffman,
    _PRUNING: _pruned,
}


def _channels(output: Tensor) -> Array:
    """Return the channel of each element, in order; 0 for per-tensor quantization."""
    if output.quant is None or output.quant.per_tensor:
        return np.zeros(output.size, np.int64)
    axis, rank = output.quant.axis, len(output.shape)
    if axis not in (0, rank - 1):
        raise UnsupportedError(
            f"it decodes {output.name!r}, {list(output.shape)} with {output.shape[axis]} scales "
            f"along axis {axis}",
            "supported: along the first and the last axis",
        )
    along: Array = np.indices(output.shape)[axis]
    return along.reshape(-1)


def _tables(axis: int) -> str:
    return "one table" if axis == _WHOLE else f"a table for each slice along axis {axis}"


def _values(output: Tensor, ancillary: Tensor, tables: Bytes) -> Array:
    """Return the values behind the metadata."""
    raw = tables[_METADATA:]
    whole = raw[: raw.size // output.element.itemsize * output.element.itemsize]
    if output.dtype == "bool" and (whole > 1).any():
        raise _damaged(ancillary, "has bools other than 0 and 1")
    values: Array = whole.view(np.dtype(output.dtype).newbyteorder("<")).astype(output.dtype)
    return values


def _bits(data: Bytes, count: int, output: Tensor) -> Bytes:
    if 8 * data.size < count:
        raise _damaged(output, f"has {data.size} bytes for {count} bits")
    return np.unpackbits(data, count=count)


def _require_type(output: Tensor, dtypes: tuple[str, ...]) -> None:
    if output.dtype not in dtypes:
        raise UnsupportedError(
            f"it decodes {output.name!r}, of type {output.dtype}, which is not supported",
            f"supported for this kind of encoding: {', '.join(dtypes)}",
        )


def _damaged(tensor: Tensor, what: str) -> ModelError:
    return ModelError(
        f"what encodes {tensor.name!r} {what}", "the file is damaged: export it again"
    )
