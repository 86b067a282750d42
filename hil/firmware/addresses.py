"""Code addresses of an ELF image as functions, files and lines, and call chains.

For images of 32-bit cores whose instruction set :mod:`hil.firmware.isa` supports. Facts that the
file does not have (no symbols, no debugging information) are left out, never guessed.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.common.exceptions import DWARFError, ELFError
from elftools.elf.elffile import ELFFile

from hil.firmware.isa import of_machine

#: Maximum length of a call chain.
_MOST_CALLERS = 12
#: Suffixes that GCC appends to the names of specialised functions.
_CLONE = re.compile(r"(\.(isra|constprop|part|cold|lto_priv)(\.\d+)?)+$")


@dataclass(frozen=True)
class Place:
    """Source location of an address."""

    address: int
    #: "" if no function is known.
    function: str
    #: As the compiler was given it; "" if no line is known.
    file: str
    line: int

    def __str__(self) -> str:
        location = f"{self.file}:{self.line}" if self.file else ""
        if self.function:
            return f"{self.function} at {location}" if location else self.function
        return location or f"{self.address:#010x}"


@dataclass(frozen=True)
class _Function:
    start: int
    size: int
    name: str


class Addresses:
    """Code of ``elf``; raise :class:`OSError` or :class:`ValueError` if it cannot be read."""

    def __init__(self, elf: Path) -> None:
        try:
            # The file is small next to its parsed form, and may be removed before a query.
            self._file = elf.open("rb")
            self._elf = ELFFile(self._file)
        except ELFError as error:
            raise ValueError(f"{elf} is not an ELF file: {error}") from None
        isa = of_machine(self._elf.header["e_machine"])
        if isa is None or self._elf.elfclass != 32:
            raise ValueError(f"{elf} is not for a core whose code is known")
        self._isa = isa
        self._code = [
            (part.header["p_vaddr"], part.data())
            for part in self._elf.iter_segments()
            if part.header["p_type"] == "PT_LOAD" and part.header["p_flags"] & 1
        ]
        table: Any = self._elf.get_section_by_name(".symtab")
        functions = {
            symbol["st_value"] & ~1: _Function(
                symbol["st_value"] & ~1, symbol["st_size"], _CLONE.sub("", symbol.name)
            )
            for symbol in (table.iter_symbols() if table else ())
            if symbol["st_info"]["type"] == "STT_FUNC"
        }
        self._functions = [functions[start] for start in sorted(functions)]
        self._starts = [function.start for function in self._functions]

    def close(self) -> None:
        """Close the ELF file."""
        self._file.close()

    def place(self, address: int) -> Place:
        """Return the source location of the instruction at ``address``."""
        function = self._function(address)
        file, line = self._line(address)
        return Place(address, function.name if function else "", file, line)

    def callers(self, pc: int, lr: int, words: Sequence[int]) -> list[Place]:
        """Return the calls that led to ``pc``, the newest first; best effort.

        ``words`` are those of the stack, the newest first. A word counts as a return address where
        the instruction in front of it is a call: of the function before in the chain, or through a
        pointer. Where none fits (a jump took the place of a call), it is the next after any call.
        """
        callers: list[Place] = []
        callee = self._function(pc)
        values = [lr, *words]
        at = 0
        while len(callers) < _MOST_CALLERS:
            calls = [
                (i, self._isa.call_before(self._half_word, values[i]))
                for i in range(at, len(values))
            ]
            fitting = [i for i, to in calls if to is not None and self._fits(to, callee)]
            # The link register is the return address only of a function that has not called
            # another yet, else left over from the last one that it called.
            found = fitting or [i for i, to in calls if to is not None and i > 0]
            if not found:
                break
            at = found[0] + 1
            site = (values[found[0]] & ~1) - 2
            callers.append(self.place(site))
            callee = self._function(site)
            if callee is not None and callee.name == "main":
                break
        return callers

    def _fits(self, to: int, callee: _Function | None) -> bool:
        """Return whether a call ``to`` an address (0: through a pointer) may have called
        ``callee``.
        """
        return callee is None or to in (0, callee.start)

    def _call_before(self, value: int) -> int | None:
        """See :attr:`hil.firmware.isa.Isa.call_before`."""
        return self._isa.call_before(self._half_word, value)

    def _half_word(self, address: int) -> int | None:
        for start, data in self._code:
            at = address - start
            if 0 <= at <= len(data) - 2:
                return int.from_bytes(data[at : at + 2], "little")
        return None

    def _function(self, address: int) -> _Function | None:
        index = bisect.bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        function = self._functions[index]
        # A function written in assembly may have no size.
        return function if address < function.start + max(function.size, 2) else None

    def _line(self, address: int) -> tuple[str, int]:
        """Return file and line of the instruction at ``address``; "" and 0 if they are unknown."""
        try:
            dwarf = self._elf.get_dwarf_info()
            ranges = dwarf.get_aranges()
            offset = ranges.cu_offset_at_addr(address) if ranges else None
            # If the linker shortens calls (RISC-V), the list of a unit's functions ends for its
            # readers at the first one that was removed from the image.
            units = [dwarf.get_CU_at(offset)] if offset is not None else dwarf.iter_CUs()
            for unit in units:
                if found := _line_in(dwarf.line_program_for_CU(unit), address):
                    return found
        except (DWARFError, ELFError, KeyError):
            pass
        return "", 0


def _line_in(program: Any, address: int) -> tuple[str, int] | None:
    """Return file and line of an instruction from one unit's line program; None if it is not
    there.
    """
    before = None
    for entry in program.get_entries() if program is not None else ():
        state = entry.state
        if state is None:
            continue
        if before is not None and before.address <= address < state.address:
            return _file_name(program.header, before.file), before.line
        before = None if state.end_sequence else state
    return None


def _file_name(header: Any, number: int) -> str:
    """Return the path of file ``number`` of a line program; numbers begin at 1 before DWARF 5."""
    is_old = header["version"] < 5
    entries, folders = header["file_entry"], header["include_directory"]
    if not 0 <= number - is_old < len(entries):
        return ""
    entry = entries[number - is_old]
    folder = entry["dir_index"] - is_old
    name = entry["name"].decode("utf-8", "replace")
    if name.startswith("/") or not 0 <= folder < len(folders):
        return str(name)
    path = folders[folder].decode("utf-8", "replace")
    return f"{path}/{name}" if path and path != "." else str(name)
