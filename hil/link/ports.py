"""Serial ports of this machine, and names of them that last.

Linux numbers ports in the order in which they appear: after a board was unplugged, its
``/dev/ttyACM0`` may be another board's. ``usb:SERIAL[:INTERFACE]`` names a port by the serial
number of its USB device and, where the device has several ports, by the number of the USB
interface. It is accepted wherever a port is, and looked up each time the port is opened.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from serial.tools import list_ports

from hil.errors import InputError, LinkError

#: Prefix of a port that is named by its USB device.
USB = "usb:"
#: Linux's names of ports by the sockets that they are plugged into.
_BY_PATH = Path("/dev/serial/by-path")
#: The end of pyserial's location of a port: the configuration (x on Windows) and the interface.
_INTERFACE = re.compile(r":[0-9x]+\.([0-9]+)$")


@dataclass(frozen=True)
class Port:
    """A serial port of this machine."""

    #: The name that the system gives to it now.
    device: str
    description: str
    is_usb: bool
    #: Serial number of the USB device; empty where it has none.
    serial: str
    #: Where it is plugged in, with the interface: ``1-2.4:1.2``.
    location: str

    @property
    def interface(self) -> int:
        """The number of the USB interface; 0 where the device has one only."""
        found = _INTERFACE.search(self.location)
        return int(found[1]) if found else 0


def serial_ports() -> list[Port]:
    """Return the serial ports that the system lists."""
    return [
        Port(
            str(port.device),
            str(port.description or ""),
            port.vid is not None,
            str(port.serial_number or "").strip(),
            str(port.location or ""),
        )
        for port in list_ports.comports()
    ]


def lasting_name(url: str, ports: Sequence[Port] | None = None) -> str:
    """Return a name of the port that stays the same when the system renumbers its ports.

    It is ``url`` itself where nothing better is known: URLs and links of the user's own last.
    """
    ports = serial_ports() if ports is None else ports
    port = _port_at(url, ports)
    if port is None or not port.is_usb:
        return url
    same = [other for other in ports if port.serial and _is_serial(other, port.serial)]
    if len(same) == 1:
        return f"{USB}{port.serial}"
    if sum(other.interface == port.interface for other in same) == 1:
        return f"{USB}{port.serial}:{port.interface}"
    # No serial number, or that of two devices: only the socket tells it from the others.
    return next((str(link) for link in _links(port.device)), url)


def is_lasting(name: str) -> bool:
    """Return whether a name may be stored: the system does not give it to another port."""
    port = _port_at(name, serial_ports())
    return port is None or not port.is_usb or name != port.device


def resolve(url: str) -> str:
    """Return the device of ``usb:SERIAL[:INTERFACE]``, or any other ``url`` itself.

    Raise :class:`~hil.errors.LinkError` if no port or several ports have that name, InputError if
    it has no serial number.
    """
    if not url.startswith(USB):
        return url
    if url == USB:
        raise InputError(
            f"{url!r} has no serial number", f"write {USB}SERIAL[:INTERFACE]; see `hil doctor`"
        )
    ports = serial_ports()
    found = matching(url, ports)
    if len(found) == 1:
        return found[0].device
    if found:
        raise LinkError(
            f"{url} names {len(found)} serial ports:\n{listed(found)}",
            f"add the number of the interface: {USB}SERIAL:INTERFACE"
            if len({port.interface for port in found}) > 1
            else "choose by the link in /dev/serial/by-path: the devices have one serial number",
        )
    raise LinkError(
        f"there is no serial port {url}; ports of this machine:\n{listed(ports)}",
        f"connect the board, or choose another port; the form is {USB}SERIAL[:INTERFACE]",
        is_lost=True,
    )


def matching(url: str, ports: Sequence[Port]) -> list[Port]:
    """Return the ports of ``usb:SERIAL[:INTERFACE]``."""
    wanted = url.removeprefix(USB)
    # A serial number may have colons itself, as an address of a network has.
    if found := [port for port in ports if wanted and _is_serial(port, wanted)]:
        return found
    serial, _, interface = wanted.rpartition(":")
    if not (serial and interface.isdecimal()):
        return []
    return [p for p in ports if _is_serial(p, serial) and p.interface == int(interface)]


def listed(ports: Sequence[Port]) -> str:
    """Return the lines of an error that lists ports by names that last."""
    everything = serial_ports()
    lines = [
        f"  {name}" + (f" ({port.device})" if name != port.device else "")
        for port in ports
        for name in [lasting_name(port.device, everything)]
    ]
    return "\n".join(lines) or "  none"


def _port_at(url: str, ports: Sequence[Port]) -> Port | None:
    """Return the port that a path or ``usb:`` name is now; None for a URL or an unknown one."""
    if url.startswith(USB):
        found = matching(url, ports)
        return found[0] if len(found) == 1 else None
    if "://" in url:
        return None
    if (known := next((port for port in ports if port.device == url), None)) is not None:
        return known
    target = Path(url).resolve()
    return next((port for port in ports if Path(port.device).resolve() == target), None)


def _is_serial(port: Port, serial: str) -> bool:
    return port.serial.lower() == serial.lower()


def _links(device: str) -> list[Path]:
    target = Path(device).resolve()
    return [link for link in sorted(_BY_PATH.glob("*")) if link.resolve() == target]
