"""From the words that name models (``MODEL``, ``NAME=path``) to compiled libraries."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import hilc
from hil.board import Board
from hil.errors import BuildError, HilWarning
from hil.firmware.build import build
from hil.firmware.compiled import compile_model
from hil.firmware.fit import region_rooms, workspace_regions
from hil.firmware.placement import aligned, buffer_bytes
from hil.support.restriction import check_code, usable
from hilc.artifact.archive import is_archive
from hilc.artifact.library import ModelLibrary, Module
from hilc.errors import InputError, LimitError
from hilc.frontends.foreign import refuse_saved_model
from hilc.memory.explanation import Explanation
from hilc.memory.pools import PoolSpec
from hilc.options import CodeKeywords, CompileOptions
from hilc.support.inputs import check_regular
from hilc.support.option import flag_of, options_of
from hilc.support.outputs import FOLDER_MARKS, OutputError

if TYPE_CHECKING:
    from hilc.schedule.frontier import Frontier

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
#: File that marks a folder as an exported library, and says what it was made from.
EXPORT_MARK = "hil-export.json"
#: Attempts to correct a flash limit by the error of the estimate after a link.
_CORRECTIONS = 2


class FirmwareKeywords(CodeKeywords, total=False):
    """Options of models for a firmware as keywords, for type checkers."""

    workspace: str
    include_dirs: Sequence[str]
    sources: Sequence[str]


@dataclass(frozen=True)
class ModelOptions:
    """The user's options for the models of a command."""

    cpu: str
    #: Whether the user chose the core; it is the board's otherwise.
    is_cpu_chosen: bool = field(default=False, kw_only=True)
    #: Options of :class:`hilc.CompileOptions` that the user chose, by name; the purpose decides the
    #: others.
    given: Mapping[str, Any] = field(default_factory=dict)
    #: The reference that the code will be compared with, unless one is chosen; compiled libraries
    #: keep the one that they compute as.
    compared_with: str | None = None
    #: Whether hil's firmware provides the pools, with inputs and outputs in them; a library for
    #: other firmware has its own.
    for_firmware: bool = True
    #: The board of that firmware, where it is known.
    board: Board | None = None
    #: Whether models of one firmware work in the same memory; then inputs and outputs are not in
    #: it.
    workspace: str = "own"
    #: External code that the models' code includes or calls (:mod:`hilc.artifact.extra`).
    include_dirs: Sequence[str] = ()
    sources: Sequence[str] = ()
    #: Called for every program that the compiler tries.
    progress: Callable[[], None] | None = field(default=None, compare=False)

    @property
    def chosen(self) -> dict[str, Any]:
        """The options of the compiler that the user chose, by name, as provenance records them:
        without arrays, descriptions of memory and code generators.
        """
        unrecorded = ("shapes", "inputs", "loop_bounds", "memory", "externals")
        return {name: value for name, value in self.given.items() if name not in unrecorded}

    @property
    def memory(self) -> Sequence[PoolSpec]:
        """The workspace pools to plan; without any one pool, or, on ``board``, one in each of
        several RAM regions where none of them alone has room.
        """
        chosen: Sequence[PoolSpec] = self.given.get("memory", ())
        return chosen

    @property
    def flash(self) -> int | None:
        """The limit of a model's flash in bytes; None: no limit."""
        limit: int | None = self.given.get("flash")
        return limit

    def reporting_to(self, progress: Callable[[], None] | None) -> ModelOptions:
        """Return the options of a compiler that calls ``progress`` for every program it tries."""
        return replace(self, progress=progress)

    def within_flash(self, limit: int) -> ModelOptions:
        """Return the options with another limit of flash in bytes."""
        return replace(self, given={**self.given, "flash": limit})

    def compiler(self, name: str | None) -> CompileOptions:
        """All options of the compiler, for the model ``name``; None: named like its file."""
        given = self.given
        pools = given.get("pools", "external" if self.for_firmware else "internal")
        io_in_pool = (
            (self.for_firmware or bool(given.get("keep_inputs") or given.get("pins")))
            and self.workspace == "own"
            and (pools == "external" or not self.for_firmware)
            and given.get("interface", "c") == "c"
        )
        decided = {"pools": pools, "io_in_pool": io_in_pool, "reference": self.compared_with}
        if self.for_firmware and given.get("style", "tvm") == "tvm":
            decided["constants"] = "auto"
        return CompileOptions(
            **{**decided, **given}, cpu=self.cpu, name=name, progress=self.progress
        )


