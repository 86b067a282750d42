"""``python -m hil.lab.board_server BOARD``: offer a board of this machine to a lab.

It opens two TCP ports: the board's raw serial line for one client at a time (labgrid exports it as
``NetworkSerialPort``), which begins with the line ``hil-line`` of the client, and HTTP for
control::

        PUT  /firmware   an ELF file: program and start it with the board's runner
        POST /reset      restart the same firmware
        GET  /status     board, firmware and user of the line, as JSON
        GET, PUT /power/0   "0" or "1", as labgrid's power driver ``rest`` reads and writes it

The server starts a QEMU machine for an emulated board. It programs a real board through the probe
that is connected to this machine (``--runner`` names its flasher), and keeps the probe that it
chose first.
Requests are not authenticated: bind it only to a network where labgrid itself may run.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import ipaddress
import json
import re
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from hil.access import Connection, Running, is_machine, pinned, runner_name, start
from hil.access.connection import Flashed
from hil.board import Board, load_board
from hil.errors import DeviceError, HilError, InputError
from hil.lab.errors import BusyError
from hil.lab.place import USER_HEADER
from hil.link.line import GREETING, Line, open_line
from hilc.support.temporary import TemporaryFolder

_ELF_MAX_BYTES = 64 << 20
_READ_BYTES = 65536
#: Longest time for a client to accept data before its connection is closed.
_WRITE_TIMEOUT_S = 5.0
#: Time to wait for the end of a client's last connection when the client connects again.
_HANDOVER_S = 1.0
#: Time for a new connection to send its first line, and the most connections that may be at that.
_GREETING_S = 10.0
_GREETING_CLIENTS = 16
_GREETING_ERROR = b"the line of a board server begins with: hil-line\n"
#: A client that sends and gets nothing for so long gives the board up when another asks for it.
_IDLE_LIMIT_S = 300.0
#: Headers that browsers send and programs do not.
_BROWSER_HEADERS = ("Origin", "Referer", "Cookie", "Sec-Fetch-Site", "Sec-Fetch-Mode")
#: Time for a process to end after it closed the line.
_END_GRACE_S = 1.0
# A client whose machine lost power never closes its connection; TCP keepalive detects it within
# _IDLE_S + _PROBES * _INTERVAL_S seconds.
_IDLE_S, _INTERVAL_S, _PROBES = 5, 3, 3
_USES_KEPT = 10_000


#: Headers that say where a request ends or whose it is; a second one could say something else.
_ONCE = ("Host", "Content-Length", "Content-Type", USER_HEADER)
#: The header ``Host``: a name, an IPv4 address or an IPv6 address in brackets, and a port.
_HOST = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
_LENGTH = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Use:
    """One use of the line by a client; times are this machine's monotonic clock in seconds."""

    user: str
    begin: float
    end: float


@dataclass(frozen=True)
class _Image:
    elf: Path


