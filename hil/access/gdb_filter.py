"""A filter between gdb and a gdb server: it passes the packets of gdb's remote protocol, and of
the monitor's commands those alone that are known to be harmless.

The monitors behind gdb servers can do more than debug: QEMU's starts programs (``migrate "exec:
..."``), a flasher's as well (``! COMMAND``), and it runs Python. A connection whose bytes are no
packets, such as the request of a web page, is closed at the first wrong byte.

The protocol is that of gdb's manual, appendix E (Remote Serial Protocol).
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Final

from hil.support.poll import is_readable

_LOG = logging.getLogger("hil.runner")
#: More than gdb puts into a packet; the servers accept 2 and 4 KiB.
_PACKET_BYTES: Final = 1 << 17
_READ_BYTES: Final = 1 << 16
_POLL_S: Final = 0.2

_ACKNOWLEDGE, _REPEAT, _INTERRUPT = b"+-\x03"
_START, _END, _ESCAPE, _RUN_LENGTH = b"$#}*"
_MONITOR: Final = b"qRcmd,"


class NotGdb(Exception):
    """The bytes are not of gdb's protocol."""


class PacketFilter:
    """Takes the bytes of a client; returns what the server gets, and what the client gets."""

    def __init__(self, commands: Collection[str]) -> None:
        """Create it; ``commands`` are the accepted commands of the server's monitor."""
        self._commands = frozenset(commands)
        self._pending = b""

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the bytes for the server and the answers to the client; raise NotGdb."""
        forwarded, answers = bytearray(), bytearray()
        self._pending += data
        while self._pending:
            first = self._pending[0]
            if first in (_ACKNOWLEDGE, _REPEAT, _INTERRUPT):
                forwarded.append(first)
                self._pending = self._pending[1:]
                continue
            if first != _START:
                raise NotGdb(f"byte {first:#04x} where a packet begins")
            end = self._pending.find(_END)
            if end < 0 or end + 3 > len(self._pending):
                if len(self._pending) > _PACKET_BYTES:
                    raise NotGdb("a packet without an end")
                break
            packet, self._pending = self._pending[: end + 3], self._pending[end + 3 :]
            content = _content(packet)
            answer = self._refusal(content)
            if answer is None:
                forwarded += _packet(content)
            else:
                answers += answer
        return bytes(forwarded), bytes(answers)

    def _refusal(self, content: bytes) -> bytes | None:
        """Return the answer to a command of the monitor that is not accepted, else None."""
        if not content.startswith(_MONITOR):
            return None
        try:
            command = bytes.fromhex(content[len(_MONITOR) :].decode("ascii")).decode("ascii")
        except ValueError:
            raise NotGdb("a command that is not in hexadecimal digits") from None
        if " ".join(command.split()) in self._commands:
            return None
        _LOG.warning("gdb's monitor command %r was refused", command)
        known = ", ".join(sorted(self._commands)) or "none"
        text = f"hil does not pass on this monitor command; accepted: {known}\n"
        # Output for gdb's console, then an error, so that a script does not go on.
        return b"+" + _packet(b"O" + text.encode().hex().encode()) + _packet(b"E01")


def _content(packet: bytes) -> bytes:
    """Return the content of a packet ``$...#xx`` without escapes."""
    raw, digits = packet[1:-3], packet[-2:]
    if _START in raw or _RUN_LENGTH in raw:
        raise NotGdb("a character that gdb escapes")
    try:
        given = int(digits.decode("ascii"), 16)
    except ValueError:
        raise NotGdb("a checksum that is not in hexadecimal digits") from None
    if given != sum(raw) & 0xFF:
        raise NotGdb("a wrong checksum")
    content, rest = bytearray(), iter(raw)
    for byte in rest:
        content.append((next(rest, 0) ^ 0x20) if byte == _ESCAPE else byte)
    return bytes(content)


def _packet(content: bytes) -> bytes:
    """Return the one packet with this content: servers differ in how they read other forms."""
    escaped = bytearray()
    for byte in content:
        if byte in (_START, _END, _ESCAPE, _RUN_LENGTH):
            escaped += bytes((_ESCAPE, byte ^ 0x20))
        else:
            escaped.append(byte)
    return b"$%s#%02x" % (escaped, sum(escaped) & 0xFF)


class GdbFilter:
    """Serves gdb on ``listener`` from the server at ``upstream``, until :meth:`close`."""

    def __init__(self, listener: socket.socket, upstream: Path, commands: Collection[str]) -> None:
        self._listener = listener
        self._upstream = upstream
        self._commands = commands
        self._closing = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        """End all connections."""
        self._closing.set()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while not self._closing.is_set():
            if not is_readable(self._listener, _POLL_S):
                continue
            try:
                client, _ = self._listener.accept()
            except OSError:
                continue
            thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
            self._threads = [t for t in self._threads if t.is_alive()] + [thread]
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError, NotGdb):
            packets = PacketFilter(self._commands)
            # A stranger does not reach the server, not even by connecting, which stops a machine.
            first = self._first(client, packets)
            if first is None:
                return
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
                server.connect(str(self._upstream))
                server.sendall(first)
                back = threading.Thread(target=self._answer, args=(server, client), daemon=True)
                back.start()
                try:
                    self._ask(client, server, packets)
                finally:
                    for end in (client, server):
                        with contextlib.suppress(OSError):
                            end.shutdown(socket.SHUT_RDWR)
                    back.join()

    def _first(self, client: socket.socket, packets: PacketFilter) -> bytes | None:
        """Return the first bytes for the server; None if the client leaves without any."""
        while (data := self._received(client)) is not None:
            forwarded, answers = packets.feed(data)
            client.sendall(answers)
            if forwarded:
                return forwarded
        return None

    def _ask(self, client: socket.socket, server: socket.socket, packets: PacketFilter) -> None:
        while (data := self._received(client)) is not None:
            forwarded, answers = packets.feed(data)
            server.sendall(forwarded)
            client.sendall(answers)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while (data := self._received(server)) is not None:
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)

    def _received(self, source: socket.socket) -> bytes | None:
        """Return the next bytes; None at the end of the connection or of this filter."""
        while not self._closing.is_set():
            if is_readable(source, _POLL_S):
                return source.recv(_READ_BYTES) or None
        return None
