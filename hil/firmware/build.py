"""Build of firmware: project, CMake, cache, sizes.

A build is cached under a key of all its inputs, so the same input is never built twice. Builds of
the same key wait for each other; a marker file, written last, distinguishes a complete build from
an interrupted one.
"""

from __future__ import annotations

import hashlib
import logging
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from hil.board import Board
from hil.errors import BuildError, InputError
from hil.firmware import fit
from hil.firmware.glue import model_key
from hil.firmware.linkmap import LinkMap, Piece, read_map
from hil.firmware.mlperf import Mlperf, check_one_model
from hil.firmware.owners import flash_owners
from hil.firmware.placement import Workspace, check_placement
from hil.firmware.project import (
    check_core,
    check_counts,
    check_suits,
    constants_section,
    is_foreign,
    modules_of,
    project_files,
    region_section,
    with_build_id,
)
from hil.firmware.stack import stack_bound
from hil.firmware.toolchain import build_programs, compiler_version
from hil.results.build import (
    BuildEntry,
    BuiltModel,
    CompressedLayer,
    RegionSize,
    SectionSize,
)
from hil.results.codec import encode
from hil.support.cache import (
    REMEDY,
    RESULT,
    cache_folder,
    digest,
    evict_unused,
    locked,
    read_checked,
    remove,
    touch,
    with_checksum,
)
from hilc.artifact.library import ModelLibrary, Module
from hilc.support.arguments import typed
from hilc.support.outputs import (
    OutputError,
    cannot_write,
    check_folder,
    check_place,
    is_unwritable,
    looks_like_a_file,
    update_folder,
    write_file,
)
from hilc.support.process import run

_LOG = "build.log"
_TOLD = logging.getLogger("hil.build")
_ELF = "build/firmware.elf"
#: Part of every key: increment it when this module builds the same project differently.
_KEY_VERSION = b"5"
#: In the folder ``build``: where compilers work, so that a killed one leaves nothing elsewhere.
_TEMPORARY = ".hil-tmp"
#: Files of CMake and Ninja in the folder ``build``; all others are the user's.
_CMAKE_ENTRIES = (
    _TEMPORARY,
    "CMakeCache.txt",
    "CMakeFiles",
    "build.ninja",
    "cmake_install.cmake",
    "compile_commands.json",
    ".ninja_deps",
    ".ninja_log",
    "firmware.elf",
    "firmware.map",
    "models",
)
#: Characters with a special meaning to CMake or Ninja in a path.
_MISREAD = re.compile(r"""[;"|\\\x00-\x08\x0a-\x1f\x7f]|\$[{(<]""")
_FIRST_ERRORS = 5
#: Time limit, far above that of the largest image on a slow machine.
_BUILD_LIMIT_S = 1800.0
_ERROR_LINE = re.compile(
    r"error:|CMake Error|undefined reference|multiple definition|cannot find|link failed"
)
#: Messages of tools about a full disk.
_NO_ROOM = re.compile(
    r"No space left on device|Disk quota exceeded|File too large|File size limit exceeded"
)
#: Errors of CMake and Ninja themselves.
_OF_CMAKE = re.compile(r"^\s*(?:CMake Error|ninja: error:)", re.MULTILINE)
#: A disk that does not take so many bytes counts as full.
_LEAST_ROOM = 64 * 1024
_MISSING_HEADER = re.compile(r"fatal error: ([\w./+-]+): No such file")
_MISSING_FUNCTION = re.compile(r"undefined reference to [`'](\w+)'")
_STACK_USE = re.compile(r"\t(\d+)\t(?:static|dynamic,bounded)$")

_FLASH_SECTIONS = (".text", ".rodata", ".data", ".data.rel.ro")
_RAM_SECTIONS = (".data", ".bss", ".workspace")
#: Kinds of input sections; the first match counts.
_KINDS = (
    ("weights and tables of models", re.compile(r"\.rodata\.tvm\b")),
    ("pools and buffers of models", re.compile(r"\.bss\.noinit\.tvm\b")),
    ("constants", re.compile(r"\.(rodata|data\.rel\.ro)\b")),
    ("data with initial values", re.compile(r"\.data\b")),
    ("data without", re.compile(r"\.bss\b|COMMON$")),
    ("code", re.compile(r"")),
)
#: Owners of sections, beside the models' own.
FIRMWARE, C_LIBRARY, PADDING = "firmware", "C library", "padding"


