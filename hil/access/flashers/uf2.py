"""The flasher ``uf2``: bootloaders that show a drive, onto which an image is copied.

A drive is a mounted FAT file system, or the folder of ``--probe``, with a file ``INFO_UF2.TXT``. A
bootloader starts the firmware when it has the last block of the image, and its
drive disappears.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hil.access.connection import Flashed, ProbeInfo
from hil.access.flashers.mounts import DriveGoneError, copy_error, copy_to, fat_mounts, text_of
from hil.access.flashers.touch import touch
from hil.access.protocols import Flasher, FlasherSession, Progress
from hil.board.config import configured
from hil.board.settings import Setting
from hil.errors import FlashError, InputError, ProbeError
from hil.link.ports import resolve

if TYPE_CHECKING:
    from hil.access.connection import Connection
    from hil.board import Board

_INFO: Final = "INFO_UF2.TXT"
_IMAGE: Final = "firmware.uf2"
_BOARD_ID = re.compile(r"^Board-ID:\s*(\S.*?)\s*$", re.MULTILINE | re.IGNORECASE)
_MODEL = re.compile(r"^Model:\s*(\S.*?)\s*$", re.MULTILINE | re.IGNORECASE)
_LOOK_S: Final = 0.05
_BUTTON = (
    "start the board's bootloader (hold BOOTSEL while it is plugged in, or press reset twice), and "
    "mount its drive"
)


@dataclass(frozen=True)
class Drive:
    """A drive of a bootloader."""

    folder: Path
    #: Of INFO_UF2.TXT; empty where it has none.
    board_id: str
    model: str

    @property
    def probe(self) -> ProbeInfo:
        """The drive as one of the probes among which a board's is chosen."""
        return ProbeInfo(str(self.folder), f"UF2 drive, {self.model}", "", self.board_id)


def drive_at(folder: Path) -> Drive | None:
    """Return the drive that is mounted at ``folder``; None for another folder, or none."""
    text = text_of(folder / _INFO)
    if not text:
        return None
    board_id, model = _BOARD_ID.search(text), _MODEL.search(text)
    return Drive(folder, board_id[1] if board_id else "", model[1] if model else "unknown")


def drives() -> list[Drive]:
    """Return the drives among the mounted FAT file systems."""
    found = (drive_at(mount.folder) for mount in fat_mounts())
    return [drive for drive in found if drive is not None]


