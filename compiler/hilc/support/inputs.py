"""What the user names to be read is a plain file of sane size; looked at before it is opened."""

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
    """Refuses what is there and is no plain file, or too large a one; what is not there passes.

    Opening a pipe may wait for ever, and reading a device may never end. A folder passes, too:
    where none may be, opening it fails at once.
    """
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return  # whoever opens it tells why
    if stat.S_ISDIR(status.st_mode):
        return
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path} is not a regular file", hint or "give a file on a disk")
    if most_bytes is not None and status.st_size > most_bytes:
        raise InputError(
            f"{path} has {status.st_size} bytes, and the most that is read is {most_bytes}",
            hint or "give a smaller file",
        )
