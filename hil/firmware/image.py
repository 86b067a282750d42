"""Segments of an ELF image in a board's memory, and addresses of its symbols."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from hil.errors import InputError
from hil.firmware.core_of_image import unfit_core
from hilc.target import toolchains

if TYPE_CHECKING:
    from hil.board import Board


@dataclass(frozen=True)
class Segment:
    """Bytes of an image and where they lie in the board's memory."""

    address: int
    data: bytes = field(repr=False)


def read_image(path: Path, board: Board | None = None) -> tuple[Segment, ...]:
    """Return the loadable segments of an ELF file, in the order of their addresses.

    :class:`InputError` for one that is not for the core of ``board``, or without one not for any.
    """
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            fitting = [
                toolchain
                for toolchain in ([board.cpu.toolchain] if board else toolchains())
                if (elf["e_machine"], elf.elfclass) == (toolchain.elf_machine, 32)
            ]
            if not fitting:
                wanted = board.cpu.toolchain.title if board else "a microcontroller"
                raise InputError(
                    f"{path} is for {elf.get_machine_arch()}, not for {wanted}",
                    "give an image that was built for the board",
                )
            if board is not None and (needed := unfit_core(elf, board.cpu)) is not None:
                raise InputError(
                    f"{path} is for {needed}, and {board.name} has a core {board.cpu.name} "
                    f"({board.cpu.arch})",
                    "give an image that was built for the board",
                )
            segments = [
                Segment(header["p_paddr"], part.data())
                for part in elf.iter_segments()
                for header in [part.header]
                if header["p_type"] == "PT_LOAD" and header["p_filesz"]
            ]
    except ELFError as error:
        raise InputError(f"{path} is not an ELF file: {error}", "give a firmware.elf") from None
    if not segments:
        raise InputError(f"{path} has nothing to load", "give a linked image, not an object file")
    return tuple(sorted(segments, key=lambda segment: segment.address))


def check_image(board: Board, path: Path) -> None:
    """Raise :class:`InputError` for an image that is for another core or outside of the board's
    memory.
    """
    for segment in read_image(path, board):
        end = segment.address + len(segment.data)
        if not any(r.origin <= segment.address and end <= r.end for r in board.memory):
            regions = ", ".join(f"{r.name} {r.origin:#x} to {r.end:#x}" for r in board.memory)
            raise InputError(
                f"{path} has bytes at {segment.address:#010x} to {end:#010x}, where {board.name} "
                f"has no memory ({regions})",
                "is it for another board?",
            )


def symbol_address(path: Path, name: str) -> int:
    """Return the address of a symbol in an ELF file."""
    address = _find_symbol(path, name)
    if address is None:
        raise InputError(f"{path} has no symbol {name}", "build it with --transport rtt")
    return address


def function_address(path: Path, name: str) -> int | None:
    """Return the address of the only function of that name in an ELF file, or None."""
    address = _only_address(path, name, "STT_FUNC")
    return None if address is None else address & ~1  # the lowest bit says Thumb


def object_address(path: Path, name: str) -> int | None:
    """Return the address of the only variable of that name in an ELF file, or None."""
    return _only_address(path, name, "STT_OBJECT")


def _only_address(path: Path, name: str, kind: str) -> int | None:
    try:
        with path.open("rb") as file:
            table: Any = ELFFile(file).get_section_by_name(".symtab")
            found = (table.get_symbol_by_name(name) if table is not None else None) or []
            addresses = {
                int(symbol["st_value"]) for symbol in found if symbol["st_info"]["type"] == kind
            }
    except ELFError as error:
        raise InputError(f"{path} is not an ELF file: {error}", "give a firmware.elf") from None
    return addresses.pop() if len(addresses) == 1 else None


def has_symbol(path: Path, name: str) -> bool:
    """Return whether an ELF file has a symbol; a stripped one has none."""
    return _find_symbol(path, name) is not None


def _find_symbol(path: Path, name: str) -> int | None:
    try:
        with path.open("rb") as file:
            table: Any = ELFFile(file).get_section_by_name(".symtab")
            found = table.get_symbol_by_name(name) if table is not None else None
            return int(found[0]["st_value"]) if found else None
    except ELFError as error:
        raise InputError(f"{path} is not an ELF file: {error}", "give a firmware.elf") from None
