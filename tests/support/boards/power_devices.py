"""Stand-ins for power switches, written from their makers' documents.

Shelly: https://shelly-api-docs.shelly.cloud/gen1 (``/shelly``, ``/relay/N``) and ``/gen2``
(``/shelly``, ``Switch.Set``, ``Switch.GetStatus``). Tasmota: "Commands" (``/cm?cmnd=``) of its
documentation. uhubctl: the output in its README.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

#: Status and content of an answer: an object for JSON, or text.
Answer = tuple[int, Any]


class Device:
    """A switched socket: its outputs, the requests that came, and what it answers."""

    #: Whether it does what it is asked for.
    works = True

    def __init__(self) -> None:
        self.outputs = {0: True, 1: True}
        self.requests: list[str] = []
        self.hosts: list[str] = []

    def answer(self, path: str, query: dict[str, str]) -> Answer:
        """The answer to a request."""
        raise NotImplementedError

    def turn(self, output: int, on: bool) -> None:
        """Switch an output, if it works."""
        if self.works:
            self.outputs[output] = on


class ShellyGen1(Device):
    """``GET /relay/N?turn=on``."""

    def answer(self, path: str, query: dict[str, str]) -> Answer:
        if path == "/shelly":
            return 200, {"type": "SHSW-25", "mac": "5ECF7F1632E8", "auth": False, "fw": "v1.14.0"}
        output = int(path.removeprefix("/relay/"))
        if output not in self.outputs:
            return 404, "Not Found"
        self.turn(output, query["turn"] == "on")
        return 200, {"ison": self.outputs[output], "has_timer": False, "overpower": False}


class ShellyGen2(Device):
    """``GET /rpc/Switch.Set?id=N&on=true``."""

    def answer(self, path: str, query: dict[str, str]) -> Answer:
        if path == "/shelly":
            return 200, {
                "id": "shellyplus1-a8032abe54dc",
                "gen": 2,
                "app": "Plus1",
                "auth_en": False,
            }
        output = int(query["id"])
        if output not in self.outputs:
            text = f"Argument 'id', value {output} not found!"
            return 404, {"code": -105, "message": text}
        was_on = self.outputs[output]
        if path == "/rpc/Switch.Set":
            self.turn(output, query["on"] == "true")
            return 200, {"was_on": was_on}
        assert path == "/rpc/Switch.GetStatus"
        return 200, {"id": output, "source": "http", "output": was_on}


class Tasmota(Device):
    """``GET /cm?cmnd=Power1%20On``; outputs are numbered from 1."""

    def answer(self, path: str, query: dict[str, str]) -> Answer:
        assert path == "/cm"
        name, word = query["cmnd"].split()
        output = int(name.removeprefix("Power")) - 1
        if output not in self.outputs:
            return 200, {"Command": "Unknown"}
        self.turn(output, word == "On")
        key = "POWER" if len(self.outputs) == 1 else f"POWER{output + 1}"
        return 200, {key: "ON" if self.outputs[output] else "OFF"}


class Says(Device):
    """Another server: the same answer to each request."""

    def __init__(self, status: int, content: Any) -> None:
        super().__init__()
        self._answer = status, content

    def answer(self, path: str, query: dict[str, str]) -> Answer:
        return self._answer


def _handler(device: Device) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            split = urlsplit(self.path)
            device.requests.append(self.path)
            device.hosts.append(self.headers["Host"])
            query = {key: values[0] for key, values in parse_qs(split.query).items()}
            status, content = device.answer(split.path, query)
            body = (content if isinstance(content, str) else json.dumps(content)).encode()
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", content)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the requests are stored."""

    return Handler


@contextmanager
def served(device: Device) -> Iterator[str]:
    """Serve a device on loopback; yield its host and port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(device))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def raw_server(serve: Callable[[Any, threading.Event], None]) -> Iterator[str]:
    """Serve one client on loopback by ``serve(connection, end)``; yield host and port."""
    import socket

    end = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def run() -> None:
            connection, _ = server.accept()
            with connection:
                try:
                    serve(connection, end)
                except OSError:
                    return

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            end.set()
            thread.join()


#: One hub at 1-1 with 4 ports, whose state is in a file beside the program.
_UHUBCTL = """#!{python}
import pathlib, sys
words = sys.argv[1:]
options = dict(zip(words[::2], words[1::2]))
here = pathlib.Path(__file__).parent
with open(here / "calls", "a") as calls:
    print(*words, file=calls)
if options["-l"] != "1-1":
    print(f"No compatible devices detected at location {{options['-l']}}!", file=sys.stderr)
    print("Run with -h to get usage info.", file=sys.stderr)
    sys.exit(1)
port, state = int(options["-p"]), here / "state"
hub = "1-1 [2109:2812 VIA Labs, Inc. USB2.0 Hub, USB 2.10, 4 ports, ppps]"
def show():
    if port <= 4:
        print(f"  Port {{port}}: " + ("0100 power" if state.read_text() == "on" else "0000 off"))
print(f"Current status for hub {{hub}}")
show()
if {works}:
    state.write_text(options["-a"])
print(f"Sent power {{options['-a']}} request")
print(f"New status for hub {{hub}}")
show()
"""


def write_uhubctl(folder: Path, *, works: bool = True) -> Path:
    """Write a stand-in for uhubctl; return its folder, with ``calls`` and the port's ``state``."""
    folder.mkdir()
    (folder / "state").write_text("on")
    path = folder / "uhubctl"
    path.write_text(_UHUBCTL.format(python=sys.executable, works=works))
    path.chmod(0o755)
    return folder
