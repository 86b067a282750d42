"""The firmware template on every board: it starts, computes, keeps time, and survives faults."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from campaigns import cases, sampled
from tiny_library import tiny_library
from waiting import PATIENCE_S

import hil
from hil.board import Board, board_names, load_board
from hil.device import Device
from hil.errors import DeviceError
from hil.link import protocol
from hil.link.client import Client
from hil.link.codec import Frame, encode
from hil.link.fault import FaultError
from hil.link.protocol import Command, Event, Fault, Kind, Tensors
from hil.link.tensors import TensorRef

EMULATED = tuple(name for name in board_names() if "qemu" in load_board(name).runners)
BOARDS = (*EMULATED, "native")
#: One of each architecture.
OFTEN = ("microbit", "mps2-an386", "mps3-an547", "riscv-virt", "native")

# Twice y[0] turns of a loop with the clock read before, between and after; y gets the two times.
# Masked, SysTick's exception cannot run, but the clock is read often enough.
CLOCK = """\
    uint64_t begin, middle, end;
    if (x[1] != 0) { MASK; }
    begin = hil_ticks_align();
    for (int i = 0; i < 8; ++i) { spin(x[0] / 8); (void)hil_ticks(); }
    middle = hil_ticks();
    for (int i = 0; i < 8; ++i) { spin(x[0] / 8); (void)hil_ticks(); }
    end = hil_ticks();
    if (x[1] != 0) { UNMASK; }
    y[0] = (int32_t)(middle - begin);
    y[1] = (int32_t)(end - middle);
    y[2] = (int32_t)((end - begin) >> 24);
    y[3] = (int32_t)hil_ticks_hz();
