"""Files of a library in a tar or a folder: written deterministically, read as untrusted data."""

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

#: File that marks a folder as a library.
METADATA = FOLDER_MARKS["a library"]

# Bounds for untrusted archives, far above the size of any model.
_MAX_FILES = 10_000
_MAX_BYTES = 512 << 20

# 1980-01-01, the earliest date that every archive format can hold.
_EPOCH_S = 315532800


def export_time_s() -> int:
    """Return the time stamp of archives: ``SOURCE_DATE_EPOCH``, else a constant.

    The true time would make two archives of the same model differ.

    Raise :class:`~hilc.errors.InputError` if ``SOURCE_DATE_EPOCH`` is not a number of seconds.
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
    """Raise unless :func:`write_files` can write to the path, and may without or with ``force``.

    An archive's name ends in ``.tar``; any other is a folder's, unless it has a file's ending.
    """
    if Path(path).suffix == ".tar":
        check_file(path, kind="an archive of hil's", is_own=_is_own, force=force)
        return
    if looks_like_a_file(path):
        raise InputError(
            f"{str(path)!r} is not a valid library path: it does not end in .tar",
            f"end it in .tar, or write {str(path)}/ for a folder",
        )
    check_folder(path, kind="a library", force=force)


def write_files(files: Mapping[str, bytes], path: str | Path, *, force: bool = False) -> None:
    """Write an archive if ``path`` ends in ``.tar``, else a folder.

    An earlier library there is replaced; files that the user has edited only with ``force``; other
    files never.
    """
    check_target(path, force=force)
    if Path(path).suffix == ".tar":
        write_file(path, tar_bytes(files))
    else:
        update_folder(Path(path), files, force=force)


def tar_bytes(files: Mapping[str, bytes]) -> bytes:
    """Return a deterministic tar archive of ``files``."""
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
    """Return whether the file is an archive in Model Library Format; only its member names are
    read.
    """
    return METADATA in _member_names(path)


def _is_own(path: Path) -> bool:
    """Return whether hil wrote it: the archive has hil's description of a model."""
    names = _member_names(path)
    return METADATA in names and any(re.fullmatch(r"hil/[^/]+\.json", name) for name in names)


def _member_names(path: Path) -> list[str]:
    """Return the members of a tar; an empty list for other files."""
    try:
        with path.open("rb") as file:
            members = islice(read_members(file, str(path)), _MAX_FILES)
            return [member.name.removeprefix("./") for member in members]
    except (InputError, OSError):
        return []


# Reading --------------------------------------------------------------------------------------


def read_files(path: Path) -> dict[str, bytes]:
    """Return the files of an archive or a folder, by their path in it; raise InputError if it is
    invalid.

    No path leaves the archive, none is a link, and their number and sizes are bounded.
    """
    files = dict(_read_folder(path) if path.is_dir() else _read_tar(path))
    files.pop(MANIFEST, None)  # describes a written folder, and is not part of the library
    for name in files:
        parents = name.split("/")[:-1]
        for depth in range(1, len(parents) + 1):
            if "/".join(parents[:depth]) in files:
                raise InputError(f"{path} has the member {name!r} below a file")
    return files


def is_archive(path: Path) -> bool:
    """Return whether ``path`` is a folder or a tar, as opposed to a model file."""
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
                    raise InputError(f"{path} is truncated in the member {name!r}")
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
    """Check of an archive's members before their bytes are read: paths, number and sizes."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._names: set[str] = set()
        self._files = 0
        self._bytes = 0

    def admit(self, name: str, nbytes: int) -> str:
        """Return the member's path inside the archive, without ``.``; raise InputError if it is
        unsafe.
        """
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if name.startswith("/") or ".." in parts or re.search(r"[\\:\x00-\x1f]", name):
            raise InputError(f"{self._label} has a member that leaves its folder: {name!r}")
        self._files += 1
        self._bytes += nbytes
        if self._files > _MAX_FILES:
            raise InputError(f"{self._label} has more than {_MAX_FILES} members")
        if nbytes < 0 or self._bytes > _MAX_BYTES:
            raise InputError(f"{self._label} holds more than {_MAX_BYTES} bytes")
        path = "/".join(parts)
        if path in self._names and path:
            raise InputError(f"{self._label} has two members {path!r}")
        self._names.add(path)
        return path
