#!/usr/bin/env python3
"""Builds the site of the documents into ``build/site`` and checks it; ``make docs`` runs it.

MkDocs builds strictly: a page that is not in the navigation, a link to a page, a file or an anchor
that is not there are errors. What came of it is then read again as a browser would: every link and
anchor of every page must lead somewhere, and nothing may be loaded from another place, so that the
site can be viewed without a network. Exit code 1 where one does not hold.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "build" / "site"
#: Attributes by which a page loads what it is made of, by element; those of ``link`` that only
#: tell of other pages load nothing.
_LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
_TOLD_ONLY = {"canonical", "prev", "next", "edit", "alternate"}
_CSS_URL = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


@dataclass
class Page(HTMLParser):
    """What a page of the site names: its anchors, its links, what it loads."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if values.get(_LOADING.get(tag, "")) and values.get("rel") not in _TOLD_ONLY:
            self.loaded.append(values[_LOADING[tag]])


@dataclass(frozen=True)
class Result:
    """What a check of a site counted, and what is wrong with it."""

    pages: int
    links: int
    anchors: int
    problems: list[str]


def check(site: Path) -> Result:
    """Follow every link of every page of the site."""
    pages: dict[Path, Page] = {}
    for path in sorted(site.rglob("*.html")):
        page = pages[path] = Page()
        page.feed(path.read_text(encoding="utf-8"))
    links = anchors = 0
    problems = []
    for path, page in pages.items():
        where = path.relative_to(site).as_posix()
        for link in page.loaded:
            # What is in the page itself is loaded from nowhere.
            if urlsplit(link).scheme == "data":
                continue
            if urlsplit(link).netloc or not _file(path, link, site).is_file():
                problems.append(f"{where}: loads {link}")
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            links += 1
            target = _file(path, link, site)
            if not target.is_file():
                problems.append(f"{where}: {link} leads nowhere")
            elif parts.fragment and target in pages:
                anchors += 1
                if unquote(parts.fragment) not in pages[target].anchors:
                    problems.append(f"{where}: {link} names no anchor")
    problems += [
        f"{path.relative_to(site).as_posix()}: loads {url}"
        for path in sorted(site.rglob("*.css"))
        for url in _urls(path.read_text(encoding="utf-8"))
        if urlsplit(url).netloc
    ]
    return Result(len(pages), links, anchors, problems)


def _file(page: Path, link: str, site: Path) -> Path:
    """Return the file that a link of ``page`` leads to."""
    name = unquote(urlsplit(link).path)
    if not name:
        return page
    # Only the page for paths that are not there has links from the root.
    target = site / name.lstrip("/") if name.startswith("/") else (page.parent / name).resolve()
    return target / "index.html" if target.is_dir() else target


def _urls(css: str) -> Iterator[str]:
    for match in _CSS_URL.finditer(css):
        yield match[1] or match[2]


def build(site: Path) -> int:
    """Run MkDocs; its exit code."""
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--quiet",
        "--clean",
        "--site-dir",
        str(site),
    ]
    # The theme would else tell at length of its successor.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def main() -> int:
    if status := build(SITE):
        return status
    result = check(SITE)
    for problem in result.problems:
        print(f"error: {problem}", file=sys.stderr)
    print(
        f"{SITE.relative_to(ROOT)}: {result.pages} pages, {result.links} links followed, "
        f"{result.anchors} of them to anchors"
    )
    return 1 if result.problems else 0


if __name__ == "__main__":
    sys.exit(main())
