"""The files of a library in a tar or a folder: written the same every time, read without trust."""

from __future__ import annotations

import io
import os
import re
import stat
import tarfile
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from hilc.errors import InputError
from hilc.support.outputs import (
    FOLDER_MARKS,
    MANIFEST,
    check_file,
    check_folder,
    looks_like_a_file,
    update_folder,
    write_file,
)
from hilc.support.tar import is_tar, read_members

#: The file that marks a folder as a library's.
METADATA = FOLDER_MARKS["a library"]

# An archive may come from anywhere: what one may hold is bounded, far above what any model needs.
_MAX_FILES = 10_000
_MAX_BYTES = 512 << 20

# 1980-01-01, the earliest date that every archive format can hold.
_EPOCH_S = 315532800


def export_time_s() -> int:
    """The time that is written into archives: ``SOURCE_DATE_EPOCH``, else a fixed one.

    The true time would make two archives of the same model differ.
    """
    text = os.environ.get("SOURCE_DATE_EPOCH", str(_EPOCH_S))
    if not re.fullmatch(r"[0-9]{1,11}", text):
        raise InputError(
            f"SOURCE_DATE_EPOCH is {text!r}",
            "set it to a number of seconds since 1970, or unset it",
        )
    return int(text)


# Writing --------------------------------------------------------------------------------------


def check_target(path: str | Path, *, force: bool = False) -> None:
    """Refuses a place that :func:`write_files` cannot write, or may not without ``force``.

    An archive's name ends in ``.tar``; any other is a folder's, unless it has a file's ending.
    """
    if Path(path).suffix == ".tar":
        check_file(path, kind="an archive of hil's", is_own=_is_own, force=force)
        return
    if looks_like_a_file(path):
        raise InputError(
            f"{str(path)!r} is no name for a library: it does not end in .tar",
            f"give a name that ends in .tar, or for a folder of this name write {str(path)}/",
        )
    check_folder(path, kind="a library", force=force)


def write_files(files: Mapping[str, bytes], path: str | Path, *, force: bool = False) -> None:
    """Write an archive when ``path`` ends in ``.tar``, else a folder.

    An earlier library there is replaced; what the user has edited since only with ``force``, and
    nothing else at all.
    """
    check_target(path, force=force)
    if Path(path).suffix == ".tar":
        write_file(path, tar_bytes(files))
    else:
        update_folder(Path(path), files, force=force)


def tar_bytes(files: Mapping[str, bytes]) -> bytes:
    """The archive of ``files``, the same every time."""
    time_s = export_time_s()
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in sorted(files.items()):
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(data)
            member.mtime = time_s
            member.mode = 0o644
            member.uname = member.gname = "root"
            tar.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def is_library(path: Path) -> bool:
    """Whether the file is an archive in Model Library Format; it is not read further."""
    return METADATA in _member_names(path)


def _is_own(path: Path) -> bool:
    """Whether hil wrote it: the archive has our description of a model."""
    names = _member_names(path)
    return METADATA in names and any(re.fullmatch(r"hil/[^/]+\.json", name) for name in names)


def _member_names(path: Path) -> list[str]:
    """The members of a tar; none of what is no tar."""
    try:
        with path.open("rb") as file:
            members = islice(read_members(file, str(path)), _MAX_FILES)
            return [member.name.removeprefix("./") for member in members]
    except (InputError, OSError):
        return []


# Reading --------------------------------------------------------------------------------------


def read_files(path: Path) -> dict[str, bytes]:
    """The files of an archive or a folder, by their path in it. What is wrong is an InputError.

    No path leaves the archive, none is a link, and their number and sizes are bounded.
    """
    files = dict(_read_folder(path) if path.is_dir() else _read_tar(path))
    files.pop(MANIFEST, None)  # says what was written to a folder, and is no part of the library
    for name in files:
        parents = name.split("/")[:-1]
        for depth in range(1, len(parents) + 1):
            if "/".join(parents[:depth]) in files:
                raise InputError(f"{path} has {name!r} below a file")
    return files


def is_archive(path: Path) -> bool:
    """Whether ``path`` is a folder or a tar, and no model file; its contents are not looked at."""
    if path.is_dir() or path.suffix == ".tar":
        return True
    if not path.is_file():
        return False  # a pipe can be read only once
    with path.open("rb") as file:
        return is_tar(file)


def _read_tar(path: Path) -> Iterator[tuple[str, bytes]]:
    if not path.is_file():
        raise InputError(f"there is no library {path}", "compile the model first")
    budget = _Budget(str(path))
    try:
        with path.open("rb") as file:
            for member in read_members(file, str(path)):
                name = budget.admit(member.name, member.size)
                if member.kind == "folder":
                    continue
                if member.kind != "file":
                    raise InputError(f"{path} has the member {name!r}, which is not a plain file")
                file.seek(member.offset)
                data = file.read(member.size)
                if len(data) != member.size:
                    raise InputError(f"{path} is cut off in the member {name!r}")
                yield name, data
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None


def _read_folder(path: Path) -> Iterator[tuple[str, bytes]]:
    budget = _Budget(str(path))
    try:
        for folder, _, names in os.walk(path, onerror=_raise):
            for name in sorted(names):
                file = Path(folder, name)
                relative = file.relative_to(path).as_posix()
                status = file.lstat()
                if not stat.S_ISREG(status.st_mode):
                    raise InputError(f"{path} has {relative!r}, which is not a plain file")
                yield budget.admit(relative, status.st_size), file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {error.filename or path}: {error.strerror}") from None


def _raise(error: OSError) -> None:
    raise error


class _Budget:
    """Checks the members of an archive as they are met, before their bytes are read."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._names: set[str] = set()
        self._files = 0
        self._bytes = 0

    def admit(self, name: str, nbytes: int) -> str:
        """The member's path inside the archive, without ``.``; InputError when it is not safe."""
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if name.startswith("/") or ".." in parts or re.search(r"[\\:\x00-\x1f]", name):
            raise InputError(f"{self._where} has a member that leaves its folder: {name!r}")
        self._files += 1
        self._bytes += nbytes
        if self._files > _MAX_FILES:
            raise InputError(f"{self._where} has more than {_MAX_FILES} members")
        if nbytes < 0 or self._bytes > _MAX_BYTES:
            raise InputError(f"{self._where} holds more than {_MAX_BYTES} bytes")
        path = "/".join(parts)
        if path in self._names and path:
            raise InputError(f"{self._where} has two members {path!r}")
        self._names.add(path)
        return path
