"""The entries of ``hil lab``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hil.results.answer import entry_of
from hil.results.history import HistoryEntry


@entry_of("lab list")
@dataclass(frozen=True)
class PlaceEntry:
    """A place of the lab."""

    place: str
    #: Name of its board; empty if it has none.
    board: str
    #: Its tags except ``board``.
    tags: Mapping[str, str]
    #: ``HOST/USER`` that has acquired it; empty if nobody has.
    user: str
    reserved: bool
    #: Whether an exporter offers its serial line.
    online: bool


@entry_of("lab watch")
@dataclass(frozen=True)
class WatchedPlaceEntry(PlaceEntry):
    """A place with the state of its board."""

    #: State of the board, such as ``free``, ``running``, ``failed``.
    state: str
    #: Models of its firmware, or the beginning of the firmware's hash.
    firmware: str
    #: Why the board failed; empty if it did not.
    failure: str
    #: The newest result on this place in the history.
    last_result: HistoryEntry | None


@entry_of("lab serve")
@dataclass(frozen=True)
class ServedPlaceEntry:
    """A board that this machine offers, printed when the lab listens."""

    coordinator: str
    place: str
    #: TCP ports of the serial line and of the board server.
    line: int
    control: int


@entry_of("lab reap")
@dataclass(frozen=True)
class ReapEntry:
    """A place that was abandoned and is free again."""

    place: str
