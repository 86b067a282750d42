"""Compilation of a model, with a cache.

The search for a program takes seconds, and `bench`, `verify` and `build` of one model need the same
one. The key of an entry consists of all its inputs, the compiler itself included.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import sys
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any

import hilc
from hil.errors import HilWarning
from hil.firmware.toolchain import program_version
from hil.support.cache import (
    CacheError,
    archive_of,
    cache_folder,
    complete_archive,
    digest,
    read_archive_entry,
    writable_folder,
)
from hil.support.identity import compiler_identity
from hilc.artifact.library import ModelLibrary
from hilc.errors import HilError, InputError
from hilc.frontends.readers import Specialization, is_foreign, reader_of
from hilc.lowering.choice import ChoiceReport
from hilc.options import CompileOptions
from hilc.support.jsondata import decode
from hilc.target import Cpu, load_cpu

_LOG = logging.getLogger("hil.compiled")
#: The folder in the cache.
_KIND = "libraries"
#: Part of every key: increment it when the form of entries changes.
_KEY_VERSION = 2
#: Options that are in the key in another form, or do not affect the library.
_NOT_KEY = frozenset(
    {"cpu", "name", "externals", "progress", "shapes", "inputs", "loop_bounds", "samples"}
)


def compile_model(path: Path, options: CompileOptions) -> ModelLibrary:
    """Return the library of a model file compiled with these options."""
    start = time.monotonic()
    entry = _entry(path, options)
    library = _read(entry) if entry is not None else None
    how = "took %s for %s from the cache in %.1f s"
    if library is None:
        library = hilc.compile(path, options=options)
        how = "compiled %s for %s in %.1f s"
        # The file may have been replaced meanwhile.
        if entry is not None and entry == _entry(path, options):
            _keep(entry, library)
    _LOG.info(how, path, options.cpu, time.monotonic() - start)
    return library


def _entry(path: Path, options: CompileOptions) -> Path | None:
    """Return the folder of a cached library; None without a reliable key.

    That is so for a user's generator, reader or builder of kernel calls, which is arbitrary code,
    and for unreadable files, which the compiler reports.
    """
    model = digest(path)
    if model is None or options.externals or _has_foreign_builders():
        return None
    with suppress(OSError):
        data = path.read_bytes()
        reader = reader_of(data)
        if is_foreign(reader):
            return None
        if reader is not None and reader.specialize is not None:
            # Other files and options are part of the model.
            stated = Specialization(
                {name: tuple(shape) for name, shape in options.shapes.items()},
                options.inputs,
                path.parent,
                loop_bounds=options.loop_bounds,
            )
            try:
                model = hashlib.sha256(reader.specialize(data, stated)).hexdigest()
            except HilError:
                return None
        elif options.shapes or options.inputs or options.loop_bounds:
            return None
    values = {name: v for name, v in _values(options).items() if name not in _NOT_KEY}
    if isinstance(options.tuning, str | Path):
        values["tuning"] = digest(Path(options.tuning))
        if values["tuning"] is None:
            return None
    core = load_cpu(options.cpu)
    key = {
        "version": _KEY_VERSION,
        "model": model,
        "cpu": core.name,
        # A user-defined module is not part of the compiler.
        "core": [digest(core.path), digest(core.toolchain.path)],
        "name": options.name if options.name is not None else path.stem,
        "options": values,
        "compiler": compiler_identity(),
        "clang": _clang(core) if options.codegen == "llvm" else None,
        "date": os.environ.get("SOURCE_DATE_EPOCH"),
    }
    text = json.dumps(key, sort_keys=True, default=_plain)
    try:
        return cache_folder() / _KIND / hashlib.sha256(text.encode()).hexdigest()[:32]
    except CacheError as error:
        warning = f"nothing is cached: {error.fact} ({error.hint})"
        warnings.warn(HilWarning(warning), stacklevel=2)
        return None
    except HilError:
        return None


def _has_foreign_builders() -> bool:
    """Return whether a builder of kernel calls is a user's; its registration loads the registry."""
    registry = sys.modules.get("hilc.lowering.registry")
    return registry is not None and registry.has_foreign_builders()


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _values(value)
    assert isinstance(value, Mapping), "options are numbers, texts, dataclasses and mappings"
    return dict(value)


def _values(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass without copying: mapping proxies cannot be copied."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _clang(cpu: Cpu) -> list[str | None]:
    """Return the versions of clang and the C library of the GNU toolchain, which create objects."""
    # Not at the top: only objects need it, and it loads the compiler.
    from hilc.codegen.llvm import find_clang

    try:
        clang: str | None = program_version(find_clang()[0])
    except HilError:
        clang = None  # the compiler reports it
    gcc = shutil.which(cpu.toolchain.gcc)
    return [clang, program_version(gcc) if gcc else None]


def _read(entry: Path) -> ModelLibrary | None:
    """Return the library of a complete entry."""
    found = read_archive_entry(entry)
    if found is None:
        return None
    try:
        library = ModelLibrary.load(archive_of(entry))
        reports = {
            name: decode(ChoiceReport, report, f"{entry}: {name}")
            for name, report in found["reports"].items()
        }
    except (InputError, KeyError, AttributeError):
        return None  # replaced by another process just now, or written by something else
    return ModelLibrary(library.modules, library.files, reports)


def _keep(entry: Path, library: ModelLibrary) -> None:
    """Write an entry; without space or permission, it is compiled again the next time."""
    reports = {name: asdict(report) for name, report in library.reports.items()}
    try:
        writable_folder(_KIND)
        library.save(archive_of(entry), force=True)
        complete_archive(entry, {"reports": reports})
    except (InputError, OSError) as error:
        _LOG.info("not kept: %s", error)
