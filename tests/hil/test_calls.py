"""Packed functions over the link: every kind of argument and result, errors, a link that loses.

The firmware is a process of this machine, its functions are written by hand.
"""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from lossy_proxy import Weather, proxy
from packed_library import packed_library
from tiny_library import tiny_library

import hil
from hil.access import native
from hil.board import load_board
from hil.build import build
from hil.compat.tvm import calls
from hil.compat.tvm.calls import Handle
from hil.device import Device
from hil.errors import DeviceError, InputError
from hil.link import protocol
from hil.link.client import Client
from hil.link.fault import FaultError
from hil.link.line import Link
from hil.link.protocol import Command, Fault, Tensors, Value
from hil.link.replies import NotInFirmwareError
from hil.link.tensors import TensorRef
from hilc.artifact.library import ModelLibrary

GLOBALS = """\
#include "tvm/runtime/crt/platform.h"
static int32_t calls;
static char text[700];
static size_t format(size_t size, const char *form, ...) {
    va_list list;
    va_start(list, form);
    const size_t length = TVMPlatformFormatMessage(text, size, form, list);
    va_end(list);
    return length;
}
"""

FUNCTIONS = {
    "run": "return count == 2 ? 0 : kTvmErrorFunctionCallNumArguments;",
    # Gives back its argument, and its code as the result's.
    "same": "*result = args[count - 1]; *result_code = codes[count - 1];",
    "count": "result->v_int64 = ++calls; *result_code = kTVMArgInt;",
    "sum": """int64_t sum = 0;
    for (int i = 0; i < count; ++i) { sum += args[i].v_int64; }
    result->v_int64 = sum; *result_code = kTVMArgInt;""",
    "half": "result->v_float64 = args[0].v_float64 / 2; *result_code = kTVMArgFloat;",
    "length": "result->v_int64 = (int64_t)strlen(args[0].v_str); *result_code = kTVMArgInt;",
    "tensor": """const DLTensor *t = args[0].v_handle;
    if (codes[0] != kTVMDLTensorHandle || t->device.device_type != kDLCPU || t->device.device_id ||
        t->strides != NULL || t->byte_offset != 0 || t->dtype.lanes != 1 || t->ndim != 1) {
        return -2;
    }
    int32_t sum = 0;
    for (int64_t i = 0; i < t->shape[0]; ++i) { sum += ((const int32_t *)t->data)[i]; }
    result->v_int64 = t->dtype.code == kDLInt && t->dtype.bits == 32 ? sum : -1;
    *result_code = kTVMArgInt;""",
    "fill": """const DLTensor *t = args[0].v_handle;
    for (int64_t i = 0; i < t->shape[0]; ++i) {
        ((int32_t *)t->data)[i] = (int32_t)args[1].v_int64;
    }""",
    "fail": 'TVMAPISetLastError(args[0].v_str); return (int)args[1].v_int64;',
    "long": "memset(text, 'a', sizeof text - 1); result->v_str = text; *result_code = kTVMStr;",
    "abort": "TVMPlatformAbort(kTvmErrorPlatformCheckFailure);",
    "time": """double seconds = -1;
    if (TVMPlatformTimerStop(&seconds) != kTvmErrorPlatformTimerBadState) { return 1; }
    if (TVMPlatformTimerStart() != 0) { return 2; }
    if (TVMPlatformTimerStart() != kTvmErrorPlatformTimerBadState) { return 3; }
    if (TVMPlatformTimerStop(&seconds) != 0) { return 4; }
    result->v_float64 = seconds; *result_code = kTVMArgFloat;""",
    "random": """uint8_t bytes[8];
    if (TVMPlatformGenerateRandom(bytes, sizeof bytes) != 0) { return 1; }
    memcpy(&result->v_int64, bytes, sizeof bytes); *result_code = kTVMArgInt;""",
    "format": """const int mode = (int)args[0].v_int64;
    size_t length = 0;
    switch (mode) {
    case 0: length = format(sizeof text, "%d %i %5d|%05d|%u", 0, -7, 42, -42, 7U); break;
    case 1: length = format(sizeof text, "%lld %ld %zu %x %08X", INT64_MIN, -1L, (size_t)9, 0xBEEF,
                            0xBEEF); break;
    case 2: length = format(sizeof text, "%s%c%%%s", "ab", 'c', (const char *)NULL); break;
    case 3: length = format(sizeof text, "%p", (void *)0x1234); break;
    case 4: length = format(4, "%s", "cut off"); break;
    case 5: length = format(sizeof text, "before %f after", 1.0); break;
    default: text[0] = 'x'; length = format(0, "%d", 123); break;
    }
    if (args[1].v_int64 != (int64_t)length) { return (int)length; }
    result->v_str = text; *result_code = kTVMStr;""",
}  # fmt: skip


