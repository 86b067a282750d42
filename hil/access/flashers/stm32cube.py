"""The flasher ``stm32cubeprogrammer``: STM32 by ST's own program."""

from __future__ import annotations

from hil.access.flashers.program import NO_PERMISSION, Failure, ProgramFlasher, when
from hil.access.flashers.usb import STLINK
from hil.board.settings import Setting
from hil.errors import ProbeError, Remedy

_PLACE = (
    *("-q", "-c", "port={transport}"),
    when("frequency_khz", "freq={frequency_khz}"),
    when("mode", "mode={mode}"),
    when("serial", "sn={serial}"),
)


class Stm32Cube(ProgramFlasher):
    """Programs STM32 by ``STM32_Programmer_CLI``, which reads the flash back."""

    name = "stm32cubeprogrammer"
    title = "STM32CubeProgrammer"
    program = "STM32_Programmer_CLI"
    install = "install STM32CubeProgrammer from st.com, and add its folder bin to PATH"
    image = "hex"
    usb_ids = STLINK
    settings = {
        "transport": Setting("name", "SWD or JTAG", "SWD"),
        "frequency_khz": Setting("integer", "clock of the debug port in kHz; 0: default", 0),
        "mode": Setting("name", "NORMAL, UR (under reset), HOTPLUG or POWERDOWN", "NORMAL"),
    }
    lines = {
        "program": [(*_PLACE, "-w", "{file}", "-v")],
        "reset": [(*_PLACE, "-rst")],
        "erase": [(*_PLACE, "-e", "all")],
        "unlock": [(*_PLACE, "-ob", "RDP=0xAA")],
    }
    success = {
        "program": r"download verified successfully",
        "erase": r"mass erase successfully achieved",
    }
    failures = (
        NO_PERMISSION,
        Failure(
            r"no (?:debug probe|st-link) detected|no stlink detected|"
            r"st-link serial number .* not found",
            "connect the board; `hil doctor` lists the probes",
            ProbeError,
            is_lost=True,
        ),
        Failure(
            r"read ?-?out protection|RDP level|memory protection mechanism",
            "the chip is locked and was not changed; to open it, which erases it: "
            "hil erase --board BOARD --erase-to-unlock",
            ProbeError,
        ),
        Failure(
            r"no stm32 target found|unable to get core id|target is held|no target connected",
            "check the wiring and the board's supply, or connect under reset: "
            "--flasher stm32cubeprogrammer:mode=UR",
            ProbeError,
            Remedy.POWER,
        ),
        Failure(
            r"failed to (?:erase memory|download)|data mismatch|download verification failed",
            "erase the board (hil erase) and repeat; check its write protection and its supply",
            remedy=Remedy.FLASH,
        ),
    )
