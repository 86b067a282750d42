"""Scripted sessions with a board that lies: what the host asks, how the board attacks, the outcome.

A session is what its seed and number say, down to the host's own random numbers.
"""

from __future__ import annotations

import contextlib
import logging
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hostile_board import BUILD_ID, LAYERS, Clock, HostileBoard, made_up_time

from hil.device import Device
from hil.errors import DeviceError, HilError
from hil.link import client as client_module
from hil.link import protocol
from hil.link.client import RUN_TIMEOUT_S, Client
from hil.link.codec import Frame, encode
from hil.link.line import Link
from hil.link.protocol import Command, Event, Kind, Status, Tensors
from hil.link.replies import Memory, ModelInfo, WireTensor
from hil.link.tensors import TensorRef

#: No lie may hold the host longer than its longest single wait and what an operation may take.
LONGEST_S = RUN_TIMEOUT_S + 70
MOST_BYTES = 8 << 20
#: Seconds of this machine's time: far above what a session takes, far below a hang.
MOST_CPU_S = 120.0
#: Tensors that a script moves are not longer; their size is the board's word.
_MOVED_MAX = 1 << 16

Lie = Callable[[Frame, Frame], Iterator[Any]]

# -- what a board may say ------------------------------------------------------------------------


def endless(
    board: HostileBoard, what: str, dice: random.Random | None = None
) -> Callable[[], bytes]:
    """What comes unasked, again and again."""
    busy = protocol.EVENTS[Event.BUSY].build({"done": 0, "total": 1})
    more = protocol.EVENTS[Event.LOG].build({"more": 1, "text": b"x" * 200})
    line = protocol.EVENTS[Event.LOG].build({"more": 0, "text": b"x" * 200})
    words = protocol.EVENTS[Event.STACK].build(
        {"bottom": 0, "top": 1 << 32, "peak_bytes": 0, "address": 0, "data": bytes(64)}
    )
    frames = {
        "busy": lambda: board.event(Event.BUSY, busy, board.last_seq),
        "log": lambda: board.event(Event.LOG, more),
        "lines": lambda: board.event(Event.LOG, line),
        "boot": lambda: board.event(Event.BOOT, b"\1"),
        "stack": lambda: board.event(Event.STACK, words),
        "unknown": lambda: board.event(77, b"?"),
        "old replies": lambda: Frame(board.session, 1, Kind.REPLY, Command.RUN, bytes(9)),
        "repeated": lambda: Frame(
            board.session,
            board.last_seq,
            Kind.REPLY,
            board.last_code,
            protocol.ERROR.build({"status": Status.REPEATED, "detail": 1}),
        ),
    }
    if what == "garbage":
        some = dice or random.Random(5)
        return lambda: some.randbytes(20_000)
    if what == "one frame without an end":
        return lambda: b"\1" * 20_000
    return lambda: encode(frames[what]()) * 50


FLOODS = (
    "busy", "log", "lines", "boot", "stack", "unknown", "old replies", "repeated", "garbage",
    "one frame without an end",
)  # fmt: skip
EXTREMES = (
    0,
    1,
    2,
    5,
    127,
    128,
    255,
    256,
    0x7FFF,
    0xFFFF,
    0x7FFFFFFF,
    0xFFFFFFFF,
    2**63,
    2**64 - 1,
)


def spoiled(command: Command, reply: Frame, dice: random.Random) -> bytes:
    """The reply's payload with something else in it."""
    match dice.randrange(6):
        case 0:
            return dice.randbytes(dice.randrange(80))
        case 1:
            return b"\0" + dice.randbytes(dice.randrange(80))
        case 2:
            return reply.payload[: dice.randrange(len(reply.payload) + 1)]
        case 3:
            return reply.payload + dice.randbytes(1 + dice.randrange(20))
        case 4:
            status, detail = dice.randrange(256), dice.choice(EXTREMES) & 0xFFFFFFFF
            return bytes(protocol.ERROR.build({"status": status, "detail": detail}))
    # One byte, or a number of 1, 2, 4 or 8 bytes, is another.
    data = bytearray(reply.payload)
    size = dice.choice([1, 1, 2, 4, 8])
    at = dice.randrange(len(data))
    value = dice.choice([*EXTREMES, dice.getrandbits(64)]) & ((1 << 8 * size) - 1)
    data[at : at + size] = value.to_bytes(size, "little")
    return bytes(data[: len(reply.payload)])


