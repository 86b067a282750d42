"""Descriptors above 1023, as a program with hundreds of boards has them."""

from __future__ import annotations

import os
import pty
import resource
import socket
import time
import tty
from collections.abc import Iterator

import pytest

from hil.link.line import open_line
from hil.support.poll import is_readable, is_writable

_MANY = 1100


@pytest.fixture
def many_open() -> Iterator[None]:
    """Hold so many descriptors that the next one is above 1023."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 2 * _MANY), limits[1]))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(_MANY)]
    try:
        assert held[-1] > 1023
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_waiting(many_open: None) -> None:
    reader, writer = os.pipe()
    try:
        start = time.monotonic()
        assert not is_readable(reader, 0.05)
        assert time.monotonic() - start >= 0.049
        assert not is_readable(reader, 0.0)
        assert is_writable(writer, 0.0)
        os.write(writer, b"x")
        assert is_readable(reader, 5.0)
        os.read(reader, 1)
        os.close(writer)
        assert is_readable(reader, 5.0)  # its end
    finally:
        os.close(reader)


def test_a_socket_and_a_terminal(many_open: None) -> None:
    master, slave = pty.openpty()
    tty.setraw(slave)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        over_tcp = open_line(f"socket://127.0.0.1:{listener.getsockname()[1]}")
        terminal = open_line(os.ttyname(slave))
        connection, _ = listener.accept()
        try:
            connection.sendall(b"over TCP")
            assert over_tcp.read() == b"over TCP"
            over_tcp.write(b"back")
            assert connection.recv(10) == b"back"
            assert terminal.read() == b""
            os.write(master, b"over a terminal")
            assert terminal.read() == b"over a terminal"
            terminal.write(b"back")
            assert os.read(master, 10) == b"back"
            os.close(slave)
            os.close(master)
            with pytest.raises(OSError, match="Input/output error|gone"):
                terminal.read()
        finally:
            connection.close()
            over_tcp.close()
            terminal.close()


def test_a_terminal_that_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hil.link.line._WRITE_TIMEOUT_S", 0.1)
    master, slave = pty.openpty()
    tty.setraw(slave)
    terminal = open_line(os.ttyname(slave))
    try:
        with pytest.raises(TimeoutError, match="the device took nothing for 0.1 s"):
            terminal.write(bytes(1 << 20))
    finally:
        terminal.close()
        os.close(master)
        os.close(slave)
