"""Exceptions of the project; a message gives the fact, the value and the remedy.

Only :func:`hil.cli.main` turns an error into an exit code, by reading ``exit_code``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

#: Characters that stay in messages, as names in models and archives may be of any length: of a
#: quoted text, of a run without spaces, of a line.
_QUOTED, _RUN, _LINE = 200, 400, 2000
#: A text as ``repr`` writes it, in quotes that are no apostrophes, longer than that.
_LITERAL = re.compile(rf"(?<!\w)(['\"])((?:(?!\1)[^\\\n]|\\.){{{_QUOTED + 1},}})\1(?!\w)")
_LONG_RUN = re.compile(rf"\S{{{_RUN + 1},}}")


class HilError(Exception):
    """Root of every error that the project raises on purpose.

    ``fact`` is one sentence with the offending value in it; ``hint`` is the remedy. Overlong names
    in them are shortened.
    """

    exit_code: int = 2
    #: Kind of failure: ``input`` (given by the user), ``build``, ``flash``, ``link`` (connection to
    #: the board), ``device`` (a fault, a hang, the board itself) or ``numeric``.
    kind: ClassVar[str] = "input"

    def __init__(self, fact: str, hint: str = "") -> None:
        fact = shortened(fact)
        super().__init__(fact)
        self.fact = fact
        self.hint = shortened(hint)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the arguments of a copy: those of a subclass's ``__init__`` are not among
        ``args``.
        """
        return _copied, (type(self), self.args), self.__dict__

    def __str__(self) -> str:
        return f"{self.fact}\n\nhint: {self.hint}" if self.hint else self.fact


class LoopBoundError(HilError):
    """A loop of a model would make more turns than its bound, a limit that the user states."""

    exit_code = 1

    @classmethod
    def of(cls, name: str, bound: int) -> LoopBoundError:
        """Return the error of the loop ``name``."""
        return cls(
            f"the loop of {name!r} exceeds its bound of {bound:,} turns",
            "give inputs for which it makes fewer, or state a higher bound: "
            f"--loop-bound {name}=N, in Python loop_bounds={{{name!r}: N}}",
        )


def _copied(kind: type[HilError], args: tuple[Any, ...]) -> HilError:
    return kind.__new__(kind, *args)


class HilWarning(UserWarning):
    """Warning about a result that is available nevertheless."""


class InputError(HilError):
    """Invalid input: an option, a file, an array, a board description."""


class ModelError(InputError):
    """A model cannot be read or is invalid."""


class UnsupportedError(ModelError):
    """A valid model uses something that the compiler does not implement."""


class ElementTypeError(UnsupportedError):
    """An operator has no kernel for a type of elements."""

    def __init__(
        self, fact: str, hint: str = "", dtype: str = "", accepted: Sequence[str] = ()
    ) -> None:
        super().__init__(fact, hint)
        self.dtype = dtype
        self.accepted = tuple(accepted)


def shortened(text: str) -> str:
    """Return a message with the middle of overlong names, and of overlong lines, left out."""
    if len(text) <= _QUOTED:
        return text
    text = _LITERAL.sub(lambda m: f"{m[1]}{middle_out(m[2], _QUOTED)}{m[1]}", text)
    text = _LONG_RUN.sub(lambda match: middle_out(match[0], _RUN), text)
    return "\n".join(middle_out(line, _LINE) for line in text.split("\n"))


def middle_out(text: str, most: int) -> str:
    """Return ``text`` with at most ``most`` characters, of its begin and its end."""
    if len(text) <= most:
        return text
    kept = most - len("...")
    return f"{text[: kept - kept // 2]}...{text[-(kept // 2) :]}"


class LimitError(InputError):
    """No program keeps the limits.

    ``least_flash`` is the estimated flash of the smallest, and ``least_ram`` the smallest workspace
    within the limit of flash, both in bytes; None without a limit of the workspace.
    """

    def __init__(self, fact: str, hint: str, least_flash: int, least_ram: int | None) -> None:
        super().__init__(fact, hint)
        self.least_flash = least_flash
        self.least_ram = least_ram
