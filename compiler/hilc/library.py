"""A compiled model: C sources plus what the harness must know of them.

Saved and loaded as a Model Library Format archive. ``metadata.json`` is TVM's; what TVM's format
has no place for (layers, quantisation, places in the pool) is ``hil/<module>.json`` beside it, the
JSON of :class:`Module`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hilc.archive import METADATA, export_time_s, read_files, write_files
from hilc.cpu import get_cpu
from hilc.errors import InputError
from hilc.ir import DTYPES
from hilc.jsondata import decode, json_bytes, parse_json

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

# Far above what any model for a microcontroller needs.
_MAX_MODULES = 64
_MAX_TENSOR_BYTES = 1 << 31


@dataclass(frozen=True)
class TensorInfo:
    """A tensor at the border of a model or of one of its layers."""

    name: str
    #: The name as a C identifier (struct field, upper case in the size macro).
    c_name: str
    shape: tuple[int, ...]
    dtype: str
    #: Per-tensor quantisation; None where the tensor has none.
    scale: float | None
    zero_point: int | None
    nbytes: int
    #: Byte offset in the workspace pool ``pool``; None where the caller provides the buffer.
    offset: int | None
    #: Index of the pool among :attr:`Module.workspace_pools`; 0 where ``offset`` is None.
    pool: int = 0


@dataclass(frozen=True)
class Pool:
    """Memory that a module works in: one block, planned at compile time."""

    #: C identifier: the field of ``struct <symbol>_workspace_pools`` and the stem of its macro.
    name: str
    nbytes: int
    #: The board's memory region that it shall lie in; None where any will do.
    region: str | None


@dataclass(frozen=True)
class Argument:
    """An argument of a layer's operator function.

    ``pool``, ``input`` and ``output`` are tensors, ``constants`` is the external constant pool
    (all are DLTensors of ``dtype`` and ``shape`` in the packed calling convention), ``device``
    an opaque context.
    """

    kind: Literal["pool", "input", "output", "constants", "device"]
    #: Byte offset in the pool, or the index of the model's input, output or device.
    value: int
    #: Scratch and the constant pool are uint8; a device has neither shape nor type ("").
    shape: tuple[int, ...]
    dtype: str
    #: Index of the pool among :attr:`Module.workspace_pools`.
    pool: int = 0


@dataclass(frozen=True)
class Layer:
    """One call in the generated main function."""

    name: str
    op: str
    #: C function, returning 0 on success: ``int32_t function(void *arg, ...)``, or, with the packed
    #: interface of operators (:attr:`Module.api`), a ``TVMBackendPackedCFunc``.
    function: str
    #: The tensors that the layer reads, then those that it writes, then its scratch if it has some
    #: (with workspace calls it allocates that itself), the constant pool, its device.
    arguments: tuple[Argument, ...]
    outputs: tuple[TensorInfo, ...]
    macs: int
    #: How many of the arguments are tensors that the layer reads.
    input_count: int

    @property
    def output_arguments(self) -> tuple[Argument, ...]:
        """Where each of ``outputs`` is written."""
        return self.arguments[self.input_count : self.input_count + len(self.outputs)]


@dataclass(frozen=True)
class Module:
    """One compiled model of a library."""

    name: str
    #: Stem of all its C symbols: ``tvmgen_<name>``.
    symbol: str
    cpu: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    #: Empty for an archive that does not describe them (TVM's own).
    layers: tuple[Layer, ...]
    #: All memory that a run works in, inputs and outputs included where they are placed in it:
    #: the pools, or what ``TVMBackendAllocWorkspace`` must be able to hand out.
    workspace_bytes: int
    #: Bytes of inputs and outputs, wherever they are.
    io_bytes: int
    constants_bytes: int
    #: ``internal``: static arrays of the library, global symbols ``<symbol>_<pool>``; ``external``:
    #: the caller's; ``calls``: the code allocates with ``TVMBackendAllocWorkspace``.
    pools: Literal["internal", "external", "calls"]
    #: Inputs and outputs lie in the pools (the caller finds them with the map functions).
    io_in_pool: bool
    #: The planned pools in the order of the main's parameters. With ``calls`` the first block that
    #: a run allocates, in which the layers' places lie. Empty where TVM planned them inside its
    #: code.
    workspace_pools: tuple[Pool, ...]
    #: How the code was made and is called: the words of :class:`hilc.codegen.Options`.
    codegen: Literal["c", "llvm"] = "c"
    api: Literal["unpacked", "packed"] = "unpacked"
    interface: Literal["c", "packed"] = "c"
    #: ``external``: the caller hands the constants over; their bytes are a macro of the header.
    constants: Literal["internal", "external"] = "internal"
    #: Fields of ``struct <symbol>_devices``: contexts that the caller hands over with each run.
    devices: tuple[str, ...] = ()
    #: Functions with the packed signature, in the order of the registry.
    functions: tuple[str, ...] = ()

    def to_json(self) -> bytes:
        return json_bytes(asdict(self))

    @staticmethod
    def from_json(text: bytes, where: str) -> Module:
        """The module that ``text`` describes, checked; ``where`` names it in messages."""
        module = decode(Module, parse_json(text, where), where)
        _check_module(module, where)
        return module


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
    if not isinstance(version, int) or not isinstance(metadata.get("modules", {}), dict):
        raise InputError(f"{where}: {METADATA} is not that of Model Library Format")
    names = sorted(metadata.get("modules", {}))
    described = [name for name in names if module_path(name) in files]
    if not described:
        raise InputError(
            f"{where} has no hil/<module>.json with the model's layers and places in memory; "
            f"TVM's own archives (this one has version {version}) have none and are not "
            "supported yet",
            "compile the model with hil compile",
        )
    if version != FORMAT_VERSION or described != names or len(names) > _MAX_MODULES:
        raise InputError(
            f"{where} has version {version} and describes {len(described)} of {len(names)} "
            f"modules; expected is version {FORMAT_VERSION} with all of at most {_MAX_MODULES}",
            "compile the model again with this version",
        )
    modules = []
    for name in names:
        module = Module.from_json(files[module_path(name)], f"{where}: {module_path(name)}")
        if module.name != name:
            raise InputError(f"{where}: {module_path(name)} describes {module.name!r}")
        for file in (
            f"codegen/host/include/{module.symbol}.h",
            f"codegen/host/src/{name}_lib0.c",
            f"codegen/host/src/{name}_lib1.c",
        ):
            _file(files, file, where)
        modules.append(module)
    return ModelLibrary(tuple(modules), files)


def _file(files: Mapping[str, bytes], name: str, where: str) -> bytes:
    try:
        return files[name]
    except KeyError:
        raise InputError(f"{where} has no {name}", "pass a library that hil compile made") from None


_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")


def _check_module(module: Module, where: str) -> None:
    """What the types do not say: these numbers and names end up in C and in memory accesses."""

    def require(holds: bool, what: str) -> None:
        if not holds:
            raise InputError(f"{where}: {what}", "compile the model again")

    get_cpu(module.cpu)
    require(re.fullmatch(r"\w{1,100}", module.name, re.ASCII) is not None, "name is not a C name")
    require(module.symbol == f"tvmgen_{module.name.lower()}", f"symbol is {module.symbol!r}")
    for field in ("workspace_bytes", "io_bytes", "constants_bytes"):
        require(0 <= getattr(module, field) < _MAX_TENSOR_BYTES, f"{field} is out of range")
    for border, infos in (("input", module.inputs), ("output", module.outputs)):
        for info in infos:
            _check_tensor(info, module.workspace_bytes, require)
            require((info.offset is not None) == module.io_in_pool, f"{border} lies elsewhere")
    pools = module.workspace_pools
    for pool in pools:
        require(_IDENTIFIER.fullmatch(pool.name) is not None, f"pool {pool.name!r}")
        require(0 <= pool.nbytes < _MAX_TENSOR_BYTES, f"pool {pool.name!r}: nbytes")
    require(sum(pool.nbytes for pool in pools) <= module.workspace_bytes, "pools lie outside")
    for name in (*module.functions, *module.devices):
        require(_IDENTIFIER.fullmatch(name) is not None, f"{name!r} is not a C name")
    buffers = {"input": module.inputs, "output": module.outputs}
    for layer in module.layers:
        at = f"layer {layer.name!r}"
        require(_IDENTIFIER.fullmatch(layer.function) is not None, f"{at}: {layer.function!r}")
        require(layer.input_count >= 0, f"{at}: input_count is negative")
        require(len(layer.output_arguments) == len(layer.outputs) > 0, f"{at}: lacks arguments")
        require(layer.macs >= 0, f"{at}: macs is negative")
        for argument in layer.arguments:
            size = module.workspace_bytes
            if argument.kind != "pool":
                size = 0 if module.io_in_pool else len(buffers[argument.kind])
            require(0 <= argument.value < max(size, 0), f"{at}: argument {argument} is outside")
        for info, argument in zip(layer.outputs, layer.output_arguments, strict=True):
            _check_tensor(info, module.workspace_bytes, require)
            require(argument.kind != "input", f"{at}: writes to an input")
            if argument.kind == "pool":
                require(info.offset == argument.value, f"{at}: an output lies elsewhere")
            else:
                require(
                    info.offset is None
                    and info.nbytes <= buffers[argument.kind][argument.value].nbytes,
                    f"{at}: an output does not fit the caller's buffer",
                )


def _check_tensor(
    info: TensorInfo, workspace_bytes: int, require: Callable[[bool, str], None]
) -> None:
    at = f"tensor {info.name!r}"
    require(_IDENTIFIER.fullmatch(info.c_name) is not None, f"{at}: c_name {info.c_name!r}")
    require(info.dtype in DTYPES, f"{at}: dtype {info.dtype!r}")
    require(
        len(info.shape) <= 16 and all(0 < side < 1 << 31 for side in info.shape),
        f"{at}: shape {info.shape}",
    )
    nbytes = prod(info.shape) * np.dtype(info.dtype).itemsize
    require(info.nbytes == nbytes < _MAX_TENSOR_BYTES, f"{at}: nbytes is {info.nbytes}")
    require((info.scale is None) == (info.zero_point is None), f"{at}: half a quantisation")
    require(info.scale is None or (np.isfinite(info.scale) and info.scale > 0), f"{at}: scale")
    require(abs(info.zero_point or 0) < 1 << 31, f"{at}: zero_point")
    if info.offset is not None:
        require(
            0 <= info.offset <= workspace_bytes - info.nbytes, f"{at}: lies outside the workspace"
        )
