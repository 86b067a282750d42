"""Interface of a module for its callers: the option ``interface``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from hilc.codegen.arguments import Operator
from hilc.codegen.constants import ConstantPool
from hilc.codegen.names import Names
from hilc.codegen.options import Options
from hilc.memory.plan import Program


class Interface(ABC):
    """Interface that a caller links and includes."""

    #: Its name in titles.
    name: str
    header_includes: tuple[str, ...]
    entry_includes: tuple[str, ...]
    #: Headers that :meth:`operator_functions` need.
    operator_includes: tuple[str, ...] = ()

    @abstractmethod
    def symbol(self, module: str) -> str:
        """Return the stem of all global symbols of ``module``."""

    def reserved(self, symbol: str) -> Mapping[str, str]:
        """Return global names that it defines besides the entry point, and their meanings."""
        return {}

    @abstractmethod
    def declarations(self, program: Program, names: Names, options: Options) -> Iterable[str]:
        """Return the declarations for the header."""

    def declared(self, names: Names) -> Sequence[str]:
        """Return the names of the functions among these declarations."""
        return (names.run,)

    def entry_globals(self, options: Options) -> Iterable[str]:
        """Return the text before the workspaces and the entry point."""
        return ()

    @abstractmethod
    def entry_point(self, program: Program, names: Names, options: Options) -> Iterable[str]:
        """Return the entry point and its helpers; it calls the main in the main's convention."""

    def operator_functions(
        self, constants: ConstantPool, names: Names, options: Options
    ) -> Iterable[str]:
        """Return functions in the operators' file, where the constants are."""
        return ()

    def sources(
        self, program: Program, names: Names, options: Options, constants: ConstantPool
    ) -> Mapping[int, str]:
        """Return further C files of the library, by number."""
        return {}

    def functions(
        self,
        program: Program,
        names: Names,
        operators: Sequence[Operator],
        options: Options,
    ) -> Iterable[str]:
        """Return the functions that a runtime may find by name, in the order of the table."""
        return ()
