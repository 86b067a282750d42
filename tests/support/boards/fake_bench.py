"""A bench of boards without hardware: emulated machines whose probes and ports look like real ones.

Behind each board is a QEMU machine of :mod:`hil.virtual_probe`. pyOCD finds its probe by a serial
number, as it finds a real probe, and does not learn that it is virtual. Its serial ports are pseudo
terminals in a folder ``dev``, with links in ``dev/serial/by-id`` and descriptions in
``sys/bus/usb/devices``, as Linux has them. Names (``ttyACM0``) are given out in the order in which
boards are plugged in, so a board that was unplugged may return under another name.

    with bench(tmp_path) as rig:
        a, b = rig.add("mps2-an386", "A" * 12), rig.add("mps2-an386", "B" * 12)
        with rig.installed():
            hil.cli.main([..., "--probe", a.serial, "--port", b.ports[0].path])
        subprocess.run([*rig.hil, "verify", ...])        # the same in a process of its own

Stand-ins: the lists of ports and of USB devices, and the list of probes. Everything behind them is
real: pyOCD, QEMU, terminals, the firmware.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import runpy
import select
import shutil
import signal
import socket
import sys
import termios
import threading
import tty
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pyocd.probe.aggregator
from pyocd.board.board_ids import BoardInfo
from serial.tools.list_ports_common import ListPortInfo

import hil.cli
from hil import virtual_probe
from hil.access import usb
from hil.board import Board, load_board
from hil.support.process import ChildProcess
from hil.support.qemu import Machine
from hil.virtual_probe import VirtualBoard
from hil.virtual_probe.probe import VirtualProbe

#: Longest time until the bench notices a new terminal.
_LOOK_MS = 20
_READ_BYTES = 4096
#: Arm's DAPLink, whose probes and ports are of one USB device.
VENDOR, PRODUCT = 0x0D28, 0x0204


@dataclass
class FakePort:
    """A serial port of a board's USB device."""

    #: Number of the USB interface.
    interface: int
    #: The board whose UART is behind it; None: nothing is.
    wired_to: FakeBoard | None
    folder: Path
    #: Name in ``dev``; empty while it is unplugged.
    name: str = ""
    #: Another board that receives what is sent here, and whose answers are not connected.
    also_to: FakeBoard | None = None
    #: Time that bytes need from here to the board.
    delay_s: float = 0.0
    #: All bytes that hosts have written to it.
    written: bytearray = field(default_factory=bytearray)
    master: int = -1
    slave: int = -1

    @property
    def path(self) -> str:
        """The device file, as Linux names it now."""
        assert self.name, "it is unplugged"
        return str(self.folder / "dev" / self.name)


class FakeBoard:
    """A board of the bench: a machine, its probe and its ports."""

    def __init__(
        self,
        bench: Bench,
        board: Board,
        serial: str,
        reports: bool,
        usb_path: str,
        has_probe: bool = True,
    ) -> None:
        self.bench = bench
        self.board = board
        self.serial = serial
        #: Whether the probe reports the name of its board, as on a kit; others report none.
        self.reports = reports
        #: Whether there is a probe; without one, its USB device is an adapter of its serial line.
        self.has_probe = has_probe
        #: Whether its chip is locked against its probe, as an nRF52 is (:mod:`locked_chip`).
        self.is_locked = False
        #: What its programmer does wrong (:mod:`bench_programs`): ``pretend``, ``flip`` or nothing.
        self.fault = ""
        self.usb_path = usb_path
        self.ports: list[FakePort] = []
        self.is_plugged = False
        self._started = contextlib.ExitStack()
        self.machine: VirtualBoard
        self.process: ChildProcess
        self.uart: socket.socket
        self._start()

    def _start(self) -> None:
        # Not announced where hil looks for virtual boards: it has to take this one for a real one.
        hidden = self.bench.folder / "machines"
        with mock.patch("hil.virtual_probe.machine._folder", return_value=hidden):
            started = virtual_probe.start(self.board)
            self.machine, self.process = self._started.enter_context(started)
        self.uart = socket.socket(socket.AF_UNIX)
        self.uart.connect(self.machine.url.removeprefix("unix://"))
        self._started.callback(self.uart.close)

    def by_id(self, number: int = 0) -> str:
        """The stable name of a port."""
        return str(self.bench.by_id / f"usb-Fake_{self.serial}-if{self.ports[number].interface:02}")

    def plug(self, *, after_s: float = 0.0) -> None:
        """Plug it in: its ports get the lowest free names; ``after_s``: later, in a thread."""
        if after_s:
            self.bench.later(after_s, self.plug)
            return
        with self.bench.lock:
            for port in self.ports:
                self.bench.open_port(self, port)
            self.is_plugged = True
            self.bench.publish()

    def unplug(self) -> None:
        """Unplug it: its probe and its ports are gone, and whoever has one open gets an error."""
        with self.bench.lock:
            self.is_plugged = False
            for port in self.ports:
                self.bench.close_port(self, port)
            self.bench.publish()

    def power_cycle(self, *, after_s: float = 0.0) -> None:
        """Switch it off, and on after a while: the firmware starts again, the ports are new."""
        self.unplug()
        # An open probe keeps the machine to itself; to its user it is gone all the same.
        with (
            contextlib.suppress(BlockingIOError),
            self.machine.claim(),
            contextlib.closing(Machine.at(Path(self.machine.sockets) / "qmp")) as machine,
        ):
            machine.execute("system_reset")
        self.plug(after_s=after_s)

    def die(self) -> None:
        """Let the board be dead behind a probe and ports that are still there."""
        os.kill(self.machine.pid, signal.SIGKILL)
        self.process.process.wait()

    @property
    def is_dead(self) -> bool:
        """Whether its machine has ended."""
        return self.process.process.poll() is not None

    def revive(self) -> None:
        """Put a new machine in place of a dead one, with the same probe and ports."""
        with self.bench.lock:
            self.uart.close()
            self._started.close()
            self._started = contextlib.ExitStack()
            self._start()
            self.bench.publish()

    def close(self) -> None:
        """End its machine."""
        if self.is_plugged:
            self.unplug()
        self._started.close()