class Uf2(Flasher):
    """Copies an image to the drive of a bootloader."""

    name = "uf2"
    title = "the UF2 bootloader"
    formats = ("uf2",)
    connect = _BUTTON
    settings = {
        "family": Setting("integer", "number of the chip's family in the image", 0, 0, 0xFFFFFFFF),
        "board_id": Setting(
            "words", "Board-ID in INFO_UF2.TXT, or its first letters; empty: any", ""
        ),
        "touch": Setting(
            "boolean",
            "whether the port at 1200 baud starts the bootloader of a running board",
            False,
        ),
        "appear_s": Setting("integer", "longest time until the drive is there", 10, 1, 600),
        "start_s": Setting(
            "integer", "longest time until the bootloader starts the firmware", 10, 1, 600
        ),
        "stays": Setting("boolean", "whether the drive stays when the firmware starts", False),
    }

    def can_reset(self, board: Board) -> bool:
        """Return that it cannot."""
        return False

    def uf2_family(self, board: Board) -> int | None:
        """Return the setting ``family``."""
        return int(board.settings[self.name]["family"]) or None

    def probes(self) -> list[ProbeInfo]:
        """Return the mounted drives."""
        return [drive.probe for drive in drives()]

    def candidates(self, board: Board, connection: Connection) -> list[ProbeInfo]:
        """Return the drives with the board's id: mounted ones, or the folder of ``--probe``."""
        settings = board.settings[self.name]
        chosen = connection.uid or connection.probe or configured(board.name).get("probe", "")
        if chosen and not Path(chosen).is_absolute() and Path(chosen).is_dir():
            raise InputError(
                f"--probe {chosen} is a folder without its whole path",
                f"write --probe {Path(chosen).resolve()}",
            )
        found = [drive_at(Path(chosen))] if Path(chosen).is_absolute() else drives()
        known = [drive for drive in found if drive is not None]
        wanted = str(settings["board_id"]).lower()
        fits = [drive for drive in known if drive.board_id.lower().startswith(wanted)]
        if known and not fits:
            others = ", ".join(f"{drive.folder} ({drive.board_id or 'no id'})" for drive in known)
            raise ProbeError(
                f"no UF2 drive is that of {board.name} (Board-ID {settings['board_id']}): {others}",
                "start the bootloader of the right board, or correct the setting board_id",
                is_lost=True,
            )
        # Chosen by its id, which the caller need not compare once more.
        return [ProbeInfo(str(d.folder), d.probe.description, board.name, "") for d in fits]

    def summon(self, board: Board, connection: Connection) -> float:
        """Restart the board into its bootloader, where its port can."""
        settings = board.settings[self.name]
        if not settings["touch"] or connection.port is None:
            return 0.0
        touch(resolve(connection.port))
        return float(settings["appear_s"])

    @contextlib.contextmanager
    def open(
        self, board: Board, uid: str, connection: Connection, *, attach: bool = False
    ) -> Iterator[Uf2Session]:
        """Yield a session with the drive at ``uid``."""
        if connection.erase_to_unlock:
            raise InputError(
                "the flasher 'uf2' cannot open a locked chip", "leave out --erase-to-unlock"
            )
        drive = drive_at(Path(uid))
        if drive is None:
            raise ProbeError(f"there is no UF2 drive at {uid}", _BUTTON, is_lost=True)
        settings = board.settings[self.name]
        yield Uf2Session(drive, int(settings["start_s"]), stays=bool(settings["stays"]))


class Uf2Session(FlasherSession):
    """A drive, until the bootloader has started the firmware."""

    def __init__(self, drive: Drive, start_s: int, *, stays: bool) -> None:
        self._drive = drive
        self._start_s = start_s
        self._stays = stays
        self._is_programmed = False

    def program(self, image: Path, progress: Progress | None) -> Flashed:
        """Copy the image, and wait until the bootloader has started it."""
        begin = time.monotonic()
        data = image.read_bytes()
        try:
            copy_to(self._drive.folder / _IMAGE, data, progress)
        except OSError as error:
            # The bootloader restarts as soon as it has the last block, before the file is closed.
            if not isinstance(error, DriveGoneError) or self._is_there():
                again = "start the board's bootloader again, and repeat"
                raise copy_error(self._drive.folder, error, again) from None
        if not self._stays:
            self._wait()
        self._is_programmed = True
        return Flashed(True, len(data) // 2, time.monotonic() - begin)

    def start(self, image: Path, *, halted: bool = False) -> None:
        """Do nothing after :meth:`program`: the bootloader has started the firmware."""
        if not self._is_programmed:
            self.reset()
        self._is_programmed = False

    def reset(self) -> str:
        """Raise InputError: a drive cannot reset its board."""
        raise InputError("the flasher 'uf2' cannot reset a board", "press the board's reset button")

    def close(self) -> None:
        """Do nothing: no file of the drive is open."""

    def _is_there(self) -> bool:
        return drive_at(self._drive.folder) is not None

    def _wait(self) -> None:
        deadline = time.monotonic() + self._start_s
        while self._is_there():
            if time.monotonic() >= deadline:
                raise FlashError(
                    f"the bootloader at {self._drive.folder} did not start the firmware within "
                    f"{self._start_s} s: it ignores an image of another family, or is none",
                    "check --board and the setting family; for a drive that stays: "
                    "--flasher uf2:stays=true",
                )
            time.sleep(_LOOK_S)