def random_event(board: HostileBoard, seq: int, dice: random.Random) -> Frame:
    event = dice.choice([*Event, dice.randrange(256)])
    if dice.random() < 0.3 or event not in set(Event):
        data = dice.randbytes(dice.randrange(100))
    else:
        fields = {
            part.name: dice.choice(EXTREMES) & ((1 << 8 * part.sizeof()) - 1)
            for part in protocol.EVENTS[Event(event)].subcons
            if part.name not in ("text", "data", "name")
        }
        texts = {"text": dice.randbytes(20), "data": dice.randbytes(24), "name": b"kws"}
        data = protocol.EVENTS[Event(event)].build(fields | texts)
    return board.event(event, data, dice.choice([0, seq, dice.randrange(1 << 16)]))


def liar(board: HostileBoard, dice: random.Random) -> Callable[[Frame, Frame], Iterator[Any]]:
    rate = dice.choice([0.02, 0.1, 0.5])

    def lie(request: Frame, reply: Frame) -> Iterator[Frame | bytes]:
        if dice.random() > rate:
            yield reply
            return
        match dice.randrange(10):
            case 0:
                return
            case 1:
                yield dice.randbytes(dice.randrange(300))
                yield reply
            case 2:
                yield from [reply] * dice.randrange(5)
            case 3:
                field = dice.choice(["session", "seq", "kind", "code"])
                limit = 1 << (16 if field in ("session", "seq") else 8)
                other: Any = {field: dice.randrange(limit)}
                yield replace(reply, **other)
            case 4 | 5:
                for _ in range(dice.choice([1, 1, 30])):
                    yield random_event(board, request.seq, dice)
                yield reply
            case _:
                yield replace(reply, payload=spoiled(Command(request.code), reply, dice))

    return lie


# -- attacks -------------------------------------------------------------------------------------


def _sometimes(dice: random.Random, lie: Lie) -> Lie:
    """Lie at a rate of this session."""
    rate = dice.choice([0.05, 0.2, 0.6])

    def mixed(request: Frame, reply: Frame) -> Iterator[Any]:
        if dice.random() < rate:
            yield from lie(request, reply)
        else:
            yield reply

    return mixed


def _values(board: HostileBoard, dice: random.Random) -> None:
    """Answers with other fields, statuses and lengths."""

    def lie(request: Frame, reply: Frame) -> Iterator[Any]:
        yield replace(reply, payload=spoiled(Command(request.code), reply, dice))

    board.lie = _sometimes(dice, lie)


def _sizes(board: HostileBoard, dice: random.Random) -> None:
    """One number of an answer, the same each time, as large as it can be said."""
    command = dice.choice([Command.HELLO, *Command])
    at, size = dice.randrange(24), dice.choice([1, 2, 4, 8])
    value = dice.choice(EXTREMES[5:]) & ((1 << 8 * size) - 1)
    padding = bytes(dice.choice([0, 0, 0, 100, 4000]))

    def lie(request: Frame, reply: Frame) -> Iterator[Any]:
        if request.code != command:
            yield reply
            return
        data = bytearray(reply.payload)
        data[at : at + size] = value.to_bytes(size, "little")
        yield replace(reply, payload=bytes(data[: len(reply.payload)]) + padding)

    board.lie = lie


def _headers(board: HostileBoard, dice: random.Random) -> None:
    """Answers of another session, number, kind or command."""

    def lie(request: Frame, reply: Frame) -> Iterator[Any]:
        field = dice.choice(["session", "seq", "kind", "code"])
        limit = 1 << (16 if field in ("session", "seq") else 8)
        near: dict[str, Any] = {field: (getattr(reply, field) + dice.choice([-1, 1])) % limit}
        far: dict[str, Any] = {field: dice.randrange(limit)}
        yield replace(reply, **dice.choice([near, far]))

    board.lie = _sometimes(dice, lie)


