"""TVM's ``.params`` files: written as TVM reads them, read without trust."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from hilc.artifact.params import DL_TYPES, load_params, save_params
from hilc.errors import InputError

# A float32 array [1.5] called "w", as TVM lays it out.
_BYTES = b"".join(
    [
        struct.pack("<Q", 0xF7E58D4F05049CB7),  # a list
        bytes(8),
        struct.pack("<QQ", 1, 1) + b"w",  # one name, of one byte
        struct.pack("<Q", 1),  # one array
        struct.pack("<Q", 0xDD5E40F096B4A13F),
        bytes(8),
        struct.pack("<ii", 1, 0),  # on the CPU
        struct.pack("<iBBH", 1, 2, 32, 1),  # of one dimension, float32
        struct.pack("<q", 1),
        struct.pack("<q", 4),
        struct.pack("<f", 1.5),
    ]
)


def test_the_bytes_are_tvms() -> None:
    assert save_params({"w": np.array([1.5], np.float32)}) == _BYTES
    assert load_params(_BYTES, "x")["w"].tolist() == [1.5]


@pytest.mark.parametrize("dtype", sorted(DL_TYPES))
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3, 1, 2)])
def test_what_is_written_is_read(dtype: str, shape: tuple[int, ...]) -> None:
    array = (np.arange(np.prod(shape, dtype=int)) % 2).reshape(shape).astype(dtype)
    read = load_params(save_params({"ä/1": array, "": array.T}), "x")
    assert list(read) == ["ä/1", ""]
    assert read["ä/1"].dtype == np.dtype(dtype)
    np.testing.assert_array_equal(read["ä/1"], array)
    np.testing.assert_array_equal(read[""], array.T)


def test_no_array_at_all() -> None:
    assert load_params(save_params({}), "x") == {}


def _with(position: int, layout: str, value: int) -> bytes:
    """The bytes with one field changed."""
    return (
        _BYTES[:position]
        + struct.pack(layout, value)
        + _BYTES[position + struct.calcsize(layout) :]
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is cut off"),
        (_with(0, "<B", 0), "is not a parameter file"),
        (_with(16, "<Q", 1 << 60), "is cut off"),
        (_with(24, "<Q", 1 << 63), "is cut off"),
        (_with(32, "<B", 0xFF), "has a name that is not UTF-8"),
        (_with(33, "<Q", 2), "has 1 names but 2 arrays"),
        (_with(41, "<B", 0), "array 'w' does not begin as one"),
        (_with(65, "<i", -1), "array 'w' has -1 dimensions"),
        (_with(65, "<i", 1 << 30), "array 'w' has 1073741824 dimensions"),
        (_with(69, "<B", 4), "array 'w' has the element type {4, 32, 1}"),
        (_with(71, "<H", 2), "array 'w' has the element type {2, 32, 2}"),
        (_with(73, "<q", 2), "array 'w' of shape [2] has 4 bytes"),
        (_with(73, "<q", -1), "array 'w' of shape [-1] has 4 bytes"),
        (_with(81, "<q", 8), "array 'w' of shape [1] has 8 bytes"),
        (_BYTES + b"\0", "goes on behind its last array"),
    ],
)
def test_what_is_damaged_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_params(data, "net.params")
    assert caught.value.fact == f"net.params: {message}"


def test_every_cut_is_refused() -> None:
    for size in range(len(_BYTES)):
        with pytest.raises(InputError):
            load_params(_BYTES[:size], "x")


def test_two_arrays_of_one_name_are_refused() -> None:
    names = save_params({"a": np.zeros(1, np.int8), "b": np.zeros(1, np.int8)})
    with pytest.raises(InputError, match="two arrays of one name"):
        load_params(names.replace(b"b", b"a", 1), "x")
