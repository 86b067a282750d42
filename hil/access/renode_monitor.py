"""Client of Renode's monitor, an interactive shell on a Telnet connection.

The received bytes form terminal output: Telnet negotiation, cursor movements, the echo of the
command, its output, a prompt. Only the output is returned. The formats follow the sources of Renode
1.15 (`SocketServerProvider`, `Monitor`, `AntShell`).
"""

from __future__ import annotations

import contextlib
import re
import socket
import time
from collections.abc import Callable
from typing import Final

from hil.errors import DeviceError, EmulatorError
from hil.support.poll import is_readable

#: Interval at which a wait checks whether Renode still runs.
_LOOK_S = 0.02
#: Silence that ends the output before the first command.
_QUIET_S = 0.2
_PROMPT = re.compile(r"\([^()\r\n]+\) \Z")
#: Cursor and colour codes; --plain leaves some of them.
_ESCAPE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")

_IAC, _SUB_BEGIN, _SUB_END = 255, 250, 240
_WITH_OPTION: Final = range(251, 255)  # WILL, WON'T, DO, DON'T


class Telnet:
    """Extracts the data of a Telnet stream, received in pieces of any size."""

    def __init__(self) -> None:
        self._pending = b""

    def feed(self, received: bytes) -> bytes:
        """Return the data in ``received``; keep an incomplete command for the next call."""
        stream, data, index = self._pending + received, bytearray(), 0
        while (found := stream.find(_IAC, index)) >= 0:
            data += stream[index:found]
            end = self._command_end(stream, found)
            if end is None:
                self._pending = stream[found:]
                return bytes(data)
            if stream[found + 1] == _IAC:
                data.append(_IAC)
            index = end
        self._pending = b""
        return bytes(data + stream[index:])

    @staticmethod
    def _command_end(stream: bytes, start: int) -> int | None:
        """Return the end of the command at ``start``; None if it is incomplete."""
        code = stream[start + 1] if start + 1 < len(stream) else None
        if code is None:
            return None
        if code == _SUB_BEGIN:
            end = stream.find(bytes([_IAC, _SUB_END]), start)
            return end + 2 if end >= 0 else None
        end = start + (3 if code in _WITH_OPTION else 2)
        return end if end <= len(stream) else None


class Monitor:
    """A connection to the monitor; ``alive`` raises if Renode has ended."""

    def __init__(self, connection: socket.socket, alive: Callable[[], None]) -> None:
        self._socket = connection
        self._alive = alive
        self._telnet = Telnet()
        self._text = ""

    @classmethod
    def connect(cls, port: int, alive: Callable[[], None], timeout_s: float) -> Monitor:
        """Connect when ``port`` accepts connections, and wait for the first prompt.

        Raise :class:`DeviceError` if the port or the prompt is silent for too long.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            alive()
            try:
                connection = socket.create_connection(("127.0.0.1", port), _LOOK_S * 10)
                break
            except OSError:
                if time.monotonic() >= deadline:
                    raise _silence(f"does not listen at port {port}", timeout_s) from None
                time.sleep(_LOOK_S)
        monitor = cls(connection, alive)
        try:
            # The first prompt may have been sent before the connection.
            monitor._send("")
            monitor._wait_for(lambda text: bool(_PROMPT.search(text)), deadline, timeout_s)
            while monitor._receive(_QUIET_S):
                pass
        except BaseException:
            monitor.close()
            raise
        return monitor

    def ask(self, command: str, timeout_s: float = 10.0) -> str:
        """Return the output of ``command`` without echo and prompt."""
        self._text = ""
        self._send(command)
        # The terminal wraps a long echo at its assumed width.
        echo = re.compile(r"\s*".join(re.escape(char) for char in command if not char.isspace()))

        def output(text: str) -> str | None:
            echoed = echo.search(text)
            prompt = _PROMPT.search(text)
            if echoed is None or prompt is None or prompt.start() < echoed.end():
                return None
            return text[echoed.end() : prompt.start()]

        deadline = time.monotonic() + timeout_s
        self._wait_for(lambda text: output(text) is not None, deadline, timeout_s)
        lines = (output(self._text) or "").splitlines()
        return "\n".join(line.rstrip() for line in lines if line.strip())

    def quit(self) -> None:
        """Ask Renode to quit; the caller watches its process."""
        with contextlib.suppress(DeviceError):
            self._send("quit")

    def close(self) -> None:
        """Close the connection to Renode's monitor."""
        self._socket.close()

    def _send(self, command: str) -> None:
        try:
            self._socket.sendall(command.encode() + b"\n")
        except OSError as error:
            raise self._lost(str(error)) from None

    def _wait_for(self, arrived: Callable[[str], bool], deadline: float, timeout_s: float) -> None:
        while not arrived(self._text):
            if time.monotonic() >= deadline:
                shown = self._text.strip().splitlines()
                last = f"; its last output is {shown[-1]!r}" if shown else ""
                raise _silence(f"does not answer{last}", timeout_s)
            self._receive(_LOOK_S)

    def _receive(self, timeout_s: float) -> bool:
        """Return whether data arrived within ``timeout_s``."""
        self._alive()
        try:
            if not is_readable(self._socket, timeout_s):
                return False
            received = self._socket.recv(1 << 16)
        except OSError as error:
            raise self._lost(str(error)) from None
        if not received:
            raise self._lost("Renode closed the connection")
        self._text += self._telnet.feed(received).decode("utf-8", "replace")
        # A code may be split between two pieces, so the whole text is cleaned.
        self._text = _ESCAPE.sub("", self._text)
        return True

    def _lost(self, reason: str) -> DeviceError:
        """Return the error of a failed connection; raise the process's error if it has ended."""
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            self._alive()
            time.sleep(_LOOK_S)
        return EmulatorError(f"the connection to Renode's monitor failed: {reason}", "run it again")


def _silence(what: str, timeout_s: float) -> DeviceError:
    return EmulatorError(
        f"Renode's monitor {what} (waited {timeout_s:g} s)",
        "repeat it on an idle machine, or start `renode` by hand to check that it works",
    )
