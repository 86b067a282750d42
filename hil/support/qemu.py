"""QEMU: its program, and clients of its three control sockets: memory (qtest), the core (gdb stub),
the machine (QMP).

Each call waits for its answer, up to a deadline, and raises :class:`~hil.errors.DeviceError` when
the socket fails: QEMU has ended, or hangs.
"""

from __future__ import annotations

import base64
import json
import re
import socket
from typing import Any

from hil.errors import DeviceError
from hil.support.gdb import Gdb, StreamClient
from hilc.support.packages import install_command
from hilc.target import Cpu

#: Bytes of one qtest block; its answers are lines, read whole.
_BLOCK = 1 << 16


def program(cpu: Cpu) -> str:
    """Return the QEMU that has the core."""
    return cpu.toolchain.qemu


def install_hint(cpu: Cpu) -> str:
    """Return the command that installs QEMU for ``cpu``, as a hint."""
    return f"install it: {install_command(cpu.toolchain.qemu_package)}"


class Memory(StreamClient):
    """The machine's memory as its processor's bus sees it, also while it runs."""

    _name = "QEMU's qtest socket"

    def _ask(self, command: str) -> str:
        self.send(command.encode() + b"\n")
        answer = self.receive_until(b"\n").decode().rstrip()
        if answer != "OK" and not answer.startswith("OK "):
            raise DeviceError(f"QEMU refused {command[:40]!r}: {answer}", "report this")
        return answer[3:]

    def read(self, address: int, size: int) -> int:
        """Return a register of 1, 2 or 4 bytes, in one access."""
        return int(self._ask(f"read{_WIDTH[size]} {address:#x}"), 16)

    def write(self, address: int, size: int, value: int) -> None:
        """Write ``value`` as ``size`` bytes to ``address``."""
        self._ask(f"write{_WIDTH[size]} {address:#x} {value:#x}")

    def read_block(self, address: int, size: int) -> bytes:
        """Return ``size`` bytes from ``address`` on."""
        parts = [
            base64.b64decode(self._ask(f"b64read {address + at:#x} {min(_BLOCK, size - at):#x}"))
            for at in range(0, size, _BLOCK)
        ]
        return b"".join(parts)

    def write_block(self, address: int, data: bytes) -> None:
        """Write ``data`` from ``address`` on."""
        for at in range(0, len(data), _BLOCK):
            block = data[at : at + _BLOCK]
            text = base64.b64encode(block).decode()
            self._ask(f"b64write {address + at:#x} {len(block):#x} {text}")


_WIDTH = {1: "b", 2: "w", 4: "l"}


class Machine(StreamClient):
    """The machine as a whole, over QMP."""

    _name = "QEMU's QMP socket"

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection)
        self._events: list[str] = []
        self.receive_until(b"\n")  # the greeting
        self.execute("qmp_capabilities")

    def execute(self, command: str, **arguments: Any) -> Any:
        """Return the result of a QMP command.

        Raise :class:`DeviceError` if QEMU refuses it.
        """
        message: dict[str, Any] = {"execute": command}
        if arguments:
            message["arguments"] = arguments
        self.send(json.dumps(message).encode() + b"\n")
        while True:
            answer = json.loads(self.receive_until(b"\n"))
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise DeviceError(f"QEMU refused {command}: {answer['error'].get('desc')}")
            self._events.append(answer.get("event", ""))

    def reset(self) -> None:
        """Reset every device and the core; a stopped machine stays stopped."""
        self._events.clear()
        self.execute("system_reset")
        # The command only asks for it; the event tells that it is done.
        while "RESET" not in self._events:
            self._events.append(json.loads(self.receive_until(b"\n")).get("event", ""))

    def memory_map(self) -> tuple[tuple[int, int], ...]:
        """First and last addresses of what answers on the processor's bus, sorted."""
        text = self.execute("human-monitor-command", **{"command-line": "info mtree -f"})
        views = re.split(r"^FlatView #\d+$", text, flags=re.MULTILINE)
        ranges = [
            (int(match[1], 16), int(match[2], 16))
            for view in views
            if re.search(r'^ AS "cpu-(?:secure-)?memory', view, re.MULTILINE)
            for match in _RANGE.finditer(view)
        ]
        return tuple(sorted(set(ranges)))


_RANGE = re.compile(r"^ +([0-9a-f]{16})-([0-9a-f]{16}) \(prio", re.MULTILINE)


class QemuGdb(Gdb):
    """The core, through QEMU's gdb stub."""

    _name = "QEMU's gdb socket"

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection)
        # A client that was killed leaves its breakpoints; this question removes them.
        self._packet("?")
        self._answer()
