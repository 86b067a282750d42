"""Validation and decoding of a board's replies.

A board may run another program, old firmware or broken firmware, so no reply is trusted: sizes,
counts, names and types are checked here, once, before they are used. A failed check is a
:class:`~hil.errors.LinkError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from hil.errors import DeviceError, LinkError, Remedy
from hil.link import messages, protocol
from hil.link.protocol import Command, Event, Status, Value
from hilc.artifact.manifest import MODEL_NAME

#: Most entries of a list (functions, metadata), and tensors of a model, that a board may report.
ENTRIES_MAX = 4096
#: Far above the memory of a microcontroller; larger tensors are rejected.
TENSOR_BYTES_MAX = 1 << 26
#: Longest text of a log entry; the rest is dropped.
LOG_BYTES_MAX = 1 << 16
_DIMENSIONS_MAX = 16
#: Hint of a run that the model itself gives up.
_FAILED_HINT = (
    "an index is outside of its tensor, memory of the run time is exhausted, or external code "
    "reports an error"
)
_PACKED_HINT = "compile the model with interface=packed and build the firmware again"
_BOARD_NAME_BYTES_MAX = 100
#: Control characters, which could change a terminal.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class ModelFailedError(DeviceError):
    """The model's function returned a status other than 0."""

    def __init__(self, fact: str, hint: str, returned: int) -> None:
        super().__init__(fact, hint)
        self.returned = returned


class NotInFirmwareError(DeviceError):
    """Error for a command whose part the firmware was built without."""


@dataclass(frozen=True)
class Hello:
    """The board's reply in the handshake."""

    board: str
    build_id: str
    protocol: int
    models: int
    ticks_hz: int
    #: Longest frame, and bytes of requests that may be in flight.
    frame_max: int
    window: int
    #: The commands that this firmware answers, of the known ones; None for protocol version 1,
    #: which does not report them.
    commands: frozenset[Command] | None


@dataclass(frozen=True)
class ModelInfo:
    """A model as the firmware reports it."""

    name: str
    inputs: int
    outputs: int
    layers: int
    workspace_bytes: int


@dataclass(frozen=True)
class WireTensor:
    """A tensor as the firmware reports it."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int


@dataclass(frozen=True)
class Memory:
    """The firmware's use of its stack and of its receive buffer."""

    stack_bytes: int
    stack_peak_bytes: int
    #: Size of the buffer for received bytes.
    rx_bytes: int
    #: Number of damaged frames that the board received.
    bad_frames: int


@dataclass(frozen=True)
class Busy:
    """Progress of a run, in repetitions or layers."""

    done: int
    total: int


def reply_of(command: Command, fields: Mapping[str, Any], payload: bytes, url: str) -> Any:
    """Return the validated fields of the reply to the request with ``fields``; raise its error.

    :class:`NameReader` validates names, which may take several replies.
    """
    _raise_refusal(command, payload, url)
    reply = _parsed(protocol.REPLIES[command], payload, f"a {command.name} reply")
    check = _CHECKS.get(command)
    if check is not None:
        check(fields, reply)
    return reply


def _raise_refusal(command: Command, payload: bytes, url: str) -> None:
    if payload[:1] != bytes((Status.OK,)):
        error = _parsed(protocol.ERROR, payload, f"a {command.name} reply")
        raise _status_error(command, error.status, error.detail, url)


def older_version(payload: bytes) -> int | None:
    """Return the version of firmware that refused a newer HELLO, if it is supported."""
    if payload[:1] != bytes((Status.VERSION,)):
        return None
    version: int = _parsed(protocol.ERROR, payload, "a HELLO reply").detail
    return version if protocol.OLDEST <= version < protocol.VERSION else None


def hello_of(fields: Mapping[str, Any], payload: bytes, url: str) -> Hello:
    """Return the board's answer to the handshake."""
    _raise_refusal(Command.HELLO, payload, url)
    # First: other versions may have other fields.
    version = fields["version"]
    if payload[1:2] not in (b"", bytes((version,))):
        raise _other_version(url, payload[1])
    reply = _parsed(protocol.HELLO_REPLIES[version], payload, "a HELLO reply")
    _check_hello(fields, reply)
    return Hello(
        board=reply.board.decode("utf-8"),
        build_id=reply.build_id.decode("ascii"),
        protocol=reply.version,
        models=reply.models,
        ticks_hz=reply.ticks_hz,
        frame_max=reply.frame_max,
        window=reply.window,
        commands=_commands_of(reply.commands) if "commands" in reply else None,
    )


