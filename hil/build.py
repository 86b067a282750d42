"""Builds firmware: project, CMake, cache, sizes.

A build is kept under a key made of everything that goes into it, so the same input is never built
twice. Builds of the same key wait for each other; a marker file, written last, tells a complete
build from one that was interrupted.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from hil import fit
from hil.board import Board
from hil.errors import BuildError, InputError
from hil.glue import model_key
from hil.linkmap import LinkMap, Piece, read_map
from hil.placement import Workspace, check_placement
from hil.project import (
    check_objects,
    constants_section,
    modules_of,
    project_files,
    region_section,
    with_build_id,
)
from hil.stack import stack_bound
from hilc.library import ModelLibrary, Module
from hilc.outputs import check_folder, looks_like_a_file, update_folder

#: Written last: what the build found out. Its presence says that the build is complete.
_RESULT = "firmware.json"
_LOG = "build.log"
_TOLD = logging.getLogger("hil.build")
_ELF = "build/firmware.elf"
#: Part of every key: raise it when this module builds the same project differently.
_KEY_VERSION = b"3"
#: A file by which a project is known that an older version made.
_MARK = "generated/hil_config.h"
#: What CMake and Ninja make in the folder ``build``; anything else there is the user's.
_CMAKE_ENTRIES = (
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
_FIRST_ERRORS = 5
#: A build in the cache that nobody used for so long is removed.
_KEPT_DAYS = 30
_ERROR_LINE = re.compile(r"error:|CMake Error|undefined reference|multiple definition|cannot find")
_STACK_USE = re.compile(r"\t(\d+)\t(?:static|dynamic,bounded)$")

_FLASH_SECTIONS = (".text", ".rodata", ".data", ".data.rel.ro")
_RAM_SECTIONS = (".data", ".bss", ".workspace")
#: What the input sections hold; the first that fits.
_KINDS = (
    ("weights and tables of models", re.compile(r"\.rodata\.tvm\b")),
    ("pools and buffers of models", re.compile(r"\.bss\.noinit\.tvm\b")),
    ("constants", re.compile(r"\.(rodata|data\.rel\.ro)\b")),
    ("data with initial values", re.compile(r"\.data\b")),
    ("data without", re.compile(r"\.bss\b|COMMON$")),
    ("code", re.compile(r"")),
)
#: Whose they are, beside the models' own.
FIRMWARE, C_LIBRARY, PADDING = "firmware", "C library", "padding"


@dataclass(frozen=True)
class ModelSizes:
    """What one model adds to an image, and the most stack that one of its functions takes."""

    #: Code, constants and glue, and what of the C library only this model uses.
    flash_bytes: int
    constants_bytes: int
    #: Its own pools, and its input and output buffers where they are not in a pool. What several
    #: models work in is the firmware's.
    workspace_bytes: int
    stack_frame_bytes: int
    #: The RAM region that the constants are copied to at the start; None where flash is read.
    constants_region: str | None = None


@dataclass(frozen=True)
class RegionUse:
    """How full a memory region is; stacks included."""

    name: str
    used: int
    size: int


@dataclass(frozen=True)
class SectionUse:
    """What of one kind an image holds, in bytes by whose it is."""

    name: str
    in_flash: bool
    in_ram: bool
    parts: Mapping[str, int]

    @property
    def size(self) -> int:
        return sum(self.parts.values())


@dataclass(frozen=True)
class Sizes:
    """What an image takes, from the linker's map."""

    flash_bytes: int
    #: Static data: the firmware's and the models', without the stacks.
    ram_bytes: int
    stack_bytes: int
    handler_stack_bytes: int
    regions: tuple[RegionUse, ...]
    models: Mapping[str, ModelSizes]
    #: All of it, stacks included: what is in flash adds up to ``flash_bytes``, what is in RAM to
    #: ``ram_bytes`` and the stacks. None of it for a process of this machine.
    sections: tuple[SectionUse, ...] = ()
    #: What calls and interrupts take of the stack at most (:mod:`hil.stack`), where that is known.
    stack_bound_bytes: int | None = None


@dataclass(frozen=True)
class Firmware:
    """A built firmware project."""

    folder: Path
    elf: Path
    #: 32 hexadecimal digits that the firmware also reports itself.
    build_id: str
    board: Board
    libraries: tuple[ModelLibrary, ...]
    sizes: Sizes


