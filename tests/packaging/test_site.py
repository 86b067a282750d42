"""The documents: generated parts are today's, the drawing is true, the site has no dead link."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

import hil
import hilc
from hil.board import board_names, load_board
from hilc.external import EXTERNAL
from hilc.ops import OPS
from hilc.support.tables import Table
from hilc.target import cores
from hilc.target.toolchains import read_toolchain

ROOT = Path(__file__).resolve().parents[2]
docs: Any = importlib.import_module("docs")
marked: Any = importlib.import_module("marked")
reference: Any = importlib.import_module("reference")

README = (ROOT / "README.md").read_text(encoding="utf-8")


# -- generated parts ---------------------------------------------------------------------------


@pytest.mark.parametrize("page", dict.fromkeys(page for page, _ in reference.PARTS))
def test_a_reference_page_is_todays(page: str) -> None:
    text = (reference.PAGES / page).read_text(encoding="utf-8")
    assert text == reference.written(page), "run python tools/measure.py reference"


def test_a_stale_page_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (reference.PAGES / "ports.md").read_text(encoding="utf-8")
    (tmp_path / "ports.md").write_text(text.replace("| `systick` |", "| `sysclick` |"))
    monkeypatch.setattr(reference, "PAGES", tmp_path)
    monkeypatch.setattr(reference, "PARTS", {("ports.md", "ports"): reference.ports})
    assert reference.main(["--check"]) == 1
    assert "stale: docs/reference/ports.md" in capsys.readouterr().out
    assert reference.main([]) == 0
    assert reference.main(["--check"]) == 0
    assert (tmp_path / "ports.md").read_text(encoding="utf-8") == text


def test_only_the_marked_part_is_replaced() -> None:
    text = "before\n<!-- x:begin -->\nold\n<!-- x:end -->\nafter\n"
    expected = "before\n<!-- x:begin -->\n\nnew\n\n<!-- x:end -->\nafter\n"
    assert marked.replaced(text, "x", "new") == expected
    assert marked.replaced(expected, "x", "new") == expected
    assert marked.section(expected, "x") == "new"


@pytest.mark.parametrize("text", ["no marks", "<!-- x:begin -->\n", "<!-- x:end -->"])
def test_a_missing_mark_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="the text lacks <!-- x:begin --> or <!-- x:end -->"):
        marked.replaced(text, "x", "new")


@pytest.mark.parametrize(
    ("heading", "folder"), [("Keys of a core", "cores"), ("Keys of a toolchain", "toolchains")]
)
def test_the_documented_keys_are_those_that_are_read(
    heading: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: set[str] = set()
    get = Table._get

    def recorded(self: Any, key: str, kind: Any, *rest: Any, **options: Any) -> Any:
        name = re.sub(r"\[\d+\]", "", self._key(key))
        if kind not in (dict, list) and f"/target/{folder}/" in self._place(name):
            read.add(name)
        return get(self, key, kind, *rest, **options)

    monkeypatch.setattr(Table, "_get", recorded)
    cores._read_shipped.cache_clear()
    read_toolchain.cache_clear()
    for name in cores.cpu_names():
        cores.get_cpu(name)
    page = (reference.PAGES / "core-files.md").read_text(encoding="utf-8")
    rows = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    documented = re.findall(r"^\| `([\w.]+)` \|", rows, re.MULTILINE)
    assert sorted(documented) == sorted(read)


def test_every_module_for_users_is_there() -> None:
    """What the packages load on first use exists, and has a place in the reference."""
    modules = [getattr(hilc, name).__name__ for name in hilc._MODULES]
    modules += [getattr(hil, name).__name__ for name in hil._MODULES]
    assert set(modules) <= set(reference.PYTHON)


def test_the_readme_counts_right() -> None:
    boards = [load_board(name) for name in board_names()]
    emulated = [board for board in boards if "qemu" in board.runners]
    real = [board for board in boards if board.flashers and "qemu" not in board.runners]
    operators = [name for name in OPS if name != EXTERNAL]
    assert f"[{len(operators)} operators](" in README
    assert f"{len(emulated)} emulated by QEMU, and [{len(real)} real ones](" in README


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 130


def test_only_these_documents_are_at_the_root() -> None:
    names = {path.name for path in ROOT.glob("*.md")}
    assert names == {
        "README.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "ARCHITECTURE.md",
        "SOUNDNESS.md",
    }


def test_the_index_names_every_decision() -> None:
    folder = ROOT / "docs" / "explanation" / "decisions"
    index = (folder / "index.md").read_text(encoding="utf-8")
    expected = []
    for number, path in enumerate(sorted(folder.glob("[0-9]*.md")), 1):
        title = path.read_text(encoding="utf-8").splitlines()[0]
        assert path.name.startswith(f"{number:04d}-")
        assert title.startswith(f"# {number}. ")
        expected.append((str(number), title.partition(". ")[2], path.name))
    assert re.findall(r"^\| (\d+) \| \[(.+)\]\((.+)\) \|$", index, re.MULTILINE) == expected


# -- the site ----------------------------------------------------------------------------------


@pytest.mark.full  # It changes rarely, and takes long.
def test_the_site_is_built_and_whole(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    assert docs.build(tmp_path) == 0, capfd.readouterr().err
    result = docs.check(tmp_path)
    assert result.problems == []
    assert result.pages > 50
    home = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "begin --" not in home
    assert 'href="how-to/lab.html"' in home


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<a href="other.html">', "index.html: other.html leads nowhere"),
        ('<a href="#there">', "index.html: #there names no anchor"),
        ('<img src="https://example.com/x.png">', "index.html: loads https://example.com/x.png"),
        ('<script src="x.js"></script>', "index.html: loads x.js"),
        ('<link rel="stylesheet" href="//cdn/x.css">', "index.html: loads //cdn/x.css"),
    ],
)
def test_a_fault_of_the_site_is_told(tmp_path: Path, body: str, problem: str) -> None:
    (tmp_path / "index.html").write_text(f'<p id="here">{body}')
    assert docs.check(tmp_path).problems == [problem]


def test_a_style_that_loads_from_elsewhere_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.css").write_text("@import 'https://example.com/font.css'; a{b:url(c.png)}")
    assert docs.check(tmp_path).problems == ["x.css: loads https://example.com/font.css"]


def test_good_links_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="b.html#x"><a href="https://example.com">')
    (tmp_path / "b.html").write_text('<p id="x"><a href="a.html">')
    assert docs.check(tmp_path) == docs.Result(pages=2, links=2, anchors=1, problems=[])
