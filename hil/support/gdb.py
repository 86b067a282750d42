"""A client of gdb servers: QEMU's, OpenOCD's.

Each call waits for its answer, up to a deadline, and raises :class:`~hil.errors.DeviceError` when
the server refuses it, has ended, or hangs.
"""

from __future__ import annotations

import re
import socket
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, TypeVar

from hil.errors import DeviceError, EmulatorError
from hil.support.unix_socket import require_local_sockets

_TIMEOUT_S = 10.0
_Client = TypeVar("_Client", bound="StreamClient")


class StreamClient:
    """A stream socket with a buffer, whose failures are :class:`DeviceError`."""

    #: As messages call it, and what the user does when it fails.
    _name: ClassVar[str]
    _remedy: ClassVar[str] = "start the virtual board again"

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
        require_local_sockets("a virtual board")
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
        return EmulatorError(f"{cls._name} failed: {error or type(error).__name__}", cls._remedy)


class Gdb(StreamClient):
    """A core through a gdb server. Connecting stops the core."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection)
        self.send(b"+")
        self._features = self._read_features()
        # A stop that nobody asked for may be under way: the machine may have run until now.
        while self.receive_some(0.02):
            self._take_packets()
        self._buffer = b""

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
        while (answer := self._answer())[:3] in _STOPS or _is_output(answer):
            pass
        return answer

    def require(self, text: str) -> None:
        """Send a command that is answered with OK.

        Raise :class:`DeviceError` for another answer.
        """
        if (answer := self.ask(text)) != "OK":
            raise DeviceError(f"{self._name} refused {text[:40]!r}: {answer!r}")

    # -- running and stopping

    def resume(self) -> None:
        """Let the core run; the server answers when it has stopped."""
        self._packet("c")

    def step(self) -> None:
        """One instruction, without interrupts and timers."""
        self._packet("s")
        self._answer()

    def interrupt(self) -> None:
        """Stop the running core.

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
        """Return whether the core that was resumed has stopped by itself; takes its message."""
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
        """Return the value of a register; DeviceError if the server cannot read it."""
        answer = self.ask(f"p{self._features[name]:x}")
        try:
            return int.from_bytes(bytes.fromhex(answer), "little")
        except ValueError:
            raise DeviceError(f"{self._name} cannot read {name}: {answer!r}") from None

    def write_register(self, name: str, value: int, size: int = 4) -> None:
        """Set a register of ``size`` bytes to ``value``."""
        self.require(f"P{self._features[name]:x}={value.to_bytes(size, 'little').hex()}")

    def read_memory(self, address: int, nbytes: int) -> bytes:
        """Return ``nbytes`` bytes from ``address`` on; DeviceError if they cannot be read."""
        answer = self.ask(f"m{address:x},{nbytes:x}")
        try:
            return bytes.fromhex(answer)
        except ValueError:
            raise DeviceError(f"{self._name} cannot read {address:#x}: {answer!r}") from None

    def set_breakpoint(self, address: int) -> None:
        """Set a hardware breakpoint on the 16-bit instruction at ``address``."""
        self.require(f"Z1,{address:x},2")

    def clear_breakpoint(self, address: int) -> None:
        """Remove the breakpoint at ``address``."""
        self.require(f"z1,{address:x},2")

    def _read_features(self) -> dict[str, int]:
        """Register numbers from the stub's XML; it knows registers only after having sent it."""
        numbers: dict[str, int] = {}
        root = self._document("target.xml")
        included = [
            self._document(name)
            for name in re.findall(r'<xi:include href="([^"]+)"', root)
            if name != "system-registers.xml"  # hundreds, in no order, useless for a probe
        ]
        number = 0
        for document in included or [root]:
            text = re.sub(r"<!DOCTYPE[^>]*>", "", document)
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
                raise DeviceError(f"{self._name} has no {name}: {part!r}")
            text += part[1:]
            if part[0] == "l":
                return text


_INTERRUPT_S = 0.25
_STOPS = ("T02", "T05", "S02", "S05")
_PACKET = re.compile(rb"\$([^#]*)#..", re.DOTALL)


def _is_output(answer: str) -> bool:
    """Return whether a packet is text for gdb's user."""
    return answer.startswith("O") and answer != "OK"


def _unescape(data: bytes) -> str:
    return re.sub(rb"\}(.)", lambda m: bytes([m[1][0] ^ 0x20]), data, flags=re.DOTALL).decode()
