"""Messages between host and firmware: the single definition for both sides.

:mod:`hil.link.header` generates ``firmware_template/include/hil_protocol.h`` from this module. All
numbers are little-endian. A field without a fixed size is the last one and extends to the end of
the message.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from construct import (
    Bytes,
    Const,
    CString,
    Float64l,
    GreedyBytes,
    GreedyRange,
    Int8ul,
    Int16ul,
    Int32sl,
    Int32ul,
    Int64sl,
    Int64ul,
    Struct,
)

#: Incremented by a change that an older firmware or host would misread. Hosts and firmware open a
#: session in any version from `OLDEST` on.
VERSION = 2
OLDEST = 1
MAGIC = b"hilp"

#: Bytes of a frame on the line, including both delimiters, that both sides must accept.
FRAME_MIN = 128
FRAME_LIMIT = 0xFFFF

#: Number of hexadecimal digits (ASCII) in a firmware's build id.
BUILD_ID_BYTES = 32


class Kind(IntEnum):
    """Kind of a frame: the host sends requests, the board replies and events."""

    REQUEST = 1
    REPLY = 2
    EVENT = 3


class Command(IntEnum):
    """Command of a request, and of its reply."""

    HELLO = 1
    RESET = 2
    ECHO = 3
    MEMORY = 4
    MODEL_INFO = 5
    TENSOR_INFO = 6
    LAYER_INFO = 7
    WRITE = 8
    READ = 9
    RUN = 10
    RUN_LAYERS = 11
    # Commands of PACKED.
    FUNCTION_INFO = 12
    CALL = 13
    METADATA_INFO = 14
    METADATA_TENSOR = 15
    METADATA_CONSTANT = 16
    # Commands of OF_STATES.
    STATE_INFO = 17
    RESET_STATE = 18
    # The command of TAPS.
    TAP_SELECT = 19
    # The command of OF_FEEDS.
    FEED_INFO = 20


#: Commands that only firmware with packed functions executes.
PACKED = frozenset(
    command for command in Command if Command.FUNCTION_INFO <= command <= Command.METADATA_CONSTANT
)

#: Commands that only firmware with a stateful model executes.
OF_STATES = frozenset((Command.STATE_INFO, Command.RESET_STATE))

#: Commands that only firmware with a model whose input comes by rows executes.
OF_FEEDS = frozenset((Command.FEED_INFO,))

#: Commands of other people's firmware with tap points (``hil/verify/tap/hil_tap.h``).
TAPS = frozenset((Command.TAP_SELECT,))


class Event(IntEnum):
    """Event that a board reports without a request."""

    BOOT = 1
    LOG = 2
    BUSY = 3
    FAULT = 4
    STACK = 5
    # Events of TAPS.
    TAP_BEGIN = 6
    TAP_TENSOR = 7
    TAP_DATA = 8
    TAP_END = 9


class Status(IntEnum):
    """Status of a reply: OK, or why the board did not execute the request."""

    OK = 0
    VERSION = 1
    STALE = 2
    REPEATED = 3
    UNKNOWN_COMMAND = 4
    BAD_LENGTH = 5
    BAD_MODEL = 6
    BAD_TENSOR = 7
    BAD_LAYER = 8
    BAD_RANGE = 9
    TOO_BIG = 10
    MODEL_FAILED = 11
    FAULTED = 12
    NOT_IN_FIRMWARE = 13
    BAD_FUNCTION = 14
    BAD_ARGUMENT = 15
    TOO_MANY_ARGUMENTS = 16
    NO_METADATA = 17
    BAD_ENTRY = 18
    GUARD_CHANGED = 19
    ROWS_MISSING = 20


#: Text of each status; ``{detail}`` is the number in the error reply.
STATUS_TEXT: Mapping[Status, str] = {
    Status.OK: "done",
    Status.VERSION: "the firmware speaks protocol version {detail}",
    Status.STALE: "the session is not the board's (which is {detail}; 0: none)",
    Status.REPEATED: "the request is older than the last one handled (number {detail})",
    Status.UNKNOWN_COMMAND: "the firmware does not know command {detail}",
    Status.BAD_LENGTH: "the request does not have the {detail} bytes of its command",
    Status.BAD_MODEL: "no such model: the firmware has {detail}",
    Status.BAD_TENSOR: "no such tensor: there are {detail} of this kind",
    Status.BAD_LAYER: "no such layer: the model has {detail}",
    Status.BAD_RANGE: "the bytes lie outside the tensor, which has {detail}",
    Status.TOO_BIG: "the answer does not fit in a frame, which takes {detail} bytes of it",
    Status.MODEL_FAILED: "the model returned {detail}",
    Status.FAULTED: "the firmware stopped at a fault (kind {detail}) and waits for a reset",
    Status.NOT_IN_FIRMWARE: "the firmware was built without support of command {detail}",
    Status.BAD_FUNCTION: "no such function: the firmware has {detail} packed functions",
    Status.BAD_ARGUMENT: "argument {detail} of the call is malformed or names no tensor",
    Status.TOO_MANY_ARGUMENTS: "the firmware takes at most {detail} arguments of a call",
    Status.NO_METADATA: "the model has no TVM metadata",
    Status.BAD_ENTRY: "no such entry: the list of the metadata has {detail}",
    Status.GUARD_CHANGED: "{detail} bytes beside the models' workspaces changed during the run",
    Status.ROWS_MISSING: "rows of the input are missing: the board has its first {detail} bytes",
}


class Dtype(IntEnum):
    """Element types; the names in lower case are numpy's."""

    INT8 = 0
    UINT8 = 1
    INT16 = 2
    INT32 = 3
    INT64 = 4
    FLOAT32 = 5
    BOOL = 6
    UINT32 = 7
    UINT64 = 8
    UINT16 = 9
    FLOAT16 = 10
    FLOAT64 = 11


