"""The campaign of outputs that must not depend on their surroundings: what it must notice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from torture.determinism import differences

TESTS = Path(__file__).resolve().parents[1]


def test_an_output_that_differs_or_is_missing_is_told() -> None:
    first = {"a": "1", "b": "2", "c": "3"}
    assert differences(first, dict(first)) == []
    assert differences(first, {"a": "1", "b": "9", "d": "4"}) == ["b", "c", "d"]


def test_folders_list_their_entries_backwards(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
    program = (
        "import sys, os, repeatable_outputs; from pathlib import Path\n"
        "repeatable_outputs._backwards()\n"
        "folder = Path(sys.argv[1])\n"
        "print(os.listdir(folder), [p.name for p in folder.iterdir()],\n"
        "      [p.name for p in folder.rglob('*')], next(os.walk(folder))[2])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path],
        env={**os.environ, "PYTHONPATH": str(TESTS / "support" / "programs")},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == (4 * "['c', 'b', 'a'] ").split()
