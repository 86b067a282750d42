"""Formats of a firmware's image: its ELF file, and what flashers take instead of it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

from hil.errors import InputError
from hil.firmware.image import Segment, read_image
from hilc.support.outputs import write_file

#: ``bin`` is the memory from the image's first address to its last, gaps filled with 0xFF.
ImageFormat: TypeAlias = Literal["elf", "hex", "bin", "uf2"]

_HEX_BYTES: Final = 16
#: A gap in a raw image that is larger is an image in two memories.
_GAP_MAX: Final = 1 << 20
_UF2_BYTES: Final = 256
_UF2_MAGIC: Final = 0x0A324655, 0x9E5D5157
_UF2_END: Final = 0x0AB16F30
_UF2_HAS_FAMILY: Final = 0x2000


def image_in(
    elf: Path, image_format: ImageFormat, folder: Path, uf2_family: int | None = None
) -> Path:
    """Return the file with the image of ``elf`` in a format: a new one in ``folder``, or ``elf``.

    ``uf2_family`` is the number of the chip's family in a UF2 file; None leaves it out. Raise
    :class:`~hil.errors.InputError` for a file that is no image, and for one that does not fit the
    format.
    """
    if image_format == "elf":
        return elf
    path, segments = folder / f"{elf.stem}.{image_format}", read_image(elf)
    match image_format:
        case "hex":
            write_file(path, intel_hex(segments))
        case "bin":
            write_file(path, raw(segments))
        case "uf2":
            write_file(path, uf2(segments, uf2_family))
    return path


def first_address(elf: Path) -> int:
    """Return the address of the first byte of an image: where a raw one is programmed."""
    return read_image(elf)[0].address


def raw(segments: Sequence[Segment]) -> bytes:
    """Return the bytes from the first address to the last; gaps are 0xFF, as erased flash."""
    data = bytearray()
    for segment in segments:
        gap = segment.address - (segments[0].address + len(data))
        if gap > _GAP_MAX:
            raise InputError(
                f"the image has a gap of {gap} bytes below {segment.address:#010x}, so it has no "
                "raw form",
                "use a flasher that takes ELF, Intel HEX or UF2",
            )
        data += b"\xff" * gap + segment.data
    return bytes(data)


def intel_hex(segments: Sequence[Segment]) -> str:
    """Return the text of an Intel HEX file with 32-bit addresses."""
    lines, upper = [], -1
    for address, data in _blocks(segments, _HEX_BYTES):
        if address >> 16 != upper:
            upper = address >> 16
            lines.append(_record(0, 4, upper.to_bytes(2, "big")))
        lines.append(_record(address & 0xFFFF, 0, data))
    return "\n".join([*lines, _record(0, 1, b""), ""])


def _record(address: int, kind: int, data: bytes) -> str:
    body = bytes([len(data), address >> 8, address & 0xFF, kind]) + data
    return f":{(body + bytes([-sum(body) & 0xFF])).hex().upper()}"


def uf2(segments: Sequence[Segment], family: int | None = None) -> bytes:
    """Return the bytes of a UF2 file, in blocks of 256 bytes; gaps within a block are 0xFF."""
    blocks: dict[int, bytearray] = {}
    for address, data in _blocks(segments, _UF2_BYTES):
        start = address // _UF2_BYTES * _UF2_BYTES
        block = blocks.setdefault(start, bytearray(b"\xff" * _UF2_BYTES))
        block[address - start : address - start + len(data)] = data
    flags = 0 if family is None else _UF2_HAS_FAMILY
    packed = [
        struct.pack(
            "<8I476sI",
            *(*_UF2_MAGIC, flags, start, _UF2_BYTES, number, len(blocks), family or 0),
            bytes(blocks[start]),
            _UF2_END,
        )
        for number, start in enumerate(sorted(blocks))
    ]
    return b"".join(packed)


def _blocks(segments: Sequence[Segment], size: int) -> Iterator[tuple[int, bytes]]:
    """Yield address and bytes of each part that lies within one aligned block of ``size``."""
    for segment in segments:
        at = 0
        while at < len(segment.data):
            address = segment.address + at
            count = size - address % size
            yield address, segment.data[at : at + count]
            at += count