def build(
    libraries: Sequence[ModelLibrary],
    board: Board,
    output: Path | None = None,
    *,
    workspace: str = "own",
    warnings_as_errors: bool = False,
    force: bool = False,
) -> Firmware:
    """The firmware for ``board`` with all models of ``libraries``.

    ``workspace`` is ``own`` or ``shared``: whether models whose pools the firmware provides work in
    the same bytes (:mod:`hil.placement`). Without ``output`` the project lies in the cache; an
    ``output`` folder that this function made before is brought up to date: what the user has added
    stays, and what they have edited is an InputError unless with ``force``. Raises
    :class:`~hil.fit.FitError` where the board is too small, :class:`~hil.errors.BuildError` where a
    tool is missing or fails.
    """
    modules = modules_of(libraries)
    check_objects(libraries, board)
    placed = check_placement(modules, board, workspace)
    if not board.is_host:
        fit.check_estimate(modules, board, placed)
    layouts = fit.layouts(modules, board, placed)
    definitions = ("-DHIL_WERROR=ON",) if warnings_as_errors else ()
    files = _project(libraries, board, layouts[0], placed)
    build_id = _key(files, (_compiler_version(board), *definitions))
    folder = cache_folder() / "builds" / build_id if output is None else output.resolve()
    start = time.monotonic()
    with _locked(folder):
        if output is not None:
            check_project(folder, force=force)
        sizes = _read_result(folder, build_id)
        if output is not None and not _is_unchanged(folder, with_build_id(files, build_id)):
            sizes = None
        if sizes is not None:
            os.utime(folder / _RESULT)  # used now: see _forget_unused
            _TOLD.info("firmware %s for %s was built before: %s", build_id, board.name, folder)
        else:
            _clear(folder, is_cached=output is None)
            for layout in layouts:
                # The estimate allows each of them, the linker may not.
                project = _project(libraries, board, layout, placed)
                update_folder(folder, with_build_id(project, build_id), force=force)
                demands = _run_cmake(folder, board, definitions)
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
            if output is None:
                _forget_unused()
    return Firmware(folder, folder / _ELF, build_id, board, tuple(libraries), sizes)


def create_project(
    libraries: Sequence[ModelLibrary],
    board: Board,
    output: Path,
    *,
    workspace: str = "own",
    force: bool = False,
) -> None:
    """Writes the project of :func:`build` without building it.

    Raises as :func:`build` does where the board is too small by the estimate, and for a folder that
    holds something else.
    """
    modules = modules_of(libraries)
    check_objects(libraries, board)
    placed = check_placement(modules, board, workspace)
    if not board.is_host:
        fit.check_estimate(modules, board, placed)
    files = _project(libraries, board, fit.layouts(modules, board, placed)[0], placed)
    build_id = _key(files, (_compiler_version(board),))
    with _locked(output.resolve()):
        check_project(output, force=force)
        _clear(output, is_cached=False)
        update_folder(output, with_build_id(files, build_id), force=force)


def _project(
    libraries: Sequence[ModelLibrary], board: Board, layout: fit.Layout, workspace: Workspace
) -> dict[str, bytes]:
    return project_files(libraries, board, layout.workspace, workspace, layout.constants)


def check_project(output: str | Path, *, force: bool = False) -> None:
    """Refuses an ``output`` that :func:`build` could not write, or may not without ``force``."""
    if looks_like_a_file(output):
        raise InputError(
            f"{str(output)!r} is no name for a firmware project, which is a folder",
            f"give another name, or write {output}/; the ELF file is build/firmware.elf in it",
        )
    check_folder(output, kind="a firmware project", marks=(_MARK,), force=force)


def read_firmware(libraries: Sequence[ModelLibrary], board: Board, folder: Path) -> Firmware | None:
    """The firmware that :func:`build` made in ``folder``, also with another version of hil.

    None where there is none, or where it was not finished.
    """
    try:
        text = (folder / _RESULT).read_text(encoding="utf-8")
        build_id = str(json.loads(text)["build_id"])
        sizes = _read_result(folder, build_id)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise BuildError(f"{folder / _RESULT} cannot be read: {error}", "build again") from None
    if sizes is None:
        return None
    return Firmware(folder, folder / _ELF, build_id, board, tuple(libraries), sizes)


def cache_folder() -> Path:
    """Where builds are kept: ``HIL_CACHE``, or ``hil`` in the user's cache folder."""
    if chosen := os.environ.get("HIL_CACHE"):
        return Path(chosen).resolve()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "hil"


# -- key and cache -----------------------------------------------------------------------------


def _key(files: Mapping[str, bytes], settings: Sequence[str]) -> str:
    digest = hashlib.sha256(_KEY_VERSION)
    for part in settings:
        digest.update(f"{len(part)}:{part}".encode())
    for path in sorted(files):
        digest.update(f"{path}:{len(files[path])}:".encode())
        digest.update(files[path])
    return digest.hexdigest()[:32]


