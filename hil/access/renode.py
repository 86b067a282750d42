"""Run a firmware in Renode: platform and script from the board description, via its monitor.

This module has not been run with Renode itself; ``docs/reference/board-files.md`` explains the
limits.
"""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hil.access.protocols import Need, Runner
from hil.access.renode_monitor import Monitor
from hil.board.board import RENODE_SETTINGS
from hil.errors import DeviceError, EmulatorError, InputError
from hil.support.process import ChildProcess
from hilc.support.temporary import TemporaryFolder
from hilc.target import cpu_names, get_cpu

if TYPE_CHECKING:
    from hil.access.connection import Connection, Image
    from hil.board import Board, Renode
    from hil.link.line import Line

PROGRAM: Final = "renode"
INSTALL_HINT: Final = (
    "install it from https://github.com/renode/renode/releases (1.15 or later) and put `renode` "
    "on PATH, or use another of the board's runners"
)
#: Time limits for .NET and Renode to start, and for a platform to load.
_START_TIMEOUT_S = 60.0
_QUIT_TIMEOUT_S = 2.0
#: Attempts to find a free port, which another program may take before Renode does.
_ATTEMPTS = 3
_TAKEN = re.compile(r"address already in use|in use|already taken", re.IGNORECASE)
#: The output of the script's last command.
_STARTED = "Starting emulation"
_NUMBER = re.compile(r"0x([0-9A-Fa-f]+)|\b([0-9]+)\b")

#: Step of virtual time in seconds; input from outside arrives between steps.
_QUANTUM_S = "0.00001"


class RenodeRunner(Runner):
    """Starts the board in Renode."""

    name = "renode"
    settings = RENODE_SETTINGS

    def needs(self, board: Board) -> Need:
        """Return the program Renode."""
        return Need(PROGRAM, INSTALL_HINT)

    def start(
        self, board: Board, image: Image, connection: Connection
    ) -> contextlib.AbstractContextManager[RenodeBoard]:
        """Start Renode with the image; it ends with the context."""
        return start(board, image)


class RenodeBoard:
    """A firmware in Renode."""

    counter: Final = "instructions"
    line: Line | None = None
    memory: Final = None
    is_emulated: Final = True
    can_reset: Final = True

    def __init__(self, process: ChildProcess, monitor: Monitor, url: str, mips: int) -> None:
        self.url = url
        self._process = process
        self._monitor = monitor
        self._mips = mips
        self._executed = 0

    def alive(self) -> None:
        """Raise if Renode has ended."""
        self._process.alive()

    def reset(self) -> None:
        """Reset the machine and load the image again; the serial line must be closed.

        Raise :class:`DeviceError` if the machine does not start again.
        """
        answer = self._monitor.ask("machine Reset")
        if answer:
            raise EmulatorError(
                f"Renode did not reset the board: its monitor answered {answer!r}", "run it again"
            )
        self._executed = 0

    def executed(self) -> int:
        """Return the instructions executed since the start, by Renode's counter."""
        answer = self._monitor.ask("sysbus.cpu ExecutedInstructions")
        number = _NUMBER.search(answer)
        if number is None:
            raise EmulatorError(
                f"Renode did not report executed instructions: its monitor answered {answer!r}",
                "install Renode 1.15 or later",
            )
        self._executed = int(number[1], 16) if number[1] else int(number[2])
        return self._executed

    def count(self, ticks: int, ticks_hz: int) -> int:
        """Return instructions: each takes 1 / ``mips`` us of the virtual time of ``ticks``.

        Raise if the count exceeds the instructions that Renode has executed: then the time base
        runs at another rate than the description says.
        """
        instructions = (ticks * self._mips * 1_000_000 + ticks_hz // 2) // ticks_hz
        if instructions > self._executed and instructions > self.executed():
            raise DeviceError(
                f"the time base shows {instructions} instructions, but Renode has executed "
                f"{self._executed} since the start",
                "compare clock_hz and renode.mips with the platform: its SysTick or cycle counter "
                "runs faster than clock_hz",
            )
        return instructions


def platform(board: Board) -> str:
    """Return the text of the ``.repl`` file for ``board``.

    It is Renode's own platform with the time base at the board's clock, or a platform of core,
    memory and UART; followed by the board's changes.
    """
    renode = board.renode
    assert renode is not None
    entries = _brought(board, renode) if renode.platform else _made(board, renode)
    if renode.changes:
        entries.append(renode.changes.strip())
    return "\n\n".join(entries) + "\n"


def _brought(board: Board, renode: Renode) -> list[str]:
    return [f'using "{renode.platform}"', f"nvic:\n    systickFrequency: {board.clock_hz}"]


def _made(board: Board, renode: Renode) -> list[str]:
    if not board.cpu.debug.renode:
        known = [name for name in cpu_names() if get_cpu(name).debug.renode]
        raise InputError(
            f"this program cannot generate a Renode platform with a {board.cpu.name}",
            f"set renode.platform to one of Renode's; generated cores: {', '.join(known)}",
        )
    memory = [
        f"{region.name}: Memory.MappedMemory @ sysbus {region.origin:#010x}\n"
        f"    size: {region.size:#x}"
        for region in board.memory
    ]
    uart = next(port for port in board.ports if "uart" in port.roles)
    assert uart.renode is not None
    clock = uart.renode.get("clock")
    return [
        "nvic: IRQControllers.NVIC @ sysbus 0xE000E000\n"
        f"    systickFrequency: {board.clock_hz}\n"
        "    -> cpu@0",
        f'cpu: CPU.CortexM @ sysbus\n    cpuType: "{board.cpu.debug.renode}"\n    nvic: nvic',
        *memory,
        f"{renode.uart}: {uart.renode['model']} @ sysbus {uart.settings['base']:#010x}\n"
        + (f"    {clock}: {board.clock_hz}\n" if clock else "")
        + f"    {uart.renode['irq']} -> nvic@{uart.settings['irq']}",
    ]


def script(board: Board) -> str:
    """Return the text of the ``.resc`` file for ``board``, for the folder of platform and ELF.

    ``$uart_port`` is the port of the serial line. The last command starts the firmware.
    """
    renode = board.renode
    assert renode is not None
    return f"""\
$uart_port?=3456
$elf?=$ORIGIN/firmware.elf

mach create "board"
machine LoadPlatformDescription $ORIGIN/board.repl

macro reset
\"\"\"
    sysbus LoadELF $elf
\"\"\"
runMacro $reset

# Without Telnet, which would double each byte 0xFF and send bytes of its own.
emulation CreateServerSocketTerminal $uart_port "uart_socket" false
connector Connect sysbus.{renode.uart} uart_socket
emulation SetGlobalQuantum "{_QUANTUM_S}"
sysbus.cpu PerformanceInMips {renode.mips}
start
"""


@contextlib.contextmanager
def start(board: Board, firmware: Image) -> Iterator[RenodeBoard]:
    """Start the firmware in Renode.

    Raise :class:`InputError` if the board has no Renode platform.
    """
    if board.renode is None:
        raise InputError(
            f"board {board.name!r} has no runner 'renode'",
            f"choose one of {', '.join(board.runners)}",
        )
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryFolder("renode")))
        (folder / "board.repl").write_text(platform(board), encoding="utf-8")
        (folder / "board.resc").write_text(script(board), encoding="utf-8")
        (folder / "firmware.elf").symlink_to(firmware.elf.resolve())
        process, monitor = _start_renode(stack)
        url = f"socket://127.0.0.1:{_run_script(monitor, folder)}"
        yield RenodeBoard(process, monitor, url, board.renode.mips)


