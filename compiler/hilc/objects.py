"""What a relocatable object (ELF) defines and for which machine it is, read from its own tables."""

from __future__ import annotations

import platform
import struct
from dataclasses import dataclass

from hilc.cpu import Cpu
from hilc.errors import InputError

_MAGIC = b"\x7fELF"
_RELOCATABLE = 1
_SYMBOL_TABLE = 2
_UNDEFINED = 0
_GLOBAL, _WEAK = 1, 2
#: Numbers of machines in ELF, by the name that the host gives itself, and that of our cores.
_ARM = 40
_HOST_MACHINES = {"x86_64": 62, "amd64": 62, "aarch64": 183, "arm64": 183, "riscv64": 243}


@dataclass(frozen=True)
class ObjectFile:
    """``defined`` are the global names that others may not define again (weak ones may be).

    ``undefined`` are those that others must define.
    """

    machine: int
    defined: frozenset[str]
    weak: frozenset[str]
    undefined: frozenset[str]


def read_object(data: bytes, where: str) -> ObjectFile:
    """The tables of an object; :class:`~hilc.errors.InputError` for what is none."""
    try:
        return _read(data)
    except (struct.error, ValueError, IndexError, UnicodeDecodeError) as error:
        raise InputError(
            f"{where} is not a relocatable object: {error}", "pass an ELF object (cc -c)"
        ) from None


def _read(data: bytes) -> ObjectFile:
    if data[:4] != _MAGIC:
        raise ValueError("it does not begin as ELF does")
    if data[4] not in (1, 2) or data[5] != 1:
        raise ValueError("it is not little-endian ELF of 32 or 64 bits")
    wide = data[4] == 2
    kind, machine = struct.unpack_from("<HH", data, 16)
    if kind != _RELOCATABLE:
        raise ValueError(f"its ELF type is {kind}, not {_RELOCATABLE}")
    table_at, entry_bytes, count = (
        (*struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HH", data, 58))
        if wide
        else (*struct.unpack_from("<I", data, 32), *struct.unpack_from("<HH", data, 46))
    )
    sections = [_section(data, table_at + index * entry_bytes, wide) for index in range(count)]
    defined, weak, undefined = set[str](), set[str](), set[str]()
    for kind, offset, size, link in sections:
        if kind != _SYMBOL_TABLE:
            continue
        _, names_at, names_bytes, _ = sections[link]
        names = data[names_at : names_at + names_bytes]
        symbol_bytes = 24 if wide else 16
        for at in range(offset, offset + size - symbol_bytes + 1, symbol_bytes):
            name_at, info, section = _symbol(data, at, wide)
            is_weak = info >> 4 == _WEAK
            if not is_weak and info >> 4 != _GLOBAL:
                continue
            name = names[name_at : names.index(b"\0", name_at)].decode()
            if section == _UNDEFINED:
                undefined |= set() if is_weak else {name}
            else:
                (weak if is_weak else defined).add(name)
    return ObjectFile(machine, *map(frozenset, (defined, weak, undefined)))


def _section(data: bytes, at: int, wide: bool) -> tuple[int, int, int, int]:
    """Type, file offset, size and linked section."""
    if wide:
        _, kind, _, _, offset, size, link = struct.unpack_from("<IIQQQQI", data, at)
    else:
        _, kind, _, _, offset, size, link = struct.unpack_from("<7I", data, at)
    return kind, offset, size, link


def _symbol(data: bytes, at: int, wide: bool) -> tuple[int, int, int]:
    """Place of the name, binding and type, section."""
    if wide:
        name, info, _, section = struct.unpack_from("<IBBH", data, at)
    else:
        name, _, _, info, _, section = struct.unpack_from("<IIIBBH", data, at)
    return name, info, section


def require_defined(data: bytes, symbol: str | None, cpu: Cpu, where: str) -> None:
    """Refuse an object for another machine than ``cpu``, or one that lacks ``symbol``."""
    found = read_object(data, where)
    wanted = _HOST_MACHINES.get(platform.machine().lower()) if cpu.arch == "host" else _ARM
    if wanted is not None and found.machine != wanted:
        raise InputError(
            f"{where} is an object for the ELF machine {found.machine}, but {cpu.name} is {wanted}",
            f"compile it for {cpu.name}: {' '.join(cpu.cflags) or 'with the compiler of the host'}",
        )
    if symbol is not None and symbol not in found.defined | found.weak:
        raise InputError(
            f"{where}: the object does not define {symbol!r}",
            f"it defines {', '.join(sorted(found.defined | found.weak)) or 'nothing'}",
        )
