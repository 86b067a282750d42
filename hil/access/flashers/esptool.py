"""The flasher ``esptool``: Espressif's chips through the boot ROM at their serial port.

The image is converted from ELF by esptool's ``elf2image``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hil.access.flashers.program import IMAGE, Failure, ProgramFlasher, When, when
from hil.access.protocols import Need
from hil.board.settings import Setting
from hil.errors import ProbeError, Remedy
from hil.support.process import python_module
from hilc.support.optional import install_hint, is_installed

if TYPE_CHECKING:
    from hil.access.flashers.program import Line
    from hil.board import Board

_FLASH = ("--flash-mode", "{flash_mode}", "--flash-freq", "{flash_freq}", "--flash-size")
_CONVERT: Line = (
    *("--chip", "{chip}", "elf2image", *_FLASH, "{flash_size}"),
    *("-o", f"{IMAGE}.bin", "{file}"),
)


def _line(after: str, *words: str | When) -> Line:
    """Return the arguments of a command that connects to the chip."""
    return (
        *("--chip", "{chip}", "--port", "{port}", "--baud", "{baudrate}"),
        *("--before", "{before}", "--after", after),
        when("!stub", "--no-stub"),
        *words,
    )


class EspTool(ProgramFlasher):
    """Programs ESP32 chips by ``esptool``, which compares the flash's hash."""

    name = "esptool"
    title = "esptool"
    program = "esptool"
    install = install_hint("esptool")
    image = "elf"
    uses_probe = False
    settings = {
        "chip": Setting("name", "the chip: esp32c3, esp32c6, esp32h2, ..."),
        "baudrate": Setting(
            "integer", "rate of the line to the boot ROM", 460_800, 9600, 5_000_000
        ),
        "before": Setting(
            "name",
            "how the boot ROM is started: default-reset, usb-reset, no-reset",
            "default-reset",
        ),
        "after": Setting(
            "name", "how the firmware is started: hard-reset, watchdog-reset", "hard-reset"
        ),
        "stub": Setting("boolean", "whether esptool loads its faster program into RAM", True),
        "offset": Setting("integer", "where the image lies in the flash", 0),
        "flash_mode": Setting("name", "mode of the flash: qio, qout, dio, dout", "dio"),
        "flash_freq": Setting("name", "clock of the flash, such as 80m", "80m"),
        "flash_size": Setting("name", "size of the flash, such as 4MB", "4MB"),
    }
    lines = {
        "program": [
            _CONVERT,
            _line("{after}", "write-flash", "{offset:#x}", f"{IMAGE}.bin"),
        ],
        "reset": [_line("{after}", "run")],
        "erase": [
            _line(
                "no-reset",
                when("stub", "erase-flash"),
                when("!stub", "erase-region", "0x0", "ALL"),
            )
        ],
        "verify": [_CONVERT, _line("no-reset", "verify-flash", "{offset:#x}", f"{IMAGE}.bin")],
    }
    success = {"program": r"hash of data verified", "erase": r"erased successfully"}
    failures = (
        Failure(
            r"could not open \S+, the port is busy|permission denied|could not open port",
            "close other programs that use the port; `hil doctor` lists the ports",
            ProbeError,
        ),
        Failure(
            r"this chip is .*, not|unexpected chip id",
            "choose the chip's name: --flasher esptool:chip=NAME, or the right --port",
            ProbeError,
        ),
        Failure(
            r"failed to connect to|no serial data received|wrong boot mode detected",
            "hold BOOT and press reset, then repeat with --flasher esptool:before=no-reset; check "
            "the cable",
            ProbeError,
            Remedy.POWER,
        ),
        Failure(
            r"active security features|secure boot|secure download|flash encryption",
            "the chip is locked and was not changed: its eFuses allow no other firmware",
            ProbeError,
        ),
        Failure(
            r"MD5 of file does not match|verification failed|failed to write|"
            r"failed to (?:enter|leave) .*flash|digest mismatch",
            "erase the board (hil erase) and repeat; check its supply",
            remedy=Remedy.FLASH,
        ),
    )

    def starts_itself(self, board: Board) -> bool:
        """Return that esptool resets the chip when it has programmed it."""
        return True

    def needs(self, board: Board | None) -> Need | None:
        """Return the package esptool."""
        return Need(self.name, self.install, lambda: is_installed("esptool"))

    def words(self) -> list[str]:
        """Return the words that start the package's program."""
        return python_module("esptool")
