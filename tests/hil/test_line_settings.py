"""Settings of a serial line: levels at open, flow control, reset sequences.

The port is served by pyserial's own RFC 2217 server on loopback; behind it is a stand-in for a
UART, which records what is done to it.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import serial
import serial.rfc2217
from waiting import PATIENCE_S, until

from hil.board import load_board
from hil.board.line import BOOTS, RESETS, LineSettings, steps
from hil.cli import main
from hil.errors import BoardError, InputError, LinkError
from hil.link.line import drive_line, open_line

Hil = Callable[..., Any]
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:serial.rfc2217")


@pytest.fixture
def hil_json(capsys: pytest.CaptureFixture[str]) -> Hil:
    def run(*words: str, code: int = 0) -> Any:
        assert main([*words, "--json"]) == code
        answer = json.loads(capsys.readouterr().out)
        return answer["results"][0] if code == 0 else answer

    return run


class Uart:
    """Stand-in for a port of the server: what a client sets, in order."""

    def __init__(self) -> None:
        self.history: list[tuple[str, object]] = []
        self.baudrate = 0
        self.dtr = self.rts = self.rtscts = self.dsrdtr = self.xonxoff = False
        self.bytesize, self.parity, self.stopbits, self.break_condition = 8, "N", 1, False
        self.cts = self.dsr = self.ri = self.cd = True
        self.in_waiting = 0
        self.history.clear()

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)
        if name != "history":
            self.history.append((name, value))

    def reset_input_buffer(self) -> None: ...

    def reset_output_buffer(self) -> None: ...


@pytest.fixture
def port() -> Iterator[tuple[str, Uart]]:
    """The URL of a served port, and the UART behind it."""
    uart = Uart()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        served: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                served.append(client)
                manager = serial.rfc2217.PortManager(uart, Connection(client))
                while data := client.recv(1024):
                    for _ in manager.filter(data):
                        pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"rfc2217://127.0.0.1:{listener.getsockname()[1]}", uart
        listener.shutdown(socket.SHUT_RDWR)
    for client in served:
        client.close()
    thread.join(PATIENCE_S)


class Connection:
    """What pyserial's server writes its answers to."""

    def __init__(self, client: socket.socket) -> None:
        self.write = client.sendall


def levels(uart: Uart) -> list[tuple[str, object]]:
    return [(name, value) for name, value in uart.history if name in ("dtr", "rts")]


@pytest.mark.parametrize("level", [False, True])
def test_the_levels_at_open(port: tuple[str, Uart], level: bool) -> None:
    url, uart = port
    with closing(open_line(url, LineSettings(9600, dtr=level, rts=level))):
        assert uart.baudrate == 9600
        # Not the driver's level first: a change would reset some boards.
        assert levels(uart) == [("dtr", level), ("rts", level)]


@pytest.mark.parametrize("flow", ["rtscts", "xonxoff"])
def test_the_flow_control(port: tuple[str, Uart], flow: str) -> None:
    url, uart = port
    with closing(open_line(url, LineSettings(flow=flow))):
        until(lambda: getattr(uart, flow), flow)


@pytest.mark.parametrize("name", ["esp", "arduino"])
@pytest.mark.parametrize("sequences", [RESETS, BOOTS])
def test_a_sequence_drives_the_outputs(
    port: tuple[str, Uart], name: str, sequences: dict[str, str]
) -> None:
    url, uart = port
    drive_line(url, LineSettings(dtr=False, rts=False), sequences[name])
    expected = [
        ({"D": "dtr", "R": "rts"}[letter], bool(number))
        for letter, number in steps(sequences[name])
        if letter in "DR"
    ]
    until(lambda: levels(uart)[2:] == expected)
    if "B1200" in sequences[name]:
        assert uart.baudrate == 1200


@pytest.mark.parametrize(
    ("options", "state", "expected"),
    [
        ((), "running", [("dtr", False), ("rts", True), ("rts", False)]),
        (("--boot-loader",), "boot loader", [("dtr", False), ("dtr", True), ("dtr", False)]),
    ],
)
def test_a_command_resets_by_the_port(
    port: tuple[str, Uart],
    hil_json: Hil,
    tmp_path: Path,
    options: tuple[str, ...],
    state: str,
    expected: list[tuple[str, bool]],
) -> None:
    url, uart = port
    path = described(tmp_path, 'dtr = false\nrts = false\nreset = "esp"\nboot = "D0|D1|D0"')
    found = hil_json("reset", "--board", str(path), "--port", url, *options)
    assert found["state"] == state
    until(lambda: levels(uart)[2:] == expected)


def test_a_board_without_a_sequence(hil_json: Hil) -> None:
    words = ("reset", "--board", "nucleo-l476rg", "--port", "loop://", "--boot-loader")
    assert "has no sequence" in hil_json(*words, code=2)["error"]["message"]


def test_a_socket_has_no_outputs() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"socket://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(InputError, match="carries bytes only"):
            drive_line(url, LineSettings(), RESETS["esp"])


def test_a_pseudo_terminal_has_no_outputs() -> None:
    master, slave = os.openpty()
    try:
        with pytest.raises(LinkError, match="cannot drive DTR and RTS"):
            drive_line(os.ttyname(slave), LineSettings(), RESETS["esp"])
    finally:
        os.close(master)
        os.close(slave)


def described(folder: Path, line: str) -> Path:
    text = (load_board("nucleo-l476rg").path).read_text()
    path = folder / "own.toml"
    path.write_text(f"{text}\n[line]\n{line}\n")
    return path


def test_a_board_file_has_them(tmp_path: Path) -> None:
    path = described(tmp_path, 'dtr = false\nflow = "rtscts"\nreset = "D0|D1"\nboot = "esp"')
    line = load_board(path).line
    assert (line.baud, line.dtr, line.rts, line.flow) == (115_200, False, None, "rtscts")
    assert (line.reset, line.boot) == ("D0|D1", BOOTS["esp"])
    assert load_board("nucleo-l476rg").line == LineSettings()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('rest = "esp"', r"line.rest: unknown key \(did you mean reset\?\)"),
        ('reset = "avrdude"', "line.reset: 'avrdude' is not a reset sequence"),
        ('reset = "D0|W999"', "'W999' waits for more than 10 s"),
        ('flow = "cts"', "line.flow: unknown value 'cts'"),
        ('flow = "rtscts"\nrts = true', "line.rts: flow control 'rtscts' drives this output"),
        ("dtr = 1", "line.dtr: 1 is not true or false"),
        ("baud = 9600", "line.baud: unknown key"),
    ],
)
def test_a_wrong_key_is_named(tmp_path: Path, line: str, problem: str) -> None:
    with pytest.raises(BoardError, match=problem):
        load_board(described(tmp_path, line))


def test_the_baud_rate_is_the_firmware_s() -> None:
    board = load_board("nucleo-l476rg").with_baud(921_600)
    assert board.line.baud == board.macros["HIL_UART_BAUD"] == 921_600
