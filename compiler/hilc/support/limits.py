"""Limits of the system that end a program: descriptors, memory, processes; with their remedies."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hilc.errors import HilError

# Windows has no limits of this kind. By name, since it is known on POSIX systems only.
_RESOURCE: Any = import_module("resource") if find_spec("resource") is not None else None
#: Open files that are enough for every command.
_ENOUGH_FILES = 1024
#: So few that they are the likely cause of a failure without one.
_FEW_FILES = 64
#: Functions of the standard library that start a process; EAGAIN elsewhere means a lock.
_STARTERS = frozenset({"_execute_child", "fork", "forkpty", "_fork_exec", "posix_spawn"})
_OWNER = 0o700
#: Parts of messages of Python, the loader and C++ libraries.
_OF_MEMORY = (os.strerror(errno.ENOMEM), "failed to map segment", "bad_alloc")
_OF_THREADS = ("can't start new thread", "pthread_create failed", "qemu_thread_create")


@dataclass(frozen=True)
class Limit:
    """A limit that was reached, and its remedy."""

    fact: str
    hint: str
    is_memory: bool = False


def soft_limit(name: str) -> int | None:
    """Return the limit ``name``, as ``RLIMIT_AS``, of this process; None for none."""
    which = getattr(_RESOURCE, name, None)
    if which is None:
        return None
    soft: int = _RESOURCE.getrlimit(which)[0]
    return None if soft == _RESOURCE.RLIM_INFINITY else soft


def is_memory_limited() -> bool:
    """Return whether this process may take only a part of the address space."""
    return soft_limit("RLIMIT_AS") is not None


def limit_of(error: BaseException) -> Limit | None:
    """Return the limit that caused ``error``, also through the exceptions that it replaced."""
    return next(filter(None, map(_limit, _chain(error))), None)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _limit(error: BaseException) -> Limit | None:
    if isinstance(error, MemoryError):
        return _memory()
    # Extension modules lose the exception where memory ends.
    if isinstance(error, SystemError) and is_memory_limited():
        return _memory()
    if isinstance(error, HilError):  # its text may quote what a user wrote
        return None
    if not isinstance(error, OSError):
        return limit_in(str(error))
    if isinstance(error, FileNotFoundError) and "usable temporary directory" in str(error):
        # The module tempfile tried to open a file and to write a few bytes, and does not say why
        # it failed.
        count = soft_limit("RLIMIT_NOFILE")
        few = count is not None and count < _FEW_FILES
        return file_size_limit() or (_of_number(errno.EMFILE) if few else None)
    if error.errno == errno.EAGAIN and not _starts_process(error):
        return None
    return _of_number(error.errno)


def _of_number(number: int | None) -> Limit | None:
    if number == errno.EMFILE:
        count = _shown("RLIMIT_NOFILE")
        return Limit(
            f"this process may have {count} files open at once (ulimit -n), which is too few",
            f"raise the limit: ulimit -n {_ENOUGH_FILES}",
        )
    if number == errno.ENFILE:
        return Limit(
            "all programs together have as many files open as the system allows (fs.file-max)",
            "end other programs, or raise that limit",
        )
    if number == errno.ENOMEM:
        return _memory()
    if number == errno.EAGAIN:
        return _processes()
    if number == errno.EFBIG:
        return file_size_limit()
    return umask_limit() if number in (errno.EACCES, errno.EPERM) else None


def umask_limit() -> Limit | None:
    """Return the limit that the umask is, if it denies the owner of new files access to them."""
    if not (mask := umask()) & _OWNER:
        return None
    return Limit(
        f"the umask is {mask:04o}, so this process may not use the files and folders it creates",
        "run `umask 022` before the command",
    )


def file_size_limit() -> Limit | None:
    """Return the limit of files' sizes, if there is one."""
    most = soft_limit("RLIMIT_FSIZE")
    if most is None:
        return None
    return Limit(
        f"a file of this process may have {most:,} bytes (ulimit -f)",
        "raise the limit, or remove it: ulimit -f unlimited",
    )


def descriptor_limit(count: int) -> Limit | None:
    """Return the limit that forbids ``count`` more open files, for libraries that do not say so."""
    opened: list[int] = []
    try:
        while len(opened) < count:
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return _of_number(error.errno)
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return None


def limit_in(text: str) -> Limit | None:
    """Return the limit that a message of a library or a program names."""
    if os.strerror(errno.EMFILE) in text:
        return _of_number(errno.EMFILE)
    if any(words in text for words in _OF_MEMORY):
        return _memory()
    if any(words in text for words in _OF_THREADS):
        # A thread needs address space for its stack.
        return _memory() if is_memory_limited() else _processes()
    return None


def _memory() -> Limit:
    most = soft_limit("RLIMIT_AS")
    if most is None:
        hint = "free some, give fewer --jobs, or use a machine that has more"
        return Limit("memory ran out", hint, is_memory=True)
    return Limit(
        f"memory ran out: this process may take {most >> 20:,} MiB (ulimit -v)",
        "raise the limit, or remove it: ulimit -v unlimited",
        is_memory=True,
    )


def _processes() -> Limit:
    count = _shown("RLIMIT_NPROC")
    return Limit(
        f"no further process or thread can be started; this user may have {count} (ulimit -u)",
        "end other programs, or raise this limit or that of the container (pids)",
    )


def _shown(name: str) -> str:
    soft = soft_limit(name)
    return "any number of" if soft is None else f"{soft:,}"


def _starts_process(error: BaseException) -> bool:
    trace, last = error.__traceback__, ""
    while trace is not None:
        last, trace = trace.tb_frame.f_code.co_name, trace.tb_next
    return last in _STARTERS


def umask() -> int:
    """Return the umask; 0 where the system does not list it.

    ``os.umask`` would have to change it, for all threads.
    """
    try:
        status = Path("/proc/self/status").read_bytes()
        return int(status.partition(b"\nUmask:")[2].split()[0], 8)
    except (OSError, ValueError, IndexError):
        return 0
