"""The flasher ``drive``: a probe's drive (DAPLink, ST-Link), onto which a hex file is copied.

The drive has a file ``DETAILS.TXT``, of DAPLink with the probe's unique id, which is the serial
number of its USB device as well, or ``MBED.HTM``, whose link has the board's code. The probe
programs the file, takes the drive away and shows it again, with the reason in ``FAIL.TXT`` if that
failed (DAPLink's documentation, docs/MSD_COMMANDS.md and docs/USERS-GUIDE.md). DAPLink counts this
in ``Remount count`` of ``DETAILS.TXT``, from 0 when it starts: a rise says that the probe took the
drive away itself, not a user who unplugged it. ``ASSERT.TXT`` says that DAPLink itself failed.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hil.access.connection import Flashed, ProbeInfo
from hil.access.flashers.mounts import (
    DriveGoneError,
    copy_error,
    copy_to,
    fat_mounts,
    text_of,
    usb_serial,
)
from hil.access.protocols import Flasher, FlasherSession, Progress
from hil.board.config import configured
from hil.board.settings import Setting
from hil.errors import FlashError, InputError, ProbeError, Remedy

if TYPE_CHECKING:
    from hil.access.connection import Connection
    from hil.board import Board

_DETAILS, _PAGE, _FAIL, _ASSERT = "DETAILS.TXT", "MBED.HTM", "FAIL.TXT", "ASSERT.TXT"
_IMAGE = "firmware.hex"
_UNIQUE_ID: Final = re.compile(r"^Unique ID:\s*([0-9A-Fa-f]+)\s*$", re.MULTILINE)
_CODE: Final = re.compile(r"\bcode=([0-9A-Fa-f]{4,})")
_MODE: Final = re.compile(r"^Daplink Mode:\s*Bootloader\b", re.MULTILINE | re.IGNORECASE)
_NO_RESET: Final = re.compile(r"^Auto Reset:\s*0\b", re.MULTILINE | re.IGNORECASE)
_COUNT: Final = re.compile(r"^Remount count:\s*(\d+)", re.MULTILINE | re.IGNORECASE)
_LOOK_S: Final = 0.05
#: Words of FAIL.TXT, and what the user does.
_REMEDIES: Final = (
    ("timed|order|transient", "copy it again; use another cable or socket if it comes back"),
    ("swd|jtag|reset/halt|connect", "check the board's supply, and whether the chip is locked"),
    ("erase|program|write|protect", "check whether the chip's flash is protected"),
    ("hex|format|image|file type", "check --board: the image is for another chip"),
)
_AGAIN = "connect the board again, and repeat"


@dataclass(frozen=True)
class Drive:
    """A probe's drive."""

    folder: Path
    #: The probe's unique id, else the folder.
    uid: str
    #: Begins with the board's code of four digits; "" if it is not known.
    board_id: str
    details: str

    @property
    def count(self) -> int | None:
        """How often DAPLink has taken it away since it started; None for another probe."""
        found = _COUNT.search(self.details)
        return int(found[1]) if found else None

    @property
    def probe(self) -> ProbeInfo:
        """The drive as one of the probes among which a board's is chosen."""
        return ProbeInfo(self.uid, f"the probe's drive {self.folder}", "", "")


def drive_at(folder: Path, device: str = "") -> Drive | None:
    """Return the drive that is mounted at ``folder``; None for another folder, or none.

    ``device`` is its block device.
    """
    details, page = text_of(folder / _DETAILS), text_of(folder / _PAGE)
    unique, code = _UNIQUE_ID.search(details), _CODE.search(page)
    if not details and code is None:
        return None
    board_id = unique[1] if unique else code[1] if code else ""
    uid = (unique[1] if unique else "") or (usb_serial(device) if device else "") or str(folder)
    return Drive(folder, uid, board_id.lower(), details)


def drives() -> list[Drive]:
    """Return the drives among the mounted FAT file systems."""
    found = (drive_at(mount.folder, mount.device) for mount in fat_mounts())
    return [drive for drive in found if drive is not None]


