"""Which kernels can compute a layer, with which parameters and at what cost.

Importing a module of a family registers its builders (:mod:`hilc.lowering.registry`); all are
imported by :mod:`hilc.lowering.families`. The names of this package load them, so that they are
registered before builders from outside. Its modules do not: a command that only reads a compiled
library needs no kernels.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hilc.lowering.kernels import KernelCall as KernelCall
    from hilc.lowering.kernels import register_kernels as register_kernels
    from hilc.lowering.registry import Layer as Layer
    from hilc.lowering.registry import Rank as Rank
    from hilc.lowering.registry import candidates as candidates
    from hilc.lowering.registry import lowers as lowers

#: The public names, by their module.
_MODULES = {
    "KernelCall": "kernels",
    "Layer": "registry",
    "Rank": "registry",
    "candidates": "registry",
    "lowers": "registry",
    "register_kernels": "kernels",
}

__all__ = ["KernelCall", "Layer", "Rank", "candidates", "lowers", "register_kernels"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module("hilc.lowering.families")
    return getattr(import_module(f"hilc.lowering.{_MODULES[name]}"), name)
