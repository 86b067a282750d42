"""TVM's packed calling convention in this process: arguments and results through ctypes.

A packed function (``TVMBackendPackedCFunc``) takes an array of values, one of their type codes, and
writes a result with its code. Tensors are passed as pointers to DLPack's ``DLTensor``.
"""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hilc.errors import InputError


class _Code(enum.IntEnum):
    """Type codes of TVM's ``c_runtime_api.h`` that are used here."""

    INT = 0
    FLOAT = 2
    HANDLE = 3
    NULL = 4
    TENSOR = 7
    STRING = 11
    BYTES = 12
    BOOL = 15
    OTHER = -1

    @classmethod
    def _missing_(cls, value: object) -> _Code:
        return cls.OTHER


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


#: Result of a packed function; a bool is an int too.
Result = int | float | str | Handle | None


@dataclass(frozen=True)
class TensorAt:
    """A compact tensor at ``address``."""

    address: int
    shape: tuple[int, ...]
    dtype: str


class Call:
    """Arguments of one call and memory for its result.

    An argument is an int, a float, a bool, a string, bytes, None, a :class:`Handle`, a
    :class:`TensorAt` or a contiguous numpy array, which the function may write to.
    """

    def __init__(self, arguments: Sequence[Any]) -> None:
        self.count = len(arguments)
        # C has no empty array, and some code reads the first element regardless.
        self.values = (_Value * max(self.count, 1))()
        self.codes = (ctypes.c_int * max(self.count, 1))()
        self.result = _Value()
        self.result_code = ctypes.c_int(_Code.NULL)
        # Objects that the values point to.
        self._alive: list[Any] = []
        for index, argument in enumerate(arguments):
            self.codes[index] = self._put(self.values[index], argument, index)

    def _put(self, value: _Value, argument: Any, index: int) -> int:
        """Write the argument to ``value``; return its type code."""
        match argument:
            case None:
                value.v_handle = None
                return _Code.NULL
            case bool() | np.bool_():
                value.v_int64 = int(argument)
                return _Code.BOOL
            case int() | np.integer():
                if not -(1 << 63) <= int(argument) < 1 << 63:
                    raise InputError(
                        f"argument {index} is {argument}", "pass an integer of at most 64 bits"
                    )
                value.v_int64 = int(argument)
                return _Code.INT
            case float() | np.floating():
                value.v_float64 = float(argument)
                return _Code.FLOAT
            case str():
                text = argument.encode()
                if b"\0" in text:
                    raise InputError(f"argument {index} has a NUL character: {argument!r}")
                self._alive.append(text)
                value.v_str = text
                return _Code.STRING
            case bytes():
                held = _Bytes(argument, len(argument))
                self._alive += [argument, held]
                value.v_handle = ctypes.addressof(held)
                return _Code.BYTES
            case Handle():
                value.v_handle = argument.address
                return _Code.HANDLE
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
        return _Code.TENSOR

    def take_result(self) -> Result:
        """Return the function's result; None for none.

        Raise :class:`~hilc.errors.InputError` for a result that is no number, string or handle.
        """
        match _Code(self.result_code.value):
            case _Code.INT:
                return int(self.result.v_int64)
            case _Code.FLOAT:
                return float(self.result.v_float64)
            case _Code.HANDLE:
                return Handle(self.result.v_handle)
            case _Code.NULL:
                return None
            case _Code.STRING:
                text = self.result.v_str
                return text.decode("utf-8", "replace") if text is not None else None
            case _Code.BOOL:
                return bool(self.result.v_int64)
        raise InputError(
            f"a packed function returned something of type code {self.result_code.value}",
            "supported are numbers, strings and opaque handles",
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
