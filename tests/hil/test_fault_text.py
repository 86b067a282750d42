"""What is said of a fault, from its registers and its stack alone."""

from __future__ import annotations

import signal
import struct
from pathlib import Path

import pytest

from hil.errors import DeviceError, LinkError, Remedy
from hil.firmware.addresses import Place
from hil.link import fault, protocol
from hil.link.fault import FaultError, FaultRecord, StackReader, StackRecord, fault_error
from hil.link.protocol import Event, Fault

#: Codes of mcause in RISC-V's privileged architecture, a word of each, and whether mtval is the
#: address of an access.
EXCEPTIONS = {
    0: ("misaligned instruction", True), 1: ("instruction access", True), 2: ("illegal", False),
    3: ("breakpoint", False), 4: ("misaligned load", True), 5: ("load access", True),
    6: ("misaligned store", True), 7: ("store access", True), 8: ("user mode", False),
    9: ("supervisor mode", False), 11: ("machine mode", False), 12: ("instruction page", True),
    13: ("load page", True), 15: ("store page", True),
}  # fmt: skip
KINDS = {
    Fault.NMI: "non-maskable", Fault.HARD: "hard fault", Fault.MEMORY: "memory management",
    Fault.BUS: "bus fault", Fault.USAGE: "usage fault", Fault.SECURE: "secure fault",
    Fault.STACK_OVERFLOW: "stack overflow", Fault.ASSERT: "failed assertion",
}  # fmt: skip


def record(**values: int) -> FaultRecord:
    return FaultRecord(**{**dict.fromkeys(FaultRecord.__annotations__, 0), **values})


@pytest.mark.parametrize("code", range(24))
def test_each_risc_v_exception_has_name_and_address(code: int) -> None:
    found = record(kind=Fault.EXCEPTION + code, cfsr=code, bfar=0x1230)
    word, has_address = EXCEPTIONS.get(code, (f"exception {code}", False))
    assert found.exception == code
    assert word in found.kind_text
    assert found.address == (0x1230 if has_address else None)
    assert ("address 0x00001230" in str(found)) == has_address
    assert ("instruction 0x1230" in str(found)) == (code == 2)
    # The registers of Arm's faults are no part of it.
    assert "fetch" not in str(record(kind=Fault.EXCEPTION + code, cfsr=1, hfsr=2))


def test_an_illegal_instruction_may_be_unknown() -> None:
    assert "instruction 0x" not in str(record(kind=Fault.EXCEPTION + 2))


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_its_name(kind: Fault) -> None:
    assert record(kind=kind).exception is None
    assert KINDS[kind] in record(kind=kind).kind_text


def test_a_kind_that_is_not_known_has_its_number() -> None:
    for kind in (0, 1, 15, 39, Fault.EXCEPTION, Fault.SIGNAL):
        found = record(kind=kind)
        if found.exception is None:
            assert found.kind_text == f"fault of kind {kind}"
    assert record(kind=Fault.EXCEPTION - 1).exception is None
    assert record(kind=Fault.SIGNAL - 1).exception == 23
    assert record(kind=Fault.SIGNAL).exception is None


def test_a_signal_has_its_name_and_its_address() -> None:
    found = record(kind=Fault.SIGNAL + signal.SIGSEGV, bfar=0x10)
    assert found.kind_text == "signal SIGSEGV"
    assert found.address == 0x10
    assert record(kind=Fault.SIGNAL + signal.SIGHUP).kind_text == "signal SIGHUP"
    assert record(kind=Fault.SIGNAL + 99).kind_text == "signal 99"


def test_the_address_of_an_access_where_valid() -> None:
    """MMARVALID is bit 7 of CFSR, BFARVALID bit 15."""
    for bit, address in ((7, 0x70), (15, 0xF0), (0, None), (8, None)):
        found = record(kind=Fault.HARD, cfsr=1 << bit, mmfar=0x70, bfar=0xF0)
        assert found.address == address
        assert (", address" in str(found)) == (address is not None)
    text = str(record(kind=Fault.BUS, pc=0x12, lr=0x34, sp=0x56))
    assert text == "bus fault; pc 0x00000012, lr 0x00000034, sp 0x00000056"


# -- the error -------------------------------------------------------------------------------------


STACK = StackRecord(bottom=0x1000, top=0x2000, peak_bytes=900, address=0x1F00, words=(1, 2))


def test_the_error_tells_the_use_of_the_stack() -> None:
    text = str(FaultError(record(kind=Fault.HARD), STACK))
    assert "the firmware stopped: hard fault; pc" in text
    assert "256 of 4096 bytes of stack in use, at most 900 so far" in text
    assert "the next session restarts it; look the addresses up in the ELF file" in text
    unknown = StackRecord(0x1000, 0x2000, 0, 0x1F00, ())
    assert "so far" not in str(FaultError(record(kind=Fault.HARD), unknown))
    over = FaultError(record(kind=Fault.STACK_OVERFLOW), STACK)
    assert "the stack of 4096 bytes overflowed" in str(over)
    assert over.hint.startswith("raise stack_bytes")
    assert over.remedy == Remedy.RESET


