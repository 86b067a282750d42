"""``hil lab watch``: the places of a lab on a terminal, renewed until Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from hil.cli.actions.history import result_text
from hil.cli.actions.lab import chosen_places, place_entry
from hil.cli.console import Console, table
from hil.errors import HilError
from hil.history import Entry, History, history_path
from hil.lab.overview import PlaceState, overview
from hil.lab.place import Keeper, coordinator_address
from hil.lab.selector import Selector
from hil.results.lab import WatchedPlaceEntry
from hil.support.escape import escaped
from hilc.support import optional

_HEADER = ("place", "board", "state", "user", "firmware", "last result")
_COLOURS = {
    "free": "green",
    "running": "cyan",
    "in use": "cyan",
    "reserved": "yellow",
    "offline": "dim",
    "switched off": "dim",
    "failed": "bold red",
}
_DIGITS = 10
#: Entries of the history that are looked through for the places.
_MOST_ENTRIES = 500
#: Interval for noticing Ctrl-C and a new size of the terminal.
_STEP_S = 0.2


@dataclass(frozen=True)
class _Row:
    """A place with what the history knows of it."""

    place: PlaceState
    #: Models of its firmware, or the beginning of the firmware's hash.
    firmware: str
    #: The newest result on this place.
    last: Entry | None

    def cells(self) -> tuple[str, ...]:
        """Return the texts of the columns, without control characters: boards are not trusted."""
        place = self.place
        texts = (place.place, place.board, place.state, place.user, self.firmware)
        return tuple(
            escaped(text, colours=False) or "-" for text in (*texts, _result_text(self.last))
        )

    def entry(self) -> WatchedPlaceEntry:
        """Return the entry of ``hil lab watch``."""
        return WatchedPlaceEntry(
            **vars(place_entry(self.place)),
            state=self.place.state,
            firmware=self.firmware,
            failure=(self.place.status or {}).get("failure") or "",
            last_result=self.last.entry() if self.last else None,
        )


def watch_command(args: argparse.Namespace, console: Console) -> int:
    """Show the lab's places: once, or live on a terminal."""
    wanted = chosen_places(args)
    path = history_path(args.history)
    history = History(path) if path is not None and path.exists() else None
    if args.once or console.as_json or not sys.stdout.isatty():
        with contextlib.closing(Keeper()) as keeper:
            rows = _rows(keeper, wanted, history)
        text = table([row.cells() for row in rows], _HEADER) if rows else "no places"
        console.result([row.entry() for row in rows], text)
        return 0
    optional.check_installed("rich", "the live view", ", or add --once")
    with contextlib.suppress(KeyboardInterrupt):
        _watch(wanted, history, args.interval)
    return 0


def _watch(wanted: Selector | None, history: History | None, interval_s: float) -> None:
    """Show the places until interrupted; a coordinator that is gone is looked for again."""
    from rich.live import Live

    rows: Sequence[_Row] = ()
    with Live(_screen(rows, ""), screen=True, auto_refresh=False) as live:
        while True:
            try:
                with contextlib.closing(Keeper()) as keeper:
                    while True:
                        rows = _rows(keeper, wanted, history)
                        _show(live, rows, "", interval_s)
            except HilError as error:
                _show(live, rows, error.fact, interval_s)


def _show(live: Any, rows: Sequence[_Row], note: str, seconds: float) -> None:
    """Show the rows for some time, also where the terminal changes its size."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        live.update(_screen(rows, note), refresh=True)
        time.sleep(min(_STEP_S, left))


def _screen(rows: Sequence[_Row], note: str) -> Any:
    """Return what is shown: a table as wide as the terminal, and a line about it."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    shown = Table(expand=True, header_style="bold")
    for name in _HEADER:
        shown.add_column(name, overflow="ellipsis", no_wrap=name != "last result")
    for row in rows:
        cells = [Text(cell) for cell in row.cells()]
        cells[2].stylize(_COLOURS.get(row.place.state, ""))
        shown.add_row(*cells)
    free = sum(row.place.state == "free" for row in rows)
    now = datetime.now().strftime("%H:%M:%S")
    line = f"{coordinator_address()}  {len(rows)} places, {free} free  {now}  Ctrl-C ends"
    problem = [Text(escaped(note, colours=False), style="bold red")] if note else []
    return Group(Text(line, style="dim"), *problem, shown)


def _rows(keeper: Keeper, wanted: Selector | None, history: History | None) -> list[_Row]:
    entries = history.entries(last=_MOST_ENTRIES) if history is not None else []
    newest: dict[str, Entry] = {}
    models: dict[str, dict[str, None]] = {}
    for entry in entries:
        about = entry.result.get("provenance") or {}
        newest[str(about.get("runner", ""))] = entry
        image = (about.get("image") or {}).get("sha256")
        models.setdefault(str(image), {})[entry.model] = None
    return [
        _Row(
            place,
            ", ".join(models.get(place.firmware_sha256, ())) or place.firmware_sha256[:_DIGITS],
            newest.get(f"lab:{place.place}"),
        )
        for place in overview(keeper, wanted)
    ]


def _result_text(entry: Entry | None) -> str:
    """Return the newest result in a few words."""
    if entry is None:
        return ""
    minutes = int((datetime.now(timezone.utc) - entry.time).total_seconds() // 60)
    age = f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
    return f"{entry.kind} {entry.model}: {result_text(entry)}, {age} ago"