@dataclass(frozen=True)
class ModelSizes:
    """Size that one model adds to an image, and the largest stack frame of its functions."""

    #: Code, constants and glue, and the parts of the C library that only this model uses.
    flash_bytes: int
    constants_bytes: int
    #: Its own pools, and its input and output buffers outside of pools. Memory that several models
    #: share counts for the firmware.
    workspace_bytes: int
    stack_frame_bytes: int
    #: Region of constants that are not in the first flash region; to RAM they are copied.
    constants_region: str | None = None
    constants_are_copied: bool = False
    #: ``flash_bytes`` by owner (:mod:`hil.firmware.owners`).
    flash_owners: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RegionUse:
    """Use of a memory region; stacks included."""

    name: str
    used: int
    size: int


@dataclass(frozen=True)
class SectionUse:
    """Bytes of one kind of section, by owner."""

    name: str
    in_flash: bool
    in_ram: bool
    parts: Mapping[str, int]

    @property
    def size(self) -> int:
        """Bytes of all owners."""
        return sum(self.parts.values())


@dataclass(frozen=True)
class Sizes:
    """Sizes of an image, from the linker's map."""

    flash_bytes: int
    #: Static data of firmware and models, without the stacks.
    ram_bytes: int
    stack_bytes: int
    handler_stack_bytes: int
    regions: tuple[RegionUse, ...]
    models: Mapping[str, ModelSizes]
    #: All sections, stacks included: those in flash add up to ``flash_bytes``, those in RAM to
    #: ``ram_bytes`` and the stacks. Empty for a process of this machine.
    sections: tuple[SectionUse, ...] = ()
    #: Upper bound of the stack for calls and interrupts, if known (:mod:`hil.firmware.stack`).
    stack_bound_bytes: int | None = None
    #: Flash of what models share, by owner; with that of the models it adds up to ``flash_bytes``.
    flash_owners: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Firmware:
    """A built firmware project."""

    folder: Path
    elf: Path
    #: 32 hexadecimal digits, which the firmware reports too.
    build_id: str
    board: Board
    libraries: tuple[ModelLibrary, ...]
    sizes: Sizes

    def __repr__(self) -> str:
        models = ", ".join(self.sizes.models) or "no model"
        return f"<Firmware of {models} for {self.board.name}: {self.elf}>"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of :meth:`entry`."""
        data: dict[str, Any] = encode(self.entry())
        return data

    def entry(self, seconds: float | None = None) -> BuildEntry:
        """Return the entry of ``hil build``; ``seconds`` is the time that the build took."""
        sizes = self.sizes
        modules = {module.name: module for module in modules_of(self.libraries)}
        goals = {module.goal for module in modules.values()}
        return BuildEntry(
            board=self.board.name,
            flash_bytes=sizes.flash_bytes,
            ram_bytes=sizes.ram_bytes,
            models=tuple(
                BuiltModel(
                    model=name,
                    model_ram_bytes=modules[name].ram_bytes if name in modules else None,
                    **asdict(model),
                    compressed=tuple(
                        CompressedLayer(**layer) for layer in modules[name].compressed_json()
                    )
                    if name in modules
                    else (),
                )
                for name, model in sizes.models.items()
            ),
            goal=goals.pop() if len(goals) == 1 else None,
            folder=str(self.folder),
            elf=str(self.elf),
            build_id=self.build_id,
            stack_bytes=sizes.stack_bytes,
            handler_stack_bytes=sizes.handler_stack_bytes,
            stack_bound_bytes=sizes.stack_bound_bytes,
            regions=tuple(RegionSize(use.name, use.used, use.size) for use in sizes.regions),
            sections=tuple(SectionSize(**asdict(use), bytes=use.size) for use in sizes.sections),
            seconds=seconds,
        )


@typed
def build(
    libraries: Sequence[ModelLibrary],
    board: Board,
    output: Path | None = None,
    *,
    workspace: str = "own",
    warnings_as_errors: bool = False,
    force: bool = False,
    mlperf: Mlperf | None = None,
) -> Firmware:
    """Return the firmware for ``board`` with all models of ``libraries``.

    ``workspace`` is ``own`` or ``shared``: whether models whose pools the firmware provides work in
    the same bytes (:mod:`hil.firmware.placement`). Without ``output`` the project lies in the
    cache; an ``output`` folder that this function made before is brought up to date: what the
    user has added stays, and what they have edited is an InputError unless with ``force``. With
    ``mlperf`` the firmware answers the commands of MLPerf Tiny's runner instead of the serial
    protocol. Raise :class:`~hil.firmware.fit.FitError` where the board is too small,
    :class:`~hil.errors.BuildError` where a tool is missing or fails.
    """
    modules = modules_of(libraries)
    check_counts(modules)
    if mlperf is not None:
        check_one_model(modules)
        board = mlperf.board_of(board)
    check_core(libraries, board)
    placed = check_placement(modules, board, workspace)
    if not board.is_host:
        fit.check_estimate(modules, board, placed)
    layouts = fit.layouts(modules, board, placed)
    definitions = ("-DHIL_WERROR=ON",) if warnings_as_errors else ()

    def project(layout: fit.Layout) -> dict[str, bytes]:
        return project_files(libraries, board, layout.workspace, placed, layout.constants, mlperf)

    files = project(layouts[0])
    build_id = _key(files, (compiler_version(board), *definitions))
    folder = _cache() / "builds" / build_id if output is None else output.resolve()
    sizes = _look_up(folder, build_id) if output is None else None
    if sizes is None:
        with locked(folder), _writing(folder, is_cached=output is None):
            if output is not None:
                check_project(folder, force=force)
            # Another process may have built it meanwhile.
            sizes = _look_up(folder, build_id)
            is_new = not (folder.is_dir() and any(folder.iterdir()))
            if output is not None and not _is_unchanged(folder, with_build_id(files, build_id)):
                sizes = None
            if sizes is None:
                with _blaming_other_cores(libraries, board), _whole(folder, is_new):
                    sizes = _build(
                        modules, board, layouts, project, placed, folder, build_id, definitions,
                        is_cached=output is None, force=force,
                    )  # fmt: skip
    return Firmware(folder, folder / _ELF, build_id, board, tuple(libraries), sizes)


@contextmanager
def _whole(folder: Path, is_new: bool) -> Iterator[None]:
    """Remove what a build leaves in a new folder unless it is whole, or its log says why not."""
    try:
        yield
    except BaseException as error:
        has_log = isinstance(error, BuildError) and not isinstance(error, fit.FitError)
        if is_new and not has_log:
            with suppress(OSError):
                remove(folder)
        raise


@contextmanager
def _blaming_other_cores(libraries: Sequence[ModelLibrary], board: Board) -> Iterator[None]:
    """Put in front of a failure which libraries other compilers generated for another core."""
    remarks = [
        remark
        for library in libraries
        for module in library.modules
        if is_foreign(library, module) and (remark := check_suits(library, module, board))
    ]
    try:
        yield
    except BuildError as error:
        if not remarks:
            raise
        cores = " or ".join(sorted({m.cpu for library in libraries for m in library.modules}))
        raise BuildError(
            f"{'; '.join(remarks)}\n{error.fact}",
            f"choose a board with a {cores}, or ask for an archive generated for "
            f"{board.cpu.name}; {error.hint}",
        ) from error


def _build(
    modules: Sequence[Module],
    board: Board,
    layouts: Sequence[fit.Layout],
    files_of: Callable[[fit.Layout], Mapping[str, bytes]],
    placed: Workspace,
    folder: Path,
    build_id: str,
    definitions: Sequence[str],
    *,
    is_cached: bool,
    force: bool,
) -> Sizes:
    """Build in ``folder``, which may have any content."""
    start = time.monotonic()
    if is_cached:
        # Any content, also a link, may be an incomplete build.
        remove(folder)
    demands: tuple[fit.Demand, ...] = ()
    for index, layout in enumerate(layouts):
        # The estimate permits each of them, the linker may not.
        project = with_build_id(files_of(layout), build_id)
        update_folder(folder, project, force=force)
        if index == 0:
            _clear(folder)
        demands = _run_cmake(folder, board, definitions, is_cached=is_cached)
        if not demands:
            break
    else:
        raise fit.fit_error(modules, board, demands, placed)
    sizes = _measure(folder, board, modules)
    _check_stack(sizes, board, modules, placed)
    _write_result(folder, build_id, sizes)
    seconds = time.monotonic() - start
    text = "built firmware %s for %s in %.1f s: %s"
    _TOLD.info(text, build_id, board.name, seconds, folder)
    if is_cached:
        evict_unused()
    return sizes


@typed
def create_project(
    libraries: Sequence[ModelLibrary],
    board: Board,
    output: Path,
    *,
    workspace: str = "own",
    force: bool = False,
) -> None:
    """Write the project of :func:`build` without building it.

    Raises as :func:`build` does where the board is too small by the estimate, and for a folder that
    holds something else.
    """
    modules = modules_of(libraries)
    check_counts(modules)
    check_core(libraries, board)
    placed = check_placement(modules, board, workspace)
    if not board.is_host:
        fit.check_estimate(modules, board, placed)
    layout = fit.layouts(modules, board, placed)[0]
    files = project_files(libraries, board, layout.workspace, placed, layout.constants)
    build_id = _key(files, (compiler_version(board),))
    with locked(output.resolve()), _writing(output, is_cached=False):
        check_project(output, force=force)
        update_folder(output, with_build_id(files, build_id), force=force)
        _clear(output)


def check_project(output: str | Path, *, force: bool = False) -> None:
    """Raise for an ``output`` that :func:`build` could not write, or may not without ``force``."""
    check_project_name(output)
    _check_name(Path(output).resolve(), "choose another folder with -o")
    check_folder(output, kind="a firmware project", force=force)


def check_cache() -> Path:
    """Return the folder of cached builds; raise if it cannot be written."""
    folder = _cache()
    check_place(folder, is_folder=True, remedy=REMEDY)
    return folder


def _cache() -> Path:
    folder = cache_folder()
    _check_name(folder, "set HIL_CACHE to another folder")
    return folder


def check_project_name(output: str | Path) -> None:
    """Raise for a name with a file's suffix, which is not a folder's."""
    if looks_like_a_file(output):
        raise InputError(
            f"{str(output)!r} is not the name of a folder, which a firmware project is",
            f"give another name, or write {output}/; the ELF file is build/firmware.elf in it",
        )


def _check_name(folder: Path, remedy: str) -> None:
    """Raise for a path that CMake or Ninja would misinterpret."""
    if found := _MISREAD.search(str(folder)):
        raise InputError(
            f"CMake cannot build in {str(folder)!r}: the path has {found[0]!r} in it", remedy
        )


def read_firmware(libraries: Sequence[ModelLibrary], board: Board, folder: Path) -> Firmware | None:
    """Return the firmware that :func:`build` made in ``folder``, also with another version of hil.

    Return None if there is none, or if it is incomplete.
    """
    if not (folder / RESULT).is_file() or not (folder / _ELF).is_file():
        return None
    built = _read_result(folder)
    if built is None:
        raise BuildError(f"{folder / _ELF} is not the one that was built there", "build again")
    build_id, sizes = built
    return Firmware(folder, folder / _ELF, build_id, board, tuple(libraries), sizes)


# -- key and cache -----------------------------------------------------------------------------


def _key(files: Mapping[str, bytes], settings: Sequence[str]) -> str:
    digest = hashlib.sha256(_KEY_VERSION)
    for part in settings:
        digest.update(f"{len(part)}:{part}".encode())
    for path in sorted(files):
        digest.update(f"{path}:{len(files[path])}:".encode())
        digest.update(files[path])
    return digest.hexdigest()[:32]


def _is_unchanged(folder: Path, files: Mapping[str, bytes]) -> bool:
    """Return whether the project is unedited; the regions of the pools are the result of an
    attempt.
    """
    return all(
        (folder / path).is_file() and (folder / path).read_bytes() == data
        for path, data in files.items()
        if path != "generated/firmware.ld"
    )


def _clear(folder: Path) -> None:
    """Remove files of an interrupted or different build, but none of the user's."""
    for name in (RESULT, _LOG, *(f"build/{name}" for name in _CMAKE_ENTRIES)):
        remove(folder / name)


