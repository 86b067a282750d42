"""Exceptions of the project; a message gives the fact, the value and the remedy.

Only :func:`hil.cli.main` turns an error into an exit code, by reading ``exit_code``.
"""

from __future__ import annotations

from typing import Any, ClassVar


class HilError(Exception):
    """Root of every error that the project raises on purpose.

    ``fact`` is one sentence with the offending value in it; ``hint`` is the remedy.
    """

    exit_code: ClassVar[int] = 2
    #: What failed: ``input`` (given by the user), ``build``, ``flash``, ``link`` (connection to the
    #: board), ``device`` (a fault, a hang, the board itself) or ``numeric``.
    kind: ClassVar[str] = "input"

    def __init__(self, fact: str, hint: str = "") -> None:
        super().__init__(fact)
        self.fact = fact
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how a copy is made: what a subclass's ``__init__`` takes is not among ``args``."""
        return _copied, (type(self), self.args), self.__dict__

    def __str__(self) -> str:
        return f"{self.fact}\n\nhint: {self.hint}" if self.hint else self.fact


def _copied(kind: type[HilError], args: tuple[Any, ...]) -> HilError:
    return kind.__new__(kind, *args)


class InputError(HilError):
    """Invalid input: an option, a file, an array, a board description."""


class ModelError(InputError):
    """A model cannot be read or is invalid."""


class UnsupportedError(ModelError):
    """A valid model uses something that the compiler does not implement."""
