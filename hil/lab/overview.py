"""What a lab's places do now: the coordinator's view, and each board server's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from hil.lab.place import DIRECT, Keeper
from hil.lab.selector import Selector

#: A board server of the lab answers within milliseconds; one that is gone may never do.
_STATUS_LIMIT_S = 1.5
_MOST_AT_ONCE = 16
_MOST_BYTES = 1 << 16


@dataclass(frozen=True)
class PlaceState:
    """A place of the lab, and what its board server says."""

    place: str
    board: str
    #: Its tags but ``board``.
    tags: dict[str, str]
    #: ``HOST/USER`` that has acquired it; empty if nobody has.
    user: str
    reserved: bool
    #: Whether an exporter offers its serial line.
    online: bool
    #: The answer of the board server; None where it was not asked, or gave none.
    status: dict[str, Any] | None = None

    @property
    def state(self) -> str:
        """Return the state of the board in one or two words."""
        status = self.status or {}
        if not self.online:
            return "offline"
        if status.get("failure"):
            return "failed"
        if status.get("powered") is False:
            return "switched off"
        if self.user:
            return "running" if status.get("in_use") else "in use"
        return "reserved" if self.reserved else "free"

    @property
    def firmware_sha256(self) -> str:
        """SHA-256 of the ELF file that the board has; empty where it is not known."""
        return str((self.status or {}).get("firmware") or "")


def overview(
    keeper: Keeper, wanted: Selector | None = None, *, ask_boards: bool = True
) -> list[PlaceState]:
    """Return the places that match, by name; with ``ask_boards`` what their servers say, too."""
    places: list[dict[str, Any]] = [
        place
        for place in keeper.ask("list")["places"]
        if wanted is None or wanted.fits(place["name"], place["tags"])
    ]
    with ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="hil-lab-status") as asking:
        answers: Sequence[dict[str, Any] | None] = (
            list(asking.map(_status, places)) if ask_boards else [None] * len(places)
        )
    return [
        PlaceState(
            place["name"],
            place["tags"].get("board", ""),
            {key: value for key, value in place["tags"].items() if key != "board"},
            place["acquired"],
            bool(place["reservation"]),
            "NetworkSerialPort" in place["resources"],
            status,
        )
        for place, status in zip(places, answers, strict=True)
    ]


def _status(place: dict[str, Any]) -> dict[str, Any] | None:
    """Return the answer of a place's board server, which is not trusted."""
    control = place["resources"].get("NetworkService")
    if control is None:
        return None
    url = f"http://{control.get('address')}:{control.get('port')}/status"
    try:
        with DIRECT.open(url, timeout=_STATUS_LIMIT_S) as answer:
            status = json.loads(answer.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError, HTTPException):
        return None
    return status if isinstance(status, dict) else None
