"""TVM's metadata of a module, as ``tvmgen_<model>_get_c_metadata`` returns them.

The same classes serve metadata read in this process and received from a board.
:mod:`hilc.compat.tvm.c_metadata` documents the content of the lists.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hilc.errors import InputError

#: Layout version that is written and read; microTVM has no other one.
VERSION = 1

# DLPack's type codes, with numpy's name of the type.
_KINDS = {0: "int", 1: "uint", 2: "float", 3: "handle", 4: "bfloat", 5: "complex"}

# The address may be wrong: these bounds limit how far it is followed.
_MAX_ENTRIES = 1 << 16
_MAX_DIMENSIONS = 64
_MAX_NAME_BYTES = 4096


@dataclass(frozen=True)
class MetadataTensor:
    """An input, an output, or a workspace pool (uint8, its size in bytes as its shape)."""

    name: str
    shape: tuple[int, ...]
    #: numpy's name of the element type.
    dtype: str


@dataclass(frozen=True)
class MetadataConstant:
    """A constant, at ``byte_offset`` in the constant pool."""

    name_hint: str
    byte_offset: int
    #: Size in bytes of its data in the metadata, in TVM's array format; 0 if the constant is linked
    #: into the library.
    data_len: int


@dataclass(frozen=True)
class Metadata:
    """TVM's ``TVMMetadata``. ``mod_name`` is the stem of the module's symbols."""

    version: int
    mod_name: str
    inputs: tuple[MetadataTensor, ...]
    outputs: tuple[MetadataTensor, ...]
    #: Workspace pools that a caller passes to each run.
    workspace_pools: tuple[MetadataTensor, ...]
    constant_pools: tuple[MetadataConstant, ...]


def dtype_name(code: int, bits: int, lanes: int) -> str:
    """Return numpy's name of DLPack's ``{code, bits, lanes}``; raise InputError if it is
    invalid.
    """
    kind = _KINDS.get(code)
    if kind is None or bits == 0 or lanes == 0:
        raise InputError(f"{{{code}, {bits}, {lanes}}} is not a DLPack type")
    name = "bool" if (kind, bits) == ("uint", 1) else f"{kind}{bits}"
    return name if lanes == 1 else f"{name}x{lanes}"


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _TensorInfo(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_void_p),
        ("shape", ctypes.c_void_p),
        ("num_shape", ctypes.c_int64),
        ("dtype", _DataType),
    ]


class _ConstantInfo(ctypes.Structure):
    _fields_ = [
        ("name_hint", ctypes.c_void_p),
        ("byte_offset", ctypes.c_int64),
        ("data_len", ctypes.c_int64),
        ("data_bytes", ctypes.c_void_p),
    ]


class _Metadata(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_int64),
        ("inputs", ctypes.c_void_p),
        ("num_inputs", ctypes.c_int64),
        ("outputs", ctypes.c_void_p),
        ("num_outputs", ctypes.c_int64),
        ("workspace_pools", ctypes.c_void_p),
        ("num_workspace_pools", ctypes.c_int64),
        ("constant_pools", ctypes.c_void_p),
        ("num_constant_pools", ctypes.c_int64),
        ("mod_name", ctypes.c_void_p),
    ]


def read_metadata(address: int) -> Metadata:
    """Return the metadata at ``address`` in this process.

    Raises :class:`~hilc.errors.InputError` for another version, a null pointer, or counts that no
    module has.
    """
    if not address:
        raise InputError("the module's metadata are a null pointer", "compile the model again")
    metadata = _Metadata.from_address(address)
    if metadata.version != VERSION:
        raise InputError(
            f"the module's metadata have version {metadata.version}; supported is {VERSION}",
            "compile the model with this version",
        )
    return Metadata(
        version=metadata.version,
        mod_name=_text(metadata.mod_name, "mod_name"),
        inputs=tuple(_tensors(metadata, "inputs")),
        outputs=tuple(_tensors(metadata, "outputs")),
        workspace_pools=tuple(_tensors(metadata, "workspace_pools")),
        constant_pools=tuple(_constants(metadata)),
    )


def _entries(metadata: _Metadata, field: str, kind: type[Any]) -> Any:
    """Return the array of structs that ``field`` points to."""
    address, count = getattr(metadata, field), getattr(metadata, f"num_{field}")
    if not 0 <= count <= _MAX_ENTRIES or (count and not address):
        raise InputError(f"the module's metadata have {count} {field} at {address or 0:#x}")
    return (kind * count).from_address(address) if count else ()


def _tensors(metadata: _Metadata, field: str) -> Iterator[MetadataTensor]:
    for tensor in _entries(metadata, field, _TensorInfo):
        name = _text(tensor.name, field)
        if not 0 <= tensor.num_shape <= _MAX_DIMENSIONS or (tensor.num_shape and not tensor.shape):
            raise InputError(f"the module's metadata give {name!r} {tensor.num_shape} dimensions")
        shape = (
            (ctypes.c_int64 * tensor.num_shape).from_address(tensor.shape)
            if tensor.num_shape
            else ()
        )
        kind = tensor.dtype
        yield MetadataTensor(name, tuple(shape), dtype_name(kind.code, kind.bits, kind.lanes))


def _constants(metadata: _Metadata) -> Iterator[MetadataConstant]:
    for constant in _entries(metadata, "constant_pools", _ConstantInfo):
        yield MetadataConstant(
            _text(constant.name_hint, "constant_pools"), constant.byte_offset, constant.data_len
        )


def _text(address: int | None, what: str) -> str:
    if not address:
        raise InputError(f"the module's metadata have a null pointer as a name ({what})")
    characters = bytearray()
    while len(characters) < _MAX_NAME_BYTES:
        byte = ctypes.c_uint8.from_address(address + len(characters)).value
        if byte == 0:
            return characters.decode("utf-8", "replace")
        characters.append(byte)
    raise InputError(f"the module's metadata have an unterminated name ({what})")