def _compiler_version(board: Board) -> str:
    """First line of the compiler's own description."""
    compiler = "cc" if board.is_host else "arm-none-eabi-gcc"
    path = shutil.which(compiler)
    if path is None:
        package = "gcc" if board.is_host else "gcc-arm-none-eabi libnewlib-arm-none-eabi"
        raise BuildError(
            f"the compiler {compiler} is not in PATH", f"install it: apt install {package}"
        )
    result = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    if result.returncode != 0 or not result.stdout:
        raise BuildError(
            f"{path} --version failed: {result.stderr.strip()}", "install the compiler again"
        )
    return result.stdout.splitlines()[0]


def _forget_unused() -> None:
    """Removes what nobody built or used for a month, so that nightly runs do not fill the disk."""
    oldest_s = time.time() - _KEPT_DAYS * 24 * 3600
    # Another process may do the same, or be faster: what is gone, or in use, is not our concern.
    for folder in (cache_folder() / "builds").iterdir():
        with suppress(FileNotFoundError, BlockingIOError), _locked(folder, wait=False):
            result = folder / _RESULT
            if (result if result.exists() else folder).stat().st_mtime < oldest_s:
                shutil.rmtree(folder)


@contextmanager
def _locked(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Holds the lock of ``folder``; it lies in the cache, since the folder may be cleared.

    Without ``wait``, a lock that another process holds raises BlockingIOError.
    """
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:32]
    path = cache_folder() / "locks" / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.open("w")
    except OSError as error:
        raise BuildError(
            f"the cache folder cannot be written: {error}", "set HIL_CACHE to another folder"
        ) from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _is_unchanged(folder: Path, files: Mapping[str, bytes]) -> bool:
    """Whether nobody edited the project; where the pools lie is the result of an attempt."""
    return all(
        (folder / path).is_file() and (folder / path).read_bytes() == data
        for path, data in files.items()
        if path != "generated/firmware.ld"
    )


def _clear(folder: Path, *, is_cached: bool) -> None:
    """Removes what an interrupted or different build left, but nothing of the user's."""
    if is_cached:
        _remove(folder)
    else:
        for name in (_RESULT, _LOG, *(f"build/{name}" for name in _CMAKE_ENTRIES)):
            _remove(folder / name)
    folder.mkdir(parents=True, exist_ok=True)


def _remove(path: Path) -> None:
    """Removes a file, a link or a folder, where there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _write_result(folder: Path, build_id: str, sizes: Sizes) -> None:
    temporary = folder / f"{_RESULT}.new"
    text = json.dumps({"build_id": build_id, "sizes": asdict(sizes)}, indent=2)
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(folder / _RESULT)


def _read_result(folder: Path, build_id: str) -> Sizes | None:
    """The sizes of a complete build of this key, if the folder holds one."""
    path = folder / _RESULT
    if not path.is_file() or not (folder / _ELF).is_file():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if found["build_id"] != build_id:
        return None
    sizes = found["sizes"]
    return Sizes(
        **{
            **sizes,
            "regions": tuple(RegionUse(**use) for use in sizes["regions"]),
            "models": {name: ModelSizes(**model) for name, model in sizes["models"].items()},
            "sections": tuple(SectionUse(**use) for use in sizes["sections"]),
        }
    )


# -- CMake -------------------------------------------------------------------------------------


def _run_cmake(folder: Path, board: Board, definitions: Sequence[str]) -> tuple[fit.Demand, ...]:
    """Configures and builds. Returns what does not fit: empty when the image is there."""
    environment = {**os.environ, "PATH": os.pathsep.join([*_tool_folders(), os.environ["PATH"]])}
    cmake = shutil.which("cmake", path=environment["PATH"])
    if cmake is None or shutil.which("ninja", path=environment["PATH"]) is None:
        raise BuildError(
            f"{'ninja' if cmake else 'cmake'} is not in PATH", "pip install cmake ninja"
        )
    log = folder / _LOG
    commands = (
        [cmake, "--preset", "firmware", *definitions],
        [cmake, "--build", "--preset", "firmware"],
    )
    with log.open("w", encoding="utf-8") as stream:
        for command in commands:
            result = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                check=False,
            )
            if result.returncode != 0:
                break
    if result.returncode == 0:
        return ()
    text = log.read_text(encoding="utf-8", errors="replace")
    if demands := fit.linker_demands(text, board):
        return demands
    lines = [line for line in text.splitlines() if _ERROR_LINE.search(line)] or text.splitlines()
    shown = "\n".join(f"  {line}" for line in lines[:_FIRST_ERRORS])
    raise BuildError(f"the firmware for {board.name} does not build:\n{shown}", f"see {log}")


def _tool_folders() -> list[str]:
    """Folders of the CMake and Ninja that came with the Python environment, where they did."""
    folders = []
    for package, attribute in (("cmake", "CMAKE_BIN_DIR"), ("ninja", "BIN_DIR")):
        with suppress(ImportError):
            folders.append(str(getattr(import_module(package), attribute)))
    # An empty one, for a package that does not find its program, would be the working folder.
    return [folder for folder in folders if folder]


# -- sizes -------------------------------------------------------------------------------------


def _measure(folder: Path, board: Board, modules: Sequence[Module]) -> Sizes:
    link = read_map((folder / "build" / "firmware.map").read_text(encoding="utf-8"))
    own_sections = {r.name: region_section(r.name) for r in board.memory if r.kind == "ram"}
    copies = {constants_section(r.name): r.name for r in board.memory if r.kind == "ram"}
    flash_sections = (*_FLASH_SECTIONS, *copies)
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
        used[board.regions("flash")[0].name] += flash
        used[data] += link.size((".data", ".bss")) + stack + handler_stack
        used[match[1]] += link.size([".workspace"])
        for name, section in own_sections.items():
            used[name] += link.size([section])
        for section, name in copies.items():
            used[name] += link.size([section])
        regions = tuple(RegionUse(r.name, used[r.name], r.size) for r in board.memory)
    models = {module.name: _measure_model(folder, link, module, copies) for module in modules}
    sections: tuple[SectionUse, ...] = ()
    if not board.is_host:
        stacks = (".stack", ".handler_stack")
        ram_sections = (*_RAM_SECTIONS, *own_sections.values(), *copies, *stacks)
        sections = _measure_sections(link, modules, flash_sections, ram_sections)
    bound = None if board.is_host else stack_bound(folder / _ELF)
    return Sizes(flash, ram, stack, handler_stack, regions, models, sections, bound)


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
    """The object files of a model, and those of the C library that only it needs."""
    objects = f"CMakeFiles/model_{model_key(module)}.dir/"
    # Objects that came with the library lie in its folder.
    compiled = re.compile(rf"/{module.name}_lib\d+\.o$")
    origins = {piece.file: link.origin(piece.file) for piece in link.pieces}
    return {f for f, origin in origins.items() if objects in origin or compiled.search(origin)}


def _measure_model(
    folder: Path, link: LinkMap, module: Module, copies: Mapping[str, str]
) -> ModelSizes:
    """``copies`` are the regions of the output sections with copied constants."""
    objects = f"CMakeFiles/model_{model_key(module)}.dir/"

    def size(pieces: Iterator[Piece]) -> int:
        return sum(piece.size for piece in pieces)

    mine = _objects(link, module)
    own = [piece for piece in link.pieces if piece.file in mine]
    frames = [0]
    usage = [*(folder / "build" / objects).rglob("*.su")]
    usage += (folder / "models").glob(f"*/codegen/host/lib/{module.name}_lib*.su")
    for path in usage:
        for line in path.read_text(encoding="utf-8").splitlines():
            if match := _STACK_USE.search(line):
                frames.append(int(match[1]))
    return ModelSizes(
        flash_bytes=size(p for p in own if p.output in _FLASH_SECTIONS or p.output in copies),
        constants_bytes=size(piece for piece in own if piece.section.startswith(".rodata")),
        workspace_bytes=size(piece for piece in own if piece.section.startswith(".bss.noinit.tvm")),
        stack_frame_bytes=max(frames),
        constants_region=next((copies[p.output] for p in own if p.output in copies), None),
    )


def _check_stack(
    sizes: Sizes, board: Board, modules: Sequence[Module], workspace: Workspace
) -> None:
    """The firmware's own depth and the largest frame of a model must fit the stack."""
    if board.is_host:
        return
    frame = max((model.stack_frame_bytes for model in sizes.models.values()), default=0)
    needed = board.base.stack_bytes + frame
    if needed > board.stack_bytes:
        note = f"{frame} for the largest function of a model"
        code = board.regions("flash")[0]
        demands = (
            fit.Demand("flash", sizes.flash_bytes, code.size, f"region {code.name!r}"),
            fit.Demand("stack", needed, board.stack_bytes, note),
        )
        raise fit.fit_error(modules, board, demands, workspace)
