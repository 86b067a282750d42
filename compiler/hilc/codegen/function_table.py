"""Table by which a runtime finds the functions of an image by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from hilc.plugins import Slot


class FunctionTable(ABC):
    """Format of the function table; an image has one table, whatever its number of models."""

    #: Function that returns the table to the runtime.
    entry_point: str
    #: Headers that the definitions need.
    includes: tuple[str, ...]

    @abstractmethod
    def declarations(self, functions: Sequence[str]) -> str:
        """Return the C declarations of the functions."""

    @abstractmethod
    def definitions(self, functions: Sequence[str], weak: bool) -> str:
        """Return the C definitions of the table and its entry point; the functions are declared
        before.

        A library's own table is weak, so that an image of several models can link a strong one.
        """

    @abstractmethod
    def source(self, functions: Sequence[str], weak: bool) -> str:
        """Return a C file with the table and its entry point."""

    @abstractmethod
    def llvm_module(self, functions: Sequence[str], name: str) -> str:
        """Return the table as an LLVM module called ``name``, with weak symbols."""


_SLOT: Slot[FunctionTable] = Slot()
provide_function_table = _SLOT.fill


def function_table() -> FunctionTable:
    """Return the installed function table format; raise InputError if there is none."""
    return _SLOT.get("a table of functions by name", "or compile with interface=c")
