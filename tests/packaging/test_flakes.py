"""The campaign that finds tests that fail at times."""

from __future__ import annotations

from pathlib import Path

import flakes
import pytest

TESTS = """
    from pathlib import Path

    def test_second_time():
        mark = Path(__file__).with_name("mark")
        was_there = mark.exists()
        mark.touch()
        assert was_there

    def test_sound():
        pass
"""


def test_files_that_wait() -> None:
    files = flakes.waiting_files()
    assert {"tests/hil/test_cancelled.py", "tests/lab/test_board_server.py"} <= set(files)
    assert "tests/hilc/test_quant.py" not in files


def test_failures_are_counted(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flakes, "ROOT", Path(pytester.path))
    pytester.makeini("[pytest]\nmarkers = full\n")
    file = pytester.makepyfile(TESTS).name
    failed, ran = flakes.failures([file], "", workers=0)
    assert ran == 2
    assert [name.rpartition("::")[2] for name in failed] == ["test_second_time"]
    assert flakes.failures([file], "", workers=0) == ({}, 2)


def test_tests_that_do_not_run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flakes, "ROOT", Path(pytester.path))
    file = pytester.makepyfile("import nothing_of_this_name").name
    with pytest.raises(RuntimeError, match="nothing_of_this_name"):
        flakes.failures([file], "", workers=0)
