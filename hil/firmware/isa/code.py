"""Interface of an instruction set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

#: Half-word of an image at an address; None if there is no code.
HalfWord = Callable[[int], int | None]


@dataclass
class Code:
    """A function: the bytes that it takes off the stack, and whom it calls."""

    frame: int = 0
    calls: set[str] = field(default_factory=set)
    is_indirect: bool = False
    #: Functions whose addresses it computes, which may be called through pointers.
    addresses: set[str] = field(default_factory=set)
    #: Contents of registers, as far as the preceding instructions determine them.
    registers: dict[str, int] = field(default_factory=dict)


class Unbounded(Exception):
    """A function moves the stack by what a register holds."""


@dataclass(frozen=True)
class Isa:
    """An instruction set."""

    elf_machine: str
    #: Set in the addresses of code (Arm: Thumb); 0 where addresses are plain.
    code_bit: int
    #: Saved by an exception on the stack that it interrupts.
    exception_bytes: int
    #: Return the target of the call before a return address, 0 for a call through a pointer; None
    #: if the value is not a return address.
    call_before: Callable[[HalfWord, int], int | None]
    #: Adds what one instruction, of the function so called, does to its code: mnemonic, operands
    #: and remark as objdump prints them.
    take: Callable[[str, Code, str, str, str], None]
