"""Files and folders that exist for the time of a process, and what killed processes left of them.

The owner of each holds a lock on a file, which the system releases when the process ends, however
it ends. So a file or folder whose lock is free was abandoned, and the next process removes it.
Windows does not rename files that are open, so nothing is locked there, and what a killed process
leaves stays.
"""

from __future__ import annotations

import errno
import functools
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO

from hilc.support.locks import CAN_MOVE_LOCKED, NO_LINK, lock

_FOLDER = re.compile(r"hil-[a-z]+-\w{8}")
#: In each temporary folder, locked by its owner. A folder without it is not ours.
_MARK = ".hil-temporary"
#: Number of times a new file may be taken for abandoned in the moment before it is locked.
_ATTEMPTS = 20
_PARTIAL = re.compile(r"\.hil-\d+-[0-9a-f]{8}")


class TemporaryFolder(tempfile.TemporaryDirectory[str]):
    """A folder that only this user can read, removed at the latest by a later process."""

    def __init__(self, purpose: str, root: str | None = None) -> None:
        """Create it in ``root``, by default the folder of temporary files; its name contains
        ``purpose``, a word in lower case.
        """
        root = root or tempfile.gettempdir()
        remove_abandoned_folders(root)
        super().__init__(prefix=f"hil-{purpose}-", dir=root)
        try:
            # Under its name only when it is locked.
            new = Path(self.name) / f"{_MARK}-new"
            self._mark = _locked(new)
            new.rename(new.with_name(_MARK))
        except BaseException:
            super().cleanup()
            raise

    def cleanup(self) -> None:
        """Remove the folder."""
        super().cleanup()
        self._mark.close()


@contextmanager
def partial_file(target: Path) -> Iterator[Path]:
    """Yield the path of a new file beside ``target``, which is removed unless it was renamed."""
    remove_abandoned_files(target.parent)
    path, file = _new_file(target)
    try:
        with closing(file):
            yield path
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _new_file(target: Path) -> tuple[Path, IO[bytes]]:
    for _ in range(_ATTEMPTS):
        path = beside(target)
        try:
            return path, _locked(path)
        except FileNotFoundError:
            if not target.parent.is_dir():
                raise
    raise OSError(errno.EBUSY, f"{_ATTEMPTS} new files were removed at once", str(target.parent))


def beside(target: Path) -> Path:
    """Return a name for a new file in the folder of ``target``."""
    return target.with_name(f".hil-{os.getpid()}-{secrets.token_hex(4)}")


@functools.lru_cache(maxsize=1024)
def remove_abandoned_files(folder: Path) -> None:
    """Remove partial files that killed processes left in ``folder``; once in each process."""
    if not CAN_MOVE_LOCKED:
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _PARTIAL.fullmatch(entry.name) and not entry.is_symlink():
                _remove_if_abandoned(Path(entry.path), Path(entry.path))


@functools.lru_cache(maxsize=8)
def remove_abandoned_folders(root: str) -> None:
    """Remove temporary folders that killed processes left in ``root``; once in each process."""
    if not CAN_MOVE_LOCKED:
        return
    with suppress(OSError), os.scandir(root) as entries:
        for entry in entries:
            if _FOLDER.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                _remove_if_abandoned(Path(entry.path), Path(entry.path) / _MARK)


def _remove_if_abandoned(path: Path, mark: Path) -> None:
    """Remove ``path`` of this user if ``mark`` is a file that nobody has locked."""
    with suppress(OSError):
        descriptor = os.open(mark, os.O_RDWR | os.O_NONBLOCK | NO_LINK)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                return
            lock(descriptor, wait=False)
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
        finally:
            os.close(descriptor)


def _locked(path: Path) -> IO[bytes]:
    """Create the file ``path`` and lock it until it is closed; on Windows, return it closed.

    Raise FileNotFoundError if another process took it for abandoned before it was locked.
    """
    file = path.open("xb")
    if not CAN_MOVE_LOCKED:
        file.close()
        return file
    try:
        is_taken = False
        try:
            lock(file, wait=False)
        except BlockingIOError:
            is_taken = True
        except OSError:
            pass  # no locks on this file system: nobody takes anything for abandoned there
        if is_taken or os.fstat(file.fileno()).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    except BaseException:
        file.close()
        raise
    return file
