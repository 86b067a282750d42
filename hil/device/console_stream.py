"""pexpect's search over the text of a console. Only this module imports pexpect."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pexpect import EOF, TIMEOUT
from pexpect.spawnbase import SpawnBase


class ConsoleStream(SpawnBase):  # type: ignore[misc]
    """Text that ``read`` returns, searched by pexpect within a limited memory."""

    _before: Any  # of pexpect, which has no types

    def __init__(self, read: Callable[[], str], window: int, most: int) -> None:
        """Search ``window`` characters; keep ``most`` while nothing matches."""
        super().__init__(timeout=None, searchwindowsize=window, encoding="utf-8")
        self.delayafterread = None  # `read` waits itself
        self._read = read
        self._window, self._most = window, most

    def read_nonblocking(self, size: int = 1, timeout: float | None = None) -> str:
        """Return the next text; raise pexpect's TIMEOUT or EOF."""
        self._forget()
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                text = self._read()
            except EOFError:
                raise EOF("the firmware's output has ended") from None
            if text:
                return text
            if deadline is not None and time.monotonic() >= deadline:
                raise TIMEOUT("nothing more arrived in time")

    def _forget(self) -> None:
        """Drop the oldest of the text that did not match."""
        if self._before.tell() > self._most:
            kept = self._before.getvalue()[-self._window :]
            self._before = self.buffer_type()
            self._before.write(kept)
