"""A pytest plugin: the ``full`` tests that a change reaches, and a quarter of the others.

    python -m pytest -p full_selection --full-since REVISION --full-quarter 0..3

Continuous integration runs this on every change, all of them every night (docs/how-to/ci.md). A
test is run if its file reaches a changed file within :data:`HOPS` imports, or if it is one of the
quarter of all tests that the number names, by a checksum of its name; at most half of all run, the
nearest to the change first. Without a base, as in a shallow clone, only the quarter runs, and the
header says so.
"""

from __future__ import annotations

import ast
import subprocess
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[1]
#: Imports between a test and a changed module: the test's own, and those of what it imports. With
#: more, ``import hilc`` reaches the whole compiler and every change all tests.
HOPS = 2
#: Folders from which a module is imported by its name alone.
PATHS = (
    "",
    "compiler",
    "tools",
    "ci",
    "tests/campaigns",
    "tests/support/models",
    "tests/support/programs",
    "tests/support/boards",
    "tests/support/harness",
)
#: Tests of files that no module imports: a change below the first runs those below the others.
FOLDERS = {
    "compiler/runtime": (
        "tests/c/",
        "tests/hilc/test_sanitizers.py",
        "tests/board/test_kernels.py",
    ),
    "firmware_template": ("tests/c/", "tests/hil/test_firmware.py", "tests/hil/test_build.py"),
    "targets": ("tests/hil/test_board", "tests/hil/test_chips.py", "tests/board/test_boards.py"),
    "docs": ("tests/board/test_documents.py", "tests/packaging/test_site.py"),
    "examples": (
        "tests/board/test_documents.py",
        "tests/board/test_keyword_spotter.py",
        "tests/board/test_networks.py",
    ),
    "ci": ("tests/packaging/",),
    ".ci": ("tests/packaging/",),
    "templates": ("tests/packaging/",),
    "pyproject.toml": ("tests/packaging/",),
    "action.yml": ("tests/packaging/",),
    "Makefile": ("tests/packaging/",),
}
#: Revisions that a change may be compared with, if none is named: the last that passed, and the
#: branch that the change is for.
BASES = ("ci-green", "origin/main", "main")


def imported(module: Path) -> Iterator[str]:
    """Yield the names of the modules that a file imports, also within its functions.

    ``from a import b`` yields ``a.b`` and ``a``: only one of them may be a module.
    """
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = ".".join(module.parts[-1 - node.level : -1]) if node.level else ""
            name = ".".join(filter(None, (package, node.module)))
            yield name
            yield from (f"{name}.{alias.name}" for alias in node.names)


def file_of(name: str) -> str | None:
    """Return the path of a module of this repository, relative to it; None if it has none."""
    for folder in PATHS:
        base = PurePosixPath(folder, *name.split("."))
        for path in (f"{base}.py", f"{base}/__init__.py"):
            if (ROOT / path).is_file():
                return path
    return None


class Imports:
    """The files that each file imports, read when they are asked for."""

    def __init__(self) -> None:
        self._files: dict[str, frozenset[str]] = {}

    def of(self, path: str) -> frozenset[str]:
        """Return the files that a file imports itself."""
        if path not in self._files:
            found = (file_of(name) for name in imported(ROOT / path))
            self._files[path] = frozenset(p for p in found if p is not None)
        return self._files[path]

    def distances(self, path: str, hops: int) -> dict[str, int]:
        """Return the file and those that it imports in at most ``hops`` steps, with their number.

        The packages ``hil`` and ``hilc`` import everything, so a step ends there.
        """
        found = {path: 0}
        last = {path}
        for step in range(1, hops + 1):
            ends = {p for p in last if p.endswith("__init__.py")}
            last = {p for each in last - ends for p in self.of(each)} - set(found)
            found.update(dict.fromkeys(last, step))
        return found


