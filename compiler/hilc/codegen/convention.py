"""Calling convention between the functions of a module: the option ``api``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from hilc.codegen.arguments import MainArgument, Operator
from hilc.codegen.calls import Guard
from hilc.codegen.described import Argument
from hilc.codegen.options import Options
from hilc.ir import Tensor


@dataclass(frozen=True)
class External:
    """Call of another code generator's function, inside the function of its layer."""

    symbol: str
    #: Tensors that it reads, then those that it writes, each with its address as a C expression.
    tensors: Sequence[tuple[str, Tensor]]
    input_count: int
    scratch_bytes: int
    has_device: bool
    #: Statements before the call, and guards around it.
    preparation: str
    guards: Sequence[Guard]
    #: Whether it is a static function of the same file, whose inputs are ``const``.
    is_static: bool = False


class Calls(ABC):
    """Writer of functions and calls of one C file; :meth:`definitions` returns their common
    data.
    """

    #: Parameters that a function that calls operators needs in addition to the main's arguments:
    #: name, parameter.
    context: tuple[tuple[str, str], ...] = ()

    @abstractmethod
    def function(self, operator: Operator, body: str, pool: str) -> str:
        """Return the operator's function around ``body``, which uses the operator's parameter
        names.

        ``pool`` is the statement that declares the typed constant pool, with ``%s`` for its
        address.
        """

    @abstractmethod
    def external(self, call: External) -> tuple[str, str]:
        """Return the declaration of the called function, and the statements that call it."""

    @abstractmethod
    def main_head(
        self,
        function: str,
        arguments: Sequence[MainArgument],
        used: AbstractSet[int],
        has_operators: bool,
    ) -> str:
        """Return the beginning of the main: a C variable for each used argument, by index."""

    @abstractmethod
    def layers(self, operators: Sequence[Operator], pointer: Callable[[Argument], str]) -> str:
        """Return statements that call the operators in order; they return -1 on the first
        failure, or the status of an operator that has one.
        """

    def declarations(self, body: str) -> Iterable[str]:
        """Return the declarations that ``body``, the text of the file's functions, needs."""
        return ()

    def headers(self, body: str) -> Iterable[str]:
        """Return the headers that ``body``, the text of the file's functions, needs."""
        return ()

    def definitions(self) -> str:
        """Return the definitions of data that the written functions refer to."""
        return ""


class Convention(ABC):
    """Calling convention between functions of a module."""

    #: Lines at the beginning of an external module's file: its includes.
    external_include: str = ""

    @abstractmethod
    def main_prototype(self, function: str, arguments: Sequence[MainArgument]) -> str:
        """Return the main's declaration, without the semicolon."""

    @abstractmethod
    def external_prototype(
        self,
        symbol: str,
        input_count: int,
        output_count: int,
        *,
        has_scratch: bool,
        has_device: bool,
    ) -> str:
        """Return the declaration of an external module's function, without the semicolon."""

    @abstractmethod
    def external_function(
        self,
        symbol: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        has_scratch: bool,
        body: str,
    ) -> str:
        """Return the definition of an external module's function without a device.

        ``body`` finds the tensors at ``input0``, ..., ``output0``, ..., and ``scratch``.
        """

    @abstractmethod
    def calls(self, options: Options) -> Calls:
        """Return a writer for one file."""
