"""Archives of ``torch.export.save`` (``.pt2``): JSON and raw tensors in a ZIP file.

They are read without PyTorch: what describes the program is JSON (``models/model.json``), and each
tensor is a file of its bare elements, which a second JSON places. The pickled parts of an archive,
the sample inputs and tensors of special classes, are never opened, so nothing in a file is
executed. Files of PyTorch before 2.8 pickle their weights and are refused.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from hilc.errors import ModelError, UnsupportedError
from hilc.ir import Array
from hilc.ops.verify import no_elements
from hilc.support.inputs import MAX_FILE_BYTES
from hilc.support.jsondata import parse_json

#: Exceptions of :mod:`zipfile` for damaged files.
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)
#: Signature of ZIP files.
_ZIP = b"PK\x03\x04"
#: Files of an archive, below its one folder.
_FORMAT, _BYTE_ORDER = "archive_format", "byteorder"
_MODEL = "models/model.json"
_WEIGHTS, _CONSTANTS = "data/weights/", "data/constants/"
_CONFIGS = {
    _WEIGHTS: "model_weights_config.json",
    _CONSTANTS: "model_constants_config.json",
}
#: Description of a program in files of PyTorch before 2.8.
_OLD_MODEL = "serialized_exported_program.json"

_MAX_FILES = 100_000
_MAX_JSON_BYTES = 256 << 20
_MAX_RANK = 16
#: Largest ratio of contents to file, and bytes exempt from it: PyTorch stores without compression.
_MAX_GROWTH, _FREE_BYTES = 10, 1 << 20
#: Layout of tensors whose elements lie in strides.
_STRIDED = 7

_EXPORT_AGAIN = "save the program again with torch.export.save of PyTorch 2.8 or later"

#: Names of element types by their numbers in the schema.
SCALAR_TYPES: Mapping[int, str] = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32",
    8: "float64", 9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16",
    28: "uint16", 29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz",
    32: "float8_e5m2fnuz", 33: "float8_e8m0fnu", 34: "uint32", 35: "uint64",
}  # fmt: skip
#: Types that numpy has.
_NUMPY = frozenset(
    ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bool",
     "uint16", "uint32", "uint64", "complex64", "complex128")
)  # fmt: skip


@dataclass(frozen=True)
class Archive:
    """An exported program as JSON, and the values of its parameters, buffers and constants."""

    #: The schema's ``ExportedProgram``.
    program: Mapping[str, Any]
    #: Values by the names that the program's signature uses (``conv.weight``).
    values: Mapping[str, Array]


def is_pt2(data: bytes) -> bool:
    """Return whether bytes are an archive of ``torch.export.save``, of any version."""
    if not data.startswith(_ZIP):
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            names = file.namelist()[:_MAX_FILES]
    except _DAMAGED:
        return False
    return any(name.endswith((f"/{_MODEL}", _OLD_MODEL)) for name in names)


def read_archive(data: bytes) -> Archive:
    """Return the program and the values of an archive.

    Raise :class:`~hilc.errors.ModelError` for a damaged one, and
    :class:`~hilc.errors.UnsupportedError` for a form that needs PyTorch itself to be read.
    """
    try:
        file = zipfile.ZipFile(io.BytesIO(data))
    except _DAMAGED as error:
        raise _damaged(error) from None
    with file:
        return _Reader(file, len(data)).archive()


class _Reader:
    """Reader of the files of one archive."""

    def __init__(self, file: zipfile.ZipFile, size: int) -> None:
        self._file = file
        entries = file.infolist()
        if len(entries) > _MAX_FILES:
            raise ModelError(f"the archive has {len(entries)} files; at most {_MAX_FILES} are read")
        total = sum(entry.file_size for entry in entries)
        limit = min(MAX_FILE_BYTES, size * _MAX_GROWTH + _FREE_BYTES)
        if total > limit:
            raise ModelError(
                f"the archive of {size} bytes holds {total}; at most {limit} are read",
                _EXPORT_AGAIN,
            )
        roots = {entry.filename.partition("/")[0] for entry in entries}
        if any(_OLD_MODEL in entry.filename for entry in entries):
            raise UnsupportedError(
                "the archive was written by a PyTorch before 2.8, which pickles the weights; "
                "pickles are never opened",
                _EXPORT_AGAIN,
            )
        if len(roots) != 1:
            listed = ", ".join(sorted(roots))
            raise ModelError(
                f"the archive has files in {len(roots)} folders ({listed!r:.80}), not in one",
                _EXPORT_AGAIN,
            )
        self._root = f"{roots.pop()}/"
        self._entries = {entry.filename: entry for entry in entries}
        if len(self._entries) != len(entries):
            raise ModelError("the archive has two files of one name", _EXPORT_AGAIN)

    def archive(self) -> Archive:
        form = self._read(_FORMAT, 64)
        if form != b"pt2":
            raise ModelError(f"the archive's format is {form!r}; expected is b'pt2'", _EXPORT_AGAIN)
        order = self._read(_BYTE_ORDER, 64)
        if order != b"little":
            raise UnsupportedError(
                f"the archive's byte order is {order!r}; read is b'little'",
                "save the program on a little-endian machine",
            )
        program = self._json(_MODEL)
        values: dict[str, Array] = {}
        for folder, config in _CONFIGS.items():
            if f"{self._root}{folder}{config}" in self._entries:
                values.update(self._values(folder, config))
        return Archive(program, values)

    def _values(self, folder: str, config: str) -> dict[str, Array]:
        listed = self._json(folder + config).get("config")
        if not isinstance(listed, dict):
            raise ModelError(f"{folder}{config} lists no values", _EXPORT_AGAIN)
        return {
            name: self._value(folder, name, stated)
            for name, stated in listed.items()
            # What is pickled is an error where the program uses it, and only there.
            if not (isinstance(stated, dict) and stated.get("use_pickle") is True)
        }

    def _value(self, folder: str, name: str, stated: Any) -> Array:
        """Return the tensor ``name`` from the file of its storage."""
        try:
            meta = stated["tensor_meta"]
            path = stated["path_name"]
            code, layout = meta["dtype"], meta["layout"]
            shape, strides = integers(meta["sizes"]), integers(meta["strides"])
            (offset,) = integers([meta["storage_offset"]])
        except (KeyError, TypeError, ValueError):
            raise ModelError(
                f"the value {name!r} is not described in full", _EXPORT_AGAIN
            ) from None
        dtype = SCALAR_TYPES.get(code, f"number {code}") if isinstance(code, int) else repr(code)
        if dtype not in _NUMPY or layout != _STRIDED:
            raise UnsupportedError(
                f"the value {name!r} is {dtype} in layout {layout}; read are "
                f"{', '.join(sorted(_NUMPY))} in strides (layout {_STRIDED})",
                "convert the module before the export, such as with module.float()",
            )
        storage = self._read(f"{folder}{path}", MAX_FILE_BYTES)
        return _strided(name, np.frombuffer(storage, np.uint8), np.dtype(dtype), shape, strides,
                        offset)  # fmt: skip

    def _json(self, path: str) -> Mapping[str, Any]:
        value = parse_json(self._read(path, _MAX_JSON_BYTES), path, _EXPORT_AGAIN)
        if not isinstance(value, dict):
            raise ModelError(f"{path} is not a JSON object", _EXPORT_AGAIN)
        return value

    def _read(self, path: str, limit: int) -> bytes:
        entry = self._entries.get(self._root + path)
        if entry is None:
            raise ModelError(f"the archive has no file {path!r}", _EXPORT_AGAIN)
        if entry.file_size > limit:
            raise ModelError(
                f"{path!r} has {entry.file_size} bytes; at most {limit} are read", _EXPORT_AGAIN
            )
        try:
            return self._file.read(entry)
        except _DAMAGED as error:
            raise _damaged(error) from None


def _damaged(error: Exception) -> ModelError:
    return ModelError(f"the archive is damaged: {error}", _EXPORT_AGAIN)


def integers(values: Any) -> tuple[int, ...]:
    """Return the numbers of the schema's ``SymInt`` that are known; raise ValueError for others."""
    if not isinstance(values, list):
        raise ValueError("not a list")
    numbers = [value["as_int"] for value in values]
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("not sizes")
    return tuple(numbers)


def _strided(
    name: str, storage: Array, dtype: np.dtype[Any], shape: Sequence[int], strides: Sequence[int],
    offset: int,
) -> Array:  # fmt: skip
    """Return a copy of the elements of a tensor in its storage, which several may share."""
    if len(shape) != len(strides) or len(shape) > _MAX_RANK:
        raise ModelError(f"the value {name!r} has {len(shape)} sizes and {len(strides)} strides")
    if 0 in shape:
        return no_elements(name, shape, dtype)
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    # A stride of 0 repeats an element: a small file must not become a large tensor.
    if (last + 1) * dtype.itemsize > storage.size or prod(shape) * dtype.itemsize > MAX_FILE_BYTES:
        raise ModelError(
            f"the value {name!r} takes element {last} of {storage.size // dtype.itemsize}",
            _EXPORT_AGAIN,
        )
    elements = storage[: storage.size // dtype.itemsize * dtype.itemsize].view(dtype)
    byte_strides = [stride * dtype.itemsize for stride in strides]
    view = np.lib.stride_tricks.as_strided(elements[offset:], shape, byte_strides, writeable=False)
    return np.array(view, order="C")
