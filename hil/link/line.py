"""Frames over a serial line: any pyserial URL, deadlines, statistics of skipped bytes."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from typing import Protocol
from urllib.parse import urlsplit

import serial

from hil.board.line import DEFAULT_LINE, LineSettings, steps
from hil.errors import HilError, InputError, LinkError, Remedy
from hil.link.codec import BadFrame, Decoder, Frame, encode
from hil.link.ports import USB, USB_PATH, is_by_usb, resolve, serial_ports
from hil.support.poll import Readable, is_readable, is_writable
from hil.support.unix_socket import require_local_sockets

#: Interval at which a wait checks the board's process. QEMU needs the check as well: after its
#: character device was full, it may poll the device again only when its main loop wakes up.
_LOOK_S = 0.01
_READ_BYTES = 65536
#: Pause between two looks for a port that is awaited.
_APPEAR_LOOK_S = 0.1
_WRITE_TIMEOUT_S = 5.0
#: Time for a process to end after its line closed: its exit status explains more than the line.
_END_GRACE_S = 1.0
#: USB adapters keep received bytes for up to 16 ms. A firmware that never stops printing is not
#: awaited.
_QUIET_S, _DISCARD_S = 0.05, 1.0


class Line(Protocol):
    """Bytes to and from a board; failures are OSErrors."""

    def read(self) -> bytes:
        """Return the available bytes, or the first to arrive within a few milliseconds."""

    def write(self, data: bytes) -> None:
        """Send ``data``; raise OSError if it cannot be sent in time."""

    def close(self) -> None:
        """Close the line."""


class _Port:
    """A line that pyserial opens."""

    def __init__(self, url: str, settings: LineSettings) -> None:
        self._serial = serial.serial_for_url(
            url,
            baudrate=settings.baud,
            rtscts=settings.flow == "rtscts",
            dsrdtr=settings.flow == "dsrdtr",
            xonxoff=settings.flow == "xonxoff",
            timeout=_LOOK_S,
            # pyserial does not support `exclusive` for RFC 2217.
            write_timeout=None if url.startswith("rfc2217://") else _WRITE_TIMEOUT_S,
            do_not_open=True,
        )
        # Two programs on one line would each receive half of the other's answers.
        self._serial.exclusive = True
        # Before opening: a later change of level would reset some boards.
        if settings.dtr is not None:
            self._serial.dtr = settings.dtr
        if settings.rts is not None:
            self._serial.rts = settings.rts
        self._serial.open()
        self._is_path = "://" not in url

    def read(self) -> bytes:
        """Return the available bytes, or the first to arrive within ``_LOOK_S``."""
        descriptor = self._descriptor
        if descriptor is None:
            first: bytes = self._serial.read(1)
            waiting = self._serial.in_waiting if first else 0
            return first + (self._serial.read(waiting) if waiting else b"")
        if not is_readable(descriptor, _LOOK_S):
            return b""
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:  # another reader was faster
            return b""
        if not data:
            raise ConnectionResetError("the device is gone")
        return data

    def write(self, data: bytes) -> None:
        descriptor = self._descriptor
        if descriptor is None:
            self._serial.write(data)
            return
        rest = memoryview(data)
        deadline = time.monotonic() + _WRITE_TIMEOUT_S
        while rest:
            if not is_writable(descriptor, max(0.0, deadline - time.monotonic())):
                raise TimeoutError(f"the device took nothing for {_WRITE_TIMEOUT_S:g} s")
            with contextlib.suppress(BlockingIOError):
                rest = rest[os.write(descriptor, rest) :]

    @property
    def _descriptor(self) -> int | None:
        """The open terminal's; None for URLs, whose handlers may want to see every byte, and on
        systems where ports have none.

        pyserial's own reads and writes take no descriptor above 1023: one program could not use
        some hundreds of boards.
        """
        descriptor = getattr(self._serial, "fd", None) if self._is_path else None
        return descriptor if isinstance(descriptor, int) else None

    def drive(self, sequence: str) -> None:
        """Drive DTR and RTS by the steps of ``sequence``."""
        for letter, number in steps(sequence):
            match letter:
                case "D":
                    self._serial.dtr = bool(number)
                case "R":
                    self._serial.rts = bool(number)
                case "B":
                    self._serial.baudrate = int(number)
                case _:
                    time.sleep(number)

    def close(self) -> None:
        self._serial.close()


class _Socket:
    """A line over a socket, without pyserial.

    pyserial's handler cannot report the number of available bytes, leaves Nagle's algorithm on and
    sleeps for 0.3 s when it is closed. It has none for sockets with a path.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket.settimeout(_WRITE_TIMEOUT_S)
        self._readable = Readable(connection)

    def read(self) -> bytes:
        """Return the available bytes, or the first to arrive within ``_LOOK_S``."""
        if not self._readable.within(_LOOK_S):
            return b""
        data = self._socket.recv(_READ_BYTES)
        if not data:
            raise ConnectionResetError("the other side closed the connection")
        return data

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def close(self) -> None:
        self._socket.close()


