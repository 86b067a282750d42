"""What is asked of an instruction set, whatever it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

#: The half-word of an image at an address; None where there is no code.
HalfWord = Callable[[int], int | None]


@dataclass
class Code:
    """A function: the bytes that it takes off the stack, and whom it calls."""

    frame: int = 0
    calls: set[str] = field(default_factory=set)
    is_indirect: bool = False
    #: Functions whose addresses it makes, so that somebody may call them through pointers.
    addresses: set[str] = field(default_factory=set)
    #: What registers hold, as far as the instructions so far have said it.
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
    #: What the call in front of a return address calls, 0 for a call through a pointer; None where
    #: the value is no return address.
    call_before: Callable[[HalfWord, int], int | None]
    #: Adds what one instruction, of the function so called, does to its code: mnemonic, operands
    #: and remark as objdump prints them.
    take: Callable[[str, Code, str, str, str], None]