@dataclass(frozen=True)
class ModelSource:
    """A file or folder, and the name that its model shall have."""

    path: Path
    name: str | None

    @property
    def is_archive(self) -> bool:
        """Already compiled: a Model Library Format folder or tar."""
        return is_archive(self.path)


@dataclass(frozen=True)
class ModelObject:
    """A model that is no file: bytes, an ONNX ``ModelProto``, a PyTorch module or program."""

    model: Any
    name: str | None = None
    #: Example arguments of a PyTorch module.
    example: Any = None
    is_archive: ClassVar[bool] = False


#: A model as input: a file, an object, or a compiled library.
ModelInput = ModelSource | ModelObject | ModelLibrary


def parse_sources(words: Sequence[str], name: str | None = None) -> list[ModelSource]:
    """Return the models that the words of a command line name; ``name`` is the one of
    ``--name``.
    """
    sources = [_parse_source(word) for word in words]
    if name is not None:
        if len(sources) != 1:
            raise InputError(
                f"--name names one model, and there are {len(sources)}", "write NAME=path"
            )
        sources = [ModelSource(sources[0].path, checked_name(name))]
    return sources


def load_library(source: ModelSource, options: ModelOptions) -> ModelLibrary:
    """Return the library of a source: read when it is an archive, compiled otherwise."""
    return load_sources([source], options)[0]


def load_libraries(
    words: Sequence[str], options: ModelOptions, name: str | None = None
) -> list[ModelLibrary]:
    """Return the libraries of several words, in their order."""
    return load_sources(parse_sources(words, name), options)


def explain_models(
    words: Sequence[str], options: ModelOptions, name: str | None = None
) -> list[Explanation]:
    """Return the plans of several models, each as in a firmware with that model only."""
    return [
        hilc.explain(source.path, options=options.compiler(source.name))
        for source in _model_files(words, name)
    ]


def frontiers_of_models(
    words: Sequence[str], options: ModelOptions, name: str | None = None
) -> list[Frontier]:
    """Return the programs to choose from of several models, each for a firmware of it alone."""
    return [
        hilc.frontier(source.path, options=options.compiler(source.name))
        for source in _model_files(words, name)
    ]


def _model_files(words: Sequence[str], name: str | None) -> list[ModelSource]:
    """Return the sources of models; raise :class:`InputError` for one that is compiled already."""
    sources = parse_sources(words, name)
    for source in sources:
        if source.is_archive:
            _archive(source.path)  # what is no archive is named as that
            raise InputError(
                f"{source.path} is compiled already, and an archive does not hold its plan",
                "give the model file that it was compiled from",
            )
    return sources


def load_sources(sources: Sequence[ModelInput], options: ModelOptions) -> list[ModelLibrary]:
    """Return the libraries of several sources, for one firmware where the options say so.

    Where no RAM region of the board has room for all their pools, but several together do, each
    model is planned for what is left of them, in the order of the board's description.

    The compiler keeps a limit of flash by its estimate. For a board the firmware is built, and what
    the linker finds over the limit is compiled anew, for as much less as its estimate was short of.

    A warning names each option that changes nothing in a model.
    """
    libraries = _within_limits(sources, options)
    for source, library in zip(sources, libraries, strict=True):
        is_compiled = isinstance(source, ModelLibrary) or source.is_archive
        for module in () if is_compiled else library.modules:
            for remark in unused_options(options, module):
                warnings.warn(HilWarning(f"{module.name}: {remark}"), stacklevel=2)
    return libraries


def unused_options(options: ModelOptions, module: Module) -> Iterator[str]:
    """Yield a sentence for each option that was given and has no effect on a model."""
    given = options.given
    if given.get("dynamic") is not None and not module.dynamic_forms:
        yield (
            f"--dynamic {given['dynamic']} has no effect: the model has no layer whose activations "
            "are quantized at run time"
        )
    if given.get("allow_float") and not module.float_layers:
        yield "--allow-float has no effect: no layer of the model has to be computed in floats"
    if given.get("externals"):
        # Not at the top: it loads the compiler.
        from hilc.schedule.called import GENERATOR

        # Loops and choices of a graph are called as external code, too.
        if all(external.generator == GENERATOR for external in module.externals):
            yield "--external has no effect: the generators take no layer of the model"


