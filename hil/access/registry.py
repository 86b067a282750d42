"""The registries of runners and flashers; plugins register theirs as this project does."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from hil.access.protocols import Flasher, Need, Runner
from hil.board.settings import allow
from hil.plugins import load_plugins, plugin_error, registered
from hilc.support.registering import check_registered

if TYPE_CHECKING:
    from hil.board import Board

_RUNNERS: dict[str, Runner] = {}
_FLASHERS: dict[str, Flasher] = {}
_RUNNER_METHODS = ("start", "serves", "needs", "check")
_FLASHER_METHODS = ("open", "serves", "needs", "check", "probes", "target")


def register_runner(runner: Runner) -> None:
    """Register ``runner``: board files and ``--runner`` may name it.

    Raise :class:`~hilc.errors.InputError` if another runner has its name, or the name or one of
    its methods is invalid.
    """
    methods = {name: getattr(runner, name, None) for name in _RUNNER_METHODS}
    known = {name: other.start for name, other in _RUNNERS.items()}
    check_registered("runner", getattr(runner, "name", None), methods, known)
    _RUNNERS[runner.name] = runner
    allow("runner", runner.name, runner.settings)


def add_flasher(flasher: Flasher, runner: Runner) -> None:
    """Add ``flasher``, and ``runner``, which starts the boards that it programs.

    Raise :class:`~hilc.errors.InputError` if a runner or another flasher has its name, or the name
    or one of its methods is invalid.
    """
    methods = {name: getattr(flasher, name, None) for name in _FLASHER_METHODS}
    known: dict[str, object] = {name: other.start for name, other in _RUNNERS.items()}
    known |= {name: other.open for name, other in _FLASHERS.items()}
    check_registered("flasher", getattr(flasher, "name", None), methods, known)
    _FLASHERS[flasher.name] = flasher
    _RUNNERS[flasher.name] = runner
    allow("flasher", flasher.name, flasher.settings)


def runner_named(name: str) -> Runner:
    """Return the runner; raise :class:`~hilc.errors.InputError` if the name is unknown."""
    return registered("runner", name, _RUNNERS)


def flasher_named(name: str) -> Flasher:
    """Return the flasher; raise :class:`~hilc.errors.InputError` if the name is unknown."""
    return registered("flasher", name, _FLASHERS)


def flashers() -> Mapping[str, Flasher]:
    """Return all flashers that are registered now, by name, this project's first."""
    return MappingProxyType(_FLASHERS)


def need_of(part: Runner | Flasher, board: Board) -> Need | None:
    """Return what a runner or flasher needs for a board; InputError if it returns something
    else.
    """
    need: object = part.needs(board)
    if need is None or isinstance(need, Need):
        return need
    kind = "flasher" if part.name in _FLASHERS else "runner"
    raise plugin_error(
        part.needs,
        f"the {kind} {part.name!r} returned {need!r}, of type {type(need).__name__}, as what it "
        "needs, not a Need or None",
    )


def runners_for(board: Board) -> tuple[str, ...]:
    """Return the runners that can start ``board``; those of its file come first."""
    load_plugins()
    others = [r.name for r in _RUNNERS.values() if r.name not in board.runners and r.serves(board)]
    return (*board.runners, *others)


def flashers_for(board: Board) -> tuple[str, ...]:
    """Return the flashers that can program ``board``; those of its file come first."""
    load_plugins()
    others = [
        f.name for f in _FLASHERS.values() if f.name not in board.flashers and f.serves(board)
    ]
    return (*board.flashers, *others)