class Bench:
    """The boards, and the thread that is the wires between their UARTs and their ports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.dev = folder / "dev"
        self.by_id = self.dev / "serial" / "by-id"
        self.usb_devices = folder / "sys" / "bus" / "usb" / "devices"
        for path in (self.by_id, self.usb_devices, folder / "machines", folder / "virtual"):
            path.mkdir(parents=True)
        self.boards: list[FakeBoard] = []
        #: Constants of images, in hexadecimal digits, of which ``FakeBoard.fault`` may flip one.
        self.flipped: tuple[str, ...] = ()
        self.lock = threading.RLock()
        self._timers: list[threading.Timer] = []
        self._ended = False
        self._control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._control.bind(str(folder / "control"))
        self.publish()
        self._thread = threading.Thread(target=self._pump, daemon=True)
        self._thread.start()

    def add(
        self,
        board: str = "mps2-an386",
        serial: str = "",
        *,
        interfaces: Sequence[int] = (1,),
        line: int | None = None,
        reports: bool = True,
        plugged: bool = True,
        has_probe: bool = True,
    ) -> FakeBoard:
        """Add a board with a serial port on each of the USB ``interfaces``; its UART is behind
        ``line``, by default the first of them. ``board`` is a name or a description file.
        """
        number = len(self.boards) + 1
        serial = serial or f"02400000{number:04}F00D"
        new = FakeBoard(self, load_board(board), serial, reports, f"1-{number}", has_probe)
        line = interfaces[0] if line is None and interfaces else line
        new.ports = [FakePort(n, new if n == line else None, self.folder) for n in interfaces]
        with self.lock:
            self.boards.append(new)
        if plugged:
            new.plug()
        return new

    @property
    def hil(self) -> list[str]:
        """The words that start ``hil`` on this bench, in a process of its own."""
        return [sys.executable, __file__, str(self.folder), "hil"]

    @property
    def python(self) -> list[str]:
        """The words that start Python on this bench, of which only ``-m`` is known."""
        return [sys.executable, __file__, str(self.folder), "python"]

    def power_command(self, board: FakeBoard, after_s: float = 0.0) -> str:
        """A command that switches a board off and on, for ``config.toml``."""
        return f"{sys.executable} {__file__} {self.folder} cycle {board.serial} {after_s}"

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Let hil and pyOCD in this process find the boards of the bench, and no others."""
        with installed(self.folder):
            yield

    def later(self, seconds: float, action: Any) -> None:
        timer = threading.Timer(seconds, action)
        timer.daemon = True
        self._timers.append(timer)
        timer.start()

    def close(self) -> None:
        """End every machine, and the wires."""
        for timer in self._timers:
            timer.cancel()
            timer.join()
        self._ended = True
        self._thread.join()
        self._control.close()
        for board in self.boards:
            board.close()

    # -- what Linux does -------------------------------------------------------------------------

    def open_port(self, board: FakeBoard, port: FakePort) -> None:
        """Make a terminal with the lowest free name."""
        port.master, port.slave = os.openpty()
        # Raw before anything arrives: the terminal must not send back what the board says.
        tty.setraw(port.slave, termios.TCSANOW)
        os.set_blocking(port.master, False)
        taken = {entry.name for entry in self.dev.iterdir()}
        port.name = next(n for i in range(99) if (n := f"ttyACM{i}") not in taken)
        (self.dev / port.name).symlink_to(os.ttyname(port.slave))
        link = self.by_id / f"usb-Fake_{board.serial}-if{port.interface:02}"
        with contextlib.suppress(FileNotFoundError):  # of another with this serial number
            link.unlink()
        link.symlink_to(self.dev / port.name)

    def close_port(self, board: FakeBoard, port: FakePort) -> None:
        """Remove the terminal."""
        (self.dev / port.name).unlink()
        link = self.by_id / f"usb-Fake_{board.serial}-if{port.interface:02}"
        if link.is_symlink() and Path(os.readlink(link)).name == port.name:
            link.unlink()
        os.close(port.master)
        os.close(port.slave)
        port.name, port.master, port.slave = "", -1, -1

    def publish(self) -> None:
        """Describe what is plugged in, for processes of hil and for pyOCD."""
        plugged = [board for board in self.boards if board.is_plugged]
        ports = [
            {
                "device": port.path,
                "name": port.name,
                "description": f"Fake {board.board.name}",
                "vid": VENDOR,
                "pid": PRODUCT,
                "serial_number": board.serial,
                "location": f"{board.usb_path}:1.{port.interface}",
            }
            for board in plugged
            for port in board.ports
        ]
        probes = [
            {
                "serial": board.serial,
                "usb_path": board.usb_path,
                "reports": board.reports,
                "machine": asdict(board.machine),
                "is_locked": board.is_locked,
            }
            for board in plugged
            if board.has_probe
        ]
        machines = {
            board.serial: {"machine": asdict(board.machine), "fault": board.fault}
            for board in plugged
        }
        shutil.rmtree(self.usb_devices)
        for number, board in enumerate(plugged, 1):
            files = {
                "idVendor": f"{VENDOR:04x}",
                "idProduct": f"{PRODUCT:04x}",
                "serial": board.serial,
                "product": f"Fake {board.board.name}",
                "busnum": "1",
                "devnum": str(number),
            }
            folder = self.usb_devices / board.usb_path
            folder.mkdir(parents=True)
            for name, text in files.items():
                (folder / name).write_text(text + "\n")
        self.usb_devices.mkdir(exist_ok=True)
        new = self.folder / "state.new"
        state = {"ports": ports, "probes": probes, "machines": machines, "flipped": self.flipped}
        new.write_text(json.dumps(state))
        new.rename(self.folder / "state.json")

    def _pump(self) -> None:
        """Carry bytes between terminals and UARTs until the bench ends."""
        while not self._ended:
            poll = select.poll()
            poll.register(self._control, select.POLLIN)
            with self.lock:
                ports = {p.master: p for b in self.boards for p in b.ports if p.master >= 0}
                uarts = {b.uart.fileno(): b for b in self.boards if b.uart.fileno() >= 0}
            for descriptor in (*ports, *uarts):
                poll.register(descriptor, select.POLLIN)
            ready = [descriptor for descriptor, _ in poll.poll(_LOOK_MS)]
            with self.lock:
                for descriptor in ready:
                    if descriptor == self._control.fileno():
                        self._obey(json.loads(self._control.recv(_READ_BYTES)))
                    elif descriptor in ports and ports[descriptor].master == descriptor:
                        self._from_host(ports[descriptor])
                    elif descriptor in uarts:
                        self._from_board(uarts[descriptor])

    def _from_host(self, port: FakePort) -> None:
        try:
            data = os.read(port.master, _READ_BYTES)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EIO):
                raise
            return
        port.written += data
        for board in (port.wired_to, port.also_to):
            if board is not None and port.delay_s:
                self.later(port.delay_s, partial(_send, board, data))
            elif board is not None:
                _send(board, data)

    def _from_board(self, board: FakeBoard) -> None:
        try:
            data = board.uart.recv(_READ_BYTES)
        except OSError:
            data = b""
        if not data:
            board.uart.close()  # it died
            return
        for other in self.boards:
            for port in other.ports:
                if port.wired_to is board and port.master >= 0:
                    with contextlib.suppress(BlockingIOError):  # nobody reads: bytes are lost
                        os.write(port.master, data)

    def _obey(self, order: Mapping[str, Any]) -> None:
        board = next(b for b in self.boards if b.serial == order["cycle"])
        board.power_cycle(after_s=order["after_s"])


