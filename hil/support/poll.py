"""Waiting for descriptors, whatever their number: ``select.select`` takes none above 1023."""

from __future__ import annotations

import select
from typing import Protocol


class File(Protocol):
    """An open file, pipe or socket."""

    def fileno(self) -> int:
        """Return the file descriptor."""


class Readable:
    """:func:`is_readable` of one file that is asked often; it stays open meanwhile."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(file, select.POLLIN)

    def within(self, timeout_s: float) -> bool:
        """Return whether the file has data or has ended, waiting up to ``timeout_s`` for it."""
        if self._poll is None:
            return is_readable(self._file, timeout_s)
        return bool(self._poll.poll(_milliseconds(timeout_s)))


def is_readable(file: File | int, timeout_s: float) -> bool:
    """Return whether ``file`` has data or has ended, waiting up to ``timeout_s`` for it."""
    return _is_ready(file, timeout_s, is_write=False)


def is_writable(file: File | int, timeout_s: float) -> bool:
    """Return whether ``file`` takes data or fails, waiting up to ``timeout_s`` for it."""
    return _is_ready(file, timeout_s, is_write=True)


def _is_ready(file: File | int, timeout_s: float, *, is_write: bool) -> bool:
    if not hasattr(select, "poll"):  # Windows, where descriptors are no small numbers either
        ready = select.select([] if is_write else [file], [file] if is_write else [], [], timeout_s)
        return any(ready)
    poll = select.poll()
    poll.register(file, select.POLLOUT if is_write else select.POLLIN)
    return bool(poll.poll(_milliseconds(timeout_s)))


def _milliseconds(seconds: float) -> int:
    """Return a wait rounded up: one of 0 ms would spin."""
    return max(0, -int(-seconds * 1000 // 1))
