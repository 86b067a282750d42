"""The flasher ``openocd``: chips behind any of OpenOCD's adapters.

OpenOCD runs for one action at a time, with its servers for gdb, Tcl and telnet disabled: all three
would be TCP ports that every user of the machine can reach, and that run Tcl. A debugger speaks
with an OpenOCD of its own through a pipe.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
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
from hil.access.verilator import RtlMachine, check_debug, machine
from hil.board.settings import Setting
from hil.errors import DeviceError, InputError, ProbeError, Remedy
from hil.support import unix_socket
from hil.support.gdb import Gdb
from hil.support.poll import is_readable
from hil.support.process import ChildProcess
from hilc.support.packages import install_command

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hil.access.connection import Connection, ProbeInfo
    from hil.access.flashers.program import Action, Line
    from hil.board import Board
    from hil.board.settings import Value

_POLL_S = 0.05
#: OpenOCD's messages while its standard output is gdb's.
_LOG = "openocd.log"
#: Folder of our own interfaces and targets.
_SCRIPTS = Path(__file__).parent / "scripts"
#: The interface of a simulated core, and the socket that it expects in OpenOCD's folder.
_SIMULATED, _JTAG = "hil_rtl", "jtag"


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
_ATTACH = _line("pipe", f"log_output {_LOG}", "init")
#: An image in a flash by its driver, or in memory that the core can write.
_PROGRAM = (
    *_line("disabled"),
    when("!into_ram", "-c", "program {file} verify exit"),
    when("into_ram", "-c", "init", "-c", "reset halt"),
    when("into_ram", "-c", "load_image {file}", "-c", "verify_image {file}", "-c", "shutdown"),
)


class OpenOcd(ProgramFlasher):
    """Programs chips by OpenOCD, which reads the flash back, and serves gdb."""

    name = "openocd"
    title = "OpenOCD"
    program = "openocd"
    install = install_command("openocd")
    image = "elf"
    usb_ids = merged(CMSIS_DAP, STLINK, JLINK, FTDI, ESP_JTAG)
    capabilities = frozenset({"core", "debug", "virtual"})
    monitor_commands = ("halt", "init", "reset", "reset halt", "reset init")
    settings = {
        "interface": Setting("name", "the adapter: a file of OpenOCD's folder interface"),
        "target": Setting("name", "the chip: a file of OpenOCD's folder target"),
        "transport": Setting("name", "swd, jtag, hla_swd, ...; empty: the adapter's first", ""),
        "speed_khz": Setting("integer", "clock of the debug port in kHz; 0: the target's", 0),
        "into_ram": Setting(
            "boolean", "load the image without a flash driver: a core in an FPGA, in RTL", False
        ),
    }
    lines = {
        "program": [_PROGRAM],
        "reset": [_line("disabled", "init", "reset run", "shutdown")],
        "erase": [_line("disabled", "init", "reset halt", _ERASE, "shutdown")],
        "verify": [_line("disabled", "init", "reset halt", "verify_image {file}", "shutdown")],
    }
    success = {
        "program": r"\*\* verified ok \*\*|(?m:^verified \d+ bytes)",
        "verify": r"verified \d+ bytes",
    }
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

    def __init__(self) -> None:
        #: The JTAG sockets of simulators, by unique id.
        self._jtag: dict[str, Path] = {}

    def words(self) -> list[str]:
        """Return the words that start OpenOCD with our scripts."""
        return [self.program, "-s", str(_SCRIPTS)]

    def candidates(self, board: Board, connection: Connection) -> list[ProbeInfo]:
        """Return the adapters on USB; InputError for a board that is a simulator."""
        if self._is_simulated(board):
            raise InputError(
                f"{board.name} is simulated, so no adapter on USB has it",
                "choose --probe virtual, which starts the simulator with a JTAG port",
            )
        return self.probes()

    def check_virtual(self, board: Board) -> None:
        """Raise if the board is not the simulator of a core with a debug module."""
        check_debug(board)
        if not self._is_simulated(board):
            raise InputError(
                f"the flasher openocd of {board.name} uses an adapter, not the simulator",
                f"set interface = {_SIMULATED!r} and a target for its debug module "
                "(docs/how-to/rtl.md)",
            )

    @contextlib.contextmanager
    def start_virtual(self, board: Board) -> Iterator[tuple[RtlMachine, Callable[[], None]]]:
        """Start the simulator of the board's core, with a debug module and its JTAG port."""
        self.check_virtual(board)
        with unix_socket.folder() as folder:
            path = Path(folder) / _JTAG
            with machine(board, path) as made:
                self._jtag[made.uid] = path
                try:
                    yield made, made.alive
                finally:
                    del self._jtag[made.uid]

    def _is_simulated(self, board: Board) -> bool:
        return board.settings[self.name]["interface"] == _SIMULATED

    def values(self, board: Board, uid: str, connection: Connection) -> dict[str, Value]:
        """Return the values of placeholders: those of an adapter, or of a simulator."""
        if uid in self._jtag:
            return {**board.settings[self.name], "serial": "", _JTAG: str(self._jtag[uid])}
        return super().values(board, uid, connection)

    def check_settings(self, board: Board, action: Action) -> None:
        """Raise InputError for erasing memory that has no erased state."""
        if action == "erase" and board.settings[self.name]["into_ram"]:
            raise InputError(
                f"{board.name} has no flash to erase: OpenOCD loads its image into memory",
                "program another image (hil flash)",
            )

    def session(
        self, board: Board, values: Mapping[str, Value], folder: Path, connection: Connection
    ) -> ProgramSession:
        """Return a session that controls the core, and can serve gdb."""
        if _JTAG in values:
            # By a name in the working folder: a path is limited to 107 bytes, and may hold Tcl.
            (folder / _JTAG).symlink_to(str(values[_JTAG]))
        return OpenOcdSession(self, board, values, folder, connection.erase_to_unlock)