def test_without_its_image_a_fault_has_no_place(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.elf"
    damaged.write_bytes(b"no image")
    for elf in (None, tmp_path / "missing.elf", damaged):
        error = FaultError(record(kind=Fault.HARD, pc=0x10), STACK, elf)
        assert error.place is None
        assert error.callers == []
        assert "called from" not in str(error)


class Image:
    """Stands for an image's addresses: each is a place of its own, functions from 0x100 on."""

    def __init__(self, asked: list[tuple[int, int, tuple[int, ...]]]) -> None:
        self._asked = asked

    def place(self, address: int) -> Place:
        return Place(address, f"f{address:x}" if address >= 0x100 else "", "a.c", 3)

    def callers(self, pc: int, lr: int, words: tuple[int, ...]) -> list[Place]:
        self._asked.append((pc, lr, words))
        return [self.place(word) for word in words]

    def close(self) -> None:
        """Nothing is open."""


def test_a_fault_has_its_place_and_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int, tuple[int, ...]]] = []
    monkeypatch.setattr(fault, "Addresses", lambda elf: Image(asked))
    stack = StackRecord(0x1000, 0x2000, 0, 0x1F00, (0x200, 0x200, 0x300))

    def error(stack: StackRecord | None = stack, **values: int) -> FaultError:
        return FaultError(record(**values), stack, Path("x.elf"))

    found = error(kind=Fault.HARD, pc=0x151, lr=0x44)
    # Without the bit of the instruction set.
    assert asked == [(0x150, 0x44, (0x200, 0x200, 0x300))]
    assert "the firmware stopped in f150 at a.c:3: hard fault" in found.fact
    assert "called from f200 at a.c:3 (2 times), f300 at a.c:3" in found.fact
    assert found.hint.startswith("correct the code at that location")
    # The address behind the call of an assertion's function.
    assert error(kind=Fault.ASSERT, pc=0x152).place == Image([]).place(0x150)
    # After a jump to nowhere the caller is of interest.
    nowhere = error(kind=Fault.HARD, pc=0x10)
    assert nowhere.place is None
    assert len(nowhere.callers) == 3
    # Of an overflowed stack the registers may be lost.
    lost = error(kind=Fault.STACK_OVERFLOW)
    assert lost.place == Image([]).place(0x200)
    assert len(lost.callers) == 2
    assert error(kind=Fault.STACK_OVERFLOW, pc=0x150).place == Image([]).place(0x150)
    assert error(None, kind=Fault.STACK_OVERFLOW).place is None
    asked.clear()
    assert error(None, kind=Fault.HARD, pc=0x150).callers == []
    assert asked == [(0x150, 0, ())]


def test_the_same_fault_at_the_same_place_is_alike() -> None:
    one = FaultError(record(kind=Fault.HARD, pc=0x10, r0=1))
    assert one.is_like(FaultError(record(kind=Fault.HARD, pc=0x10, r0=2)))
    assert not one.is_like(FaultError(record(kind=Fault.HARD, pc=0x12)))
    assert not one.is_like(FaultError(record(kind=Fault.BUS, pc=0x10)))
    assert not one.is_like(DeviceError("another"))


def test_the_event_is_the_record_field_by_field() -> None:
    values = {name: 3 + 5 * at for at, name in enumerate(FaultRecord.__annotations__)}
    payload = protocol.EVENTS[Event.FAULT].build(values)
    found = fault_error(payload, STACK)
    assert isinstance(found, FaultError)
    assert found.fault == FaultRecord(**values)
    assert found.stack == STACK
    short = fault_error(payload[:-1])
    assert isinstance(short, LinkError)
    assert f"a FAULT event of {len(payload) - 1} bytes" in short.fact


# -- the stack -------------------------------------------------------------------------------------


def event(address: int, data: bytes, bottom: int = 0x1000, top: int = 0x1100) -> bytes:
    fields = {"bottom": bottom, "top": top, "peak_bytes": 7, "address": address, "data": data}
    payload: bytes = protocol.EVENTS[Event.STACK].build(fields)
    return payload


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def test_a_stack_is_put_together_from_its_events() -> None:
    reader = StackReader()
    assert reader.take() is None
    reader.add(event(0x1010, words(1, 2)))
    reader.add(event(0x1018, words(3)))
    reader.add(event(0x1020, words(5)))  # what lay between was lost: it begins again
    reader.add(event(0x1024, words(6) + b"\1\2\3"))  # no whole word
    assert reader.take() == StackRecord(0x1000, 0x1100, 7, 0x1020, (5, 6))
    assert reader.take() is None


def test_a_stack_lies_within_its_bounds() -> None:
    for address, size, is_kept in (
        (0x1000, 8, True),
        (0x1000, 0x100, True),
        (0x10FC, 4, True),
        (0x1100, 0, True),
        (0x0FFC, 4, False),
        (0x10FC, 8, False),
        (0x1104, 0, False),
    ):
        reader = StackReader()
        reader.add(event(address, bytes(size)))
        assert (reader.take() is not None) == is_kept, (address, size)
    reader = StackReader()
    reader.add(event(0x1000, words(1))[:5])  # damaged
    assert reader.take() is None


def test_a_stack_has_at_most_six_events() -> None:
    """A board that never ends its stack fills no memory."""
    reader = StackReader()
    for number in range(7):
        reader.add(event(0x1000 + 4 * number, words(number)))
    taken = reader.take()
    assert taken is not None
    assert taken.words == tuple(range(6))
    for start in (0x1000, 0x1080):  # each stack has its own
        for number in range(6):
            reader.add(event(start + 4 * number, words(number)))
        taken = reader.take()
        assert taken is not None
        assert taken.words == tuple(range(6))
