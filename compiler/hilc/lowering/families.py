"""Every family of kernels: importing this module registers the builders of all of them.

Builders of one rank are asked in the order in which they are registered: those for cores with
certain features in the order of the imports, then those of :mod:`hilc.lowering.generic` by the
names of its modules. It takes longer to import than all else of the compiler, so it is imported
when the first layer is lowered, or a builder from outside is registered.
"""

from importlib import import_module
from pkgutil import iter_modules

from hilc.lowering import compact, dsp, fpu, generic, mve, resized, riscv, rvv, v6m, v7m, xpulp

__all__ = [
    "compact",
    "dsp",
    "fpu",
    "generic",
    "mve",
    "resized",
    "riscv",
    "rvv",
    "v6m",
    "v7m",
    "xpulp",
]

for _module in iter_modules(generic.__path__, f"{generic.__name__}."):
    import_module(_module.name)
