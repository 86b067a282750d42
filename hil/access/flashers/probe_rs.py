"""The flasher ``probe-rs``: CMSIS-DAP, ST-Link, J-Link and FTDI probes."""

from __future__ import annotations

from hil.access.flashers.program import NO_PERMISSION, Failure, ProgramFlasher, when
from hil.access.flashers.usb import CMSIS_DAP, ESP_JTAG, FTDI, JLINK, STLINK, merged
from hil.board.settings import Setting
from hil.errors import ProbeError, Remedy

_PLACE = (
    *("--non-interactive", "--chip", "{chip}"),
    when("serial", "--probe", "{vid}:{pid}:{serial}"),
    when("!serial", "--probe", "{vid}:{pid}"),
    when("protocol", "--protocol", "{protocol}"),
    when("speed_khz", "--speed", "{speed_khz}"),
    when("under_reset", "--connect-under-reset"),
)


class ProbeRs(ProgramFlasher):
    """Programs chips by ``probe-rs``, which reads the flash back."""

    name = "probe-rs"
    title = "probe-rs"
    program = "probe-rs"
    install = "see https://probe.rs, or `cargo install probe-rs-tools --locked`"
    image = "elf"
    usb_ids = merged(CMSIS_DAP, STLINK, JLINK, FTDI, ESP_JTAG)
    settings = {
        "chip": Setting("name", "probe-rs's name of the chip (`probe-rs chip list`)"),
        "protocol": Setting("name", "swd or jtag; empty: the probe's default", ""),
        "speed_khz": Setting("integer", "clock of the debug port in kHz; 0: default", 0),
        "under_reset": Setting("boolean", "connect while the chip is held in reset", False),
    }
    lines = {
        "program": [("download", *_PLACE, "--binary-format", "elf", "--verify", "{file}")],
        "reset": [("reset", *_PLACE)],
        "erase": [("erase", *_PLACE)],
        "unlock": [("erase", *_PLACE, "--allow-erase-all")],
    }
    failures = (
        NO_PERMISSION,
        Failure(
            r"no (?:connected )?probes? (?:were|was) found|probe could not be found|"
            r"no probe was found",
            "connect the board; `hil doctor` lists the probes",
            ProbeError,
            is_lost=True,
        ),
        Failure(
            r"allow-erase-all|missing permission|device is locked|chip is locked",
            "the chip is locked and was not changed; to open it, which erases it: "
            "hil erase --board BOARD --erase-to-unlock",
            ProbeError,
        ),
        Failure(
            r"chip .* was not found|no chips? found",
            "`probe-rs chip list` has the names for --flasher probe-rs:chip=NAME",
        ),
        Failure(
            r"target device did not respond|connecting to the chip was unsuccessful|"
            r"could not attach|no ack",
            "check the wiring and the board's supply, or connect under reset: "
            "--flasher probe-rs:under_reset=true",
            ProbeError,
            Remedy.POWER,
        ),
        Failure(
            r"verif\w+ .*(?:failed|mismatch)|failed to (?:erase|write|program|flash)",
            "erase the board (hil erase) and repeat; check its supply",
            remedy=Remedy.FLASH,
        ),
    )
