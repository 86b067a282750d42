"""Locks between processes, which the system releases when their holder ends, however it ends.

POSIX locks an open file of any kind as a whole, by ``flock``. Windows locks ranges of bytes of
files, and other processes cannot read what is locked: one byte beyond any content stands for the
file there.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

# By name, since a type checker knows either of them on its own system only.
_FCNTL: Any = import_module("fcntl") if find_spec("fcntl") is not None else None
_MSVCRT: Any = import_module("msvcrt") if _FCNTL is None else None

#: Whether a locked file can be renamed and removed, as POSIX permits.
CAN_MOVE_LOCKED = _FCNTL is not None
#: Flags of ``os.open`` for files that other users may have made; Windows has neither.
NO_LINK = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_BYTE = 0x7FFF_FFFE
_LOOK_S = 0.05


def lock(file: IO[Any] | int, *, wait: bool = True, shared: bool = False) -> None:
    """Lock an open file until it is closed.

    With ``shared``, other processes may hold a shared lock too; on Windows, they wait. Raise
    BlockingIOError if another process holds it and ``wait`` is false, OSError if the file cannot be
    locked.
    """
    descriptor = file if isinstance(file, int) else file.fileno()
    if _FCNTL is not None:
        kind = _FCNTL.LOCK_SH if shared else _FCNTL.LOCK_EX
        _FCNTL.flock(descriptor, kind if wait else kind | _FCNTL.LOCK_NB)
        return
    while not _locked_byte(descriptor):
        if not wait:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        time.sleep(_LOOK_S)


def _locked_byte(descriptor: int) -> bool:
    """Lock the byte of a file on Windows; return False while another process holds it."""
    place = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, _BYTE, os.SEEK_SET)
    try:
        _MSVCRT.locking(descriptor, _MSVCRT.LK_NBLCK, 1)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EDEADLK, errno.EAGAIN):
            raise
        return False
    finally:
        os.lseek(descriptor, place, os.SEEK_SET)
    return True


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of an existing folder; raise OSError if it cannot be opened.

    On Windows, which opens no folders, a file in the folder of temporary files has the lock.
    """
    path, flags = folder, os.O_RDONLY
    if _FCNTL is None:
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
        name = hashlib.sha256(os.fsencode(os.path.realpath(folder))).hexdigest()[:16]
        path, flags = Path(tempfile.gettempdir(), f"hil-{name}.lock"), os.O_RDWR | os.O_CREAT
    descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0))
    try:
        lock(descriptor)
        yield
    finally:
        os.close(descriptor)
