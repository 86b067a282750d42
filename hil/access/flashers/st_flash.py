"""The flasher ``st-flash``: STM32 through an ST-Link, by the tools of stlink."""

from __future__ import annotations

from hil.access.flashers.program import NO_PERMISSION, Failure, ProgramFlasher, when
from hil.access.flashers.usb import STLINK
from hil.board.settings import Setting
from hil.errors import ProbeError, Remedy
from hilc.support.packages import install_command

_PLACE = (
    when("serial", "--serial", "{serial}"),
    when("frequency_khz", "--freq={frequency_khz}"),
    when("under_reset", "--connect-under-reset"),
)


class StFlash(ProgramFlasher):
    """Programs STM32 by ``st-flash``, which reads the flash back."""

    name = "st-flash"
    title = "st-flash"
    program = "st-flash"
    install = install_command("stlink-tools")
    image = "hex"
    usb_ids = STLINK
    settings = {
        "frequency_khz": Setting("integer", "clock of the debug port in kHz; 0: default", 0),
        "under_reset": Setting("boolean", "connect while the chip is held in reset", False),
    }
    lines = {
        "program": [(*_PLACE, "--format", "ihex", "write", "{file}")],
        "reset": [(*_PLACE[:2], "reset")],
        "erase": [(*_PLACE, "erase")],
    }
    success = {"program": r"flash written and verified"}
    failures = (
        NO_PERMISSION,
        Failure(
            r"couldn't find any st-link devices|no st-link detected|unable to find|not found",
            "connect the board; `hil doctor` lists the probes",
            ProbeError,
            is_lost=True,
        ),
        Failure(
            r"unknown chip id|failed to connect to target|target voltage",
            "check the wiring and the board's supply; a firmware that sleeps or uses the debug "
            "pins: --flasher st-flash:under_reset=true",
            ProbeError,
            Remedy.POWER,
        ),
        Failure(
            r"flash memory is (?:write )?protected|read ?out protection|RDP",
            "the chip is locked and was not changed; to open it, which erases it: "
            "STM32_Programmer_CLI -c port=SWD -ob RDP=0xAA",
            ProbeError,
        ),
        Failure(
            r"verification of flash failed|failed to verify|write_loader|stlink_flash_loader",
            "erase the board (hil erase) and repeat; check its supply",
            remedy=Remedy.FLASH,
        ),
    )
