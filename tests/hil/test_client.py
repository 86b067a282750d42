"""The client against the real server in C, over pseudo-terminals and through bad weather."""

from __future__ import annotations

import os
import pty
import random
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
import serial
import serial.rfc2217
from campaigns import cases, sampled
from lossy_proxy import Weather, proxy
from rpc_board import RPC_SOURCES, BoardProcess, board_program, compile_program, running_board
from waiting import PATIENCE_S, is_under_way, until

from hil.errors import DeviceError, HangError, InputError, LinkError
from hil.link import protocol
from hil.link.client import Client
from hil.link.codec import Decoder, Frame, encode
from hil.link.fault import FaultError
from hil.link.header import header_text
from hil.link.line import Link
from hil.link.protocol import Command, Event, Fault, Kind, Status, Tensors
from hil.link.replies import NotInFirmwareError
from hil.link.tensors import TensorRef

A = TensorRef(0, Tensors.INPUT, 0)
B = TensorRef(0, Tensors.INPUT, 1)
SUM = TensorRef(0, Tensors.OUTPUT, 0)
RUNS = TensorRef(0, Tensors.OUTPUT, 1)
COPY_IN = TensorRef(1, Tensors.INPUT, 0)
COPY_OUT = TensorRef(1, Tensors.OUTPUT, 0)
ACTION = TensorRef(2, Tensors.INPUT, 0)
COPY_BYTES = 100_000
ACT_FAIL, ACT_SLEEP, ACT_LOG, ACT_FAULT, ACT_NOISE, ACT_EXIT = range(1, 7)

MISHAPS = {
    "loss": Weather(lost=0.15),
    "damage": Weather(flipped=0.1, shortened=0.1),
    "duplicates": Weather(doubled=0.4),
    "noise": Weather(noise=0.5),
    "delay": Weather(delay_s=0.02),
    "cut": Weather(cut=0.1),
    "swapped": Weather(swapped=0.1),
    "noisy": Weather(per_byte=3e-3),
    "everything": Weather(0.05, 0.05, 0.05, 0.1, 0.1, 0.005),
}


@contextmanager
def connected(url: str, **options: object) -> Iterator[Client]:
    link = Link(url)
    with closing(link):
        yield Client(link, **options)  # type: ignore[arg-type]


@pytest.fixture
def client(board: BoardProcess) -> Iterator[Client]:
    with connected(board.url) as connection:
        yield connection


def ints(*values: int) -> bytes:
    return np.array(values, "<i4").tobytes()


def runs(client: Client) -> int:
    return int.from_bytes(client.read(RUNS, 4), "little")


def act(client: Client, action: int, argument: int = 0) -> None:
    client.write(ACTION, ints(action, argument))


def add(client: Client, first: int, second: int) -> list[int]:
    client.write(A, ints(*[first] * 4))
    client.write(B, ints(*[second] * 4))
    client.run(0)
    return list(np.frombuffer(client.read(SUM, 16), "<i4"))


# -- what works --------------------------------------------------------------------------------


@pytest.mark.full
@cases("frame_max", [128, 256, 4096], first=1)
def test_everything_with_frames_of_each_size(frame_max: int) -> None:
    with running_board(frame_max, 2 * frame_max) as board, connected(board.url) as client:
        hello = client.hello
        assert (hello.board, hello.protocol, hello.models) == ("rpc-board", protocol.VERSION, 3)
        assert (hello.frame_max, hello.window) == (frame_max, 2 * frame_max)
        assert hello.build_id == "0123456789abcdef0123456789abcdef"
        infos = [client.model_info(index) for index in range(3)]
        assert [(i.name, i.inputs, i.outputs, i.layers) for i in infos] == [
            ("adder", 2, 2, 2),
            ("copier", 1, 1, 0),
            ("actor", 1, 1, 18),
        ]
        tensor = client.tensor_info(COPY_IN)
        assert tensor.name == "twenty characters...." * 10 + "."
        assert (tensor.shape, tensor.dtype, tensor.nbytes) == ((100, 1000), "uint8", COPY_BYTES)
        assert client.layer_info(0, 1) == ("double", 1)
        assert add(client, 20, 3) == [46] * 4
        assert len(client.run_layers(2, 0, 18)) == 18
        assert runs(client) == 1 + 18
        data = random.Random(1).randbytes(COPY_BYTES)
        client.write(COPY_IN, data)
        client.run(1)
        assert client.read(COPY_OUT, COPY_BYTES) == data
        assert client.read(TensorRef(0, Tensors.LAYER_OUTPUT, 0, 1), 16) == ints(*[46] * 4)
        memory = client.memory()
        assert (memory.stack_bytes, memory.stack_peak_bytes) == (4096, 1234)
        assert memory.rx_bytes == 2 * frame_max
        assert client.repeated == client.link.bad_frames == memory.bad_frames == 0