def _commands_of(mask: int) -> frozenset[Command]:
    """Return the commands in HELLO's mask; ignore unknown ones."""
    require(bool(mask >> Command.HELLO & 1), f"a HELLO reply with the command mask {mask:#x}")
    return frozenset(command for command in Command if mask >> command & 1)


def not_answered(command: Command, url: str) -> DeviceError:
    """Return the error for a command that the firmware has reported not to answer."""
    fact = f"the firmware at {url} does not answer {command.name}"
    if command in protocol.PACKED:
        return NotInFirmwareError(f"{fact}: the firmware has no packed functions", _PACKED_HINT)
    if command in protocol.OF_STATES:
        hint = "build the firmware from a model with states, and flash it"
        return NotInFirmwareError(f"{fact}: none of its models has states", hint)
    if command in protocol.OF_FEEDS:
        hint = "build the firmware from a model with --feed rows, and flash it"
        return NotInFirmwareError(f"{fact}: none of its models takes rows", hint)
    return DeviceError(
        f"{fact}: its handshake does not list the command",
        "build the firmware again with this version of the program, and flash it",
        remedy=Remedy.FLASH,
    )


def model_info_of(reply: Any, name: str) -> ModelInfo:
    """Return a model; its name must be valid for the compiler."""
    require(MODEL_NAME.fullmatch(name) is not None, f"a model called {name!r}")
    require(
        reply.layers <= ENTRIES_MAX,
        f"model {name!r} with {reply.layers} layers (at most {ENTRIES_MAX} are expected)",
    )
    return ModelInfo(name, reply.inputs, reply.outputs, reply.layers, reply.workspace_bytes)


def wire_tensor_of(reply: Any, name: str) -> WireTensor:
    """Return a tensor if its type, shape and size agree."""
    shape = shape_of(reply, protocol.SIDE_BYTES[Command.TENSOR_INFO])
    try:
        dtype = protocol.Dtype(reply.dtype).name.lower()
    except ValueError:
        raise protocol_error(f"tensor {name!r} has the unknown type {reply.dtype}") from None
    what = f"tensor {name!r} of {dtype}{list(shape)} in {reply.nbytes} bytes"
    require(all(side > 0 for side in shape), what)
    require(reply.nbytes == prod(shape) * np.dtype(dtype).itemsize, what)
    require(reply.nbytes <= TENSOR_BYTES_MAX, f"{what} (at most {TENSOR_BYTES_MAX} are expected)")
    return WireTensor(name, shape, dtype, reply.nbytes)


def busy_of(payload: bytes, total: int | None = None) -> Busy:
    """Return the progress of a run, of ``total`` repetitions or layers if that is given."""
    event = _parsed(protocol.EVENTS[Event.BUSY], payload, "a BUSY event")
    holds = event.done <= event.total and total in (None, event.total)
    asked = "" if total is None else f", but {total} were requested"
    require(holds, f"BUSY with {event.done} of {event.total} done{asked}")
    return Busy(event.done, event.total)


class NameReader:
    """Assembles the name at the end of a reply from one or several replies.

    Each part except the last must fill its frame, so a board cannot force needless requests.
    """

    def __init__(self, command: Command, payload_max: int) -> None:
        self._command = command
        self._payload_max = payload_max
        self._name = b""
        self._first: Any = None

    @property
    def offset(self) -> int:
        """The length of the received part of the name."""
        return len(self._name)

    def add(self, reply: Any) -> bool:
        """Add a reply's part; return whether the name is complete."""
        if self._first is None:
            self._first = reply
        part = _name_part(self._command, reply)
        rest = self._first.name_length - len(self._name)
        room = self._payload_max - protocol.fixed_bytes(protocol.REPLIES[self._command])
        room -= protocol.SIDE_BYTES.get(self._command, 0) * reply.get("ndim", 0)
        require(
            # The part that fits, and at least a byte: otherwise a board reports TOO_BIG.
            reply.name_length == self._first.name_length and len(part) == min(rest, max(room, 1)),
            f"{len(part)} bytes of a {self._command.name} name of {reply.name_length}, from byte "
            f"{len(self._name)} on",
        )
        self._name += part
        return bool(len(self._name) == self._first.name_length)

    def result(self) -> tuple[Any, str]:
        """Return the first reply and the whole name."""
        return self._first, _text(self._name, f"the name in a {self._command.name} reply")


