"""TVM's packed calling convention in this process: arguments and results through ctypes.

A packed function (``TVMBackendPackedCFunc``) takes an array of values, one of their type codes, and
writes a result with its code. Tensors are passed as pointers to DLPack's ``DLTensor``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hilc.errors import InputError
from hilc.ir import Array

# The type codes of TVM's c_runtime_api.h.
ARG_INT, ARG_FLOAT, OPAQUE_HANDLE, NULL_POINTER = 0, 2, 3, 4
TENSOR_HANDLE, STRING, BYTES, ARG_BOOL = 7, 11, 12, 15

_CPU = 1
_KINDS = {"i": 0, "u": 1, "f": 2, "b": 1}


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Device(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int), ("device_id", ctypes.c_int32)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Bytes(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class _Value(ctypes.Union):
    _fields_ = [
        ("v_int64", ctypes.c_int64),
        ("v_float64", ctypes.c_double),
        ("v_handle", ctypes.c_void_p),
        ("v_str", ctypes.c_char_p),
    ]


@dataclass(frozen=True)
class Handle:
    """An opaque pointer, such as a device's context."""

    address: int | None


@dataclass(frozen=True)
class TensorAt:
    """A compact tensor that lies at ``address``."""

    address: int
    shape: tuple[int, ...]
    dtype: str


class Call:
    """The arguments of one call and the place of its result.

    An argument is an int, a float, a bool, a string, bytes, None, a :class:`Handle`, a
    :class:`TensorAt` or a contiguous numpy array, which the function may write to.
    """

    def __init__(self, arguments: Sequence[Any]) -> None:
        self.count = len(arguments)
        # C has no empty array, and some code looks at the first element regardless.
        self.values = (_Value * max(self.count, 1))()
        self.codes = (ctypes.c_int * max(self.count, 1))()
        self.result = _Value()
        self.result_code = ctypes.c_int(NULL_POINTER)
        # What the values point to.
        self._alive: list[Any] = []
        for index, argument in enumerate(arguments):
            self.codes[index] = self._put(self.values[index], argument, index)

    def _put(self, value: _Value, argument: Any, index: int) -> int:
        """Write the argument to ``value``; its type code."""
        match argument:
            case None:
                value.v_handle = None
                return NULL_POINTER
            case bool() | np.bool_():
                value.v_int64 = int(argument)
                return ARG_BOOL
            case int() | np.integer():
                if not -(1 << 63) <= int(argument) < 1 << 63:
                    raise InputError(
                        f"argument {index} is {argument}", "a packed function takes 64 bits"
                    )
                value.v_int64 = int(argument)
                return ARG_INT
            case float() | np.floating():
                value.v_float64 = float(argument)
                return ARG_FLOAT
            case str():
                text = argument.encode()
                if b"\0" in text:
                    raise InputError(f"argument {index} has a NUL in it: {argument!r}")
                self._alive.append(text)
                value.v_str = text
                return STRING
            case bytes():
                held = _Bytes(argument, len(argument))
                self._alive += [argument, held]
                value.v_handle = ctypes.addressof(held)
                return BYTES
            case Handle():
                value.v_handle = argument.address
                return OPAQUE_HANDLE
            case np.ndarray():
                if not argument.flags.c_contiguous or not argument.dtype.isnative:
                    raise InputError(
                        f"argument {index} is an array that is not contiguous in this machine's "
                        "byte order",
                        "pass numpy.ascontiguousarray(array)",
                    )
                self._alive.append(argument)
                tensor = TensorAt(argument.ctypes.data, argument.shape, argument.dtype.name)
            case TensorAt():
                tensor = argument
            case _:
                raise InputError(
                    f"argument {index} is a {type(argument).__name__}",
                    "pass a number, a string, bytes, None or a numpy array",
                )
        held_tensor = _tensor(tensor, index)
        self._alive.append(held_tensor)
        value.v_handle = ctypes.addressof(held_tensor)
        return TENSOR_HANDLE

    def take_result(self) -> int | float | str | bytes | None:
        """What the function returned; a handle as its address, nothing as None."""
        match self.result_code.value:
            case 0:
                return int(self.result.v_int64)
            case 2:
                return float(self.result.v_float64)
            case 3:
                return int(self.result.v_handle or 0)
            case 4:
                return None
            case 11:
                text = self.result.v_str
                return text.decode("utf-8", "replace") if text is not None else None
            case 15:
                return bool(self.result.v_int64)
        raise InputError(
            f"a packed function returned something of type code {self.result_code.value}",
            "readable are numbers, strings and opaque handles",
        )


def _tensor(tensor: TensorAt, index: int) -> _Tensor:
    dtype = np.dtype(tensor.dtype)
    if dtype.kind not in _KINDS:
        raise InputError(
            f"argument {index} is an array of {tensor.dtype}", "pass integers or floats"
        )
    bits = 1 if dtype.kind == "b" else dtype.itemsize * 8
    shape = (ctypes.c_int64 * max(len(tensor.shape), 1))(*tensor.shape)
    return _Tensor(
        data=tensor.address,
        device=_Device(_CPU, 0),
        ndim=len(tensor.shape),
        dtype=_DataType(_KINDS[dtype.kind], bits, 1),
        shape=shape,
        strides=None,
        byte_offset=0,
    )


def as_tensor(array: Array) -> TensorAt:
    """A tensor over the array's memory, which must outlive the call."""
    return TensorAt(array.ctypes.data, array.shape, array.dtype.name)
