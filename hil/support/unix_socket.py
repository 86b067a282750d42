"""Listening sockets in a private folder, which no other account and no browser reaches."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hil.errors import DeviceError
from hilc.support.temporary import TemporaryFolder

SCHEME: Final = "unix://"


@contextlib.contextmanager
def listener(name: str) -> Iterator[tuple[socket.socket, Path]]:
    """Yield a listening socket and its path, in a folder that is removed at the end."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryFolder("sockets")))
        yield stack.enter_context(listen(folder / name)), folder / name


@contextlib.contextmanager
def listen(path: Path) -> Iterator[socket.socket]:
    """Yield a socket that listens at ``path``, in a folder that only this user can enter."""
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
