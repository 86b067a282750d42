"""Relocatable objects (ELF): defined symbols and required core, read from their tables.

Compilers record in build attributes (``.ARM.attributes``, ``.riscv.attributes``) what the code
needs of a core. A linker merges the requirements of all objects, and so links an image that the
core cannot run, or fails with a message about the image. So objects are compared with the core
before linking.
"""

from __future__ import annotations

import platform
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hilc.errors import InputError
from hilc.target import Cpu, toolchains

_MAGIC = b"\x7fELF"
_RELOCATABLE = 1
_SYMBOL_TABLE = 2
#: Attributes section, on Arm and RISC-V alike, and its vendor.
_ATTRIBUTES = 0x70000003
_VENDORS = {"arm": b"aeabi", "riscv": b"riscv"}
_UNDEFINED = 0
_GLOBAL, _WEAK = 1, 2
#: ELF machine numbers, by the machine name that the host reports.
_HOST_MACHINES = {"x86_64": 62, "amd64": 62, "aarch64": 183, "arm64": 183, "riscv64": 243}


# Tags of the Arm ABI's build attributes (ABI addenda, "Build attributes").
_CPU_NAME, _CPU_ARCH, _CPU_PROFILE, _FP_ARCH = 5, 6, 7, 10
_FP_MODEL, _FP_USE, _FP_ARGUMENTS, _DSP, _HELIUM = 23, 27, 28, 46, 48
_OF_FILE = 1
_MICROCONTROLLER = ord("M")
_SINGLE_ONLY = 1

_V6_M, _V6S_M, _V7, _V7E_M, _V8_BASE, _V8_MAIN, _V8_1_MAIN = 11, 12, 10, 13, 16, 17, 21
_ARCH_NAMES = {
    _V6_M: "Armv6-M",
    _V6S_M: "Armv6-M",
    _V7E_M: "Armv7E-M",
    _V8_BASE: "Armv8-M Baseline",
    _V8_MAIN: "Armv8-M Mainline",
    _V8_1_MAIN: "Armv8.1-M Mainline",
}

#: RISC-V psABI: attribute of the extensions, and bits of the ELF header's flags.
_RISCV_ARCH = 5
_RISCV_COMPRESSED, _RISCV_FLOAT_ABI, _RISCV_EMBEDDED = 1, 6, 8


@dataclass(frozen=True)
class ObjectFile:
    """Symbols and build attributes of an object.

    ``defined`` are the strong global symbols, ``weak`` the weak ones, ``undefined`` those that
    other objects must define. ``attributes`` are those of the ABI, by tag; empty if the object has
    none.
    """

    machine: int
    wide: bool
    flags: int
    defined: frozenset[str]
    weak: frozenset[str]
    undefined: frozenset[str]
    attributes: Mapping[int, int | str]


def read_object(data: bytes, label: str) -> ObjectFile:
    """Return the tables of an object; raise :class:`~hilc.errors.InputError` if it is invalid."""
    try:
        return _read(data)
    except (struct.error, ValueError, IndexError, UnicodeDecodeError) as error:
        raise InputError(
            f"{label} is not a relocatable object: {error}", "pass an ELF object (cc -c)"
        ) from None


def _read(data: bytes) -> ObjectFile:
    if data[:4] != _MAGIC:
        raise ValueError("it does not begin with the ELF magic number")
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
    (flags,) = struct.unpack_from("<I", data, 48 if wide else 36)
    vendors = {t.elf_number: _VENDORS[t.isa] for t in toolchains() if t.isa in _VENDORS}
    sections = [_section(data, table_at + index * entry_bytes, wide) for index in range(count)]
    defined, weak, undefined = set[str](), set[str](), set[str]()
    attributes: dict[int, int | str] = {}
    for kind, offset, size, link in sections:
        if kind == _ATTRIBUTES and machine in vendors:
            attributes |= _attributes(data[offset : offset + size], vendors[machine])
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
    return ObjectFile(
        machine, wide, flags, frozenset(defined), frozenset(weak), frozenset(undefined), attributes
    )