def _frames(board: HostileBoard, dice: random.Random) -> None:
    """Frames with other bytes, bytes missing, inserted or twice."""

    def lie(request: Frame, reply: Frame) -> Iterator[Any]:
        data = bytearray(encode(reply))
        for _ in range(dice.choice([1, 1, 2, 5])):
            at = dice.randrange(len(data))
            match dice.randrange(4):
                case 0:
                    data[at] = dice.randrange(256)
                case 1:
                    del data[at : at + dice.choice([1, 1, 10])]
                case 2:
                    data[at:at] = dice.randbytes(dice.choice([1, 1, 50]))
                case 3:
                    data[at:at] = data[at : at + 20]
            data = data or bytearray(b"\0")
        yield bytes(data)

    board.lie = _sometimes(dice, lie)


def _order(board: HostileBoard, dice: random.Random) -> None:
    """Answers that come twice, late, out of order, or not at all; others come again."""
    earlier: list[Frame] = []

    def lie(request: Frame, reply: Frame) -> Iterator[Any]:
        earlier.append(reply)
        match dice.randrange(4):
            case 0:
                return
            case 1:
                yield from [reply] * dice.randrange(2, 5)
            case 2:
                yield from dice.sample(earlier, min(len(earlier), 4))
            case 3:
                yield dice.choice(earlier)

    board.lie = _sometimes(dice, lie)


def _events(board: HostileBoard, dice: random.Random) -> None:
    """Events that nobody asked for, before the answers."""

    def lie(request: Frame, reply: Frame) -> Iterator[Any]:
        for _ in range(dice.choice([1, 1, 10])):
            yield random_event(board, request.seq, dice)
        yield reply

    board.lie = _sometimes(dice, lie)


def _floods(board: HostileBoard, dice: random.Random) -> None:
    """From some request on, one thing without an end in place of the answers."""
    flood, left = endless(board, dice.choice(FLOODS), dice), [dice.randrange(8)]
    # Slow mostly: what counts is that it never ends.
    board.byte_s = dice.choice([4e-4, *[2e-2] * 15])

    def lie(request: Frame, reply: Frame) -> Iterator[Any]:
        left[0] -= 1
        if left[0] >= 0:
            yield reply
        else:
            board.unasked = flood

    board.lie = lie


def _drip(board: HostileBoard, dice: random.Random) -> None:
    """Every byte alone, after a pause; the rest never, from some byte on."""
    board.read_bytes = 1
    board.byte_s = dice.choice([1e-3, *[5e-3] * 10, *[0.02] * 10, *[1.0] * 5])
    if dice.random() < 0.5:
        left = [dice.randrange(400)]

        def lie(request: Frame, reply: Frame) -> Iterator[Any]:
            data = encode(reply)[: left[0]]
            left[0] -= len(data)
            yield data

        board.lie = lie


def _silence(board: HostileBoard, dice: random.Random) -> None:
    """From some request on nothing, or nothing to one command."""
    left, command = dice.randrange(12), dice.choice([None, *Command])
    seen = [0]

    def lie(request: Frame, reply: Frame) -> Iterator[Any]:
        seen[0] += 1
        if (request.code != command) if command else (seen[0] <= left):
            yield reply

    board.lie = lie


def _restarts(board: HostileBoard, dice: random.Random) -> None:
    """The board forgets the session, or is another host's, with or without a word."""

    def lie(request: Frame, reply: Frame) -> Iterator[Any]:
        is_answered = dice.random() < 0.5
        if is_answered:
            yield reply
        board.session = dice.choice([0, 0, dice.randrange(1, 1 << 16)])
        if dice.random() < 0.5:
            yield board.event(Event.BOOT, bytes((protocol.VERSION,)))

    board.lie = _sometimes(dice, lie)


