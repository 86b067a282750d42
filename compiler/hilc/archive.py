"""The files of a library in a tar or a folder: written the same every time, read without trust."""

from __future__ import annotations

import io
import os
import re
import stat
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from hilc.errors import InputError

#: The file that marks a folder as a library's.
METADATA = "metadata.json"
#: The folders of a library, ours and TVM's.
_PARTS = ("codegen", "hil", "parameters", "runtime", "src", "templates")

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


def write_files(files: Mapping[str, bytes], path: Path) -> None:
    """Write an archive when ``path`` ends in ``.tar``, else a folder.

    A folder may hold an earlier library, which is replaced, but nothing else.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".tar":
            _write_tar(files, path)
        else:
            _write_folder(files, path)
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror}", "choose a place that can be written to"
        ) from None


def _write_tar(files: Mapping[str, bytes], path: Path) -> None:
    time_s = export_time_s()
    # Whoever reads the archive meets the old one or the whole new one.
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with tarfile.open(partial, "w", format=tarfile.PAX_FORMAT) as tar:
            for name, data in sorted(files.items()):
                member = tarfile.TarInfo(f"./{name}")
                member.size = len(data)
                member.mtime = time_s
                member.mode = 0o644
                member.uname = member.gname = "root"
                tar.addfile(member, io.BytesIO(data))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _write_folder(files: Mapping[str, bytes], path: Path) -> None:
    if path.is_dir() and any(path.iterdir()):
        if not (path / METADATA).is_file():
            raise InputError(
                f"{path} is a folder with files that are not a library's",
                "choose a folder that is empty or does not exist",
            )
        # What an earlier library left would be built with this one.
        for file in (f for part in _PARTS for f in (path / part).rglob("*")):
            if file.is_file() and file.relative_to(path).as_posix() not in files:
                file.unlink()
    # First the file that marks the folder as a library's, should writing be cut short.
    for name in sorted(files, key=lambda name: (name != METADATA, name)):
        target = path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(files[name])


# Reading --------------------------------------------------------------------------------------


def read_files(path: Path) -> dict[str, bytes]:
    """The files of an archive or a folder, by their path in it. What is wrong is an InputError.

    No path leaves the archive, none is a link, and their number and sizes are bounded.
    """
    files = dict(_read_folder(path) if path.is_dir() else _read_tar(path))
    for name in files:
        parents = name.split("/")[:-1]
        for depth in range(1, len(parents) + 1):
            if "/".join(parents[:depth]) in files:
                raise InputError(f"{path} has {name!r} below a file")
    return files


def _read_tar(path: Path) -> Iterator[tuple[str, bytes]]:
    if not path.is_file():
        raise InputError(f"there is no library {path}", "compile the model first")
    try:
        with tarfile.open(path, "r:") as tar:
            budget = _Budget(str(path))
            for member in tar:
                name = budget.admit(member.name, member.size)
                if member.isdir():
                    continue
                if not member.isreg() or member.issparse():
                    raise InputError(f"{path} has the member {name!r}, which is not a plain file")
                file = tar.extractfile(member)
                data = file.read() if file else b""
                if len(data) != member.size:
                    raise InputError(f"{path} is cut off in the member {name!r}")
                yield name, data
            # tarfile takes a damaged header for the end.
            assert tar.fileobj is not None
            tar.fileobj.seek(tar.offset)
            if tar.fileobj.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                raise InputError(f"{path} is damaged or cut off after {tar.offset} bytes")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    # Besides its own errors tarfile lets those of the number and text decoding through.
    except (tarfile.TarError, ValueError, EOFError, OverflowError) as error:
        raise InputError(
            f"{path} is not a Model Library Format archive: {error}",
            "pass a .tar that hil compile or TVM made",
        ) from None


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
