"""A compiled model in this process: its C built by the host's compiler and called through ctypes.

The model interface is that of a device, so the same test runs in both places::

    with hilc.host.load(library) as model:
        model.set_input(0, x)
        model.run()
        y = model.get_output(0)
"""

from __future__ import annotations

import _ctypes
import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from hilc.allocate import ALIGNMENT
from hilc.codegen.names import POOL
from hilc.errors import HilError, InputError
from hilc.ir import Array
from hilc.library import Argument, Layer, ModelLibrary, Module, TensorInfo

_FLAGS = ("-std=c11", "-O2", "-fPIC", "-shared")
_BUILD_LIMIT_S = 600


class HostBuildError(HilError):
    """The host's C compiler is missing or failed."""

    exit_code = 3


def load(library: ModelLibrary, name: str | None = None) -> HostModel:
    """Build ``library`` and load the module ``name``, which may be left out when there is one."""
    module = _module(library, name)
    folder = tempfile.TemporaryDirectory(prefix="hilc-host-")
    try:
        return HostModel(module, _build(library, module, Path(folder.name)), folder)
    except BaseException:
        folder.cleanup()
        raise


def _module(library: ModelLibrary, name: str | None) -> Module:
    names = [module.name for module in library.modules]
    if name is None and len(names) == 1:
        name = names[0]
    for module in library.modules:
        if module.name == name:
            return module
    raise InputError(
        f"the library has no module {name!r}" if name else "the library has several modules",
        f"choose one of {', '.join(names)}",
    )


def host_compiler() -> str:
    """The C compiler: ``CC`` if it is set, else the first of cc, gcc and clang that is there."""
    candidates = [os.environ["CC"]] if os.environ.get("CC") else ["cc", "gcc", "clang"]
    for candidate in candidates:
        if path := shutil.which(candidate):
            return path
    raise HostBuildError(
        f"no C compiler for this machine: {', '.join(candidates)} not found",
        "install gcc or clang (Debian: apt install gcc), or set CC",
    )


def _build(library: ModelLibrary, module: Module, folder: Path) -> Path:
    for name, data in library.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    target = folder / f"{module.name}.so"
    sources = [f"codegen/host/src/{module.name}_lib{index}.c" for index in (0, 1)]
    command = [host_compiler(), *_FLAGS, "-Icodegen/host/include", *sources]
    command += ["-lm", "-o", target.name]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_BUILD_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostBuildError(f"building {module.name} for this machine failed: {error}") from None
    if done.returncode:
        raise HostBuildError(
            f"building {module.name} for this machine failed: {done.stderr.strip()[:2000]}",
            f"the library is for {module.cpu}; compile it with cpu=host to run it here",
        )
    return target


