"""Upper bound of an image's stack, from its machine code.

The bound adds up frames along the deepest chain of calls from the reset handler. The target of an
indirect call is not in the code, so it may be every function whose address is anywhere in the
image. Functions that call themselves, or each other in a circle, have no bound; circles through
pointers are assumed not to close, which holds for all code here. The registers that an interrupt
saves before it switches to its own stack are added. :meth:`hil.device.Device.memory` compares the
bound with what a board's stack really held.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

from hil.errors import BuildError
from hil.firmware.isa import ISAS, Code, Isa, Unbounded
from hilc.target import Cpu

_ROOT = "hil_reset_handler"

_FUNCTION = re.compile(r"^([0-9a-f]{8}) <(.+)>:$")
#: Mnemonic, operands, and what objdump remarks on them.
_INSTRUCTION = re.compile(r"^ *[0-9a-f]+:\t(\S+)(?:\t((?:[^@;#]|#(?! ))*))?(.*)")

#: Among functions that call each other in circles: the largest in which chains are followed one by
#: one, and through so many functions in all.
_LARGEST_CIRCLE, _MOST_VISITS = 400, 100_000


def stack_bound(elf: Path, cpu: Cpu) -> int | None:
    """Bytes of the main stack that ``elf`` takes at most; None where the code does not tell.

    That is so for frames of more than half a KB on Armv6-M, for arrays of variable length, and for
    functions that call themselves.
    """
    isa = ISAS[cpu.isa]
    try:
        functions = _functions(elf, cpu.toolchain.program("objdump"), isa)
    except Unbounded:
        return None
    if is_recursive(functions, _ROOT):
        return None
    taken = _taken_addresses(elf).union(*(code.addresses for code in functions.values()))
    return deepest(functions, sorted(taken & set(functions)), _ROOT) + isa.exception_bytes


def is_recursive(functions: Mapping[str, Code], root: str) -> bool:
    """Return whether functions that ``root`` reaches by direct calls call themselves or each other
    in a circle.
    """
    calls = {name: sorted(code.calls & functions.keys()) for name, code in functions.items()}
    return any(
        len(circle) > 1 or any(name in calls[name] for name in circle)
        for circle in _circles(calls, root)
    )


def deepest(functions: Mapping[str, Code], taken: Sequence[str], root: str) -> int:
    """Return the bytes of the deepest chain of calls from ``root``; those through pointers reach
    ``taken``.

    Functions that call each other in circles are taken together. The deepest chain among them is
    looked for as long as they are few, and is the frames of all of them otherwise.
    """
    calls = {
        name: sorted({*code.calls, *(taken if code.is_indirect else ())} & functions.keys())
        for name, code in functions.items()
    }
    circles = list(_circles(calls, root))
    callers: dict[str, set[str]] = {root: {""}}
    for name in set().union(*circles):
        for called in calls[name]:
            callers.setdefault(called, set()).add(name)
    depths: dict[str, int] = {}
    for circle in circles:
        # Functions that a cycle calls come before it.
        beyond = {
            name: max((depths[called] for called in calls[name] if called not in circle), default=0)
            for name in circle
        }
        frames = {name: functions[name].frame for name in circle}
        inside = {name: [c for c in calls[name] if c in circle and c != name] for name in circle}
        entries = [name for name in sorted(circle) if callers[name] - circle]
        try:
            depths |= _chains(entries, frames, inside, beyond)
        except _TooManyError:
            depths |= dict.fromkeys(entries, sum(frames.values()) + max(beyond.values()))
    return depths[root]


class _TooManyError(Exception):
    """There are more chains than can be followed."""


def _chains(
    entries: Sequence[str],
    frames: Mapping[str, int],
    calls: Mapping[str, Sequence[str]],
    beyond: Mapping[str, int],
) -> dict[str, int]:
    """Return the deepest chain from each of ``entries``, in which no function is twice."""
    if len(frames) > _LARGEST_CIRCLE:
        raise _TooManyError
    left = _MOST_VISITS

    def depth(name: str, path: frozenset[str]) -> int:
        nonlocal left
        left -= 1
        if left < 0:
            raise _TooManyError
        path |= {name}
        below = beyond[name]
        for called in calls[name]:
            if called not in path:
                below = max(below, depth(called, path))
        return frames[name] + below

    return {name: depth(name, frozenset()) for name in entries}


def _circles(calls: Mapping[str, Sequence[str]], root: str) -> Iterator[set[str]]:
    """Yield the functions that ``root`` reaches, those that reach each other together, in an order
    in which each comes after all that it calls (Tarjan's algorithm).
    """
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    open_: set[str] = set()
    pending = [(root, iter(calls[root]))]
    while pending:
        name, rest = pending[-1]
        if name not in numbers:
            numbers[name] = lowest[name] = len(numbers)
            stack.append(name)
            open_.add(name)
        called = next(rest, None)
        if called is None:
            pending.pop()
            if pending:
                caller = pending[-1][0]
                lowest[caller] = min(lowest[caller], lowest[name])
            if lowest[name] == numbers[name]:
                start = stack.index(name)
                circle = set(stack[start:])
                del stack[start:]
                open_ -= circle
                yield circle
        elif called not in numbers:
            pending.append((called, iter(calls[called])))
        elif called in open_:
            lowest[name] = min(lowest[name], numbers[called])


def _functions(elf: Path, objdump: str, isa: Isa) -> dict[str, Code]:
    result = subprocess.run(
        [objdump, "-d", "--no-show-raw-insn", str(elf)],
        capture_output=True,
        text=True,
        errors="replace",  # the path, where it is no text
        check=False,
    )
    if result.returncode != 0:
        raise BuildError(f"{objdump} cannot read {elf}: {result.stderr.strip()}", "build again")
    found: dict[str, Code] = {}
    name, code = "", Code()
    for line in result.stdout.splitlines():
        if match := _FUNCTION.match(line):
            name, code = match[2], found.setdefault(match[2], Code())
        elif match := _INSTRUCTION.match(line):
            isa.take(name, code, match[1], (match[2] or "").strip(), match[3])
    return found


def _taken_addresses(elf: Path) -> set[str]:
    """Return the functions whose addresses stand in the image, behind the vector table."""
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