class OpenOcdSession(ProgramSession):
    """A session of OpenOCD that controls the core, and can serve gdb."""

    _core: OpenOcdCore | None = None

    @property
    def core(self) -> OpenOcdCore:
        """The core, through an OpenOCD that runs until the session's next action or its end."""
        if self._core is None:
            self._core = OpenOcdCore(self)
        return self._core

    def close(self) -> None:
        """End the OpenOCD of :attr:`core`; the core keeps its state."""
        if self._core is not None:
            self._core.close()
            self._core = None

    def run(self, arguments: Sequence[str]) -> str:
        """Run OpenOCD; the one of :attr:`core` ends first."""
        self.close()
        return super().run(arguments)

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

    def debugger(self, client: socket.socket, line: Line = _DEBUG) -> ChildProcess:
        """Start an OpenOCD that speaks gdb's protocol with ``client``; ``line`` halts the board
        after a reset.
        """
        return ChildProcess(
            "OpenOCD",
            [*self.flasher.words(), *expand(line, self.values)],
            install_hint=self.flasher.install,
            stdin=client.fileno(),
            stdout=client.fileno(),
            folder=self.folder,
        )

    def error_of_debugger(self, code: int) -> DeviceError:
        """Return the error of an OpenOCD of :meth:`debugger` that ended with ``code``."""
        log = (self.folder / _LOG).read_text(encoding="utf-8", errors="replace")
        return self.error(f"OpenOCD ended with {code}", log)


class _OpenOcdGdb(Gdb):
    """OpenOCD's gdb server."""

    _name = "OpenOCD's gdb server"
    _remedy = "check the cable and the board's supply, and repeat the command"


class OpenOcdCore:
    """A core (:class:`~hil.access.protocols.Core`) through OpenOCD's gdb server at a pipe."""

    def __init__(self, session: OpenOcdSession) -> None:
        """Attach to the core, which stops."""
        self._session = session
        self._is_running = False
        #: Whether it stopped by itself, at a breakpoint, and has not moved since.
        self._has_hit = False
        unix_socket.require_local_sockets("a debugger of OpenOCD")
        with contextlib.ExitStack() as stack:
            ours, other = socket.socketpair()
            stack.callback(ours.close)
            with other:
                self._process = session.debugger(other, _ATTACH)
            stack.callback(self._process.stop)
            try:
                self._gdb = _OpenOcdGdb(ours)
            except DeviceError as error:
                code = self._process.process.poll()
                raise (error if code is None else session.error_of_debugger(code)) from None
            self._stack = stack.pop_all()

    def close(self) -> None:
        """End OpenOCD; a core that runs goes on."""
        self._stack.close()

    def halt(self) -> None:
        """Stop the core."""
        if not self.is_halted():
            self._gdb.interrupt()
            self._is_running = False

    def resume(self) -> None:
        """Let the core run."""
        if self._has_hit:
            # As gdb does it. OpenOCD would step off the breakpoint itself, and report that as a
            # stop of the core, which then runs.
            self.step()
        self._gdb.resume()
        self._is_running = True

    def step(self) -> None:
        """Execute an instruction."""
        self._gdb.step()
        self._has_hit = False

    def is_halted(self) -> bool:
        """Return whether the core has stopped."""
        if self._is_running and self._gdb.has_stopped():
            self._is_running, self._has_hit = False, True
        return not self._is_running

    def set_breakpoint(self, address: int) -> bool:
        """Return whether there was a free breakpoint."""
        try:
            self._gdb.set_breakpoint(address)
        except DeviceError:
            return False
        return True

    def remove_breakpoint(self, address: int) -> None:
        """Remove the breakpoint at an address."""
        self._gdb.clear_breakpoint(address)

    def read_register(self, name: str) -> int:
        """Return a register's value."""
        return self._gdb.read_register(name)

    def write_register(self, name: str, value: int) -> None:
        """Set a register to a value."""
        self._gdb.write_register(name, value)

    def read_memory(self, address: int, nbytes: int) -> bytes:
        """Return bytes of memory."""
        return self._gdb.read_memory(address, nbytes)


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