class ProbeDrive(Flasher):
    """Copies an image to the drive of a probe."""

    name = "drive"
    title = "the probe's drive"
    formats = ("hex",)
    connect = "connect the board, and mount its drive (MICROBIT, DAPLINK, NODE_...)"
    settings = {
        "board_id": Setting(
            "words", "codes of the board, the first digits of the unique id; empty: any", ""
        ),
        "program_s": Setting("integer", "longest time until the drive is back", 60, 1, 600),
    }

    def can_reset(self, board: Board) -> bool:
        """Return that it cannot."""
        return False

    def probes(self) -> list[ProbeInfo]:
        """Return the mounted drives."""
        return [drive.probe for drive in drives()]

    def candidates(self, board: Board, connection: Connection) -> list[ProbeInfo]:
        """Return the drives of the board: mounted ones, or the folder of ``--probe``."""
        chosen = connection.uid or connection.probe or configured(board.name).get("probe", "")
        codes = str(board.settings[self.name]["board_id"]).lower().split()
        if Path(chosen).is_absolute():
            found = [drive_at(Path(chosen))]
            known = [drive for drive in found if drive is not None]
        else:
            known = drives()
        fits = [d for d in known if not codes or d.board_id.startswith(tuple(codes))]
        if known and not fits:
            others = ", ".join(f"{d.folder} ({d.board_id[:4] or 'no code'})" for d in known)
            raise ProbeError(
                f"no probe's drive is that of {board.name} (code {' or '.join(codes)}): {others}",
                "connect the right board, or correct the setting board_id",
                is_lost=True,
            )
        name = board.name if codes else ""
        uids = {d.uid: str(d.folder) if Path(chosen).is_absolute() else d.uid for d in fits}
        return [ProbeInfo(uids[d.uid], d.probe.description, name, "") for d in fits]

    @contextlib.contextmanager
    def open(
        self, board: Board, uid: str, connection: Connection, *, attach: bool = False
    ) -> Iterator[DriveSession]:
        """Yield a session with the drive of the probe ``uid``."""
        if connection.erase_to_unlock:
            raise InputError(
                "the flasher 'drive' cannot open a locked chip", "leave out --erase-to-unlock"
            )
        drive = _drive_of(uid)
        if drive is None:
            raise ProbeError(f"the drive of the probe {uid} is gone", self.connect, is_lost=True)
        yield DriveSession(drive, uid, int(board.settings[self.name]["program_s"]))


def _drive_of(uid: str) -> Drive | None:
    if Path(uid).is_absolute():
        return drive_at(Path(uid))
    return next((drive for drive in drives() if drive.uid == uid), None)


