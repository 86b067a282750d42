"""Stands in for Renode: the same command line and monitor, with QEMU for the machine.

It behaves as Renode 1.15's sources say: Telnet's negotiation, an echo that wraps at 80 columns, the
prompt of the selected machine, the words of errors, scripts that stop at the first one. What the
script asks for must fit together (types, names, addresses, cores), else it is refused as Renode
would; the firmware then runs for real, so that everything behind the serial line is real too.

``HIL_STAND_IN`` makes it misbehave: ``silent`` takes a connection and says nothing, ``deaf`` never
listens, ``dies`` ends at once with a message, ``stays`` does not end at ``quit``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import select
import shlex
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from elftools.elf.elffile import ELFFile

from hil.errors import DeviceError
from hil.support.process import ChildProcess

COLUMNS = 80
FAULT = os.environ.get("HIL_STAND_IN", "")
TYPES = {
    *("CPU.CortexM", "IRQControllers.NVIC", "Memory.MappedMemory"),
    *("UART.CMSDK_APB_UART", "UART.PL011"),
}
#: QEMU's machines by Renode's name of the core; all have the UART here, and the clock.
MACHINES = {"cortex-m3": "mps2-an385", "cortex-m4": "mps2-an386", "cortex-m7": "mps2-an500"}
UART = ("UART.CMSDK_APB_UART", 0x4000_4000, "RxInterrupt -> nvic@0")
CLOCK_HZ = 25_000_000
#: A counter of the MPS2 boards that runs at their clock.
COUNTER = 0x4002_8018

_ENTRY = re.compile(
    r"^(?P<name>\w+): (?P<type>[\w.]+) @ sysbus(?: (?P<address>0x[0-9A-Fa-f]+))?\n"
    r"(?P<settings>(?:    .+\n)*)",
    re.MULTILINE,
)


class CommandError(Exception):
    """What the monitor says of a command that failed."""


class Qemu:
    """The machine behind the serial line."""

    def __init__(self, machine: str, elf: Path, listener: socket.socket, shift: int) -> None:
        self._qmp, theirs = socket.socketpair()
        self._lines = self._qmp.makefile("rb")
        self.process = ChildProcess(
            "QEMU",
            [
                *("qemu-system-arm", "-machine", machine, "-nodefaults", "-display", "none"),
                *("-kernel", str(elf), "-icount", f"shift={shift},align=off,sleep=on"),
                "-chardev",
                f"socket,id=uart,fd={listener.fileno()},server=on,wait=off,nodelay=on",
                *("-serial", "chardev:uart", "-chardev", f"socket,id=qmp,fd={theirs.fileno()}"),
                *("-mon", "chardev=qmp,mode=control"),
            ],
            install_hint="",
            pass_fds=(listener.fileno(), theirs.fileno()),
        )
        theirs.close()
        self.ask("qmp_capabilities")

    def ask(self, command: str, **arguments: str) -> object:
        request = {"execute": command, "arguments": arguments}
        self._qmp.sendall(json.dumps(request).encode())
        while line := self._lines.readline():
            answer = json.loads(line)
            if "return" in answer:
                return answer["return"]
        raise self.process.end()

    def ticks(self) -> int:
        """Virtual time since the start, in ticks of the board's clock."""
        answer = self.ask("human-monitor-command", **{"command-line": f"xp /1wx {COUNTER:#x}"})
        return int(str(answer).split()[-1], 16)


