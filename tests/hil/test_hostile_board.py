"""A board that lies: each lie is one error of the one root, in bounded time and memory."""

from __future__ import annotations

import struct
import time
import tracemalloc
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from typing import Any

import hostile_sessions
import numpy as np
import pytest
from campaigns import sampled
from construct import Container
from hostile_board import BUILD_ID, Clock, HostileBoard, made_up_time
from hostile_sessions import FLOODS, endless
from waiting import PATIENCE_S

from hil.device import Device
from hil.errors import DeviceError, LinkError
from hil.link import protocol
from hil.link.client import RUN_TIMEOUT_S, Client
from hil.link.codec import Frame, encode
from hil.link.line import Link
from hil.link.protocol import Command, Event, Status, Tensors
from hil.link.tensors import TensorRef

#: No lie may hold the host longer than its longest single wait and what an operation may take.
LONGEST_S = RUN_TIMEOUT_S + 70
MOST_BYTES = 8 << 20


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return made_up_time(monkeypatch)


def session(board: HostileBoard) -> None:
    """All that a host asks of a board."""
    with closing(Link("memory://", line=board)) as link:
        client = Client(link, build_id=BUILD_ID.decode())
        device = Device(client, [])
        assert device.echo(b"some bytes" * 50) == b"some bytes" * 50
        device.memory()
        for model in device.models.values():
            for tensor in model.inputs:
                model.set_input(tensor.name, np.zeros(tensor.shape, tensor.dtype))
            device.count(model.run().ticks)
            for tensor in model.outputs:
                model.get_output(tensor.name)
            for _ in model.layer_outputs():
                pass
            model.profile()
            model.metadata()
        for function in device.functions():
            device.call(function, 1, 2.0, "text", None)
        device.reset()


def test_an_honest_board_is_believed(clock: Clock) -> None:
    before = clock.now
    session(HostileBoard(clock))
    assert clock.now - before < 2


def changed(command: Command, **fields: Any) -> Callable[[Frame, Frame], list[Frame | bytes]]:
    """A lie: replies to ``command`` with other values in these fields."""

    def lie(request: Frame, reply: Frame) -> list[Frame | bytes]:
        if request.code != command or reply.payload[:1] != bytes((Status.OK,)):
            return [reply]
        values = protocol.REPLIES[command].parse(reply.payload)
        payload = protocol.REPLIES[command].build(Container(values) | fields)
        return [replace(reply, payload=payload)]

    return lie


def payload(command: Command, data: bytes) -> Callable[[Frame, Frame], list[Frame | bytes]]:
    """A lie: another payload."""
    return lambda request, reply: [
        replace(reply, payload=data) if request.code == command else reply
    ]