class LogReader:
    """Assembles log texts from LOG events."""

    def __init__(self) -> None:
        self._text = b""

    def add(self, payload: bytes) -> str | None:
        """Add an event's payload; return the text that it completes."""
        if not payload:
            return None
        event = protocol.EVENTS[Event.LOG].parse(payload)
        self._text += event.text[: LOG_BYTES_MAX - len(self._text)]
        if event.more:
            return None
        text, self._text = self._text, b""
        return text.decode("utf-8", "replace")


def protocol_error(what: str) -> LinkError:
    """Return the error for a reply or event that violates the protocol."""
    return LinkError(
        f"the firmware violates the protocol: {what}",
        "build the firmware with this version of the program and flash it",
    )


# -- the checks of each reply ------------------------------------------------------------------


def _parsed(message: Any, payload: bytes, what: str) -> Any:
    """Return the fields of ``message``; ``payload`` must match it from first to last byte."""
    fields = messages.parse(message, payload)
    if fields is None:
        raise protocol_error(f"{what} of {len(payload)} bytes")
    return fields


def _check_hello(fields: Mapping[str, Any], reply: Any) -> None:
    require(
        protocol.FRAME_MIN <= reply.frame_max <= fields["frame_max"],
        f"a HELLO reply with frames of {reply.frame_max} bytes ({protocol.FRAME_MIN} to "
        f"{fields['frame_max']} are allowed)",
    )
    require(
        reply.window >= reply.frame_max,
        f"a HELLO reply with a window of {reply.window} bytes, less than a frame",
    )
    require(reply.ticks_hz > 0, "a HELLO reply with a time base of 0 Hz")
    digits = reply.build_id
    require(re.fullmatch(rb"[0-9a-f]*", digits) is not None, f"the build id {digits!r}")
    name = _text(reply.board, "the board's name")
    require(0 < len(reply.board) <= _BOARD_NAME_BYTES_MAX, f"the board's name {name!r}")


def _check_echo(fields: Mapping[str, Any], reply: Any) -> None:
    sent, got = fields["data"], reply.data
    require(got == sent, f"{len(got)} bytes that differ from the {len(sent)} of the ECHO request")


def _check_memory(fields: Mapping[str, Any], reply: Any) -> None:
    require(
        reply.stack_peak_bytes <= reply.stack_bytes,
        f"{reply.stack_peak_bytes} of {reply.stack_bytes} bytes of stack in use",
    )


def _check_read(fields: Mapping[str, Any], reply: Any) -> None:
    asked, got = fields["length"], len(reply.data)
    require(got == asked, f"{got} bytes to a READ of {asked}")


def _check_run_layers(fields: Mapping[str, Any], reply: Any) -> None:
    asked, got = fields["count"], len(reply.ticks)
    require(got == asked, f"the ticks of {got} layers to a RUN_LAYERS of {asked}")


def _check_function_info(fields: Mapping[str, Any], reply: Any) -> None:
    require(
        fields["function"] < reply.functions <= ENTRIES_MAX,
        f"function {fields['function']} of {reply.functions} (at most {ENTRIES_MAX} are expected)",
    )


def _check_call(fields: Mapping[str, Any], reply: Any) -> None:
    is_text = reply.returned != 0 or reply.kind == Value.STRING
    require(is_text or not reply.text, f"a text with a CALL's result of kind {reply.kind}")


def _check_metadata_info(fields: Mapping[str, Any], reply: Any) -> None:
    for entries in ("inputs", "outputs", "workspace_pools", "constants"):
        count = reply[entries]
        require(
            count <= ENTRIES_MAX,
            f"metadata with {count} {entries} (at most {ENTRIES_MAX} are expected)",
        )


