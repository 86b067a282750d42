"""Debug probes on USB: those that this user may not open, and the sockets that they are in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

#: Linux's descriptions of USB devices, and their device files.
DEVICES, NODES = Path("/sys/bus/usb/devices"), Path("/dev/bus/usb")
_TEXTS = ("serial", "product")
_UNNAMED = "debug probe"


@dataclass(frozen=True)
class ForbiddenProbe:
    """A connected probe that this user may not open."""

    name: str
    node: Path
    #: The rule or group that gives the user the permission.
    remedy: str


def forbidden_devices(
    known: Mapping[int, tuple[int, ...] | None],
    remedy: str,
    devices: Path = DEVICES,
    nodes: Path = NODES,
) -> list[ForbiddenProbe]:
    """Return the USB devices whose device files this user may not write; none without ``devices``.

    ``known`` has the product ids of each vendor; None for all of them.
    """
    found = []
    for folder in sorted(devices.glob("*")):
        try:
            vendor, product = (
                int((folder / key).read_text(), 16) for key in ("idVendor", "idProduct")
            )
            bus, number = (int((folder / key).read_text()) for key in ("busnum", "devnum"))
        except (OSError, ValueError):
            continue  # an interface instead of a device, or a device that was just unplugged
        products = known.get(vendor, ())
        node = nodes / f"{bus:03}" / f"{number:03}"
        if products is not None and product not in products:
            continue
        if node.exists() and not os.access(node, os.R_OK | os.W_OK):
            found.append(ForbiddenProbe(_name(folder, vendor, product), node, remedy))
    return found


@dataclass(frozen=True)
class UsbDevice:
    """A connected USB device."""

    #: Bus and sockets: ``1-2.4``.
    path: str
    #: ``vendor:product``, each of four hexadecimal digits.
    id: str
    #: Serial number and product; empty where the device reports none.
    serial: str
    product: str


def usb_devices(devices: Path | None = None) -> list[UsbDevice]:
    """Return the connected USB devices; none where Linux's descriptions are missing."""
    found = []
    for folder in sorted((devices or DEVICES).glob("*")):
        try:
            vendor, product = (
                int((folder / key).read_text(), 16) for key in ("idVendor", "idProduct")
            )
        except (OSError, ValueError):
            continue  # an interface instead of a device, or a device that was just unplugged
        usb_id = f"{vendor:04x}:{product:04x}"
        found.append(UsbDevice(folder.name, usb_id, *(_text(folder, k) for k in _TEXTS)))
    return found


def usb_paths(serial: str) -> list[tuple[str, str]]:
    """Return path (bus and sockets: ``1-2.4``) and name of each USB device with that serial number;
    none where Linux's descriptions are missing.
    """
    return [
        (each.path, f"{each.product or _UNNAMED} ({each.id})")
        for each in usb_devices()
        if each.serial.lower() == serial.lower()
    ]


def _text(folder: Path, key: str) -> str:
    try:
        return (folder / key).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _name(folder: Path, vendor: int, product: int) -> str:
    return f"{_text(folder, 'product') or _UNNAMED} ({vendor:04x}:{product:04x})"
