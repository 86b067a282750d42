"""The flasher ``bossac``: boards with a SAM-BA bootloader, of Arduino and others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from hil.access.flashers.program import Failure, ProgramFlasher, when
from hil.access.flashers.touch import touch
from hil.access.flashers.usb import SAM_BA
from hil.access.usb import UsbDevice, usb_devices
from hil.board.settings import Setting
from hil.errors import InputError, ProbeError, Remedy
from hil.link.ports import Port, serial_ports
from hilc.support.packages import install_command

if TYPE_CHECKING:
    from hil.access.connection import Connection
    from hil.board import Board
    from hil.board.settings import Value

#: Set in the product id of a device that runs a sketch, clear in its bootloader's.
_RUNS: Final = 0x8000
_LOOK_S = 0.05
_TOUCHES: Final = ("sketch", "always", "never")
#: Time for a bridge on the board to restart the chip behind it.
_BRIDGE_S = 0.5
_PLACE = ("--port={port}", "-U", when("offset", "--offset={offset:#x}"))


class Bossac(ProgramFlasher):
    """Programs boards by ``bossac``, which reads the flash back. They are chosen by the path of
    their socket, since a bootloader may have another serial number than what it starts.
    """

    name = "bossac"
    title = "bossac"
    program = "bossac"
    install = install_command("bossa-cli")
    version = ("--help",)
    image = "bin"
    usb_ids = SAM_BA
    by_path = True
    by_hand = "press the board's reset button once; twice starts its bootloader"
    settings = {
        "offset": Setting(
            "integer", "bytes of the bootloader at the start of the flash, as bossac counts", 0
        ),
        "verify": Setting("boolean", "whether the bootloader can read the flash back", True),
        "touch": Setting(
            "name",
            "when 1200 baud start the bootloader: `sketch` (by a product id of 0x8000 or more), "
            "`always` (the port stays), `never`",
            "sketch",
        ),
        "appear_s": Setting("integer", "longest time until the bootloader is there", 10, 1, 600),
    }
    lines = {
        "program": [
            ("-i", *_PLACE, "-e", "-w", when("verify", "-v"), "{file}", "-R"),
        ],
        "erase": [(*_PLACE, "-e")],
    }
    success = {"program": r"write \d+ bytes to flash|done in"}
    failures = (
        Failure(
            r"no device found on|device not found|unsupported device|no serial ports",
            "start the board's bootloader: press reset twice",
            ProbeError,
            is_lost=True,
        ),
        Failure(
            r"permission denied|cannot open|failed to open port",
            "join the group that owns the port (often: sudo usermod -aG dialout $USER), and close "
            "other programs that use it",
            ProbeError,
        ),
        Failure(
            r"security|region .* locked|flash is locked|lock error",
            "the chip is locked and was not changed; open it with its maker's tool",
            ProbeError,
        ),
        Failure(
            r"verify failed|page errors|flash command failed|offset must|too large|beyond end|"
            r"SAM-BA operation failed",
            "press reset twice and repeat; check the setting offset against the bootloader",
            remedy=Remedy.FLASH,
        ),
    )

    def values(self, board: Board, uid: str, connection: Connection) -> dict[str, Value]:
        """Return the values of placeholders, with the port of the bootloader, which is started."""
        values = super().values(board, uid, connection)
        device, when_touched = self.device(uid), values["touch"]
        if when_touched not in _TOUCHES:
            raise InputError(
                f"the setting touch of the flasher 'bossac' is {when_touched!r}",
                f"choose one of {', '.join(_TOUCHES)}",
            )
        if when_touched == "always":
            touch(_port_of(device))
            time.sleep(_BRIDGE_S)
        elif when_touched == "sketch" and device.product & _RUNS:
            touch(_port_of(device))
            device = self._bootloader(device.path, int(values["appear_s"]))
        return {**values, "port": _port_of(device)}

    def _bootloader(self, path: str, limit_s: int) -> UsbDevice:
        """Return the device that the bootloader is, in the same socket."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            for device in usb_devices():
                if device.path == path and not device.product & _RUNS and _ports_of(device):
                    return device
            time.sleep(_LOOK_S)
        raise ProbeError(
            f"no bootloader appeared at the USB path {path} within {limit_s} s after 1200 baud",
            "press reset twice to start it",
            is_lost=True,
        )


def _ports_of(device: UsbDevice) -> list[Port]:
    return [port for port in serial_ports() if port.location.partition(":")[0] == device.path]


def _port_of(device: UsbDevice) -> str:
    """Return the first serial port of a device."""
    ports = sorted(_ports_of(device), key=lambda port: port.interface)
    if not ports:
        raise ProbeError(
            f"{device.name} at the USB path {device.path} has no serial port",
            "press reset twice to start its bootloader",
            is_lost=True,
        )
    return ports[0].device