@contextlib.contextmanager
def bench(folder: Path) -> Iterator[Bench]:
    """A bench without boards, whose files are in ``folder``."""
    made = Bench(folder / "bench")
    try:
        yield made
    finally:
        made.close()


def _send(board: FakeBoard, data: bytes) -> None:
    with contextlib.suppress(OSError):  # a dead board
        board.uart.sendall(data)


# -- what hil and pyOCD find ---------------------------------------------------------------------


class FakeProbe(VirtualProbe):
    """A virtual probe that does not say so."""

    folder: Path

    @classmethod
    def _all(cls) -> list[FakeProbe]:
        return [cls(about) for about in state_of(cls.folder)["probes"]]

    @classmethod
    def get_all_connected_probes(
        cls, unique_id: str | None = None, is_explicit: bool = False
    ) -> list[FakeProbe]:
        return cls._all()

    @classmethod
    def get_probe_with_id(cls, unique_id: str, is_explicit: bool = False) -> FakeProbe | None:
        found = [probe for probe in cls._all() if probe.unique_id == unique_id]
        # As in pyOCD's driver for CMSIS-DAP.
        assert len(found) < 2, f"More than one probes with ID {unique_id}"
        return found[0] if found else None

    def __init__(self, about: Mapping[str, Any]) -> None:
        super().__init__(VirtualBoard(**about["machine"]))
        self._about = about

    @property
    def vendor_name(self) -> str:
        return "Arm"

    @property
    def product_name(self) -> str:
        return "Fake DAPLink CMSIS-DAP"

    @property
    def unique_id(self) -> str:
        return str(self._about["serial"])

    def open(self) -> None:
        if not self._about["is_locked"]:
            super().open()
            return
        # Not at the top: few benches have such a chip.
        from locked_chip import LockedChip

        chip = LockedChip("nrf52")
        with mock.patch("hil.virtual_probe.probe.AccessPort", chip.port):
            super().open()

    @property
    def associated_board_info(self) -> BoardInfo | None:
        return super().associated_board_info if self._about["reports"] else None