def _within_limits(sources: Sequence[ModelInput], options: ModelOptions) -> list[ModelLibrary]:
    """Return the libraries; of models over the limit of flash, as it is measured, smaller ones.

    Raise :class:`InputError`, with the least that is accepted, where no program keeps the limit.
    """
    limit = options.flash
    if options.board is None or limit is None:
        return _load_all(sources, options)
    refusal: LimitError | None = None
    try:
        built = _corrected(sources, options, limit)
        if built.within(limit):
            return built.libraries
    except LimitError as error:
        if len(sources) > 1:
            raise
        refusal = error
    try:
        for built in _smallest(sources, options):
            if built.within(limit):
                return built.libraries
    except OutputError:
        raise
    except (InputError, BuildError):
        # Another limit, or beyond the board.
        if refusal is None:
            raise
        raise refusal from None
    name, least = max(built.sizes.items(), key=lambda item: item[1])
    raise InputError(
        f"no program of {name!r} fits {limit} B of flash on {options.board.name} (the least takes "
        f"{least} B)",
        "raise the limit, or take a smaller model",
    )


@dataclass(frozen=True)
class _Built:
    """Libraries, and the flash in bytes of the models compiled for them, as it is linked."""

    libraries: list[ModelLibrary]
    sizes: Mapping[str, int]

    def within(self, limit: int) -> bool:
        """Return whether each model keeps a limit of flash in bytes."""
        return all(size <= limit for size in self.sizes.values())


def _built(
    sources: Sequence[ModelInput], options: ModelOptions, flash: Mapping[int, int]
) -> _Built:
    assert options.board is not None
    libraries = _load_all(sources, options, flash)
    sizes = build(libraries, options.board, workspace=options.workspace).sizes.models
    names = [name for library in libraries for name in library.reports]
    return _Built(libraries, {name: sizes[name].flash_bytes for name in names})


def _corrected(sources: Sequence[ModelInput], options: ModelOptions, limit: int) -> _Built:
    """Return what keeps a limit of flash by estimate, compiled anew, as long as it is larger when
    it is linked, for as much less as the estimate was short of.

    Raise :class:`LimitError` where no program keeps the limit by estimate.
    """
    limits = dict.fromkeys(range(len(sources)), limit)
    built = _built(sources, options, limits)
    for _ in range(_CORRECTIONS):
        if built.within(limit):
            break
        for index, library in enumerate(built.libraries):
            for name, report in library.reports.items():
                if built.sizes[name] > limit:
                    limits[index] = limit - (built.sizes[name] - report.chosen.flash_bytes)
        try:
            built = _built(sources, options, limits)
        except LimitError:
            break
    return built


def _smallest(sources: Sequence[ModelInput], options: ModelOptions) -> Iterator[_Built]:
    """Yield what takes the least flash by estimate; of one model then what is smaller when it is
    linked, until nothing is found in less.
    """
    limits = {}
    for index, source in enumerate(sources):
        try:
            _load_all([source], options, {0: 0})
        except LimitError as error:
            limits[index] = error.least_flash
    built = _built(sources, options, limits)
    yield built
    while len(built.sizes) == 1:
        (size,) = built.sizes.values()
        try:
            built = _corrected(sources, options, size - 1)
        except LimitError:
            return
        if not built.within(size - 1):
            return
        yield built


def _load_all(
    sources: Sequence[ModelInput],
    options: ModelOptions,
    flash: Mapping[int, int] = MappingProxyType({}),
) -> list[ModelLibrary]:
    """Return the libraries of the sources; ``flash`` are limits of some, by their position."""
    own = [options.within_flash(flash[i]) if i in flash else options for i in range(len(sources))]
    libraries = [
        s if isinstance(s, ModelLibrary) else _load(s, chosen)
        for s, chosen in zip(sources, own, strict=True)
    ]
    modules = [module for library in libraries for module in library.modules]
    board = options.board
    if board is None or options.memory or len(board.regions("ram")) < 2:
        return libraries
    shared = options.workspace == "shared"
    if workspace_regions(modules, board, "shared" if shared else "own"):
        return libraries
    # A run-time allocator has one arena; what is compiled already stays as it is.
    by_calls = options.given.get("pools") == "calls"
    moving = [
        source if not (isinstance(source, ModelLibrary) or source.is_archive or by_calls) else None
        for source in sources
    ]
    rows = list(zip(moving, libraries, own, strict=True))
    fixed = [module for source, library, _ in rows if source is None for module in library.modules]
    buffers = [sum(buffer_bytes(lib.modules[0])) for source, lib, _ in rows if source is not None]
    rooms = region_rooms(fixed, board, reserved=sum(buffers))
    spread = []
    try:
        for source, library, chosen in rows:
            spread.append(_compile(source, chosen, _pools_in(rooms)) if source else library)
            for pool in spread[-1].modules[0].workspace_pools if source and not shared else ():
                assert pool.region is not None, "each of the pools was for a region"
                rooms[pool.region] -= aligned(pool.nbytes)
    except InputError:
        # Not even all regions together: the figures of one pool are what the refusal shows.
        return libraries
    return spread