@contextmanager
def _writing(folder: Path, *, is_cached: bool) -> Iterator[None]:
    """Turn a failure for lack of disk space into an error that names the folder."""
    try:
        yield
    except OutputError as error:
        if not is_cached:
            raise
        raise OutputError(error.fact, f"free some space there, or {REMEDY}") from None
    except OSError as error:
        raise cannot_write(error.filename or folder, error, _other_place(is_cached)) from None


def _other_place(is_cached: bool) -> str:
    return REMEDY if is_cached else "choose another folder with -o"


def _look_up(folder: Path, build_id: str) -> Sizes | None:
    """Return the sizes of the build with this key, if ``folder`` holds one."""
    built = _read_result(folder)
    if built is None or built[0] != build_id:
        return None
    touch(folder / RESULT)
    _TOLD.info("firmware %s was built before: %s", build_id, folder)
    return built[1]


def _write_result(folder: Path, build_id: str, sizes: Sizes) -> None:
    elf = digest(folder / _ELF)
    write_file(
        folder / RESULT, with_checksum({"build_id": build_id, "elf": elf, "sizes": asdict(sizes)})
    )


def _read_result(folder: Path) -> tuple[str, Sizes] | None:
    """Return the id and sizes of a complete and unmodified build, if the folder holds one."""
    found = read_checked(folder / RESULT)
    if found is None or found.get("elf") is None or found["elf"] != digest(folder / _ELF):
        return None
    try:
        sizes = found["sizes"]
        return found["build_id"], Sizes(
            **{
                **sizes,
                "regions": tuple(RegionUse(**use) for use in sizes["regions"]),
                "models": {name: ModelSizes(**model) for name, model in sizes["models"].items()},
                "sections": tuple(SectionUse(**use) for use in sizes["sections"]),
            }
        )
    except (KeyError, TypeError, AttributeError):
        return None  # whole, and not of this version


