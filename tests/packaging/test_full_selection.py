"""Which tests marked ``full`` continuous integration runs for a change."""

from __future__ import annotations

import subprocess
from pathlib import Path

import full_selection as selection
import pytest

TESTS = {
    path.relative_to(selection.ROOT).as_posix()
    for path in selection.ROOT.glob("tests/**/test_*.py")
}


@pytest.mark.parametrize(
    ("changed", "test", "steps"),
    [
        ("tests/hil/test_page.py", "tests/hil/test_page.py", 0),
        ("hil/page/charts.py", "tests/hil/test_page.py", 1),
        ("tests/support/models/single_op.py", "tests/hilc/test_ops_reference.py", 1),
        ("firmware_template/rpc/rpc.c", "tests/hil/test_firmware.py", 0),
        ("tests/hil/conftest.py", "tests/hil/test_client.py", 0),
        ("tests/kws.pt2.xz", "tests/hilc/test_qdq.py", 0),
        ("ci/setup.sh", "tests/packaging/test_setup.py", 0),
    ],
)
def test_reached(changed: str, test: str, steps: int) -> None:
    assert (selection.ROOT / changed).is_file()
    assert selection.reached([test], [changed]) == {test: steps}


@pytest.mark.parametrize("changed", ["hil/page/charts.py", "hil/lab/keeper.py", "LICENSE.old"])
def test_not_reached(changed: str) -> None:
    assert selection.reached(["tests/hilc/test_ops_reference.py"], [changed]) == {}


def test_quarters() -> None:
    names = [f"tests/test_x.py::test[{number}]" for number in range(1000)]
    quarters = [{n for n in names if selection.in_quarter(n, part)} for part in range(4)]
    assert sorted(name for part in quarters for name in part) == sorted(names)
    assert all(len(part) > 150 for part in quarters)


def test_nearest_first() -> None:
    files = {f"{file}::{number}": file for file in "abc" for number in range(20)}
    kept = selection.chosen(files, {"a": 0, "b": 2}, quarter=0)
    assert {name for name, file in files.items() if file == "a"} <= kept
    assert len(kept) == 30
    assert {files[name] for name in kept} == {"a", "b"}


def test_quarter_alone() -> None:
    files = {f"a::{number}": "a" for number in range(400)}
    assert selection.chosen(files, {}, 2) == {n for n in files if selection.in_quarter(n, 2)}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the branches ``main`` and ``work``, and a commit on each."""
    monkeypatch.setattr(selection, "ROOT", tmp_path)
    _git(tmp_path, "init", "-q", "-b", "main")
    _commit(tmp_path, "old.py")
    _git(tmp_path, "checkout", "-q", "-b", "work")
    _commit(tmp_path, "new.py")
    return tmp_path


def _git(folder: Path, *words: str) -> None:
    user = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *user, *words], cwd=folder, check=True, capture_output=True)


def _commit(folder: Path, name: str) -> None:
    (folder / name).write_text("x = 1\n")
    _git(folder, "add", "-A")
    _git(folder, "commit", "-q", "-m", name)


def test_base_is_where_the_branch_began(checkout: Path) -> None:
    base = selection.base_of(None)
    assert base is not None
    (checkout / "not_added.py").write_text("")
    assert selection.changed_since(base) == {"new.py", "not_added.py"}


def test_base_is_the_tag(checkout: Path) -> None:
    _git(checkout, "tag", "ci-green")
    _commit(checkout, "third.py")
    base = selection.base_of(None)
    assert base is not None
    assert selection.changed_since(base) == {"third.py"}


def test_no_base(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """HEAD is the branch itself; the revision does not exist; the clone is shallow; no git."""
    assert selection.base_of("nothing") is None
    shallow = tmp_path_factory.mktemp("shallow") / "clone"
    _git(checkout, "clone", "-q", "--depth", "1", f"file://{checkout}", str(shallow))
    _git(checkout, "checkout", "-q", "main")
    assert selection.base_of(None) is None
    selection.ROOT = shallow
    assert selection.base_of(None) is None
    selection.ROOT = tmp_path_factory.mktemp("no git")
    assert selection.base_of(None) is None
