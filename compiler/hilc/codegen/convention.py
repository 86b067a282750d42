"""How the functions of a module call each other: the option ``api``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from hilc.codegen.arguments import Argument, MainArgument, Operator
from hilc.codegen.calls import Guard
from hilc.codegen.options import Options
from hilc.ir import Tensor


@dataclass(frozen=True)
class External:
    """The call of another code generator's function, in the function of its layer."""

    symbol: str
    #: Tensors that it reads, then those that it writes, each with its address as a C expression.
    tensors: Sequence[tuple[str, Tensor]]
    input_count: int
    scratch_bytes: int
    has_device: bool
    #: Statements in front of the call, and what has to be opened around it.
    preparation: str
    guards: Sequence[Guard]


class Calls(ABC):
    """Writes functions and calls of one C file. What they share stands in :meth:`definitions`."""

    #: What a function that calls operators needs besides the main's arguments: name, parameter.
    context: tuple[tuple[str, str], ...] = ()

    @abstractmethod
    def function(self, operator: Operator, body: str, pool: str) -> str:
        """The operator's function around ``body``, which names the operator's parameters.

        ``pool`` is the statement that gives the constant pool its type, with ``%s`` for where it
        lies.
        """

    @abstractmethod
    def external(self, call: External) -> tuple[str, str]:
        """What declares the function that is called, and the statements that call it."""

    @abstractmethod
    def main_head(
        self,
        function: str,
        arguments: Sequence[MainArgument],
        used: AbstractSet[int],
        has_operators: bool,
    ) -> str:
        """The beginning of the main: a C variable for each argument, by index, that is used."""

    @abstractmethod
    def layers(self, operators: Sequence[Operator], pointer: Callable[[Argument], str]) -> str:
        """Statements that call the operators in order; -1 as soon as one fails."""

    def declarations(self, body: str) -> Iterable[str]:
        """What the file declares where the text of its functions, ``body``, needs it."""
        return ()

    def headers(self, body: str) -> Iterable[str]:
        """What the file includes where the text of its functions, ``body``, needs it."""
        return ()

    def definitions(self) -> str:
        """The data that what was written before refers to."""
        return ""


class Convention(ABC):
    """A calling convention."""

    #: What the file of an external module includes, as its own lines.
    external_include: str = ""

    @abstractmethod
    def main_prototype(self, function: str, arguments: Sequence[MainArgument]) -> str:
        """The main's declaration, without the semicolon."""

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
        """The declaration of an external module's function, without the semicolon."""

    @abstractmethod
    def calls(self, options: Options) -> Calls:
        """The writer of one file."""
