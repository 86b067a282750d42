"""A stand-in of a probe's drive, written from DAPLink's documentation.

docs/USERS-GUIDE.md and docs/MSD_COMMANDS.md of https://github.com/ARMmbed/DAPLink: a complete hex
file is programmed, the drive is taken away and shown again, with FAIL.TXT if it failed and with
`Remount count` of DETAILS.TXT one higher. The count begins at 0 when the probe starts. An assertion
of DAPLink restarts it, with ASSERT.TXT. It is a folder here; the file's last record is its end.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
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
ASSERTED = "Assert\r\nFile: flash_manager.c\r\nLine: 211\r\nSource: Application\r\n"
_COUNT = re.compile(r"^Remount count: (\d+)", re.MULTILINE)
_END = ":00000001FF"


def show(
    folder: Path,
    unique_id: str,
    *,
    auto_reset: int = 1,
    mode: str = "Interface",
    count: int = 0,
    fail: str = "",
    asserted: str = "",
) -> Path:
    """Show the drive as a folder."""
    folder.mkdir()
    # DETAILS.TXT is the last: the files of a drive that is mounted are all there.
    for name, text in (("FAIL.TXT", fail), ("ASSERT.TXT", asserted)):
        if text:
            (folder / name).write_text(text)
    (folder / "DETAILS.TXT").write_text(DETAILS.format(unique_id, auto_reset, mode, count))
    return folder


def copied(folder: Path) -> str:
    """Return the hex file on the drive; "" while it is not whole."""
    text = next((file.read_text() for file in folder.glob("*.hex")), "")
    return text if text.rstrip().endswith(_END) else ""


@contextlib.contextmanager
def answering(folder: Path, answer: Callable[[], object]) -> Iterator[None]:
    """Call ``answer`` in a thread when a whole hex file is on the drive."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            if copied(folder):
                answer()
                return

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def away(folder: Path) -> None:
    """Take the drive away for some looks of its user."""
    shutil.rmtree(folder)
    time.sleep(0.2)


@contextlib.contextmanager
def programming(
    folder: Path, unique_id: str, keep: Path, *, fail: str = "", returns: bool = True
) -> Iterator[None]:
    """Program the hex file that is copied to the drive into ``keep``, in a thread."""

    def program() -> None:
        keep.write_text(copied(folder))
        found = _COUNT.search((folder / "DETAILS.TXT").read_text())
        assert found is not None
        away(folder)
        if returns:
            show(folder, unique_id, count=int(found[1]) + 1, fail=fail)

    with answering(folder, program):
        yield