class Renode:
    """What the monitor's commands work on."""

    def __init__(self) -> None:
        self.qemu: Qemu | None = None
        self._clear()

    def _clear(self) -> None:
        self.machine = ""
        self._variables: dict[str, str] = {}
        self._macros: dict[str, list[str]] = {}
        self._entries: dict[str, re.Match[str]] = {}
        self._elf: Path | None = None
        self._terminals: dict[str, socket.socket] = {}
        self._uart: socket.socket | None = None
        self._mips = 100

    @property
    def prompt(self) -> str:
        return f"({self.machine or 'monitor'}) "

    def run(self, command: str) -> Iterator[str]:
        """What a line prints; an error ends it and the script that it is in."""
        text = command.strip()
        if not text or text.startswith((":", "#")):
            return
        # A macro is named, not expanded.
        expanded = re.sub(r"(?<!runMacro )\$(\w+)(?!\w|\??=)", self._value, text)
        try:
            yield from self._execute(expanded)
        except CommandError as error:
            yield f"There was an error executing command '{expanded}'\r\n{error}"
            raise

    def _value(self, variable: re.Match[str]) -> str:
        if variable[1] not in self._variables:
            raise CommandError(f"No such variable: ${variable[1]}")
        return self._variables[variable[1]]

    def _execute(self, text: str) -> Iterator[str]:
        if match := re.fullmatch(r"\$(\w+)(\??)=(.+)", text):
            if not (match[2] and match[1] in self._variables):
                self._variables[match[1]] = match[3]
            return
        words = shlex.split(text)
        command = " ".join(word for word in words[:2] if not word.startswith("@"))
        run = self._COMMANDS.get(command) or self._COMMANDS.get(words[0])
        if run is None:
            raise CommandError(f"No such command or device: {words[0]}")
        yield from run(self, words)

    def _include(self, words: list[str]) -> Iterator[str]:
        path = Path(words[1].removeprefix("@"))
        if not path.is_file():
            raise CommandError(f"Could not find file '{path}'")
        self._variables["ORIGIN"] = f"@{path.parent}".replace(" ", "\\ ")
        lines = iter(path.read_text(encoding="utf-8").splitlines())
        for line in lines:
            if macro := re.fullmatch(r"macro (\w+)", line):
                if next(lines) != '"""':
                    raise CommandError(f"macro {macro[1]} has no text")
                self._macros[macro[1]] = list(iter(lines.__next__, '"""'))
            else:
                yield from self.run(line)

    def _run_macro(self, words: list[str]) -> Iterator[str]:
        for line in self._macros[words[1].removeprefix("$")]:
            yield from self.run(line)

    def _reset(self, words: list[str]) -> Iterator[str]:
        yield from self._run_macro(["runMacro", "$reset"])
        assert self.qemu is not None
        self.qemu.ask("system_reset")

    def _create(self, words: list[str]) -> Iterator[str]:
        self.machine = words[2]
        yield from ()

    def _load_platform(self, words: list[str]) -> Iterator[str]:
        path = Path(words[2].removeprefix("@"))
        text = path.read_text(encoding="utf-8")
        if using := re.search(r'^using "(.*)"', text, re.MULTILINE):
            raise CommandError(f"Error E38: Using '{using[1]}' does not exist.")
        entries = list(_ENTRY.finditer(text))
        if "\n\n".join(entry[0].rstrip("\n") for entry in entries) + "\n" != text:
            raise CommandError(f"Error E02: Syntax error, unexpected input in {path}")
        for entry in entries:
            if entry["type"] not in TYPES:
                raise CommandError(f"Error E04: Could not resolve type: '{entry['type']}'.")
            self._entries[entry["name"]] = entry
        yield from ()

    def _load_elf(self, words: list[str]) -> Iterator[str]:
        self._elf = Path(words[2].removeprefix("@"))
        memory = [
            (int(e["address"], 16), int(e["address"], 16) + int(self._setting(e, "size"), 16))
            for e in self._entries.values()
            if e["type"] == "Memory.MappedMemory"
        ]
        with self._elf.open("rb") as file:
            for segment in ELFFile(file).iter_segments("PT_LOAD"):
                start, size = segment["p_paddr"], segment["p_filesz"]
                if size and not any(a <= start and start + size <= b for a, b in memory):
                    raise CommandError(f"Tried to access bytes at non-existing {start:#x}")
        yield from ()

    def _create_terminal(self, words: list[str]) -> Iterator[str]:
        _, _, port, name, telnet = words
        if telnet != "false":
            raise CommandError("the stand-in has no terminal in Telnet mode")
        try:
            self._terminals[name] = socket.create_server(("127.0.0.1", int(port)))
        except OSError as error:
            raise CommandError(error.strerror) from None
        yield from ()

    def _connect(self, words: list[str]) -> Iterator[str]:
        _, _, device, terminal = words
        name = device.removeprefix("sysbus.")
        if name not in self._entries or not self._entries[name]["type"].startswith("UART."):
            raise CommandError(f"No such command or device: {device}")
        entry = self._entries[name]
        found = (entry["type"], int(entry["address"], 16))
        if found != UART[:2] or UART[2] not in entry["settings"]:
            raise CommandError("the stand-in has no such UART")
        self._uart = self._terminals[terminal]
        yield from ()

    def _set_quantum(self, words: list[str]) -> Iterator[str]:
        float(words[2])
        yield from ()

    def _set_mips(self, words: list[str]) -> Iterator[str]:
        self._mips = int(words[2])
        yield from ()

    def _start(self, words: list[str]) -> Iterator[str]:
        yield "Starting emulation..."
        cpu, nvic = self._entries["cpu"], self._entries["nvic"]
        if int(self._setting(nvic, "systickFrequency")) != CLOCK_HZ:
            raise CommandError(f"the stand-in's SysTick runs at {CLOCK_HZ} Hz")
        assert self._elf is not None
        assert self._uart is not None
        machine = MACHINES[self._setting(cpu, "cpuType").strip('"')]
        # QEMU can only double the time of an instruction.
        shift = round(math.log2(1000 / self._mips))
        self.qemu = Qemu(machine, self._elf, self._uart, shift)

    def _executed(self, words: list[str]) -> Iterator[str]:
        """At most as many as the virtual time has room for: a core that sleeps executes none."""
        ticks = self.qemu.ticks() if self.qemu else 0
        yield f"0x{ticks * self._mips * 1_000_000 // CLOCK_HZ:016X}"

    def _clear_command(self, words: list[str]) -> Iterator[str]:
        for listener in self._terminals.values():
            listener.close()
        self._clear()
        yield from ()

    @staticmethod
    def _setting(entry: re.Match[str], key: str) -> str:
        found = re.search(rf"^    {key}: (.*)$", entry["settings"], re.MULTILINE)
        if found is None:
            raise CommandError(f"Error E20: {entry['name']} has no {key}")
        return found[1]

    _COMMANDS = {
        "include": _include,
        "mach create": _create,
        "machine Reset": _reset,
        "runMacro": _run_macro,
        "machine LoadPlatformDescription": _load_platform,
        "sysbus LoadELF": _load_elf,
        "emulation CreateServerSocketTerminal": _create_terminal,
        "connector Connect": _connect,
        "emulation SetGlobalQuantum": _set_quantum,
        "sysbus.cpu PerformanceInMips": _set_mips,
        "sysbus.cpu ExecutedInstructions": _executed,
        "start": _start,
        "Clear": _clear_command,
    }


