"""The cache of builds and libraries: its folder, its locks, the removal of old entries.

Everything there can be made again. So what is damaged, cut short or of another version counts as
missing, and where the folder cannot be written, only what needs to write there fails.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hil.errors import BuildError, InputError
from hilc.support.inputs import check_regular
from hilc.support.locks import NO_LINK, lock
from hilc.support.outputs import cannot_write, write_file

#: In a build's folder, written last: what the build found out.
RESULT = "firmware.json"
REMEDY = "set HIL_CACHE to a folder that can be written"
#: Entries that were not used for so many days are removed.
_KEPT_DAYS = 30
#: How long another process may hold a lock: as long as the longest build.
_LOCK_LIMIT_S = 3600.0
_LOCK_LOOK_S = 0.05


#: The kinds of entries, each in a folder of its own.
_KINDS = (
    *("answers", "boards", "builds", "evaluations", "libraries", "locks", "probes"),
    "simulators",
)
#: Where the umask lets them: the group may write, others may not even enter.
_CACHE_MODE, _KIND_MODE = 0o770, 0o775


class CacheError(InputError):
    """The cache is not to be trusted: others may write there."""


def cache_folder() -> Path:
    """Return the folder of builds: ``HIL_CACHE``, or ``hil`` in the user's cache folder.

    What is cached is executed: firmware by boards, libraries by this process. Raise CacheError
    where another account may have written it: its digests would only say that it is whole.
    """
    folder = _chosen_folder()
    _check_trust(folder)
    for kind in _KINDS if _is_open(folder) else ():
        _check_trust(folder / kind)
    return folder


def writable_folder(kind: str) -> Path:
    """Return the folder of a kind of entries; make what is missing of the cache, so that no other
    account may write there.

    With a umask of 000, as some containers have, folders would be of all accounts. Raise OSError
    where the cache cannot be made; where it is read-only, it stays as it is.
    """
    assert kind in _KINDS, f"{kind} would not be checked by cache_folder"
    folder = cache_folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(_CACHE_MODE)
    for each in _KINDS:
        try:
            (folder / each).mkdir(_KIND_MODE)
        except FileExistsError:
            pass
        except OSError:
            # The reason is lost where a file in a folder that is missing is opened.
            if each == kind:
                raise
    return folder / kind


def _is_open(folder: Path) -> bool:
    """Return whether other accounts may access the content of the folder."""
    try:
        return bool(folder.stat().st_mode & stat.S_IXOTH)
    except OSError:
        return False


def _check_trust(folder: Path) -> None:
    """Raise unless the folder is this user's or root's, and no other account may write there.

    Its group may: with the umask 002 each user has one of their own. Where the sticky bit is set,
    as in /tmp, nobody can replace what others made, and the check of each entry shows its owner.
    """
    if not hasattr(os, "geteuid"):
        return  # Windows, where the user's folders are closed to others and modes say nothing
    try:
        found = folder.stat()
    except OSError:
        return  # it is made, or whoever needs it says why not
    if not stat.S_ISDIR(found.st_mode):
        return
    own = "set HIL_CACHE to a folder of your own"
    if found.st_uid not in (0, os.geteuid()):
        raise CacheError(
            f"the cache folder {folder} belongs to another user (uid {found.st_uid}; this process "
            f"is of uid {os.geteuid()}), who could exchange what is built and executed",
            f"{own}, or remove that one",
        )
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        raise CacheError(
            f"any account of this machine may write into the cache folder {folder} (mode "
            f"{stat.S_IMODE(found.st_mode):04o}), and so exchange what is built and executed",
            f"remove it or, if nobody else wrote there, run 'chmod o-w {folder}'; or {own}",
        )


def _chosen_folder() -> Path:
    if chosen := os.environ.get("HIL_CACHE"):
        return Path(chosen).resolve()
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base).resolve() / "hil"
    try:
        return Path.home() / ".cache" / "hil"
    except RuntimeError:
        raise InputError("there is no home folder, so no place for builds", REMEDY) from None


@contextmanager
def locked(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of ``folder``; its file is in the cache, since the folder may be cleared.

    Without ``wait``, a lock that another process holds raises BlockingIOError.
    """
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]
    try:
        path = writable_folder("locks") / name
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINK, 0o666)
    except OSError as error:
        raise cannot_write(f"the cache folder {cache_folder()}", error, REMEDY) from None
    try:
        _lock(descriptor, folder, time.monotonic() + _LOCK_LIMIT_S if wait else None)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path, deadline: float | None) -> None:
    while True:
        try:
            lock(descriptor, wait=False)
            return
        except BlockingIOError:
            if deadline is None:
                raise
            if time.monotonic() > deadline:
                raise BuildError(
                    f"another process has been building in {folder} for {_LOCK_LIMIT_S:.0f} s",
                    "wait until it is done, or end it",
                ) from None
            time.sleep(_LOCK_LOOK_S)


def touch(path: Path) -> None:
    """Mark an entry as used now: :func:`evict_unused` keeps it for another month."""
    with suppress(OSError):
        os.utime(path)


def evict_unused() -> None:
    """Remove entries not used for a month, so that nightly runs do not fill the disk."""
    oldest_s = time.time() - _KEPT_DAYS * 24 * 3600
    for kind in ("builds", "libraries", "answers", "simulators"):
        # Another process may evict at the same time: skip entries that are gone or in use.
        with suppress(OSError):
            for entry in (cache_folder() / kind).iterdir():
                with suppress(OSError), locked(entry, wait=False):
                    if _last_use(entry) < oldest_s:
                        remove(entry)


def _last_use(entry: Path) -> float:
    """Return the time of a build's result, else that of the entry, which is then no whole build."""
    result = entry / RESULT
    return (result if result.exists() else entry).lstat().st_mtime


def remove(path: Path) -> None:
    """Remove a file, a link or a folder, where there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# -- checked files ------------------------------------------------------------------------------


def with_checksum(value: dict[str, Any]) -> str:
    """Return ``value`` as JSON text with a checksum of it, for :func:`read_checked`."""
    return json.dumps({**value, "seal": _checksum(value)}, indent=2) + "\n"


def read_checked(path: Path) -> dict[str, Any] | None:
    """Return the value of a file of :func:`with_checksum`; None if its checksum does not match."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or value.pop("seal", None) != _checksum(value):
        return None
    return value


def archive_of(entry: Path) -> Path:
    """Return the path of an entry's archive; its metadata is in the file beside it."""
    return entry.with_suffix(".tar")


def complete_archive(entry: Path, metadata: dict[str, Any]) -> None:
    """Write the metadata of an entry whose archive was written: the entry is complete then."""
    value = {**metadata, "key": entry.name, "archive": digest(archive_of(entry))}
    write_file(entry.with_suffix(".json"), with_checksum(value))
    evict_unused()


def read_archive_entry(entry: Path) -> dict[str, Any] | None:
    """Return the metadata of a complete entry and mark it as used; None otherwise."""
    archive, about = archive_of(entry), entry.with_suffix(".json")
    found = read_checked(about)
    # An entry that was renamed is that of another request.
    if found is None or found.get("key") != entry.name:
        return None
    if found.get("archive") is None or found["archive"] != digest(archive):
        return None
    for path in (archive, about):
        touch(path)
    return found


def digest(path: Path) -> str | None:
    """Return a hash of a file's content; None where it cannot be read."""
    try:
        check_regular(path)
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, InputError):
        return None


def _checksum(value: dict[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
