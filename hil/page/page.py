"""The HTML page of results.

One file that loads nothing and runs no script: its style and its charts are in it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hilc
from hil.page.results import (
    Result,
    merged,
)
from hil.page.suite import SuiteResult
from hil.page.views import PageView, bin_text, minute, number
from hil.support.escape import escaped
from hilc.support import optional
from hilc.support.outputs import write_file

if TYPE_CHECKING:
    from types import ModuleType


#: Packages of the extra `report`.
_PACKAGES = ("jinja2", "matplotlib", "squarify")
_STAMP = re.compile(rb"<!-- hil ([0-9a-f]{64}) -->\n\Z")


@dataclass(frozen=True)
class Page:
    """A page of results, as HTML."""

    title: str
    verdict: str
    #: Whether every result was compared and equals its reference.
    match: bool
    html: str

    def save(self, path: str | Path) -> Path:
        """Write the page; return its path."""
        data = self.html.encode()
        write_file(path, data + b"<!-- hil %s -->\n" % hashlib.sha256(data).hexdigest().encode())
        return Path(path)

    def __repr__(self) -> str:
        return f"<Page {self.title!r}: {self.verdict}, {len(self.html):,} characters>"


def is_unchanged(path: str | Path) -> bool:
    """Return whether :meth:`Page.save` wrote the file and nothing edited it since."""
    data = Path(path).read_bytes()
    found = _STAMP.search(data)
    return bool(found and hashlib.sha256(data[: found.start()]).hexdigest().encode() == found[1])


def check_installed() -> None:
    """Raise where the packages of the extra ``report`` are missing."""
    for package in _PACKAGES:
        optional.check_installed(package, "an HTML page")


def make_page(
    results: Sequence[Result],
    *,
    title: str | None = None,
    command: str | None = None,
    made: str | None = None,
    suite: SuiteResult | None = None,
) -> Page:
    """Return the page of results, those of one model on one board merged, and of a run of tests.

    ``command`` is what reproduces the page, ``made`` the time at which it was made, in words; both
    are shown if given. The same arguments give the same page. Raise
    :class:`~hilc.errors.InputError` without any result or run, or without the extra ``report``.
    """
    check_installed()
    shown = _shown_results(merged(results)) if results or suite is None else []
    view = PageView(shown, title, command, made, suite)
    text = template("page.html.jinja").render(page=view, version=hilc.__version__, css=css())
    is_match = view.status == "match"
    return Page(view.title, view.verdict, is_match, text)


def now() -> str:
    """Return the time as text; that of ``SOURCE_DATE_EPOCH`` if it is set."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    moment = (
        datetime.fromtimestamp(int(epoch), timezone.utc)
        if epoch.isdecimal()
        else datetime.now(timezone.utc)
    )
    return moment.strftime("%Y-%m-%d %H:%M UTC")


def _shown_results(results: Sequence[Result]) -> list[Result]:
    """Return the results of models, and those of boards that failed or were skipped before one."""
    return [result for result in results if result.model or result.failure or result.skipped]


# -- rendering ---------------------------------------------------------------------------------


def template(name: str) -> Any:
    """Return a template of the folder ``templates``."""
    jinja2: ModuleType = import_module("jinja2")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=False,
        keep_trailing_newline=True,
    )
    environment.filters.update(number=number, bin=bin_text, minute=minute)
    return environment.get_template(name)


def _shown(value: Any) -> Any:
    """Return a value of the template without control characters; markup is the page's own."""
    if hasattr(value, "__html__") or not isinstance(value, str):
        return value
    return escaped(value, colours=False)


def css() -> Any:
    """Return the style of all pages, as markup."""
    markupsafe = import_module("markupsafe")
    return markupsafe.Markup((Path(__file__).parent / "templates" / "page.css").read_text())
