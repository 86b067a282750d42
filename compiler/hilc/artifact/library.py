"""A compiled model: C sources and their description for the harness.

Saved and loaded as a Model Library Format archive. ``metadata.json`` is TVM's; facts that TVM's
format does not have (layers, quantization, offsets in the pool) are in ``hil/<module>.json`` beside
it, the JSON of :class:`Module`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hilc.artifact.archive import METADATA, export_time_s, read_files, write_files
from hilc.artifact.extra import extra_files, is_extra
from hilc.artifact.foreign import foreign_reader, path_beside_others
from hilc.artifact.manifest import Argument, Layer, Module, Origin, Pool, TensorInfo
from hilc.artifact.notebook import module_html
from hilc.artifact.shared import share_constants
from hilc.artifact.shipped import shipped_runtime
from hilc.codegen.described import data_file
from hilc.codegen.function_table import function_table
from hilc.errors import InputError
from hilc.lowering.choice import ChoiceReport
from hilc.memory.explanation import Explanation
from hilc.support.arguments import typed
from hilc.support.jsondata import json_bytes, parse_json

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
    "require_distinct",
]

#: Version of Model Library Format that is written.
FORMAT_VERSION = 7

# Maximum number of modules, far above the needs of any firmware.
_MAX_MODULES = 64

# Names reserved for the registry of all modules.
_REGISTRY = "codegen/host/src/system_registry.c"


#: Remedy for a folder or a file that is no archive, or a damaged one.
_REMEDY = "give the tar or folder that `hil compile -o` wrote, or a model file"


@dataclass(frozen=True)
class ModelLibrary:
    """Modules and the files of the archive, by their path in it (without the leading ``./``)."""

    modules: tuple[Module, ...]
    files: Mapping[str, bytes]
    #: Report of the compiler's choice, by module name; not part of an archive.
    reports: Mapping[str, ChoiceReport] = field(default_factory=dict, compare=False)
    #: Functions that return the memory plan, by module name; not part of an archive.
    plans: Mapping[str, Callable[[], Explanation]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def __repr__(self) -> str:
        """Return one line; the files are all sources and weights."""
        models = ", ".join(f"{module.name} for {module.cpu}" for module in self.modules)
        nbytes = sum(map(len, self.files.values()))
        return f"<ModelLibrary {models}: {len(self.files)} files, {nbytes:,} bytes>"

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy, without plans: they refer to the compiled program."""
        return {**self.__dict__, "plans": {}}

    def _repr_html_(self) -> str:
        """Return the models as tables, with pictures of the plans that are known, for notebooks."""
        return "".join(
            module_html(m, self.reports.get(m.name), plan() if plan is not None else None)
            for m in self.modules
            for plan in (self.plans.get(m.name),)
        )

    @typed
    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the library as an archive if ``path`` ends in ``.tar``, else as a folder.

        An existing library is replaced. Files edited since it was written are overwritten only with
        ``force``, and other files of the user in a folder are kept.
        """
        write_files(self.files, path, force=force)
        return Path(path)

    @typed
    def with_code(
        self, include_dirs: Sequence[str | Path] = (), sources: Sequence[str | Path] = ()
    ) -> ModelLibrary:
        """Return the library with external code that its own code includes or calls: folders of
        headers; files of C, assembly or objects, or folders of them. They become part of it
        (:mod:`hilc.artifact.extra`).
        """
        own = {path: data for path, data in self.files.items() if not is_extra(path)}
        return replace(self, files=own | extra_files(include_dirs, sources))

    @staticmethod
    @typed
    def load(path: str | Path) -> ModelLibrary:
        """Read an archive or a folder; raise ``InputError`` if it is invalid. Both are
        untrusted.
        """
        path = Path(path)
        try:
            if path.is_dir() and not (path / METADATA).exists():
                # Before it is read: it may be any folder, of any size.
                raise InputError(f"{path} has no {METADATA}")
            return _library(read_files(path), str(path))
        except InputError as error:
            error.hint = error.hint or _REMEDY
            raise


@typed
def merge(libraries: Sequence[ModelLibrary]) -> ModelLibrary:
    """Return one library with the modules of all; their names and global symbols must differ.

    Raise :class:`~hilc.errors.InputError` if the libraries have different versions of a file.
    """
    modules = tuple(module for library in libraries for module in library.modules)
    require_distinct(modules)
    files: dict[str, bytes] = {}
    entries: dict[str, Any] = {}
    runtime = shipped_runtime()
    others_runtime = False
    for library in libraries:
        for name, data in _own_files(library).items():
            if files.setdefault(name, data) == data:
                continue
            # Archives bring the runtime of their writer; an image uses this version's.
            if runtime is None or not name.startswith(runtime.folders):
                raise InputError(
                    f"the libraries have different files {name}",
                    "compile them with the same version",
                )
            others_runtime = True
        metadata = parse_json(library.files[METADATA], METADATA)
        entries.update(_entries(metadata, library.files, "a merged library"))
    if runtime is not None and others_runtime:
        kept = {n: d for n, d in files.items() if not n.startswith(runtime.folders)}
        files = kept | dict(runtime.files())
    packed = [module for module in modules if module.functions]
    if len(packed) > 1:
        # Weak in each library; an image has the registry of all its models.
        functions = [function for module in packed for function in module.functions]
        files[_REGISTRY] = function_table().source(functions, weak=False).encode()
    files[METADATA] = json_bytes({"version": FORMAT_VERSION, "modules": entries})
    files = share_constants(modules, files)
    reports = {name: r for library in libraries for name, r in library.reports.items()}
    plans = {name: plan for library in libraries for name, plan in library.plans.items()}
    return ModelLibrary(modules, files, reports, plans)


def require_distinct(modules: Sequence[Module]) -> None:
    """Raise unless the modules have different names and define different global symbols."""
    owners: dict[str, Module] = {}
    for module in modules:
        # Module names that differ in case only are distinct in TVM; headers and macros are not.
        key = module.symbol.lower()
        if key in owners:
            raise InputError(
                f"the modules {owners[key].name!r} and {module.name!r} have the same symbols: "
                "Multiple modules should have unique names.",
                "give one of the models another name: NAME=path",
            )
        owners[key] = module
    owners = {}
    for module in modules:
        entries = {f"{module.symbol}_run", f"{module.symbol}___tvm_main__"}
        entries |= {f"{module.symbol}_reset_state"} if module.states else set()
        if module.fed_rows:
            words = ("start_rows", "push_rows", "push_bytes", "pull_rows", "__tvm_feed__")
            entries |= {f"{module.symbol}_{word}" for word in words}
        layers = {layer.function for layer in module.layers if module.style == "tvm"}
        externals = {symbol for external in module.externals for symbol in external.symbols}
        for function in sorted({*entries, *layers, *externals, *module.functions}):
            if function in owners:
                raise InputError(
                    f"the modules {owners[function].name!r} and {module.name!r} both define "
                    f"{function}",
                    "rename it in one of the code generators",
                )
            owners[function] = module


def _own_files(library: ModelLibrary) -> dict[str, bytes]:
    """Return the files for a merged library, at paths that are distinct for each module."""
    first = library.modules[0].name
    return {
        path_beside_others(name, first): data
        for name, data in library.files.items()
        if name not in (METADATA, _REGISTRY)
    }


def module_path(name: str) -> str:
    """Return the path in a library of the description of the module ``name``."""
    return f"hil/{name}.json"


def constants_path(name: str) -> str:
    """Return the path in a library of the binary file of constants of the module ``name``."""
    return f"codegen/host/include/{data_file(name)}"


def _library(files: Mapping[str, bytes], label: str) -> ModelLibrary:
    metadata = parse_json(_file(files, METADATA, label), f"{label}: {METADATA}")
    if not isinstance(metadata, dict) or type(metadata.get("version")) is not int:
        raise InputError(f"{label}: {METADATA} is not in Model Library Format")
    entries = _entries(metadata, files, label)
    if not 0 < len(entries) <= _MAX_MODULES:
        raise InputError(f"{label} has {len(entries)} modules; 1 to {_MAX_MODULES} are accepted")
    modules = []
    for name in sorted(entries):
        path = module_path(name)
        if path in files:
            module = Module.from_json(files[path], f"{label}: {path}")
            if module.name != name:
                raise InputError(f"{label}: {path} describes {module.name!r}")
            _require_files(module, files, label)
            _require_unedited(module, files, label)
        else:
            module = foreign_reader(label).module(files, name, entries[name], label)
        modules.append(module)
    require_distinct(modules)
    return ModelLibrary(tuple(modules), files)


def _entries(
    metadata: Mapping[str, Any], files: Mapping[str, bytes], label: str
) -> Mapping[str, Mapping[str, Any]]:
    """Return the entry of each module in ``metadata.json``, by name."""
    entries = metadata.get("modules")
    if (
        metadata["version"] == FORMAT_VERSION
        and isinstance(entries, dict)
        and entries
        and all(isinstance(entry, dict) for entry in entries.values())
        and all(module_path(name) in files for name in entries)
    ):
        return entries
    return foreign_reader(label).entries(metadata, label)


def _require_files(module: Module, files: Mapping[str, bytes], label: str) -> None:
    """Raise unless the files that the build needs of a module exist; a description alone cannot be
    linked.
    """
    folder, suffix = ("lib", "o") if module.codegen == "llvm" else ("src", "c")
    parts = ("",) if module.style == "plain" else ("_lib0", "_lib1")
    for part in parts:
        _file(files, f"codegen/host/{folder}/{module.name}{part}.{suffix}", label)
    _file(files, f"codegen/host/include/{module.symbol}.h", label)
    if module.constants == "binary":
        _file(files, constants_path(module.name), label)


def _require_unedited(module: Module, files: Mapping[str, bytes], label: str) -> None:
    """Raise if the model or its parameters were edited: the code still has the earlier ones.

    An archive may lack them; who hands on the code alone leaves them out.
    """
    for origin in module.made_from:
        if origin.path in files and Origin.of(origin.path, files[origin.path]) != origin:
            raise InputError(
                f"{label}: {origin.path} is not the one that the code in it was made from, so a "
                "change of it would have no effect",
                "change the model and compile it again, or put the file back",
            )


def _file(files: Mapping[str, bytes], name: str, label: str) -> bytes:
    try:
        return files[name]
    except KeyError:
        raise InputError(
            f"{label} has no {name}",
            _REMEDY,
        ) from None