class BoardServer:
    """One board, its firmware and its two ports; :meth:`close` ends everything."""

    def __init__(
        self,
        board: Board,
        *,
        host: str = "127.0.0.1",
        line_port: int = 0,
        control_port: int = 0,
        runner: str | None = None,
        probe: str | None = None,
        serial: str | None = None,
    ) -> None:
        self.board = board
        self._runner = runner
        self._connection = Connection(probe, serial)
        if self._runner_name == "native" and not host.startswith("127."):
            raise InputError(
                f"{board.name} is this machine and cannot run firmware of other machines",
                "serve it on 127.0.0.1, or serve an emulated board",
            )
        self._stack = contextlib.ExitStack()
        self._folder = Path(self._stack.enter_context(TemporaryFolder("served")))
        #: Held while the firmware changes.
        self._change = threading.Lock()
        self._firmware = contextlib.ExitStack()
        self._running: Running | None = None
        self._line: Line | None = None
        self._digest = ""
        self._powered = True
        self._failure = ""
        #: Held while the client changes.
        self._entry = threading.Condition()
        self._client: socket.socket | None = None
        self._user = ""
        self._since = 0.0
        #: When the client last sent or got bytes.
        self._active = 0.0
        self._greeting = threading.BoundedSemaphore(_GREETING_CLIENTS)
        #: Names of this machine in requests; a page can reach it by a name of the page's server.
        self.names = {host.lower(), socket.gethostname().lower(), "localhost"}
        #: The previous clients of the line.
        self.uses: deque[Use] = deque(maxlen=_USES_KEPT)
        self._starts = self._refused = 0
        self._closing = False
        with contextlib.ExitStack() as stack:
            self._listener = stack.enter_context(socket.create_server((host, line_port)))
            self._http = ThreadingHTTPServer((host, control_port), _handler(self))
            stack.pop_all()
        self.line_port = int(self._listener.getsockname()[1])
        self.control_port = int(self._http.server_address[1])
        self._http.daemon_threads = True
        for work in (self._accept, self._http.serve_forever):
            threading.Thread(target=work, daemon=True).start()

    def close(self) -> None:
        """Stop serving: close the listeners and the client's connection."""
        self._closing = True
        self._http.shutdown()
        self._http.server_close()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes up accept
        self._listener.close()
        self._drop_client()
        with self._change:
            self._stop()
        self._stack.close()

    # -- requests of the control port ------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return the server's state, for a lab's operator."""
        return {
            "board": self.board.name,
            "runner": self._runner_name,
            "emulated": self.is_emulated,
            "firmware": self._digest,
            "user": self._user,
            "in_use": self._client is not None,
            "powered": self._powered,
            "starts": self._starts,
            "refused_clients": self._refused,
            "failure": self._failure,
        }

    def flash(self, elf: bytes, user: str) -> Flashed:
        """Program and start ``elf``; raise :class:`BusyError` while a client uses the line."""
        begin = time.monotonic()
        with self._change:
            self._check_free()
            self._check_power()
            digest = hashlib.sha256(elf).hexdigest()
            is_new = digest != self._digest
            self._stop()
            self._digest = ""
            path = self._folder / "firmware.elf"
            path.write_bytes(elf)
            path.chmod(0o700)  # the native board executes the file
            self._user = user
            done = self._start()
            self._digest = digest
        return done or Flashed(is_new, len(elf), time.monotonic() - begin)

    def reset(self) -> None:
        """Restart the firmware; a client keeps the line.

        Raise :class:`InputError` if the board has no firmware yet.
        """
        with self._change:
            self._check_power()
            if not self._digest:
                raise InputError(f"{self.board.name} has no firmware", "PUT /firmware first")
            self._stop()
            self._start()

    @property
    def powered(self) -> bool:
        """Whether the board is switched on."""
        return self._powered

    def power(self, on: bool) -> None:
        """Switch the emulated board on or off; its RAM is lost when it is off.

        Raise :class:`InputError` for a real board.
        """
        if not self.is_emulated:
            raise InputError(
                f"{self.board.name} is a real board: this server cannot switch its power",
                "export its power switch as one of labgrid's resources",
            )
        with self._change:
            if on == self._powered:
                return
            self._powered = on
            if not on:
                self._stop()
                self._drop_client()
            elif self._digest:
                self._start()

    @property
    def _runner_name(self) -> str:
        return runner_name(self.board, self._runner, self._connection)

    @property
    def is_emulated(self) -> bool:
        """Whether an emulator or a process runs in place of a board."""
        return is_machine(self.board, self._runner_name, self._connection)

    def _check_free(self) -> None:
        self._drop_idle()
        if self._client is not None:
            raise BusyError(
                f"{self.board.name} is in use by {self._user or 'a client of its line'}",
                "wait until it is released",
            )

    def _check_power(self) -> None:
        if not self._powered:
            raise DeviceError(f"{self.board.name} is switched off", "switch its power on")

    # -- the firmware ------------------------------------------------------------------------------

    def _start(self) -> Flashed | None:
        flashed: list[Flashed] = []
        # The first start chooses the board that this server offers; later ones use no other.
        self._connection = pinned(self.board, self._runner, self._connection)
        connection = replace(self._connection, flashed=flashed.append)
        with contextlib.ExitStack() as stack:
            image = _Image(self._folder / "firmware.elf")
            running = stack.enter_context(start(self.board, image, self._runner, connection))
            line = running.line or open_line(running.url, self.board.line)
            stack.callback(line.close)
            ended = threading.Event()
            listen = threading.Thread(
                target=self._from_board, args=(running, line, ended), daemon=True
            )
            listen.start()
            # In reverse order: the thread ends first, then its line is closed, then the machine
            # ends.
            stack.callback(listen.join)
            stack.callback(ended.set)
            self._running, self._line, self._failure = running, line, ""
            self._starts += 1
            self._firmware = stack.pop_all()
        return flashed[0] if flashed else None

    def _stop(self) -> None:
        self._running, self._line = None, None
        firmware, self._firmware = self._firmware, contextlib.ExitStack()
        with contextlib.suppress(OSError):
            firmware.close()

    def _from_board(self, running: Running, line: Line, ended: threading.Event) -> None:
        """Forward the board's bytes to the client; drop them if there is no client."""
        try:
            while not ended.is_set():
                data = line.read()
                client = self._client
                if not data:
                    running.alive()
                elif client is not None:
                    self._active = time.monotonic()
                    try:
                        client.sendall(data)
                    except OSError:  # the client is gone or does not read
                        self._drop_client(client)
        except (HilError, OSError) as error:
            if not ended.is_set():
                self._failure = str(_explained(error, running))
                self._drop_client()

    # -- the line ----------------------------------------------------------------------------------

    def _accept(self) -> None:
        while not self._closing:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self._greeting.acquire(blocking=False):
                client.close()
                continue
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """Forward the bytes of a client that greets, if no other has the line."""
        try:
            greets = _greets(client)
        finally:
            self._greeting.release()
        if greets and self._admit(client):
            self._from_client(client)
        else:
            client.close()

    def _admit(self, client: socket.socket) -> bool:
        """Make ``client`` the one of the line; return whether it is."""
        with self._entry:
            self._drop_idle()
            self._entry.wait_for(lambda: self._client is None, _HANDOVER_S)
            if self._client is not None or self._line is None:
                # A second client would receive half of the first one's answers, and without
                # firmware there is no line.
                self._refused += self._client is not None
                return False
            _watch(client)
            self._client, self._since = client, time.monotonic()
            self._active = self._since
            return True

    def _drop_idle(self) -> None:
        """Close the connection of a client that has used the line for nothing for a long time."""
        with self._entry:
            if time.monotonic() - self._active > _IDLE_LIMIT_S:
                self._drop_client()

    def _from_client(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := _receive(client):
                self._active = time.monotonic()
                # During a reset the line is missing or fails: drop the bytes.
                if (line := self._line) is not None:
                    with contextlib.suppress(OSError):
                        line.write(data)
        self._drop_client(client)

    def _drop_client(self, client: socket.socket | None = None) -> None:
        """Close the connection of ``client``, or of any client if None."""
        with self._entry:
            if self._client is None or (client is not None and client is not self._client):
                return
            with contextlib.suppress(OSError):
                self._client.shutdown(socket.SHUT_RDWR)
            self._client.close()
            self.uses.append(Use(self._user, self._since, time.monotonic()))
            self._client, self._user = None, ""
            self._entry.notify_all()


def _explained(error: Exception, running: Running) -> Exception:
    """Return the process's error if its end made the line fail, else ``error``."""
    end = time.monotonic() + _END_GRACE_S
    try:
        while isinstance(error, OSError) and time.monotonic() < end:
            running.alive()
            time.sleep(0.01)
    except HilError as better:
        return better
    return error


def _greets(client: socket.socket) -> bool:
    """Return whether the first bytes of ``client`` are the greeting, or those of a person who types
    it on a console.
    """
    deadline = time.monotonic() + _GREETING_S
    said = b""
    with contextlib.suppress(OSError):
        while len(said) < len(GREETING):
            client.settimeout(max(deadline - time.monotonic(), 0.001))
            # Not beyond the greeting: what follows is for the board.
            data = client.recv(len(GREETING) - len(said))
            said += data.replace(b"\r", b"\n")
            if not data or not GREETING.startswith(said):
                client.sendall(_GREETING_ERROR)
                return False
        return True
    return False


def _receive(client: socket.socket) -> bytes:
    """Return the next bytes without a deadline; the socket's timeout applies to sending only."""
    while True:
        try:
            return client.recv(_READ_BYTES)
        except TimeoutError:
            continue


def _watch(client: socket.socket) -> None:
    """Enable TCP keepalive, so that a client that vanishes is detected."""
    client.settimeout(_WRITE_TIMEOUT_S)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _IDLE_S),
        ("TCP_KEEPINTVL", _INTERVAL_S),
        ("TCP_KEEPCNT", _PROBES),
        ("TCP_USER_TIMEOUT", (_IDLE_S + _INTERVAL_S * _PROBES) * 1000),
    ):
        if hasattr(socket, name):
            client.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _header_fault(headers: Message) -> str | None:
    """Return why the headers of a request can be understood in two ways; None if they cannot."""
    for name in _ONCE:
        if len(headers.get_all(name, [])) > 1:
            return f"the header {name} is given twice"
    if "Transfer-Encoding" in headers:
        return "the header Transfer-Encoding is not supported; send Content-Length"
    # A folded header (RFC 9112, 5.2) is the value of another one; what is malformed ends the
    # headers for the parser, so those behind it would be unseen.
    if any("\n" in value or "\r" in value for value in headers.values()):
        return "a header continues on a second line"
    if headers.defects or headers.get_payload():
        return "a header has no valid form"
    return None


