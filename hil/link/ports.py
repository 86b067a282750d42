"""Serial ports of this machine, and names of them that last.

Linux numbers ports in the order in which they appear: after a board was unplugged, its
``/dev/ttyACM0`` may be another board's. ``usb:SERIAL[:INTERFACE]`` names a port by the serial
number of its USB device and, where the device has several ports, by the number of the USB
interface. ``usb-path:PATH[:INTERFACE]`` names it by the socket that the device is plugged into, for
devices without a serial number of their own. Both are accepted wherever a port is, and looked up
each time the port is opened.
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
#: Prefix of a port that is named by the bus and the sockets of its USB device: ``1-2.4``.
USB_PATH = "usb-path:"
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
    #: ``vendor:product`` of the USB device; empty for another port.
    usb_id: str = ""

    @property
    def path(self) -> str:
        """The bus and the sockets of the USB device: ``1-2.4``; empty where they are unknown."""
        return self.location.partition(":")[0] if self.is_usb else ""

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
            f"{port.vid:04x}:{port.pid:04x}" if port.vid is not None else "",
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
    same = [other for other in ports if port.path and other.path == port.path]
    if len(same) == 1:
        return f"{USB_PATH}{port.path}"
    if sum(other.interface == port.interface for other in same) == 1:
        return f"{USB_PATH}{port.path}:{port.interface}"
    return next((str(link) for link in _links(port.device)), url)


def is_lasting(name: str) -> bool:
    """Return whether a name may be stored: the system does not give it to another port."""
    port = _port_at(name, serial_ports())
    return port is None or not port.is_usb or name != port.device


def resolve(url: str) -> str:
    """Return the device of a name by its USB device (:func:`is_by_usb`), or any other ``url``
    itself.

    Raise :class:`~hil.errors.LinkError` if no port or several ports have that name, InputError if
    it has no serial number.
    """
    if not is_by_usb(url):
        return url
    if url in (USB, USB_PATH):
        form = f"{USB}SERIAL[:INTERFACE]" if url == USB else f"{USB_PATH}1-2.4[:INTERFACE]"
        what = "serial number" if url == USB else "path"
        raise InputError(f"{url!r} has no {what}", f"write {form}; see `hil doctor`")
    ports = serial_ports()
    found = matching(url, ports)
    if len(found) == 1:
        return found[0].device
    if found:
        raise LinkError(
            f"{url} names {len(found)} serial ports:\n{listed(found)}",
            f"add the number of the interface: {url}:INTERFACE"
            if len({port.path for port in found}) == 1
            else f"choose by the socket, {USB_PATH}PATH: the devices have one serial number",
        )
    raise LinkError(
        f"there is no serial port {url}; ports of this machine:\n{listed(ports)}",
        f"connect the board, or choose another port; the forms are {USB}SERIAL[:INTERFACE] and "
        f"{USB_PATH}PATH[:INTERFACE]",
        is_lost=True,
    )


def is_by_usb(url: str) -> bool:
    """Return whether ``url`` names a port by its USB device."""
    return url.startswith((USB, USB_PATH))


def is_there(url: str) -> bool:
    """Return whether a port exists now; a URL that is no port of this machine is taken to."""
    if is_by_usb(url):
        return len(matching(url, serial_ports())) == 1
    return "://" in url or Path(url).exists()


def matching(url: str, ports: Sequence[Port]) -> list[Port]:
    """Return the ports of ``usb:SERIAL[:INTERFACE]`` or ``usb-path:PATH[:INTERFACE]``."""
    if url.startswith(USB_PATH):
        path, _, number = url.removeprefix(USB_PATH).partition(":")
        return [p for p in ports if path and p.path == path and number in ("", str(p.interface))]
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
    if is_by_usb(url):
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
