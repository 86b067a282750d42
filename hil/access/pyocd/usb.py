"""Debug probes on USB that pyOCD drives, and those that this user may not open."""

from __future__ import annotations

from pathlib import Path

from hil.access.usb import DEVICES, NODES, ForbiddenProbe, forbidden_devices

#: Vendors of probes, with product ids if the vendor makes other devices too. Sources: pyOCD's udev
#: rules (github.com/pyocd/pyOCD, folder udev) and the tables of its drivers.
_PROBES: dict[int, tuple[int, ...] | None] = {
    0x0D28: None,  # Arm DAPLink
    0x1366: None,  # SEGGER J-Link
    0xC251: None,  # Keil ULINK
    0x0483: (0x3744, 0x3748, 0x374B, 0x374D, 0x374E, 0x374F, 0x3752, 0x3753, 0x3754),  # ST-Link
    0x03EB: (0x2111, 0x2140, 0x2141, 0x2144, 0x2145, 0x216C, 0x2175),  # Atmel and Microchip EDBG
    0x1FC9: (0x0090, 0x0143),  # NXP LPC-Link2, MCU-Link
    0x2E8A: (0x000A, 0x000C),  # Raspberry Pi
    0x04B4: (0xF138, 0xF148, 0xF151, 0xF152, 0xF154, 0xF155, 0xF166),  # Cypress KitProg
}

REMEDY = (
    "copy the rules of https://github.com/pyocd/pyOCD/tree/main/udev to /etc/udev/rules.d, run "
    "`sudo udevadm control --reload && sudo udevadm trigger`, and plug the probe in again"
)


def forbidden_probes(devices: Path = DEVICES, nodes: Path = NODES) -> list[ForbiddenProbe]:
    """Return the probes whose device files this user may not write; none without ``devices``."""
    return forbidden_devices(_PROBES, REMEDY, devices, nodes)