def test_run_measures_all_repetitions(client: Client) -> None:
    most_ns = PATIENCE_S * 1e9
    act(client, ACT_SLEEP, 20)
    assert 60e6 <= client.run(2, repeat=3) < most_ns
    assert runs(client) == 3
    first, second = client.run_layers(2, 3, 2)
    assert 20e6 <= first < most_ns
    assert 20e6 <= second < most_ns


def test_layers_run_one_by_one(client: Client) -> None:
    client.write(A, ints(1, 2, 3, 4))
    client.write(B, ints(10, 10, 10, 10))
    client.run_layers(0, 0, 1)
    assert client.read(SUM, 16) == ints(11, 12, 13, 14)
    client.run_layers(0, 1, 1)
    assert client.read(SUM, 16) == ints(22, 24, 26, 28)


def test_log_and_noise(client: Client) -> None:
    heard: list[str] = []
    client.on_log = heard.append
    act(client, ACT_LOG)
    client.run(2)
    assert heard == ["short", "twenty characters...." * 10 + ".", ""]
    act(client, ACT_NOISE)
    client.run(2)
    assert client.link.bad_frames == 2
    assert client.link.skipped_bytes == 21


def test_echo_throughput(board: BoardProcess, capsys: pytest.CaptureFixture[str]) -> None:
    data = random.Random(0).randbytes(200_000)
    with connected(board.url) as client:
        start = time.monotonic()
        assert client.echo(data) == data
        rate = len(data) / (time.monotonic() - start)
    with capsys.disabled():
        print(f"[echo over a terminal, 512-byte frames: {rate / 1000:.0f} KB/s each way] ", end="")


def test_reset_restarts_the_firmware(client: Client) -> None:
    add(client, 1, 1)
    session = client._session
    client.reset()
    assert runs(client) == 0
    assert client._session != session


# -- other lines than a terminal -----------------------------------------------------------------


def test_spy_url(board: BoardProcess, tmp_path: os.PathLike[str]) -> None:
    log = os.path.join(tmp_path, "spy.txt")
    with connected(f"spy://{board.url}?file={log}") as client:
        assert add(client, 1, 2) == [6] * 4
    with open(log) as file:
        text = file.read()
    assert "TX" in text
    assert "RX" in text


def test_loop_url_hears_only_itself() -> None:
    with closing(Link("loop://")) as link:
        frame = Frame(1, 2, Kind.REQUEST, Command.ECHO, b"abc")
        link.send(frame)
        assert link.receive(1.0) == [frame]
        with pytest.raises(LinkError, match="no answer"):
            Client(link, timeout_s=0.3)


class _Terminal(serial.Serial):  # type: ignore[misc]
    """A pseudo-terminal has no modem lines to ask for."""

    cts = dsr = ri = cd = property(lambda self: True)

    def _update_dtr_state(self) -> None: ...
    def _update_rts_state(self) -> None: ...
    def _update_break_state(self) -> None: ...


def _serve_rfc2217(listener: socket.socket, path: str, stop: threading.Event) -> None:
    """A minimal RFC 2217 server: Telnet to a serial port."""
    line = _Terminal(path, timeout=0.01)
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(0.01)

        class Writer:
            def write(self, data: bytes) -> None:
                connection.sendall(data)

        manager = serial.rfc2217.PortManager(line, Writer())
        while not stop.is_set():
            data = line.read(line.in_waiting or 1)
            if data:
                connection.sendall(b"".join(manager.escape(data)))
            try:
                received = connection.recv(4096)
            except TimeoutError:
                continue
            if not received:
                break
            line.write(b"".join(manager.filter(received)))
    line.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning:serial.rfc2217")
def test_rfc2217_url(board: BoardProcess) -> None:
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=_serve_rfc2217, args=(listener, board.url, stop))
        server.start()
        try:
            with connected(f"rfc2217://127.0.0.1:{listener.getsockname()[1]}") as client:
                # Every value of a byte, so that Telnet's own 255 is among them.
                assert client.echo(bytes(range(256))) == bytes(range(256))
                assert add(client, 3, 4) == [14] * 4
        finally:
            stop.set()
            server.join()


# -- bad weather ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sampled(MISHAPS, keep=["cut", "swapped", "noisy", "everything"]))
def test_right_results_on_a_noisy_line(board: BoardProcess, name: str) -> None:
    rounds, weather = 6, MISHAPS[name]
    with (
        proxy(board.url, weather) as line,
        connected(line.url, timeout_s=15, run_retry_s=0.2, busy_retry_s=0.2) as client,
    ):
        for number in range(1, rounds + 1):
            assert add(client, number, 100) == [2 * (number + 100)] * 4
            assert runs(client) == number
        data = random.Random(2).randbytes(4000)
        client.write(COPY_IN, data)
        client.run(1)
        assert client.read(COPY_OUT, len(data)) == data
        assert client.echo(data) == data
        assert len(client.run_layers(2, 0, 18)) == 18
        assert runs(client) == rounds + 18
    if weather.lost or weather.flipped:
        assert client.repeated > 0  # else the weather was fine, and nothing is shown


