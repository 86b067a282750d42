"""JSON answers of commands, as tests read them."""

from __future__ import annotations

import functools
import json
from typing import Any

from json_schema import problems

from hil.results.schema import answer_schema


def answer(text: str) -> dict[str, Any]:
    """Return the answer that a command with ``--json`` printed, valid under the schema."""
    data: dict[str, Any] = json.loads(text)
    check(data)
    return data


def check(data: dict[str, Any]) -> None:
    """Assert that an answer is valid under the schema of its command."""
    (own,) = [one for one in _schema()["oneOf"] if _command(one) == data["command"]]
    wrong = list(problems(data, own, _schema()))
    assert not wrong, wrong[:5]


@functools.cache
def _schema() -> dict[str, Any]:
    return answer_schema()


def _command(schema: dict[str, Any]) -> str:
    return str(schema["properties"]["command"]["const"])


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
    errors = [one["error"] for one in data["results"] if "error" in one]
    found: dict[str, Any] = data["error"] if "error" in data else errors[0]
    assert found["exit_code"] == data["exit_code"]
    return found


def result(text: str) -> Any:
    """Return the error of a command that failed, else its only entry, or all of several."""
    data = answer(text)
    if "error" in data or any("error" in one for one in data["results"]):
        return error(text)
    found = data["results"]
    return found[0] if len(found) == 1 else found
