"""MkDocs' hook: documents outside of ``docs/`` as pages, and links to files of the repository.

The same Markdown is read in the repository and on the site. So a link is written as it is right in
the repository, relative to its file; here it becomes one that is right on the site. A document that
stands beside what it describes (an example's README, the changelog) is a page of the site all the
same; any other file that a page links to is copied into ``source/``.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
#: The place on the site of documents that stand elsewhere.
PLACES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "ARCHITECTURE.md": "explanation/architecture.md",
    "SOUNDNESS.md": "explanation/soundness.md",
    "examples/byoc/README.md": "examples/byoc.md",
    "examples/digits/README.md": "examples/digits.md",
    "examples/keyword_spotter/README.md": "examples/keyword-spotter.md",
    "examples/networks/README.md": "examples/networks.md",
    "examples/own_firmware/README.md": "examples/own-firmware.md",
    "examples/pytorch/README.md": "examples/pytorch.md",
    "examples/transformers/README.md": "examples/transformers.md",
    "firmware_template/README.md": "reference/firmware-project.md",
}
RECORDS = "explanation/decisions"

_FENCED = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
#: What the tests read and readers need not.
_MARK = re.compile(
    r"^ *<!-- (not run: .*|only parsed: .*|until Ctrl-C|[a-z-]+:(begin|end)) -->\n", re.MULTILINE
)


def on_config(config: Any) -> Any:
    """Put every decision's record into the navigation."""
    records = sorted(path.name for path in (DOCS / RECORDS).glob("[0-9]*.md"))
    _entries(config.nav).extend(f"{RECORDS}/{name}" for name in records)
    return config


def _entries(nav: Any) -> list[Any]:
    """Return the list of the navigation that has the records' index in it."""
    pending = [nav]
    while pending:
        entry = pending.pop()
        if isinstance(entry, dict):
            pending.extend(entry.values())
        elif isinstance(entry, list):
            if f"{RECORDS}/index.md" in entry:
                return entry
            pending.extend(entry)
    raise PluginError(f"mkdocs.yml: the navigation lacks {RECORDS}/index.md")


def on_files(files: Files, config: Any) -> Files:
    """Add the documents that stand elsewhere, and the files that pages link to."""
    for source, place in PLACES.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    for path in sorted({path for file in files.documentation_pages() for path in _sources(file)}):
        place = f"source/{path.relative_to(ROOT).as_posix()}"
        files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Rewrite links, without the comments that tests read."""
    start = posixpath.dirname(page.file.src_uri)

    def rewritten(match: re.Match[str]) -> str:
        place = _place(_target(page.file, match[2]))
        if place is None:
            return match[0]
        return f"{match[1]}{posixpath.relpath(place, start)}{match[3] or ''}{match[4]}"

    pieces, end = [], 0
    for block in _FENCED.finditer(markdown):
        pieces += [_LINK.sub(rewritten, markdown[end : block.start()]), block[0]]
        end = block.end()
    return _MARK.sub("", "".join([*pieces, _LINK.sub(rewritten, markdown[end:])]))


def _sources(file: File) -> set[Path]:
    """Return the files of the repository, which are no pages, that a page links to."""
    text = _FENCED.sub("", Path(str(file.abs_src_path)).read_text(encoding="utf-8"))
    targets = {_target(file, match[2]) for match in _LINK.finditer(text)}
    return {
        target
        for target in targets
        if target
        and target.is_file()
        and not target.is_relative_to(DOCS)
        and target.relative_to(ROOT).as_posix() not in PLACES
    }


def _target(file: File, link: str) -> Path | None:
    """Return the file of the repository that a relative link names; None for other links."""
    if ":" in link or link.startswith("/"):
        return None
    path = (Path(str(file.abs_src_path)).parent / link).resolve()
    if path.is_dir():
        path /= "README.md"
    return path if path.is_file() and path.is_relative_to(ROOT) else None


def _place(path: Path | None) -> str | None:
    """Return the path on the site of a file of the repository."""
    if path is None:
        return None
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    name = path.relative_to(ROOT).as_posix()
    return PLACES.get(name, f"source/{name}")