# -- CMake -------------------------------------------------------------------------------------


def _run_cmake(
    folder: Path, board: Board, definitions: Sequence[str], *, is_cached: bool
) -> tuple[fit.Demand, ...]:
    """Configure and build; return the resources that do not suffice, empty on success. Raise
    :class:`OutputError` where the disk is full.

    Where CMake or Ninja fails, and no compiler, everything is done once more: they go on after a
    write that failed, and stumble over what is not there, when the disk may have room again.
    """
    text, code = _output_of_cmake(folder, board, definitions)
    if code != 0 and _why_no_room(folder, text) is None and _OF_CMAKE.search(text):
        before = text
        for name in _CMAKE_ENTRIES:
            remove(folder / "build" / name)
        text, code = _output_of_cmake(folder, board, definitions)
        if code == 0:
            _TOLD.warning("CMake failed for %s, and did not the second time", board.name)
            text = f"{before}\n-- again --\n\n{text}"
    log = folder / _LOG
    # A full disk is the reason of the failed build.
    with suppress(OutputError):
        write_file(log, text)
    if code == 0:
        return ()
    if place := _why_no_room(folder, text):
        raise OutputError(
            f"there is no room to build in {folder}: {place}",
            f"free some space there, or {_other_place(is_cached)}",
        )
    if demands := fit.linker_demands(text, board):
        return demands
    lines = [line for line in text.splitlines() if _ERROR_LINE.search(line)]
    lines = lines[:_FIRST_ERRORS] or text.splitlines()[-_FIRST_ERRORS:]
    shown = "\n".join(f"  {line}" for line in lines)
    raise BuildError(
        f"the firmware for {board.name} does not build:\n{shown or f'  exit code {code}'}",
        f"{_remedy(text)}see {log}",
    )


