"""A board behind TCP: firmware over HTTP, one client on its line, power, failures."""

from __future__ import annotations

import http.client
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from waiting import until

from hil.board import load_board
from hil.build import build
from hil.errors import InputError, LinkError
from hil.lab.board_server import _GREETING_ERROR, BoardServer
from hil.link.client import Client
from hil.link.codec import Frame, encode
from hil.link.line import GREETING, Link
from hil.link.protocol import REQUESTS, VERSION, Command, Kind


@pytest.fixture(scope="module")
def elf() -> Path:
    return build([], load_board("native")).elf


@pytest.fixture
def server() -> Iterator[BoardServer]:
    server = BoardServer(load_board("native"))
    try:
        yield server
    finally:
        server.close()


def ask(server: BoardServer, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
    url = f"http://127.0.0.1:{server.control_port}{path}"
    request = urllib.request.Request(url, data=body, method=method)
    request.add_header("X-Hil-User", "ada")
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            data = response.read()
            return response.status, json.loads(data)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/reset"), ("PUT", "/firmware"), ("GET", "/status")]
)
def test_pages_in_a_browser_are_refused(method: str, path: str, server: BoardServer) -> None:
    """By name resolution any page can reach a server on the loopback; browsers send its origin."""
    url = f"http://127.0.0.1:{server.control_port}{path}"
    headers = {"Origin": "http://rebound.example"}
    request = urllib.request.Request(url, b"\x7fELF", headers, method=method)
    with pytest.raises(urllib.error.HTTPError, match="403") as caught:
        urllib.request.urlopen(request, timeout=120)
    with caught.value as error:
        assert "not pages in a browser" in json.load(error)["error"]["message"]
    assert server.status()["starts"] == 0


#: What a page's script can add to a request is not among these.
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "null"},
        {"Referer": "http://page.example/"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Host": "rebound.example:8080"},
        {"Host": "localhost.rebound.example"},
        {"Host": ""},
        {"Host": "[::1"},
        {"Host": "rebound.example@127.0.0.1"},
        {"Host": "127.0.0.1/rebound.example"},
        {"Host": "127.0.0.1:1:2"},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/reset"), ("PUT", "/firmware"), ("PUT", "/power/0"), ("GET", "/status")],
)
def test_requests_of_pages_are_refused(
    method: str, path: str, headers: dict[str, str], server: BoardServer
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.control_port, timeout=20)
    with closing(connection):
        connection.request(method, path, b"\x7fELF", headers)
        assert connection.getresponse().status == 403
    assert server.status()["starts"] == 0


@pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost", "[::1]:80", socket.gethostname()])
def test_names_of_this_machine_are_answered(host: str, server: BoardServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.control_port, timeout=20)
    with closing(connection):
        connection.request("GET", "/status", headers={"Host": host})
        assert connection.getresponse().status == 200


def raw(server: BoardServer, request: bytes) -> bytes:
    """Send a request that no client library sends, and no more; return the answer."""
    with socket.create_connection(("127.0.0.1", server.control_port), 20) as client:
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            return b"".join(iter(lambda: client.recv(4096), b""))
    return b""


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        pytest.param(
            b"Host: 127.0.0.1\r\nHost: rebound.example\r\nContent-Length: 1", 400, id="two hosts"
        ),
        pytest.param(b"X: a\r\nContent-Length: 1", 403, id="no host"),
        pytest.param(
            b"Host: 127.0.0.1\r\nX: a\r\n Origin: http://p.example\r\nContent-Length: 1",
            400,
            id="folded",
        ),
        pytest.param(
            b"Host: 127.0.0.1\r\nOrigin : http://p.example\r\nContent-Length: 1", 400, id="space"
        ),
        pytest.param(
            b"Host: 127.0.0.1\r\njunk\r\nOrigin: http://p.example\r\nContent-Length: 1",
            400,
            id="junk",
        ),
        pytest.param(b"Host: 127.0.0.1\r\nTransfer-Encoding: chunked", 400, id="chunked"),
        pytest.param(
            b"Host: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 0", 400, id="two lengths"
        ),
        pytest.param(b"Host: 127.0.0.1\r\nContent-Length: " + b"9" * 5000, 400, id="long length"),
        pytest.param(b"Host: 127.0.0.1\r\nContent-Length: -1", 400, id="negative length"),
        pytest.param("Host: 127.0.0.1\r\nContent-Length: ٣".encode(), 400, id="other digits"),
    ],
)
def test_ambiguous_headers_are_refused(headers: bytes, code: int, server: BoardServer) -> None:
    answer = raw(server, b"PUT /power/0 HTTP/1.1\r\n" + headers + b"\r\n\r\n0")
    assert answer.split(b" ", 2)[1:2] == [b"%d" % code]
    assert server.powered


