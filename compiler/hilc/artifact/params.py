"""TVM's ``.params`` files: arrays by name, in the binary form of ``save_param_dict``.

Little-endian throughout. A list is a magic number, 8 reserved bytes, the names and the arrays; an
array is a magic number, 8 reserved bytes, device, rank, element type, shape, size in bytes, data.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from math import prod

import numpy as np

from hilc.errors import InputError
from hilc.ir import ELEMENT_TYPES, Array

_LIST_MAGIC = 0xF7E58D4F05049CB7
_ARRAY_MAGIC = 0xDD5E40F096B4A13F
_CPU = 1
_MAX_RANK = 16

#: DLPack's element types (code, bits) by numpy name; lanes are always 1.
DL_TYPES = {name: (row.dl_code, row.dl_bits) for name, row in ELEMENT_TYPES.items()} | {
    # Element types that no model tensor has, but parameter files may have.
    "uint16": (1, 16),
    "uint32": (1, 32),
    "uint64": (1, 64),
    "float16": (2, 16),
    "float64": (2, 64),
}
_NUMPY_TYPES = {dl: name for name, dl in DL_TYPES.items()}


def dtype_name(code: int, bits: int, lanes: int) -> str | None:
    """Return the numpy name of a DLDataType; None if numpy does not have it."""
    return _NUMPY_TYPES.get((code, bits)) if lanes == 1 else None


def save_params(arrays: Mapping[str, Array]) -> bytes:
    """Return ``arrays`` as a ``.params`` file, in their order."""
    names = [name.encode() for name in arrays]
    parts = [struct.pack("<QQQ", _LIST_MAGIC, 0, len(names))]
    parts += [struct.pack("<Q", len(name)) + name for name in names]
    parts.append(struct.pack("<Q", len(arrays)))
    parts += [save_array(array) for array in arrays.values()]
    return b"".join(parts)


def save_array(array: Array) -> bytes:
    """Return ``array`` in TVM's serialised form, which its metadata use for constants too."""
    code, bits = DL_TYPES[array.dtype.name]
    data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    return (
        struct.pack("<QQii", _ARRAY_MAGIC, 0, _CPU, 0)
        + struct.pack("<iBBH", array.ndim, code, bits, 1)
        + struct.pack(f"<{array.ndim}qq", *array.shape, len(data))
        + data
    )


def load_params(data: bytes, label: str) -> dict[str, Array]:
    """Return the arrays of a ``.params`` file; raise InputError, which names ``label``, if it is
    invalid.
    """
    reader = _Reader(data, label)
    magic, _, name_count = reader.unpack("<QQQ")
    reader.require(magic == _LIST_MAGIC, "is not a parameter file")
    names = []
    for _ in range(reader.bounded(name_count)):
        (length,) = reader.unpack("<Q")
        try:
            names.append(reader.take(length).decode())
        except UnicodeDecodeError:
            reader.require(False, "has a name that is not UTF-8")
    reader.require(len(set(names)) == len(names), "has two arrays of one name")
    (array_count,) = reader.unpack("<Q")
    reader.require(array_count == len(names), f"has {len(names)} names but {array_count} arrays")
    arrays = {name: _load_array(reader, name) for name in names}
    reader.require(reader.at_end, "goes on behind its last array")
    return arrays


def _load_array(reader: _Reader, name: str) -> Array:
    magic, _, _, _ = reader.unpack("<QQii")
    reader.require(magic == _ARRAY_MAGIC, f"array {name!r} does not begin as one")
    rank, code, bits, lanes = reader.unpack("<iBBH")
    reader.require(0 <= rank <= _MAX_RANK, f"array {name!r} has {rank} dimensions")
    *shape, nbytes = reader.unpack(f"<{rank}qq")
    dtype = dtype_name(code, bits, lanes)
    if dtype is None:
        raise InputError(
            f"{reader.label}: array {name!r} has the element type {{{code}, {bits}, {lanes}}}",
            f"supported: {', '.join(DL_TYPES)}",
        )
    element = np.dtype(dtype).newbyteorder("<")
    reader.require(
        all(side >= 0 for side in shape) and prod(shape) * element.itemsize == nbytes,
        f"array {name!r} of shape {shape} has {nbytes} bytes",
    )
    array = np.frombuffer(reader.take(nbytes), element).reshape(shape)
    return array.astype(np.dtype(dtype))


class _Reader:
    """Reader of fields from bytes that may be truncated."""

    def __init__(self, data: bytes, label: str) -> None:
        self._data = data
        self._position = 0
        self.label = label

    @property
    def at_end(self) -> bool:
        return self._position == len(self._data)

    def require(self, holds: bool, what: str) -> None:
        if not holds:
            raise InputError(f"{self.label}: {what}", "export the model again")

    def bounded(self, count: int) -> int:
        """Return ``count`` if that many items, of 8 bytes each at least, can follow."""
        self.require(count * 8 <= len(self._data) - self._position, "is cut off")
        return count

    def take(self, size: int) -> bytes:
        self.require(0 <= size <= len(self._data) - self._position, "is cut off")
        start, self._position = self._position, self._position + size
        return self._data[start : self._position]

    def unpack(self, layout: str) -> tuple[int, ...]:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))
