"""The envelope of every JSON answer, entries of combinations without a result, and the registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hil.errors import Attempt, HilError
from hil.results.codec import encode, omitted

#: Version of the envelope and of all entries.
SCHEMA = 1

_T = TypeVar("_T")


@dataclass(frozen=True)
class ErrorInfo:
    """An error that ended a command, or one combination of it."""

    message: str
    #: The remedy; empty if none is known.
    hint: str = ""
    #: Kind of the error, such as ``input``, ``build``, ``device``, ``link``, ``interrupted``.
    class_: str = ""
    #: Exit code of a command that ends with this error.
    exit_code: int = 0
    #: Steps of recovery that failed before an error of a board.
    recoveries: tuple[Attempt, ...] | None = omitted()

    @staticmethod
    def of(error: HilError) -> ErrorInfo:
        """Return an error as the JSON has it."""
        recoveries = getattr(error, "recoveries", None)
        found = None if recoveries is None else tuple(recoveries)
        return ErrorInfo(error.fact, error.hint, error.kind, error.exit_code, found)


@dataclass(frozen=True)
class FailedEntry:
    """A combination of model, board and goal that failed: the error in place of its figures."""

    #: Name of the model, or of its file where the model was not read.
    model: str
    board: str
    #: Goal of the compiler (``--optimize``); None for a library that does not record its goal.
    goal: str | None
    error: ErrorInfo
    #: Earlier runs of the combination, and steps that recovered the board, successful or not.
    recoveries: tuple[Attempt, ...] = ()


@dataclass(frozen=True)
class SkippedEntry:
    """A combination that was not run (``--skip-too-large``)."""

    #: Name of the model, or of its file where the model was not read.
    model: str
    board: str
    #: Goal of the compiler (``--optimize``); None for a library that does not record its goal.
    goal: str | None
    #: Why it was skipped.
    skipped: str


@dataclass(frozen=True)
class Answer:
    """Everything that one command answers."""

    #: Words of the command without ``hil``: ``verify``, ``lab list``; empty if none was named.
    command: str
    exit_code: int
    #: Dataclasses of the command (:data:`ENTRIES`), or their JSON.
    results: Sequence[Any] = ()
    #: Error that ended the command outside of a single combination; None if there was none.
    error: ErrorInfo | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        data = {
            "schema": SCHEMA,
            "command": self.command,
            "exit_code": self.exit_code,
            "results": [encode(entry) for entry in self.results],
        }
        return data if self.error is None else {**data, "error": encode(self.error)}

    @staticmethod
    def of(entry: Any) -> Answer:
        """Return the answer of a command that found ``entry`` alone."""
        command = next(name for name, kind in ENTRIES.items() if kind is type(entry))
        return Answer(command_of(command), 0 if getattr(entry, "is_good", True) else 1, [entry])


def command_of(name: str) -> str:
    """Return the command of a name in :data:`ENTRIES`: ``explain`` of ``explain --frontier``."""
    return name.partition(" --")[0]


#: The class of the entries of each command, and whether its combinations can fail one by one. An
#: option that selects other entries is a part of the name.
ENTRIES: dict[str, type] = {}
COMBINED: set[str] = set()


def entry_of(*commands: str, combined: bool = False) -> Callable[[type[_T]], type[_T]]:
    """Return a decorator that makes a dataclass the entry of ``commands``.

    ``combined`` says that an entry may be a :class:`FailedEntry` or :class:`SkippedEntry` instead.
    """

    def register(kind: type[_T]) -> type[_T]:
        for command in commands:
            assert command not in ENTRIES, f"{command} has an entry"
            ENTRIES[command] = kind
            if combined:
                COMBINED.add(command)
        return kind

    return register
