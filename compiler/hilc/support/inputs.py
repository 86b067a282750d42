"""Input files: check for regular files of bounded size, before they are opened."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from hilc.errors import InputError

#: FlatBuffers' own limit: its offsets are 32 bits, one of them a sign. No other input is larger.
MAX_FILE_BYTES = 2**31 - 1


def check_regular(
    path: str | Path, hint: str = "", *, most_bytes: int | None = MAX_FILE_BYTES
) -> None:
    """Raise for existing paths that are not regular files, or too large; missing ones pass.

    Opening a pipe may block for ever, and reading a device may never end. A folder passes too:
    opening it fails at once.
    """
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return  # opening it gives the reason
    if stat.S_ISDIR(status.st_mode):
        return
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path} is not a regular file", hint or "give a regular file")
    if most_bytes is not None and status.st_size > most_bytes:
        raise InputError(
            f"{path} has {status.st_size} bytes; at most {most_bytes} are accepted",
            hint or "give a smaller file",
        )
