"""The flasher ``openocd``: chips behind any of OpenOCD's adapters.

OpenOCD runs for one action at a time, with its servers for gdb, Tcl and telnet disabled: all three
would be TCP ports that every user of the machine can reach, and that run Tcl. A debugger speaks
with an OpenOCD of its own through a pipe.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hil.access.flashers.program import (
    NO_PERMISSION,
    Failure,
    ProgramFlasher,
    ProgramSession,
    expand,
    when,
)
from hil.access.flashers.usb import CMSIS_DAP, ESP_JTAG, FTDI, JLINK, STLINK, merged
from hil.board.settings import Setting
from hil.errors import DeviceError, ProbeError, Remedy
from hil.support.poll import is_readable
from hil.support.process import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hil.access.connection import Connection
    from hil.access.flashers.program import Line
    from hil.board import Board
    from hil.board.settings import Value

_POLL_S = 0.05
#: OpenOCD's messages while its standard output is gdb's.
_LOG = "openocd.log"


def _line(gdb: str, *commands: str) -> Line:
    """Return the arguments that run OpenOCD's ``commands``; none of them has a value of the
    user's, and values are names: OpenOCD's commands are Tcl.
    """
    settings: Line = (
        *("-c", f"gdb_port {gdb}", "-c", "tcl_port disabled", "-c", "telnet_port disabled"),
        *("-f", "interface/{interface}.cfg"),
        when("transport", "-c", "transport select {transport}"),
        when("serial", "-c", "adapter serial {serial}"),
        *("-f", "target/{target}.cfg"),
        when("speed_khz", "-c", "adapter speed {speed_khz}"),
    )
    return (*settings, *(word for command in commands for word in ("-c", command)))


#: Every bank is erased, whatever the chip's driver calls a mass erase.
_ERASE = (
    "for {{set i 0}} {{$i < [llength [flash list]]}} {{incr i}} {{flash erase_sector $i 0 last}}"
)
_DEBUG = _line("pipe", f"log_output {_LOG}", "init", "reset halt")


class OpenOcd(ProgramFlasher):
    """Programs chips by OpenOCD, which reads the flash back, and serves gdb."""

    name = "openocd"
    title = "OpenOCD"
    program = "openocd"
    install = "apt install openocd"
    image = "elf"
    usb_ids = merged(CMSIS_DAP, STLINK, JLINK, FTDI, ESP_JTAG)
    capabilities = frozenset({"debug"})
    monitor_commands = ("halt", "init", "reset", "reset halt", "reset init")
    settings = {
        "interface": Setting("name", "the adapter: a file of OpenOCD's folder interface"),
        "target": Setting("name", "the chip: a file of OpenOCD's folder target"),
        "transport": Setting("name", "swd, jtag, hla_swd, ...; empty: the adapter's first", ""),
        "speed_khz": Setting("integer", "clock of the debug port in kHz; 0: the target's", 0),
    }
    lines = {
        "program": [_line("disabled", "program {file} verify exit")],
        "reset": [_line("disabled", "init", "reset run", "shutdown")],
        "erase": [_line("disabled", "init", "reset halt", _ERASE, "shutdown")],
        "verify": [_line("disabled", "init", "reset halt", "verify_image {file}", "shutdown")],
    }
    success = {"program": r"\*\* verified ok \*\*", "verify": r"verified \d+ bytes"}
    failures = (
        NO_PERMISSION,
        Failure(
            r"can't find (?:interface|target)/\S+",
            "choose a file of OpenOCD's folder scripts: --flasher openocd:interface=I,target=T",
        ),
        Failure(
            r"unable to find a matching|open failed|no device found|unable to open|"
            r"libusb_open\(\) failed|no j-link device found",
            "connect the probe; `hil doctor` lists the probes",
            ProbeError,
            is_lost=True,
        ),
        Failure(
            r"transport .*(?:not|can't)|can't change session's transport|"
            r"debug adapter does(?:n't| not) support",
            "choose a transport of the adapter: --flasher openocd:transport=swd",
        ),
        Failure(
            r"device is (?:secured|protected|locked)|protected|readout|AP lock|APPROTECT|RDP",
            "the chip is locked and was not changed; open it with OpenOCD's own command for the "
            "chip or its maker's tool, which erases it",
            ProbeError,
        ),
        Failure(
            r"double-check your JTAG setup|scan chain interrogation failed|IR capture error|"
            r"cannot read IDR|init mode failed|Invalid ACK|Error connecting DP|target voltage|"
            r"could not find MEM-AP|not examined",
            "check the wiring, the board's supply and the setting target",
            ProbeError,
            Remedy.POWER,
        ),
        Failure(
            r"\*\* (?:programming|verify) failed \*\*|checksum mismatch|error erasing|"
            r"failed erasing|error writing|no flash bank",
            "erase the board (hil erase) and repeat; check its supply and the setting target",
            remedy=Remedy.FLASH,
        ),
    )

    def session(
        self, board: Board, values: Mapping[str, Value], folder: Path, connection: Connection
    ) -> ProgramSession:
        """Return a session that can serve gdb."""
        return OpenOcdSession(self, board, values, folder, connection.erase_to_unlock)


class OpenOcdSession(ProgramSession):
    """A session of OpenOCD that can serve gdb."""

    def start(self, image: Path, *, halted: bool = False) -> None:
        """Reset the board; for a debugger, its OpenOCD does it."""
        if not halted:
            super().start(image)

    @contextlib.contextmanager
    def serve_debugger(self, board: Board, stub: socket.socket) -> Iterator[Callable[[], None]]:
        """Serve gdb at ``stub``, one client at a time, each by an OpenOCD at a pipe."""
        server = _PipeServer(stub, self)
        try:
            yield server.alive
        finally:
            server.close()

    def debugger(self, client: socket.socket) -> ChildProcess:
        """Start an OpenOCD that halts the board and speaks gdb's protocol with ``client``."""
        return ChildProcess(
            "OpenOCD",
            [*self.flasher.words(), *expand(_DEBUG, self.values)],
            install_hint=self.flasher.install,
            stdin=client.fileno(),
            stdout=client.fileno(),
            folder=self.folder,
        )

    def error_of_debugger(self, code: int) -> DeviceError:
        """Return the error of an OpenOCD of :meth:`debugger` that ended with ``code``."""
        log = (self.folder / _LOG).read_text(encoding="utf-8", errors="replace")
        return self.error(f"OpenOCD ended with {code}", log)


class _PipeServer:
    """Accepts debuggers, and starts an OpenOCD for each."""

    def __init__(self, stub: socket.socket, session: OpenOcdSession) -> None:
        self._stub = stub
        self._session = session
        self._closing = threading.Event()
        self._error: DeviceError | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def alive(self) -> None:
        """Raise the error of an OpenOCD that ended while its debugger was connected."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the server and its OpenOCD."""
        self._closing.set()
        self._thread.join()

    def _serve(self) -> None:
        while not self._closing.is_set():
            if not is_readable(self._stub, _POLL_S):
                continue
            client, _ = self._stub.accept()
            with client:
                try:
                    process = self._session.debugger(client)
                except DeviceError as error:
                    self._error = error
                    return
            self._wait(process)

    def _wait(self, process: ChildProcess) -> None:
        """Wait until an OpenOCD ends, which it does with its debugger."""
        try:
            while not self._closing.wait(_POLL_S):
                if (code := process.process.poll()) is not None:
                    if code:
                        self._error = self._session.error_of_debugger(code)
                    return
        finally:
            process.stop()
