"""``hil lab``: list places, offer boards of this machine, release abandoned places."""

from __future__ import annotations

import argparse
import contextlib
import time

from hil.cli.console import Console, table
from hil.errors import InputError
from hil.lab.overview import PlaceState, overview
from hil.lab.place import Keeper
from hil.lab.selector import Selector, parse_selector
from hil.results.lab import PlaceEntry, ReapEntry, ServedPlaceEntry

_LOOK_S = 1.0


def list_command(args: argparse.Namespace, console: Console) -> int:
    """List the boards of the lab and their users."""
    wanted = chosen_places(args)
    with contextlib.closing(Keeper()) as keeper:
        places = overview(keeper, wanted, ask_boards=False)
    entries = [place_entry(place) for place in places]
    rows = [
        (
            place.place,
            place.board or "-",
            " ".join(f"{key}={value}" for key, value in sorted(place.tags.items())),
            f"used by {place.user}" if place.user else place.state,
        )
        for place in places
    ]
    text = table(rows, ("place", "board", "tags", "state")) if rows else "no places"
    console.result(entries, text)
    return 0


def chosen_places(args: argparse.Namespace) -> Selector | None:
    """Return the selector of the places to show; None for all."""
    wanted = parse_selector(args.filter) if args.filter else None
    if args.filter and wanted is None:
        raise InputError(f"{args.filter!r} is not a lab selector", "write TAG=VALUE or lab:PLACE")
    return wanted


def place_entry(place: PlaceState) -> PlaceEntry:
    """Return the entry of ``hil lab list`` for a place."""
    return PlaceEntry(
        place=place.place,
        board=place.board,
        tags=place.tags,
        user=place.user,
        reserved=place.reserved,
        online=place.online,
    )


def serve_command(args: argparse.Namespace, console: Console) -> int:
    """Offer boards of this machine as places of a lab until interrupted."""
    # Not at the top: the import loads the runners.
    from hil.lab.serve import served

    with served(args.boards, coordinator=args.coordinator, host=args.host) as lab:
        entries = [
            ServedPlaceEntry(lab.address, place, server.line_port, server.control_port)
            for place, server in lab.boards.items()
        ]
        lines = [f"LG_COORDINATOR={lab.address}", *(f"place {place}" for place in lab.boards)]
        console.result(entries, "\n".join(lines))
        deadline = None if args.seconds is None else time.monotonic() + args.seconds
        while deadline is None or time.monotonic() < deadline:
            lab.alive()
            time.sleep(_LOOK_S)
    return 0


def reap_command(args: argparse.Namespace, console: Console) -> int:
    """Release places of ended users; watch for one lease time unless ``--seconds`` is given."""
    # Not at the top: the coordinator module loads gRPC.
    from hil.lab.coordinator import LEASE_S

    freed: list[str] = []
    deadline = time.monotonic() + (args.seconds or LEASE_S + 3 * _LOOK_S)
    with contextlib.closing(Keeper()) as keeper:
        while time.monotonic() < deadline:
            for place in keeper.ask("reap")["freed"]:
                console.log(f"{place} was abandoned and is free again")
                freed.append(place)
            time.sleep(_LOOK_S)
    text = "\n".join(freed) if freed else "no place was abandoned"
    console.result([ReapEntry(place) for place in freed], text)
    return 0