def _busy(board: HostileBoard, dice: random.Random) -> None:
    """Progress of runs that do not end, or were never asked for."""
    total = dice.choice([0, 1, 2, 1000, 0xFFFFFFFF])

    def lie(request: Frame, reply: Frame) -> Iterator[Any]:
        done = dice.choice([0, 0, total])
        progress = protocol.EVENTS[Event.BUSY].build({"done": done, "total": total})
        yield board.event(Event.BUSY, progress, request.seq)
        if request.code not in (Command.RUN, Command.RUN_LAYERS) and dice.random() < 0.7:
            yield reply

    board.lie = _sometimes(dice, lie)


def _garbage(board: HostileBoard, dice: random.Random) -> None:
    """Bytes that are nothing, between the answers."""

    def lie(request: Frame, reply: Frame) -> Iterator[Any]:
        yield dice.randbytes(dice.randrange(300))
        yield reply
        yield dice.choice([b"", b"\0" * 50, b"\xff" * 300, b"Guru Meditation\r\n"])

    board.lie = _sometimes(dice, lie)


def _anything(board: HostileBoard, dice: random.Random) -> None:
    """Several of these in one session."""
    board.lie = liar(board, dice)


ATTACKS: Mapping[str, Callable[[HostileBoard, random.Random], None]] = {
    "values": _values,
    "sizes": _sizes,
    "headers": _headers,
    "frames": _frames,
    "order": _order,
    "events": _events,
    "floods": _floods,
    "drip": _drip,
    "silence": _silence,
    "restarts": _restarts,
    "busy": _busy,
    "garbage": _garbage,
    "anything": _anything,
}

# -- what the host asks --------------------------------------------------------------------------


def _infer(device: Device) -> None:
    for model in device.models.values():
        for tensor in model.inputs:
            if tensor.nbytes <= _MOVED_MAX:
                model.set_input(tensor.name, np.zeros(tensor.shape, tensor.dtype))
        if sum(tensor.nbytes for tensor in model.inputs) > _MOVED_MAX:
            continue
        device.count(model.run().ticks)
        for tensor in model.outputs:
            if tensor.nbytes <= _MOVED_MAX:
                model.get_output(tensor.name)


def _layers(device: Device) -> None:
    for model in device.models.values():
        if sum(tensor.nbytes for tensor in model.inputs) > _MOVED_MAX:
            continue
        model.profile()
        if all(t.nbytes <= _MOVED_MAX for layer in model.layers for t in layer.outputs):
            for _ in model.layer_outputs():
                pass


def _calls(device: Device) -> None:
    for function in device.functions():
        device.call(function, 1, 2.0, "text", None)


def _metadata(device: Device) -> None:
    for model in device.models.values():
        model.metadata()


def _echo(client: Client, dice: random.Random) -> bool:
    data = dice.randbytes(dice.choice([0, 1, 20, 500]))
    return client.echo(data) == data


def _run(client: Client, dice: random.Random) -> bool:
    repeat = dice.choice([1, 1, 1000])
    return client.run(0, repeat) == 1000 * repeat


def _run_layers(client: Client, dice: random.Random) -> bool:
    count = dice.choice([1, 3, 40])
    return client.run_layers(0, 0, count) == [1000] * count


def _read(client: Client, dice: random.Random) -> bool:
    nbytes = dice.choice([1, 6, 2000])
    return client.read(TensorRef(0, Tensors.OUTPUT, 0), nbytes) == bytes(nbytes)


def _write(client: Client, dice: random.Random) -> bool:
    client.write(TensorRef(0, Tensors.INPUT, 0), bytes(dice.choice([1, 900])))
    return True


def _tensor(client: Client, dice: random.Random) -> bool:
    number = dice.randrange(2)
    tensor = client.tensor_info(TensorRef(0, Tensors.INPUT, number))
    return tensor == WireTensor(f"tensor 0 {number}" * 20, (2, 3), "int8", 6)


def _reset(client: Client, dice: random.Random) -> bool:
    client.reset()
    return True


