"""What of a board's replies is believed, to the last value, and what its refusals say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from construct import Container

from hil.errors import DeviceError, LinkError, Remedy
from hil.link import protocol, replies
from hil.link.protocol import Command, Dtype, Event, Status, Value
from hil.link.replies import NameReader, NotInFirmwareError, reply_of

URL = "memory://"


def ask(command: Command, fields: dict[str, Any], **reply: Any) -> Any:
    """Return what the host makes of a reply with these fields."""
    return reply_of(command, fields, protocol.REPLIES[command].build(reply), URL)


def hello(**changed: Any) -> replies.Hello:
    fields = {
        "version": protocol.VERSION, "frame_max": 512, "window": 512, "ticks_hz": 1, "models": 1,
        "build_id": b"0" * 32, "commands": 1 << Command.HELLO, "board": b"b",
    } | changed  # fmt: skip
    payload = protocol.HELLO_REPLIES[protocol.VERSION].build(fields)
    return replies.hello_of({"version": protocol.VERSION, "frame_max": 512}, payload, URL)


def tensor(shape: tuple[int, ...], nbytes: int, dtype: int = Dtype.INT16) -> replies.WireTensor:
    reply = Container(
        dtype=dtype, ndim=len(shape), nbytes=nbytes, shape_and_name=np.array(shape, "<i4").tobytes()
    )
    return replies.wire_tensor_of(reply, "t")


def counts(**changed: int) -> Any:
    numbers = dict.fromkeys(("inputs", "outputs", "workspace_pools", "constants"), 4096) | changed
    return ask(Command.METADATA_INFO, {}, version=1, name_length=0, name=b"", **numbers)


def sides(count: int, nbytes: int) -> Any:
    return ask(
        Command.TENSOR_INFO, {}, dtype=0, ndim=count, nbytes=1, name_length=0,
        shape_and_name=bytes(nbytes),
    )  # fmt: skip


def long_sides(count: int, nbytes: int) -> Any:
    return ask(
        Command.METADATA_TENSOR, {}, code=0, bits=8, lanes=1, ndim=count, name_length=0,
        shape_and_name=bytes(nbytes),
    )  # fmt: skip


def function(number: int, of: int) -> Any:
    fields = {"function": number}
    return ask(Command.FUNCTION_INFO, fields, functions=of, name_length=0, name=b"")


def stack(peak: int) -> Any:
    numbers = {"stack_bytes": 100, "stack_peak_bytes": peak, "rx_bytes": 0, "bad_frames": 0}
    return ask(Command.MEMORY, {}, **numbers)


def constant(offset: int, nbytes: int) -> Any:
    numbers = {"byte_offset": offset, "data_bytes": nbytes}
    return ask(Command.METADATA_CONSTANT, {}, name_length=0, name=b"", **numbers)


def result(returned: int, kind: Value, text: bytes) -> Any:
    return ask(Command.CALL, {}, returned=returned, kind=kind, value=bytes(8), text=text)


def model(layers: int, name: str = "m") -> replies.ModelInfo:
    return replies.model_info_of(
        Container(inputs=1, outputs=2, layers=layers, workspace_bytes=3), name
    )


def busy(done: int, of: int, total: int | None = None) -> replies.Busy:
    payload = protocol.EVENTS[Event.BUSY].build({"done": done, "total": of})
    return replies.busy_of(payload, total)


MOST = 1 << 26
#: By what is looked at: the last values that are believed, and the first that are not.
LIMITS: dict[str, tuple[Any, list[tuple[Any, ...]], list[tuple[Any, ...]]]] = {
    "frames": (
        lambda n: hello(frame_max=n), [(protocol.FRAME_MIN,), (512,)],
        [(protocol.FRAME_MIN - 1,), (513,)],
    ),
    "window": (lambda n: hello(window=n), [(512,), (1 << 20,)], [(511,)]),
    "time base": (lambda n: hello(ticks_hz=n), [(1,)], [(0,)]),
    "board's name": (
        lambda name: hello(board=name), [(b"x",), (b"x" * 100,)], [(b"",), (b"x" * 101,)]
    ),
    "stack": (stack, [(0,), (100,)], [(101,)]),
    "function": (function, [(0, 1), (4095, 4096)], [(0, 0), (1, 1), (0, 4097)]),
    "metadata": (
        lambda **changed: counts(**changed), [()],
        [(name,) for name in ("inputs", "outputs", "workspace_pools", "constants")],
    ),
    "sides of four bytes": (sides, [(0, 0), (16, 64), (2, 9)], [(17, 68), (2, 7)]),
    "sides of eight bytes": (long_sides, [(0, 0), (16, 128)], [(17, 136), (16, 127)]),
    "constant": (constant, [(0, 0), (5, 7)], [(-1, 0), (0, -1)]),
    "result": (
        result,
        [(0, Value.STRING, b"a"), (-1, Value.INT, b"a"), (0, Value.INT, b"")],
        [(0, Value.INT, b"a")],
    ),
    "layers": (model, [(0,), (4096,)], [(4097,), (1, "")]),
    "tensor": (
        tensor, [((), 2), ((3, 5), 30), ((MOST // 2,), MOST)],
        [((0,), 0), ((3, 0), 0), ((3, 5), 15), ((3, 5), 31), ((MOST // 2 + 1,), MOST + 2),
         ((1,), 2, 99)],
    ),
    "progress": (busy, [(0, 1), (9, 9), (3, 9, 9)], [(10, 9), (3, 9, 8), (3, 9, 10)]),
}  # fmt: skip


@pytest.mark.parametrize("what", LIMITS)
def test_a_reply_is_believed_up_to_its_limits(what: str) -> None:
    look, good, bad = LIMITS[what]
    if what == "metadata":
        counts()
        for (name,) in bad:
            with pytest.raises(LinkError, match=f"4097 {name}"):
                counts(**{name: 4097})
        return
    for values in good:
        assert look(*values) is not None
    for values in bad:
        with pytest.raises(LinkError, match="violates the protocol"):
            look(*values)


def test_what_is_believed_is_kept() -> None:
    assert tensor((3, 5), 30) == replies.WireTensor("t", (3, 5), "int16", 30)
    assert model(4) == replies.ModelInfo("m", 1, 2, 4, 3)
    assert busy(3, 9) == replies.Busy(3, 9)
    found = hello(frame_max=128, window=300, ticks_hz=7, models=2, board=b"name")
    assert found == replies.Hello(
        "name", "0" * 32, protocol.VERSION, 2, 7, 128, 300, frozenset((Command.HELLO,))
    )


def test_an_older_version_is_spoken() -> None:
    def refused(status: int, version: int) -> int | None:
        payload = protocol.ERROR.build({"status": status, "detail": version})
        return replies.older_version(payload)

    for version in range(protocol.VERSION + 3):
        is_older = protocol.OLDEST <= version < protocol.VERSION
        assert refused(Status.VERSION, version) == (version if is_older else None)
    assert refused(Status.STALE, protocol.OLDEST) is None


# -- names -----------------------------------------------------------------------------------------


def read_name(command: Command, room: int, parts: list[bytes], length: int, ndim: int = 0) -> str:
    reader = NameReader(command, room)
    for number, part in enumerate(parts):
        assert reader.offset == sum(map(len, parts[:number]))
        sides = bytes(4 * ndim) if command == Command.TENSOR_INFO else b""
        fields = {"name_length": length, "name": part, "shape_and_name": sides + part, "ndim": ndim}
        is_whole = reader.add(Container(fields))
        assert is_whole == (number == len(parts) - 1)
    return reader.result()[1]


def test_each_part_of_a_name_fills_its_frame() -> None:
    # A byte of status, one of outputs and two of length stand before a layer's name.
    assert read_name(Command.LAYER_INFO, 4 + 3, [b"abc", b"def", b"g"], 7) == "abcdefg"
    assert read_name(Command.LAYER_INFO, 4 + 3, [b"abc"], 3) == "abc"
    assert read_name(Command.LAYER_INFO, 4 + 3, [b""], 0) == ""
    # Nine bytes and the sides before a tensor's.
    assert read_name(Command.TENSOR_INFO, 9 + 8 + 2, [b"ab", b"c"], 3, ndim=2) == "abc"
    # Where there is room for nothing, it comes byte by byte.
    for room in (4, 5):
        assert read_name(Command.LAYER_INFO, room, [b"a", b"b"], 2) == "ab"
    for parts in ([b"ab", b"cdef"], [b"abcd"], [b"abc", b"de"], [b"abc", b""]):
        with pytest.raises(LinkError, match="bytes of a LAYER_INFO name of 7, from byte"):
            read_name(Command.LAYER_INFO, 4 + 3, parts, 7)
    changing = NameReader(Command.LAYER_INFO, 4 + 3)
    changing.add(Container(name_length=7, name=b"abc"))
    with pytest.raises(LinkError, match="name of 6, from byte 3 on"):
        changing.add(Container(name_length=6, name=b"def"))


# -- refusals --------------------------------------------------------------------------------------


def refusal(status: int, detail: int, command: Command = Command.RUN) -> DeviceError:
    payload = protocol.ERROR.build({"status": status, "detail": detail})
    with pytest.raises(DeviceError) as caught:
        reply_of(command, {}, payload, URL)
    return caught.value


@pytest.mark.parametrize(
    ("detail", "value"),
    [(0, 0), (7, 7), (0x7FFFFFFF, 0x7FFFFFFF), (0x80000000, -0x80000000), (0xFFFFFFF9, -7)],
)
def test_what_a_model_returned_has_a_sign(detail: int, value: int) -> None:
    found = refusal(Status.MODEL_FAILED, detail)
    assert found.fact == f"the board refused RUN: the model returned {value}"
    # That of others has none.
    assert str(detail) in refusal(Status.BAD_LENGTH, detail).fact


def test_a_refusal_says_what_to_do() -> None:
    restarted = refusal(Status.STALE, 0)
    assert "restarted by itself before it answered RUN" in restarted.fact
    assert restarted.remedy == Remedy.RESET
    taken = refusal(Status.STALE, 5)
    assert isinstance(taken, LinkError)
    assert "another program took over the board at memory://" in taken.fact
    other = refusal(Status.VERSION, 9)
    assert "speaks protocol version 9" in other.fact
    assert other.remedy == Remedy.FLASH
    missing = refusal(Status.NOT_IN_FIRMWARE, 13)
    assert isinstance(missing, NotInFirmwareError)
    assert "interface=packed" in missing.hint
    guard = refusal(Status.GUARD_CHANGED, 3)
    assert "3 bytes beside the models' workspaces changed" in guard.fact
    assert "--per-layer" in guard.hint
    assert not isinstance(guard, NotInFirmwareError)
    assert type(refusal(Status.BAD_MODEL, 1)) is DeviceError


@pytest.mark.parametrize(
    ("command", "told", "hint"),
    [
        (Command.CALL, "the firmware has no packed functions", "interface=packed"),
        (Command.STATE_INFO, "none of its models has states", "a model with states"),
        (Command.FEED_INFO, "none of its models takes rows", "--feed rows"),
    ],
)
def test_what_a_firmware_was_built_without_is_named(command: Command, told: str, hint: str) -> None:
    found = replies.not_answered(command, URL)
    assert isinstance(found, NotInFirmwareError)
    assert found.fact == f"the firmware at {URL} does not answer {command.name}: {told}"
    assert hint in found.hint


def test_a_refused_basic_command_is_other_firmware() -> None:
    found = replies.not_answered(Command.RUN, URL)
    assert not isinstance(found, NotInFirmwareError)
    assert found.remedy == Remedy.FLASH
