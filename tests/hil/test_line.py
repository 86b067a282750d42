"""Lines that fail: what is told, when, and what is kept of the bytes."""

from __future__ import annotations

import errno
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import serial
from hostile_board import Clock

from hil.access.pyocd import rtt
from hil.access.pyocd.rtt import RttLine
from hil.errors import DeviceError, InputError, LinkError
from hil.link import line
from hil.link.codec import Frame, encode
from hil.link.line import Link, check_port, open_error, open_line, raise_if_ending
from hil.support import unix_socket

URL = "/dev/board"
FRAME = Frame(1, 2, 3, 4, b"abc")
USES: list[Callable[[Link], object]] = [
    lambda link: link.send(FRAME),
    lambda link: link.receive(1.0),
]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made: Clock = Clock()
    for module in (line, rtt):
        monkeypatch.setattr(module, "time", made)
    return made


class Bytes:
    """A line on which these bytes come, read by read; a wait takes ten milliseconds."""

    def __init__(self, clock: Clock, *reads: bytes | OSError) -> None:
        self.clock, self.reads = clock, iter(reads)
        self.is_closed = False

    def read(self) -> bytes:
        found = next(self.reads, b"")
        if isinstance(found, OSError):
            raise found
        self.clock.now += 0 if found else 0.01
        return found

    def write(self, data: bytes) -> None:
        raise OSError("broken")

    def close(self) -> None:
        self.is_closed = True


# -- a port that cannot be opened ------------------------------------------------------------------


def failed(number: int | None, inner: int | None = None) -> OSError:
    """Return what pyserial raises; ``inner`` is the number of an error in whose place it does."""
    error: OSError = serial.SerialException(*((number, "it fails") if number else ("fails",)))
    if inner is not None:
        error.__context__ = OSError(inner, "text")
    return error


@pytest.mark.parametrize(
    ("numbers", "fact"),
    [
        ((errno.EAGAIN, errno.EWOULDBLOCK, errno.EBUSY), "/dev/board is in use by another program"),
        ((errno.EACCES, errno.EPERM), "no permission to open /dev/board"),
        ((errno.ECONNREFUSED,), "nothing listens at /dev/board"),
        ((errno.ENOENT,), "there is no port /dev/board"),
        ((errno.ENOTTY, errno.EISDIR, errno.EINVAL), "/dev/board is not a serial port"),
        ((errno.EIO, errno.ENXIO), "cannot open /dev/board: "),
    ],
)
def test_why_a_port_cannot_be_opened(numbers: tuple[int, ...], fact: str) -> None:
    for number in numbers:
        for error in (OSError(number, "text"), failed(number), failed(None, number)):
            found = open_error(URL, error)
            assert isinstance(found, LinkError)
            assert found.fact.startswith(fact), error
            assert found.hint


def test_a_port_that_fails_without_a_number() -> None:
    for error in (failed(None), serial.SerialException()):
        assert open_error(URL, error).fact.startswith("cannot open /dev/board: ")
    error = failed(None)
    error.__context__ = ValueError()  # without arguments
    assert open_error(URL, error).fact == "cannot open /dev/board: fails"
    assert isinstance(open_error("x://y", ValueError("no such scheme")), InputError)


# -- a port that fails later -----------------------------------------------------------------------


