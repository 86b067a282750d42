"""Export a library: ``hil.export`` of Python, and what the command line shares with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hilc
from hil.board import Board, load_board
from hil.errors import InputError
from hil.export.package import About, check_library, make_package
from hil.export.registry import ExportFormat, export_named
from hil.export.samples import sample_of
from hil.firmware.project import check_suits
from hilc.artifact.library import ModelLibrary, Module, merge
from hilc.options import RENAMED, CompileKeywords
from hilc.support.arguments import typed
from hilc.support.option import check_keywords
from hilc.support.outputs import check_folder, looks_like_a_file, update_folder
from hilc.target import Cpu, get_cpu, load_cpu

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: The kind of a library's folder (:data:`hilc.support.outputs.FOLDER_MARKS`).
KIND = "an exported library"


@dataclass(frozen=True)
class Exported:
    """A library that was written."""

    format: str
    name: str
    version: str
    folder: Path
    #: Paths of its files in the folder, sorted.
    files: tuple[str, ...]
    modules: tuple[Module, ...]
    cpu: Cpu
    #: Whether its example compares with outputs of the reference.
    has_reference: bool


@dataclass(frozen=True)
class ExampleInputs:
    """Inputs of the example of a library of one model."""

    #: As :func:`hil.verify.samples.first_sample` takes it; None for random values.
    sample: Any = None
    #: Whether floats become the inputs' integers.
    quantize: bool = False


@typed
def export(
    model: Any,
    format: str,
    folder: str | Path,
    *,
    board: str | Path | Board | None = None,
    about: About | None = None,
    sample: Any = None,
    quantize: bool = False,
    force: bool = False,
    **options: Unpack[CompileKeywords],
) -> Exported:
    """Compile a model, and write it as a library of another build system.

    ``model`` is what :func:`hil.compile` takes, a library, or a list of these, which become one
    library. ``format`` is one of :func:`export_formats`. The code is for the core of ``board``, or
    for ``cpu``; without either it is for any core. ``about`` has the entries of the library's
    manifest; further options are those of :class:`hilc.CompileOptions`.

    The library's example runs ``sample``, an NPZ file whose first sample is taken or a mapping of
    the inputs' names to arrays, for one model; by default random values. With ``quantize`` floats
    become the inputs' integers.

    The folder must be empty, absent, or an earlier export, which is replaced; files in it that were
    edited since only with ``force``. Raise :class:`~hil.errors.HilError` as :func:`hil.compile`
    does, and for what the format cannot have.
    """
    own = ("board", "about", "sample", "quantize", "force")
    check_keywords("hil.export", options, [*own, *CompileKeywords.__annotations__], RENAMED)
    cpu = options.pop("cpu", None)
    if board is not None and cpu is not None:
        raise InputError(f"both a board and the core {cpu!r} were given", "give one of them")
    loaded = board if isinstance(board, Board) or board is None else load_board(board)
    core = loaded.cpu if loaded is not None else load_cpu(cpu) if cpu is not None else None
    about = about or About()
    chosen = checked(format, folder, core, about, force=force)
    models = model if isinstance(model, list | tuple) else [model]
    if not models:
        raise InputError("there is no model to export", "give at least one")
    options["cpu"] = "host" if core is None else core.word
    libraries = [
        one if isinstance(one, ModelLibrary) else hilc.compile(one, **options) for one in models
    ]
    given = ExampleInputs(sample, quantize)
    return write(chosen, libraries, folder, core, loaded, about, given, force=force)


def checked(
    format: str, folder: str | Path, core: Cpu | None, about: About, *, force: bool
) -> ExportFormat:
    """Return the format; raise InputError if it, or the folder, cannot take the export.

    To be called before models are compiled.
    """
    chosen = export_named(format)
    if looks_like_a_file(folder):
        raise InputError(
            f"{str(folder)!r} is not the name of a folder",
            f"write {str(folder)}/ for a folder of this name",
        )
    check_folder(folder, kind=KIND, force=force)
    chosen.check(core or get_cpu("host"), about)
    return chosen


def write(
    chosen: ExportFormat,
    libraries: Sequence[ModelLibrary],
    folder: str | Path,
    core: Cpu | None,
    board: Board | None,
    about: About,
    inputs: ExampleInputs,
    *,
    force: bool,
) -> Exported:
    """Write compiled models as one library; ``core`` is None where none was asked for.

    Raise :class:`InputError` if a model was compiled for another core.
    """
    library = merge(libraries)
    check_library(library)
    core = core or _common_core(library)
    chosen.check(core, about)
    for module in library.modules:
        if module.cpu not in (core.name, "host"):
            raise InputError(
                f"{module.name!r} was compiled for {module.cpu} and cannot be put into a library "
                f"for {core.name}",
                "give its model file, or the core that it was compiled for",
            )
    if board is not None:
        for module in library.modules:
            check_suits(library, module, board)
    if inputs.sample is not None and len(library.modules) > 1:
        names = ", ".join(repr(module.name) for module in library.modules)
        raise InputError(
            f"inputs of the example are given for several models: {names}",
            "export them one by one, or leave the inputs out",
        )
    samples = [
        sample_of(library, module, inputs.sample, quantize=inputs.quantize)
        for module in library.modules
    ]
    package = make_package(library, core, board, about, samples, hilc.__version__)
    files = chosen.files(package)
    update_folder(Path(folder), files, force=force)
    return Exported(
        format=chosen.name,
        name=package.name,
        version=package.version,
        folder=Path(folder),
        files=tuple(sorted(files)),
        modules=library.modules,
        cpu=core,
        has_reference=all(sample.outputs is not None for sample in samples),
    )


def _common_core(library: ModelLibrary) -> Cpu:
    """Return the core that the models were compiled for, the host's code being for every one."""
    names = sorted({module.cpu for module in library.modules} - {"host"})
    if len(names) > 1:
        raise InputError(
            f"the models were compiled for different cores: {', '.join(names)}",
            "compile them for one core",
        )
    return get_cpu(names[0] if names else "host")