"""
CLOCK_GLOBALS = """\
uint64_t hil_ticks(void);
uint64_t hil_ticks_align(void);
uint32_t hil_ticks_hz(void);
static void spin(int32_t n) { while (n-- > 0) { __asm volatile("nop"); } }
#ifdef __riscv
#define MASK __asm volatile(".option push; .option arch, +zicsr; csrci mstatus, 8; .option pop")
#define UNMASK __asm volatile(".option push; .option arch, +zicsr; csrsi mstatus, 8; .option pop")
#elif defined(__arm__)
#define MASK __asm volatile("cpsid i")
#define UNMASK __asm volatile("cpsie i")
#else
#define MASK (void)0
#define UNMASK (void)0
#endif
"""

DIVE = """\
int32_t dive(int32_t depth);
int32_t dive(int32_t depth) {
    volatile int32_t frame[16];
    frame[depth & 15] = depth;
    return depth > 1000000 ? depth : dive(depth + 1) + frame[(depth + 1) & 15];
}
"""
# Body of the model, what stands before it, and the kind on cores with fault registers and without.
FAULTS: dict[str, tuple[str, str, Fault, Fault]] = {
    "overflow": ("y[0] = dive(x[0]);", DIVE, Fault.STACK_OVERFLOW, Fault.STACK_OVERFLOW),
    "undefined": ("y[0] = x[0]; __builtin_trap();", "", Fault.USAGE, Fault.HARD),
    "jump": (
        "void (*volatile away)(void) = (void (*)(void))(uintptr_t)x[0]; away(); y[0] = 0;",
        "",
        Fault.USAGE,
        Fault.HARD,
    ),
    "check": (
        "if (x[0] == 0) { hil_assert_failed(); } y[0] = 0;",
        "_Noreturn void hil_assert_failed(void);\n",
        Fault.ASSERT,
        Fault.ASSERT,
    ),
}
#: Of these RISC-V has names of its own: a breakpoint, and a fetch where nothing is.
EXCEPTIONS = {"undefined": Fault.EXCEPTION + 3, "jump": Fault.EXCEPTION + 1}

DEEP_WORDS = 128
# One firmware holds them all, so that a board's is built once: body, and what stands before it.
MODELS: dict[str, tuple[str, str]] = {
    "tiny": ("for (int i = 0; i < 4; ++i) { y[i] = x[i] + 1; }", ""),
    "clock": (CLOCK, CLOCK_GLOBALS),
    "loop": ("for (volatile int32_t i = 0; i < x[0]; ++i) { } y[0] = x[0];", ""),
    "deep": (
        f"volatile int32_t big[{DEEP_WORDS}]; big[x[0]] = 1; big[x[1]] = 2; y[0] = big[x[0]];",
        "",
    ),
    **{name: fault[:2] for name, fault in FAULTS.items()},
}


@contextmanager
def opened(board: Board) -> Iterator[Device]:
    libraries = [
        tiny_library(body, name=name, cpu=board.cpu.name, globals_=before)
        for name, (body, before) in MODELS.items()
    ]
    with hil.open(board, *libraries) as device:
        yield device


def run(device: Device, name: str, *values: int) -> list[int]:
    model = device[name]
    model.set_input(0, np.array([*values, *[0] * (4 - len(values))], np.int32))
    model.run()
    return [int(value) for value in model.get_output(0)]


@pytest.mark.parametrize("name", sampled(BOARDS, keep=OFTEN))
def test_starts_computes_and_starts_again(name: str) -> None:
    board = load_board(name)
    with opened(board) as device:
        assert device.hello.board == name
        assert device.hello.ticks_hz == board.clock_hz
        assert run(device, "tiny", 1, 2, 3, -1) == [2, 3, 4, 0]
        device.reset()
        assert run(device, "tiny", 5, 6, 7, 8) == [6, 7, 8, 9]


@cases("name", EMULATED, first=2)
def test_stack_is_measured(name: str) -> None:
    board = load_board(name)
    with opened(board) as device:
        run(device, "tiny")
        before = device.memory()
        run(device, "deep", 0, DEEP_WORDS - 1)
        after = device.memory()
    assert before.stack_bytes == board.stack_bytes
    assert 0 < before.stack_peak_bytes <= board.base.stack_bytes
    # The RPC may have been deeper than the small model was, by less than it needs itself.
    assert abs(after.stack_peak_bytes - before.stack_peak_bytes - 4 * DEEP_WORDS) <= 128


@cases("name", BOARDS, first=3)
def test_time_is_right_across_wraps(name: str) -> None:
    board = load_board(name)
    instruction_ns = 1 if board.qemu is None else 1 << board.qemu.icount_shift
    # Three periods of 24 bits in all, at two to four instructions a turn.
    turns = 3 * (1 << 24) * 10**9 // board.clock_hz // instruction_ns // 6
    with opened(board) as device:
        free = run(device, "clock", turns, 0)
        masked = run(device, "clock", turns, 1)
    assert free[3] == board.clock_hz
    if board.qemu is None:
        # A process may be interrupted; it is never faster than its loop.
        assert 0 < free[0] < 100 * free[1]
        return
    assert free[2] >= 2, "the run did not wrap a counter of 24 bits, as SysTick's"
    # The same loop twice; masked the same again, without the exceptions.
    overhead = 200 * instruction_ns * board.clock_hz // 10**9 + 2
    assert abs(free[0] - free[1]) <= overhead
    assert abs(masked[0] - masked[1]) <= overhead
    assert abs(free[0] - masked[0]) <= overhead


@cases("name", EMULATED, first=2)
def test_counts_are_exact_and_repeat(name: str) -> None:
    with opened(load_board(name)) as device:

        def count(n: int) -> int:
            device["loop"].set_input(0, np.array([n, 0, 0, 0], np.int32))
            return device.count(device["loop"].run().ticks)

        counts = {n: {count(n) for _ in range(3)} for n in (100, 200, 300)}
        per_turn = statistics.median(min(counts[n + 100]) - min(counts[n]) for n in (100, 200))
    assert all(len(found) == 1 for found in counts.values()), counts
    # Each turn costs the same whole number of instructions.
    assert per_turn % 100 == 0
    assert min(counts[300]) - min(counts[200]) == min(counts[200]) - min(counts[100])


@pytest.mark.parametrize("cpu", ["cortex-m3", "cortex-m4"])
def test_clock_runs_at_the_described_rate(cpu: str) -> None:
    """The same code is as many instructions on every board, so their clocks are what they say."""
    counts = {}
    for board in map(load_board, EMULATED):
        if board.cpu.name == cpu:
            with opened(board) as device:
                device["loop"].set_input(0, np.array([5000, 0, 0, 0], np.int32))
                counts[board.name] = device.count(device["loop"].run().ticks)
    assert len(counts) >= 2
    assert len(set(counts.values())) == 1, counts


@pytest.mark.parametrize("name", sampled(EMULATED, keep=["microbit", "mps2-an386", "mps3-an547"]))
def test_faults_are_reported_and_survived(name: str) -> None:
    board = load_board(name)
    is_baseline = board.cpu.arch == "armv6-m"
    with opened(board) as device:
        for key, (_, _, kind, baseline_kind) in FAULTS.items():
            with pytest.raises(FaultError) as caught:
                run(device, key)
            fault = caught.value.fault
            expected: int = baseline_kind if is_baseline else kind
            if board.cpu.isa == "riscv":
                expected = EXCEPTIONS.get(key, expected)
            assert fault.kind == expected, key
            if kind is not Fault.STACK_OVERFLOW:
                ram = board.regions("ram")[0]
                assert ram.origin < fault.sp <= ram.origin + board.stack_bytes, key
            device.reset()
            assert run(device, "tiny", 1) == [2, 1, 1, 1], f"dead after {key}"


@pytest.mark.parametrize("name", ["mps2-an386", "microbit"])
@pytest.mark.parametrize(
    ("index", "changed"), [(-5, 4), (28, 4), (-8, 4), (31, 4), (27, 0), (0, 0)]
)
def test_what_is_written_beside_the_workspace_is_told(name: str, index: int, changed: int) -> None:
    """The output lies at 16 of the 128 bytes; a guard is 16 bytes."""
    board = load_board(name)
    body = "((volatile int32_t *)y)[x[1]] = x[0];"
    with hil.open(board, tiny_library(body, cpu=board.cpu.name)) as device:
        model = device["tiny"]
        x = np.array([0, index, 0, 0], np.int32)
        if not changed:
            model.set_input(0, x)
            model.run()
            return
        for work in (model.run, lambda: list(model.layer_outputs())):
            model.set_input(0, x)
            with pytest.raises(DeviceError, match=f": {changed} bytes beside the models") as caught:
                work()
            assert "--per-layer" in caught.value.hint


#: A board of each UART that an emulator has, and the process.
LINES = ("lm3s6965evb", "microbit", "mps2-an386", "netduinoplus2", "native")


def request(session: int, seq: int, command: Command, **fields: object) -> Frame:
    payload = protocol.REQUESTS[command].build(fields)
    return Frame(session, seq, Kind.REQUEST, command, payload)


def hostile_bytes(dice: random.Random, session: int) -> bytes:
    """What no host of this protocol sends: noise, and frames that are cut, changed or refused."""
    bad = request(
        session, dice.randrange(1 << 16), Command.HELLO, version=protocol.VERSION, frame_max=127
    )
    place = {"model": 0, "list": 0, "layer": 0, "index": 0}
    read = request(session, dice.randrange(1 << 16), Command.READ, **place, offset=0, length=0xFFFF)
    spoiled = bytearray(encode(read))
    spoiled[dice.randrange(len(spoiled))] ^= 1 << dice.randrange(8)
    parts = [
        encode(bad),
        encode(read),
        bytes(spoiled),
        encode(read)[: dice.randrange(20)],
        dice.randbytes(dice.randrange(60)),
        b"\0" * dice.randrange(5),
        b"\xff" * dice.randrange(300),
    ]
    dice.shuffle(parts)
    return b"".join(parts)


@pytest.mark.parametrize("name", LINES)
def test_a_hostile_line_does_not_hold_a_board(name: str) -> None:
    """From the first byte of the line on a real UART; then it serves a host as before."""
    dice = random.Random(name)
    with opened(load_board(name)) as device:
        link = device._client.link
        for turn in range(4):
            link._line.write(hostile_bytes(dice, device._client._session if turn % 2 else 0x1234))
            fresh = Client(link)
            assert fresh.hello.board == name
            assert fresh.memory().bad_frames > 0
        index = device["tiny"]._index
        fresh.write(TensorRef(index, Tensors.INPUT, 0), np.array([1, 2, 3, -1], "<i4").tobytes())
        fresh.run(index)
        found = fresh.read(TensorRef(index, Tensors.OUTPUT, 0), 16)
        assert list(np.frombuffer(found, "<i4")) == [2, 3, 4, 0]


@pytest.mark.parametrize("name", LINES)
def test_a_run_without_an_end_is_ended_by_another_host(name: str) -> None:
    with opened(load_board(name)) as device:
        link = device._client.link
        model = device["tiny"]._index
        long = request(
            device._client._session,
            device._client._seq + 1 & 0xFFFF,
            Command.RUN,
            model=model,
            repeat=0xFFFF_FFFF,
        )
        link.send(long)
        deadline = time.monotonic() + PATIENCE_S
        while not any(f.kind == Kind.EVENT and f.code == Event.BUSY for f in link.receive(0.2)):
            assert time.monotonic() < deadline, "it has not begun"
        other = Client(link)
        assert other.echo(b"here") == b"here"


def test_fault_of_the_native_process() -> None:
    with opened(load_board("native")) as device:
        with pytest.raises(FaultError, match="SIGSEGV"):
            run(device, "jump", 16)
        device.reset()
        assert run(device, "tiny", 1) == [2, 1, 1, 1]