@pytest.mark.parametrize("lost", [Kind.REPLY, Kind.EVENT])
def test_lost_answer_to_a_run_does_not_run_again(board: BoardProcess, lost: Kind) -> None:
    seen: list[Frame] = []

    def lose_the_first(wire: bytes) -> bytes:
        (frame,) = Decoder().feed(wire)
        assert isinstance(frame, Frame)
        is_it = frame.kind == lost and frame.code in (Command.RUN, Event.BUSY)
        if is_it:
            seen.append(frame)
        return b"" if is_it and len(seen) == 1 else wire

    with (
        proxy(board.url, to_host=lose_the_first) as line,
        connected(line.url, busy_retry_s=0.1) as client,
    ):
        assert add(client, 1, 2) == [6] * 4
        assert runs(client) == 1
    assert len(seen) == (2 if lost == Kind.REPLY else 1)


def test_window_is_never_exceeded(board: BoardProcess) -> None:
    """As seen on the line: bytes of requests that the board has not answered yet."""
    lock = threading.Lock()
    under_way: dict[int, int] = {}
    most = [0, 0]

    def request(wire: bytes) -> bytes:
        (frame,) = Decoder().feed(wire)
        assert isinstance(frame, Frame)
        with lock:
            under_way[frame.seq] = len(wire)
            most[0] = max(most[0], sum(under_way.values()))
            most[1] = max(most[1], len(under_way))
        return wire

    def answer(wire: bytes) -> bytes:
        (frame,) = Decoder().feed(wire)
        assert isinstance(frame, Frame)
        with lock:
            under_way.pop(frame.seq, None)
        return wire

    data = random.Random(3).randbytes(20_000)
    with (
        proxy(board.url, to_board=request, to_host=answer) as line,
        connected(line.url) as client,
    ):
        client.write(COPY_IN, data)
        client.run(1)
        assert client.read(COPY_OUT, len(data)) == data
        assert most[0] <= client.hello.window
    assert most[1] > 1  # several were under way


# -- the server, frame by frame ----------------------------------------------------------------


class Raw:
    """Single frames to and from the board, in a session of one's own."""

    def __init__(self, url: str) -> None:
        self.link = Link(url)
        self.session = 0x1111
        self.seq = 100

    def hello(self, session: int = 0x1111) -> Frame:
        self.session = session
        payload = build(Command.HELLO, version=protocol.VERSION, frame_max=0xFFFF)
        return self.ask(Command.HELLO, payload)

    def ask(self, command: int, payload: bytes, *, seq: int | None = None) -> Frame:
        if seq is None:
            self.seq += 1
        frame = Frame(
            self.session, self.seq if seq is None else seq, Kind.REQUEST, command, payload
        )
        self.link.send(frame)
        return self.reply(frame)

    def reply(self, request: Frame) -> Frame:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for frame in self.link.receive(0.2):
                if frame.kind == Kind.REPLY and frame.seq == request.seq:
                    assert (frame.session, frame.code) == (request.session, request.code)
                    return frame
        raise AssertionError(f"no reply to {request}")


@pytest.fixture
def raw(board: BoardProcess) -> Iterator[Raw]:
    line = Raw(board.url)
    with closing(line.link):
        yield line


def error(frame: Frame) -> tuple[Status, int]:
    reply = protocol.ERROR.parse(frame.payload)
    return Status(reply.status), reply.detail


def build(command: Command, **fields: object) -> bytes:
    payload = protocol.REQUESTS[command].build(fields)
    assert isinstance(payload, bytes)
    return payload


@pytest.fixture(autouse=True, scope="module")
def _compiled() -> None:
    """Before the first deadline starts."""
    board_program()


def _tensor(model: int, tensors: int, index: int, layer: int = 0) -> dict[str, int]:
    return {"model": model, "list": tensors, "layer": layer, "index": index}


