"""The console: frames, text and noise told apart, however the bytes arrive."""

from __future__ import annotations

import json
import os
import threading
import tracemalloc
import tty
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest
from campaigns import cases
from rpc_board import running_board
from serial.tools.list_ports_common import ListPortInfo
from waiting import PATIENCE_S

from hil.access.board_lock import lock_path, try_board_lock, try_lock
from hil.access.port import Port
from hil.board.line import DEFAULT_LINE
from hil.cli import main
from hil.cli.monitor import Line, Splitter, listen
from hil.errors import DeviceError, InputError, LinkError
from hil.link import protocol
from hil.link.client import Client
from hil.link.codec import Frame, encode
from hil.link.line import Link
from hil.link.protocol import Command, Event, Kind


def event(code: Event, **fields: object) -> bytes:
    payload = protocol.EVENTS[code].build(fields)
    return encode(Frame(0, 0, Kind.EVENT, code, payload))


BOOT = event(Event.BOOT, version=1)
LOG = event(Event.LOG, more=0, text=b"hello\nworld\n")
FAULT = event(
    Event.FAULT,
    **dict.fromkeys(
        ["lr", "sp", "mmfar", "bfar", "psr", "cfsr", "hfsr", "r0", "r1", "r2", "r3", "r12"], 0
    ),
    kind=3,
    pc=0x1234,
)
ADDRESSES = "pc 0x00001234, lr 0x00000000, sp 0x00000000"
REPLY = encode(Frame(1, 1, Kind.REPLY, Command.ECHO, b"\0data"))
BAD = bytearray(encode(Frame(1, 1, Kind.EVENT, Event.LOG, b"\0\x80\x81\x82")))
BAD[-3] ^= 0x40

CASES = [
    ("nothing", b"", []),
    ("boot", BOOT, [Line("boot", "the firmware started (protocol 1)")]),
    ("log", LOG, [Line("log", "hello"), Line("log", "world")]),
    (
        "log in parts",
        event(Event.LOG, more=1, text=b"a long ") + event(Event.LOG, more=0, text=b"line"),
        [Line("log", "a long line")],
    ),
    ("replies are for others", REPLY, []),
    ("busy is no news", event(Event.BUSY, done=1, total=2), []),
    ("text", b"Zephyr boots\r\nready\n", [Line("text", "Zephyr boots"), Line("text", "ready")]),
    ("text of another alphabet", "Grüße\n".encode(), [Line("text", "Grüße")]),
    (
        "text before a frame",
        b"loader v1\n" + BOOT,
        [Line("text", "loader v1"), Line("boot", "the firmware started (protocol 1)")],
    ),
    (
        "text cut by a frame",
        b"> " + LOG,
        [Line("text", "> "), Line("log", "hello"), Line("log", "world")],
    ),
    (
        "a damaged frame",
        bytes(BAD),
        [Line("noise", f"{len(BAD) - 2} bytes that are neither text nor a frame")],
    ),
    (
        "an event of another version",
        encode(Frame(0, 0, Kind.EVENT, 99, b"")),
        [Line("noise", "unknown event 99 (newer firmware?)")],
    ),
]


