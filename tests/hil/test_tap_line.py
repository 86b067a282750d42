"""A line of other people's firmware that says nothing, or too little: on made-up time."""

from __future__ import annotations

import zlib
from types import SimpleNamespace
from typing import Any

import pytest
from hostile_board import Clock

from hil.errors import LinkError
from hil.link import protocol, taps
from hil.link.codec import Frame
from hil.link.protocol import Command, Event, Kind
from hil.link.taps import TapReader, select_layers, tapped_runs


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(taps, "time", made)
    return made


class Made:
    """A link on which frames come at their times, in seconds after the start."""

    url = "x"

    def __init__(self, clock: Clock, *frames: tuple[float, Frame]) -> None:
        self.clock, self.frames = clock, list(frames)
        self.start = clock.now
        self.sent: list[tuple[float, Frame]] = []
        self.received_bytes = self.bad_frames = 0

    def send(self, frame: Frame) -> None:
        self.sent.append((self.clock.now - self.start, frame))

    def receive(self, timeout_s: float) -> list[Frame]:
        assert timeout_s > 0
        end = self.clock.now + timeout_s
        due = [one for at, one in self.frames if self.start + at <= end]
        self.clock.now = end
        del self.frames[: len(due)]
        return due


def event(code: Event, **fields: Any) -> Frame:
    return Frame(0, 0, Kind.EVENT, code, protocol.EVENTS[code].build(fields))


def an_inference(number: int = 1, tensors: int = 0) -> list[Frame]:
    return [
        event(Event.TAP_BEGIN, run=number, name=b"m"),
        event(Event.TAP_END, run=number, tensors=tensors),
    ]


def reply(kind: int = Kind.REPLY, code: int = Command.TAP_SELECT) -> Frame:
    return Frame(1, 1, kind, code, b"\0")


def test_layers_are_chosen_once_the_firmware_answers(clock: Clock) -> None:
    others = (1.2, reply(code=Command.ECHO)), (1.3, reply(Kind.EVENT))
    link: Any = Made(clock, *others, (1.7, reply()))
    assert select_layers(link, 3, 2)
    assert [at for at, _ in link.sent] == pytest.approx([0, 0.5, 1.0, 1.5], abs=0.2)
    frame = link.sent[0][1]
    assert (frame.kind, frame.code) == (Kind.REQUEST, Command.TAP_SELECT)
    assert (frame.session, frame.seq) == (1, 1)
    fields = protocol.REQUESTS[Command.TAP_SELECT].parse(frame.payload)
    assert (fields.first, fields.count) == (3, 2)
    assert clock.now - link.start == pytest.approx(1.7, abs=0.06)


def test_silent_firmware_has_no_layers_to_choose(clock: Clock) -> None:
    link: Any = Made(clock)
    assert not select_layers(link, 0, 0)
    assert len(link.sent) == pytest.approx(10, abs=1)
    assert clock.now - link.start == pytest.approx(5.0, abs=0.6)


def test_each_inference_gives_more_time(clock: Clock) -> None:
    frames = [(at, frame) for at in (1.5, 3.0) for frame in an_inference(int(at))]
    link: Any = Made(clock, *frames)
    runs = tapped_runs(link, 2.0)
    assert [next(runs).model for _ in range(2)] == ["m", "m"]
    with pytest.raises(LinkError, match=r"no inference was tapped at x within 2 s"):
        next(runs)
    # Two seconds after the second one arrived.
    assert clock.now - link.start == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("frames", "received", "fact", "hint"),
    [
        ([], 0, "no inference was tapped at x within 1 s", "check the port"),
        ([], 70, "70 bytes arrived, 3 of their frames were damaged", "check the baud rate"),
        (an_inference(tensors=2) * 2, 70, r"of each a part was lost \(2\)", "lower the baud rate"),
    ],
)
def test_why_nothing_was_tapped(
    clock: Clock, frames: list[Frame], received: int, fact: str, hint: str
) -> None:
    link: Any = Made(clock, *((0.1, frame) for frame in frames))
    link.received_bytes, link.bad_frames = received, 3
    with pytest.raises(LinkError, match=fact) as caught:
        next(tapped_runs(link, 1.0))
    assert caught.value.hint.startswith(hint)
    assert clock.now - link.start == pytest.approx(1.0)


def test_incomplete_inferences_are_counted() -> None:
    reader = TapReader()
    begin, end = an_inference()
    assert reader.add(begin) is None
    assert reader.dropped == 0
    assert reader.add(an_inference(2)[0]) is None  # without the end of the one before
    assert reader.dropped == 1
    assert reader.add(end) is None  # of the one before
    run = reader.add(an_inference(2)[1])
    assert run is not None
    assert run.tensors == ()
    assert reader.add(an_inference(2)[1]) is None
    for frame in an_inference(3, tensors=1):
        assert reader.add(frame) is None
    assert reader.dropped == 2
    for other in (
        SimpleNamespace(kind=Kind.REPLY, code=Event.TAP_BEGIN, payload=begin.payload),
        SimpleNamespace(kind=Kind.EVENT, code=Event.LOG, payload=begin.payload),
        SimpleNamespace(kind=Kind.EVENT, code=Event.TAP_BEGIN, payload=b""),
    ):
        assert reader.add(other) is None  # type: ignore[arg-type]


def test_an_inference_keeps_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all its tensors together, the last one included."""
    monkeypatch.setattr(taps, "_RUN_BYTES_MAX", 10)
    for sizes, kept in (((6, 4), 2), ((6, 5), 1), ((11,), 0), ((10,), 1)):
        reader = TapReader()
        reader.add(event(Event.TAP_BEGIN, run=1, name=b"m"))
        for index, size in enumerate(sizes):
            place = {"run": 1, "list": 0, "layer": 0, "index": index}
            data = bytes(size)
            tensor = {"dtype": 0, "nbytes": size, "crc": zlib.crc32(data), "sent": 1, "name": b"t"}
            reader.add(event(Event.TAP_TENSOR, **place, **tensor))
            reader.add(event(Event.TAP_DATA, **place, offset=0, data=data))
        run = reader.add(event(Event.TAP_END, run=1, tensors=len(sizes)))
        assert run is not None
        assert sum(tensor.data is not None for tensor in run.tensors) == kept


def test_an_inference_has_so_many_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one with more, what comes beyond is missing."""
    monkeypatch.setattr(taps, "ENTRIES_MAX", 2)
    for count in (2, 3):
        reader = TapReader()
        reader.add(event(Event.TAP_BEGIN, run=1, name=b"m"))
        for index in range(count):
            place = {"run": 1, "list": 0, "layer": 0, "index": index}
            tensor = {"dtype": 0, "nbytes": 1, "crc": 0, "sent": 0, "name": b"t"}
            reader.add(event(Event.TAP_TENSOR, **place, **tensor))
        run = reader.add(event(Event.TAP_END, run=1, tensors=count))
        assert (run is not None) == (count == 2)
        assert reader.dropped == (count != 2)