REFUSALS: dict[str, tuple[int, bytes, tuple[Status, int]]] = {
    "unknown command": (99, b"", (Status.UNKNOWN_COMMAND, 99)),
    "command 0": (0, b"", (Status.UNKNOWN_COMMAND, 0)),
    "too short": (Command.RUN, b"\0", (Status.BAD_LENGTH, 5)),
    "too long": (Command.MEMORY, b"\0", (Status.BAD_LENGTH, 0)),
    "write without a place": (Command.WRITE, b"\0" * 8, (Status.BAD_LENGTH, 9)),
    "no such model": (Command.RUN, build(Command.RUN, model=3, repeat=1), (Status.BAD_MODEL, 3)),
    "no model to describe": (
        Command.MODEL_INFO,
        build(Command.MODEL_INFO, model=255, name_offset=0),
        (Status.BAD_MODEL, 3),
    ),
    "no such input": (
        Command.TENSOR_INFO,
        build(Command.TENSOR_INFO, **_tensor(0, Tensors.INPUT, 2), name_offset=0),
        (Status.BAD_TENSOR, 2),
    ),
    "no such list": (
        Command.TENSOR_INFO,
        build(Command.TENSOR_INFO, **_tensor(0, 3, 0), name_offset=0),
        (Status.BAD_TENSOR, 0),
    ),
    "no such layer": (
        Command.READ,
        build(Command.READ, **_tensor(0, Tensors.LAYER_OUTPUT, 0, 2), offset=0, length=1),
        (Status.BAD_LAYER, 2),
    ),
    "no layers at all": (
        Command.LAYER_INFO,
        build(Command.LAYER_INFO, model=1, layer=0, name_offset=0),
        (Status.BAD_LAYER, 0),
    ),
    "layers beyond the last": (
        Command.RUN_LAYERS,
        build(Command.RUN_LAYERS, model=0, first=1, count=2),
        (Status.BAD_LAYER, 2),
    ),
    "layers far beyond": (
        Command.RUN_LAYERS,
        build(Command.RUN_LAYERS, model=0, first=65535, count=65535),
        (Status.BAD_LAYER, 2),
    ),
    "write to an output": (
        Command.WRITE,
        build(Command.WRITE, **_tensor(0, Tensors.OUTPUT, 0), offset=0, data=b"\0"),
        (Status.BAD_TENSOR, 0),
    ),
    "write past the end": (
        Command.WRITE,
        build(Command.WRITE, **_tensor(0, Tensors.INPUT, 0), offset=15, data=b"ab"),
        (Status.BAD_RANGE, 16),
    ),
    "write far past the end": (
        Command.WRITE,
        build(Command.WRITE, **_tensor(0, Tensors.INPUT, 0), offset=0xFFFFFFFF, data=b"ab"),
        (Status.BAD_RANGE, 16),
    ),
    "read past the end": (
        Command.READ,
        build(Command.READ, **_tensor(0, Tensors.OUTPUT, 0), offset=16, length=1),
        (Status.BAD_RANGE, 16),
    ),
    "read more than a frame": (
        Command.READ,
        build(Command.READ, **_tensor(1, Tensors.OUTPUT, 0), offset=0, length=498),
        (Status.TOO_BIG, 497),
    ),
    "echo more than an answer": (
        Command.ECHO,
        b"\1" * 498,
        (Status.TOO_BIG, 497),
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refused_request(raw: Raw, name: str) -> None:
    command, payload, expected = REFUSALS[name]
    raw.hello()
    assert error(raw.ask(command, payload)) == expected
    assert raw.ask(Command.MEMORY, b"").payload[0] == Status.OK


def test_requests_at_the_limits_are_served(raw: Raw) -> None:
    raw.hello()
    read = build(Command.READ, **_tensor(1, Tensors.OUTPUT, 0), offset=COPY_BYTES - 497, length=497)
    assert len(raw.ask(Command.READ, read).payload) == 498
    assert raw.ask(Command.ECHO, b"\1" * 497).payload == b"\0" + b"\1" * 497
    nothing = build(Command.READ, **_tensor(0, Tensors.OUTPUT, 0), offset=16, length=0)
    assert raw.ask(Command.READ, nothing).payload == b"\0"


def test_nothing_is_executed_before_hello(raw: Raw) -> None:
    run = build(Command.RUN, model=0, repeat=1)
    assert error(raw.ask(Command.RUN, run)) == (Status.STALE, 0)
    raw.session = 0
    assert error(raw.ask(Command.RUN, run)) == (Status.STALE, 0)
    hello = build(Command.HELLO, version=protocol.VERSION, frame_max=512)
    assert error(raw.ask(Command.HELLO, hello)) == (Status.STALE, 0)
    raw.hello()
    assert _run_count(raw) == 0


def _run_count(raw: Raw) -> int:
    read = build(Command.READ, **_tensor(0, Tensors.OUTPUT, 1), offset=0, length=4)
    return int.from_bytes(raw.ask(Command.READ, read).payload[1:], "little")


def test_repeated_request_is_not_executed_twice(raw: Raw) -> None:
    raw.hello()
    run = build(Command.RUN, model=0, repeat=1)
    first = raw.ask(Command.RUN, run)
    for _ in range(3):
        assert raw.ask(Command.RUN, run, seq=raw.seq) == first  # even the measured ticks
    assert _run_count(raw) == 1


def test_delayed_duplicates_are_not_executed(raw: Raw) -> None:
    raw.hello()
    run = build(Command.RUN, model=0, repeat=1)
    raw.ask(Command.RUN, run)
    old = raw.seq
    raw.ask(Command.MEMORY, b"")
    assert error(raw.ask(Command.RUN, run, seq=old)) == (Status.REPEATED, old + 1)
    hello = build(Command.HELLO, version=protocol.VERSION, frame_max=0xFFFF)
    assert error(raw.ask(Command.HELLO, hello, seq=old - 1)) == (Status.REPEATED, old + 1)
    assert _run_count(raw) == 1


def test_refusals_do_not_replace_the_kept_answer(raw: Raw) -> None:
    raw.hello()
    run = build(Command.RUN, model=0, repeat=1)
    first = raw.ask(Command.RUN, run)
    seq = raw.seq
    assert error(raw.ask(Command.RUN, run, seq=seq - 1))[0] == Status.REPEATED
    raw.session = 0x2222
    assert error(raw.ask(Command.RUN, run, seq=seq + 1)) == (Status.STALE, 0x1111)
    old_version = build(Command.HELLO, version=protocol.VERSION + 5, frame_max=512)
    assert error(raw.ask(Command.HELLO, old_version)) == (Status.VERSION, protocol.VERSION)
    raw.session = 0x1111
    assert raw.ask(Command.RUN, run, seq=seq) == first
    assert _run_count(raw) == 1


def test_numbers_wrap_around(raw: Raw) -> None:
    raw.seq = 0xFFFD
    raw.hello()
    run = build(Command.RUN, model=0, repeat=1)
    for seq in (0xFFFF, 0, 1):
        raw.ask(Command.RUN, run, seq=seq)
    assert error(raw.ask(Command.RUN, run, seq=0xFFFF)) == (Status.REPEATED, 1)
    raw.seq = 1
    assert _run_count(raw) == 3


@pytest.mark.parametrize(
    "payload", [b"", b"hilp", b"HILP\1\0\2", b"hilp\3\0\2", b"hilp\0", b"\0" * 100]
)
def test_foreign_hello_opens_nothing(raw: Raw, payload: bytes) -> None:
    raw.hello()
    raw.session = 0x3333
    assert error(raw.ask(Command.HELLO, payload)) == (Status.VERSION, protocol.VERSION)
    raw.session = 0x1111
    assert raw.ask(Command.MEMORY, b"").payload[0] == Status.OK


def test_host_with_small_frames_is_served_within_them(raw: Raw) -> None:
    request = build(Command.HELLO, version=protocol.VERSION, frame_max=128)
    reply = protocol.REPLIES[Command.HELLO].parse(raw.ask(Command.HELLO, request).payload)
    assert reply.frame_max == 128
    room = protocol.payload_max(128)
    assert error(raw.ask(Command.ECHO, b"\1" * room)) == (Status.TOO_BIG, room - 1)


#: Of this protocol and version, but no session comes of it.
HELLOS: dict[str, tuple[bytes, tuple[Status, int]]] = {
    "frames too small": (
        build(Command.HELLO, version=protocol.VERSION, frame_max=127),
        (Status.TOO_BIG, 127),
    ),
    "no frames": (build(Command.HELLO, version=protocol.VERSION, frame_max=0), (Status.TOO_BIG, 0)),
    "too short": (b"hilp\1\0", (Status.BAD_LENGTH, 7)),
    "too long": (b"hilp\1\0\2\0", (Status.BAD_LENGTH, 7)),
}


@pytest.mark.parametrize("name", HELLOS)
def test_refused_hello_opens_no_session(raw: Raw, name: str) -> None:
    payload, expected = HELLOS[name]
    assert error(raw.ask(Command.HELLO, payload)) == expected
    read = build(Command.READ, **_tensor(1, Tensors.OUTPUT, 0), offset=0, length=0xFFFF)
    assert error(raw.ask(Command.READ, read)) == (Status.STALE, 0)
    raw.hello(0x2222)
    assert _run_count(raw) == 0


@pytest.mark.parametrize("name", HELLOS)
def test_refused_hello_steals_no_session(raw: Raw, name: str) -> None:
    payload, expected = HELLOS[name]
    raw.hello()
    run = build(Command.RUN, model=0, repeat=1)
    first = raw.ask(Command.RUN, run)
    for raw.session in (0x3333, 0x1111):
        assert error(raw.ask(Command.HELLO, payload, seq=raw.seq + 1)) == expected
    assert raw.ask(Command.RUN, run, seq=raw.seq) == first
    assert _run_count(raw) == 1


def test_frames_that_are_no_requests_are_ignored(raw: Raw) -> None:
    raw.hello()
    for kind in (Kind.REPLY, Kind.EVENT, 0, 77):
        run = build(Command.RUN, model=0, repeat=1)
        raw.link.send(Frame(raw.session, 5, kind, Command.RUN, run))
    assert _run_count(raw) == 0


def test_random_requests_never_break_the_server(raw: Raw, board: BoardProcess) -> None:
    """The board runs under the sanitizers: a byte outside of a buffer would end it."""
    dice = random.Random(7)
    raw.hello()
    for _ in range(3000):
        command = dice.choice([*set(Command) - {Command.RESET, Command.HELLO}, dice.randrange(256)])
        if command in (Command.RESET, Command.HELLO):
            continue
        size = dice.choice([0, 3, 5, 7, 9, 11, dice.randrange(40), dice.randrange(500)])
        payload = bytearray(dice.randbytes(size))
        for at in range(min(size, 9)):
            if dice.random() < 0.7:
                payload[at] = dice.choice([0, 0, 0, 1, 2, 3, 255])
        if command == Command.RUN and size == 5:
            payload[2:] = bytes(3)  # not a million times
        if command == Command.WRITE and payload[:1] == b"\2":
            payload[0] = 0  # the actor would do as it is told
        raw.ask(command, bytes(payload))
    for _ in range(300):
        raw.link._line.write(dice.randbytes(dice.randrange(700)))
    assert raw.hello(0x4444).payload[0] == Status.OK
    assert board.process.poll() is None


# -- sessions --------------------------------------------------------------------------------------


def test_new_session_in_the_middle_of_a_frame(board: BoardProcess) -> None:
    with closing(Link(board.url)) as link:
        old = Client(link)
        wire = encode(Frame(old._session, 7, Kind.REQUEST, Command.ECHO, b"x" * 300))
        link._line.write(wire[:150])  # here the host dies
    with connected(board.url) as client:
        assert add(client, 5, 6) == [22] * 4


def test_new_session_takes_over_in_the_middle_of_a_run(board: BoardProcess) -> None:
    with connected(board.url, run_timeout_s=0.2) as client:
        act(client, ACT_SLEEP, 700)
        with pytest.raises(HangError, match="began RUN and gave no answer"):
            client.run(2)
    with connected(board.url) as client:
        assert runs(client) == 1
        assert add(client, 1, 1) == [4] * 4


# Commands that take for ever, and how many repetitions or layers of 20 ms they are.
LONG_RUNS = {
    "RUN": (Command.RUN, {"model": 2, "repeat": 0xFFFF_FFFF}),
    "RUN_LAYERS": (Command.RUN_LAYERS, {"model": 2, "first": 0, "count": 18}),
}


def _begin(raw: Raw, name: str) -> Frame:
    """Starts a run of steps of 0.2 s and returns its request once it has begun."""
    command, fields = LONG_RUNS[name]
    action = build(
        Command.WRITE, **_tensor(2, Tensors.INPUT, 0), offset=0, data=ints(ACT_SLEEP, 200)
    )
    raw.ask(Command.WRITE, action)
    raw.seq += 1
    request = Frame(raw.session, raw.seq, Kind.REQUEST, command, build(command, **fields))
    raw.link.send(request)
    _wait_for_event(raw, Event.BUSY)
    return request


def _wait_for_event(raw: Raw, event: Event) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if any(f.kind == Kind.EVENT and f.code == event for f in raw.link.receive(0.2)):
            return
    raise AssertionError(f"no {event.name}")


@pytest.mark.parametrize("name", LONG_RUNS)
def test_hello_ends_a_run_at_the_next_step(raw: Raw, name: str) -> None:
    raw.hello()
    request = _begin(raw, name)
    assert raw.hello(0x2222).payload[0] == Status.OK
    # It is over, and has no answer.
    before = _run_count(raw)
    assert before < 18
    assert not any(f.kind == Kind.REPLY for f in raw.link.receive(0.5))
    assert _run_count(raw) == before
    raw.session = request.session
    assert error(raw.ask(request.code, request.payload)) == (Status.STALE, 0x2222)


@pytest.mark.parametrize("name", LONG_RUNS)
def test_reset_ends_a_run_at_the_next_step(raw: Raw, name: str) -> None:
    raw.hello()
    _begin(raw, name)
    assert raw.ask(Command.RESET, b"").payload == b"\0"
    raw.hello(0x2222)
    assert _run_count(raw) == 0


@pytest.mark.parametrize("name", LONG_RUNS)
def test_the_hosts_next_request_ends_a_run(raw: Raw, name: str) -> None:
    raw.hello()
    request = _begin(raw, name)
    assert raw.ask(Command.ECHO, b"over").payload == b"\0over"
    # It is not begun again.
    assert error(raw.ask(request.code, request.payload, seq=request.seq)) == (
        Status.REPEATED,
        request.seq + 1,
    )


def test_what_does_not_end_a_run_is_answered_during_it(raw: Raw) -> None:
    raw.hello()
    request = _begin(raw, "RUN_LAYERS")
    hello = build(Command.HELLO, version=protocol.VERSION, frame_max=127)
    for raw.session, seq, command, payload, expected in (
        (0x1111, request.seq - 1, Command.MEMORY, b"", (Status.REPEATED, request.seq)),
        (0x3333, 7, Command.RESET, b"", (Status.STALE, 0x1111)),
        (0x3333, 7, Command.HELLO, hello, (Status.TOO_BIG, 127)),
        (0x3333, 7, Command.HELLO, b"HILP" + hello[4:], (Status.VERSION, protocol.VERSION)),
    ):
        assert error(raw.ask(command, payload, seq=seq)) == expected
    raw.link.send(request)  # a repetition: there is one answer
    reply = raw.reply(request)
    assert len(protocol.REPLIES[Command.RUN_LAYERS].parse(reply.payload).ticks) == 18
    raw.session = 0x1111
    assert _run_count(raw) == 18


def test_old_session_is_told(board: BoardProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(board.url) as client:
        Client(client.link)
        with pytest.raises(LinkError, match="another program took over"):
            client.run(0)
        assert runs(Client(client.link)) == 0


def test_restart_during_a_session_is_told(board: BoardProcess, client: Client) -> None:
    client.memory()
    board.process.kill()
    board.process.wait()
    board.process = subprocess.Popen([board_program()], stdin=board.master)
    with pytest.raises(DeviceError, match="restarted by itself"):
        client.run(0)


def test_restart_during_a_run_is_reported(board: BoardProcess, client: Client) -> None:
    act(client, ACT_SLEEP, 10_000)

    def restart() -> None:
        until(lambda: is_under_way(client, "RUN"), "the run")
        time.sleep(0.2)
        board.process.kill()
        board.process.wait()
        board.process = subprocess.Popen([board_program()], stdin=board.master)

    thread = threading.Thread(target=restart)
    thread.start()
    try:
        with pytest.raises(DeviceError, match="restarted by itself"):
            client.run(2)
    finally:
        thread.join()
    with connected_again(client) as fresh:
        assert runs(fresh) == 0


@contextmanager
def connected_again(client: Client) -> Iterator[Client]:
    yield Client(client.link)


# -- errors and deadlines ------------------------------------------------------------------------


def test_model_that_fails(client: Client) -> None:
    act(client, ACT_FAIL)
    with pytest.raises(DeviceError, match="refused RUN: the model returned -7"):
        client.run(2, repeat=5)
    assert runs(client) == 1


def test_fault_while_running(board: BoardProcess) -> None:
    with connected(board.url) as client:
        act(client, ACT_FAULT)
        with pytest.raises(FaultError, match="bus error at a data access, address 0xe0000000") as e:
            client.run(2)
        assert (e.value.fault.kind, e.value.fault.pc) == (Fault.BUS, 0x1234)
        with pytest.raises(FaultError):
            client.memory()
    with connected(board.url) as client:  # restarts it
        assert runs(client) == 0
        assert add(client, 1, 1) == [4] * 4


@contextmanager
def silent_port() -> Iterator[tuple[str, int]]:
    master, slave = pty.openpty()
    try:
        yield os.ttyname(slave), master
    finally:
        os.close(master)
        os.close(slave)


def took(action: Callable[[], object]) -> float:
    start = time.monotonic()
    action()
    return time.monotonic() - start


def test_no_answer_at_all() -> None:
    def attempt() -> None:
        with (
            silent_port() as (url, _),
            pytest.raises(LinkError, match=r"no answer from /dev/\S+ within 0\.4 s\n") as caught,
            connected(url, timeout_s=0.4),
        ):
            pass
        assert "power" in caught.value.hint

    assert took(attempt) >= 0.4


def test_another_program_on_the_line() -> None:
    with silent_port() as (url, master):
        ended = threading.Event()

        def write() -> None:
            while not ended.wait(0.05):
                os.write(master, b"U-Boot 2024.01\r\n=> \0\xff\xfe")

        other = threading.Thread(target=write)
        other.start()
        try:
            with (
                pytest.raises(LinkError, match="bytes arrived, but no frame"),
                connected(url, timeout_s=0.4),
            ):
                pass
        finally:
            ended.set()
            other.join()


def test_firmware_that_stops_answering(board: BoardProcess) -> None:
    with connected(board.url, timeout_s=0.5) as client:
        board.process.kill()
        board.process.wait()
        for request in (client.memory, lambda: client.run(0), lambda: client.echo(b"x" * 3000)):

            def attempt(request: Callable[[], object] = request) -> None:
                with pytest.raises(LinkError, match="no answer (to|from)"):
                    request()

            assert took(attempt) >= 0.5


def test_a_long_run_is_not_cut_by_the_short_deadline(board: BoardProcess) -> None:
    with connected(board.url, timeout_s=1.5, run_timeout_s=60, busy_retry_s=0.2) as client:
        act(client, ACT_SLEEP, 3000)
        assert client.run(2) >= 3e9
        assert runs(client) == 1


def test_repetitions_report_progress(board: BoardProcess) -> None:
    """Together they take longer than the longest silence."""
    with connected(board.url, run_timeout_s=4) as client:
        act(client, ACT_SLEEP, 700)
        assert client.run(2, repeat=7) >= 4.9e9
        assert runs(client) == 7


def test_a_run_that_never_ends(board: BoardProcess) -> None:
    with connected(board.url, run_timeout_s=0.5) as client:
        act(client, ACT_SLEEP, 60_000)

        def attempt() -> None:
            with pytest.raises(HangError, match="began RUN and gave no answer") as caught:
                client.run(2)
            assert "run_timeout_s" in caught.value.hint

        assert took(attempt) >= 0.5


def test_wrong_firmware(board: BoardProcess) -> None:
    with (
        pytest.raises(LinkError, match="runs firmware 0123456789abcdef.* not f{32}"),
        connected(board.url, build_id="f" * 32),
    ):
        pass


def test_other_protocol_version(board: BoardProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "VERSION", 4)
    monkeypatch.setattr(protocol, "OLDEST", 3)
    with (
        pytest.raises(LinkError, match="speaks protocol version 2, this program speaks 3 to 4"),
        connected(board.url),
    ):
        pass


def test_the_mask_names_the_commands_that_are_answered(raw: Raw) -> None:
    """All that there are: no command of the mask is unknown, and none beside it is answered."""
    mask = protocol.REPLIES[Command.HELLO].parse(raw.hello().payload).commands
    lacking = (Status.UNKNOWN_COMMAND, Status.NOT_IN_FIRMWARE)
    asked = [code for code in range(32) if code not in (Command.HELLO, Command.RESET)]
    answered = {code for code in asked if raw.ask(code, b"").payload[0] not in lacking}
    assert mask == sum(1 << code for code in {*answered, Command.HELLO, Command.RESET})


def test_what_the_firmware_lacks_is_not_sent(board: BoardProcess) -> None:
    with connected(board.url) as client:
        before = client.requests
        with pytest.raises(NotInFirmwareError, match="does not answer CALL: .*no packed") as caught:
            client.ask_once(Command.CALL, {"arguments": 0, "name_and_values": b"f\0"}, (), 1)
        assert "interface=packed" in caught.value.hint
        assert client.requests == before
        assert client.echo(b"still there") == b"still there"
        missing = protocol.PACKED | protocol.OF_STATES | protocol.TAPS | protocol.OF_FEEDS
        assert client.hello.commands == frozenset(Command) - missing


def test_an_old_host_is_answered_as_ever(raw: Raw) -> None:
    """By a reply without the mask, and with the name where it was."""
    new = protocol.HELLO_REPLIES[2].parse(raw.hello().payload)
    hello = build(Command.HELLO, version=1, frame_max=0xFFFF)
    raw.session = 0x2222
    old = protocol.HELLO_REPLIES[1].parse(raw.ask(Command.HELLO, hello).payload)
    assert (old.version, old.board, old.build_id) == (1, new.board, new.build_id)


def test_an_old_firmware_is_served(tmp_path: Path) -> None:
    """One of version 1 refuses the newer HELLO; what it lacks it says itself, as ever."""
    header = tmp_path / "hil_protocol.h"
    new = f"#define HIL_PROTOCOL_VERSION {protocol.VERSION}\n"
    assert new in header_text()
    header.write_text(header_text().replace(new, "#define HIL_PROTOCOL_VERSION 1\n"))
    program = compile_program(
        *("board.c", *RPC_SOURCES),
        output=tmp_path / "board",
        defines={"HIL_FRAME_MAX": 512, "HIL_RX_MAX": 1024},
        before=[header],
    )
    board = BoardProcess(program)
    try:
        with connected(board.url) as client:
            assert (client.hello.protocol, client.hello.commands) == (1, None)
            assert client.echo(bytes(range(100))) == bytes(range(100))
            with pytest.raises(NotInFirmwareError, match="refused FUNCTION_INFO"):
                client.named(Command.FUNCTION_INFO, {"function": 0})
            client.reset()
            assert client.hello.protocol == 1
    finally:
        board.close()


def test_port_in_use(board: BoardProcess) -> None:
    with (
        closing(Link(board.url)),
        pytest.raises(LinkError, match="in use by another program"),
        closing(Link(board.url)),
    ):
        pass


def test_port_that_is_not_there(tmp_path: os.PathLike[str]) -> None:
    with pytest.raises(LinkError, match="there is no port"):
        Link(os.path.join(tmp_path, "ttyUSB7"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(LinkError, match="nothing listens at"):
        Link(f"socket://127.0.0.1:{port}")
    for url in ("socket://nowhere", "gopher://x"):
        with pytest.raises(InputError, match=f"{url} is not .* the forms are /dev/NAME, COM3 "):
            Link(url)


def test_line_that_breaks(board: BoardProcess) -> None:
    with proxy(board.url) as line, connected(line.url) as client:
        line.stop()
        with pytest.raises(LinkError, match="failed: .*closed|reset|broken"):
            client.run(0)


def test_end_of_the_process_is_noticed(board: BoardProcess) -> None:
    def alive() -> None:
        if board.process.poll() is not None:
            raise DeviceError(f"the board ended: {board.process.returncode}")

    with closing(Link(board.url, alive=alive)) as link:
        client = Client(link)
        act(client, ACT_EXIT)

        with pytest.raises(DeviceError, match="the board ended: 3"):
            client.run(2)


def test_pace_adapts_to_a_slow_line(board: BoardProcess) -> None:
    """A line of 20 ms a frame: no needless repetition once the pace is known."""
    with proxy(board.url, Weather(delay_s=0.04)) as line, connected(line.url) as client:
        client.echo(b"x" * 2000)
        before = client.repeated
        client.echo(b"x" * 5000)
        assert client.repeated == before
