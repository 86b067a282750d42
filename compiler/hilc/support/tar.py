"""Members of a tar file, read as untrusted data.

The cost of one header is bounded: Python's ``tarfile`` follows any number of extended headers by
recursion, and expands what they declare of sparse files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Literal

from hilc.errors import InputError

#: Size of headers, to which data are padded.
BLOCK = 512

# Headers with further fields of the next one: a longer name, a longer link target, records.
_LONG_NAME, _LONG_LINK, _RECORDS, _ALL_RECORDS = b"L", b"K", b"x", b"g"
_EXTENSIONS = (_LONG_NAME, _LONG_LINK, _RECORDS, _ALL_RECORDS)
# A member needs at most one of each.
_MAX_EXTENSIONS = len(_EXTENSIONS)
_MAX_EXTENSION_BYTES = 64 << 10

_FILES = (b"0", b"\0", b"7")
_FOLDER = b"5"
_RECORD = re.compile(rb"(\d{1,6}) ")
_SPARSE = "GNU.sparse."

_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7z": "xz", b"PK": "zip"}


@dataclass(frozen=True)
class Member:
    """One member, whose ``size`` bytes are at ``offset`` in the file."""

    name: str
    #: Others are links, devices, sparse files or unknown.
    kind: Literal["file", "folder", "other"]
    size: int
    offset: int


def is_tar(file: BinaryIO) -> bool:
    """Return whether the file begins with a tar header."""
    return _has_checksum(file.read(BLOCK))


def read_members(file: BinaryIO, label: str) -> Iterator[Member]:
    """Yield the members of ``file`` up to its end mark; raise InputError for an invalid or damaged
    tar.

    ``file`` may be read from and moved between members.
    """
    file_bytes = file.seek(0, 2)
    at = 0
    name, records, extensions = "", dict[str, str](), 0
    while True:
        file.seek(at)
        header = file.read(BLOCK)
        if header == bytes(BLOCK) and not extensions:
            return
        if not _has_checksum(header):
            raise _no_archive(label, header) if at == 0 else _damaged(label, at)
        size, kind = _number(header[124:136], label, at), header[156:157]
        data_at = at + BLOCK
        if kind in _EXTENSIONS:
            extensions += 1
            if extensions > _MAX_EXTENSIONS or size > _MAX_EXTENSION_BYTES:
                raise _refused(
                    label, at, "has extended headers that are longer than any member needs"
                )
            text = file.read(size)
            if kind == _LONG_NAME:
                name = _text(text, label, at)
            elif kind in (_RECORDS, _ALL_RECORDS):
                records |= _records(text, label, at)
            at = data_at + _padded(size)
            continue
        member = _member(header, name, records, size, data_at, label, at)
        if data_at + member.size > file_bytes:
            raise _damaged(label, at)
        yield member
        at = data_at + (_padded(member.size) if member.kind != "folder" else 0)
        name, records, extensions = "", {}, 0


def _member(
    header: bytes,
    name: str,
    records: Mapping[str, str],
    size: int,
    data_at: int,
    label: str,
    at: int,
) -> Member:
    """Return the member of a header and of the extended headers before it."""
    if not name:
        name = _text(header[:100], label, at)
        prefix = header[345:500] if header[257:263] == b"ustar\0" else b""
        if prefix.strip(b"\0"):
            name = f"{_text(prefix, label, at)}/{name}"
    name = records.get("path", name)
    if "size" in records:
        size = _number(records["size"].encode(), label, at, base=10)
    type_ = header[156:157]
    kind: Literal["file", "folder", "other"] = "other"
    if any(key.startswith(_SPARSE) for key in records):
        pass
    elif type_ == _FOLDER or (type_ == b"\0" and name.endswith("/")):
        kind, size = "folder", 0
    elif type_ in _FILES:
        kind = "file"
    return Member(name, kind, size, data_at)


def _records(text: bytes, label: str, at: int) -> dict[str, str]:
    """Return extended records: ``LENGTH KEY=VALUE`` and a newline each."""
    records: dict[str, str] = {}
    start = 0
    while start < len(text) and text[start]:
        match = _RECORD.match(text, start)
        end = start + int(match[1]) if match else 0
        if match is None or not match.end() < end <= len(text) or text[end - 1 : end] != b"\n":
            raise _damaged(label, at)
        key, separator, value = text[match.end() : end - 1].partition(b"=")
        if not separator:
            raise _damaged(label, at)
        # Other fields of a member (owners, times) may have any form.
        if key in (b"path", b"size") or key.startswith(_SPARSE.encode()):
            records[_text(key, label, at)] = _text(value, label, at)
        start = end
    return records


def _has_checksum(header: bytes) -> bool:
    if len(header) != BLOCK or header == bytes(BLOCK):
        return False
    said = header[148:156].strip(b" \0")
    if not re.fullmatch(rb"[0-7]{1,8}", said):
        return False
    # The checksum's own field counts as spaces. Some programs summed up signed bytes.
    others = header[:148] + header[156:]
    total = sum(others) + 8 * ord(" ")
    return int(said, 8) in (total, total - 256 * sum(byte > 127 for byte in others))


def _number(field: bytes, label: str, at: int, base: int = 8) -> int:
    if base == 8 and field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if not re.fullmatch(rb"[0-7]{0,12}" if base == 8 else rb"[0-9]{1,19}", digits):
        raise _damaged(label, at)
    return int(digits or b"0", base)


def _text(field: bytes, label: str, at: int) -> str:
    try:
        return field.partition(b"\0")[0].decode()
    except UnicodeDecodeError:
        raise _refused(label, at, "has a member whose name is not UTF-8") from None


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _no_archive(label: str, header: bytes) -> InputError:
    packing = next((kind for magic, kind in _COMPRESSED.items() if header.startswith(magic)), None)
    if packing is not None:
        return InputError(
            f"{label} is not a Model Library Format archive: it is compressed with {packing}",
            "unpack it: such an archive is a plain tar",
        )
    return InputError(
        f"{label} is not a Model Library Format archive: it does not begin as a tar does",
        "pass a .tar that hil compile or TVM made",
    )


def _damaged(label: str, at: int) -> InputError:
    return InputError(
        f"{label} is damaged or cut off after {at} bytes", "copy it again, or make it anew"
    )


def _refused(label: str, at: int, fact: str) -> InputError:
    return InputError(f"{label} {fact}, at byte {at}", "pass a .tar that hil compile or TVM made")
