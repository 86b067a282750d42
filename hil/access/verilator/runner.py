"""Run a firmware on the RTL of a core, in a simulator that Verilator made."""

from __future__ import annotations

import contextlib
import secrets
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hil.access.connection import VIRTUAL
from hil.access.protocols import Debuggable, Measurement, Need, Runner
from hil.access.registry import need_of, runner_named
from hil.access.verilator.build import check_installed, missing, simulator
from hil.access.verilator.cores import load_core
from hil.board import board_names, load_board
from hil.board.settings import Setting, Value, parse_named
from hil.errors import DeviceError, EmulatorError, InputError, LinkError, Remedy
from hil.firmware.image import read_image
from hil.link.line import raise_if_ending
from hil.results.bench import Stalls
from hil.support import unix_socket
from hil.support.process import ChildProcess

if TYPE_CHECKING:
    from pathlib import Path

    from hil.access.connection import Connection, Image
    from hil.access.protocols import DebugServer
    from hil.access.verilator.cores import RtlCore
    from hil.board import Board
    from hil.link.bulk import BoardMemory

#: The simulator answers at the latest when it has simulated some thousand cycles.
_ANSWER_LIMIT_S = 30.0
_BLOCK = 1 << 16
_WAIT_MAX = 63
#: A measurement of the simulator: cycles, retired instructions, and the fields of Stalls.
_MEASUREMENT = struct.Struct("<6Q")
#: Settings that choose a variant of a core: its description says which it has.
_VARIANTS: Final[Mapping[str, Setting]] = {
    "multiplier": Setting("text", "Ibex: slow, fast (3 cycles) or single (1 cycle)", ""),
    "branch_target_alu": Setting("boolean", "Ibex: an adder for targets of branches", False),
    "writeback": Setting("boolean", "Ibex: a third stage, for writes to registers", False),
    "icache": Setting("boolean", "Ibex: an instruction cache", False),
    "xpulp": Setting("boolean", "CV32E40P: the XPULP instructions", False),
}
_DEFAULTS: Final[Mapping[str, Value]] = {
    key: setting.default for key, setting in _VARIANTS.items() if setting.default is not None
}
SETTINGS: Final[Mapping[str, Setting]] = {
    "core": Setting("name", "the core's RTL"),
    "flash_wait": Setting("integer", "wait states of flash", 0, 0, _WAIT_MAX),
    "ram_wait": Setting("integer", "wait states of RAM", 0, 0, _WAIT_MAX),
    "prefetch": Setting("boolean", "a line of 16 bytes for fetches, the next read ahead", False),
    **_VARIANTS,
}


class VerilatorRunner(Runner):
    """Simulates the board's core, cycle by cycle."""

    name = "verilator"
    settings = SETTINGS
    monitor_commands = ("halt", "init", "reset", "reset halt", "reset init")
    reaches_memory = True

    def needs(self, board: Board) -> Need | None:
        """Return the program or package that the simulator's build lacks."""
        absent = missing(_core(board))
        return None if absent is None else Need(*absent, find=lambda: False)

    def check(self, board: Board, connection: Connection) -> None:
        """Raise :class:`~hil.errors.BoardError` for a setting that the core does not have."""
        _core(board).parameters(board.settings[self.name], _DEFAULTS)

    def memory_model(self, board: Board) -> str:
        """Return the wait states of the simulated memory, in words."""
        settings = board.settings[self.name]
        flash, ram = int(settings["flash_wait"]), int(settings["ram_wait"])
        buffered = " with prefetch" if flash > 0 and settings["prefetch"] else ""
        return f"flash {_states(flash)}{buffered}, RAM {_states(ram)}"

    def check_debugger(self, board: Board, connection: Connection) -> None:
        """Raise if the board's core has no debug module here, or OpenOCD is missing."""
        chosen = runner_named("openocd")
        if (need := need_of(chosen, board)) is not None and not need.is_there():
            raise EmulatorError(f"{need.name} is not installed", need.hint)
        chosen.check_debugger(board, _virtual(connection))

    def serve_debugger(
        self, board: Board, elf: Path, connection: Connection, stub: socket.socket
    ) -> contextlib.AbstractContextManager[DebugServer]:
        """Serve gdb with OpenOCD at the JTAG port of the core's debug module."""
        return _openocd().serve_debugger(board, elf, _virtual(connection), stub)

    def start(
        self, board: Board, image: Image, connection: Connection
    ) -> contextlib.AbstractContextManager[RtlBoard]:
        """Start the simulator with the image, after building it; it ends with the context."""
        return start(board, image)