class HostModel:
    """One module, loaded. A context manager: closing it unloads the code and deletes its files."""

    def __init__(
        self, module: Module, shared_object: Path, folder: tempfile.TemporaryDirectory[str]
    ) -> None:
        self._module = module
        self._folder = folder
        self._code: ctypes.CDLL | None = ctypes.CDLL(str(shared_object))
        self._inputs = [_aligned(info.nbytes) for info in module.inputs]
        self._outputs = [_aligned(info.nbytes) for info in module.outputs]
        self._pool = _aligned(module.workspace_bytes)

    @property
    def name(self) -> str:
        return self._module.name

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        return self._module.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        return self._module.outputs

    @property
    def layers(self) -> tuple[Layer, ...]:
        return self._module.layers

    def __enter__(self) -> HostModel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Unload the code; the model cannot be used any more."""
        if self._code is not None:
            _ctypes.dlclose(self._code._handle)
            self._code = None
            self._folder.cleanup()

    def set_input(self, which: str | int, array: Array) -> None:
        """Copy ``array``, which has the input's exact shape and type, into the input."""
        index = _index(self.inputs, which, "input")
        info = self.inputs[index]
        array = np.asarray(array)
        if array.dtype != np.dtype(info.dtype) or array.shape != info.shape:
            raise InputError(
                f"input {info.name!r} was given {array.dtype}{list(array.shape)} "
                f"but is {info.dtype}{list(info.shape)}",
                "convert and reshape the array first",
            )
        self._inputs[index][:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)

    def get_output(self, which: str | int) -> Array:
        """A copy of an output of the last run, in its shape and type."""
        index = _index(self.outputs, which, "output")
        return _typed(self._outputs[index], self.outputs[index])

    def run(self, repeat: int = 1) -> None:
        """``repeat`` inferences through the library's entry point."""
        if repeat < 1:
            raise InputError(f"repeat is {repeat}", "run at least once")
        for _ in range(repeat):
            self._run_once()

    def layer_outputs(self) -> Iterator[tuple[Layer, list[Array]]]:
        """Run layer by layer; yield each with copies of its outputs right after it ran."""
        pooled = self._module.io_in_pool
        if pooled:
            self._copy_in(self._pool.ctypes.data)
        for layer in self.layers:
            addresses = [self._address(argument) for argument in layer.arguments]
            self._call(layer.function, *map(ctypes.c_void_p, addresses))
            yield (
                layer,
                [
                    _typed(_memory(self._address(argument), info.nbytes), info)
                    for argument, info in zip(layer.output_arguments, layer.outputs, strict=True)
                ],
            )
        if pooled:
            self._copy_out(self._pool.ctypes.data)

    def _address(self, argument: Argument) -> int:
        buffers = {"input": self._inputs, "output": self._outputs}
        if argument.kind == "pool":
            return self._pool.ctypes.data + argument.value
        return buffers[argument.kind][argument.value].ctypes.data

    def _run_once(self) -> None:
        """Call the entry point as a C program does, in the form that the library has."""
        external = self._module.pools == "external"
        pools = _struct("workspace_pools", [POOL])(self._pool.ctypes.data)
        pool_arguments = [ctypes.byref(pools)] if external else []
        run = f"{self._module.symbol}_run"
        if self._module.io_in_pool:
            inputs, outputs = (self._map(kind, pool_arguments) for kind in ("inputs", "outputs"))
            for address, buffer in zip(inputs, self._inputs, strict=True):
                ctypes.memmove(address, buffer.ctypes.data, buffer.nbytes)
            self._call(run, *pool_arguments)
            for address, buffer in zip(outputs, self._outputs, strict=True):
                ctypes.memmove(buffer.ctypes.data, address, buffer.nbytes)
        else:
            structs = [
                _struct(kind, [info.c_name for info in infos])(*(b.ctypes.data for b in buffers))
                for kind, infos, buffers in (
                    ("inputs", self.inputs, self._inputs),
                    ("outputs", self.outputs, self._outputs),
                )
            ]
            self._call(run, *map(ctypes.byref, structs), *pool_arguments)

    def _map(self, kind: str, arguments: list[Any]) -> list[int]:
        """The addresses that a map function of the library returns."""
        infos = self.inputs if kind == "inputs" else self.outputs
        function = self._function(f"{self._module.symbol}_map_{kind}")
        function.restype = _struct(kind, [info.c_name for info in infos])
        mapped = function(*arguments)
        return [getattr(mapped, info.c_name) for info in infos]

    def _copy_in(self, pool: int) -> None:
        for info, buffer in zip(self.inputs, self._inputs, strict=True):
            ctypes.memmove(pool + (info.offset or 0), buffer.ctypes.data, info.nbytes)

    def _copy_out(self, pool: int) -> None:
        for info, buffer in zip(self.outputs, self._outputs, strict=True):
            ctypes.memmove(buffer.ctypes.data, pool + (info.offset or 0), info.nbytes)

    def _call(self, name: str, *arguments: Any) -> None:
        status = self._function(name)(*arguments)
        if status:
            raise HilError(f"{name} returned {status}")

    def _function(self, name: str) -> Any:
        if self._code is None:
            raise InputError(f"the model {self.name!r} is closed", "load it again")
        function = self._code[name]
        function.restype = ctypes.c_int32
        return function


def _aligned(nbytes: int) -> Array:
    """``nbytes`` zero bytes, aligned as a workspace is."""
    memory = np.zeros(nbytes + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + nbytes]


def _memory(address: int, nbytes: int) -> Array:
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


def _typed(memory: Array, info: TensorInfo) -> Array:
    """A copy of the bytes of a tensor in its type and shape."""
    return memory.copy().view(info.dtype).reshape(info.shape)


def _index(infos: tuple[TensorInfo, ...], which: str | int, kind: str) -> int:
    """The position of a tensor given by name or position."""
    names = [info.name for info in infos]
    if isinstance(which, str) and which in names:
        return names.index(which)
    if isinstance(which, int) and 0 <= which < len(infos):
        return which
    raise InputError(
        f"the model has no {kind} {which!r}",
        f"its {kind}s are {', '.join(f'{i}: {name!r}' for i, name in enumerate(names)) or 'none'}",
    )


def _struct(kind: str, names: list[str]) -> type[ctypes.Structure]:
    """A struct of pointers, as the header declares them."""
    fields = [(name, ctypes.c_void_p) for name in names or ["none"]]
    return type(kind, (ctypes.Structure,), {"_fields_": fields})
