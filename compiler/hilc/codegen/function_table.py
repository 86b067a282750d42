"""The table by which a run time finds the functions of an image by their names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from hilc.plugins import Slot


class FunctionTable(ABC):
    """How the table is written. There is one in an image, whatever number of models it has."""

    #: The function through which the run time asks for it.
    entry_point: str
    #: What the definitions need.
    includes: tuple[str, ...]

    @abstractmethod
    def declarations(self, functions: Sequence[str]) -> str:
        """C that declares the functions."""

    @abstractmethod
    def definitions(self, functions: Sequence[str], weak: bool) -> str:
        """C that defines the table and its entry point; the functions are declared already.

        A library's own is weak, so that an image of several models can link a strong one.
        """

    @abstractmethod
    def source(self, functions: Sequence[str], weak: bool) -> str:
        """A C file with the table and its entry point."""

    @abstractmethod
    def llvm_module(self, functions: Sequence[str], name: str) -> str:
        """The same as the LLVM module called ``name``, weak."""


_SLOT: Slot[FunctionTable] = Slot()
provide_function_table = _SLOT.fill


def function_table() -> FunctionTable:
    """The one that there is; InputError where no part of the installation has one."""
    return _SLOT.get("a table of functions by name", "or compile with interface=c")