def test_an_upload_that_breaks_off_changes_nothing(server: BoardServer, elf: Path) -> None:
    data = elf.read_bytes()
    ask(server, "PUT", "/firmware", data)
    before = server.status()
    length = b"Content-Length: %d\r\n\r\n" % len(data)
    answer = raw(server, b"PUT /firmware HTTP/1.1\r\nHost: localhost\r\n" + length + data[:-4096])
    assert b" 400 " in answer.splitlines()[0]
    assert f"{len(data) - 4096} of {len(data)} bytes".encode() in answer
    assert server.status() == before
    link = line(server)
    assert Client(link).echo(b"still here") == b"still here"
    link.close()


def line(server: BoardServer) -> Link:
    return Link(f"board://127.0.0.1:{server.line_port}")


def test_a_firmware_is_started_and_answers(server: BoardServer, elf: Path) -> None:
    code, done = ask(server, "PUT", "/firmware", elf.read_bytes())
    assert (code, done["programmed"], done["nbytes"]) == (200, True, elf.stat().st_size)
    link = line(server)
    assert Client(link).echo(b"over the net") == b"over the net"
    link.close()
    until(lambda: not server.status()["in_use"])
    assert [use.user for use in server.uses] == ["ada"]
    # The same image again: a fresh start, but nothing new on the board.
    assert ask(server, "PUT", "/firmware", elf.read_bytes())[1]["programmed"] is False
    assert ask(server, "GET", "/status")[1]["starts"] == 2


def test_the_line_has_one_client(server: BoardServer, elf: Path) -> None:
    ask(server, "PUT", "/firmware", elf.read_bytes())
    first = line(server)
    client = Client(first)
    second = line(server)
    with pytest.raises(LinkError):
        Client(second)
    second.close()
    assert client.echo(b"mine") == b"mine"
    assert server.status()["refused_clients"] == 1
    code, answer = ask(server, "PUT", "/firmware", elf.read_bytes())
    assert (code, answer["error"]["kind"]) == (409, "BusyError")
    assert "native is in use by ada" in answer["error"]["message"]
    assert client.echo(b"still mine") == b"still mine"
    first.close()
    until(lambda: not server.status()["in_use"])
    assert ask(server, "PUT", "/firmware", elf.read_bytes())[0] == 200


def test_a_reset_keeps_the_client(server: BoardServer, elf: Path) -> None:
    assert ask(server, "POST", "/reset") == (
        400,
        {
            "error": {
                "kind": "InputError",
                "message": "native has no firmware",
                "hint": "PUT /firmware first",
            }
        },
    )
    ask(server, "PUT", "/firmware", elf.read_bytes())
    link = line(server)
    Client(link)
    assert ask(server, "POST", "/reset")[0] == 200
    assert Client(link).echo(b"again") == b"again"
    link.close()


def test_power(server: BoardServer, elf: Path) -> None:
    ask(server, "PUT", "/firmware", elf.read_bytes())
    link = line(server)
    Client(link)
    assert ask(server, "PUT", "/power/0", b"0")[0] == 200
    assert ask(server, "GET", "/power/0") == (200, 0)
    with pytest.raises(LinkError):
        link.receive(2.0)
    link.close()
    code, answer = ask(server, "PUT", "/firmware", elf.read_bytes())
    assert (code, answer["error"]["message"]) == (502, "native is switched off")
    ask(server, "PUT", "/power/0", b"1")
    link = line(server)
    assert Client(link).echo(b"on") == b"on"
    link.close()
    assert ask(server, "PUT", "/power/0", b"2")[0] == 400


def test_a_firmware_that_ends_is_told_and_started_anew(server: BoardServer, elf: Path) -> None:
    # Boards of a lab that other tests of this process use run as well.
    before = set(psutil.Process().children(recursive=True))
    ask(server, "PUT", "/firmware", elf.read_bytes())
    link = line(server)
    Client(link)
    children = set(psutil.Process().children(recursive=True)) - before
    (process,) = [child for child in children if "firmware.elf" in " ".join(child.cmdline())]
    process.kill()
    with pytest.raises(LinkError, match="closed the connection"):
        link.receive(5.0)
    link.close()
    until(lambda: "SIGKILL" in server.status()["failure"])
    assert ask(server, "PUT", "/firmware", elf.read_bytes())[0] == 200
    assert server.status()["failure"] == ""