class Tensors(IntEnum):
    """The lists of tensors that a request can name."""

    INPUT = 0
    OUTPUT = 1
    LAYER_OUTPUT = 2
    # Valid only as arguments of a call.
    LAYER_ARGUMENT = 3
    POOL = 4
    # The states that a run leaves to the next one.
    STATE = 5


class Value(IntEnum):
    """Kinds of a call's arguments and results: TVM's type codes."""

    INT = 0
    FLOAT = 2
    HANDLE = 3
    NONE = 4
    TENSOR = 7
    MODULE = 9
    FUNCTION = 10
    STRING = 11


class MetadataList(IntEnum):
    """The lists of tensors in a model's TVM metadata."""

    INPUT = 0
    OUTPUT = 1
    WORKSPACE_POOL = 2


class Fault(IntEnum):
    """``enum hil_fault_kind`` of the firmware's ``hil_fault.h``."""

    NMI = 2
    HARD = 3
    MEMORY = 4
    BUS = 5
    USAGE = 6
    SECURE = 7
    INTERRUPT = 16
    STACK_OVERFLOW = 32
    ASSERT = 33
    #: RISC-V: plus the exception's code.
    EXCEPTION = 40
    SIGNAL = 64


def _message(**fields: Any) -> Any:
    return Struct(*(name / field for name, field in fields.items()))


HEADER = _message(session=Int16ul, seq=Int16ul, kind=Int8ul, code=Int8ul)
CRC = Int32ul

#: The reply to any command if its status is not OK.
ERROR = _message(status=Int8ul, detail=Int32ul)

_TENSOR = {"model": Int8ul, "list": Int8ul, "layer": Int16ul, "index": Int8ul}
_OK = {"status": Const(Status.OK, Int8ul)}

