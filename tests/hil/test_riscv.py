"""RISC-V boards: what their traps tell, and what of their machine code the host reads."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest
from campaigns import cases
from tiny_library import tiny_library

import hil
from hil import virtual_probe
from hil.board import load_board
from hil.device import Device
from hil.errors import InputError
from hil.firmware.isa import ISAS, Code, Unbounded
from hil.link.fault import FaultError, FaultRecord
from hil.link.protocol import Fault

BOARD = "riscv-virt"
RISCV = ISAS["riscv"]
#: What makes a function trap, and what is told of it; no memory is at 0x30000.
NOWHERE = "*(volatile int32_t *)(uintptr_t)0x30000"
TRAPS = {
    "illegal": ('__asm volatile(".word -1");', "illegal instruction, instruction 0xffffffff"),
    "ebreak": ('__asm volatile("ebreak");', "breakpoint without a debugger"),
    "ecall": ('__asm volatile("ecall");', "environment call from machine mode"),
    "load": (f"(void){NOWHERE};", "load access fault, address 0x00030000"),
    "store": (f"{NOWHERE} = 1;", "store access fault, address 0x00030000"),
    "misaligned": (
        '__asm volatile("amoadd.w x0, x0, (%0)" ::"r"((uintptr_t)x + 1));',
        "misaligned (load|store), address 0x80[0-9a-f]{6}",
    ),
}


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    cpu = load_board(BOARD).cpu.name
    libraries = [
        tiny_library(
            f"inner_{name}(x); y[0] = x[0];",
            name=name,
            cpu=cpu,
            globals_=f"""
__attribute__((noinline)) void inner_{name}(const int32_t *x);
void inner_{name}(const int32_t *x) {{
    if (x[0] == 7) {{ {body} }}
    __asm volatile("");
}}
""",
        )
        for name, (body, _) in TRAPS.items()
    ]
    with hil.open(BOARD, *libraries) as opened:
        yield opened


@cases("name", TRAPS, first=2)
def test_a_trap_is_named_with_its_place(device: Device, name: str) -> None:
    model = device[name]
    model.set_input(0, np.array([7, 0, 0, 0], np.int32))
    with pytest.raises(FaultError) as caught:
        model.run()
    error = caught.value
    assert re.search(TRAPS[name][1], str(error)), str(error)
    assert error.place is not None
    assert error.place.function == f"inner_{name}"
    assert error.place.file.endswith(f"{name}_lib1.c")
    assert f"tvmgen_{name}_run" in [caller.function for caller in error.callers]
    assert all(caller.file for caller in error.callers), str(error)
    assert error.callers[-1].function == "main"
    assert error.stack is not None
    assert 0 < error.stack.peak_bytes < error.stack.size_bytes
    device.reset()
    model.set_input(0, np.array([1, 0, 0, 0], np.int32))
    model.run()
    assert model.get_output(0)[0] == 1


def _record(**values: int) -> FaultRecord:
    return FaultRecord(**{**dict.fromkeys(FaultRecord.__annotations__, 0), **values})


def test_an_exception_of_a_later_architecture() -> None:
    assert "exception 19" in str(_record(kind=Fault.EXCEPTION + 19, cfsr=19))


def test_an_interrupt_without_a_handler_has_its_number() -> None:
    text = str(_record(kind=Fault.INTERRUPT, psr=16 + 7))
    assert "interrupt without a handler (number 7)" in text


# -- machine code ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("halves", "target"),
    [
        ("00ef0200", 0x1000 + 0x20),  # jal ra, +32
        ("f0effe1f", 0x1000 - 32),  # jal ra, -32
        ("80e70005", 0),  # jalr ra, a0 -> by a pointer
        ("00010001", None),  # two c.nop
        ("006f0200", None),  # j, which keeps no address
    ],
)
def test_calls_of_four_bytes(halves: str, target: int | None) -> None:
    code = {0x1000: int(halves[:4], 16), 0x1002: int(halves[4:], 16)}
    assert RISCV.call_before(code.get, 0x1004) == target


@pytest.mark.parametrize(
    ("half", "target"),
    [(0x2001, 0x1002), (0x3FFD, 0x1000), (0x9502, 0), (0x9002, None), (0x8082, None)],
)
def test_calls_of_two_bytes(half: int, target: int | None) -> None:
    """``c.jal``, ``c.jalr a0``, ``c.ebreak``, ``ret``."""
    assert RISCV.call_before({0x1002: half}.get, 0x1004) == target


def test_a_far_call() -> None:
    """``auipc ra, 0x1``, ``jalr -16(ra)``."""
    code = {0x1000: 0x1097, 0x1002: 0x0000, 0x1004: 0x80E7, 0x1006: 0xFF00}
    assert RISCV.call_before(code.get, 0x1008) == 0x1000 + 0x1000 - 16


@pytest.mark.parametrize(
    ("lines", "frame"),
    [
        (["add sp,sp,-32"], 32),
        (["addi sp,sp,-16", "sw ra,12(sp)"], 16),
        (["add sp,sp,-2032", "lui t0,0xfffff", "add t0,t0,-64", "add sp,sp,t0"], 2032 + 4096 + 64),
        (["li t0,-8192", "sub sp,sp,t1", "li t1,0"], None),
        (["lui t0,0x1", "sub sp,sp,t0"], 4096),
        (["add sp,sp,32"], 0),
        (["auipc sp,0x500", "add sp,sp,-1234"], 0),
        (["add sp,sp,a5"], None),
        (["jal t0,800 <__riscv_save_4>"], None),
    ],
)
def test_frames(lines: list[str], frame: int | None) -> None:
    code = Code()

    def take() -> None:
        for line in lines:
            mnemonic, _, operands = line.partition(" ")
            RISCV.take("f", code, mnemonic, operands, "")

    if frame is None:
        with pytest.raises(Unbounded):
            take()
        return
    take()
    assert code.frame == frame


def test_calls() -> None:
    code = Code()
    for mnemonic, operands, remark in (
        ("jal", "80000104 <memcpy>", ""),
        ("j", "8000010a <tail>", ""),
        ("j", "8000015a <f+0x22>", ""),
        ("jalr", "-16(ra)", " # 80002000 <far>"),
        ("add", "a0,a0,4", " # 80003000 <pointed>"),
        ("ret", "", ""),
    ):
        RISCV.take("f", code, mnemonic, operands, remark)
    assert code.calls == {"memcpy", "tail", "far"}
    assert code.addresses == {"pointed"}
    assert not code.is_indirect
    RISCV.take("f", code, "jalr", "a5", "")
    assert code.is_indirect


@pytest.mark.full  # It changes rarely, and takes long.
def test_the_virtual_probe_knows_no_riscv() -> None:
    with (
        pytest.raises(InputError, match="the core rv32imac, which the virtual probe"),
        virtual_probe.start(load_board("riscv-virt")),
    ):
        pass