def test_a_board_behind_a_probe_is_programmed() -> None:
    board = load_board("microbit")
    server = BoardServer(board, runner="pyocd", probe="virtual")
    try:
        image = build([], board).elf
        code, done = ask(server, "PUT", "/firmware", image.read_bytes())
        assert (code, done["programmed"]) == (200, True)
        link = line(server)
        assert Client(link).echo(b"through the probe") == b"through the probe"
        link.close()
    finally:
        server.close()


def test_a_program_of_others_is_not_run_here() -> None:
    with pytest.raises(InputError, match="native is this machine"):
        BoardServer(load_board("native"), host="0.0.0.0")


def test_what_is_no_firmware(server: BoardServer) -> None:
    code, answer = ask(server, "PUT", "/firmware", b"not an ELF file")
    assert (code, answer["error"]["kind"]) == (502, "EmulatorError")
    assert ask(server, "GET", "/nothing")[0] == 404
    with socket.create_connection(("127.0.0.1", server.line_port)) as client:
        assert client.recv(1) == b""  # there is nobody to talk to


#: A request that a board executes: HELLO.
_HELLO = encode(
    Frame(
        1,
        1,
        Kind.REQUEST,
        Command.HELLO,
        REQUESTS[Command.HELLO].build({"version": VERSION, "frame_max": 256}),
    )
)


def test_a_page_does_not_reach_the_line(server: BoardServer, elf: Path) -> None:
    """A page's form sends a board's commands, and the greeting, in the body of its request."""
    ask(server, "PUT", "/firmware", elf.read_bytes())

    def asked() -> None:
        # The server may have closed the connection before the body is sent.
        connection = http.client.HTTPConnection("127.0.0.1", server.line_port, timeout=20)
        with closing(connection):
            connection.request("POST", "/", _HELLO + GREETING + _HELLO)
            connection.getresponse()

    with pytest.raises((http.client.BadStatusLine, ConnectionError)) as caught:
        asked()
    assert "native" not in str(caught.value), "the board has answered"
    assert not server.status()["in_use"]
    assert not server.uses


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(b"\x16\x03\x01\x02\x00\x01", id="TLS"),
        pytest.param(b"\x00\x14\x00\x01\x00\x00\x21\x12\xa4\x42", id="WebRTC over TCP"),
        pytest.param(b"hil-line / HTTP/1.1\r\n\r\n", id="a method of a script's choice"),
        pytest.param(b"", id="a frame"),
    ],
)
def test_other_bytes_do_not_reach_the_line(start: bytes, server: BoardServer, elf: Path) -> None:
    ask(server, "PUT", "/firmware", elf.read_bytes())
    with (
        socket.create_connection(("127.0.0.1", server.line_port), 20) as client,
        suppress(ConnectionError),
    ):
        client.sendall(start + _HELLO + GREETING + _HELLO)
        assert b"".join(iter(lambda: client.recv(100), b"")) in (_GREETING_ERROR, b"")
    assert not server.uses


def test_a_silent_connection_does_not_hold_the_line(
    server: BoardServer, elf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hil.lab.board_server._GREETING_S", 0.2)
    ask(server, "PUT", "/firmware", elf.read_bytes())
    with socket.create_connection(("127.0.0.1", server.line_port), 20) as silent:
        with closing(line(server)) as link:
            assert Client(link).echo(b"free") == b"free"
        assert silent.recv(1) == b"", "it was given up"


def test_an_idle_client_gives_way(
    server: BoardServer, elf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(server, "PUT", "/firmware", elf.read_bytes())
    with closing(line(server)) as idle:
        Client(idle)
        with closing(line(server)) as other, pytest.raises(LinkError):
            Client(other)
        monkeypatch.setattr("hil.lab.board_server._IDLE_LIMIT_S", 0.0)
        with closing(line(server)) as other:
            assert Client(other).echo(b"mine now") == b"mine now"
        assert ask(server, "PUT", "/firmware", elf.read_bytes())[0] == 200


def test_a_person_may_type_the_greeting(server: BoardServer, elf: Path) -> None:
    ask(server, "PUT", "/firmware", elf.read_bytes())
    with socket.create_connection(("127.0.0.1", server.line_port), 20) as console:
        for key in GREETING.replace(b"\n", b"\r"):
            console.sendall(bytes((key,)))
        until(lambda: server.status()["in_use"])


def test_nothing_is_left_when_it_is_closed(elf: Path) -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    server = BoardServer(load_board("native"))
    ask(server, "PUT", "/firmware", elf.read_bytes())
    server.close()
    left = [c for c in psutil.Process().children(recursive=True) if c.pid not in before]
    assert left == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.line_port), 1)
