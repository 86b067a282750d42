"""The flasher ``dfu-util``: bootloaders of USB's class DFU, also those of ST (DfuSe)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hil.access.flashers.program import NO_PERMISSION, Failure, ProgramFlasher, when
from hil.board.settings import Setting
from hil.errors import InputError, ProbeError, Remedy
from hilc.support.packages import install_command

if TYPE_CHECKING:
    from hil.access.flashers.program import Action
    from hil.access.usb import UsbDevice
    from hil.board import Board

_DFU_CLASS = (0xFE, 0x01)
_PLACE = ("-p", "{path}", "-a", "{alt}")


class DfuUtil(ProgramFlasher):
    """Programs boards whose bootloader is a DFU device."""

    name = "dfu-util"
    title = "dfu-util"
    program = "dfu-util"
    install = install_command("dfu-util")
    image = "bin"
    by_path = True
    by_hand = "press the board's reset button; for its bootloader, hold BOOT or press reset twice"
    settings = {
        "alt": Setting("integer", "number of the device's memory (`dfu-util -l`)", 0, 0, 255),
        "dfuse": Setting(
            "boolean", "whether the bootloader takes addresses, as ST's does (DfuSe)", True
        ),
    }
    lines = {
        "program": [
            (
                *_PLACE,
                when("dfuse", "-s", "{origin:#010x}:leave"),
                when("!dfuse", "-R"),
                *("-D", "{file}"),
            )
        ],
        "erase": [(*_PLACE, "-s", ":mass-erase:force")],
    }
    success = {"program": r"file downloaded successfully|download done"}
    failures = (
        NO_PERMISSION,
        Failure(
            r"no dfu capable usb device available|lost device",
            "start the board's bootloader (often: hold BOOT, or press reset twice)",
            ProbeError,
            is_lost=True,
        ),
        Failure(
            r"read protected|device is write protected|errVENDOR|unprotect",
            "the chip is locked and was not changed; `dfu-util -s :unprotect:force` opens it, "
            "which erases it",
            ProbeError,
        ),
        Failure(
            r"page at .* (?:is|not) (?:not )?writeable|errADDRESS|last page .* not writeable|"
            r"not in a writeable",
            "the image is for other addresses than the device has (`dfu-util -l`): check --board "
            "and the setting alt",
        ),
        Failure(
            r"more than one dfu capable|cannot open device|error during (?:download|special)|"
            r"unable to (?:claim|set)|errPROG|errVERIFY|errERASE",
            "press reset twice or hold BOOT to start the bootloader again, and repeat",
            remedy=Remedy.FLASH,
        ),
    )

    def is_probe(self, device: UsbDevice) -> bool:
        """Return whether a device has an interface of the class DFU."""
        return any(interface[:2] == _DFU_CLASS for interface in device.interfaces)

    def check_settings(self, board: Board, action: Action) -> None:
        """Raise InputError for an erase that only ST's bootloaders have."""
        if action == "erase" and not board.settings[self.name]["dfuse"]:
            raise InputError(
                f"the bootloader of {board.name} cannot erase alone: it erases what it programs",
                "program another image",
            )
