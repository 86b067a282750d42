"""Debug probes on USB: those that this user may not open, and the sockets that they are in."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

#: Linux's descriptions of USB devices, and their device files.
_DEVICES, _NODES = Path("/sys/bus/usb/devices"), Path("/dev/bus/usb")
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


@dataclass(frozen=True)
class ForbiddenProbe:
    """A connected probe that this user may not open."""

    name: str
    node: Path


def forbidden_probes(devices: Path = _DEVICES, nodes: Path = _NODES) -> list[ForbiddenProbe]:
    """Return the probes whose device files this user may not write; none without ``devices``."""
    found = []
    for folder in sorted(devices.glob("*")):
        try:
            vendor, product = (
                int((folder / key).read_text(), 16) for key in ("idVendor", "idProduct")
            )
            bus, number = (int((folder / key).read_text()) for key in ("busnum", "devnum"))
        except (OSError, ValueError):
            continue  # an interface instead of a device, or a device that was just unplugged
        products = _PROBES.get(vendor, ())
        node = nodes / f"{bus:03}" / f"{number:03}"
        if products is not None and product not in products:
            continue
        if node.exists() and not os.access(node, os.R_OK | os.W_OK):
            found.append(ForbiddenProbe(_name(folder, vendor, product), node))
    return found


def usb_paths(serial: str) -> list[tuple[str, str]]:
    """Return path (bus and sockets: ``1-2.4``) and name of each USB device with that serial number;
    none where Linux's descriptions are missing.
    """
    found = []
    for folder in sorted(_DEVICES.glob("*")):
        try:
            own = (folder / "serial").read_text(encoding="utf-8", errors="replace").strip()
            vendor, product = (
                int((folder / key).read_text(), 16) for key in ("idVendor", "idProduct")
            )
        except (OSError, ValueError):
            continue
        if own.lower() == serial.lower():
            found.append((folder.name, _name(folder, vendor, product)))
    return found


def _name(folder: Path, vendor: int, product: int) -> str:
    try:
        text = (folder / "product").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        text = "debug probe"
    return f"{text} ({vendor:04x}:{product:04x})"
