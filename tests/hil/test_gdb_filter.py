"""What reaches a gdb server through the filter: packets of gdb, and harmless commands."""

from __future__ import annotations

import http.client
import shlex
import socket
import subprocess
from contextlib import closing, suppress
from pathlib import Path

import pytest
from campaigns import cases
from tiny_library import tiny_library

from hil.access import Connection, debug
from hil.access.gdb_filter import NotGdb, PacketFilter
from hil.board import load_board
from hil.build import build
from hil.errors import DeviceError, InputError

_ALLOWED = ("halt", "reset halt")


def packet(content: bytes) -> bytes:
    return b"$%s#%02x" % (content, sum(content) & 0xFF)


def monitor(command: str) -> bytes:
    return packet(b"qRcmd," + command.encode().hex().encode())


# -- the filter by itself ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"+",
        b"\x03",
        b"-",
        packet(b"qSupported:multiprocess+;swbreak+"),
        packet(b"g") + b"+" + packet(b"vCont;c") + b"\x03",
        packet(b"X0,2:}\x03}]"),  # data with escapes
        monitor("halt"),
        monitor("  reset   halt "),
    ],
)
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_what_gdb_sends_passes(data: bytes, step: int) -> None:
    packets = PacketFilter(_ALLOWED)
    parts = [packets.feed(data[at : at + step]) for at in range(0, len(data), step)]
    assert b"".join(forwarded for forwarded, _ in parts) == data
    assert not any(answers for _, answers in parts)


@pytest.mark.parametrize(
    "command",
    [
        "! id",
        "migrate exec:id",
        "python 1",
        "halt;! id",
        "halt\n! id",
        "savemem 0 4 f",
        "RESET",
        "",
    ],
)
def test_other_commands_are_answered_with_an_error(command: str) -> None:
    forwarded, answers = PacketFilter(_ALLOWED).feed(monitor(command))
    assert forwarded == b""
    assert answers.startswith(b"+$O")
    assert answers.endswith(packet(b"E01"))


def test_an_escaped_command_is_known() -> None:
    content = b"q}\x72cmd," + b"! id".hex().encode()  # }r is R
    assert PacketFilter(()).feed(packet(content))[0] == b""


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        b"POST / HTTP/1.1\r\n\r\n+$g#67",
        b"\x16\x03\x01",
        b"\x00\x01",
        b"+GET",
        b"$g#00",
        b"$g#zz",
        b"$qR*!cmd,00#00",
        b"$a$b#00",
        packet(b"qRcmd,2"),
        packet(b"qRcmd,ff"),
        b"$" + b"a" * (1 << 18),
    ],
)
def test_what_gdb_does_not_send_ends_the_connection(data: bytes) -> None:
    with pytest.raises(NotGdb):
        PacketFilter(_ALLOWED).feed(data)


@pytest.mark.parametrize(
    ("text", "address"), [("127.0.0.1:3333", ("127.0.0.1", 3333)), ("[::1]:0", ("::1", 0))]
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert debug.parse_address(text) == address


@pytest.mark.parametrize("text", ["3333", ":3333", "h:", "h:x", "h:65536", "h:-1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(InputError, match="is not an address"):
        debug.parse_address(text)


# -- attacks on the servers --------------------------------------------------------------------


@pytest.fixture(scope="module")
def elf() -> Path:
    return build([tiny_library("y[0] = x[0];", cpu="cortex-m0")], load_board("microbit")).elf


SERVERS = pytest.mark.parametrize(
    ("runner", "probe", "command"),
    [
        ("qemu", None, 'migrate -d "exec:touch {}"'),
        ("pyocd", "virtual", "! touch {}"),
        ("pyocd", "virtual", "$ open({!r}, 'w')"),
    ],
    ids=["QEMU", "pyOCD", "pyOCD's Python"],
)


@SERVERS
def test_a_page_runs_nothing(
    runner: str, probe: str | None, command: str, elf: Path, tmp_path: Path
) -> None:
    """A page's form sends packets of gdb in the body of its request."""
    canary = tmp_path / "canary"
    body = b"+" + packet(b"?") + b"+" + monitor(command.format(str(canary))) + b"+" * 9
    board, listen = load_board("microbit"), ("127.0.0.1", 0)
    with debug.serve(board, elf, runner, Connection(probe), listen) as server:
        host, _, port = server.address.rpartition(":")
        for _ in range(2):
            connection = http.client.HTTPConnection(host, int(port), timeout=5)
            with closing(connection):
                connection.request("POST", "/", body)
                with pytest.raises((http.client.HTTPException, OSError)):
                    connection.getresponse()
        server.alive()
    assert not canary.exists()


@SERVERS
def test_a_client_of_the_server_runs_nothing(
    runner: str, probe: str | None, command: str, elf: Path, tmp_path: Path
) -> None:
    """Somebody who speaks gdb's protocol on the port, or on the socket."""
    canary = tmp_path / "canary"
    said = b""
    with (
        debug.serve(load_board("microbit"), elf, runner, Connection(probe)) as server,
        socket.socket(socket.AF_UNIX) as client,
    ):
        client.settimeout(5)
        client.connect(server.address)
        client.sendall(b"+" + packet(b"?"))
        with suppress(TimeoutError):
            while b"E01" not in said:
                said += client.recv(4096)
                client.sendall(b"+")
                if b"T05" in said or b"S05" in said:
                    client.sendall(monitor(command.format(str(canary))))
        server.alive()
    assert b"E01" in said
    assert not canary.exists()


@SERVERS
def test_gdb_shows_the_refusal(
    runner: str, probe: str | None, command: str, elf: Path, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    with debug.serve(load_board("microbit"), elf, runner, Connection(probe)) as server:
        words = [*shlex.split(server.command), "-batch", "-ex", "print $pc != 0"]
        words += ["-ex", f"monitor {command.format(str(canary))}"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert "$1 = 1" in done.stdout
    assert "hil does not pass on this monitor command; accepted: " in done.stdout + done.stderr
    assert not canary.exists()


def test_harmless_commands_reach_the_server(elf: Path) -> None:
    with debug.serve(load_board("microbit"), elf, "pyocd", Connection("virtual")) as server:
        words = [*shlex.split(server.command), "-batch", "-ex", "monitor reset halt"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert "hil does not pass on" not in done.stdout + done.stderr
    assert "Protocol error" not in done.stderr


def test_an_address_in_use_is_named(elf: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(DeviceError, match=f"cannot listen at 127.0.0.1:{port}"),
            debug.serve(load_board("microbit"), elf, "qemu", Connection(), ("127.0.0.1", port)),
        ):
            pass


@cases(("runner", "probe"), [("qemu", None), ("pyocd", "virtual")], first=1)
def test_one_gdb_after_the_other_over_tcp(runner: str, probe: str | None, elf: Path) -> None:
    board, listen = load_board("microbit"), ("127.0.0.1", 0)
    with debug.serve(board, elf, runner, Connection(probe), listen) as server:
        for steps in (
            ("break main", "continue", "print $pc == main", "detach"),
            ("print $pc != 0", "detach"),
        ):
            words = [word for step in steps for word in ("-ex", step)]
            command = [*shlex.split(server.command), "-batch", *words]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            assert "$1 = 1" in done.stdout, done.stderr
        server.alive()
