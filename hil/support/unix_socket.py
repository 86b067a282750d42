"""Listening sockets in a private folder, which no other account and no browser reaches."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hil.errors import DeviceError
from hilc.support.temporary import TemporaryFolder

SCHEME: Final = "unix://"


#: Longest path of a socket, in bytes, without the byte that ends it.
_MAX_PATH: Final = 107
#: Longest name of a socket in its folder, and of that folder, with their separators.
_MAX_NAMES: Final = len("/hil-sockets-12345678/socket")


def require_local_sockets(what: str) -> None:
    """Raise :class:`DeviceError` where no socket can have a path or be inherited; ``what`` needs
    one.
    """
    if not hasattr(socket, "AF_UNIX"):
        raise DeviceError(
            f"{what} is controlled over sockets of files and of child processes, which Windows "
            "does not have",
            "use WSL; boards at a serial port (--port COM3) work in Windows too",
        )


def folder() -> TemporaryFolder:
    """Return a context of a new folder for sockets: in the folder of temporary files, or in /tmp if
    the path of a socket there would be too long.
    """
    root = tempfile.gettempdir()
    is_long = len(os.fsencode(root)) + _MAX_NAMES > _MAX_PATH
    return TemporaryFolder("sockets", "/tmp" if is_long and os.access("/tmp", os.W_OK) else root)


@contextlib.contextmanager
def listener(name: str) -> Iterator[tuple[socket.socket, Path]]:
    """Yield a listening socket and its path, in a folder that is removed at the end."""
    with contextlib.ExitStack() as stack:
        path = Path(stack.enter_context(folder())) / name
        yield stack.enter_context(listen(path)), path


@contextlib.contextmanager
def listen(path: Path) -> Iterator[socket.socket]:
    """Yield a socket that listens at ``path``, in a folder that only this user can enter.

    Raise :class:`DeviceError` if it cannot listen there.
    """
    require_local_sockets("this board")
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with server:
        try:
            server.bind(os.fspath(path))
            server.listen()
        except OSError as error:
            raise DeviceError(
                f"cannot listen at {path}: {error}",
                "set TMPDIR to a folder with a shorter path: a socket's path has 107 bytes at most",
            ) from None
        yield server


def url(path: Path) -> str:
    """Return the URL of a serial line at ``path``."""
    return f"{SCHEME}{path}"