def _section(data: bytes, at: int, wide: bool) -> tuple[int, int, int, int]:
    """Return type, file offset, size and linked section."""
    if wide:
        _, kind, _, _, offset, size, link = struct.unpack_from("<IIQQQQI", data, at)
    else:
        _, kind, _, _, offset, size, link = struct.unpack_from("<7I", data, at)
    return kind, offset, size, link


def _symbol(data: bytes, at: int, wide: bool) -> tuple[int, int, int]:
    """Return the name's offset, binding and type, and section."""
    if wide:
        name, info, _, section = struct.unpack_from("<IBBH", data, at)
    else:
        name, _, _, info, _, section = struct.unpack_from("<IIIBBH", data, at)
    return name, info, section


def _attributes(section: bytes, wanted: bytes) -> dict[int, int | str]:
    """Return the file attributes: ``A``, then parts with length and vendor, one of them
    ``wanted``.
    """
    attributes: dict[int, int | str] = {}
    at = 1 if section[:1] == b"A" else len(section)
    while at < len(section):
        (length,) = struct.unpack_from("<I", section, at)
        if length < 5 or at + length > len(section):
            raise ValueError(f"its attributes have a part of {length} bytes")
        vendor, _, part = section[at + 4 : at + length].partition(b"\0")
        at += length
        while vendor == wanted and part:
            scope = part[0]
            (length,) = struct.unpack_from("<I", part, 1)
            if not 5 <= length <= len(part):
                raise ValueError(f"its attributes have a scope of {length} bytes")
            if scope == _OF_FILE:
                attributes |= _values(part[5:length])
            part = part[length:]
    return attributes


def _values(text: bytes) -> dict[int, int | str]:
    """Return tags with their values: numbers or zero-terminated texts."""
    values: dict[int, int | str] = {}
    at = 0
    while at < len(text):
        tag, at = _uleb128(text, at)
        # Tag 32 has both; of the others these two and, from there on, the odd ones are texts.
        if tag == 32:
            _, at = _uleb128(text, at)
        if tag in (4, _CPU_NAME, 32) or (tag > 32 and tag % 2):
            end = text.index(b"\0", at)
            values[tag], at = text[at:end].decode("ascii", "replace"), end + 1
        else:
            values[tag], at = _uleb128(text, at)
    return values


def _uleb128(text: bytes, at: int) -> tuple[int, int]:
    """Return a ULEB128 number, and the offset of its end."""
    value = 0
    for shift in range(0, 35, 7):
        value |= (text[at] & 0x7F) << shift
        at += 1
        if not text[at - 1] & 0x80:
            return value, at
    raise ValueError("its attributes have a number of more than 32 bits")


def require_fits(data: bytes, cpu: Cpu, label: str) -> ObjectFile:
    """Return the tables of an object; raise :class:`~hilc.errors.InputError` if ``cpu`` cannot
    execute it.
    """
    found = read_object(data, label)
    wanted = (
        _HOST_MACHINES.get(platform.machine().lower()) if cpu.is_host else cpu.toolchain.elf_number
    )
    hint = f"compile it for {cpu.name}: {' '.join(cpu.cflags) or 'with the compiler of the host'}"
    # All cores other than hosts have 32 bits.
    if wanted is not None and (found.machine != wanted or (found.wide and not cpu.is_host)):
        own = _machine_name(wanted, wide=False) if not cpu.is_host else platform.machine().lower()
        raise InputError(
            f"{label} is an object for {_machine_name(found.machine, found.wide)}, but {cpu.name} "
            f"is {own}",
            hint,
        )
    if misfit := _MISFITS[cpu.isa](found, cpu):
        raise InputError(f"{label} is an object {misfit}", hint)
    return found


def _machine_name(machine: int, wide: bool) -> str:
    if not wide:
        for toolchain in toolchains():
            if toolchain.elf_number == machine:
                return toolchain.title
    hosts = [name for name, number in _HOST_MACHINES.items() if number == machine]
    return hosts[0] if hosts else f"the ELF machine {machine}"


