"""Locks of boards: one process at a time uses a board, whatever starts it.

A board is locked by the names of its probe and its port, in files that the kernel unlocks when
their holder ends. A process that holds a lock already, as the pool of a test run does, takes it
again at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from weakref import WeakValueDictionary

from hil.errors import ProbeError
from hil.support.cache import writable_folder

_LOG = logging.getLogger("hil.boards")
_MOST_HOLDER = 200
#: The locks that this process holds.
_HELD: WeakValueDictionary[Path, IO[str]] = WeakValueDictionary()


def lock_path(name: str) -> Path:
    """Return the lock file of a probe or a port; links to one device have one file.

    Raise OSError where the cache cannot be made.
    """
    name = os.path.realpath(name) if name.startswith("/") else name.lower()
    return writable_folder("boards") / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.lock"


def try_lock(path: Path) -> IO[str] | None:
    """Return the locked file; None while another process or user holds the lock."""
    file = path.open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def try_board_lock(name: str) -> IO[str] | None:
    """Return the lock of a board, released by closing it; None while somebody holds it."""
    path = lock_path(name)
    file = try_lock(path)
    if file is None:
        return None
    file.truncate(0)
    program = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:_MOST_HOLDER]
    file.write(f"process {os.getpid()} ({program})")
    file.flush()
    _HELD[path] = file
    return file


def _is_held(path: Path) -> bool:
    """Return whether this process holds a lock."""
    file = _HELD.get(path)
    return file is not None and not file.closed


@contextlib.contextmanager
def board_lock(what: str, *names: str) -> Iterator[None]:
    """Hold a board by all its ``names`` during the context; ``what`` names it in messages.

    Raise :class:`~hil.errors.ProbeError` at once while another process holds it.
    """
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(_one_lock(what, name))
        yield


@contextlib.contextmanager
def _one_lock(what: str, name: str) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        try:
            path = lock_path(name)
            if not _is_held(path):
                lock = try_board_lock(name)
                if lock is None:
                    raise ProbeError(
                        f"{what} is in use by {_holder(path)}",
                        "wait until it ends, or choose another board with --probe or --port",
                    )
                stack.enter_context(lock)
        except OSError as error:
            # Without a folder for locks a board can be used, by one process at a time.
            _LOG.warning("%s is not locked: %s", what, error)
        yield


def _holder(path: Path) -> str:
    try:
        return path.read_text(errors="replace") or "another process"
    except OSError:
        return "another process"
