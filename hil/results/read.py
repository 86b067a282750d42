"""Stored results: files of ``--json`` and ``hil report --results``, entries of a history.

They are untrusted input, and may be of version 0.1 (:mod:`hil.results.v0`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

# Their entries are the ones that are read.
import hil.results.bench
import hil.results.build
import hil.results.evaluate
import hil.results.history
import hil.results.plan
import hil.results.report
import hil.results.verify
from hil.results.answer import (
    COMBINED,
    ENTRIES,
    SCHEMA,
    Answer,
    ErrorInfo,
    FailedEntry,
    SkippedEntry,
)
from hil.results.codec import decode
from hil.results.v0 import upgraded
from hilc.errors import InputError
from hilc.support.jsondata import has_surrogate

#: The commands whose entries are read again.
READ_COMMANDS = ("verify", "bench", "build", "evaluate", "explain", "report", "history")
#: Limits of nesting and of numbers in a file.
_MAX_NESTING, _LARGEST = 40, 1 << 63


@dataclass(frozen=True)
class _Head:
    exit_code: int
    results: tuple[Any, ...]
    error: ErrorInfo | None = None


def read_answers(data: Any, label: str, hint: str) -> list[Answer]:
    """Return the answers in a JSON value: one, or those that a file of version 0.1 holds.

    ``label`` names the value in messages, ``hint`` is the remedy for one that is no result. Raise
    :class:`~hilc.errors.InputError` for other JSON, another schema, and figures that no result has.
    """
    _check_values(data, label, hint)
    if not isinstance(data, Mapping):
        raise InputError(f"{label} is of type {type(data).__name__}, not an object", hint)
    if "schema" in data:
        return [_read_answer(data, label, hint)]
    found = [
        _checked(Answer(command, code, [read_entry(command, one, where, hint)]), where, hint)
        for command, one, code, where in upgraded(data, label, hint)
    ]
    code = data.get("exit_code", 0)
    _checked(Answer("", code, [entry for answer in found for entry in answer.results]), label, hint)
    return found


def read_entry(command: str, data: Any, label: str, hint: str = "") -> Any:
    """Return an entry of a command from its JSON, as this version writes it.

    The keys ``error`` and ``skipped`` mark combinations that have no figures.
    """
    kind = ENTRIES[command]
    if command in COMBINED and isinstance(data, Mapping) and data.keys() & {"error", "skipped"}:
        how, other = ("failed", FailedEntry) if "error" in data else ("was skipped", SkippedEntry)
        if data.keys() & _figures(kind):
            raise InputError(f"{label} {how}, and has a result", hint)
        kind = other
    return decode(kind, data, label, hint)


def _figures(kind: Any) -> set[str]:
    """Return the keys of an entry that one without figures does not have."""
    return {one.name for one in fields(kind)} - {one.name for one in fields(FailedEntry)}


def _read_answer(data: Mapping[str, Any], label: str, hint: str) -> Answer:
    version, command = data["schema"], data.get("command")
    if version != SCHEMA:
        raise InputError(
            f"{label} has schema {version!r:.40}; this version of hil reads schema {SCHEMA}",
            "read it with the version of hil that wrote it",
        )
    if command not in READ_COMMANDS:
        raise InputError(
            f"{label} is of the command {command!r:.40}, not of {', '.join(READ_COMMANDS)}", hint
        )
    head = decode(_Head, data, label, hint)
    results = [
        read_entry(str(command), one, f"{label}, result {index}", hint)
        for index, one in enumerate(head.results)
    ]
    return _checked(Answer(str(command), head.exit_code, results, head.error), label, hint)


def _checked(answer: Answer, label: str, hint: str) -> Answer:
    """Return the answer; raise if its exit code contradicts its entries."""
    is_good = answer.results and all(map(_is_good, answer.results))
    if answer.exit_code and is_good and answer.error is None:
        raise InputError(
            f"{label}: exit_code is {answer.exit_code}, and the result says otherwise", hint
        )
    return answer


def _is_good(entry: Any) -> bool:
    if isinstance(entry, FailedEntry | SkippedEntry):
        return False
    if isinstance(entry, hil.results.report.ReportEntry):
        parts = (entry.verify, entry.bench, entry.evaluate)
        return entry.error is None and all(part.is_good for part in parts if part is not None)
    return bool(getattr(entry, "is_good", False))


def _check_values(data: Any, label: str, hint: str) -> None:
    """Raise for numbers and nesting that nothing here could follow."""
    pending: list[tuple[Any, int]] = [(data, 0)]
    while pending:
        value, depth = pending.pop()
        children: Sequence[Any] = ()
        if isinstance(value, dict):
            children = (*value, *value.values())
        elif isinstance(value, list):
            children = value
        is_wrong = (
            depth > _MAX_NESTING
            or (isinstance(value, float) and not math.isfinite(value))
            or (isinstance(value, int | float) and not -_LARGEST <= value <= _LARGEST)
            or has_surrogate(value)
        )
        if is_wrong:
            shown = "nesting" if depth > _MAX_NESTING else repr(value)[:40]
            raise InputError(f"{label} holds {shown}, which no result has", hint)
        pending.extend((child, depth + 1) for child in children)