def discard_received(line: Line) -> None:
    """Read away what was received until now; what follows is the firmware's that starts next."""
    end = time.monotonic() + _DISCARD_S
    quiet = time.monotonic() + _QUIET_S
    while time.monotonic() < min(quiet, end):
        if line.read():
            quiet = time.monotonic() + _QUIET_S


class Link:
    """An open line: ``line``, or the line at ``url``.

    ``alive`` raises if the process behind the line has ended.
    """

    def __init__(
        self,
        url: str,
        *,
        settings: LineSettings = DEFAULT_LINE,
        alive: Callable[[], None] = lambda: None,
        line: Line | None = None,
    ) -> None:
        self.url = url
        self._alive = alive
        self._decoder = Decoder()
        self._stopped = False
        #: Bytes received, and of those the bytes that were not part of a frame.
        self.received_bytes = 0
        self.skipped_bytes = 0
        self.bad_frames = 0
        try:
            self._line = line or open_line(url, settings)
        except (serial.SerialException, OSError, ValueError) as error:
            raise open_error(url, error) from None

    def send(self, frame: Frame) -> int:
        """Write the frame; return its number of bytes on the line."""
        self.require_open()
        data = encode(frame)
        try:
            self._line.write(data)
        except (serial.SerialException, OSError) as error:
            raise self._lost(error) from None
        return len(data)

    def receive(self, timeout_s: float) -> list[Frame]:
        """Return the next frames; empty if none was complete in time, or a damaged one ended.

        A board sends a frame in several pieces, which are no reason to look at the deadlines of
        requests.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            self.require_open()
            try:
                data = self._line.read()
            except (serial.SerialException, OSError) as error:
                raise self._lost(error) from None
            if data:
                self.received_bytes += len(data)
                if ended := self._decoder.feed(data):
                    return self._good(ended)
            else:
                self._alive()
            if time.monotonic() >= deadline:
                return []

    def _good(self, found: list[Frame | BadFrame]) -> list[Frame]:
        frames = []
        for item in found:
            if isinstance(item, Frame):
                frames.append(item)
            else:
                self.bad_frames += 1
                self.skipped_bytes += item.size
        return frames

    def require_open(self) -> None:
        """Raise :class:`InputError` if the link was closed."""
        if self._stopped:
            raise InputError(
                f"the device at {self.url} is closed",
                "use it inside of its `with` block, or open it again",
            )

    def _lost(self, error: Exception) -> LinkError:
        """Return the error of a failed line; raise the process's error if it has ended."""

        def look() -> None:
            self.require_open()
            self._alive()

        raise_if_ending(look)
        return LinkError(
            f"the link to {self.url} failed: {error}",
            "check the cable, and close other programs that use the port",
            remedy=Remedy.RESET,
        )

    def stop(self) -> None:
        """End every wait for the line, in other threads too; only :meth:`close` may follow."""
        self._stopped = True

    def close(self) -> None:
        """End every wait for the line and close it."""
        self.stop()
        self._line.close()