def _output_of_cmake(folder: Path, board: Board, definitions: Sequence[str]) -> tuple[str, int]:
    """Configure and build; return what was printed and the exit code."""
    cmake, environment = build_programs()
    commands = (
        [cmake, "--preset", "firmware", *definitions],
        [cmake, "--build", "--preset", "firmware"],
    )
    text, code = "", 0
    with _temporary(folder / "build" / _TEMPORARY) as temporary:
        for command in commands:
            try:
                done = run(
                    command,
                    folder,
                    limit_s=_BUILD_LIMIT_S,
                    environment=environment,
                    errors_apart=False,
                    temporary=temporary,
                )
            except subprocess.TimeoutExpired:
                raise BuildError(
                    f"the firmware for {board.name} was not built within {_BUILD_LIMIT_S:.0f} s",
                    f"see what hangs with `{' '.join(command)}` in {folder}",
                ) from None
            text, code = text + done.stdout, done.returncode
            if code < 0:
                text += f"{Path(cmake).name} was ended: {signal.strsignal(-code)}\n"
            if code != 0:
                break
    return text, code


@contextmanager
def _temporary(folder: Path) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    finally:
        remove(folder)


def _remedy(log: str) -> str:
    """Return the remedy for missing external code, if the build lacks it."""
    if header := _MISSING_HEADER.search(log):
        return f"give the folder of {header[1]} with --include-dir; "
    names = list(dict.fromkeys(_MISSING_FUNCTION.findall(log)))
    if names:
        return f"give what defines {', '.join(names[:_FIRST_ERRORS])} with --source; "
    return ""


