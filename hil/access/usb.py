"""Debug probes on USB: those that this user may not open, and the sockets that they are in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

#: Linux's descriptions of USB devices, and their device files.
DEVICES, NODES = Path("/sys/bus/usb/devices"), Path("/dev/bus/usb")


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


def usb_paths(serial: str) -> list[tuple[str, str]]:
    """Return path (bus and sockets: ``1-2.4``) and name of each USB device with that serial number;
    none where Linux's descriptions are missing.
    """
    found = []
    for folder in sorted(DEVICES.glob("*")):
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


@dataclass(frozen=True)
class UsbDevice:
    """A device on USB, as Linux describes it."""

    #: Bus and sockets: ``1-2.4``. It stays when the device returns with other ids.
    path: str
    vendor: int
    product: int
    #: Its serial number; empty where it has none.
    serial: str
    name: str
    #: Class, subclass and protocol of each interface.
    interfaces: tuple[tuple[int, int, int], ...]
    #: Where it is now: its bus, and its number there.
    bus: int
    address: int

    @property
    def id(self) -> str:
        """``vendor:product``, each of four hexadecimal digits."""
        return f"{self.vendor:04x}:{self.product:04x}"


def usb_devices() -> list[UsbDevice]:
    """Return the devices on USB, without opening one: another process may use it. None where
    Linux's descriptions are missing.
    """
    found = []
    for folder in sorted(DEVICES.glob("*")):
        try:
            vendor, product = (
                int((folder / key).read_text(), 16) for key in ("idVendor", "idProduct")
            )
        except (OSError, ValueError):
            continue
        found.append(
            UsbDevice(
                path=folder.name,
                vendor=vendor,
                product=product,
                serial=_text(folder / "serial"),
                name=_name(folder, vendor, product),
                interfaces=tuple(map(_interface, sorted(DEVICES.glob(f"{folder.name}:*")))),
                bus=int(_text(folder / "busnum") or 0),
                address=int(_text(folder / "devnum") or 0),
            )
        )
    return found


def _interface(folder: Path) -> tuple[int, int, int]:
    keys = ("bInterfaceClass", "bInterfaceSubClass", "bInterfaceProtocol")
    kind, subclass, protocol = (int(_text(folder / key) or "0", 16) for key in keys)
    return kind, subclass, protocol


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _name(folder: Path, vendor: int, product: int) -> str:
    try:
        text = (folder / "product").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        text = "debug probe"
    return f"{text} ({vendor:04x}:{product:04x})"
