"""QEMU: its program, and clients of its three control sockets: memory (qtest), the core (gdbstub),
the machine (QMP).

Each call waits for its answer, up to a deadline, and raises :class:`~hil.errors.DeviceError` when
the socket fails: QEMU has ended, or hangs.
"""

from __future__ import annotations

import base64
import json
import re
import socket
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from hil.errors import DeviceError
from hilc.target import Cpu

_TIMEOUT_S = 10.0
#: Bytes of one qtest block; its answers are lines, read whole.
_BLOCK = 1 << 16


_Client = TypeVar("_Client", bound="_Socket")


def program(cpu: Cpu) -> str:
    """Return the QEMU that has the core."""
    return cpu.toolchain.qemu


def install_hint(cpu: Cpu) -> str:
    """Return the command that installs QEMU for ``cpu``, as a hint."""
    return f"install it: apt install {cpu.toolchain.qemu_package}"


class _Socket:
    """A stream socket with a buffer, whose failures are :class:`DeviceError`."""

    #: As messages call it.
    _name: ClassVar[str]

    def __init__(self, connection: socket.socket, timeout_s: float = _TIMEOUT_S) -> None:
        """Create a client that closes ``connection`` with itself; answers time out after
        ``timeout_s``.
        """
        self._buffer = b""
        self._socket = connection
        self._timeout_s = timeout_s
        self._socket.settimeout(timeout_s)

    @classmethod
    def at(cls: type[_Client], path: Path) -> _Client:
        """Return a client of the socket at ``path``."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(_TIMEOUT_S)
            connection.connect(str(path))
            return cls(connection)
        except BaseException as error:
            connection.close()
            if isinstance(error, OSError):
                raise cls._failure(error) from None
            raise

    def close(self) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise self._failure(error) from None

    def receive_some(self, timeout_s: float | None = None) -> bool:
        """Append what has come to the buffer; False when nothing came in time."""
        self._socket.settimeout(self._timeout_s if timeout_s is None else timeout_s)
        try:
            data = self._socket.recv(1 << 20)
        except (TimeoutError, BlockingIOError):
            return False
        except OSError as error:
            raise self._failure(error) from None
        finally:
            self._socket.settimeout(self._timeout_s)
        if not data:
            raise self._failure(EOFError("closed"))
        self._buffer += data
        return True

    def receive_until(self, end: bytes) -> bytes:
        """Everything up to and with the first ``end``."""
        while (at := self._buffer.find(end)) < 0:
            if not self.receive_some():
                raise self._failure(TimeoutError(f"no answer in {self._timeout_s:g} s"))
        data, self._buffer = self._buffer[: at + len(end)], self._buffer[at + len(end) :]
        return data

    @classmethod
    def _failure(cls, error: Exception) -> DeviceError:
        return DeviceError(
            f"QEMU's {cls._name} socket failed: {error or type(error).__name__}",
            "start the virtual board again",
        )


class Memory(_Socket):
    """The machine's memory as its processor's bus sees it, also while it runs."""

    _name = "qtest"

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


class Machine(_Socket):
    """The machine as a whole, over QMP."""

    _name = "QMP"

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


class Gdb(_Socket):
    """The core, through QEMU's gdbstub. Connecting stops the machine."""

    _name = "gdb"

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection)
        self.send(b"+")
        self._features = self._read_features()
        # A stop that nobody asked for may be under way: the machine may have run until now.
        while self.receive_some(0.02):
            self._take_packets()
        self._buffer = b""
        # A client that was killed leaves its breakpoints; this question removes them.
        self._packet("?")
        self._answer()

    def _packet(self, text: str) -> None:
        data = text.encode()
        self.send(b"$%s#%02x" % (data, sum(data) & 0xFF))

    def _answer(self) -> str:
        """Return the next packet, acknowledged."""
        while True:
            data = self.receive_until(b"#")
            while len(self._buffer) < 2:
                self.receive_some()
            self._buffer = self._buffer[2:]
            self.send(b"+")
            start = data.rfind(b"$")
            if start >= 0:
                return _unescape(data[start + 1 : -1])

    def ask(self, text: str) -> str:
        """Return the answer to a command that does not run the core."""
        self._packet(text)
        # On attaching, the message of the stop that this caused may come in between.
        while (answer := self._answer())[:3] in _STOPS:
            pass
        return answer

    def require(self, text: str) -> None:
        """Send a command that is answered with OK.

        Raise :class:`DeviceError` for another answer.
        """
        if (answer := self.ask(text)) != "OK":
            raise DeviceError(f"QEMU's gdb stub refused {text[:40]!r}: {answer!r}")

    # -- running and stopping

    def resume(self) -> None:
        """Let the machine run; it answers when it has stopped."""
        self._packet("c")

    def step(self) -> None:
        """One instruction, without interrupts and timers."""
        self._packet("s")
        self._answer()

    def interrupt(self) -> None:
        """Stop the running machine.

        Raise :class:`DeviceError` if it does not stop in time.
        """
        self.send(b"\x03")
        deadline = time.monotonic() + _TIMEOUT_S
        while not self._stop_came(_INTERRUPT_S):
            if time.monotonic() > deadline:
                raise self._failure(TimeoutError(f"the core did not stop in {_TIMEOUT_S:g} s"))
            # A machine that has only begun to run does not hear it.
            self.send(b"\x03")

    def _stop_came(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while not self._take_packets():
            if not self.receive_some(max(deadline - time.monotonic(), 0)):
                return False
        return True

    def has_stopped(self) -> bool:
        """Return whether the machine that was resumed has stopped by itself; takes its message."""
        self.receive_some(0)
        return self._take_packets()

    def _take_packets(self) -> bool:
        """Take whole packets out of the buffer; return True if one reports a stop."""
        stopped = False
        while (match := _PACKET.search(self._buffer)) is not None:
            stopped = stopped or match[1][:1] in b"TS"
            self._buffer = self._buffer[match.end() :]
            self.send(b"+")
        return stopped

    # -- registers and breakpoints

    @property
    def registers(self) -> Mapping[str, int]:
        """Numbers of the registers that the stub knows, by name."""
        return self._features

    def read_register(self, name: str) -> int:
        """Return the value of a register; raise :class:`DeviceError` if QEMU cannot read it."""
        answer = self.ask(f"p{self._features[name]:x}")
        try:
            return int.from_bytes(bytes.fromhex(answer), "little")
        except ValueError:
            raise DeviceError(f"QEMU's gdb stub cannot read {name}: {answer!r}") from None

    def write_register(self, name: str, value: int, size: int = 4) -> None:
        """Set a register of ``size`` bytes to ``value``."""
        self.require(f"P{self._features[name]:x}={value.to_bytes(size, 'little').hex()}")

    def set_breakpoint(self, address: int) -> None:
        """Set a hardware breakpoint on the Thumb instruction at ``address``."""
        self.require(f"Z1,{address:x},2")

    def clear_breakpoint(self, address: int) -> None:
        """Remove the breakpoint at ``address``."""
        self.require(f"z1,{address:x},2")

    def _read_features(self) -> dict[str, int]:
        """Register numbers from the stub's XML; it knows registers only after having sent it."""
        numbers: dict[str, int] = {}
        root = self._document("target.xml")
        number = 0
        for include in re.findall(r'<xi:include href="([^"]+)"', root):
            if include == "system-registers.xml":
                continue  # hundreds, in no order, and none that a probe can ask for
            text = re.sub(r"<!DOCTYPE[^>]*>", "", self._document(include))
            for register in ElementTree.fromstring(text).iter("reg"):
                number = int(register.get("regnum", number))
                numbers[register.get("name", "")] = number
                number += 1
        return numbers

    def _document(self, name: str) -> str:
        text = ""
        while True:
            part = self.ask(f"qXfer:features:read:{name}:{len(text):x},800")
            if part[:1] not in ("m", "l"):
                raise DeviceError(f"QEMU's gdb stub has no {name}: {part!r}")
            text += part[1:]
            if part[0] == "l":
                return text


_INTERRUPT_S = 0.25
_STOPS = ("T02", "T05", "S02", "S05")
_PACKET = re.compile(rb"\$([^#]*)#..", re.DOTALL)


def _unescape(data: bytes) -> str:
    return re.sub(rb"\}(.)", lambda m: bytes([m[1][0] ^ 0x20]), data, flags=re.DOTALL).decode()
