"""JSON of version 0.1, which had no envelope, as entries of this version.

A result was the object of its command alone, ``{"models": [...]}`` for several models of an image,
and ``{"boards": [...]}`` for several boards or goals; its command is found by its keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from hilc.codegen.options import Options
from hilc.errors import InputError

#: The goal of a result whose compiler options name none.
DEFAULT_GOAL = Options.optimize
#: Command, JSON of the entry, exit code, and the label of an entry.
Upgraded = tuple[str, dict[str, Any], int, str]
#: The commands of which a result of ``hil report`` has a part.
_PARTS = ("verify", "bench", "build", "evaluate")


def upgraded(data: Mapping[str, Any], label: str, hint: str) -> Iterator[Upgraded]:
    """Yield the entries in a JSON object of version 0.1, or in an entry without its envelope.

    Raise :class:`~hilc.errors.InputError` for an object that no command of version 0.1 wrote.
    """
    yield from _nested(data, label, hint, {})


def upgraded_entry(command: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON of an entry of ``verify``, ``bench`` or ``evaluate`` with its goal."""
    entry = dict(data)
    if "goal" not in entry:
        entry["goal"] = _goal(data)
    if command == "bench":
        checked = data.get("checked")
        # Before it was said, no other reference was used.
        if isinstance(checked, Mapping):
            entry["checked"] = {"independent": True, **checked}
    return entry


def _goal(data: Mapping[str, Any]) -> str | None:
    """Return the goal that a result names; None for files that do not."""
    provenance = data.get("provenance")
    options = provenance.get("options") if isinstance(provenance, Mapping) else None
    named = options.get("optimize") if isinstance(options, Mapping) else None
    named = named or data.get("optimize")
    if isinstance(named, str):
        return named
    return None if options is None else DEFAULT_GOAL


def _nested(data: Any, label: str, hint: str, inherited: dict[str, Any]) -> Iterator[Upgraded]:
    """Yield the entries in ``data``; ``inherited`` are the keys of the objects around it."""
    if not isinstance(data, Mapping):
        raise InputError(f"{label} is of type {type(data).__name__}, not an object", hint)
    own = {key: data[key] for key in ("board", "optimize") if isinstance(data.get(key), str)}
    inherited = {**inherited, **own}
    if (parts := _list_of(data, label)) is not None:
        for where, one in parts:
            yield from _nested(one, where, hint, inherited)
        # It ended the models after these.
        if "error" in data and "models" in data:
            yield "verify", _failed(data, inherited), _exit_code(data, label, hint), label
        return
    command = _command(data, label, hint)
    yield command, _entry(command, data, inherited), _exit_code(data, label, hint), label


def _list_of(data: Mapping[str, Any], label: str) -> list[tuple[str, Any]] | None:
    """Return the objects of the list in ``data``, with their labels; None if it has no list."""
    for key, part in (("results", "result"), ("boards", "board"), ("entries", "entry")):
        if isinstance(data.get(key), list):
            return [(f"{label}, {part} {i}", one) for i, one in enumerate(data[key])]
    if isinstance(data.get("models"), list) and "build_id" not in data:
        return [(f"{label}, model {i}", one) for i, one in enumerate(data["models"])]
    return None


def _command(data: Mapping[str, Any], label: str, hint: str) -> str:
    """Return the command that wrote an object."""
    if data.keys() & {*_PARTS}:
        return "report"
    if data.keys() >= {"kind", "result"}:
        return "history"
    if "build_id" in data and isinstance(data.get("models"), list):
        return "build"
    if data.keys() & {"tenants", "slots"}:
        return "explain"
    # Verify has metrics, too: of tensors, where those of an evaluation are of labels.
    if "match" in data and "outputs" in data:
        return "verify"
    if "metrics" in data and "samples" in data:
        return "evaluate"
    if "per_inference" in data:
        return "bench"
    if data.keys() & {"error", "skipped"}:
        return "report" if "model" in data else "verify"
    raise InputError(
        f"{label} is no result that a page can show; its keys are {sorted(data)[:12]}", hint
    )


def _entry(command: str, data: Mapping[str, Any], inherited: dict[str, Any]) -> dict[str, Any]:
    if command == "explain":
        return {"slots": data.get("tenants"), **data}
    entry = {**inherited, **data}
    if command == "history":
        result = data["result"]
        kind = data["kind"]
        if isinstance(result, Mapping):
            entry["result"] = upgraded_entry(str(kind), result)
        return entry
    if command == "report":
        return _report(entry)
    if data.keys() & {"error", "skipped"}:
        # Figures stay: an entry that has both is refused.
        return {**data, **_failed(data, inherited)}
    return upgraded_entry(command, entry)


def _report(data: dict[str, Any]) -> dict[str, Any]:
    entry = dict(data)
    goals = []
    for part in _PARTS:
        if isinstance(found := data.get(part), Mapping):
            own: dict[str, Any] = {key: data[key] for key in ("model", "board") if key in data}
            entry[part] = upgraded_entry(part, {**own, **found})
            goals.append(entry[part]["goal"])
    plan = data.get("plan")
    if isinstance(plan, Mapping):
        entry["plan"] = _entry("explain", plan, {})
    named = data.get("goal") or data.get("optimize")
    entry["goal"] = named or next((goal for goal in goals if goal), None)
    return entry


def _failed(data: Mapping[str, Any], inherited: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a combination that failed or was skipped; its model is that of a file."""
    source = data.get("source")
    name, equals, _ = source.partition("=") if isinstance(source, str) else ("", "", "")
    model = name if equals else PurePath(source).stem if isinstance(source, str) else ""
    entry = {"board": "", **inherited, "model": model, "goal": inherited.get("optimize")}
    kept = ("board", "error", "skipped", "recoveries")
    return {**entry, **{key: data[key] for key in kept if key in data}}


def _exit_code(data: Mapping[str, Any], label: str, hint: str) -> int:
    code = data.get("exit_code", 0)
    if type(code) is not int:
        raise InputError(f"{label}: exit_code is {code!r:.40}, not a whole number", hint)
    return code
