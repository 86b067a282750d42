"""A board in this process that answers by the protocol, and lies where it is told to.

Its line is in memory and its time is made up: a wait of a minute takes some milliseconds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from hil.link import client, line, protocol
from hil.link.codec import Decoder, Frame, encode
from hil.link.protocol import Command, Kind, MetadataList, Status, Tensors

#: A reply on its way, as the frames that leave the board in its place.
Lie = Callable[[Frame, Frame], Iterable[Frame | bytes]]

BUILD_ID = b"0123456789abcdef" * 2
FUNCTIONS = ("first", "second")
#: Type, sides and bytes of the tensors.
_TENSORS = {Tensors.INPUT: 2, Tensors.OUTPUT: 1, Tensors.LAYER_OUTPUT: 1}
_SHAPE = (2, 3)
_NBYTES = 6
LAYERS = 3


def honest(request: Frame, reply: Frame) -> Iterable[Frame | bytes]:
    """The truth."""
    del request
    return [reply]


@dataclass
class Clock:
    """Takes the place of the module ``time``."""

    now: float = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def made_up_time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(client, "time", clock)
    monkeypatch.setattr(line, "time", clock)
    return clock


@dataclass
class HostileBoard:
    """The far end of a line, as :class:`hil.link.line.Line`."""

    clock: Clock
    lie: Lie = honest
    frame_max: int = 256
    #: Called when the host finds nothing to read: what comes unasked.
    unasked: Callable[[], bytes] = bytes
    #: Seconds that a byte takes.
    byte_s: float = 1e-5
    #: Seconds of a read that finds nothing, and bytes of one that finds more.
    idle_s: float = 0.01
    read_bytes: int = 65536
    session: int = 0
    #: Of the last request.
    last_seq: int = 0
    last_code: int = 0
    _decoder: Decoder = field(default_factory=Decoder)
    _out: bytearray = field(default_factory=bytearray)

    def read(self) -> bytes:
        if not self._out:
            self._out += self.unasked()
        data = bytes(self._out[: self.read_bytes])
        del self._out[: len(data)]
        self.clock.now += self.byte_s * len(data) or self.idle_s
        return data

    def write(self, data: bytes) -> None:
        for request in self._decoder.feed(data):
            if isinstance(request, Frame) and request.kind == Kind.REQUEST:
                self._answer(request)

    def close(self) -> None: ...

    def event(self, event: int, payload: bytes, seq: int = 0) -> Frame:
        return Frame(self.session, seq, Kind.EVENT, event, payload)

    def _answer(self, request: Frame) -> None:
        self.last_seq, self.last_code = request.seq, request.code
        if request.code == Command.HELLO:
            self.session = request.session
        if request.session == self.session:
            payload = _answer_to(Command(request.code), request.payload, self.frame_max)
        else:
            payload = protocol.ERROR.build({"status": Status.STALE, "detail": self.session})
        reply = replace(request, kind=Kind.REPLY, payload=payload)
        for item in self.lie(request, reply):
            self._out += encode(item) if isinstance(item, Frame) else item


def _name(name: str, fields: Any, room: int) -> dict[str, Any]:
    data = name.encode()
    return {"name_length": len(data), "name": data[fields.name_offset :][:room]}


@functools.lru_cache(1024)
def _answer_to(command: Command, request: bytes, frame_max: int) -> bytes:
    """Return the true answer, which depends on nothing else."""
    fields = protocol.REQUESTS[command].parse(request)
    try:
        return _payload(command, fields, frame_max)
    except LookupError:
        return bytes(protocol.ERROR.build({"status": Status.BAD_TENSOR, "detail": 0}))


def _payload(command: Command, fields: Any, frame_max: int) -> bytes:
    room = protocol.payload_max(frame_max)
    values: dict[str, Any] = {}
    match command:
        case Command.HELLO:
            values = {
                "version": protocol.VERSION,
                "frame_max": frame_max,
                "window": 2 * frame_max,
                "ticks_hz": 1_000_000,
                "models": 1,
                "build_id": BUILD_ID,
                "commands": sum(
                    1 << c for c in Command if c not in protocol.OF_STATES | protocol.OF_FEEDS
                ),
                "board": b"hostile",
            }
        case Command.ECHO:
            values = {"data": fields.data}
        case Command.MEMORY:
            values = {"stack_bytes": 4096, "stack_peak_bytes": 100, "rx_bytes": 512}
            values["bad_frames"] = 0
        case Command.MODEL_INFO:
            values = {"inputs": 2, "outputs": 1, "layers": LAYERS, "workspace_bytes": 64}
            values |= _name("model", fields, room - 11)
        case Command.TENSOR_INFO:
            if fields.index >= _TENSORS[Tensors(fields.list)]:
                raise LookupError
            named = _name(f"tensor {fields.list} {fields.index}" * 20, fields, room - 17)
            sides = b"".join(side.to_bytes(4, "little") for side in _SHAPE)
            values = {"dtype": protocol.Dtype.INT8, "ndim": len(_SHAPE), "nbytes": _NBYTES}
            values |= {"name_length": named["name_length"]}
            values["shape_and_name"] = sides + named["name"]
        case Command.LAYER_INFO:
            values = {"outputs": 1, **_name(f"layer {fields.layer}", fields, room - 4)}
        case Command.READ:
            values = {"data": bytes(fields.length)}
        case Command.RUN:
            values = {"ticks": 1000 * fields.repeat}
        case Command.RUN_LAYERS:
            values = {"ticks": [1000] * fields.count}
        case Command.FUNCTION_INFO:
            values = {"functions": len(FUNCTIONS)}
            values |= _name(FUNCTIONS[fields.function], fields, room - 5)
        case Command.CALL:
            values = {"returned": 0, "kind": protocol.Value.INT, "value": bytes(8), "text": b""}
        case Command.METADATA_INFO:
            values = {"version": 1, "inputs": 2, "outputs": 1, "workspace_pools": 1}
            values |= {"constants": 1, **_name("tvmgen_model", fields, room - 19)}
        case Command.METADATA_TENSOR:
            named = _name(f"{MetadataList(fields.list).name} {fields.index}", fields, room - 24)
            values = {"code": 0, "bits": 8, "lanes": 1, "ndim": 1}
            values["name_length"] = named["name_length"]
            values["shape_and_name"] = (7).to_bytes(8, "little") + named["name"]
        case Command.METADATA_CONSTANT:
            values = {
                "byte_offset": 0,
                "data_bytes": 16,
                **_name("constant", fields, room - 19),
            }
    payload: bytes = protocol.REPLIES[command].build(values)
    return payload