def _start_renode(stack: contextlib.ExitStack) -> tuple[ChildProcess, Monitor]:
    for attempt in range(_ATTEMPTS):
        with contextlib.ExitStack() as starting:
            port = _free_port()
            # --console would move the monitor from the port to the console; --hide-log suppresses
            # a message for each access to an unmodelled register.
            command = [PROGRAM, "--disable-gui", "--hide-log", "--plain", "-P", str(port)]
            process = ChildProcess("Renode", command, install_hint=INSTALL_HINT)
            starting.callback(process.stop)
            try:
                monitor = Monitor.connect(port, process.alive, _START_TIMEOUT_S)
            except DeviceError as error:
                if attempt + 1 < _ATTEMPTS and _TAKEN.search(str(error)):
                    continue
                raise
            starting.callback(_quit, process, monitor)
            stack.push(starting.pop_all())
            return process, monitor
    raise AssertionError("the last attempt returns or raises")


def _quit(process: ChildProcess, monitor: Monitor) -> None:
    """Let Renode quit by itself, so that it removes its temporary files."""
    with contextlib.closing(monitor):
        if process.process.poll() is None:
            monitor.quit()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.process.wait(_QUIT_TIMEOUT_S)


def _run_script(monitor: Monitor, folder: Path) -> int:
    """Run ``folder``'s script; return the port of the serial line."""
    path = str(folder / "board.resc").replace(" ", "\\ ")
    for attempt in range(_ATTEMPTS):
        port = _free_port()
        monitor.ask(f"$uart_port={port}")
        answer = monitor.ask(f"include @{path}", _START_TIMEOUT_S)
        if _STARTED in answer:
            return port
        if attempt + 1 < _ATTEMPTS and _TAKEN.search(answer):
            monitor.ask("Clear")  # drop the machine that the script has created so far
            continue
        words = " ".join(answer.split()) or "nothing"
        raise EmulatorError(
            f"Renode stopped in the board's script: {words}",
            "compare the board's settings of the runner renode with the platforms of this Renode",
        )
    raise AssertionError("the last attempt returns or raises")


def _free_port() -> int:
    """Return a port that is free on all addresses of this machine, which Renode binds."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port
