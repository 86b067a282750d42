"""``hil history``: list recorded results."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hil.cli.console import Console, table
from hil.errors import InputError
from hil.history import Entry, History, history_path
from hil.verify.provenance import commit_named

_COMMIT_DIGITS = 10


def history_command(args: argparse.Namespace, console: Console) -> int:
    """List the entries of the history."""
    history = chosen_history(args)
    commit = None
    if args.commit is not None:
        commit = commit_named(args.commit, Path.cwd()) or args.commit
    entries = history.entries(
        kind=args.kind, model=args.of_model, board=args.of_board, commit=commit, last=args.last
    )
    console.result([entry.entry() for entry in entries], _history_text(entries))
    return 0


#: Counts are compared if these are equal: model, board, goal and unit.
_Kind = tuple[str, str, "str | None", str]


def chosen_history(args: argparse.Namespace) -> History:
    """Return the history to read; raise if none is chosen."""
    path = history_path(args.history)
    if path is None:
        raise InputError(
            "no history is chosen", "give --history FILE, or set HIL_HISTORY to a file"
        )
    return History(path)


def _history_text(entries: Sequence[Entry]) -> str:
    if not entries:
        return "no entries"
    before: dict[_Kind, int] = {}
    rows = []
    for entry in entries:
        commit = (entry.commit or "-")[:_COMMIT_DIGITS] + ("+" if entry.is_dirty else "")
        when = entry.time.astimezone().strftime("%Y-%m-%d %H:%M")
        found = result_text(entry) + _change_text(entry, before) + _outputs_text(entry)
        rows.append(
            [str(entry.id), when, commit, entry.kind, entry.model, entry.board]
            + [entry.goal or "-", found]
        )
    return table(rows, ["id", "time", "commit", "command", "model", "board", "goal", "result"])


def _change_text(entry: Entry, before: dict[_Kind, int]) -> str:
    """Return the change of a measurement since the one ``before`` of its model, board and goal."""
    count, counter = entry.result.get("per_inference"), str(entry.result.get("counter"))
    if entry.kind != "bench" or not isinstance(count, int):
        return ""
    of = (entry.model, entry.board, entry.goal, counter)
    last = before.get(of)
    before[of] = count
    if not last:
        return ""
    return " (unchanged)" if count == last else f" ({100 * (count / last - 1):+.2f} %)"


def result_text(entry: Entry) -> str:
    """Return an entry's result in a few words."""
    result: Mapping[str, Any] = entry.result
    if entry.kind == "verify":
        verdict = "match" if result.get("match") else "DIFFER"
        own = " (not independent)" if result.get("independent") is False else ""
        return f"{verdict} with {result.get('reference')}{own}, {result.get('samples')} samples"
    if entry.kind == "evaluate":
        return _evaluated_text(result)
    count = result.get("per_inference")
    if not isinstance(count, int):
        return "-"
    return f"{count:,} {result.get('counter')}"


def _outputs_text(entry: Entry) -> str:
    """Return that the outputs of a measured firmware are wrong or unknown; empty if right."""
    if entry.kind != "bench":
        return ""
    checked = entry.result.get("checked")
    if not isinstance(checked, Mapping):
        return ", outputs not compared"
    return "" if checked.get("match") is True else ", outputs DIFFER"


def _evaluated_text(result: Mapping[str, Any]) -> str:
    """Return the metrics of an evaluation."""
    try:
        metrics = [f"{m['name']} {m['device']['value']:.4f}" for m in result["metrics"]]
        return f"{', '.join(metrics)} over {result['samples']:,} samples"
    except (LookupError, TypeError, ValueError):
        return "-"