def memory_models(board: Board, runner: str | None, flash_wait: int) -> tuple[str, ...]:
    """Return the words of ``--runner`` for three memory models: flash without wait states, with
    ``flash_wait``, and with these and prefetch. Other settings of ``runner`` stay.

    Raise :class:`InputError` if the board does not run in this simulator.
    """
    name, words = parse_named("--runner", runner or board.default_runner)
    if name != VerilatorRunner.name:
        raise InputError(
            f"{board.name} is started by {name}, whose memory has no models to compare",
            "choose a board that the runner verilator simulates, such as rtl-ibex",
        )
    if flash_wait > _WAIT_MAX:
        raise InputError(
            f"flash of {flash_wait} wait states is not available", f"give at most {_WAIT_MAX}"
        )
    models = ((0, "false"), (flash_wait, "false"), (flash_wait, "true"))
    return tuple(
        f"{name}:" + ",".join(f"{key}={value}" for key, value in changed.items())
        for wait, prefetch in models
        for changed in [{**words, "flash_wait": str(wait), "prefetch": prefetch}]
    )


def _openocd() -> Debuggable:
    chosen = runner_named("openocd")
    assert isinstance(chosen, Debuggable), "it serves gdb"
    return chosen


def _virtual(connection: Connection) -> Connection:
    return replace(connection, probe=VIRTUAL)


def _states(count: int) -> str:
    return f"{count} wait state{'' if count == 1 else 's'}"


def _core(board: Board) -> RtlCore:
    return load_core(str(board.settings[VerilatorRunner.name]["core"]))


