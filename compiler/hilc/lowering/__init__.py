"""Which kernels can compute a layer, with which parameters and at what cost.

Importing a module of a family registers its builders (:mod:`hilc.lowering.registry`). Builders of
one rank are asked in the order in which they are registered: those for cores with certain features
in the order of the imports, then those of :mod:`hilc.lowering.generic` by the names of its modules.
"""

from importlib import import_module
from pkgutil import iter_modules

from hilc.lowering import compact, dsp, fpu, generic, mve, resized, riscv, rvv, v6m, v7m, xpulp
from hilc.lowering.kernels import KernelCall, register_kernels
from hilc.lowering.registry import Layer, Rank, candidates, lowers

__all__ = [
    "KernelCall",
    "Layer",
    "Rank",
    "candidates",
    "compact",
    "dsp",
    "fpu",
    "lowers",
    "mve",
    "register_kernels",
    "resized",
    "riscv",
    "rvv",
    "v6m",
    "v7m",
    "xpulp",
]

for _module in iter_modules(generic.__path__, f"{generic.__name__}."):
    import_module(_module.name)
