"""The core that an image was built for, by the attributes that its compiler wrote into it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from elftools.elf.elffile import ELFFile

from hilc.target import Cpu

#: Values of Tag_CPU_arch (Addenda to the Arm ABI) that microcontrollers have.
_ARM: Final[Mapping[int, str]] = {
    10: "armv7-m",
    11: "armv6-m",
    12: "armv6-m",
    13: "armv7e-m",
    16: "armv8-m.base",
    17: "armv8-m.main",
    21: "armv8.1-m.main",
}
#: By architecture: those whose instructions it has, besides its own.
_CONTAINS: Final[Mapping[str, tuple[str, ...]]] = {
    "armv6-m": (),
    "armv7-m": ("armv6-m",),
    "armv7e-m": ("armv7-m",),
    "armv8-m.base": ("armv6-m",),
    "armv8-m.main": ("armv7-m", "armv8-m.base"),
    "armv8.1-m.main": ("armv8-m.main",),
}
_PROFILE_A_OR_R: Final = (ord("A"), ord("R"))
#: Extensions of RISC-V without which an image that has them fails. Not `a`: its instructions are
#: emulated on some chips, and compilers state it also where none is used.
_RISCV_NEEDED: Final = "efdv"
_RISCV_ARCH: Final = re.compile(r"rv(?P<width>32|64)(?P<letters>[a-z0-9_]*)")


def unfit_core(elf: ELFFile, cpu: Cpu) -> str | None:
    """Return the core that an image needs, if ``cpu`` cannot run its instructions; None for an
    image that it can run, and for one without attributes.
    """
    attributes = _attributes(elf)
    if cpu.isa == "arm":
        return _unfit_arm(attributes, cpu)
    if cpu.isa == "riscv":
        return _unfit_riscv(str(attributes.get("TAG_ARCH", "")), cpu)
    return None


def _attributes(elf: ELFFile) -> dict[str, Any]:
    sections: Iterable[Any] = elf.iter_sections()
    return {
        attribute.tag: attribute.value
        for section in sections
        if section.name in (".ARM.attributes", ".riscv.attributes")
        for vendor in section.iter_subsections()
        for scope in vendor.iter_subsubsections()
        for attribute in scope.iter_attributes()
    }


def _unfit_arm(attributes: Mapping[str, Any], cpu: Cpu) -> str | None:
    if attributes.get("TAG_CPU_ARCH_PROFILE") in _PROFILE_A_OR_R:
        return "an Arm core of another profile (A or R)"
    arch = _ARM.get(attributes.get("TAG_CPU_ARCH", -1))
    if arch is None:
        return None
    extensions = [
        word
        for tag, feature, word in (("TAG_MVE_ARCH", "mve", "MVE"), ("TAG_FP_ARCH", "fpu", "an FPU"))
        if attributes.get(tag) and feature not in cpu.features
    ]
    has_dsp = arch == "armv7e-m" and "dsp" in cpu.features
    if not extensions and (has_dsp or arch in _contained(cpu.arch)):
        return None
    return " with ".join([_title(arch), *[" and ".join(extensions)] * bool(extensions)])


def _contained(arch: str) -> Iterator[str]:
    """Yield the architectures whose instructions an architecture has."""
    yield arch
    for part in _CONTAINS.get(arch, ()):
        yield from _contained(part)


def _title(arch: str) -> str:
    version, _, profile = arch.removeprefix("armv").partition("-m")
    return "Armv{}-M{}".format(version.upper(), profile)  # noqa: UP032 - as SECURITY.md's test reads


def _unfit_riscv(arch: str, cpu: Cpu) -> str | None:
    has = _letters(arch)
    if has is None:
        return None
    missing = set(has) & set(_RISCV_NEEDED) - set(_letters(cpu.arch) or "")
    if missing - ({"v"} if "zve32x" in cpu.features else set()):
        return f"RV32{has.upper()}"
    return None


def _letters(arch: str) -> str | None:
    """Return the extensions of one letter of an architecture such as ``rv32i2p1_m2p0_c2p0``."""
    match = _RISCV_ARCH.match(arch)
    if match is None:
        return None
    letters = ""
    for part in match["letters"].split("_"):
        bare = re.sub(r"[0-9]+(p[0-9]+)?", "", part)
        if not letters or len(bare) == 1:
            letters += bare
    return letters
