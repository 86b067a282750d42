"""``hil.report``: one HTML page of results."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from hil.page.page import Page, make_page, now
from hil.page.plan_json import plan_entry
from hil.page.results import Result, read_results, results_in, results_of
from hil.results.answer import Answer
from hilc.errors import InputError
from hilc.memory.explanation import Explanation
from hilc.support.arguments import typed


@runtime_checkable
class _WithEntry(Protocol):
    """A report of this project, with the entry of its command."""

    def entry(self) -> Any: ...


@typed
def report(
    *results: Any,
    output: str | Path | None = None,
    title: str | None = None,
    command: str | None = None,
) -> Page:
    """Return one page of results, those of one model on one board together.

    A result is what :func:`hil.verify`, :func:`hil.bench`, :func:`hil.build` or
    :func:`hilc.explain` returned, a JSON object of a command, or the path of a file with one.
    ``output`` is the HTML file to write, ``command`` the command that reproduces the page, which it
    then shows. Raise :class:`~hilc.errors.InputError` without any result, for what is none, and
    where the extra ``report`` is not installed.
    """
    found = [one for position, result in enumerate(results) for one in _read(result, position)]
    if not found:
        raise InputError("there is nothing to report", "give at least one result")
    page = make_page(found, title=title, command=command, made=now())
    if output is not None:
        page.save(output)
    return page


def _read(result: Any, position: int) -> Iterator[Result]:
    if isinstance(result, str | os.PathLike):
        yield from read_results(Path(result))
        return
    label = f"argument {position}"
    if isinstance(result, Explanation | _WithEntry):
        entry = plan_entry(result) if isinstance(result, Explanation) else result.entry()
        yield from results_of([Answer("", 0, [entry])], label)
        return
    if not isinstance(result, Mapping):
        raise InputError(
            f"argument {position} of type {type(result).__name__} is no result",
            "give reports, JSON objects, or paths of JSON files",
        )
    yield from results_in(dict(result), label)