REQUESTS: Mapping[Command, Any] = {
    Command.HELLO: _message(magic=Const(MAGIC), version=Int8ul, frame_max=Int16ul),
    Command.RESET: _message(),
    Command.ECHO: _message(data=GreedyBytes),
    Command.MEMORY: _message(),
    Command.MODEL_INFO: _message(model=Int8ul, name_offset=Int16ul),
    Command.TENSOR_INFO: _message(**_TENSOR, name_offset=Int16ul),
    Command.LAYER_INFO: _message(model=Int8ul, layer=Int16ul, name_offset=Int16ul),
    Command.WRITE: _message(**_TENSOR, offset=Int32ul, data=GreedyBytes),
    Command.READ: _message(**_TENSOR, offset=Int32ul, length=Int16ul),
    Command.RUN: _message(model=Int8ul, repeat=Int32ul),
    Command.RUN_LAYERS: _message(model=Int8ul, first=Int16ul, count=Int16ul),
    Command.FUNCTION_INFO: _message(function=Int16ul, name_offset=Int16ul),
    Command.CALL: _message(arguments=Int8ul, name_and_values=GreedyBytes),
    Command.METADATA_INFO: _message(model=Int8ul, name_offset=Int16ul),
    Command.METADATA_TENSOR: _message(
        model=Int8ul, list=Int8ul, index=Int16ul, name_offset=Int16ul
    ),
    Command.METADATA_CONSTANT: _message(model=Int8ul, index=Int16ul, name_offset=Int16ul),
    Command.STATE_INFO: _message(model=Int8ul),
    Command.RESET_STATE: _message(model=Int8ul),
    Command.TAP_SELECT: _message(first=Int16ul, count=Int16ul),
    Command.FEED_INFO: _message(model=Int8ul),
}

#: Follows the kind of a call's argument; a string is its bytes and a zero.
VALUES: Mapping[Value, Any] = {
    Value.INT: _message(value=Int64sl),
    Value.FLOAT: _message(value=Float64l),
    Value.HANDLE: _message(value=Int64ul),
    Value.NONE: _message(),
    Value.TENSOR: _message(**_TENSOR),
    Value.MODULE: _message(value=Int64ul),
    Value.FUNCTION: _message(value=Int64ul),
    Value.STRING: _message(value=CString("utf8")),
}

_HELLO_1 = {
    **_OK,
    "version": Int8ul,
    "frame_max": Int16ul,
    "window": Int32ul,
    "ticks_hz": Int32ul,
    "models": Int8ul,
    "build_id": Bytes(BUILD_ID_BYTES),
}
#: The reply to HELLO in each version. `commands` is a mask: bit `n` for command `n`.
HELLO_REPLIES: Mapping[int, Any] = {
    1: _message(**_HELLO_1, board=GreedyBytes),
    2: _message(**_HELLO_1, commands=Int32ul, board=GreedyBytes),
}

