"""Faults that the firmware reports, as text."""

from __future__ import annotations

import contextlib
import itertools
import signal
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from construct import ConstructError

from hil.errors import DeviceError, Remedy
from hil.firmware.addresses import Addresses, Place
from hil.link import protocol
from hil.link.protocol import Event, Fault
from hil.link.replies import protocol_error

_KIND_TEXT = {
    Fault.NMI: "non-maskable interrupt",
    Fault.HARD: "hard fault",
    Fault.MEMORY: "memory management fault",
    Fault.BUS: "bus fault",
    Fault.USAGE: "usage fault",
    Fault.SECURE: "secure fault",
    Fault.INTERRUPT: "interrupt without a handler",
    Fault.STACK_OVERFLOW: "stack overflow",
    Fault.ASSERT: "failed assertion",
}

# Bits of the Configurable Fault Status Register (Armv7-M, Armv8-M).
_CFSR_TEXT = (
    (0, "instruction fetch from a forbidden address"),
    (1, "data access to a forbidden address"),
    (3, "memory fault while returning from an exception"),
    (4, "memory fault while entering an exception"),
    (5, "memory fault while saving floating-point registers"),
    (8, "bus error at an instruction fetch"),
    (9, "bus error at a data access"),
    (10, "bus error at an earlier data access"),
    (11, "bus error while returning from an exception"),
    (12, "bus error while entering an exception"),
    (13, "bus error while saving floating-point registers"),
    (16, "undefined instruction"),
    (17, "invalid state (jump to an even address?)"),
    (18, "invalid return from an exception"),
    (19, "coprocessor or floating-point unit disabled or missing"),
    (20, "stack limit reached"),
    (24, "unaligned access"),
    (25, "division by zero"),
)
# Bits of the Hard Fault Status Register.
_HFSR_TEXT = (
    (1, "the vector table could not be read"),
    (30, "escalated from a fault whose handler is disabled"),
    (31, "breakpoint without a debugger"),
)
# Exception codes of RISC-V (privileged architecture, mcause).
_EXCEPTION_TEXT = {
    0: "misaligned instruction address",
    1: "instruction access fault",
    2: "illegal instruction",
    3: "breakpoint without a debugger",
    4: "misaligned load",
    5: "load access fault",
    6: "misaligned store",
    7: "store access fault",
    8: "environment call from user mode",
    9: "environment call from supervisor mode",
    11: "environment call from machine mode",
    12: "instruction page fault",
    13: "load page fault",
    15: "store page fault",
}
#: The codes that set mtval to the accessed address, and the one that sets it to the instruction.
_WITH_ADDRESS = (0, 1, 4, 5, 6, 7, 12, 13, 15)
_ILLEGAL = 2
_MMFAR_VALID = 1 << 7
_BFAR_VALID = 1 << 15


@dataclass(frozen=True)
class FaultRecord:
    """The registers at the entry of the fault handler."""

    kind: int
    pc: int
    lr: int
    sp: int
    mmfar: int
    bfar: int
    psr: int
    cfsr: int
    hfsr: int
    r0: int
    r1: int
    r2: int
    r3: int
    r12: int

    @property
    def exception(self) -> int | None:
        """The RISC-V exception code; None for other faults."""
        code = self.kind - Fault.EXCEPTION
        return code if 0 <= code < Fault.SIGNAL - Fault.EXCEPTION else None

    @property
    def kind_text(self) -> str:
        """The kind of the fault as text."""
        if self.exception is not None:
            return _EXCEPTION_TEXT.get(self.exception, f"exception {self.cfsr}")
        if self.kind > Fault.SIGNAL:
            try:
                return f"signal {signal.Signals(self.kind - Fault.SIGNAL).name}"
            except ValueError:
                return f"signal {self.kind - Fault.SIGNAL}"
        try:
            return _KIND_TEXT[Fault(self.kind)]
        except (ValueError, KeyError):
            return f"fault of kind {self.kind}"

    @property
    def address(self) -> int | None:
        """The address of the failed access; None if the core does not report it."""
        if self.exception is not None:
            return self.bfar if self.exception in _WITH_ADDRESS else None
        if self.kind > Fault.SIGNAL or self.cfsr & _BFAR_VALID:
            return self.bfar
        return self.mmfar if self.cfsr & _MMFAR_VALID else None

    def __str__(self) -> str:
        causes: list[str] = []
        if self.exception is None:
            causes += [text for bit, text in _HFSR_TEXT if self.hfsr >> bit & 1]
            causes += [text for bit, text in _CFSR_TEXT if self.cfsr >> bit & 1]
        elif self.exception == _ILLEGAL and self.bfar:
            causes.append(f"instruction {self.bfar:#x}")
        text = ", ".join([self.kind_text, *causes])
        if self.kind == Fault.INTERRUPT:
            text += f" (number {self.psr - 16})"
        if self.address is not None:
            text += f", address {self.address:#010x}"
        return f"{text}; pc {self.pc:#010x}, lr {self.lr:#010x}, sp {self.sp:#010x}"