def _check_shape(command: Command, fields: Mapping[str, Any], reply: Any) -> None:
    size = protocol.SIDE_BYTES[command] * reply.ndim
    require(
        reply.ndim <= _DIMENSIONS_MAX and len(reply.shape_and_name) >= size,
        f"a tensor of {reply.ndim} dimensions in {len(reply.shape_and_name)} bytes",
    )


def _check_metadata_constant(fields: Mapping[str, Any], reply: Any) -> None:
    require(
        reply.byte_offset >= 0 and reply.data_bytes >= 0,
        f"a constant of {reply.data_bytes} bytes at {reply.byte_offset}",
    )


#: Checks of a reply's fields by command, given the request's fields.
_CHECKS: Mapping[Command, Callable[[Mapping[str, Any], Any], None]] = {
    Command.ECHO: _check_echo,
    Command.MEMORY: _check_memory,
    Command.TENSOR_INFO: partial(_check_shape, Command.TENSOR_INFO),
    Command.READ: _check_read,
    Command.RUN_LAYERS: _check_run_layers,
    Command.FUNCTION_INFO: _check_function_info,
    Command.CALL: _check_call,
    Command.METADATA_INFO: _check_metadata_info,
    Command.METADATA_TENSOR: partial(_check_shape, Command.METADATA_TENSOR),
    Command.METADATA_CONSTANT: _check_metadata_constant,
}


def require(holds: bool, what: str) -> None:
    """Raise an error that the firmware sent ``what``, unless ``holds``."""
    if not holds:
        raise protocol_error(what)


def _text(data: bytes, what: str) -> str:
    """Return a name; raise if it contains control characters."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise protocol_error(f"{what} is not UTF-8") from None
    require(_CONTROL.search(text) is None, f"{what} is {text!r}")
    return text


def _name_part(command: Command, reply: Any) -> bytes:
    part: bytes = (
        reply.shape_and_name[protocol.SIDE_BYTES[command] * reply.ndim :]
        if command in protocol.SIDE_BYTES
        else reply.name
    )
    return part


def shape_of(reply: Any, side_bytes: int) -> tuple[int, ...]:
    """Return the shape in front of a tensor's name."""
    sides = reply.shape_and_name[: side_bytes * reply.ndim]
    return tuple(int(side) for side in np.frombuffer(sides, f"<i{side_bytes}"))


# -- statuses ----------------------------------------------------------------------------------


def _other_version(url: str, version: int) -> LinkError:
    return LinkError(
        f"the firmware at {url} speaks protocol version {version}, "
        f"this program speaks {protocol.OLDEST} to {protocol.VERSION}",
        "build the firmware with this version of the program and flash it",
        remedy=Remedy.FLASH,
    )


def _status_error(command: Command, status: int, detail: int, url: str) -> DeviceError:
    if status == Status.VERSION:
        return _other_version(url, detail)
    if status == Status.STALE and detail == 0:
        return DeviceError(
            f"the board restarted by itself before it answered {command.name}",
            "check its power supply (a brown-out), its watchdog, and programs that reset it; the "
            "firmware's log may show the cause",
            remedy=Remedy.RESET,
        )
    if status == Status.STALE:
        return LinkError(
            f"another program took over the board at {url}", "let one program at a time use it"
        )
    if status == Status.MODEL_FAILED:
        detail -= (detail & 0x80000000) << 1
    try:
        text = protocol.STATUS_TEXT[Status(status)].format(detail=detail)
    except ValueError:
        text = f"status {status} ({detail})"
    fact = f"the board refused {command.name}: {text}"
    if status == Status.NOT_IN_FIRMWARE:
        return NotInFirmwareError(fact, _PACKED_HINT)
    if status == Status.GUARD_CHANGED:
        return DeviceError(
            fact,
            "the model, or a function that it calls, writes outside of its memory: find the layer "
            "with `hil verify --per-layer`",
        )
    if status == Status.MODEL_FAILED and command in (Command.RUN, Command.RUN_LAYERS):
        return ModelFailedError(fact, _FAILED_HINT, detail)
    return DeviceError(fact)
