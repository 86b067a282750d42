"""The parameters of the shipped kernels: a frozen dataclass for the struct of each.

The classes are made from the structs in the C headers when they are first imported
(:func:`hilc.lowering.parameter_classes.parameter_class`). Type checkers read ``parameters.pyi``,
which is not in the repository: installing the package and ``make setup`` write it, and
``python compiler/build_hook.py`` does after a struct has changed.
"""

from typing import TYPE_CHECKING

if not TYPE_CHECKING:
    from hilc.lowering.parameter_classes import parameter_class as __getattr__  # noqa: F401
