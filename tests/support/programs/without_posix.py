"""A stand-in for Windows on Linux: runs ``hil`` without what only POSIX systems have.

Modules of this project cannot import what Windows lacks, names that Windows lacks are missing from
``os``, ``signal``, ``socket`` and ``select``, and ``Popen`` refuses what it refuses there. The
module ``msvcrt`` is written from its documentation: ``locking`` locks bytes at the file's position.
Packages of others are as they are on Linux: pyserial has a module of its own for each system.

    python without_posix.py COMMAND...
"""

from __future__ import annotations

import builtins
import importlib.util
import select
import signal
import socket
import subprocess
import sys
import types
from typing import Any

#: Modules of the standard library that are for POSIX systems only.
MODULES = frozenset({"crypt", "fcntl", "grp", "posix", "pty", "pwd", "resource", "termios", "tty"})
_OS = (
    *("fchmod", "fchown", "fork", "forkpty", "getegid", "geteuid", "getgid", "getpgid", "getuid"),
    *("killpg", "mkfifo", "openpty", "setsid", "sysconf", "uname"),
    *("O_CLOEXEC", "O_NOFOLLOW", "O_DIRECTORY", "sched_getaffinity"),
)
_SIGNALS = ("SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGUSR1", "pthread_kill")
_PROJECT = ("hil", "hilc", "__main__")


def _is_ours(scope: Any) -> bool:
    return str((scope or {}).get("__name__")).partition(".")[0] in _PROJECT


def _msvcrt() -> types.ModuleType:
    import fcntl
    import os

    module: Any = types.ModuleType("msvcrt")
    module.LK_UNLCK, module.LK_LOCK, module.LK_NBLCK = 0, 1, 2

    def locking(descriptor: int, mode: int, nbytes: int) -> None:
        kinds = {0: fcntl.LOCK_UN, 1: fcntl.LOCK_EX, 2: fcntl.LOCK_EX | fcntl.LOCK_NB}
        fcntl.lockf(descriptor, kinds[mode], nbytes, os.lseek(descriptor, 0, os.SEEK_CUR))

    module.locking = locking
    made: types.ModuleType = module
    return made


def hide() -> None:
    """Hide what Windows lacks from the modules of the project that are loaded from here on."""
    import os

    stand_in = _msvcrt()
    load, find, module = builtins.__import__, importlib.util.find_spec, importlib.import_module

    def found(name: str, scope: Any = None, *rest: Any, **options: Any) -> Any:
        if _is_ours(scope) and name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return load(name, scope, *rest, **options)

    def spec(name: str, package: str | None = None) -> Any:
        return None if name in MODULES else find(name, package)

    def imported(name: str, package: str | None = None) -> Any:
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return module(name, package)

    started = subprocess.Popen.__init__

    def popen(self: Any, *words: Any, **options: Any) -> None:
        if options.get("preexec_fn") is not None:
            raise ValueError("preexec_fn is not supported on Windows platforms")
        if any(isinstance(options.get(name), socket.socket) for name in ("stdin", "stdout")):
            raise OSError("a socket is no file on Windows")
        started(self, *words, **{**options, "pass_fds": ()})

    # What these need of the names has been taken by then.
    import multiprocessing.connection  # noqa: F401
    import tempfile  # noqa: F401

    import numpy  # noqa: F401

    os.environ.setdefault("USERNAME", "user")  # as Windows sets it
    sys.modules["msvcrt"] = stand_in
    for owner, name, replacement in (
        (builtins, "__import__", found),
        (importlib.util, "find_spec", spec),
        (importlib, "import_module", imported),
        (subprocess.Popen, "__init__", popen),
    ):
        setattr(owner, name, replacement)
    for place, names in (
        (os, _OS),
        (signal, _SIGNALS),
        (socket, ("AF_UNIX",)),
        (select, ("poll", "epoll")),
    ):
        for name in names:
            if hasattr(place, name):
                delattr(place, name)


if __name__ == "__main__":
    # As for a program of the Python path, whose folder is not the scripts'.
    del sys.path[0]
    hide()
    from hil.cli import main

    sys.argv[0] = "hil"
    sys.exit(main())