def _why_no_room(folder: Path, text: str) -> str | None:
    """Return what says that the disk is full, which tools tell imprecisely or not at all; None if
    it is not.
    """
    place = next((line.strip() for line in text.splitlines() if _NO_ROOM.search(line)), None)
    return place or _why_unwritable(folder)


def _why_unwritable(folder: Path) -> str | None:
    """Return why a build's smallest files do not fit; None if they do.

    CMake names what it cannot write, not the reason; with quotas, or without inodes, a disk has
    bytes left.
    """
    try:
        with _temporary(folder / "build" / _TEMPORARY) as place:
            (place / "room").write_bytes(bytes(_LEAST_ROOM))
    except OSError as error:
        if is_unwritable(error):
            return str(error.strerror)
    return None


# -- sizes -------------------------------------------------------------------------------------


def _measure(folder: Path, board: Board, modules: Sequence[Module]) -> Sizes:
    link = read_map((folder / "build" / "firmware.map").read_text("utf-8", "replace"))
    own_sections = {r.name: region_section(r.name) for r in board.memory if r.kind == "ram"}
    copies = {constants_section(r.name): r.name for r in board.memory if r.kind == "ram"}
    # Constants in flash regions behind the first.
    apart = {constants_section(r.name): r.name for r in board.regions("flash")[1:]}
    flash_sections = (*_FLASH_SECTIONS, *copies, *apart)
    flash = link.size(flash_sections)
    ram = link.size((*_RAM_SECTIONS, *own_sections.values(), *copies))
    stack, handler_stack = link.size([".stack"]), link.size([".handler_stack"])
    regions: tuple[RegionUse, ...] = ()
    if not board.is_host:
        script = (folder / "generated" / "firmware.ld").read_text(encoding="utf-8")
        match = re.search(r'REGION_ALIAS\("WORKSPACE", (\w+)\)', script)
        assert match, "the linker script names the region of the models' pools"
        data = board.regions("ram")[0].name
        used = {region.name: 0 for region in board.memory}
        used[board.regions("flash")[0].name] += flash - link.size(apart)
        used[data] += link.size((".data", ".bss")) + stack + handler_stack
        used[match[1]] += link.size([".workspace"])
        for name, section in own_sections.items():
            used[name] += link.size([section])
        for section, name in (copies | apart).items():
            used[name] += link.size([section])
        regions = tuple(RegionUse(r.name, used[r.name], r.size) for r in board.memory)
    models = {
        module.name: _measure_model(folder, link, module, copies, apart) for module in modules
    }
    sections: tuple[SectionUse, ...] = ()
    if not board.is_host:
        stacks = (".stack", ".handler_stack")
        ram_sections = (*_RAM_SECTIONS, *own_sections.values(), *copies, *stacks)
        sections = _measure_sections(link, modules, flash_sections, ram_sections)
    bound = None
    if not board.is_host:
        bound = stack_bound(folder / _ELF, board.cpu)
    owners = flash_owners(link, {m.name: _objects(link, m) for m in modules}, flash_sections)
    models = {
        name: replace(model, flash_owners=owners.models[name]) for name, model in models.items()
    }
    return Sizes(flash, ram, stack, handler_stack, regions, models, sections, bound, owners.shared)


