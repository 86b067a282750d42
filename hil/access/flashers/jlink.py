"""The flasher ``jlink``: J-Links by SEGGER's JLinkExe, which reads a file of commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hil.access.flashers.program import NO_PERMISSION, Failure, ProgramFlasher, when
from hil.access.flashers.usb import JLINK
from hil.board.settings import Setting
from hil.errors import ProbeError, Remedy

if TYPE_CHECKING:
    from hil.access.connection import Connection
    from hil.board import Board
    from hil.board.settings import Value

_LINE = (
    *("-NoGui", "1", "-ExitOnError", "1"),
    *("-Device", "{device}", "-If", "{transport}", "-Speed", "{frequency_khz}"),
    when("number", "-USB", "{number}"),
    *("-AutoConnect", "1", "-CommandFile", "script"),
)


class JLink(ProgramFlasher):
    """Programs chips by ``JLinkExe``, which compares the flash with the file."""

    name = "jlink"
    title = "JLinkExe"
    program = "JLinkExe"
    install = "install the J-Link software from segger.com"
    version = ()
    image = "hex"
    usb_ids = JLINK
    settings = {
        "device": Setting("name", "SEGGER's name of the chip, such as STM32F407VG"),
        "transport": Setting("name", "SWD, JTAG or cJTAG", "SWD"),
        "frequency_khz": Setting("integer", "clock of the debug port in kHz", 4000, 5, 50_000),
    }
    lines = {"program": [_LINE], "reset": [_LINE], "erase": [_LINE]}
    scripts = {
        "program": ["r", "h", "loadfile {file}", "exit"],
        "reset": ["r", "g", "exit"],
        "erase": ["r", "h", "erase", "exit"],
    }
    success = {
        "program": r"downloading file \[image\.hex\][\s\S]*\bO\.K\.",
        "erase": r"erasing done|flash erased",
    }
    failures = (
        NO_PERMISSION,
        Failure(
            r"connecting to j-link.*failed|could not connect to j-link|no emulators connected|"
            r"cannot connect to j-link|failed to open dll",
            "connect the board; `hil doctor` lists the probes",
            ProbeError,
            is_lost=True,
        ),
        Failure(
            r"secured|read-?out protect|is protected|device is locked",
            "the chip is locked; open it with the maker's tool, which erases it",
            ProbeError,
        ),
        Failure(
            r"unknown device|not a valid device|device .* not found|failed to select device",
            "choose a name of segger.com/supported-devices: --flasher jlink:device=NAME",
        ),
        Failure(
            r"cannot connect to target|could not (?:find|connect to) .*(?:core|target)|"
            r"VTref|target voltage|no cortex",
            "check the wiring and the board's supply",
            ProbeError,
            Remedy.POWER,
        ),
        Failure(
            r"failed to (?:erase|program|download|prepare)|error while programming|"
            r"verification failed|unspecified error",
            "erase the board (hil erase) and repeat; check its supply",
            remedy=Remedy.FLASH,
        ),
    )

    def values(self, board: Board, uid: str, connection: Connection) -> dict[str, Value]:
        """Return the values of placeholders; JLinkExe takes serial numbers without zeros before."""
        values = super().values(board, uid, connection)
        return {**values, "number": str(values["serial"]).lstrip("0")}