LIES: dict[str, tuple[Callable[[Frame, Frame], Iterable[Frame | bytes]], str]] = {
    "no layer was measured": (changed(Command.RUN_LAYERS, ticks=[]), "ticks of 0 layers"),
    "too many were": (changed(Command.RUN_LAYERS, ticks=[1] * 20), "ticks of 20 layers"),
    **{
        f"frames of {size} bytes": (changed(Command.HELLO, frame_max=size), "reply with frames")
        for size in (*range(16), 127)
    },
    "no window": (changed(Command.HELLO, window=0), "a window of 0 bytes"),
    "no time": (changed(Command.HELLO, ticks_hz=0), "time base of 0 Hz"),
    "another version": (changed(Command.HELLO, version=9), "speaks protocol version 9"),
    "a build id that is none": (changed(Command.HELLO, build_id=b"\xff" * 32), "the build id"),
    "a board that moves the cursor": (changed(Command.HELLO, board=b"\x1b[2J"), "board's name"),
    "a nameless board": (changed(Command.HELLO, board=b""), "board's name"),
    "a name that is no text": (changed(Command.HELLO, board=b"\xff\xfe"), "is not UTF-8"),
    "a mask of nothing": (changed(Command.HELLO, commands=0), "command mask 0x0"),
    "a mask that denies a command": (
        changed(Command.HELLO, commands=0x1FFFE & ~(1 << Command.READ)),
        "does not answer READ: its handshake does not list the command",
    ),
    "a mask that denies the answer that it is": (
        changed(Command.HELLO, commands=0x1FFFC), "command mask 0x1fffc"
    ),
    "a mask that promises": (
        payload(Command.FUNCTION_INFO, protocol.ERROR.build({"status": 4, "detail": 12})),
        "refused FUNCTION_INFO: the firmware does not know command 12",
    ),
    "too few bytes": (changed(Command.READ, data=b""), "0 bytes to a READ of 6"),
    "too many bytes": (changed(Command.READ, data=bytes(7)), "7 bytes to a READ of 6"),
    "another echo": (changed(Command.ECHO, data=b"other bytes"), "bytes that differ from"),
    "too many dimensions": (changed(Command.TENSOR_INFO, ndim=255), "tensor of 255 dimensions"),
    "a tensor of 4 GiB": (changed(Command.TENSOR_INFO, nbytes=0xFFFFFFFF), "in 4294967295 bytes"),
    "a tensor of 1 GiB, consistent": (
        changed(
            Command.TENSOR_INFO,
            nbytes=1 << 30,
            name_length=0,
            shape_and_name=struct.pack("<2i", 1 << 15, 1 << 15),
        ),
        "at most 67108864 are expected",
    ),
    "a negative side": (
        changed(Command.TENSOR_INFO, name_length=0, shape_and_name=struct.pack("<2i", -2, -3)),
        r"int8\[-2, -3\]",
    ),
    "a type that is none": (changed(Command.TENSOR_INFO, dtype=77), "unknown type 77"),
    "65,535 layers": (changed(Command.MODEL_INFO, layers=0xFFFF), "65535 layers"),
    "255 outputs a layer": (
        lambda request, reply: changed(Command.LAYER_INFO, outputs=255)(
            request, changed(Command.MODEL_INFO, layers=4000)(request, reply)[0]  # type: ignore[arg-type]
        ),
        "refused TENSOR_INFO",
    ),
    "a model without a name": (changed(Command.MODEL_INFO, name=b"", name_length=0), "called ''"),
    "a name that never ends": (changed(Command.MODEL_INFO, name_length=0xFFFF), "of 65535, from"),
    "a name in bits": (changed(Command.MODEL_INFO, name=b"m"), "1 bytes of a MODEL_INFO name"),
    "255 models of one name": (changed(Command.HELLO, models=255), "two models called 'model'"),
    "more stack than there is": (changed(Command.MEMORY, stack_peak_bytes=5000), "5000 of 4096"),
    "65,535 functions": (changed(Command.FUNCTION_INFO, functions=0xFFFF), "function 0 of 65535"),
    "no function, by number": (changed(Command.FUNCTION_INFO, functions=0), "function 0 of 0"),
    "65,535 constants": (changed(Command.METADATA_INFO, constants=0xFFFF), "65535 constants"),
    "metadata of no type": (changed(Command.METADATA_TENSOR, code=99), "is not a DLPack type"),
    "a constant before the first": (changed(Command.METADATA_CONSTANT, byte_offset=-1), "at -1"),
    "a result with a text": (changed(Command.CALL, text=b"abc"), "a text with a CALL's result"),
    "a reply of nothing": (payload(Command.RUN, b""), "a RUN reply of 0 bytes"),
    "a reply cut off": (payload(Command.RUN, bytes(5)), "a RUN reply of 5 bytes"),
    "a reply with more": (payload(Command.RUN, bytes(10)), "a RUN reply of 10 bytes"),
    "a status that is none": (payload(Command.RUN, b"\xee\1\0\0\0"), r"status 238 \(1\)"),
    "half an error": (payload(Command.RUN, b"\2\0"), "a RUN reply of 2 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_lie_is_one_error(clock: Clock, name: str) -> None:
    lie, message = LIES[name]
    before = clock.now
    with pytest.raises(DeviceError, match=message) as caught:
        session(HostileBoard(clock, lie))
    assert caught.value.exit_code == 4
    assert clock.now - before < 20


def test_a_tensor_s_size_is_no_reason_for_memory(clock: Clock) -> None:
    """What is read grows as it comes, not as it is announced."""
    board = HostileBoard(clock, lambda request, reply: [reply] if request.code != 9 else [])
    with closing(Link("memory://", line=board)) as link:
        client = Client(link)
        tracemalloc.start()
        with pytest.raises(LinkError, match="no answer to READ"):
            client.read(TensorRef(0, Tensors.INPUT, 0), 1 << 31)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 1 << 20


# -- what never ends ----------------------------------------------------------------------------


SILENT_AT = (Command.HELLO, Command.ECHO, Command.RUN)


@pytest.mark.parametrize(
    "command", sampled(SILENT_AT, keep=[Command.RUN]), ids=lambda command: command.name
)
@pytest.mark.parametrize("what", FLOODS)
def test_flood_instead_of_an_answer(clock: Clock, what: str, command: Command) -> None:
    board = HostileBoard(clock, byte_s=4e-4)
    flood = endless(board, what)

    def lie(request: Frame, reply: Frame) -> list[Frame | bytes]:
        if request.code != command:
            return [reply]
        board.unasked = flood
        return []

    board.lie = lie
    before, start = clock.now, time.process_time()
    tracemalloc.start()
    with pytest.raises(DeviceError):
        session(board)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert clock.now - before < LONGEST_S
    assert peak < MOST_BYTES
    assert time.process_time() - start < PATIENCE_S


# -- a board that starts again, and others on the line ------------------------------------------


@pytest.mark.parametrize("replies", ["before it answers", "after it answered"])
def test_a_restart_at_any_stage_is_told(clock: Clock, replies: str) -> None:
    """The board forgets the session at its first request, its second, and so on."""
    count = [0]

    def counting(request: Frame, reply: Frame) -> list[Frame | bytes]:
        count[0] += 1
        return [reply]

    session(HostileBoard(clock, counting))
    for stage in range(2, count[0]):
        board, seen = HostileBoard(clock), [0]

        def restarting(
            request: Frame,
            reply: Frame,
            board: HostileBoard = board,
            seen: list[int] = seen,
            stage: int = stage,
        ) -> list[Frame | bytes]:
            seen[0] += 1
            if seen[0] != stage:
                return [reply]
            board.session = 0
            boot = board.event(Event.BOOT, bytes((protocol.VERSION,)))
            return [boot] if replies == "before it answers" else [reply, boot]

        board.lie = restarting
        before = clock.now
        # The last requests restart it and shake hands: a restart is what they ask for.
        try:
            session(board)
        except DeviceError as error:
            told = str(error)
        else:
            told = "restarted by itself" if stage >= count[0] - 2 else ""
        assert "restarted by itself" in told, (stage, told)
        assert clock.now - before < 10


def test_another_host_takes_over(clock: Clock) -> None:
    board = HostileBoard(clock)

    def taken(request: Frame, reply: Frame) -> list[Frame | bytes]:
        if request.code == Command.RUN and board.session == request.session:
            board.session = 0x7777
            return []
        return [reply]

    board.lie = taken
    with pytest.raises(LinkError, match="another program took over the board"):
        session(board)


# -- a board that is busy --------------------------------------------------------------------------


def _busy_board(clock: Clock, busy_s: float) -> HostileBoard:
    """In a run of an earlier session, of which it says BUSY each second, for so long."""
    board = HostileBoard(clock)
    end, said = clock.now + busy_s, [clock.now]

    def unasked() -> bytes:
        if clock.now >= end or clock.now < said[0] + 1:
            return b""
        said[0] = clock.now
        data = protocol.EVENTS[Event.BUSY].build({"done": 17, "total": 1000})
        return encode(board.event(Event.BUSY, data))

    board.unasked = unasked
    board.lie = lambda request, reply: [reply] if clock.now >= end else []
    return board


def test_a_busy_board_is_waited_for(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    session(_busy_board(clock, 20))
    assert "the board is busy with a run; waiting for it for up to 60 s" in caplog.text


def test_a_board_that_stays_busy_is_told_to_be(clock: Clock) -> None:
    before = clock.now
    with pytest.raises(LinkError) as caught:
        session(_busy_board(clock, 1e9))
    assert "is busy with a run (17 of 1000 repetitions or layers done)" in caught.value.fact
    assert "wait until the run has ended, or reset the board" in caught.value.hint
    assert 60 <= clock.now - before < 65


def test_frames_that_are_no_answer_are_told_to_be(clock: Clock) -> None:
    board = HostileBoard(clock, lambda request, reply: [replace(reply, seq=reply.seq ^ 1)])
    with pytest.raises(LinkError, match="frames of this protocol arrived, but no answer"):
        session(board)


# -- everything at random -----------------------------------------------------------------------


def test_sessions_of_every_attack(capsys: pytest.CaptureFixture[str]) -> None:
    """A sample of ``python tools/measure.py torture host``."""
    start = time.process_time()
    with hostile_sessions.arena() as arena:
        outcomes = [arena.one(seed=1, number=number) for number in range(600)]
    seconds = time.process_time() - start
    with capsys.disabled():
        print(f"[{len(outcomes)} sessions in {seconds:.1f} s] ", end="")
    assert not [outcome for outcome in outcomes if outcome.finding]
    assert {outcome.attack for outcome in outcomes} == set(hostile_sessions.ATTACKS)
    assert sum(bool(outcome.error) for outcome in outcomes) > 100


def test_a_session_is_what_its_number_says() -> None:
    with hostile_sessions.arena() as arena:
        first = [arena.one(seed=3, number=number) for number in range(40)]
        again = [arena.one(seed=3, number=number) for number in reversed(range(40))]
    assert [replace(one, cpu_s=0) for one in first] == [
        replace(one, cpu_s=0) for one in reversed(again)
    ]


def test_late_answers_give_no_more_time() -> None:
    """A board that is slower than any line, and answers each repetition, is given up."""
    clock_limit_s = 70
    with hostile_sessions.arena() as arena:
        outcome = arena.one(seed=1, number=1359)
    assert outcome.attack == "drip"
    assert outcome.error == "LinkError"
    assert outcome.waited_s < clock_limit_s + LONGEST_S
