"""The campaign ``order``: it tells a flake from what always fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from torture import order
from torture.campaign import Budget

TESTS = """
import os

def test_right(): ...
def test_by_chance(): assert "PYTEST_XDIST_WORKER" not in os.environ
def test_wrong(): assert False, "tests/quick/test_one.py - never"
"""


@pytest.mark.full
def test_a_flake_passes_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for worker in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(worker, raising=False)
    monkeypatch.setattr(order, "ROOT", tmp_path)
    folder = tmp_path / "tests" / "quick"
    folder.mkdir(parents=True)
    (folder / "test_one.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = full\n")
    counts = order.shuffled(Budget(False, 1, tmp_path), ["tests"])
    assert [row["ran"] for row in counts.rows] == [3]
    assert [(row["flakes"], row["broken"]) for row in counts.rows] == [(1, 1)]
    assert sorted(finding.what.partition("::")[2] for finding in counts.findings) == [
        "test_by_chance fails beside others, and passes alone",
        "test_wrong fails",
    ]
    assert "--random-order --random-order-seed=1 tests" in counts.findings[0].how
    assert order.figures(counts).rows[0][1:] == ["1", "3", "1", "1"]