class Control:
    """The simulator's control socket: memory, reset, measurements.

    One request at a time: threads wait for each other.
    """

    def __init__(self, connection: socket.socket, is_alive: Callable[[], None]) -> None:
        self._socket = connection
        self._socket.settimeout(_ANSWER_LIMIT_S)
        self._is_alive = is_alive
        self._turn = threading.Lock()

    def read(self, address: int, nbytes: int) -> bytes:
        """Return ``nbytes`` bytes from ``address`` on; raise :class:`DeviceError` outside of
        memory.
        """
        parts = []
        for start in range(address, address + nbytes, _BLOCK):
            size = min(_BLOCK, address + nbytes - start)
            parts.append(self._ask(b"R", start, size, answer=size))
        return b"".join(parts)

    def write(self, address: int, data: bytes) -> None:
        """Write ``data`` to ``address``, in flash too; raise :class:`DeviceError` outside of
        memory.
        """
        for start in range(0, len(data), _BLOCK):
            part = data[start : start + _BLOCK]
            self._ask(b"W", address + start, len(part), part)

    def reset(self) -> None:
        """Reset the core, and hold it until the line is opened."""
        self._ask(b"X", 0, 0)

    def measurements(self) -> list[Measurement]:
        """Return the measurements that ended since the call before."""
        with self._turn, self._explained():
            self._socket.sendall(struct.pack("<cII", b"C", 0, 0))
            (count,) = struct.unpack("<xI", self._take(5))
            data = self._take(_MEASUREMENT.size * count)
        return [
            Measurement(cycles, instructions, Stalls(*stalls))
            for cycles, instructions, *stalls in _MEASUREMENT.iter_unpack(data)
        ]

    def _ask(
        self, letter: bytes, address: int, count: int, data: bytes = b"", answer: int = 0
    ) -> bytes:
        with self._turn, self._explained():
            self._socket.sendall(struct.pack("<cII", letter, address, count) + data)
            status, *_ = self._take(1)
            received = self._take(answer)
        if status != 0:
            raise DeviceError(
                f"the simulated board has no memory for {count} bytes at {address:#010x}",
                "compare the board's memory with the image",
            )
        return received

    def _take(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionResetError("the simulator closed the connection")
            data += part
        return bytes(data)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise_if_ending(self._is_alive)
            raise LinkError(
                f"the simulator did not answer: {error}", "run it again", remedy=Remedy.POWER
            ) from None


class RtlBoard:
    """A firmware on a simulated core."""

    counter: Final = "cycles"
    is_emulated: Final = True
    can_reset: Final = True
    line: Final = None
    #: A core at 100 MHz, simulated at one to five million cycles a second.
    slowness: Final = 20.0

    def __init__(
        self,
        is_alive: Callable[[], None],
        url: str,
        control: Control,
        memory: BoardMemory | None,
        memory_model: str,
        reset: Callable[[], None],
    ) -> None:
        """Create it; ``reset`` starts the firmware again."""
        self.url = url
        self.memory = memory
        self.memory_model = memory_model
        self._is_alive = is_alive
        self._control = control
        self._reset = reset

    def alive(self) -> None:
        """Raise if the simulator has ended."""
        self._is_alive()

    def reset(self) -> None:
        """Reset the core; the serial line must be closed."""
        self._reset()

    def count(self, ticks: int, ticks_hz: int) -> int:
        """Return cycles: the time base counts them."""
        return ticks

    def measurements(self) -> list[Measurement]:
        """Return cycles and retired instructions of the runs that ended since the call before."""
        return self._control.measurements()


@contextlib.contextmanager
def start(board: Board, firmware: Image) -> Iterator[RtlBoard]:
    """Start the firmware in the simulator of the board's core, which waits for a connection to its
    serial line.
    """
    with machine(board) as made:
        for segment in read_image(firmware.elf):
            made.control.write(segment.address, segment.data)
        yield made.running(made.control.reset)


@dataclass(frozen=True)
class RtlMachine:
    """A simulator of a board's core."""

    uid: str
    board: Board
    #: The serial line.
    url: str
    control: Control
    #: Raises if the simulator has ended.
    alive: Callable[[], None]

    def running(self, reset: Callable[[], None]) -> RtlBoard:
        """Return the firmware in its memory, which ``reset`` starts again."""
        # The host's access bypasses a cache, which would then hold what was there before.
        memory = None if _core(self.board).data_cache else self.control
        model = VerilatorRunner().memory_model(self.board)
        return RtlBoard(self.alive, self.url, self.control, memory, model, reset)


def check_debug(board: Board) -> None:
    """Raise :class:`InputError` if the board's core is not simulated with a debug module, and
    :class:`DeviceError` if a program or RTL that this needs is missing.
    """
    core = _core(board) if VerilatorRunner.name in board.settings else None
    if core is None or not core.debug:
        known = [other for name in board_names() if (other := load_board(name)).runners]
        able = [b.name for b in known if VerilatorRunner.name in b.settings and _core(b).debug]
        what = "the runner verilator" if core is None else f"a debug module for {core.title}"
        raise InputError(
            f"board {board.name!r} does not have {what}, so no simulated JTAG port",
            f"choose one of {', '.join(able)}",
        )
    check_installed(core, debug=True)


@contextlib.contextmanager
def machine(board: Board, jtag: Path | None = None) -> Iterator[RtlMachine]:
    """Start the simulator of a board's core, without an image; leaving the context ends it.

    It waits for a connection to its serial line. With ``jtag``, the path of a socket that is made
    there for OpenOCD's ``remote_bitbang``, the core has a debug module, and does not wait.
    """
    settings = board.settings[VerilatorRunner.name]
    core = _core(board)
    program = simulator(core, core.parameters(settings, _DEFAULTS), debug=jtag is not None)
    with contextlib.ExitStack() as stack:
        line, path = stack.enter_context(unix_socket.listener("line"))
        # An unnamed pair: nothing else can connect to it.
        host, other = (stack.enter_context(end) for end in socket.socketpair())
        passed = [line, other]
        if jtag is not None:
            passed.append(stack.enter_context(unix_socket.listen(jtag)))
        command = [
            *(str(program), str(line.fileno()), str(other.fileno())),
            str(passed[-1].fileno()) if jtag is not None else "-1",
            *(str(int(settings[key])) for key in ("flash_wait", "ram_wait", "prefetch")),
            *(f"{region.kind}:{region.origin:#x}:{region.size}" for region in board.memory),
        ]
        process = ChildProcess(
            f"the simulator of {core.title}",
            command,
            install_hint="run the command again, which builds it",
            pass_fds=tuple(end.fileno() for end in passed),
        )
        stack.callback(process.stop)
        other.close()  # the simulator has a copy: the connection must end with it
        control = Control(host, process.alive)
        uid = f"hil-{board.name}-{secrets.token_hex(4)}"
        yield RtlMachine(uid, board, unix_socket.url(path), control, process.alive)
