"""Locks of boards: one process at a time uses a board, whatever starts it.

A board is locked by the names of its probe and its port, in files that the kernel unlocks when
their holder ends. They are in a folder that all users of the machine share, not in anybody's cache:
two users, two caches or two containers that share the folder exclude each other. A process that
holds a lock already, as the pool of a test run does, takes it again at once.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import getpass
import hashlib
import os
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final
from weakref import WeakValueDictionary

from hil.errors import InputError, ProbeError
from hilc.support.locks import NO_LINK, lock

#: The folders for files of all users, the first that exists; `HIL_LOCKS` names another one.
_SHARED: Final = ("/run/lock", "/var/lock", "/tmp")
_SHARED_MODE: Final = stat.S_ISVTX | stat.S_IRWXO
_PREFIX = "hil-"
_MOST_NAME = 100
_LOOK_S = 0.1
#: Linux's major numbers of pseudo-terminals: each container counts its own from 0.
_PSEUDO_TERMINALS: Final = range(136, 144)
#: The locks that this process holds.
_HELD: WeakValueDictionary[Path, IO[str]] = WeakValueDictionary()


def lock_folder() -> Path:
    """Return the folder of the locks: ``HIL_LOCKS``, or the first that all users may write.

    Raise :class:`~hil.errors.InputError` where there is none.
    """
    if chosen := os.environ.get("HIL_LOCKS"):
        if not Path(chosen).is_dir():
            raise InputError(f"HIL_LOCKS names {chosen}, which is no folder", "make it (mode 1777)")
        return Path(chosen)
    if os.name == "nt":
        return Path(tempfile.gettempdir())  # of one user, as the session that the boards are in
    for folder in map(Path, _SHARED):
        # By its mode: another user of this machine has to choose the same one.
        if folder.is_dir() and folder.stat().st_mode & _SHARED_MODE == _SHARED_MODE:
            return folder
    raise InputError(
        f"none of {', '.join(_SHARED)} is a folder that every user may write (mode 1777), so "
        "boards cannot be locked",
        "set HIL_LOCKS to a folder that all users of the boards share",
    )


def lock_path(name: str) -> Path:
    """Return the lock file of a probe or a port; all names of one device have one file.

    Raise :class:`~hil.errors.InputError` where no folder is there for it.
    """
    word = _device(name) if name.startswith("/") else name.lower()
    digest = hashlib.sha256(word.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return lock_folder() / f"{_PREFIX}{digest}.lock"


def _device(path: str) -> str:
    """Return a device's number, by which containers with other names of it know it; else the
    path without links.
    """
    path = os.path.realpath(path)
    with contextlib.suppress(OSError):
        found = os.stat(path)
        if stat.S_ISCHR(found.st_mode) and os.major(found.st_rdev) not in _PSEUDO_TERMINALS:
            return f"device {os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"
    return path


def wish_path(name: str, count: int) -> Path:
    """Return the file that whoever waits for a board has locked; boards share ``count`` files."""
    path = lock_path(name)
    return path.with_name(f"{_PREFIX}{int(path.stem.removeprefix(_PREFIX), 16) % count}.wanted")


def try_lock(path: Path) -> IO[str] | None:
    """Return the locked file; None while another process or user holds the lock."""
    file = open_lock(path)
    try:
        lock(file, wait=False)
    except OSError as error:
        file.close()
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise _unlockable(path, error) from None
        return None
    return file


def open_lock(path: Path) -> IO[str]:
    """Open a lock file that every user may write; make it where it is missing."""
    flags = os.O_RDWR | NO_LINK
    try:
        while True:
            # Linux refuses O_CREAT for a file of another user in such a folder
            # (fs.protected_regular), so that it is used for a new file only.
            with contextlib.suppress(FileNotFoundError):
                return os.fdopen(os.open(path, flags), "r+")
            with contextlib.suppress(FileExistsError):
                descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
                with contextlib.suppress(AttributeError):  # Windows has no modes
                    os.fchmod(descriptor, 0o666)  # whatever the umask
                return os.fdopen(descriptor, "r+")
    except OSError as error:
        raise _unlockable(path, error) from None


def _unlockable(path: Path, error: OSError) -> ProbeError:
    return ProbeError(
        f"a board cannot be locked: {path}: {error.strerror}",
        "set HIL_LOCKS to a folder that all users of the boards share (mode 1777)",
    )


def try_board_lock(name: str) -> IO[str] | None:
    """Return the lock of a board, released by closing it; None while somebody holds it."""
    path = lock_path(name)
    file = try_lock(path)
    if file is None:
        return None
    file.truncate(0)
    file.write(_this_process())
    file.flush()
    _HELD[path] = file
    return file


def _this_process() -> str:
    # Without arguments: every user of the machine can read it.
    program = Path(sys.argv[0])
    name = (program.parent.name if program.name == "__main__.py" else program.name)[:_MOST_NAME]
    now = datetime.datetime.now().astimezone().isoformat(" ", "seconds")
    return f"process {os.getpid()} ({name}) of {_user()} on {socket.gethostname()} since {now}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # a container's user without a name
        return f"user {os.getuid()}" if hasattr(os, "getuid") else "a user"


def is_own(name: str) -> bool:
    """Return whether this process holds the lock of a probe or a port."""
    return _is_held(lock_path(name))


def _is_held(path: Path) -> bool:
    """Return whether this process holds a lock."""
    file = _HELD.get(path)
    return file is not None and not file.closed


@contextlib.contextmanager
def board_lock(what: str, *names: str, wait_s: float = 0.0) -> Iterator[None]:
    """Hold a board by all its ``names`` during the context; ``what`` names it in messages.

    Raise :class:`~hil.errors.ProbeError` if another process still holds it after ``wait_s``.
    """
    deadline = time.monotonic() + wait_s
    with contextlib.ExitStack() as stack:
        # In one order, so that two processes do not wait for each other.
        for path, name in sorted((lock_path(name), name) for name in names):
            if not _is_held(path):
                stack.enter_context(_awaited(what, name, path, deadline))
        yield


def _awaited(what: str, name: str, path: Path, deadline: float) -> IO[str]:
    while (held := try_board_lock(name)) is None:
        if time.monotonic() >= deadline:
            raise ProbeError(
                f"{what} is in use by {_holder(path)}",
                "wait until it ends (--wait S waits for it), or choose another board with --probe "
                "or --port",
            )
        time.sleep(_LOOK_S)
    return held


def _holder(path: Path) -> str:
    try:
        return path.read_text(errors="replace") or "another process"
    except OSError:
        return "another process"
