"""Arm's M cores: Thumb, and the frame that an exception leaves."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hil.firmware.isa.code import Code, HalfWord, Isa, Unbounded

_PUSH = re.compile(r"^(push|stmdb|stmfd|vpush|vstmdb)")
_LOWER = re.compile(r"^subw? sp, (?:sp, )?#(\d+)")
_MOVE = re.compile(r"^(?:sub|subw|add) sp, (?:sp, )?r\d")
_PRE_INDEXED = re.compile(r"\[sp, #-(\d+)\]!")
_CALL = re.compile(r"^[0-9a-f]+ <([^>+]+)>")


def _call_before(half_word: HalfWord, value: int) -> int | None:
    if not value & 1:
        return None
    end = value & ~1
    first, second = half_word(end - 4), half_word(end - 2)
    if second is None:
        return None
    if second & 0xFF87 == 0x4780:  # BLX register
        return 0
    if first is None or first & 0xF800 != 0xF000 or second & 0xD000 != 0xD000:
        return None
    # BL, encoding T1 of the Arm architecture reference manuals: S:I1:I2:imm10:imm11:0.
    sign = first >> 10 & 1
    i1, i2 = (1 ^ (second >> bit & 1) ^ sign for bit in (13, 11))
    offset = sign << 24 | i1 << 23 | i2 << 22 | (first & 0x3FF) << 12 | (second & 0x7FF) << 1
    return end + offset - (sign << 25) & 0xFFFF_FFFF


def _take(name: str, code: Code, mnemonic: str, operands: str, remark: str) -> None:
    base = mnemonic.removesuffix(".w").removesuffix(".n")
    if _PUSH.match(base) and (base.endswith("push") or operands.startswith("sp!")):
        code.frame += sum(_register_bytes(operands))
    elif _MOVE.match(f"{base} {operands}"):
        raise Unbounded(name)
    elif match := _LOWER.match(f"{base} {operands}") or _PRE_INDEXED.search(operands):
        code.frame += int(match[1])
    elif base in ("blx", "bx") and operands != "lr" and not _CALL.match(operands):
        code.is_indirect = True
    elif base.startswith("b") and (match := _CALL.match(operands)):
        # A branch to its own start is a loop.
        is_loop = match[1] == name and base != "bl"
        code.calls |= set() if is_loop else {match[1]}


def _register_bytes(operands: str) -> Iterator[int]:
    for part in operands.partition("{")[2].partition("}")[0].split(","):
        first, _, last = part.strip().partition("-")
        count = int(last[1:]) - int(first[1:]) + 1 if last else 1
        yield count * (8 if first.startswith("d") else 4)


ARM = Isa(
    elf_machine="EM_ARM",
    code_bit=1,
    # Eight words, eighteen more where the floating-point unit is in use, and what aligns them.
    exception_bytes=32 + 72 + 4,
    call_before=_call_before,
    take=_take,
)
