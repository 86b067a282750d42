"""Descriptions of USB devices, as Linux has them in ``/sys/bus/usb/devices``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def add_device(
    devices: Path,
    path: str,
    vendor: int,
    product: int,
    serial: str = "",
    interfaces: Sequence[tuple[int, int, int]] = (),
    name: str = "Probe",
) -> None:
    """Add a device in the socket ``path`` (``1-2.4``), in place of another one there."""
    bus, _, sockets = path.partition("-")
    files = {
        "idVendor": f"{vendor:04x}",
        "idProduct": f"{product:04x}",
        "product": name,
        "busnum": bus,
        "devnum": sockets.replace(".", "").lstrip("0") or "1",
        **({"serial": serial} if serial else {}),
    }
    _write(devices / path, files)
    for number, (kind, subclass, protocol) in enumerate(interfaces):
        about = {
            "bInterfaceClass": f"{kind:02x}",
            "bInterfaceSubClass": f"{subclass:02x}",
            "bInterfaceProtocol": f"{protocol:02x}",
        }
        _write(devices / f"{path}:1.{number}", about)


def _write(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text + "\n")
