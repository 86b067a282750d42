"""JSON answers of commands, as tests read them."""

from __future__ import annotations

import json
from typing import Any


def answer(text: str) -> dict[str, Any]:
    """Return the answer in the text that a command with ``--json`` printed."""
    data = json.loads(text)
    assert data["schema"] == 1
    assert (
        {"command", "exit_code", "results"}
        <= data.keys()
        <= {*("schema", "command", "exit_code", "results", "error")}
    )
    found: dict[str, Any] = data
    return found


def entries(text: str) -> list[dict[str, Any]]:
    """Return the entries of an answer."""
    found: list[dict[str, Any]] = answer(text)["results"]
    return found


def entry(text: str) -> dict[str, Any]:
    """Return the only entry of an answer."""
    (found,) = entries(text)
    return found


def error(text: str) -> dict[str, Any]:
    """Return the error that ended a command, or its only combination."""
    data = answer(text)
    found: dict[str, Any] = data["error"] if "error" in data else entry(text)["error"]
    assert found["exit_code"] == data["exit_code"]
    return found


def result(text: str) -> Any:
    """Return the error of a command that failed, else its only entry, or all of several."""
    data = answer(text)
    if "error" in data or any("error" in one for one in data["results"]):
        return error(text)
    found = data["results"]
    return found[0] if len(found) == 1 else found