def library() -> ModelLibrary:
    return packed_library(FUNCTIONS, cpu="host", globals_=GLOBALS)


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    plain = tiny_library("y[0] = x[0];", name="plain", cpu="host", io_in_pool=False)
    with hil.open("native", library(), plain) as opened:
        yield opened


def call(device: Device, name: str, *arguments: Any) -> Any:
    return device.call(f"tvmgen_tiny_{name}", *arguments)


def test_functions_have_the_registry_s_order(device: Device) -> None:
    assert device.functions() == tuple(f"tvmgen_tiny_{name}" for name in FUNCTIONS)


@pytest.mark.parametrize(
    "value",
    [0, -1, 2**63 - 1, -(2**63), 0.0, -1.5, math.inf, 5e-324, "", "text \N{GREEK SMALL LETTER MU}",
     None, Handle(0), Handle(0x1234_5678), Handle(5, Value.FUNCTION), True],
)  # fmt: skip
def test_value_comes_back(device: Device, value: Any) -> None:
    result = call(device, "same", value)
    assert result == value
    assert isinstance(result, type(value) if value is not True else int)


def test_nan_comes_back(device: Device) -> None:
    assert math.isnan(call(device, "same", math.nan))


def test_values_are_passed_in_their_order(device: Device) -> None:
    assert call(device, "sum") == 0
    assert call(device, "sum", *range(16)) == 120
    assert call(device, "half", 5.0) == 2.5
    assert call(device, "length", "\N{GREEK SMALL LETTER MU}s") == 3


def test_tensors_stay_on_the_board(device: Device) -> None:
    model = device["tiny"]
    model.set_input("x", np.array([1, 20, 300, -4000], np.int32))
    assert call(device, "tensor", model.input_ref("x")) == -3679
    assert call(device, "fill", model.output_ref(0), -9) is None
    np.testing.assert_array_equal(model.get_output("y"), np.full(4, -9, np.int32))
    assert call(device, "tensor", model.output_ref("y")) == -36


def test_global_functions_can_be_called(device: Device) -> None:
    assert device.call("tvm.rpc.server.GetCRTMaxPacketSize") == 2048 - 11
    module = device.call("runtime.SystemLib")
    assert isinstance(module, Handle)
    function = device.call("tvm.rpc.server.ModuleGetFunction", module, "tvmgen_tiny_sum", 0)
    assert isinstance(function, Handle)
    assert function != module
    model = device["tiny"]
    model.set_input("x", np.zeros(4, np.int32))
    device.call("tvm.contrib.random.random_fill", model.input_ref("x"))
    assert call(device, "tensor", model.input_ref("x")) != 0


def test_failure_says_what_the_run_time_says(device: Device) -> None:
    name = "tvmgen_tiny_fail"
    with pytest.raises(DeviceError, match=f"{name!r} returned 0x102: out of paper$"):
        call(device, "fail", "out of paper", 0x102)
    with pytest.raises(DeviceError, match=f"{name!r} returned -0x1$"):
        call(device, "fail", "", -1)
    # Not the sentence of the failure before.
    with pytest.raises(DeviceError, match="'tvmgen_tiny_run' returned 0x800$"):
        call(device, "run")


def test_long_text_is_cut_at_the_frame(device: Device) -> None:
    room = protocol.payload_max(device.hello.frame_max)
    assert call(device, "long") == "a" * min(699, room - 14)


REFUSALS: dict[str, tuple[str, tuple[Any, ...], str]] = {
    "no such function": (
        "tvmgen_tiny_walk", (), f"no such function: the firmware has {len(FUNCTIONS)} packed"),
    "empty name": ("", (), "no such function"),
    "no such model": (
        "tvmgen_tiny_same", (TensorRef(7, Tensors.INPUT, 0),), "argument 0 of the call"),
    "no such tensor": (
        "tvmgen_tiny_same", (1, TensorRef(0, Tensors.INPUT, 1)), "argument 1 of the call"),
    "no such list": (
        "tvmgen_tiny_same", (TensorRef(0, 9, 0),), "argument 0 of the call"),  # type: ignore[arg-type]
    "a layer's output is no DLTensor": (
        "tvmgen_tiny_same", (TensorRef(0, Tensors.LAYER_OUTPUT, 0),), "argument 0 of the call"),
    "arguments of a layer that is not packed": (
        "tvmgen_tiny_same", (TensorRef(1, Tensors.LAYER_ARGUMENT, 0),), "argument 0 of the call"),
    "no pools": ("tvmgen_tiny_same", (TensorRef(0, Tensors.POOL, 0),), "argument 0 of the call"),
    "too many": ("tvmgen_tiny_sum", (1,) * 17, "at most 16 arguments of a call"),
}  # fmt: skip


