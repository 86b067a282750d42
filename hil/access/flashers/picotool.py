"""The flasher ``picotool``: RP2040 and RP2350 in their boot ROM."""

from __future__ import annotations

from hil.access.flashers.program import NO_PERMISSION, Failure, ProgramFlasher
from hil.access.flashers.usb import PICO
from hil.errors import ProbeError, Remedy
from hilc.support.packages import install_command

_PLACE = ("--bus", "{bus}", "--address", "{address}")


class PicoTool(ProgramFlasher):
    """Programs RP2040 and RP2350 by ``picotool``, which reads the flash back."""

    name = "picotool"
    title = "picotool"
    program = "picotool"
    install = f"see https://github.com/raspberrypi/picotool, or `{install_command('picotool')}`"
    version = ("version",)
    image = "elf"
    usb_ids = PICO
    by_path = True
    by_hand = "press the board's reset button; for its boot ROM, hold BOOTSEL while it starts"
    lines = {
        "program": [("load", "--verify", "--execute", "{file}", *_PLACE)],
        "erase": [("erase", "--all", *_PLACE)],
    }
    failures = (
        NO_PERMISSION,
        Failure(
            r"no accessible rp\S* devices? in bootsel mode|no accessible .* device",
            "hold BOOTSEL while the board is plugged in or reset",
            ProbeError,
            is_lost=True,
        ),
        Failure(
            r"family|not a valid|unsupported|does not contain",
            "the image is for another chip: check --board",
        ),
        Failure(
            r"otp|secure boot|locked|permissions?",
            "the chip's OTP or partition table forbids it; nothing was unlocked",
            ProbeError,
        ),
        Failure(
            r"verif\w*.*(?:fail|mismatch|differ)|failed to (?:write|erase)|rebooting",
            "hold BOOTSEL while the board is plugged in, and repeat",
            remedy=Remedy.FLASH,
        ),
    )