def _handler(server: BoardServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 60

        def parse_request(self) -> bool:
            if not super().parse_request():
                return False
            if (fault := _header_fault(self.headers)) is not None:
                about = {"kind": "InputError", "message": fault, "hint": "send each header once"}
                self.close_connection = True
                self._answer(400, {"error": about})
                return False
            # A page in a browser may be anybody's. Some of its requests have none of these headers,
            # but then the browser keeps the answer from the page, unless the page's own name leads
            # here (DNS rebinding).
            if any(name in self.headers for name in _BROWSER_HEADERS) or not self._is_for_us():
                message = "a board server answers programs, not pages in a browser"
                hint = f"name the server by its address or as {', '.join(sorted(server.names))}"
                about = {"kind": "InputError", "message": message, "hint": hint}
                self._answer(403, {"error": about})
                return False
            return True

        def _is_for_us(self) -> bool:
            """Return whether the request names this machine, by one ``HOST`` or ``HOST:PORT``."""
            hosts = self.headers.get_all("Host", [])
            found = _HOST.fullmatch(hosts[0].strip(" \t")) if len(hosts) == 1 else None
            if found is None:
                return False
            host = found["host"].lower()
            with contextlib.suppress(ValueError):
                return bool(ipaddress.ip_address(host.strip("[]")))
            return host in server.names

        def do_GET(self) -> None:
            if self.path == "/status":
                self._answer(200, server.status())
            elif self.path == "/power/0":
                self._send(200, "text/plain", b"1" if server.powered else b"0")
            else:
                self._missing()

        def do_PUT(self) -> None:
            if self.path == "/firmware":
                with self._errors():
                    body = self._body(_ELF_MAX_BYTES)
                    done = server.flash(body, self.headers.get(USER_HEADER, ""))
                    self._answer(200, vars(done))
            elif self.path == "/power/0":
                with self._errors():
                    body = self._body(1)
                    if body not in (b"0", b"1"):
                        raise InputError(f"{body!r} is not a power state", "send 0 or 1")
                    server.power(body == b"1")
                    self._answer(200, {"powered": server.powered})
            else:
                self._missing()

        def do_POST(self) -> None:
            if self.path != "/reset":
                self._missing()
                return
            with self._errors():
                server.reset()
                self._answer(200, server.status())

        def _body(self, limit: int) -> bytes:
            length = self.headers.get("Content-Length", "")
            if not _LENGTH.fullmatch(length) or int(length) > limit:
                raise InputError(
                    f"Content-Length {length[:20]!r} is not a number up to {limit}",
                    "send the number of the body's bytes",
                )
            body = self.rfile.read(int(length))
            if len(body) != int(length):
                raise InputError(
                    f"the request ended after {len(body)} of {length} bytes", "send it again"
                )
            return body

        @contextlib.contextmanager
        def _errors(self) -> Iterator[None]:
            try:
                yield
            except HilError as error:
                code = 409 if isinstance(error, BusyError) else 502
                kind = type(error).__name__
                code = 400 if isinstance(error, InputError) else code
                about = {"kind": kind, "message": error.fact, "hint": error.hint}
                self._answer(code, {"error": about})

        def _missing(self) -> None:
            self._answer(404, {"error": {"kind": "InputError", "message": f"no {self.path} here"}})

        def _answer(self, code: int, data: dict[str, Any]) -> None:
            self._send(code, "application/json", json.dumps(data).encode())

        def _send(self, code: int, kind: str, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Do nothing: stdout and stderr are for the server's own messages."""

    return Handler


def _terminate(signum: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # do not interrupt the cleanup
    raise KeyboardInterrupt


def main() -> int:
    """Serve until interrupted; print the ports as one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m hil.lab.board_server")
    parser.add_argument("board", metavar="BOARD", help="a board of `hil boards`, or a .toml file")
    parser.add_argument("--host", default="127.0.0.1", help="address to bind (default: loopback)")
    parser.add_argument("--port", type=int, default=0, help="port of the line (default: any)")
    parser.add_argument("--control-port", type=int, default=0, help="HTTP port (default: any)")
    parser.add_argument("--runner", help="how to start the firmware (default: the board's first)")
    parser.add_argument("--probe", metavar="UID", help="the board's probe, or virtual")
    parser.add_argument("--serial", metavar="URL", help="the board's serial port on this machine")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, _terminate)
    try:
        server = BoardServer(
            load_board(args.board),
            host=args.host,
            line_port=args.port,
            control_port=args.control_port,
            runner=args.runner,
            probe=args.probe,
            serial=args.serial,
        )
    except (HilError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code if isinstance(error, HilError) else 2
    ports = {"line": server.line_port, "control": server.control_port}
    print(json.dumps({"board": server.board.name, **ports}), flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(3600)
    server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