class Shell:
    """The terminal that the monitor believes to have: it echoes, wraps and shows a prompt."""

    def __init__(self, connection: socket.socket, renode: Renode) -> None:
        self._connection = connection
        self._renode = renode
        self._typed = ""
        self._column = 0
        # DO BINARY, DO NAWS, WILL ECHO, WILL SUPPRESS_GO_AHEAD, WON'T LINEMODE
        connection.sendall(bytes.fromhex("fffd00 fffd1f fffb01 fffb03 fffc22"))
        self._show(f"Renode, version 1.15.0.0 (stand-in)\r\n\r\n{renode.prompt}")

    def _show(self, text: str) -> None:
        for char in text:
            self._column = 0 if char in "\r\n" else self._column + 1
            self._connection.sendall(char.encode())
            if self._column == COLUMNS:
                self._connection.sendall(b"\r\n")
                self._column = 0

    def type(self, data: bytes) -> bool:
        """Takes what was typed; False when that ends Renode."""
        for char in data.decode():
            if char != "\n":
                self._typed += char
                self._show(char)
                continue
            line, self._typed = self._typed, ""
            self._show("\r\n")
            if line == "quit" and FAULT != "stays":
                self._show("Renode is quitting\r\n")
                return False
            try:
                for output in self._renode.run(line):
                    self._show(f"{output}\r\n")
            except CommandError:
                pass
            # What --plain leaves of the line editor: the cursor goes to the start of a clean line.
            self._connection.sendall(b"\r\x1b[K")
            self._show(self._renode.prompt)
        return True


def serve(port: int) -> None:
    renode = Renode()
    with socket.create_server(("127.0.0.1", port)) as server:
        if FAULT == "silent":
            time.sleep(600)
        connection, _ = server.accept()
        shell = Shell(connection, renode)
        while True:
            ready, _, _ = select.select([connection], [], [], 0.02)
            if renode.qemu is not None:
                renode.qemu.ask("query-status")  # wakes a serial line that QEMU forgot
            if ready:
                data = connection.recv(4096)
                if not data or not shell.type(data):
                    return


def main() -> None:
    parser = argparse.ArgumentParser(prog="renode", allow_abbrev=False)
    for flag in ("--disable-gui", "--hide-log", "--plain", "--console", "--hide-monitor"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("-P", dest="port", type=int)
    options = parser.parse_args()
    if options.console and options.hide_monitor:
        sys.exit("--hide-monitor and --console cannot be set at the same time")
    if options.console or not options.disable_gui or options.port is None:
        sys.exit("the stand-in's monitor is at a port, without windows")
    if FAULT == "dies":
        sys.exit("Fatal error: libMonoPosixHelper was not found")
    if FAULT == "deaf":
        time.sleep(600)
    try:
        serve(options.port)
    except OSError as error:
        sys.exit(f"Unhandled exception. System.Net.Sockets.SocketException: {error.strerror}")
    except DeviceError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
