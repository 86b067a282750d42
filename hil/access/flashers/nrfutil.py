"""The flasher ``nrfutil``: Nordic's chips through a J-Link."""

from __future__ import annotations

from hil.access.flashers.program import NO_PERMISSION, Failure, ProgramFlasher, when
from hil.access.flashers.usb import JLINK
from hil.board.settings import Setting
from hil.errors import ProbeError, Remedy

_PLACE = (
    when("serial", "--serial-number", "{serial}"),
    when("!serial", "--traits", "jlink"),
    when("core", "--core", "{core}"),
)
#: The default erases the whole core's flash, and its configuration.
_OPTIONS = "chip_erase_mode=ERASE_RANGES_TOUCHED_BY_FIRMWARE,verify=VERIFY_READ,reset=RESET_NONE"


class NrfUtil(ProgramFlasher):
    """Programs Nordic's chips by ``nrfutil device``, which reads the flash back."""

    name = "nrfutil"
    title = "nrfutil device"
    program = "nrfutil"
    install = "install nrfutil from nordicsemi.com, then `nrfutil install device`"
    image = "hex"
    usb_ids = JLINK
    settings = {"core": Setting("name", "Application or Network; empty: the only one", "")}
    lines = {
        "program": [("device", "program", "--firmware", "{file}", *_PLACE, "--options", _OPTIONS)],
        "reset": [("device", "reset", *_PLACE)],
        "erase": [("device", "erase", "--all", *_PLACE)],
        "verify": [("device", "fw-verify", "--firmware", "{file}", *_PLACE)],
        "unlock": [("device", "recover", *_PLACE)],
    }
    failures = (
        NO_PERMISSION,
        Failure(
            r"no devices? found|no devices? matched|device .*not found|"
            r"failed to find .*serial number",
            "connect the board; `hil doctor` lists the probes",
            ProbeError,
            is_lost=True,
        ),
        Failure(
            r"unrecognized subcommand|command .*device.* not found|no such (?:sub)?command",
            "install it: nrfutil install device",
        ),
        Failure(
            r"protect|NOT_AVAILABLE_BECAUSE_PROTECTION|unavailable due to",
            "the chip is locked and was not changed; to open it, which erases it: "
            "hil erase --board BOARD --erase-to-unlock",
            ProbeError,
        ),
        Failure(
            r"cannot connect|could not connect|no debugger|low voltage|LOW_VOLTAGE",
            "check the cable and the board's supply",
            ProbeError,
            Remedy.POWER,
        ),
        Failure(
            r"verif\w*.*fail|VERIFY_ERROR|failed to program",
            "erase the board (hil erase) and repeat; check its supply",
            remedy=Remedy.FLASH,
        ),
    )
