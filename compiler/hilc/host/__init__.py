"""A compiled model in this process: its C built by the host's compiler and called through ctypes.

The model interface is that of a device, so the same test runs in both places::

    with hilc.host.load(library) as model:
        model.set_input(0, x)
        model.run()
        y = model.get_output(0)

A library can also be kept as a shared object, which needs no compiler to be loaded again, and is
used as TVM's ahead-of-time executor was::

    hilc.host.export_library(library, "kws.so")
    factory = hilc.host.load_module("kws.so")
    with factory["default"](hilc.host.cpu(0)) as executor:
        executor.run(input_1=x)
        y = executor.get_output(0)
"""

from __future__ import annotations

import shutil
import struct
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from hilc.artifact.library import ModelLibrary, Module
from hilc.errors import InputError
from hilc.executor import AOT_MODULE, Executor, executor_class, find_tensor, input_values
from hilc.host.build import (
    DESCRIPTION,
    Description,
    HostBuildError,
    build_shared_object,
    host_compiler,
)
from hilc.host.code import Code
from hilc.host.model import Contexts, HostModel
from hilc.ir import Array
from hilc.support.arguments import typed
from hilc.support.inputs import check_regular
from hilc.support.old_names import refusing
from hilc.support.outputs import cannot_write, replacing
from hilc.support.temporary import TemporaryFolder

__all__ = [
    "AotExecutorFactory",
    "Device",
    "HostBuildError",
    "HostModel",
    "build",
    "cpu",
    "export_library",
    "host_compiler",
    "load",
    "load_module",
]

if not TYPE_CHECKING:
    __getattr__ = refusing(__name__, {"AotModule": AOT_MODULE})

#: Key of a factory for the default module, as in TVM.
DEFAULT = "default"


@typed
def load(
    library: ModelLibrary, name: str | None = None, *, devices: Contexts = MappingProxyType({})
) -> HostModel:
    """Build ``library`` and load the module ``name``, which is optional if there is only one.

    ``devices`` gives the context (an address, or an array of its bytes) of each device that the
    module runs on; the others get a null pointer.
    """
    module = _module(library.modules, name)
    folder = TemporaryFolder("host")
    try:
        shared_object = build_shared_object(library, Path(folder.name))
        return HostModel(module, Code(shared_object, folder), devices)
    except BaseException:
        folder.cleanup()
        raise


@typed
def build(library: ModelLibrary, folder: str | Path) -> Path:
    """Build all of ``library`` in ``folder``; return the path of the shared object.

    The sources and all other files stay beside it, for a debugger.

    Raise :class:`~hilc.support.outputs.OutputError` if the folder cannot be written.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return build_shared_object(library, folder)
    except OSError as error:
        raise cannot_write(folder, error) from None


@typed
def export_library(
    library: ModelLibrary,
    path: str | Path,
    name: str | None = None,
    params: Mapping[str, npt.ArrayLike] = MappingProxyType({}),
) -> Path:
    """Write ``library`` as one shared object, which :func:`load_module` loads without a compiler.

    ``name`` and ``params`` are those of :class:`AotExecutorFactory`.
    """
    return AotExecutorFactory(library, name, params).export_library(path)


@typed
def load_module(path: str | Path) -> AotExecutorFactory:
    """Return the factory for the shared object ``path``.

    A shared object is a program: load only one that you trust. Raise
    :class:`~hilc.errors.InputError` for a file that is invalid, truncated, for another machine, or
    not written by :func:`export_library`.
    """
    return AotExecutorFactory(_open_exported(Path(path)))


@dataclass(frozen=True)
class Device:
    """Device on which an executor computes: ``cpu(0)`` is the only one."""

    kind: str
    index: int

    def __str__(self) -> str:
        return f"{self.kind}({self.index})"


def cpu(index: int = 0) -> Device:
    """Return the device for this machine's processor."""
    return Device("cpu", index)


@dataclass(frozen=True)
class _Exported:
    """A library that is already a shared object."""

    path: Path
    description: Description