def _archive(path: Path) -> ModelLibrary:
    """Return the library of an archive; raise :class:`InputError` if its code is not taken."""
    check_code(str(path))
    return ModelLibrary.load(path)


def _load(source: ModelSource | ModelObject, options: ModelOptions) -> ModelLibrary:
    if isinstance(source, ModelObject):
        return _compile(source, options)
    source = replace(source, path=_existing(str(source.path)))
    if not source.is_archive:
        return _compile(source, options)
    changing = next(iter(options.given), None)
    if changing is not None:
        option = flag_of(changing, options_of(CompileOptions)[changing])
        if options.given[changing] is False:
            option = option.replace("--", "--no-", 1)
        raise InputError(
            f"{source.path} is compiled already, so {option} cannot change it",
            "give the model file that it was compiled from",
        )
    library = _archive(source.path)
    others = [m.cpu for m in library.modules if m.cpu != options.cpu]
    if options.is_cpu_chosen and others:
        raise InputError(
            f"{source.path} was compiled for {others[0]}, so --cpu {options.cpu} cannot change it",
            "give the model file that it was compiled from, or drop --cpu",
        )
    if source.name is not None and (source.name,) != tuple(m.name for m in library.modules):
        raise InputError(
            f"{source.path} holds {', '.join(m.name for m in library.modules)}; "
            f"a compiled model cannot be renamed to {source.name!r}",
            "compile the model file again with that name",
        )
    return _with_code(library, options)


def _with_code(library: ModelLibrary, options: ModelOptions) -> ModelLibrary:
    """Return the library with the code from elsewhere that the options name."""
    if not options.include_dirs and not options.sources:
        return library
    return library.with_code(options.include_dirs, options.sources)


def _compile(
    source: ModelSource | ModelObject, options: ModelOptions, memory: tuple[PoolSpec, ...] = ()
) -> ModelLibrary:
    own = options.compiler(source.name)
    own = replace(own, memory=memory) if memory else own
    if isinstance(source, ModelObject):
        library = hilc.compile(source.model, options=replace(own, samples=source.example))
    else:
        library = compile_model(source.path, own)
    return _with_code(library, options)


def _pools_in(rooms: Mapping[str, int]) -> tuple[PoolSpec, ...]:
    """Return a pool in each region, as large as its room."""
    return tuple(
        PoolSpec(f"{region}_workspace", limit_bytes=room, region=region)
        for region, room in rooms.items()
    )


def _parse_source(word: str) -> ModelSource:
    name, separator, rest = word.partition("=")
    # A file whose own name has an equals sign is taken as it is.
    if not separator or Path(word).exists():
        return ModelSource(_existing(word), None)
    return ModelSource(_existing(rest), checked_name(name))


def _existing(word: str) -> Path:
    path, hint = (
        Path(usable(word)),
        "give a .tflite, .onnx or .pt2 file, or a Model Library Format tar or folder",
    )
    if not word or not path.exists():
        raise InputError(f"{word!r} does not exist" if word else "a model's path is empty", hint)
    refuse_saved_model(path)
    if (path / EXPORT_MARK).is_file():
        raise InputError(
            f"{path} is a library that `hil export` wrote for another build system, not a model",
            "give the model file that it was exported from, or the tar or folder that "
            "`hil compile -o` writes",
        )
    if (path / FOLDER_MARKS["a firmware project"]).is_file():
        raise InputError(
            f"{path} is a firmware project that `hil build` wrote, not a model",
            "give the model file that it was built from, or to run it an ELF file: "
            f"{path}/build/firmware.elf",
        )
    check_regular(path, hint)
    return path


def checked_name(name: str) -> str:
    """Return the name of a model; raise :class:`InputError` for one that C code cannot have."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot name a model in C code",
            "use letters, digits and underscores, a letter first",
        )
    return name