def _measure_sections(
    link: LinkMap,
    modules: Sequence[Module],
    flash_sections: Sequence[str],
    ram_sections: Sequence[str],
) -> tuple[SectionUse, ...]:
    owners = dict.fromkeys((piece.file for piece in link.pieces), FIRMWARE)
    owners |= {file: C_LIBRARY for file in owners if file.endswith(")")}
    for module in modules:
        owners |= dict.fromkeys(_objects(link, module), module.name)
    parts: dict[tuple[str, bool, bool], Counter[str]] = {}
    for output in dict.fromkeys((*flash_sections, *ram_sections)):
        where = (output in flash_sections, output in ram_sections)
        rest = link.sections.get(output, 0)
        for piece in link.pieces:
            if piece.output == output:
                kind = next(name for name, pattern in _KINDS if pattern.match(piece.section))
                parts.setdefault((kind, *where), Counter())[owners[piece.file]] += piece.size
                rest -= piece.size
        if rest:
            is_stack = output.endswith("stack")
            kind = f"{'stack' if output == '.stack' else 'stack of interrupts'}"
            name = kind if is_stack else "between and around them"
            owner = FIRMWARE if is_stack else PADDING
            parts.setdefault((name, *where), Counter())[owner] += rest
    return tuple(SectionUse(*key, dict(counts)) for key, counts in parts.items())


def _objects(link: LinkMap, module: Module) -> set[str]:
    """Return the object files of a model, and those of the C library that only it needs."""
    objects = f"CMakeFiles/model_{model_key(module)}.dir/"
    # Objects that came with the library are in its folder.
    compiled = re.compile(rf"/{module.name}_lib\d+\.o$")
    origins = {piece.file: link.origin(piece.file) for piece in link.pieces}
    return {f for f, origin in origins.items() if objects in origin or compiled.search(origin)}


def _measure_model(
    folder: Path, link: LinkMap, module: Module, copies: Mapping[str, str], apart: Mapping[str, str]
) -> ModelSizes:
    """Return the sizes of a model.

    ``copies`` and ``apart`` are the regions of the output sections with copied constants and of
    those with constants in flash behind the first.
    """
    placed = {**copies, **apart}
    objects = f"CMakeFiles/model_{model_key(module)}.dir/"

    def size(pieces: Iterator[Piece]) -> int:
        return sum(piece.size for piece in pieces)

    mine = _objects(link, module)
    own = [piece for piece in link.pieces if piece.file in mine]
    frames = [0]
    usage = [*(folder / "build" / objects).rglob("*.su")]
    usage += (folder / "models").glob(f"*/codegen/host/lib/{module.name}_lib*.su")
    for path in usage:
        for line in path.read_text("utf-8", "replace").splitlines():
            if match := _STACK_USE.search(line):
                frames.append(int(match[1]))
    return ModelSizes(
        flash_bytes=size(p for p in own if p.output in _FLASH_SECTIONS or p.output in placed),
        constants_bytes=size(piece for piece in own if piece.section.startswith(".rodata")),
        workspace_bytes=size(p for p in own if p.section.startswith(".bss.noinit.tvm"))
        - sum(
            p.nbytes for p in module.workspace_pools if p.persistent and p.is_static(module.pools)
        ),
        stack_frame_bytes=max(frames),
        constants_region=next((placed[p.output] for p in own if p.output in placed), None),
        constants_are_copied=any(p.output in copies for p in own),
    )


def _check_stack(
    sizes: Sizes, board: Board, modules: Sequence[Module], workspace: Workspace
) -> None:
    """Raise unless the firmware's own depth and the largest frame of a model fit the stack."""
    if board.is_host:
        return
    frame = max((model.stack_frame_bytes for model in sizes.models.values()), default=0)
    needed = board.base.stack_bytes + frame
    if needed > board.stack_bytes:
        note = f"{frame} for the largest function of a model"
        code = board.regions("flash")[0]
        used = next(region.used for region in sizes.regions if region.name == code.name)
        demands = (
            fit.Demand("flash", used, code.size, f"region {code.name!r}"),
            fit.Demand("stack", needed, board.stack_bytes, note),
        )
        raise fit.fit_error(modules, board, demands, workspace)
