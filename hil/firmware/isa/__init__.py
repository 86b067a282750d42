"""Machine code and faults of a core, by instruction set."""

from __future__ import annotations

from hil.firmware.isa import arm, riscv
from hil.firmware.isa.code import Code, Isa, Unbounded

__all__ = ["ISAS", "Code", "Isa", "Unbounded", "of_machine"]

#: By the name that a toolchain's description has for it (``isa``).
ISAS: dict[str, Isa] = {"arm": arm.ARM, "riscv": riscv.RISCV}


def of_machine(elf_machine: str) -> Isa | None:
    """Return the instruction set of an image, by its machine in ELF; None for one that is not
    known.
    """
    return next((isa for isa in ISAS.values() if isa.elf_machine == elf_machine), None)
