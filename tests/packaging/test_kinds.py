"""The record of networks of each kind, and the gate over it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import kinds
import pytest

ROOT = Path(__file__).resolve().parents[2]
ROW = kinds.Figures("mlp_i8", "M4", "speed", 1000, 192, 0, 11500, 1.5, 100)


@pytest.mark.parametrize(
    ("change", "worse"),
    [
        ({"per_inference": 1020}, 0),
        ({"per_inference": 1021}, 1),
        ({"state_bytes": 1}, 1),
        ({"workspace_bytes": 300, "flash_bytes": 20_000}, 2),
        ({"compile_cpu_s": 100.0, "compile_mb": 9000}, 0),
        ({"per_inference": 1, "workspace_bytes": 1, "flash_bytes": 1}, 0),
    ],
)
def test_what_the_gate_refuses(change: dict[str, Any], worse: int) -> None:
    assert len(kinds.regressions(ROW, replace(ROW, **change))) == worse


def test_the_record_has_known_networks() -> None:
    rows = kinds.recorded()
    assert {network for network, _, _ in rows} <= set(kinds.KINDS)
    assert len(kinds.KINDS) >= 25
    # What the nightly gate measures without other files is recorded.
    made = [name for name, kind in kinds.KINDS.items() if kind.file.startswith("made/")]
    assert {network for network, _, _ in rows} >= set(made)


def run(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    words = ("--models", str(tmp_path), "--only", "dense_4096", "--board", "M4", *words)
    command = [sys.executable, "tools/measure.py", "kinds", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_the_gate_of_one_network(tmp_path: Path) -> None:
    done = run(tmp_path, "--gate")
    assert done.returncode == 0, done.stderr
    assert "2 programs compared with the record, 0 figures" in done.stderr


def test_a_board_without_figures_is_an_error(tmp_path: Path) -> None:
    done = run(tmp_path, "--board", "nosuch")
    assert done.returncode == 2
    assert "--board nosuch: the boards and cores are M4, " in done.stderr


def test_a_gate_that_compares_nothing_fails(tmp_path: Path) -> None:
    command = ["--models", str(tmp_path), "--only", "unet", "--gate"]
    done = subprocess.run(
        [sys.executable, "tools/measure.py", "kinds", *command],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1
    assert "unet: networks/unet_i8.tflite is not in" in done.stderr


def test_the_page_has_the_record() -> None:
    rows = list(kinds.recorded().values())
    page = (ROOT / "docs" / "reference" / "networks.md").read_text(encoding="utf-8")
    assert kinds.page_table(rows) in page
    assert json.loads(kinds.RECORD.read_text(encoding="utf-8"))