def _arm_misfit(found: ObjectFile, cpu: Cpu) -> str:
    """Return the parts of an object that ``cpu`` cannot execute; empty for none."""
    attributes = found.attributes
    arch, profile = attributes.get(_CPU_ARCH), attributes.get(_CPU_PROFILE, _MICROCONTROLLER)
    if arch is not None and (profile != _MICROCONTROLLER or arch not in cpu.objects.built_for):
        return f"for {_built_for(attributes)}, but {cpu.name} is {cpu.objects.title}"
    for tag, extension, feature in ((_DSP, "DSP instructions", "dsp"), (_HELIUM, "Helium", "mve")):
        if attributes.get(tag) and feature not in cpu.features:
            return f"for {_built_for(attributes)} with {extension}, which {cpu.name} lacks"
    needed = attributes.get(_FP_ARCH)
    if needed and needed not in cpu.objects.floats:
        return f"for a floating-point unit that {cpu.name} lacks"
    if needed and cpu.objects.single_precision and attributes.get(_FP_USE) != _SINGLE_ONLY:
        return f"for a floating-point unit of double precision; that of {cpu.name} has single"
    in_registers = "-mfloat-abi=hard" in cpu.cflags
    # 0: in the core's registers, 1: in the unit's. Irrelevant without floats.
    passed = attributes.get(_FP_ARGUMENTS, 0)
    if attributes.get(_FP_MODEL) and passed in (0, 1) and passed != int(in_registers):
        own, other = ("floating-point unit's", "core's")[:: 1 if in_registers else -1]
        return f"that passes floats in the {other} registers; firmware of {cpu.name} in the {own}"
    return ""


def _riscv_misfit(found: ObjectFile, cpu: Cpu) -> str:
    """Return the parts of an object that ``cpu`` cannot execute; empty for none."""
    if found.flags & (_RISCV_FLOAT_ABI | _RISCV_EMBEDDED):
        how = "the floating-point unit's" if found.flags & _RISCV_FLOAT_ABI else "RV32E's"
        return f"that passes arguments in {how} registers; firmware of {cpu.name} is ilp32"
    own = cpu.objects.extensions
    arch = found.attributes.get(_RISCV_ARCH)
    if isinstance(arch, str):
        # rv32i2p0_m2p0_zba1p0: names with versions.
        names = re.findall(r"(?:^rv32|_)([a-z]+[a-z0-9]*?)(?:\d+p\d+)?(?=_|$)", arch)
        extra = [name for name in names if name not in own]
        if extra:
            return f"for {arch} with {', '.join(extra)}, which {cpu.name} lacks"
    elif found.flags & _RISCV_COMPRESSED and "c" not in own:
        return f"with compressed instructions, which {cpu.name} lacks"
    return ""


#: Checks by instruction set; for the host only the linker checks.
_MISFITS: Mapping[str, Callable[[ObjectFile, Cpu], str]] = {
    "arm": _arm_misfit,
    "riscv": _riscv_misfit,
    "host": lambda found, cpu: "",
}


def _built_for(attributes: Mapping[int, int | str]) -> str:
    """Return the architecture that an object was built for, and the core if it is recorded."""
    arch, profile = attributes.get(_CPU_ARCH), attributes.get(_CPU_PROFILE)
    suffix = f"-{chr(profile)}" if isinstance(profile, int) and 65 <= profile <= 90 else ""
    # Number and letter suffice for the others: all are for larger or older processors.
    name = _ARCH_NAMES.get(arch, "") if isinstance(arch, int) else ""
    if not name:
        name = f"Armv7{suffix}" if arch == _V7 else f"Arm architecture {arch}{suffix}"
    core = attributes.get(_CPU_NAME, "")
    return f"{name} ({core})" if isinstance(core, str) and core.startswith("cortex-") else name


def require_defined(data: bytes, symbol: str | None, cpu: Cpu, label: str) -> None:
    """Raise for an object that ``cpu`` cannot execute, or one that does not define ``symbol``."""
    found = require_fits(data, cpu, label)
    if symbol is not None and symbol not in found.defined | found.weak:
        raise InputError(
            f"{label}: the object does not define {symbol!r}",
            f"it defines {', '.join(sorted(found.defined | found.weak)) or 'nothing'}",
        )