class DriveSession(FlasherSession):
    """A probe's drive."""

    def __init__(self, drive: Drive, uid: str, program_s: int) -> None:
        self._drive = drive
        #: By which it is found again.
        self._uid = uid
        self._program_s = program_s
        self._is_programmed = False

    def program(self, image: Path, progress: Progress | None) -> Flashed:
        """Copy the image, and wait until the probe has programmed it."""
        # Not what was read when it was opened: its count has risen if this programs again.
        before = self._find()
        if before is None:
            raise ProbeError(f"the drive {self._drive.folder} is gone", _AGAIN, is_lost=True)
        _check_mode(before)
        if _NO_RESET.search(before.details):
            raise FlashError(
                f"the probe of {before.folder} does not start what it has programmed",
                "switch its automatic reset on: copy an empty file AUTO_RST.CFG to the drive while "
                "the reset button is held",
                remedy=None,
            )
        asserted = text_of(before.folder / _ASSERT)
        begin, data = time.monotonic(), image.read_bytes()
        try:
            copy_to(before.folder / _IMAGE, data, progress)
        except DriveGoneError:
            pass  # The probe takes the drive away as soon as it has the last line.
        except OSError as error:
            raise copy_error(before.folder, error, _AGAIN) from None
        self._wait(before, asserted)
        self._is_programmed = True
        return Flashed(True, len(data), time.monotonic() - begin)

    def start(self, image: Path, *, halted: bool = False) -> None:
        """Do nothing after :meth:`program`: the probe has reset the board."""
        if not self._is_programmed:
            self.reset()
        self._is_programmed = False

    def reset(self) -> str:
        """Raise InputError: a drive cannot reset its board."""
        raise InputError("the flasher 'drive' cannot reset a board", "press its reset button")

    def close(self) -> None:
        """Do nothing: no file of the drive is open."""

    def _find(self) -> Drive | None:
        """Return the drive; None if it is gone, or another board's is at its folder."""
        drive = _drive_of(self._uid)
        return drive if drive is not None and drive.board_id == self._drive.board_id else None

    def _wait(self, before: Drive, asserted: str) -> None:
        """Return when the probe has programmed the image, which its drive must show.

        ``before`` is the drive before the copy, ``asserted`` its ASSERT.TXT.
        """
        deadline = time.monotonic() + self._program_s
        drive: Drive | None = before
        was_away = False
        while time.monotonic() < deadline:
            drive = self._find()
            was_away |= drive is None
            if drive is not None and _has_programmed(before, drive, asserted, was_away=was_away):
                return
            time.sleep(_LOOK_S)
        raise self._silence(before, drive)

    def _silence(self, before: Drive, drive: Drive | None) -> FlashError:
        """Return the error for a drive that did not show in time that the image is programmed."""
        if drive is not None:
            count = "" if drive.count is None else f" (Remount count {before.count}, {drive.count})"
            return FlashError(
                f"the drive {drive.folder} gave no sign that it programmed the image within "
                f"{self._program_s} s{count}",
                "leave the board connected while it is programmed, and repeat; for a large image "
                "raise the setting: --flasher drive:program_s=S",
                remedy=Remedy.FLASH,
            )
        other = _drive_of(self._uid)
        there = f" (that of another board is there: {other.board_id or other.uid})" if other else ""
        return FlashError(
            f"the drive {before.folder} was not back within {self._program_s} s{there}, so nobody "
            "says whether the board was programmed",
            "mount it again, as a desktop does by itself; or use another flasher; for a large "
            "image raise the setting: --flasher drive:program_s=S",
            remedy=None,
        )


def _check_mode(drive: Drive) -> None:
    """Raise FlashError for the drive of DAPLink's bootloader, which programs the probe itself."""
    if _MODE.search(drive.details):
        raise FlashError(
            f"the drive {drive.folder} is that of DAPLink's own bootloader",
            "connect the board without pressing its reset button",
            remedy=None,
        )


def _has_programmed(before: Drive, drive: Drive, asserted: str, *, was_away: bool) -> bool:
    """Return whether the drive shows that the probe has programmed the image.

    Raises:
        FlashError: It shows that the probe failed.
    """
    _check_mode(drive)
    said = text_of(drive.folder / _ASSERT)
    if said and said != asserted:
        raise _failure(drive.folder, _ASSERT, said.splitlines())
    # Without a count, a drive that was unplugged looks the same if its image was written whole.
    is_again = was_away if before.count is None else (drive.count or 0) > before.count
    if not is_again or text_of(drive.folder / _IMAGE):
        return False
    if said := text_of(drive.folder / _FAIL).strip():
        raise _failure(drive.folder, _FAIL, said.splitlines())
    return True


def _failure(folder: Path, name: str, lines: Sequence[str]) -> FlashError:
    said = " ".join(" ".join(lines).split())
    hint = next(
        (hint for words, hint in _REMEDIES if re.search(words, said, re.IGNORECASE)), _AGAIN
    )
    return FlashError(
        f"the probe did not program the board; {name} of {folder} says: {said[:300]}",
        hint,
        remedy=Remedy.FLASH,
    )