@pytest.mark.parametrize("key", REFUSALS)
def test_board_refuses(device: Device, key: str) -> None:
    name, arguments, message = REFUSALS[key]
    with pytest.raises(DeviceError, match=message):
        device.call(name, *arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(3),), "does not accept an argument of type ndarray"),
        (([1, 2],), "does not accept an argument of type list"),
        ((2**63,), "has more than 64 bits"),
        (("a\0b",), "contains a zero character"),
        ((Handle(1, Value.TENSOR),), "is of a kind that cannot be passed"),
        (("x" * 70_000,), "takes 70\\d+ bytes; a frame of this board holds"),
    ],
)
def test_host_refuses(device: Device, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(device, "same", *arguments)


MALFORMED = {
    "no name": (0, b""),
    "unterminated name": (0, b"tvmgen_tiny_sum"),
    "argument missing": (1, b"tvmgen_tiny_sum\0"),
    "integer cut off": (1, b"tvmgen_tiny_sum\0" + bytes((Value.INT, 1, 2, 3))),
    "handle cut off": (1, b"tvmgen_tiny_sum\0" + bytes((Value.HANDLE, 1))),
    "tensor cut off": (1, b"tvmgen_tiny_sum\0" + bytes((Value.TENSOR, 0, 0, 0, 0))),
    "text without an end": (1, b"tvmgen_tiny_sum\0" + bytes((Value.STRING, 65, 66))),
    "unknown kind": (1, b"tvmgen_tiny_sum\0" + bytes((99,)) + bytes(8)),
    "bytes left": (0, b"tvmgen_tiny_sum\0" + bytes((Value.NONE,))),
}


@pytest.mark.parametrize("key", MALFORMED)
def test_malformed_request(device: Device, key: str) -> None:
    count, data = MALFORMED[key]
    expected = "no such function" if key in ("no name", "unterminated name") else "malformed"
    with pytest.raises(DeviceError, match=expected):
        device._client.ask_once(Command.CALL, {"arguments": count, "name_and_values": data}, (), 1)


# -- platform functions --------------------------------------------------------------------------


def test_failed_check_is_a_fault_with_its_code(device: Device) -> None:
    texts: list[str] = []
    device.log = texts.append
    with pytest.raises(FaultError) as caught:
        call(device, "abort")
    assert caught.value.fault.kind == Fault.ASSERT
    assert texts == ["TVM's run time stopped with error 0x00000500"]
    device.reset()
    assert call(device, "sum", 1, 2) == 3


def test_timer_tells_seconds(device: Device) -> None:
    assert 0 <= call(device, "time") < 5


def test_random_bytes_repeat_after_a_reset(device: Device) -> None:
    device.reset()
    first = [call(device, "random") for _ in range(4)]
    device.reset()
    assert [call(device, "random") for _ in range(4)] == first
    assert len(set(first)) == 4
    ones = sum(bin(struct.unpack("<Q", struct.pack("<q", value))[0]).count("1") for value in first)
    assert 90 < ones < 166  # of 256 bits


@pytest.mark.parametrize(
    ("mode", "text", "length"),
    [
        (0, "0 -7    42|-0042|7", None),
        (1, "-9223372036854775808 -1 9 beef 0000beef", None),
        (2, "abc%(null)", None),
        (3, "0x1234", None),
        (4, "cut", 7),
        (5, "before ", None),
        (6, "x", 3),
    ],
)
def test_message_is_formatted(device: Device, mode: int, text: str, length: int | None) -> None:
    """A text that is too long says how long it is; what is not known ends it."""
    result = call(device, "format", mode, len(text) if length is None else length)
    assert result[: len(text)] == text
    assert mode == 6 or result == text


# -- the link ------------------------------------------------------------------------------------


def test_call_happens_once_on_a_link_that_loses() -> None:
    """However often the request or its answer is lost, doubled or damaged."""
    board = load_board("native")
    firmware = build([library()], board)
    weather = Weather(lost=0.15, flipped=0.05, doubled=0.1, noise=0.05, seed=3)
    rounds = 15
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(native.start(firmware))
        line = stack.enter_context(proxy(running.url, weather))
        link = Link(line.url)
        stack.callback(link.close)
        client = Client(link, timeout_s=15, run_retry_s=0.05, busy_retry_s=0.05)
        for number in range(1, rounds + 1):
            assert calls.call(client, "tvmgen_tiny_count", ()).value == number
        assert calls.functions(client)[-1] == "tvmgen_tiny_format"
        assert client.repeated > 3  # else the weather was fine, and nothing is shown


def test_firmware_without_packed_functions() -> None:
    plain = tiny_library("y[0] = x[0];", cpu="host")
    with hil.open("native", plain) as device:
        assert device.functions() == ()
        with pytest.raises(NotInFirmwareError, match="the firmware has no packed functions") as e:
            device.call("tvmgen_tiny_run")
        assert "interface=packed" in e.value.hint
        with pytest.raises(NotInFirmwareError):
            device["tiny"].metadata()
