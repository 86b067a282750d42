"""How deep the stack of an image can become, from its machine code.

The bound adds up frames along the deepest chain of calls from the reset handler. What an indirect
call reaches is not in the code, so it may be every function whose address is anywhere in the image;
no function is assumed to call itself again, which nothing here does. On top comes what an interrupt
saves there before it goes on with its own stack.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

from hil.errors import BuildError

OBJDUMP = "arm-none-eabi-objdump"
_ROOT = "hil_reset_handler"
#: Saved by an exception: eight words, eighteen more where the floating-point unit is in use, and
#: what aligns them.
_EXCEPTION_BYTES = 32 + 72 + 4

_FUNCTION = re.compile(r"^([0-9a-f]{8}) <(.+)>:$")
_INSTRUCTION = re.compile(r"^ *[0-9a-f]+:\t(\S+)(?:\t([^@;]*))?")
_PUSH = re.compile(r"^(push|stmdb|stmfd|vpush|vstmdb)")
_LOWER = re.compile(r"^subw? sp, (?:sp, )?#(\d+)")
_MOVE = re.compile(r"^(?:sub|subw|add) sp, (?:sp, )?r\d")
_PRE_INDEXED = re.compile(r"\[sp, #-(\d+)\]!")
_CALL = re.compile(r"^[0-9a-f]+ <([^>+]+)>")


@dataclass
class _Code:
    """A function: the bytes that it takes off the stack, and whom it calls."""

    frame: int = 0
    calls: set[str] = field(default_factory=set)
    is_indirect: bool = False


#: Chains of calls are followed through this many functions.
_MOST_VISITS = 100_000


class Unbounded(Exception):
    """A function moves the stack by what a register holds."""


def stack_bound(elf: Path) -> int | None:
    """Bytes of the main stack that ``elf`` takes at most; None where the code does not tell.

    That is so for frames of more than half a KB on Armv6-M, for arrays of variable length, and
    where functions that call through pointers make too many chains to follow.
    """
    try:
        functions = _functions(elf)
    except Unbounded:
        return None
    taken = sorted(_taken_addresses(elf) & set(functions))
    depths: dict[str, int] = {}
    visits = 0

    def depth(name: str, path: frozenset[str]) -> tuple[int, bool]:
        """The deepest chain from ``name``; whether it depends on what is on ``path``."""
        nonlocal visits
        if name in depths:
            return depths[name], False
        visits += 1
        if visits > _MOST_VISITS:
            raise Unbounded
        code, deepest, depends = functions[name], 0, False
        path |= {name}
        for called in (*code.calls, *(taken if code.is_indirect else ())):
            if called in path:
                depends = True
            elif called in functions:
                below, unsure = depth(called, path)
                deepest, depends = max(deepest, below), depends or unsure
        if not depends:
            depths[name] = code.frame + deepest
        return code.frame + deepest, depends

    try:
        return depth(_ROOT, frozenset())[0] + _EXCEPTION_BYTES
    except Unbounded:
        return None


def _functions(elf: Path) -> dict[str, _Code]:
    result = subprocess.run(
        [OBJDUMP, "-d", "--no-show-raw-insn", str(elf)], capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise BuildError(f"{OBJDUMP} cannot read {elf}: {result.stderr.strip()}", "build again")
    found: dict[str, _Code] = {}
    name, code = "", _Code()
    for line in result.stdout.splitlines():
        if match := _FUNCTION.match(line):
            name, code = match[2], found.setdefault(match[2], _Code())
        elif match := _INSTRUCTION.match(line):
            _take(name, code, match[1], (match[2] or "").strip())
    return found


def _take(name: str, code: _Code, mnemonic: str, operands: str) -> None:
    """Adds what one instruction does to ``code``."""
    base = mnemonic.removesuffix(".w").removesuffix(".n")
    if _PUSH.match(base) and (base.endswith("push") or operands.startswith("sp!")):
        code.frame += sum(_register_bytes(operands))
    elif _MOVE.match(f"{base} {operands}"):
        raise Unbounded(name)
    elif match := _LOWER.match(f"{base} {operands}") or _PRE_INDEXED.search(operands):
        code.frame += int(match[1])
    elif base in ("blx", "bx") and operands != "lr" and not _CALL.match(operands):
        code.is_indirect = True
    elif base.startswith("b") and (match := _CALL.match(operands)) and match[1] != name:
        code.calls.add(match[1])


def _register_bytes(operands: str) -> Iterator[int]:
    for part in operands.partition("{")[2].partition("}")[0].split(","):
        first, _, last = part.strip().partition("-")
        count = int(last[1:]) - int(first[1:]) + 1 if last else 1
        yield count * (8 if first.startswith("d") else 4)


def _taken_addresses(elf: Path) -> set[str]:
    """The functions whose addresses stand in the image, behind the vector table."""
    with elf.open("rb") as stream:
        image = ELFFile(stream)
        table: Any = image.get_section_by_name(".symtab")
        names = {
            symbol["st_value"]: symbol.name
            for symbol in table.iter_symbols()
            if symbol["st_info"]["type"] == "STT_FUNC"
        }
        start = min(names) & ~1
        found = set()
        for segment in image.iter_segments():
            if segment.header["p_type"] != "PT_LOAD":
                continue
            data, origin = segment.data(), segment.header["p_vaddr"]
            for at in range(0, len(data) - 3, 4):
                value = int.from_bytes(data[at : at + 4], "little")
                if value in names and origin + at >= start:
                    found.add(names[value])
    return found
