"""A fault that the firmware reported, in words."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from construct import ConstructError

from hil.errors import DeviceError, LinkError
from hil.rpc import protocol
from hil.rpc.protocol import Event, Fault

_KIND_TEXT = {
    Fault.NMI: "non-maskable interrupt",
    Fault.HARD: "hard fault",
    Fault.MEMORY: "memory management fault",
    Fault.BUS: "bus fault",
    Fault.USAGE: "usage fault",
    Fault.SECURE: "secure fault",
    Fault.INTERRUPT: "interrupt that nobody serves",
    Fault.STACK_OVERFLOW: "stack overflow",
    Fault.ASSERT: "failed assertion",
}

# Bit of the Configurable Fault Status Register (Armv7-M, Armv8-M) and what it says.
_CFSR_TEXT = (
    (0, "instruction fetch from a forbidden place"),
    (1, "data access to a forbidden place"),
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
    (17, "invalid state (a jump to an even address?)"),
    (18, "invalid return from an exception"),
    (19, "coprocessor or floating-point unit that is off or missing"),
    (20, "stack limit reached"),
    (24, "unaligned access"),
    (25, "division by zero"),
)
_MMFAR_VALID = 1 << 7
_BFAR_VALID = 1 << 15


@dataclass(frozen=True)
class FaultRecord:
    """The registers as the fault handler found them."""

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
    def kind_text(self) -> str:
        """What kind of fault it is."""
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
        """The address whose access failed, where the core knows it."""
        if self.kind > Fault.SIGNAL or self.cfsr & _BFAR_VALID:
            return self.bfar
        return self.mmfar if self.cfsr & _MMFAR_VALID else None

    def __str__(self) -> str:
        causes = [text for bit, text in _CFSR_TEXT if self.cfsr >> bit & 1]
        text = ", ".join([self.kind_text, *causes])
        if self.kind == Fault.INTERRUPT:
            text += f" (number {self.psr - 16})"
        if self.address is not None:
            text += f", address {self.address:#010x}"
        return f"{text}; pc {self.pc:#010x}, lr {self.lr:#010x}, sp {self.sp:#010x}"


class FaultError(DeviceError):
    """The firmware stopped at a fault; it serves nothing but a reset until then."""

    def __init__(self, fault: FaultRecord) -> None:
        super().__init__(
            f"the firmware stopped: {fault}",
            "the next session restarts it; look the addresses up in the ELF file",
        )
        self.fault = fault


def fault_error(payload: bytes) -> DeviceError:
    """The error that a FAULT event stands for."""
    try:
        event = protocol.EVENTS[Event.FAULT].parse(payload)
    except ConstructError:
        return LinkError(f"the firmware sent a FAULT event of {len(payload)} bytes")
    return FaultError(FaultRecord(**{name: event[name] for name in FaultRecord.__annotations__}))