REPLIES: Mapping[Command, Any] = {
    Command.HELLO: HELLO_REPLIES[VERSION],
    Command.RESET: _message(**_OK),
    Command.ECHO: _message(**_OK, data=GreedyBytes),
    Command.MEMORY: _message(
        **_OK, stack_bytes=Int32ul, stack_peak_bytes=Int32ul, rx_bytes=Int32ul, bad_frames=Int32ul
    ),
    Command.MODEL_INFO: _message(
        **_OK,
        inputs=Int8ul,
        outputs=Int8ul,
        layers=Int16ul,
        workspace_bytes=Int32ul,
        name_length=Int16ul,
        name=GreedyBytes,
    ),
    Command.TENSOR_INFO: _message(
        **_OK,
        dtype=Int8ul,
        ndim=Int8ul,
        nbytes=Int32ul,
        name_length=Int16ul,
        shape_and_name=GreedyBytes,
    ),
    Command.LAYER_INFO: _message(**_OK, outputs=Int8ul, name_length=Int16ul, name=GreedyBytes),
    Command.WRITE: _message(**_OK),
    Command.READ: _message(**_OK, data=GreedyBytes),
    Command.RUN: _message(**_OK, ticks=Int64ul),
    Command.RUN_LAYERS: _message(**_OK, ticks=GreedyRange(Int64ul)),
    Command.FUNCTION_INFO: _message(
        **_OK, functions=Int16ul, name_length=Int16ul, name=GreedyBytes
    ),
    Command.CALL: _message(**_OK, returned=Int32sl, kind=Int8ul, value=Bytes(8), text=GreedyBytes),
    Command.METADATA_INFO: _message(
        **_OK,
        version=Int64sl,
        inputs=Int16ul,
        outputs=Int16ul,
        workspace_pools=Int16ul,
        constants=Int16ul,
        name_length=Int16ul,
        name=GreedyBytes,
    ),
    Command.METADATA_TENSOR: _message(
        **_OK,
        code=Int8ul,
        bits=Int8ul,
        lanes=Int16ul,
        ndim=Int8ul,
        name_length=Int16ul,
        shape_and_name=GreedyBytes,
    ),
    Command.METADATA_CONSTANT: _message(
        **_OK, byte_offset=Int64sl, data_bytes=Int64sl, name_length=Int16ul, name=GreedyBytes
    ),
    Command.STATE_INFO: _message(**_OK, states=Int8ul),
    Command.RESET_STATE: _message(**_OK),
    Command.TAP_SELECT: _message(**_OK),
    Command.FEED_INFO: _message(**_OK, rows=Int32ul),
}

EVENTS: Mapping[Event, Any] = {
    Event.BOOT: _message(version=Int8ul),
    # `more` is 1 when the text goes on in the next LOG frame.
    Event.LOG: _message(more=Int8ul, text=GreedyBytes),
    Event.BUSY: _message(done=Int32ul, total=Int32ul),
    # The addresses have 64 bits because the native firmware's have.
    Event.FAULT: _message(
        kind=Int32ul,
        pc=Int64ul,
        lr=Int64ul,
        sp=Int64ul,
        mmfar=Int64ul,
        bfar=Int64ul,
        psr=Int32ul,
        cfsr=Int32ul,
        hfsr=Int32ul,
        r0=Int32ul,
        r1=Int32ul,
        r2=Int32ul,
        r3=Int32ul,
        r12=Int32ul,
    ),
    # Before a FAULT: bounds of the stack that was in use, and its words from `address` on.
    Event.STACK: _message(
        bottom=Int64ul, top=Int64ul, peak_bytes=Int32ul, address=Int64ul, data=GreedyBytes
    ),
    Event.TAP_BEGIN: _message(run=Int32ul, name=GreedyBytes),
    # Of INPUT, OUTPUT and LAYER_OUTPUT; `sent` is 1 where TAP_DATA follow.
    Event.TAP_TENSOR: _message(
        run=Int32ul,
        list=Int8ul,
        layer=Int16ul,
        index=Int8ul,
        dtype=Int8ul,
        nbytes=Int32ul,
        crc=Int32ul,
        sent=Int8ul,
        name=GreedyBytes,
    ),
    Event.TAP_DATA: _message(
        run=Int32ul, list=Int8ul, layer=Int16ul, index=Int8ul, offset=Int32ul, data=GreedyBytes
    ),
    Event.TAP_END: _message(run=Int32ul, tensors=Int16ul),
}


#: Bytes per dimension in replies that contain a shape before the name.
SIDE_BYTES: Mapping[Command, int] = {Command.TENSOR_INFO: 4, Command.METADATA_TENSOR: 8}


def fixed_bytes(message: Any) -> int:
    """Return the size of a message's fields before its variable-length field."""
    return sum(part.sizeof() for part in message.subcons[:-1])


def payload_max(frame_max: int) -> int:
    """Return the payload bytes that a frame of ``frame_max`` bytes can always carry."""
    coded = frame_max - 2  # without the delimiters
    body = coded - -(-coded // 255)  # COBS adds one byte to each 254
    return int(body - HEADER.sizeof() - CRC.sizeof())
