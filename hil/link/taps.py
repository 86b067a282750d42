"""Tensors that a firmware of other people streams from its tap points (``hil_tap.h``).

The firmware sends the events TAP_BEGIN to TAP_END of one inference after the other, unasked. What
arrives damaged is left out: an inference of which a tensor's description is missing is dropped, a
tensor of which bytes are missing has none.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from construct import ConstructError

from hil.errors import LinkError
from hil.link import protocol
from hil.link.codec import Frame
from hil.link.line import Link
from hil.link.protocol import Command, Event, Kind, Tensors
from hil.link.replies import ENTRIES_MAX, TENSOR_BYTES_MAX

#: Layers that TAP_SELECT can name: all of them.
ALL_LAYERS = (0, 0xFFFF)
_SELECT_S, _SELECT_RETRY_S = 5.0, 0.5
_EVENTS = frozenset((Event.TAP_BEGIN, Event.TAP_TENSOR, Event.TAP_DATA, Event.TAP_END))
#: Most bytes of the tensors of one inference that are kept.
_RUN_BYTES_MAX = 1 << 30


@dataclass(frozen=True)
class TappedTensor:
    """A tensor of an inference: its checksum (CRC-32), and its bytes if they came whole."""

    list: Tensors
    layer: int
    index: int
    name: str
    dtype: str
    nbytes: int
    crc: int
    data: bytes | None


@dataclass(frozen=True)
class TappedRun:
    """The tensors of an inference, in the order in which they were tapped."""

    model: str
    tensors: tuple[TappedTensor, ...]

    def of(self, which: Tensors) -> list[TappedTensor]:
        """Return the tensors of one list: inputs, outputs or those of layers."""
        return [tensor for tensor in self.tensors if tensor.list == which]


class TapReader:
    """Puts events together; no I/O."""

    def __init__(self) -> None:
        #: Inferences that were dropped since a frame of theirs was missing.
        self.dropped = 0
        self._run: int | None = None
        self._model = ""
        self._known: dict[tuple[int, int, int], Any] = {}
        self._bytes: dict[tuple[int, int, int], bytearray] = {}
        self._room = 0

    def add(self, frame: Frame) -> TappedRun | None:
        """Return the inference that the frame completes."""
        if frame.kind != Kind.EVENT or frame.code not in _EVENTS:
            return None
        try:
            event = protocol.EVENTS[Event(frame.code)].parse(frame.payload)
        except ConstructError:
            return None
        if frame.code == Event.TAP_BEGIN:
            self._begin(event)
        elif event.run != self._run:
            return None
        elif frame.code == Event.TAP_TENSOR:
            self._describe(event)
        elif frame.code == Event.TAP_DATA:
            self._append(event)
        else:
            return self._end(event)
        return None

    def _begin(self, event: Any) -> None:
        self.dropped += self._run is not None
        self._run, self._model = event.run, _text(event.name)
        self._known, self._bytes, self._room = {}, {}, _RUN_BYTES_MAX

    def _describe(self, event: Any) -> None:
        is_valid = (
            event.list in (Tensors.INPUT, Tensors.OUTPUT, Tensors.LAYER_OUTPUT)
            and event.dtype in list(protocol.Dtype)
            and 0 < event.nbytes <= TENSOR_BYTES_MAX
            and len(self._known) < ENTRIES_MAX
        )
        if is_valid:
            key = (event.list, event.layer, event.index)
            self._known[key] = event
            self._bytes[key] = bytearray()

    def _append(self, event: Any) -> None:
        key = (event.list, event.layer, event.index)
        data = self._bytes.get(key)
        size = len(event.data)
        # A gap leaves the tensor without its bytes.
        if data is None or event.offset != len(data) or size > self._room:
            return
        if len(data) + size <= self._known[key].nbytes:
            data += event.data
            self._room -= size

    def _end(self, event: Any) -> TappedRun | None:
        self._run = None
        if event.tensors != len(self._known):
            self.dropped += 1
            return None
        return TappedRun(self._model, tuple(self._tensor(key) for key in self._known))

    def _tensor(self, key: tuple[int, int, int]) -> TappedTensor:
        event, data = self._known[key], bytes(self._bytes[key])
        is_whole = len(data) == event.nbytes and zlib.crc32(data) == event.crc
        return TappedTensor(
            Tensors(event.list),
            event.layer,
            event.index,
            _text(event.name),
            protocol.Dtype(event.dtype).name.lower(),
            event.nbytes,
            event.crc,
            data if is_whole else None,
        )


def tapped_runs(link: Link, wait_s: float) -> Iterator[TappedRun]:
    """Yield inferences as they arrive.

    Raise :class:`~hil.errors.LinkError` if none came whole for ``wait_s``.
    """
    reader = TapReader()
    deadline = time.monotonic() + wait_s
    while True:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise _silent(link, reader, wait_s)
        for frame in link.receive(left_s):
            if (run := reader.add(frame)) is not None:
                yield run
                deadline = time.monotonic() + wait_s


def _silent(link: Link, reader: TapReader, wait_s: float) -> LinkError:
    fact = f"no inference was tapped at {link.url} within {wait_s:g} s"
    if reader.dropped:
        return LinkError(
            f"{fact}: of each a part was lost ({reader.dropped})",
            "lower the baud rate, or check that nothing else writes into the frames",
        )
    if link.received_bytes:
        return LinkError(
            f"{fact}: {link.received_bytes} bytes arrived, {link.bad_frames} of their frames were "
            "damaged",
            "check the baud rate (--baud), and that the firmware calls hil_tap_begin and "
            "hil_tap_end around each inference",
        )
    return LinkError(fact, "check the port, and that the firmware runs inferences by itself")


def select_layers(link: Link, first: int, count: int) -> bool:
    """Let the firmware send the bytes of these layers only; return False if it does not answer."""
    payload = protocol.REQUESTS[Command.TAP_SELECT].build({"first": first, "count": count})
    request = Frame(1, 1, Kind.REQUEST, Command.TAP_SELECT, payload)
    deadline = time.monotonic() + _SELECT_S
    while (now := time.monotonic()) < deadline:
        link.send(request)
        while time.monotonic() < now + _SELECT_RETRY_S:
            for frame in link.receive(_SELECT_RETRY_S / 10):
                if frame.kind == Kind.REPLY and frame.code == Command.TAP_SELECT:
                    return True
    return False


def _text(name: bytes) -> str:
    """Return a name; what is not printable is replaced, since it is for reading only."""
    text = name.decode("utf-8", "replace")
    return "".join(letter if letter.isprintable() else "?" for letter in text)
