"""Types of ONNX that only the front end knows: what they are stored in, and what they stand for.

Integers of 4 and 2 bits lie one in an int8 or uint8. bfloat16 and the floats of 8 and 4 bits are
stored by their bits, in a uint16 or uint8, and computed as float32. What a model takes and gives of
these types is what they are stored in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import onnx
from onnx import helper

from hilc.ir import Array

_TYPES = onnx.TensorProto
#: Exponent bias of float32.
FLOAT32_BIAS = (1 << 7) - 1


@dataclass(frozen=True)
class StoredInteger:
    """A narrow integer type."""

    name: str
    #: Type of the tensor that holds it.
    dtype: str
    bits: int

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest value."""
        if self.dtype[0] == "u":
            return 0, (1 << self.bits) - 1
        return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1


@dataclass(frozen=True)
class StoredFloat:
    """A narrow float type: sign, exponent, ``fraction`` bits, from the highest bit on."""

    name: str
    #: Type of the tensor that holds its bits.
    dtype: str
    bits: int
    fraction: int
    bias: int
    #: Bits of the largest finite value, of infinity (None for none), and of NaN.
    largest: int
    infinity: int | None
    nan: int
    #: Whether there is one zero only, and the bits of its negative are no number.
    one_zero: bool = False
    #: Whether operators compute it, as they compute float16; others are only cast and quantized.
    computed: bool = False

    @property
    def is_cut_off(self) -> bool:
        """Whether it is a float32 without the last bits of the fraction."""
        return self.bias == FLOAT32_BIAS

    @property
    def sign(self) -> int:
        """The bit of the sign."""
        return 1 << (self.bits - 1)

    @property
    def values(self) -> Array:
        """The float32 value of each bit pattern."""
        patterns = np.arange(1 << self.bits)
        magnitude = patterns & (self.sign - 1)
        exponent, fraction = magnitude >> self.fraction, magnitude & ((1 << self.fraction) - 1)
        whole = np.where(exponent > 0, fraction + (1 << self.fraction), fraction).astype(float)
        found = np.ldexp(whole, np.maximum(exponent, 1) - self.bias - self.fraction)
        if self.infinity is not None:
            found = np.where(magnitude == self.infinity, np.inf, found)
        beyond = self.largest if self.infinity is None else self.infinity
        found = np.where(magnitude > beyond, np.nan, found)
        found = np.where(patterns & self.sign, -found, found)
        if self.one_zero:
            found[self.sign] = np.nan
        return found.astype(np.float32)


Stored = StoredInteger | StoredFloat

_FLOATS = {
    _TYPES.BFLOAT16: StoredFloat(
        "bfloat16", "uint16", 16, 7, FLOAT32_BIAS, 0x7F7F, 0x7F80, 0x7FC0, computed=True
    ),
    _TYPES.FLOAT8E4M3FN: StoredFloat("float8e4m3fn", "uint8", 8, 3, 7, 0x7E, None, 0x7F),
    _TYPES.FLOAT8E4M3FNUZ: StoredFloat(
        "float8e4m3fnuz", "uint8", 8, 3, 8, 0x7F, None, 0x80, one_zero=True
    ),
    _TYPES.FLOAT8E5M2: StoredFloat("float8e5m2", "uint8", 8, 2, 15, 0x7B, 0x7C, 0x7E),
    _TYPES.FLOAT8E5M2FNUZ: StoredFloat(
        "float8e5m2fnuz", "uint8", 8, 2, 16, 0x7F, None, 0x80, one_zero=True
    ),
    # What is no number becomes its negative zero.
    _TYPES.FLOAT4E2M1: StoredFloat("float4e2m1", "uint8", 4, 1, 1, 0x7, None, 0x8),
}
_INTEGERS = {
    _TYPES.INT4: StoredInteger("int4", "int8", 4),
    _TYPES.UINT4: StoredInteger("uint4", "uint8", 4),
    _TYPES.INT2: StoredInteger("int2", "int8", 2),
    _TYPES.UINT2: StoredInteger("uint2", "uint8", 2),
}
#: Stored types by ONNX's numbers of the types.
STORED: Mapping[int, Stored] = MappingProxyType({**_FLOATS, **_INTEGERS})


def code_of(kind: Stored) -> int:
    """Return ONNX's number of a type."""
    return next(code for code, each in STORED.items() if each is kind)


def stored_as(dtype: np.dtype[np.generic]) -> Stored | None:
    """Return the type that numpy's extension has this type for; None for one of numpy's own."""
    if dtype.isbuiltin == 1:
        return None
    return STORED.get(helper.np_dtype_to_tensor_dtype(dtype))


def packed(array: Array) -> Array:
    """Return the stored form of an array of an extension's type; other arrays unchanged."""
    kind = stored_as(array.dtype)
    if kind is None:
        return array
    if isinstance(kind, StoredInteger):
        return array.astype(kind.dtype)
    bits: Array = np.ascontiguousarray(array).reshape(array.shape).view(kind.dtype)
    return bits


def unpacked(array: Array, code: int) -> Array:
    """Return stored elements in the type of numpy's extension that an ONNX type has there."""
    kind = STORED.get(code)
    if kind is None:
        return array
    dtype = helper.tensor_dtype_to_np_dtype(code)
    if isinstance(kind, StoredInteger):
        return array.astype(dtype)
    real: Array = np.ascontiguousarray(array).reshape(array.shape).view(dtype)
    return real