@dataclass(frozen=True)
class StackRecord:
    """The stack in use when the fault occurred."""

    bottom: int
    top: int
    #: The largest use of the stack so far; 0 if unknown.
    peak_bytes: int
    #: Address of the first word: the newest element of the stack.
    address: int
    words: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """Size of the stack in bytes."""
        return self.top - self.bottom

    def text(self, has_overflowed: bool) -> str:
        """Return the use of the stack as text."""
        peak = f", at most {self.peak_bytes} so far" if self.peak_bytes else ""
        if has_overflowed:
            return f"the stack of {self.size_bytes} bytes overflowed"
        return f"{self.top - self.address} of {self.size_bytes} bytes of stack in use{peak}"


class FaultError(DeviceError):
    """Error for a fault; the firmware answers only a reset afterwards.

    With its ``elf`` the message names function, file and line, and the callers.
    """

    def __init__(
        self, fault: FaultRecord, stack: StackRecord | None = None, elf: Path | None = None
    ) -> None:
        self.fault = fault
        self.stack = stack
        #: Location of the fault, and its callers, the newest first; empty if unknown.
        self.place: Place | None = None
        self.callers: list[Place] = []
        self._locate(elf)
        has_overflowed = fault.kind == Fault.STACK_OVERFLOW
        location = f" in {self.place}" if self.place else ""
        lines = [f"the firmware stopped{location}: {fault}"]
        if self.callers:
            lines.append(f"called from {', '.join(_repeats(self.callers))}")
        if stack is not None:
            lines.append(stack.text(has_overflowed))
        super().__init__(
            "\n  ".join(lines),
            "raise stack_bytes in the board's description, or use less stack"
            if has_overflowed
            else "correct the code at that location; the next session restarts the firmware"
            if self.place or self.callers
            else "the next session restarts it; look the addresses up in the ELF file",
            remedy=Remedy.RESET,
        )

    def _locate(self, elf: Path | None) -> None:
        # A missing image, or one for another core, only costs the names.
        with contextlib.suppress(OSError, ValueError):
            if elf is None:
                return
            with contextlib.closing(Addresses(elf)) as image:
                words = self.stack.words if self.stack else ()
                # The pc of an assertion is the return address of a call that does not return,
                # which may lie after the function's end.
                pc = (self.fault.pc & ~1) - 2 * (self.fault.kind == Fault.ASSERT)
                self.callers = image.callers(pc, self.fault.lr, words)
                # If the core pushes registers on the overflowed stack, they are lost.
                if self.fault.kind != Fault.STACK_OVERFLOW or self.fault.pc:
                    place = image.place(pc)
                    # After a jump to an invalid address, the caller is the location of interest.
                    self.place = place if place.function else None
                elif self.callers:
                    self.place = self.callers.pop(0)  # the registers are lost

    def is_like(self, other: DeviceError) -> bool:
        """Return whether ``other`` is the same fault at the same place."""
        return isinstance(other, FaultError) and (
            (self.fault.kind, self.fault.pc) == (other.fault.kind, other.fault.pc)
        )


def _repeats(places: Sequence[Place]) -> list[str]:
    """Return the places as text, with a count for consecutive equal ones."""
    groups = [(str(place), len(list(same))) for place, same in itertools.groupby(places)]
    return [text if count == 1 else f"{text} ({count} times)" for text, count in groups]


def fault_error(
    payload: bytes, stack: StackRecord | None = None, elf: Path | None = None
) -> DeviceError:
    """Return the error for a FAULT event."""
    try:
        event = protocol.EVENTS[Event.FAULT].parse(payload)
    except ConstructError:
        return protocol_error(f"a FAULT event of {len(payload)} bytes")
    record = FaultRecord(**{name: event[name] for name in FaultRecord.__annotations__})
    return FaultError(record, stack, elf)


#: The largest stack that a fault reports.
_STACK_EVENTS_MAX = 6


class StackReader:
    """Assembles a stack from STACK events, any of which may be lost."""

    def __init__(self) -> None:
        self._record: StackRecord | None = None
        self._events = 0

    def add(self, payload: bytes) -> None:
        """Add an event's payload; ignore one that is damaged or does not continue the last."""
        try:
            event = protocol.EVENTS[Event.STACK].parse(payload)
        except ConstructError:
            return
        size = len(event.data) // 4 * 4
        if not event.bottom <= event.address <= event.address + size <= event.top:
            return
        words = struct.unpack(f"<{size // 4}I", event.data[:size])
        known = self._record
        if known is not None and event.address == known.address + 4 * len(known.words):
            self._events += 1
            if self._events <= _STACK_EVENTS_MAX:
                self._record = replace(known, words=known.words + words)
        else:
            self._events = 1
            self._record = StackRecord(
                event.bottom, event.top, event.peak_bytes, event.address, words
            )

    def take(self) -> StackRecord | None:
        """Return the assembled stack, for the FAULT event that follows, and start again."""
        record, self._record = self._record, None
        return record
