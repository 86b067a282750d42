"""What is plugged into this machine, and which boards it may be.

A USB device is listed if it is a probe, has a serial port, or has USB ids that a board's file
states: those of the board as it is sold, and of its boot loader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hil.access.connection import ProbeInfo
from hil.access.probes import connected_probes, has_serial, reports_board
from hil.access.usb import UsbDevice, usb_devices
from hil.board import Board, board_names, load_board, own_board_names
from hil.board.bench import Unit, bench_file, read_bench
from hil.board.config import boards_folder
from hil.errors import HilError
from hil.link.ports import Port, lasting_name, serial_ports


@dataclass(frozen=True)
class Connected:
    """A connected USB device that may be a board, or a probe without USB."""

    #: Name of the probe or the product, and ``vendor:product``; empty where they are unknown.
    name: str
    usb_id: str
    #: Bus and sockets: ``1-2.4``; empty where they are unknown.
    usb_path: str
    probe: ProbeInfo | None
    #: Names of its serial ports that last.
    ports: tuple[str, ...]
    #: Names of the boards that it may be, and how that is known; empty if it is not.
    boards: tuple[str, ...] = ()
    known_by: str = ""
    is_boot_loader: bool = False
    #: Its name in the bench file; empty if it has none.
    unit: str = ""


@dataclass
class _Device:
    """The parts of one device, while they are collected."""

    usb: UsbDevice | None = None
    probe: ProbeInfo | None = None
    ports: list[Port] = field(default_factory=list)


def connected() -> list[Connected]:
    """Return what is plugged in, probes first.

    Raise :class:`~hil.errors.ProbeError` where a flasher cannot list its probes.
    """
    boards, ports = _known_boards(), serial_ports()
    file = bench_file()
    units = list(read_bench().values()) if file is not None and file.is_file() else []
    ids = {usb_id for board in boards for usb_id in (*board.usb, *board.usb_boot)}
    found = []
    for device in _devices(connected_probes(), ports):
        is_known = device.usb is not None and device.usb.id in ids
        if device.probe is not None or device.ports or is_known:
            found.append(_described(device, boards, ports, units))
    return sorted(found, key=lambda each: (each.probe is None, each.usb_path))


def _known_boards() -> list[Board]:
    """Return the boards that ship and the user's; a file that is not valid is no candidate."""
    boards = [load_board(name) for name in board_names()]
    for name in own_board_names():
        try:
            boards.append(load_board(Path(boards_folder()) / f"{name}.toml"))
        except HilError:
            continue  # `hil boards` reports it
    return boards


def _devices(probes: Sequence[ProbeInfo], ports: Sequence[Port]) -> list[_Device]:
    """Return the devices with their probes and ports, which have the same serial number or path."""
    devices = [_Device(usb) for usb in usb_devices()]
    by_path = {each.usb.path: each for each in devices if each.usb is not None}
    for port in ports:
        if not port.is_usb:
            continue
        device = by_path.get(port.path)
        if device is None:  # Linux's descriptions are missing
            vendor, product = (int(part, 16) for part in port.usb_id.split(":"))
            name = f"{port.description} ({port.usb_id})"
            usb = UsbDevice(port.path, vendor, product, port.serial, name, (), 0, 0)
            device = by_path.setdefault(port.path or port.device, _Device(usb))
            devices.append(device)
        device.ports.append(port)
    for probe in probes:
        same = [
            each
            for each in devices
            if each.probe is None and each.usb is not None and has_serial(probe, each.usb.serial)
        ]
        if same:
            same[0].probe = probe
        else:
            devices.append(_Device(probe=probe))
    return devices


def _described(
    device: _Device, boards: Sequence[Board], ports: Sequence[Port], units: Sequence[Unit]
) -> Connected:
    usb, probe = device.usb, device.probe
    names = tuple(lasting_name(port.device, ports) for port in device.ports)
    found, known_by, is_boot_loader = _candidates(device, boards)
    return Connected(
        name=probe.description if probe is not None else usb.name if usb is not None else "",
        usb_id=usb.id if usb is not None else "",
        usb_path=usb.path if usb is not None else "",
        probe=probe,
        ports=names,
        boards=tuple(board.name for board in found),
        known_by=known_by,
        is_boot_loader=is_boot_loader,
        unit=next((unit.name for unit in units if _is_unit(unit, probe, names)), ""),
    )


def _candidates(device: _Device, boards: Sequence[Board]) -> tuple[list[Board], str, bool]:
    """Return the boards that a device may be, how that is known, and whether it is the boot loader
    that answers.
    """
    usb, probe = device.usb, device.probe
    if probe is not None:
        if found := [b for b in boards if b.flashers and reports_board(probe, b)]:
            return found, "the probe's report", False
        if found := [b for b in boards if probe.last_board == b.name]:
            return found, "its last use", False
    if usb is not None:
        if found := [b for b in boards if usb.id in b.usb_boot]:
            return found, "USB id", True
        if found := [b for b in boards if usb.id in b.usb]:
            return found, "USB id", False
    return [], "", False


def _is_unit(unit: Unit, probe: ProbeInfo | None, ports: Sequence[str]) -> bool:
    if unit.probe is not None:
        return probe is not None and unit.probe.lower() in probe.uid.lower()
    return unit.port in ports
