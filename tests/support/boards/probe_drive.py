"""A stand-in of a probe's drive, written from DAPLink's documentation.

docs/USERS-GUIDE.md and docs/MSD_COMMANDS.md of https://github.com/ARMmbed/DAPLink: a complete hex
file is programmed, the drive is taken away and shown again, with FAIL.TXT if it failed. It is a
folder here; the file's last record is its end.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

DETAILS = """\
# DAPLink Firmware - see https://daplink.io
Unique ID: {}
HIC ID: 9796990b
Auto Reset: {}
Automation allowed: 0
Overflow detection: 0
Daplink Mode: {}
Interface Version: 0257
Remount count: {}
"""
#: What DAPLink writes where it cannot reach the chip, and after a file in the wrong order.
NO_TARGET = "error: The interface firmware FAILED to reset/halt the target MCU\r\ntype: target\r\n"
ORDER = (
    "error: File sent out of order by PC. Target might not be programmed correctly.\r\n"
    "type: transient, user\r\n"
)
_END = ":00000001FF"


def show(
    folder: Path,
    unique_id: str,
    *,
    auto_reset: int = 1,
    mode: str = "Interface",
    count: int = 0,
    fail: str = "",
) -> Path:
    """Show the drive as a folder."""
    folder.mkdir()
    (folder / "DETAILS.TXT").write_text(DETAILS.format(unique_id, auto_reset, mode, count))
    if fail:
        (folder / "FAIL.TXT").write_text(fail)
    return folder


@contextlib.contextmanager
def programming(
    folder: Path, unique_id: str, keep: Path, *, fail: str = "", returns: bool = True
) -> Iterator[None]:
    """Program the hex file that is copied to the drive into ``keep``, in a thread."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            files = list(folder.glob("*.hex"))
            text = files[0].read_text() if files else ""
            if not text.rstrip().endswith(_END):
                continue
            keep.write_text(text)
            shutil.rmtree(folder)
            if returns:
                ended.wait(0.1)
                show(folder, unique_id, count=1, fail=fail)
            return

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
