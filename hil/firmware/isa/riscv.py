"""RISC-V of 32 bits, with and without compressed instructions."""

from __future__ import annotations

import re

from hil.firmware.isa.code import Code, HalfWord, Isa, Unbounded

_TARGET = re.compile(r"([0-9a-f]+) <([^>+]+)>")
_NUMBER = re.compile(r"-?(?:0x[0-9a-f]+|\d+)\Z")
#: Routines of the compiler's that move the stack for their caller.
_MILLICODE = "__riscv_save"


def _call_before(half_word: HalfWord, value: int) -> int | None:
    first, second = half_word(value - 4), half_word(value - 2)
    if value & 1 or second is None:
        return None
    if first is not None and first & 3 == 3:
        word = second << 16 | first
        if word & 0xFFF == 0x0EF:  # JAL ra
            return value - 4 + _jal_offset(word) & 0xFFFF_FFFF
        if word & 0x7FFF == 0x0E7:  # JALR ra
            return _far_target(half_word, value - 4, word)
    if second & 0xE003 == 0x2001:  # C.JAL
        return value - 2 + _compressed_offset(second) & 0xFFFF_FFFF
    if second & 0xF07F == 0x9002 and second != 0x9002:  # C.JALR
        return 0
    return None


def _far_target(half_word: HalfWord, at: int, jalr: int) -> int:
    """Return the target of a JALR after an AUIPC; 0 for anything else."""
    low, high = half_word(at - 4), half_word(at - 2)
    if low is None or high is None:
        return 0
    auipc, base = high << 16 | low, jalr >> 15 & 0x1F
    if auipc & 0x7F != 0x17 or auipc >> 7 & 0x1F != base:
        return 0
    return at - 4 + (auipc & 0xFFFF_F000) + _signed(jalr >> 20, 12) & 0xFFFF_FFFF


def _jal_offset(word: int) -> int:
    """imm[20|10:1|11|19:12] of the J format."""
    offset = (word >> 31) << 20 | (word >> 12 & 0xFF) << 12 | (word >> 20 & 1) << 11
    return _signed(offset | (word >> 21 & 0x3FF) << 1, 21)


def _compressed_offset(half: int) -> int:
    """imm[11|4|9:8|10|6|7|3:1|5] of the CJ format."""
    parts = (
        (12, 1, 11),
        (11, 1, 4),
        (9, 2, 8),
        (8, 1, 10),
        (7, 1, 6),
        (6, 1, 7),
        (3, 3, 1),
        (2, 1, 5),
    )
    return _signed(sum((half >> low & (1 << width) - 1) << to for low, width, to in parts), 12)


def _signed(value: int, bits: int) -> int:
    return value - (value >> (bits - 1) << bits)


def _take(name: str, code: Code, mnemonic: str, operands: str, remark: str) -> None:
    words = [word.strip() for word in operands.split(",")]
    written = words[0]
    if mnemonic in ("add", "addi", "sub", "mv") and written == "sp":
        _move_stack(name, code, mnemonic, words)
    if mnemonic in ("jal", "j", "jalr", "jr", "call", "tail"):
        target = _TARGET.search(operands) or _TARGET.search(remark)
        if target:
            if target[2].startswith(_MILLICODE):
                raise Unbounded(name)
            # A jump to its own start is a loop.
            if target[2] != name or mnemonic in ("jal", "jalr", "call"):
                code.calls.add(target[2])
        elif mnemonic in ("jalr", "jr") and words != ["ra"]:
            code.is_indirect = True
    elif target := _TARGET.search(remark):
        code.addresses.add(target[2])
    _note_register(code, mnemonic, words)


def _move_stack(name: str, code: Code, mnemonic: str, words: list[str]) -> None:
    """Count the bytes that are subtracted from the stack pointer; ignore additions and
    assignments.
    """
    if mnemonic == "mv" or words[1] != "sp":
        return
    if code.registers.pop("sp", None) is not None:
        return  # the second half of an address
    amount = int(words[2], 0) if _NUMBER.match(words[2]) else code.registers.get(words[2])
    if amount is None:
        raise Unbounded(name)
    code.frame += max(0, amount if mnemonic == "sub" else -amount)


def _note_register(code: Code, mnemonic: str, words: list[str]) -> None:
    """Track the constants that set up large frames."""
    written, known = words[0], code.registers
    if mnemonic in ("add", "addi") and written == "sp":
        return
    if mnemonic == "li" and _NUMBER.match(words[-1]):
        known[written] = _signed(int(words[1], 0) & 0xFFFF_FFFF, 32)
    elif mnemonic in ("auipc", "lui") and written == "sp":
        known["sp"] = 0  # an address begins
    elif mnemonic == "lui":
        known[written] = _signed(int(words[1], 0) << 12 & 0xFFFF_FFFF, 32)
    elif mnemonic in ("add", "addi") and words[1] in known and _NUMBER.match(words[-1]):
        known[written] = _signed(known[words[1]] + int(words[2], 0) & 0xFFFF_FFFF, 32)
    else:
        known.pop(written, None)


RISCV = Isa(
    elf_machine="EM_RISCV",
    code_bit=0,
    # Traps have the handler stack from their first instruction on.
    exception_bytes=0,
    call_before=_call_before,
    take=_take,
)
