"""Commands of other distributions: entry points of the group ``hil.commands``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PARTS = Path(__file__).resolve().parents[1] / "support" / "harness"
COMMAND = "count-models = own_command:COMMAND"


class Site:
    """A folder like ``site-packages`` with one distribution, and ``hil`` with it on the path."""

    def __init__(self, folder: Path, *entries: str) -> None:
        self.folder = folder
        folder.mkdir()
        shutil.copy(PARTS / "own_command.py", folder)
        about = folder / "acme_rig-1.2.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-rig\nVersion: 1.2\n")
        (about / "entry_points.txt").write_text("\n".join(["[hil.commands]", *entries]) + "\n")

    def hil(self, *words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(self.folder), *filter(None, sys.path)])
        done = subprocess.run(
            [sys.executable, "-m", "hil", *map(str, words)],
            env={**os.environ, "PYTHONPATH": path},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "site", COMMAND, "rig = own_command:GROUP")


def test_it_runs_like_ours(site: Site, tmp_path: Path) -> None:
    (tmp_path / "a.tflite").touch()
    assert site.hil("count-models", tmp_path).stdout == f"1 models in {tmp_path}\n"
    answer = json.loads(site.hil("count-models", tmp_path, "--suffix", ".onnx", "--json").stdout)
    assert answer == {
        "schema": 1,
        "command": "count-models",
        "exit_code": 0,
        "results": [{"folder": str(tmp_path), "models": 0}],
    }
    failed = site.hil("count-models", "absent", code=2)
    assert failed.stderr == "error: absent is no folder\n\nhint: name a folder with models\n"
    wrong = site.hil("count-models", tmp_path, "--sufix=x", code=2).stderr
    assert "did you mean --suffix" in wrong


def test_help_lists_it(site: Site) -> None:
    text = site.hil("--help").stdout
    assert "commands of plug-ins:\n" in text
    assert "Count the models of a folder." in text
    assert "A rig of boards." in text
    assert "--suffix S" in site.hil("count-models", "--help").stdout
    assert "--suffix S" in site.hil("help", "count-models").stdout
    assert "Switch it on." in site.hil("rig", "--help").stdout
    assert "count-models" in site.hil("count-model", code=2).stderr


def test_doctor_lists_it(site: Site) -> None:
    line = "plugin count-models: own_command:COMMAND of acme-rig 1.2"
    assert line in site.hil("doctor").stdout


def test_its_bug_is_its_own(site: Site) -> None:
    text = site.hil("rig", "on", code=2).stderr
    assert "the plugin 'rig' (own_command) raised KeyError" in text
    assert "pip uninstall acme-rig" in text


@pytest.mark.parametrize(
    ("entry", "fact"),
    [
        ("count-models = absent_module:COMMAND", "ModuleNotFoundError"),
        ("count-models = own_command:run", "not a Command or CommandGroup"),
        ("verify = own_command:COMMAND", "hil has a command 'verify' of its own"),
        ("Count = own_command:COMMAND", "lower-case letters"),
    ],
    ids=["absent", "function", "ours", "name"],
)
def test_what_cannot_be_a_command(tmp_path: Path, entry: str, fact: str) -> None:
    """Help and our commands work; doctor names it, and so does its use."""
    site = Site(tmp_path / "site", entry)
    name = entry.partition(" ")[0]
    site.hil("--help")
    site.hil("boards")
    assert fact in site.hil("doctor", code=4).stdout
    if name == "count-models":
        text = site.hil(name, code=2).stderr
        assert fact in text
        assert "pip uninstall acme-rig" in text
    else:
        assert "Compare a model on a board" in site.hil("verify", "--help").stdout