def _check(client: Client, dice: random.Random) -> bool:
    client.check()
    return True


#: Requests of a session; each returns whether the answer is the board's true one.
_LINE: tuple[Callable[[Client, random.Random], bool], ...] = (
    _echo,
    _run,
    _run_layers,
    _read,
    _write,
    _tensor,
    _reset,
    lambda client, dice: client.memory() == Memory(4096, 100, 512, 0),
    lambda client, dice: client.model_info(0) == ModelInfo("model", 2, 1, LAYERS, 64),
    lambda client, dice: client.layer_info(0, 1) == ("layer 1", 1),
    lambda client, dice: client.state_count(0) == 0,
    _check,
)
#: Attacks that change no answer in a valid frame of its own session and number: whatever the host
#: returns in spite of them is true.
_TRUE = {"frames", "order", "events", "floods", "drip", "silence", "busy", "garbage"}
#: Of a described model.
_MODELS: tuple[Callable[[Device], object], ...] = (_infer, _layers, _calls, _metadata)


def _session(board: HostileBoard, dice: random.Random) -> bool:
    """Ask a few things; return whether all answers were true."""
    with contextlib.closing(Link("memory://", line=board)) as link:
        client = Client(link, build_id=dice.choice([None, BUILD_ID.decode()]))
        if dice.random() < 0.15:
            device = Device(client, [])
            dice.choice(_MODELS)(device)
            return True
        return all([dice.choice(_LINE)(client, dice) for _ in range(dice.choice([1, 2, 3]))])


@dataclass(frozen=True)
class Outcome:
    """What came of a session."""

    attack: str
    #: Name of the error that ended it; "" if everything was answered.
    error: str
    #: Made-up seconds, and seconds of this machine's processor.
    waited_s: float
    cpu_s: float
    #: Most memory, where it was traced; 0 elsewhere.
    peak_bytes: int
    #: What must not happen, and did; "" mostly.
    finding: str


class Arena:
    """Holds sessions; :func:`arena` makes one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def one(self, seed: int, number: int, *, trace: bool = False) -> Outcome:
        """Hold one session; ``trace`` measures its memory, which takes time."""
        dice = random.Random(f"{seed} {number}")
        names = tuple(ATTACKS)
        attack = names[number % len(names)]
        setattr(client_module, "secrets", SimpleNamespace(randbelow=dice.randrange))  # noqa: B010
        self._clock.now = 1000.0
        board = HostileBoard(self._clock, frame_max=dice.choice([128, 256, 4096]), idle_s=0.1)
        ATTACKS[attack](board, dice)
        error = finding = ""
        if trace:
            tracemalloc.start()
        start = time.process_time()
        try:
            if not _session(board, dice) and attack in _TRUE:
                finding = "an answer that the board never gave"
        except DeviceError as caught:
            error = type(caught).__name__
        except HilError as caught:
            error = type(caught).__name__
            finding = f"{error}, which blames the user: {caught}"
        except Exception as caught:
            finding = f"{type(caught).__name__}: {caught}"
        cpu_s = time.process_time() - start
        peak = 0
        if trace:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        waited_s = self._clock.now - 1000.0
        if waited_s > 4 * LONGEST_S:
            finding = finding or f"it waited for {waited_s:.0f} s"
        if cpu_s > MOST_CPU_S:
            finding = finding or f"it computed for {cpu_s:.1f} s"
        if peak > MOST_BYTES:
            finding = finding or f"it took {peak} bytes"
        return Outcome(attack, error, waited_s, cpu_s, peak, finding)


@contextlib.contextmanager
def arena() -> Iterator[Arena]:
    """Make up the host's time, and keep its warnings to itself."""
    logger = logging.getLogger("hil")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client_module, "secrets", client_module.secrets)  # type: ignore[attr-defined]
        patch.setattr(logger, "disabled", logger.disabled)
        for name in ("hil", "hil.link"):
            patch.setattr(logging.getLogger(name), "disabled", True)
        yield Arena(made_up_time(patch))