def raise_if_ending(alive: Callable[[], None]) -> None:
    """Return after a moment; raise if the process that ``alive`` watches has ended by then."""
    end = time.monotonic() + _END_GRACE_S
    while time.monotonic() < end:
        alive()
        time.sleep(_LOOK_S)


def open_line(url: str, settings: LineSettings = DEFAULT_LINE) -> Line:
    """Return the line at a URL of ours (:data:`_SOCKETS`), at ``usb:SERIAL[:INTERFACE]``, or at a
    URL of pyserial's; failures are OSErrors and ValueErrors, and :class:`LinkError` if no port or
    several have that name.

    A socket carries bytes only: the program that serves it chose the settings of the port.
    """
    opened = _SOCKETS.get(url.partition("://")[0])
    return _Port(resolve(url), settings) if opened is None else _Socket(opened(url))


def drive_line(url: str, settings: LineSettings, sequence: str) -> None:
    """Open the port at ``url``, drive its outputs DTR and RTS by ``sequence`` and close it.

    Raise :class:`LinkError` if it cannot be opened or has no such outputs.
    """
    try:
        port = open_line(url, settings)
    except (serial.SerialException, OSError, ValueError) as error:
        raise open_error(url, error) from None
    with contextlib.closing(port):
        if not isinstance(port, _Port):
            raise InputError(
                f"{url} carries bytes only, so that a board behind it cannot be reset by DTR and "
                "RTS",
                "serve the port by RFC 2217 (rfc2217://HOST:PORT), or connect it to this machine",
            )
        try:
            port.drive(sequence)
        except (serial.SerialException, OSError) as error:
            raise LinkError(
                f"the port {url} cannot drive DTR and RTS: {error}",
                "use a port with these outputs; a pseudo-terminal has none",
            ) from None


