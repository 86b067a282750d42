"""How a module is called from outside: the option ``interface``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from hilc.codegen.arguments import Operator
from hilc.codegen.constants import ConstantPool
from hilc.codegen.names import Names
from hilc.codegen.options import Options
from hilc.memory.plan import Program


class Interface(ABC):
    """What a caller links and includes."""

    #: As titles say it.
    name: str
    header_includes: tuple[str, ...]
    entry_includes: tuple[str, ...]
    #: What :meth:`operator_functions` need.
    operator_includes: tuple[str, ...] = ()

    @abstractmethod
    def symbol(self, module: str) -> str:
        """The stem of all global symbols of ``module``."""

    def reserved(self, symbol: str) -> Mapping[str, str]:
        """Global names that it defines besides the entry point, and what they are."""
        return {}

    @abstractmethod
    def declarations(self, program: Program, names: Names, options: Options) -> Iterable[str]:
        """What the header declares."""

    def declared(self, names: Names) -> Sequence[str]:
        """The functions among these declarations."""
        return (names.run,)

    def entry_globals(self, options: Options) -> Iterable[str]:
        """What stands in front of the workspaces and the entry point."""
        return ()

    @abstractmethod
    def entry_point(self, program: Program, names: Names, options: Options) -> Iterable[str]:
        """The entry point and what it is made of. It calls the main in the main's convention."""

    def operator_functions(
        self, constants: ConstantPool, names: Names, options: Options
    ) -> Iterable[str]:
        """Functions that stand beside the operators, where the constants are."""
        return ()

    def sources(
        self, program: Program, names: Names, options: Options, constants: ConstantPool
    ) -> Mapping[int, str]:
        """Further C files of the library, by their number."""
        return {}

    def functions(
        self,
        program: Program,
        names: Names,
        operators: Sequence[Operator],
        options: Options,
    ) -> Iterable[str]:
        """The functions that a run time may find by name, in the order of its table."""
        return ()
