"""External code that a library's own code includes or calls, as files of the library.

An archive may hold code that needs a vendor's library: TVM's with CMSIS-NN, an external module that
calls a driver. The headers and sources of it become files below ``extra`` with the library, so that
every build of it has them, whatever becomes of the folders that they came from::

    extra/00_<digest>/include/arm_nnfunctions.h        a folder of headers
    extra/01_<digest>/source/arm_convolve_s8.c         a source, or a folder of them

The digest is that of the contents: libraries with the same code have the same files.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hilc.errors import InputError

_HEADERS = (".h", ".hh", ".hpp", ".inc", ".inl", ".def")
_SOURCES = (".c", ".S", ".s")
_OBJECTS = (".o",)
#: Suffixes of headers.
CODE_SUFFIXES = (*_SOURCES, *_OBJECTS)

# Far above any library for a microcontroller; less than a folder that was named by mistake.
_MAX_FILES = 5_000
_MAX_BYTES = 64 << 20

#: Characters without special meaning to CMake, make and the shell.
SAFE_PATH = re.compile(r"[A-Za-z0-9_.+/-]+")

#: Folder of external code in a library.
EXTRA = "extra/"
_PATH = re.compile(rf"({EXTRA}\w+/(include|source))/(.+)")


@dataclass(frozen=True)
class ExtraCode:
    """Parts of external code, by their paths in a library."""

    #: Folders to search for headers, in the user's order.
    includes: tuple[str, ...]
    sources: tuple[str, ...]
    objects: tuple[str, ...]


def is_extra(path: str) -> bool:
    """Return whether a library's file is external code."""
    return path.startswith(EXTRA)


def extra_code(files: Mapping[str, bytes]) -> ExtraCode:
    """Return the external code among a library's ``files``."""
    matches = [match for path in sorted(files) if (match := _PATH.fullmatch(path))]
    # A source's own folder is searched implicitly; the root of its folder is added.
    folders = tuple(dict.fromkeys(match[1] for match in matches))
    code = [match[0] for match in matches if match[2] == "source"]
    return ExtraCode(
        folders,
        tuple(path for path in code if path.endswith(_SOURCES)),
        tuple(path for path in code if path.endswith(_OBJECTS)),
    )


def extra_files(
    include_dirs: Sequence[str | Path] = (), sources: Sequence[str | Path] = ()
) -> dict[str, bytes]:
    """Return the library files for headers below ``include_dirs`` and for ``sources``: files of C,
    assembly or objects, with the headers beside them, or folders of such files.
    """
    parts = [*(("include", Path(d)) for d in include_dirs), *(("source", Path(s)) for s in sources)]
    files: dict[str, bytes] = {}
    for index, (kind, path) in enumerate(parts):
        found = dict(_headers(path) if kind == "include" else _code(path))
        digest = hashlib.sha256()
        for name in sorted(found):
            digest.update(f"{name}:{len(found[name])}:".encode() + found[name])
        folder = f"{EXTRA}{index:02}_{digest.hexdigest()[:10]}/{kind}"
        files |= {f"{folder}/{name}": data for name, data in found.items()}
    return files


def _headers(folder: Path) -> Iterator[tuple[str, bytes]]:
    if not folder.is_dir():
        raise InputError(f"the include folder {folder} does not exist", "name a folder of headers")
    found = list(_below(folder, _HEADERS))
    if not found:
        raise InputError(
            f"{folder} has no headers ({', '.join(_HEADERS)})", "give a folder of headers"
        )
    yield from found


def _code(path: Path) -> Iterator[tuple[str, bytes]]:
    if path.is_dir():
        found = list(_below(path, (*CODE_SUFFIXES, *_HEADERS)))
        if not any(name.endswith(CODE_SUFFIXES) for name, _ in found):
            raise InputError(
                f"{path} has no sources ({', '.join(CODE_SUFFIXES)})", "give a folder of sources"
            )
        yield from found
        return
    if not path.is_file():
        raise InputError(f"the source {path} does not exist", "give a file or a folder")
    if path.suffix not in CODE_SUFFIXES:
        raise InputError(
            f"the source {path} is not C, assembly or an object",
            f"give a file that ends in {', '.join(CODE_SUFFIXES)}, or a folder of such files",
        )
    yield path.name, path.read_bytes()
    for header in sorted(path.parent.iterdir()):
        if header.suffix in _HEADERS and header.is_file():
            yield header.name, header.read_bytes()


def _below(folder: Path, suffixes: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Yield the files below ``folder`` with one of the suffixes, by their path in it."""
    files = nbytes = 0
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(root, name)
            if path.suffix not in suffixes or not path.is_file():
                continue
            relative = path.relative_to(folder).as_posix()
            if not SAFE_PATH.fullmatch(relative):
                raise InputError(
                    f"{path} has a name that build tools would misinterpret",
                    "rename it with letters, digits, _, -, + and .",
                )
            files, nbytes = files + 1, nbytes + path.stat().st_size
            if files > _MAX_FILES or nbytes > _MAX_BYTES:
                raise InputError(
                    f"{folder} holds more than {_MAX_FILES} files or {_MAX_BYTES >> 20} MiB",
                    "give only the folders that are needed",
                )
            yield relative, path.read_bytes()
