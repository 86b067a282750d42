"""The console: frames, text and noise told apart, however the bytes arrive."""

from __future__ import annotations

import tracemalloc
from contextlib import closing

import pytest
from campaigns import cases
from rpc_board import running_board

from hil.cli.monitor import Line, Splitter, listen, open_line
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
    with open_line("loop://") as line:
        line.write(b"one\n" + BOOT + b"two")
        heard = list(listen(line, seconds=0.8))
    assert [said.text for _, said in heard] == ["one", "the firmware started (protocol 1)", "two"]
    times = [seconds for seconds, _ in heard]
    assert times == sorted(times)


def test_listening_notices_that_the_board_ended() -> None:
    def ended() -> None:
        raise DeviceError("QEMU ended")

    with open_line("loop://") as line, pytest.raises(DeviceError, match="QEMU ended"):
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
        open_line(url)


def test_an_unknown_url_is_a_usage_error() -> None:
    with pytest.raises(
        InputError, match="frob://x is not a serial port: .* the forms are /dev/NAME"
    ):
        open_line("frob://x")


def test_the_console_takes_no_bytes_from_the_owner() -> None:
    with running_board() as board, closing(Link(board.url)) as link:
        with pytest.raises(LinkError, match="in use by another program"):
            open_line(board.url)
        assert Client(link).echo(b"undisturbed") == b"undisturbed"