def reached(tests: Collection[str], changed: Collection[str]) -> dict[str, int]:
    """Return the test files that the changed files reach, with the number of imports between.

    All paths are relative to the root. Files that are no modules are reached at once.
    """
    imports = Imports()
    prefixes = tuple(
        prefix
        for path in changed
        for folder, below in FOLDERS.items()
        if path == folder or path.startswith(f"{folder}/")
        for prefix in below
    )
    data = [PurePosixPath(path).name for path in changed if not path.endswith((".py", ".md"))]
    folders = {str(PurePosixPath(p).parent) for p in changed if p.endswith("conftest.py")}

    def distance(test: str) -> int | None:
        if prefixes and test.startswith(prefixes):
            return 0
        if any(str(parent) in folders for parent in PurePosixPath(test).parents):
            return 0
        text = (ROOT / test).read_text(encoding="utf-8") if data else ""
        if any(name in text for name in data):
            return 0
        found = imports.distances(test, HOPS)
        return min((found[path] for path in changed if path in found), default=None)

    found = {test: distance(test) for test in tests}
    return {test: steps for test, steps in found.items() if steps is not None}


def _git(*words: str) -> str | None:
    """Return what git prints, None where it fails or is not there."""
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def base_of(revision: str | None) -> str | None:
    """Return the commit to compare with: where HEAD left ``revision`` or else one of BASES.

    None if it cannot be known: no such revision, a clone too shallow, or HEAD itself.
    """
    head = _git("rev-parse", "HEAD")
    for name in [revision] if revision else BASES:
        base = _git("merge-base", "HEAD", name)
        if base and base != head:
            return base
    return None


def changed_since(base: str) -> set[str]:
    """Return the files that differ from a commit, in HEAD or in the working tree."""
    listed = _git("diff", "--name-only", "--no-renames", base) or ""
    new = _git("ls-files", "--others", "--exclude-standard") or ""
    return {*listed.splitlines(), *new.splitlines()}


def in_quarter(nodeid: str, quarter: int) -> bool:
    """Whether a test is in a quarter of all: each test is in exactly one of the four."""
    return zlib.crc32(nodeid.encode()) % 4 == quarter


def chosen(nodeids: Mapping[str, str], steps: Mapping[str, int], quarter: int) -> set[str]:
    """Return the tests to run, at most half of all: those near to the change, then the quarter.

    Args:
        nodeids: the name of each test, with its file.
        steps: the files that the change reaches, with the imports between (:func:`reached`).
    """
    wanted = {
        nodeid: steps.get(file, HOPS + 1)
        for nodeid, file in nodeids.items()
        if file in steps or in_quarter(nodeid, quarter)
    }
    order = sorted(wanted, key=lambda nodeid: (wanted[nodeid], zlib.crc32(nodeid.encode())))
    return set(order[: (len(nodeids) + 1) // 2])


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("full", "tests marked full")
    group.addoption("--full-since", metavar="REVISION", help="that the change is compared with")
    group.addoption("--full-quarter", type=int, choices=range(4), help="of the tests not reached")


class _Selection:
    """The choice for one run."""

    def __init__(self, since: str | None, quarter: int) -> None:
        self.quarter = quarter
        self.base = base_of(since)
        self.changed = changed_since(self.base) if self.base else set()

    def keep(self, items: Iterable[pytest.Item]) -> set[str]:
        """Return the names of the tests that run."""
        files = {item.nodeid: item.path.relative_to(ROOT).as_posix() for item in items}
        return chosen(files, reached(set(files.values()), self.changed), self.quarter)


_SELECTION = pytest.StashKey[_Selection]()


def pytest_configure(config: pytest.Config) -> None:
    quarter = config.getoption("--full-quarter")
    if quarter is not None:
        config.stash[_SELECTION] = _Selection(config.getoption("--full-since"), quarter)


def pytest_report_header(config: pytest.Config) -> str | None:
    selection = config.stash.get(_SELECTION, None)
    if selection is None:
        return None
    if selection.base is None:
        reason = "no base to compare with is known, so what the change reaches is not known"
        return f"full tests: only quarter {selection.quarter} of all; {reason}"
    return (
        f"full tests: those that {len(selection.changed)} files changed since "
        f"{selection.base[:12]} reach, and quarter {selection.quarter}; at most half of all"
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    selection = config.stash.get(_SELECTION, None)
    if selection is None:
        return
    kept = selection.keep(items)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]
