"""Drives that a board or a probe shows: mounted FAT file systems, onto which an image is copied."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hil.access.protocols import Progress
from hil.errors import FlashError, Remedy

#: The list of mounted file systems, and Linux's descriptions of block devices.
MOUNTS, BLOCKS = Path("/proc/self/mounts"), Path("/sys/class/block")
_FAT: Final = ("vfat", "msdos", "fuseblk", "exfat")
_TEXT_BYTES: Final = 4096
_CHUNK_BYTES: Final = 64 * 1024
#: Errors of a copy that the user removes; programming again does not.
_HINTS: Final = {
    errno.ENOSPC: "the drive is full: restart the bootloader, and check the image's size",
    errno.EROFS: "mount the drive for writing",
    errno.EACCES: "mount the drive so that this user may write to it",
    errno.EPERM: "mount the drive so that this user may write to it",
}


@dataclass(frozen=True)
class Mount:
    """A mounted FAT file system."""

    device: str
    folder: Path


def fat_mounts() -> list[Mount]:
    """Return the mounted FAT file systems; none where the system has no list of them."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
    fields = [line.split(" ") for line in lines]
    return [
        Mount(_plain(field[0]), Path(_plain(field[1])))
        for field in fields
        if len(field) > 2 and field[2] in _FAT
    ]


def _plain(text: str) -> str:
    """Return a path of the list of mounts without its octal escapes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def usb_serial(device: str) -> str:
    """Return the serial number of the USB device that has a block device; "" if it is unknown."""
    folder = Path(os.path.realpath(BLOCKS / Path(device).name))
    for parent in folder.parents:
        if (parent / "idVendor").is_file():
            return text_of(parent / "serial").strip()
    return ""


def text_of(path: Path) -> str:
    """Return the first bytes of a file as text; "" where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_TEXT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


class DriveGoneError(OSError):
    """The drive disappeared while the last bytes of a file were written, as it does when it has an
    image.
    """


def copy_to(path: Path, data: bytes, progress: Progress | None) -> None:
    """Write a file through to its drive.

    Raises:
        DriveGoneError: The drive disappeared while the last bytes were written.
        OSError: The copy failed otherwise; a drive that was gone before has no image.
    """
    with open(path, "wb", buffering=0) as file:
        for at in range(0, len(data), _CHUNK_BYTES):
            view = memoryview(data)[at : at + _CHUNK_BYTES]
            with _last_bytes(at + _CHUNK_BYTES >= len(data)):
                while view:
                    view = view[file.write(view) :]
            if progress is not None:
                progress(min(1.0, (at + _CHUNK_BYTES) / len(data)))
        with _last_bytes(True):
            os.fsync(file.fileno())


@contextlib.contextmanager
def _last_bytes(are_last: bool) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if are_last and error.errno in (errno.EIO, errno.ENODEV, errno.ENOENT):
            raise DriveGoneError(*error.args) from error
        raise


def copy_error(folder: Path, error: OSError, otherwise: str) -> FlashError:
    """Return the error for a copy that failed; ``otherwise`` is the hint for an unknown reason."""
    return FlashError(
        f"the image cannot be copied to {folder}: {error.strerror}",
        _HINTS.get(error.errno or 0, otherwise),
        remedy=None if error.errno in _HINTS else Remedy.FLASH,
    )
