"""Names of modules, functions and files that the documents mention exist."""

import importlib
import re
from collections.abc import Iterator

from documents import ROOT, documents

#: Pages that name what there was: decisions, and old names beside the new ones.
_HISTORY = ("docs/explanation/decisions/", "docs/how-to/upgrade.md")
#: Groups of entry points, which look like modules.
_NO_MODULES = {"hil.plugins", "hil.commands"}
_NAME = re.compile(r"(?<![\w./-])hilc?(?:\.[A-Za-z_]\w*)+(?![\w/]|\.\w)")
_PATH = re.compile(
    r"(?<![\w./-])(?:hil|hilc|compiler|tests|tools|firmware_template|targets|ci|examples)/"
    r"[\w./-]*\w(?![\w*])"
)
#: Folders that the paths of the documents begin in.
_BASES = (ROOT, ROOT / "compiler", ROOT / "compiler" / "runtime" / "include")


def _inline_code() -> Iterator[tuple[str, str]]:
    """Yield each inline code of the documents, with its page."""
    for path in documents():
        page = str(path.relative_to(ROOT))
        if not page.startswith(_HISTORY):
            text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
            yield from ((page, code) for code in re.findall(r"`([^`]*)`", text))


def _exists(name: str) -> bool:
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        for part in parts[count:]:
            # A field without a default is no attribute of its class.
            if part in getattr(found, "__annotations__", {}):
                return True
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def test_names_of_python_exist() -> None:
    names = {(page, name) for page, code in _inline_code() for name in _NAME.findall(code)}
    assert len(names) > 50, "the documents name Python"
    missing = {each for each in names if each[1] not in _NO_MODULES and not _exists(each[1])}
    assert not missing


def test_named_files_exist() -> None:
    paths = {
        (page, path)
        for page, code in _inline_code()
        for path in _PATH.findall(code)
        if not re.search(r"\b[A-Z]{4,}\b", path)  # a placeholder, such as CORE.toml
    }
    assert len(paths) > 50, "the documents name files"
    missing = {each for each in paths if not any((base / each[1]).exists() for base in _BASES)}
    assert not missing