@pytest.mark.parametrize(("data", "lines"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_lines(data: bytes, lines: list[Line], chunk: int) -> None:
    splitter = Splitter()
    found = []
    for at in range(0, len(data), chunk):
        found += splitter.feed(data[at : at + chunk])
    assert found + splitter.flush() == lines


def test_a_fault_shows_its_registers() -> None:
    told, registers = Splitter().feed(FAULT)
    assert told == Line("fault", "the firmware stopped: hard fault; " + ADDRESSES)
    assert registers.kind == "fault"
    assert registers.text.startswith("kind=0x3 pc=0x1234 lr=0x0")


def test_a_fault_shows_the_stack_that_came_before_it() -> None:
    at = [dict(address=0x2000_0F00, data=bytes(8)), dict(address=0x2000_0F08, data=bytes(8))]
    bounds = {"bottom": 0x2000_0000, "top": 0x2000_1000, "peak_bytes": 300}
    splitter = Splitter()
    for part in at:
        assert splitter.feed(event(Event.STACK, **bounds, **part)) == []
    assert splitter.feed(FAULT)[1] == Line(
        "fault", "256 of 4096 bytes of stack in use, at most 300 so far"
    )
    assert len(splitter.feed(FAULT)) == 2, "it belongs to one fault"


def test_a_prompt_is_shown_when_nothing_follows() -> None:
    splitter = Splitter()
    assert splitter.feed(b"login: ") == []
    assert splitter.flush() == [Line("text", "login: ")]
    assert splitter.flush() == []


def test_a_frame_that_is_still_arriving_stays() -> None:
    splitter = Splitter()
    assert splitter.feed(BOOT[:5]) == []
    assert splitter.flush() == []
    assert splitter.feed(BOOT[5:]) == [Line("boot", "the firmware started (protocol 1)")]


@pytest.mark.full
@cases(
    ("flood", "kind"),
    [
        (b"\1\2\3\4" * 2000, "noise"),
        (b"text without an end" * 400, "text"),
        (event(Event.LOG, more=1, text=b"x" * 7000), None),
        (bytes(8000), None),
    ],
    first=1,
)
def test_a_flood_does_not_fill_the_memory(flood: bytes, kind: str | None) -> None:
    splitter = Splitter()
    tracemalloc.start()
    found = {line.kind for _ in range(500) for line in splitter.feed(flood)}
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == ({kind} if kind else set())
    assert peak < 4 << 20
    assert splitter.feed(b"\0" + BOOT)[-1].kind == "boot"


def test_listening_ends() -> None:
    with closing(Port("loop://", DEFAULT_LINE)) as line:
        line.write(b"one\n" + BOOT + b"two")
        heard = list(listen(line, seconds=0.8))
    assert [said.text for _, said in heard] == ["one", "the firmware started (protocol 1)", "two"]
    times = [seconds for seconds, _ in heard]
    assert times == sorted(times)


def test_listening_notices_that_the_board_ended() -> None:
    def ended() -> None:
        raise DeviceError("QEMU ended")

    with (
        closing(Port("loop://", DEFAULT_LINE)) as line,
        pytest.raises(DeviceError, match="QEMU ended"),
    ):
        list(listen(line, seconds=None, alive=ended))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("/dev/does-not-exist", "there is no port /dev/does-not-exist"),
        ("/dev/null", "/dev/null is not a serial port"),
        ("socket://127.0.0.1:1", "nothing listens at socket://127.0.0.1:1|cannot open socket"),
    ],
)
def test_a_line_that_cannot_be_opened(url: str, message: str) -> None:
    with pytest.raises(LinkError, match=message):
        Port(url, DEFAULT_LINE)


def test_an_unknown_url_is_a_usage_error() -> None:
    with pytest.raises(
        InputError, match="frob://x is not a serial port: .* the forms are /dev/NAME"
    ):
        Port("frob://x", DEFAULT_LINE)


def test_the_console_takes_no_bytes_from_the_owner() -> None:
    with running_board() as board, closing(Link(board.url)) as link:
        with pytest.raises(LinkError, match="in use by another program"):
            Port(board.url, DEFAULT_LINE)
        assert Client(link).echo(b"undisturbed") == b"undisturbed"


class Unplugged:
    """A pseudo-terminal behind a link, as udev makes one for a port, that can be unplugged."""

    def __init__(self, link: Path) -> None:
        self.link = link
        self.descriptors: tuple[int, ...] = ()

    def plug(self) -> None:
        master, slave = os.openpty()
        tty.setraw(slave)
        self.descriptors = (master, slave)
        self.link.symlink_to(os.ttyname(slave))

    def unplug(self) -> None:
        self.link.unlink()
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = ()

    def say(self, text: bytes) -> None:
        os.write(self.descriptors[0], text)


@pytest.fixture
def cable(tmp_path: Path) -> Iterator[Unplugged]:
    cable = Unplugged(tmp_path / "board")
    yield cable
    if cable.descriptors:
        cable.unplug()


def next_text(heard: Iterator[tuple[float, Line]]) -> tuple[str, str]:
    _, line = next(heard)
    return line.kind, line.text


def test_a_port_that_is_unplugged_is_opened_again(cable: Unplugged) -> None:
    cable.plug()
    name = str(cable.link)
    with closing(Port(name, DEFAULT_LINE)) as port:
        heard = listen(port, PATIENCE_S, reconnects=True)
        cable.say(b"before\nhalf a li")
        assert next_text(heard) == ("text", "before")
        cable.unplug()
        assert [next_text(heard) for _ in range(2)] == [
            ("text", "half a li"),
            ("link", f"{name} is lost; waiting for it"),
        ]
        # Other processes may use the board meanwhile.
        locked = try_board_lock(name)
        assert locked is not None
        locked.close()
        plugged = threading.Timer(0.5, cable.plug)
        plugged.start()
        assert next_text(heard) == ("link", f"{name} is back")
        plugged.join()
        cable.say(b"after\n")
        assert next_text(heard) == ("text", "after")


