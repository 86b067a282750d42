"""Reads the GNU linker's map file: which object takes how much of which output section."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_OUTPUT_SECTION = re.compile(r"(\.[\w.]+)(?:\s+0x[0-9a-f]+\s+0x([0-9a-f]+))?")
_INPUT_SECTION = re.compile(r" (\.\S+|COMMON)(?:\s+0x[0-9a-f]+\s+0x([0-9a-f]+) (\S.*))?")
_CONTINUED = re.compile(r"\s{16,}0x[0-9a-f]+\s+0x([0-9a-f]+)(?: (\S.*))?")
_MEMBER = re.compile(r"(\S.*?\([^()]+\))(?:\s+(\S.*) \(.*\))?$")
_REFERENCE = re.compile(r"\s+(\S.*?) \(.*\)$")


@dataclass(frozen=True)
class Piece:
    """One object's part of an output section."""

    output: str
    section: str
    #: Object file, or ``archive(member)``.
    file: str
    size: int


@dataclass(frozen=True)
class LinkMap:
    """Sizes of the output sections and the pieces that they are made of."""

    sections: dict[str, int]
    pieces: tuple[Piece, ...]
    #: Which file first asked for an archive's member.
    asked_by: dict[str, str]

    def size(self, names: Iterable[str]) -> int:
        """Return the bytes of the output sections ``names``; an absent one has none."""
        return sum(self.sections.get(name, 0) for name in names)

    def origin(self, file: str) -> str:
        """Return the object of the program through which ``file`` came into it."""
        seen = set()
        while file in self.asked_by and file not in seen:
            seen.add(file)
            file = self.asked_by[file]
        return file


def read_map(text: str) -> LinkMap:
    """Read the text of a map file."""
    members, _, rest = text.partition("Linker script and memory map")
    members = members.partition("\nDiscarded input sections")[0]
    return LinkMap(*_sections(rest.splitlines()), _asked_by(members.splitlines()))


def _asked_by(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    member = ""
    for line in lines:
        if match := _MEMBER.match(line):
            member = match[1]
            if match[2]:
                found[member] = match[2]
        elif member and (match := _REFERENCE.match(line)):
            found.setdefault(member, match[1])
    return found


def _sections(lines: list[str]) -> tuple[dict[str, int], tuple[Piece, ...]]:
    sections: dict[str, int] = {}
    pieces: list[Piece] = []
    output = section = ""
    for line in lines:
        if match := _OUTPUT_SECTION.match(line):
            output, section = match[1], ""
            if match[2]:
                sections[output] = int(match[2], 16)
        elif match := _INPUT_SECTION.match(line):
            section = match[1]
            if match[2]:
                pieces.append(Piece(output, section, match[3], int(match[2], 16)))
        elif match := _CONTINUED.match(line):
            # The line above had a name so long that its figures follow here.
            if section and match[2]:
                pieces.append(Piece(output, section, match[2], int(match[1], 16)))
            elif output and not section:
                sections.setdefault(output, int(match[1], 16))
    return sections, tuple(piece for piece in pieces if piece.size)