def state_of(folder: Path) -> Any:
    """Return what is plugged in, as :meth:`Bench.publish` describes it."""
    return json.loads((folder / "state.json").read_text())


def _ports(folder: Path) -> list[ListPortInfo]:
    """As pyserial's ``comports``."""
    found = []
    for about in state_of(folder)["ports"]:
        port = ListPortInfo(about["device"])
        vars(port).update(about)
        found.append(port)
    return found


@contextlib.contextmanager
def installed(folder: Path) -> Iterator[None]:
    """Let hil and pyOCD find the boards of the bench in ``folder``, and no others."""
    probe = type("Probe", (FakeProbe,), {"folder": folder})

    def comports(include_links: bool = False) -> list[ListPortInfo]:
        return _ports(folder)

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch("serial.tools.list_ports.comports", comports))
        stack.enter_context(mock.patch.object(usb, "DEVICES", folder / "sys/bus/usb/devices"))
        virtual = mock.patch("hil.virtual_probe.machine._folder", return_value=folder / "virtual")
        stack.enter_context(virtual)
        # Benches of other tests, in other processes, have boards with the same serial numbers.
        locks = folder / "locks"
        if os.environ.get("FAKE_BENCH_LOCKS") == "own":  # planted: no process sees another's
            locks /= str(os.getpid())
        locks.mkdir(parents=True, exist_ok=True)
        classes = pyocd.probe.aggregator.PROBE_CLASSES
        stack.enter_context(mock.patch.dict(classes, {"fake": probe}, clear=True))
        stack.enter_context(
            mock.patch.dict(
                os.environ,
                {"HIL_CONFIG": str(folder / "config.toml"), "HIL_LOCKS": str(locks)},
            )
        )
        yield


def main(words: Sequence[str]) -> int:
    """``FOLDER hil ARGUMENT...``, ``FOLDER python -m MODULE ARGUMENT...`` or ``FOLDER cycle SERIAL
    SECONDS``.
    """
    folder, what, *arguments = words
    if what == "cycle":
        order = {"cycle": arguments[0], "after_s": float(arguments[1])}
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as control:
            control.sendto(json.dumps(order).encode(), f"{folder}/control")
        return 0
    with installed(Path(folder)):
        if what == "hil":
            return hil.cli.main(arguments)
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