def test_a_lost_port_ends_the_console(cable: Unplugged) -> None:
    cable.plug()
    with closing(Port(str(cable.link), DEFAULT_LINE)) as port:
        cable.unplug()
        with pytest.raises(LinkError, match="the link to the board failed"):
            list(listen(port, PATIENCE_S))


def test_a_port_under_another_number_is_followed(
    cable: Unplugged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is known by the serial number, in a stand-in for the system's list of ports."""

    def comports(include_links: bool = False) -> list[ListPortInfo]:
        if not cable.descriptors:
            return []
        info = ListPortInfo(os.readlink(cable.link))
        info.vid, info.pid, info.serial_number, info.location = 0x0403, 0x6001, "AB01", "1-2"
        return [info]

    monkeypatch.setattr("serial.tools.list_ports.comports", comports)
    cable.plug()
    first = os.readlink(cable.link)
    with closing(Port(first, DEFAULT_LINE)) as port:
        heard = listen(port, PATIENCE_S, reconnects=True)
        cable.unplug()
        assert next_text(heard) == ("link", "usb:AB01 is lost; waiting for it")
        other = os.openpty()  # has the former number
        cable.plug()
        assert os.readlink(cable.link) != first
        assert next_text(heard) == ("link", "usb:AB01 is back")
        cable.say(b"here\n")
        assert next_text(heard) == ("text", "here")
    for descriptor in other:
        os.close(descriptor)


def test_a_port_that_comes_late_is_awaited(cable: Unplugged) -> None:
    late = threading.Timer(0.5, cable.plug)
    late.start()
    with closing(Port(str(cable.link), DEFAULT_LINE, wait_s=PATIENCE_S)):
        late.join()
    with pytest.raises(LinkError, match="there is no port"):
        Port(f"{cable.link}-other", DEFAULT_LINE, wait_s=0.2)


def test_the_console_locks_the_board(cable: Unplugged) -> None:
    cable.plug()
    with closing(Port(str(cable.link), DEFAULT_LINE)):
        assert try_lock(lock_path(str(cable.link))) is None


def test_lines_are_logged_with_their_times(
    cable: Unplugged, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cable.plug()
    is_over = threading.Event()

    def speak() -> None:
        while not is_over.wait(0.02):  # what arrives before the port is open is dropped
            cable.say(b"hello\n")

    speaker = threading.Thread(target=speak)
    speaker.start()
    log = tmp_path / "board.log"
    log.write_text("earlier\n")
    words = ["monitor", "--port", str(cable.link), "--seconds", "1", "--timestamps"]
    assert main([*words, "--log", str(log), "--json"]) == 0
    is_over.set()
    speaker.join()
    lines = json.loads(capsys.readouterr().out)["results"][0]["lines"]
    assert lines[-1]["text"] == "hello"
    assert log.read_text() == "earlier\n" + "".join(
        f"{line['time']} text  {line['text']}\n" for line in lines
    )
    assert datetime.fromisoformat(lines[0]["time"]).tzinfo is not None


@pytest.mark.parametrize("option", ["--baud=9600", "--reconnect"])
def test_options_of_a_port_need_a_port(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["monitor", "--board", "native", option]) == 2
    assert "is for a port whose firmware runs already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"esc \x1b[31m red\nPASS\n", ["esc \x1b[31m red", "PASS"]),
        (b"bell \x07\nPASS\n", ["bell \x07", "PASS"]),
        (b"damaged \xff\xfe line\nPASS\n", ["damaged \\xff\\xfe line", "PASS"]),
    ],
)
def test_lines_with_control_bytes(data: bytes, lines: list[str]) -> None:
    """No frame of the protocol ends them, so they are shown when the line is quiet."""
    splitter = Splitter()
    found = splitter.feed(data) + splitter.flush()
    assert [line.text for line in found] == lines
    # A frame that arrives in parts stays one.
    frame = encode(Frame(1, 0, Kind.EVENT, Event.BOOT, b"\x02"))
    middle = len(frame) // 2
    assert not splitter.feed(frame[:middle]) + splitter.flush()
    assert [line.kind for line in splitter.feed(frame[middle:])] == ["boot"]