@pytest.fixture
def port(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A serial port without a device: its descriptor is that of nothing."""
    made = object.__new__(line._Port)
    made._serial = SimpleNamespace(fd=77)
    made._is_path = True
    monkeypatch.setattr(line, "is_readable", lambda descriptor, wait_s: descriptor == 77)
    return made


def reading(monkeypatch: pytest.MonkeyPatch, read: Callable[[int, int], bytes]) -> None:
    monkeypatch.setattr(os, "read", read)


def test_bytes_that_another_reader_took_are_none(
    port: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(descriptor: int, most: int) -> bytes:
        raise BlockingIOError

    reading(monkeypatch, taken)
    assert port.read() == b""


def test_a_device_that_is_gone_is_an_error(port: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reading(monkeypatch, lambda descriptor, most: b"")
    with pytest.raises(ConnectionResetError, match="the device is gone"):
        port.read()
    reading(monkeypatch, lambda descriptor, most: b"x" * most)
    assert port.read() == b"x" * 65536
    monkeypatch.setattr(line, "is_readable", lambda descriptor, wait_s: False)
    assert port.read() == b""


def test_a_device_that_takes_nothing(
    port: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def is_writable(descriptor: int, wait_s: float) -> bool:
        waits.append(wait_s)
        clock.now += 2
        return len(waits) < 4

    written: list[bytes] = []

    def write(descriptor: int, data: memoryview) -> int:
        if len(written) == 1:
            written.append(b"")
            raise BlockingIOError
        written.append(bytes(data[:2]))
        return 2

    monkeypatch.setattr(line, "is_writable", is_writable)
    monkeypatch.setattr(os, "write", write)
    with pytest.raises(TimeoutError, match="the device took nothing for 5 s"):
        port.write(b"abcdefg")
    assert written == [b"ab", b"", b"cd"]
    # It is not waited for a time that is over.
    assert waits == [5, 3, 1, 0]


# -- a link ----------------------------------------------------------------------------------------


def test_a_wait_watches_the_boards_process(clock: Clock) -> None:
    looks: list[float] = []
    link = Link(URL, line=Bytes(clock), alive=lambda: looks.append(clock.now))
    start = clock.now
    assert link.receive(0.1) == []
    assert clock.now - start == pytest.approx(0.1, abs=0.011)
    assert len(looks) == pytest.approx(10, abs=1)
    assert link.receive(0.0) == []


def test_bytes_of_the_line_are_counted(clock: Clock) -> None:
    wire = encode(FRAME)
    link = Link(URL, line=Bytes(clock, b"noise\0" + wire[:5], wire[5:], b"ab\0cd\0"))
    assert link.receive(1.0) == []
    assert (link.received_bytes, link.bad_frames, link.skipped_bytes) == (11, 1, 5)
    assert link.receive(1.0) == [FRAME]
    assert (link.received_bytes, link.bad_frames, link.skipped_bytes) == (6 + len(wire), 1, 5)
    assert link.receive(1.0) == []
    assert (link.received_bytes, link.bad_frames, link.skipped_bytes) == (12 + len(wire), 3, 9)


def test_a_line_that_breaks_is_one_error(clock: Clock) -> None:
    for use in USES:
        link = Link(URL, line=Bytes(clock, OSError("broken")))
        start = clock.now
        with pytest.raises(LinkError, match="the link to /dev/board failed: broken"):
            use(link)
        # The board's process had a second to end and to say why.
        assert clock.now - start == pytest.approx(1.0, abs=0.011)


def test_the_end_of_the_boards_process(clock: Clock) -> None:
    end = clock.now + 0.5

    def alive() -> None:
        if clock.now > end:
            raise InputError("the emulator has ended", "look")

    link = Link(URL, line=Bytes(clock, OSError("broken")), alive=alive)
    with pytest.raises(InputError, match="the emulator has ended"):
        link.receive(1.0)
    assert clock.now - end < 0.02
    with pytest.raises(InputError, match="the emulator has ended"):
        raise_if_ending(alive)


def test_a_link_that_was_closed_says_so(clock: Clock) -> None:
    for end in (Link.stop, Link.close):
        made = Bytes(clock)
        link = Link(URL, line=made)
        end(link)
        assert made.is_closed == (end is Link.close)
        for use in USES:
            with pytest.raises(InputError, match="the device at /dev/board is closed"):
                use(link)


def test_a_link_that_is_closed_during_a_wait_ends_it(clock: Clock) -> None:
    link = Link(URL, line=Bytes(clock))
    looks = itertools.count()
    link._alive = lambda: link.stop() if next(looks) == 3 else None
    with closing(link), pytest.raises(InputError, match="is closed"):
        link.receive(60.0)


# -- RTT -------------------------------------------------------------------------------------------


class ProbeError(Exception):
    """pyOCD's."""


class Block:
    """RTT's control block as pyOCD has it."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.is_ready_s = 0.0
        #: What each read returns, and how many bytes each write takes.
        self.reads: Iterator[bytes] = iter(())
        self.takes: Iterator[int] = iter(())
        self.written = b""
        self.fails = False
        self.up_channels = [SimpleNamespace(read=self._read)]
        self.down_channels = [SimpleNamespace(write=self._write)]

    def start(self) -> None:
        if self.clock.now < self.is_ready_s:
            raise ProbeError("no control block")

    def _read(self) -> bytes:
        if self.fails:
            raise ProbeError("no probe")
        return next(self.reads, b"")

    def _write(self, data: bytes) -> int:
        if self.fails:
            raise ProbeError("no probe")
        count = min(next(self.takes, 0), len(data))
        self.written += data[:count]
        return count


@pytest.fixture
def block(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Block:
    """The block at 0x2000 of a target, with the parts of pyOCD that find it."""
    made = Block(clock)

    def from_target(target: str, *, address: int) -> Block:
        assert (target, address) == ("target", 0x2000)
        return made

    parts: dict[str, Any] = {
        "pyocd.core.exceptions": SimpleNamespace(Error=ProbeError),
        "pyocd.debug.rtt": SimpleNamespace(
            RTTControlBlock=SimpleNamespace(from_target=from_target)
        ),
    }
    for name, part in parts.items():
        for package in (name.partition(".")[0], name.rpartition(".")[0]):
            monkeypatch.setitem(sys.modules, package, SimpleNamespace(__path__=[]))
        monkeypatch.setitem(sys.modules, name, part)
    return made


def opened() -> RttLine:
    session: Any = SimpleNamespace(target="target")
    return RttLine(session, 0x2000)


def test_a_firmware_has_some_seconds_to_begin_rtt(block: Block, clock: Clock) -> None:
    start = clock.now
    block.is_ready_s = start + 4.9
    opened()
    assert clock.now - start == pytest.approx(4.9, abs=0.002)
    start = clock.now
    block.is_ready_s = start + 99
    with pytest.raises(LinkError, match="did not initialise RTT within 5 s: no control block"):
        opened()
    assert clock.now - start == pytest.approx(5.0, abs=0.003)


def test_bytes_over_rtt_are_read_at_once(block: Block, clock: Clock) -> None:
    made, start = opened(), clock.now
    block.reads = iter([b"abc", b"", b"", b"de"])
    assert made.read() == b"abc"
    assert clock.now == start
    assert made.read() == b"de"
    assert clock.now - start == pytest.approx(0.002)
    start = clock.now
    assert made.read() == b""
    assert clock.now - start == pytest.approx(0.01, abs=0.002)


def test_all_bytes_are_written_as_there_is_room(block: Block, clock: Clock) -> None:
    made, start = opened(), clock.now
    block.takes = iter([3, 0, 0, 2, 99])
    made.write(b"abcdefgh")
    assert block.written == b"abcdefgh"
    assert clock.now - start == pytest.approx(0.002)  # only where nothing was taken
    made.write(b"")
    start = clock.now
    with pytest.raises(TimeoutError, match="the firmware read nothing for 5 s"):
        made.write(b"x")
    assert clock.now - start == pytest.approx(5.0, abs=0.003)


def test_a_probe_that_fails_is_a_line_that_fails(block: Block) -> None:
    made = opened()
    block.fails = True
    for use in (made.read, lambda: made.write(b"x")):
        with pytest.raises(ConnectionResetError, match="no probe"):
            use()


# -- names of ports --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "loop://",
        "SPY:///dev/ptmx",
        "spy:///dev/ptmx?file=/dev/null",
        "alt:///dev/ptmx?class=PosixPollSerial",
        "socket://h:1",
        "rfc2217://h:1",
        "unix:///x",
        "board://h:1",
    ],
)
def test_a_url_that_pyserial_opens_may_be_a_port(url: str) -> None:
    check_port(url)


@pytest.mark.parametrize("url", ["nothing://x", "1x://y", "a-b://y", "://y", "sys.path://y"])
def test_a_url_that_nothing_opens_is_no_port(url: str) -> None:
    with pytest.raises(InputError, match="is not a serial port: .*; the forms are"):
        check_port(url)


def test_a_path_is_a_port_where_it_exists() -> None:
    ours, terminal = os.openpty()
    with os.fdopen(ours), os.fdopen(terminal):
        check_port(os.ttyname(terminal))
    for url in ("/dev/none", "spy:///dev/none?file=/dev/null", "alt:///dev/none"):
        with pytest.raises(LinkError, match="there is no port /dev/none"):
            check_port(url)
        with pytest.raises(LinkError, match="there is no port /dev/none"):
            Link(url)


def test_a_file_is_no_port(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "file", "/dev/null"):
        with pytest.raises(LinkError, match=f"{path} is not a serial port"):
            check_port(str(path))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("alt:///dev/null?class=Nothing", "unknown class: 'Nothing'"),
        ("alt:///dev/null?klass=Serial", "unknown option: 'klass'"),
        ("cp2110://x", "'cp2110' not known"),
        ("socket://host", "write socket://HOST:PORT"),
    ],
)
def test_a_url_that_cannot_be_opened_says_why(url: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        Link(url)


@pytest.mark.parametrize("url", ["spy://socket://h:1", "alt://loop://"])
def test_a_url_around_a_url_is_no_port(url: str) -> None:
    with pytest.raises(InputError, match="wraps a device, not a URL"):
        check_port(url)


def test_a_terminal_may_be_wrapped() -> None:
    master, slave = os.openpty()
    try:
        name = os.ttyname(slave)
        for url in (f"spy://{name}?file=/dev/null", f"alt://{name}?class=PosixPollSerial"):
            check_port(url)
            with closing(open_line(url)) as line:
                line.write(b"x")
                assert os.read(master, 1) == b"x"
    finally:
        os.close(master)
        os.close(slave)


# -- sockets with a path ---------------------------------------------------------------------------


def test_a_line_at_a_path() -> None:
    with unix_socket.listener("line") as (server, path):
        assert path.parent.stat().st_mode & 0o077 == 0
        with closing(line.open_line(unix_socket.url(path))) as ours:
            theirs, _ = server.accept()
            with theirs:
                ours.write(b"there")
                assert theirs.recv(10) == b"there"
                theirs.sendall(b"back")
                assert ours.read() == b"back"
            with pytest.raises(ConnectionResetError):
                ours.read()
    assert not path.exists()
    with pytest.raises(LinkError, match=f"there is no port unix://{path}"):
        Link(unix_socket.url(path))


def test_a_path_that_is_too_long_for_a_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    with pytest.raises(DeviceError, match="cannot listen at") as caught, unix_socket.listen(folder):
        pass
    assert "set TMPDIR to a folder with a shorter path" in caught.value.hint
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    with unix_socket.listener("uart") as (_, path):
        assert path.is_relative_to("/tmp")
        assert path.parent.stat().st_mode & 0o077 == 0
    assert not path.parent.exists()
    assert not list(folder.iterdir())