def _tcp(url: str) -> socket.socket:
    """Connect to ``SCHEME://HOST:PORT``."""
    parts = urlsplit(url)
    if not parts.hostname or parts.port is None:
        raise ValueError(f"write {parts.scheme}://HOST:PORT")
    connection = socket.create_connection((parts.hostname, parts.port), _WRITE_TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _unix(url: str) -> socket.socket:
    """Connect to ``unix://PATH``."""
    require_local_sockets(url)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(url.partition("://")[2])
    except BaseException:
        connection.close()
        raise
    return connection


def _served(url: str) -> socket.socket:
    """Connect to ``board://HOST:PORT``, the line of a board server."""
    connection = _tcp(url)
    try:
        connection.sendall(GREETING)
    except BaseException:
        connection.close()
        raise
    return connection


#: First bytes on the line of a board server. No browser can begin a connection with them: HTTP has
#: a method and a space there, TLS and WebRTC have binary data.
GREETING = b"hil-line\n"
_SOCKETS: Mapping[str, Callable[[str], socket.socket]] = {
    "socket": _tcp,
    "unix": _unix,
    "board": _served,
}


def open_error(url: str, error: Exception) -> HilError:
    """Return the error for a ``url`` that cannot be opened, from pyserial's exception."""
    # pyserial's handlers report options that they do not know as a failure to open.
    if isinstance(error, ValueError) or _BAD_FORM in str(error):
        return _no_url(url, str(error))
    number = getattr(error, "errno", None)
    if number is None and error.__context__ is not None and error.__context__.args:
        number = error.__context__.args[0]  # pyserial replaces termios's error number by text
    port = device_of(url)
    if number in (errno.EAGAIN, errno.EWOULDBLOCK, errno.EBUSY):
        return LinkError(f"{port} is in use by another program", "close it, or give another port")
    if number in (errno.EACCES, errno.EPERM):
        return LinkError(
            f"no permission to open {port}",
            "join the group that owns it (often: sudo usermod -aG dialout $USER) and log in again",
        )
    if number == errno.ECONNREFUSED:
        hint = "start the program that serves the port"
        return LinkError(f"nothing listens at {port}", hint, is_lost=True)
    if number == errno.ENOENT:
        return _no_port(port)
    if number in (errno.ENOTTY, errno.EISDIR, errno.EINVAL):
        return _not_serial(port)
    return LinkError(f"cannot open {url}: {error}", "check the URL and that the board is connected")


#: Windows' names of serial ports.
_OF_WINDOWS = re.compile(r"COM[0-9]{1,3}", re.IGNORECASE)


def check_port(url: str) -> None:
    """Raise if the device is missing or the URL has no valid form."""
    if is_by_usb(url):
        resolve(url)
        return
    scheme, separator, _ = url.lower().partition("://")
    if scheme in _SOCKETS and separator:
        return
    if separator and not (scheme.isidentifier() and any(_has_handler(scheme))):
        raise _no_url(url, f"pyserial knows no {scheme}://")
    device = device_of(url)
    if "://" in device:
        if scheme in _WRAPPERS:
            raise _no_url(url, f"{scheme}:// wraps a device, not a URL")
    elif _OF_WINDOWS.fullmatch(device):
        # No file has the name of such a port, so that the system's list decides.
        if not any(device.upper() == port.device.upper() for port in serial_ports()):
            raise _no_port(device)
    elif not os.path.exists(device):
        raise _no_port(device)
    elif not _is_serial(device):
        raise _not_serial(device)


def _is_serial(device: str) -> bool:
    """Return whether a file is a serial port or a terminal; it is not opened, which would reset
    some boards.
    """
    found = os.stat(device)
    if not stat.S_ISCHR(found.st_mode):
        return False
    major, minor = os.major(found.st_rdev), os.minor(found.st_rdev)
    kind = f"/sys/dev/char/{major}:{minor}/subsystem"
    # A pseudo-terminal has no entry there; without sysfs, opening it tells.
    return not os.path.exists(kind) or os.path.basename(os.path.realpath(kind)) == "tty"


def _not_serial(port: str) -> LinkError:
    return LinkError(f"{port} is not a serial port", "`hil doctor` lists the ports")


def await_port(url: str, wait_s: float) -> None:
    """Wait up to ``wait_s`` for a port that is missing; raise as :func:`check_port` afterwards."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            check_port(url)
            return
        except LinkError as error:
            if not error.is_lost or time.monotonic() >= deadline:
                raise
        time.sleep(_APPEAR_LOOK_S)


#: How pyserial's messages of malformed URLs begin.
_BAD_FORM = "expected a string in the form"
#: pyserial's URLs around the path of a device: what a line carries is logged, or read another way.
_WRAPPERS = ("spy", "alt")


def device_of(url: str) -> str:
    """Return the path of the device that a URL wraps, or ``url`` itself."""
    scheme, _, rest = url.partition("://")
    return rest.partition("?")[0] if scheme.lower() in _WRAPPERS else url


def _has_handler(scheme: str) -> Iterator[bool]:
    """Yield for each of pyserial's handler packages whether it opens URLs of this scheme."""
    for package in serial.protocol_handler_packages:
        yield find_spec(f".protocol_{scheme}", package) is not None


def _no_url(url: str, why: str) -> InputError:
    return InputError(
        f"{url} is not a serial port: {why}; the forms are /dev/NAME, COM3 (Windows), "
        f"{USB}SERIAL[:INTERFACE], {USB_PATH}PATH[:INTERFACE], "
        "socket://HOST:PORT, unix://PATH, board://HOST:PORT (of a lab), rfc2217://HOST:PORT and "
        "pyserial's others",
        "`hil doctor` lists the ports",
    )


def _no_port(url: str) -> LinkError:
    hint = "connect the board; `hil doctor` lists the ports"
    return LinkError(f"there is no port {url or repr(url)}", hint, is_lost=True)
