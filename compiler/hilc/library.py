"""A compiled model: C sources plus what the harness must know of them.

Saved and loaded as a Model Library Format archive. ``metadata.json`` is TVM's; what TVM's format
has no place for (layers, quantisation, places in the pool) is ``hil/<module>.json`` beside it, the
JSON of :class:`Module`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hilc.archive import METADATA, export_time_s, read_files, write_files
from hilc.errors import InputError
from hilc.jsondata import json_bytes, parse_json
from hilc.module import Argument, Layer, Module, Pool, TensorInfo
from hilc.tvm_archive import tvm_modules

__all__ = [
    "FORMAT_VERSION",
    "METADATA",
    "Argument",
    "Layer",
    "ModelLibrary",
    "Module",
    "Pool",
    "TensorInfo",
    "export_time_s",
    "json_bytes",
    "merge",
    "module_path",
]

#: Version of Model Library Format that is written.
FORMAT_VERSION = 7

# Far above what any firmware needs.
_MAX_MODULES = 64


@dataclass(frozen=True)
class ModelLibrary:
    """Modules and the files of the archive, by their path in it (without the leading ``./``)."""

    modules: tuple[Module, ...]
    files: Mapping[str, bytes]

    def save(self, path: str | Path) -> Path:
        """Write the library as an archive when ``path`` ends in ``.tar``, else as a folder.

        A folder may hold an earlier library, which is replaced, but nothing else.
        """
        path = Path(path)
        write_files(self.files, path)
        return path

    @staticmethod
    def load(path: str | Path) -> ModelLibrary:
        """Read an archive or a folder. Both are untrusted; what is wrong is an ``InputError``."""
        path = Path(path)
        return _library(read_files(path), str(path))


def merge(libraries: Sequence[ModelLibrary]) -> ModelLibrary:
    """One library with the modules of all; their names must differ."""
    modules: dict[str, Module] = {}
    files: dict[str, bytes] = {}
    entries: dict[str, Any] = {}
    for library in libraries:
        for module in library.modules:
            if (other := modules.setdefault(module.symbol, module)) is not module:
                raise InputError(
                    f"the modules {other.name!r} and {module.name!r} have the same symbols: "
                    "Multiple modules should have unique names.",
                    "give one of the models another name",
                )
        for name, data in library.files.items():
            if name != METADATA and files.setdefault(name, data) != data:
                raise InputError(
                    f"the libraries differ in their file {name}", "compile them with one version"
                )
        entries.update(parse_json(library.files[METADATA], METADATA)["modules"])
    files[METADATA] = json_bytes({"version": FORMAT_VERSION, "modules": entries})
    return ModelLibrary(tuple(modules.values()), files)


def module_path(name: str) -> str:
    """The file in a library that describes the module ``name``."""
    return f"hil/{name}.json"


def _library(files: Mapping[str, bytes], where: str) -> ModelLibrary:
    metadata = parse_json(_file(files, METADATA, where), f"{where}: {METADATA}")
    version = metadata.get("version") if isinstance(metadata, dict) else None
    if type(version) is not int or not isinstance(metadata.get("modules", {}), dict):
        raise InputError(f"{where}: {METADATA} is not that of Model Library Format")
    names = sorted(metadata.get("modules", {}))
    if len(names) > _MAX_MODULES:
        raise InputError(f"{where} has more than {_MAX_MODULES} modules")
    described = [name for name in names if module_path(name) in files]
    if not described:
        return ModelLibrary(tvm_modules(files, metadata, where), files)
    if version != FORMAT_VERSION or described != names:
        raise InputError(
            f"{where} has version {version} and describes {len(described)} of {len(names)} "
            f"modules; expected is version {FORMAT_VERSION} with all of them",
            "compile the model again with this version",
        )
    modules = []
    for name in names:
        module = Module.from_json(files[module_path(name)], f"{where}: {module_path(name)}")
        if module.name != name:
            raise InputError(f"{where}: {module_path(name)} describes {module.name!r}")
        _require_files(module, files, where)
        modules.append(module)
    return ModelLibrary(tuple(modules), files)


def _require_files(module: Module, files: Mapping[str, bytes], where: str) -> None:
    """What the build takes of a module is there; a description alone cannot be linked."""
    folder, suffix = ("lib", "o") if module.codegen == "llvm" else ("src", "c")
    stem = f"codegen/host/{folder}/{module.name}_lib"
    # What TVM compiled may be a single file, and its packed interface needs no header.
    for number in (0, 1) if module.layers else (0,):
        _file(files, f"{stem}{number}.{suffix}", where)
    if module.layers or module.interface == "c":
        _file(files, f"codegen/host/include/{module.symbol}.h", where)


def _file(files: Mapping[str, bytes], name: str, where: str) -> bytes:
    try:
        return files[name]
    except KeyError:
        raise InputError(f"{where} has no {name}", "pass a library that hil compile made") from None