def _open(path: str | Path) -> ModelLibrary | _Exported:
    path = Path(path)
    return _open_exported(path) if path.suffix == ".so" else ModelLibrary.load(path)


def _open_exported(path: Path) -> _Exported:
    check_regular(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    _check_shared_object(data, str(path))
    code = _copy_in(path)
    try:
        text = code.data_text(DESCRIPTION)
    finally:
        code.close()
    return _Exported(path.absolute(), Description.from_json(text, str(path)))


class AotExecutorFactory:
    """Factory of a library's executors: ``factory["default"](hilc.host.cpu(0))``.

    ``library`` is a compiled one, or the path of an archive, a folder or an exported shared object.
    ``name`` is the module for ``"default"``, optional if there is only one; ``params`` are initial
    input values of every new executor of it, by input name. Both are written to an exported
    library.
    """

    @typed
    def __init__(
        self,
        library: ModelLibrary | str | Path | _Exported,
        name: str | None = None,
        params: Mapping[str, npt.ArrayLike] = MappingProxyType({}),
    ) -> None:
        source = _open(library) if isinstance(library, (str, Path)) else library
        modules: tuple[Module, ...]
        if isinstance(source, _Exported):
            modules = source.description.modules
            name = source.description.default if name is None else name
            params = {**source.description.params, **params}
        else:
            modules = source.modules
        self._source = source
        self._default = None if name is None and len(modules) != 1 else _module(modules, name)
        self._modules = {module.name: module for module in modules}
        self._params = self._checked(params)
        self._build: _Build | None = None
        self._building = threading.Lock()

    @property
    def module_names(self) -> tuple[str, ...]:
        """Keys of the factory, besides ``"default"``."""
        return tuple(self._modules)

    @property
    def params(self) -> Mapping[str, Array]:
        """Initial input values of every new executor of the default module."""
        return MappingProxyType(self._params)

    def __getitem__(self, key: str) -> Callable[..., Executor]:
        """Return the constructor of executors of the module ``key``.

        Call it with the device, and with ``contexts`` of the accelerators if the module uses some
        (see :func:`load`). Each executor has its own workspace and can run in its own thread.
        """
        module = self._modules.get(key)
        if key == DEFAULT and module is None:
            module = self._default
            if module is None:
                raise InputError(
                    f"the library has several modules and no {DEFAULT!r} among them",
                    f"choose one of {', '.join(self._modules)}",
                )
        if module is None:
            raise InputError(
                f"the library has no module {key!r}",
                f"choose one of {', '.join((DEFAULT, *self._modules))}",
            )
        chosen = module

        def create(*devices: Device, contexts: Contexts = MappingProxyType({})) -> Executor:
            return self._create(chosen, devices, contexts)

        return create

    def export_library(self, path: str | Path) -> Path:
        """Write one shared object with all modules, the name and the params of this factory.

        Raise :class:`~hilc.errors.InputError` for another suffix than ``.so``, or a changed name or
        params.
        """
        path = Path(path)
        if path.suffix != ".so":
            raise InputError(
                f"a library cannot be exported as {path.name!r}",
                "use the suffix .so; ModelLibrary.save writes archives",
            )
        if isinstance(self._source, _Exported) and (
            self._description().to_json() != self._source.description.to_json()
        ):
            raise InputError(
                f"{self._source.path} was exported with another name or other params, which are "
                "part of it",
                "export the compiled library again with the new ones",
            )
        made = self._shared_object()
        with replacing(path) as partial:
            shutil.copyfile(made, partial)
        return path

    def _create(self, module: Module, devices: tuple[Any, ...], contexts: Contexts) -> Executor:
        if len(devices) != 1 or devices[0] != cpu(0):
            given = ", ".join(map(str, devices)) or "none"
            raise InputError(
                f"the executor of {module.name!r} cannot run on the devices given: {given}",
                "pass hilc.host.cpu(0), and accelerators' contexts as contexts={name: address}",
            )
        executor = executor_class()(HostModel(module, _copy_in(self._shared_object()), contexts))
        try:
            if module is self._default:
                for name, value in self._params.items():
                    executor.set_input(name, value)
        except BaseException:
            executor.close()
            raise
        return executor

    def _checked(self, params: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
        if params and self._default is None:
            raise InputError(
                "params are ambiguous for a library of several modules",
                f"select the module: name={' or '.join(map(repr, self._modules))}",
            )
        checked = {}
        for name, value in params.items():
            assert self._default is not None
            info = self._default.inputs[find_tensor(self._default.inputs, name, "input")]
            checked[info.name] = input_values(info, value).copy()
        return checked

    def _description(self) -> Description:
        default = self._default.name if self._default else None
        return Description(tuple(self._modules.values()), default, self._params)

    def _shared_object(self) -> Path:
        """Return the library, built on first use."""
        if isinstance(self._source, _Exported):
            return self._source.path
        # Threads may call this at the same time, and the second build would delete the first one's
        # folder while its caller copies from it.
        with self._building:
            if self._build is None:
                folder = TemporaryFolder("host")
                try:
                    made = build_shared_object(self._source, Path(folder.name), self._description())
                except BaseException:
                    folder.cleanup()
                    raise
                self._build = _Build(made, folder)
            return self._build.path


@dataclass
class _Build:
    path: Path
    #: Deleted with this object.
    folder: TemporaryFolder = field(repr=False)


def _copy_in(path: Path) -> Code:
    """Return the code of a shared object loaded from a copy: one path is loaded only once, with one
    workspace.
    """
    folder = TemporaryFolder("host")
    try:
        copy = Path(folder.name) / "library.so"
        shutil.copyfile(path, copy)
        return Code(copy, folder)
    except OSError as error:
        folder.cleanup()
        raise InputError(f"cannot load {path}: {error}") from None
    except BaseException:
        folder.cleanup()
        raise


def _check_shared_object(data: bytes, label: str) -> None:
    """Raise for files that the dynamic linker cannot load, or that hil did not write, before they
    run.
    """
    own = Path(sys.executable).resolve()
    with own.open("rb") as file:
        program = file.read(64)
    if data[:4] != b"\x7fELF" or len(data) < 64:
        raise InputError(f"{label} is not a shared object", "pass a file that export_library wrote")
    # Class, byte order, kind and machine; this program itself has the right values.
    machine, own_machine = (header[18:20] for header in (data, program))
    if data[4:6] != program[4:6] or machine != own_machine:
        raise InputError(
            f"{label} is for another machine (ELF machine {int.from_bytes(machine, 'little')}, "
            f"this one is {int.from_bytes(own_machine, 'little')})",
            "export the library again on this machine",
        )
    if struct.unpack_from("=H", data, 16)[0] != 3:
        raise InputError(f"{label} is ELF but not a shared object", "link it with -shared")
    if _elf_end(data) > len(data):
        raise InputError(
            f"{label} is truncated: it has {len(data)} of {_elf_end(data)} bytes",
            "copy or export it again",
        )
    if DESCRIPTION.encode() + b"\0" not in data:
        raise InputError(
            f"{label} has no description of its models", "pass a file that export_library wrote"
        )


def _elf_end(data: bytes) -> int:
    """Return the offset at which the last part named in the ELF header ends."""
    if data[4] == 2:
        program_at, section_at = struct.unpack_from("=QQ", data, 32)
        program_size, program_count, section_size, section_count = struct.unpack_from(
            "=4H", data, 54
        )
    else:
        program_at, section_at = struct.unpack_from("=II", data, 28)
        program_size, program_count, section_size, section_count = struct.unpack_from(
            "=4H", data, 42
        )
    program_end: int = program_at + program_size * program_count
    section_end: int = section_at + section_size * section_count
    return max(program_end, section_end)


def _module(modules: tuple[Module, ...], name: str | None) -> Module:
    names = [module.name for module in modules]
    if name is None and len(names) == 1:
        name = names[0]
    for module in modules:
        if module.name == name:
            return module
    raise InputError(
        f"the library has no module {name!r}" if name else "the library has several modules",
        f"choose one of {', '.join(names)}",
    )
