"""What a result was made from: the commit, the flags, and the call."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hil.board import load_board
from hil.errors import InputError
from hil.verify import provenance
from hil.verify.provenance import call_text, checked_out, commit_named


def git(folder: Path, *words: str) -> str:
    own = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *own, *words], cwd=folder, check=True, capture_output=True, text=True, timeout=120
    )
    return done.stdout.strip()


def test_the_commit_and_whether_files_differ(tmp_path: Path) -> None:
    assert checked_out(tmp_path) == (None, None)
    git(tmp_path, "init", "-q")
    assert checked_out(tmp_path) == (None, None)  # no commit yet
    file = tmp_path / "a.txt"
    file.write_text("one")
    git(tmp_path, "add", "a.txt")
    git(tmp_path, "commit", "-qm", "one")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert checked_out(tmp_path) == (commit, False)
    (tmp_path / "untracked.txt").write_text("new")
    assert checked_out(tmp_path) == (commit, False)
    file.write_text("two")
    assert checked_out(tmp_path) == (commit, True)
    git(tmp_path, "tag", "first")
    for word in ("HEAD", "first", commit[:12]):
        assert commit_named(word, tmp_path) == commit
    for word in ("second", "HEAD~1", "--all", "-h", "a\0b"):
        assert commit_named(word, tmp_path) is None


def test_a_git_that_fails_tells_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(*words: object, **options: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(provenance, "run", missing)
    assert checked_out(tmp_path) == (None, None)
    answers = iter([SimpleNamespace(returncode=0, stdout="abc\n"), SimpleNamespace(returncode=1)])
    monkeypatch.setattr(provenance, "run", lambda *words, **options: next(answers))
    assert checked_out(tmp_path) == ("abc", None)


def test_the_models_flags_are_without_folders(tmp_path: Path) -> None:
    firmware: Any = SimpleNamespace(folder=tmp_path)
    module: Any = SimpleNamespace(name="net")
    assert provenance._c_flags(firmware, module) == ()
    (tmp_path / "build").mkdir()
    record = tmp_path / "build" / "compile_commands.json"
    flags = "gcc -I/a -O2 -DX=1 -mcpu=cortex-m4 x -ffile-prefix-map=/a=b -o out.o -c x.c"
    for file, expected in (
        ("/w/models/net/lib.c", ("-O2", "-mcpu=cortex-m4")),
        ("/w/model_net.c", ("-O2", "-mcpu=cortex-m4")),
        ("/w/models/other/lib.c", ()),
    ):
        entries = [{"file": "/w/main.c", "command": "gcc -O0"}, {"file": file, "command": flags}]
        record.write_text(json.dumps(entries))
        assert provenance._c_flags(firmware, module) == expected
    record.write_text(json.dumps([{"file": "/w/model_net.c", "command": "gcc -O1 -c"}]))
    assert provenance._c_flags(firmware, module) == ("-O1", "-c")
    record.write_text("[")
    assert provenance._c_flags(firmware, module) == ()


def called(
    model: Any, samples: Any = 10, *, seed: int = 0, journal: Any = None, **options: Any
) -> None:
    """Stand for a function of ``hil``."""


def test_a_call_is_told_with_what_was_given() -> None:
    def told(**given: Any) -> str:
        return call_text(called, {"samples": 10, "seed": 0, "journal": None, "options": {}} | given)

    assert told(model="m.tflite") == "hil.called('m.tflite')"
    assert told(model=Path("m.tflite"), seed=3) == "hil.called('m.tflite', seed=3)"
    assert told(model="m", samples=[1, 2.5]) == "hil.called('m', samples=[1, 2.5])"
    # What changes no result is not told.
    assert told(model="m", journal="j.json") == "hil.called('m')"
    board = load_board("mps2-an386")
    assert told(model="m", options={"board": board}) == "hil.called('m', board='mps2-an386')"
    arrays = {"x": np.zeros((2, 3), np.int8)}
    assert told(model="m", samples=arrays) == "hil.called('m', samples={'x': <int8[2, 3]>})"
    assert told(model=object()) == "hil.called(<object>)"
    for count, text in ((16, f"[{', '.join('1' * 16)}]"), (17, "<list>")):
        assert told(model="m", samples=[1] * count) == f"hil.called('m', samples={text})"
    assert told(model="m", samples={1: 2}) == "hil.called('m', samples=<dict>)"


def test_options_are_told_as_json_has_them() -> None:
    options = {"a": 1, "b": 1.5, "c": "x", "d": True, "e": None, "f": Path("p"), "g": (1, 2)}
    made = {name: provenance.plain(value) for name, value in options.items()}
    assert made == {**options, "f": "p", "g": "(1, 2)"}
    assert json.loads(json.dumps(made)) == made


def test_inputs_have_a_hash_of_all_their_parts() -> None:
    def hashed(*samples: dict[str, np.ndarray]) -> tuple[str, int]:
        return provenance._hashed(samples)

    zeros = np.zeros((2, 2), np.int8)
    first, count = hashed({"x": zeros, "y": zeros + 1})
    assert count == 1
    assert hashed({"y": zeros + 1, "x": zeros.copy()}) == (first, 1)
    others = [
        hashed({"x": zeros}),
        hashed({"x": zeros, "y": zeros}),
        hashed({"x": zeros, "z": zeros + 1}),
        hashed({"x": zeros.reshape(4), "y": zeros + 1}),
        hashed({"x": zeros.astype(np.uint8), "y": zeros + 1}),
        hashed({"x": zeros, "y": zeros + 1}, {"x": zeros, "y": zeros + 1}),
    ]
    assert len({first, *(text for text, _ in others)}) == 1 + len(others)
    assert others[-1][1] == 2
    # As the values lie in memory makes no difference.
    grid = np.arange(4, dtype=np.int8).reshape(2, 2)
    assert hashed({"x": grid.T}) == hashed({"x": grid.T.copy()})


def test_a_program_that_is_missing_has_no_version() -> None:
    with pytest.raises(InputError, match="no-such-program is not in PATH"):
        provenance._program_version("no-such-program")


def test_versions_are_of_programs_that_took_part(monkeypatch: pytest.MonkeyPatch) -> None:
    board = load_board("mps2-an386")
    monkeypatch.setattr(provenance, "compiler_version", lambda board: "gcc 1")
    monkeypatch.setattr(provenance, "program", lambda cpu: f"qemu for {cpu.name}")
    monkeypatch.setattr(provenance, "_program_version", lambda name: f"version of {name}")
    found = provenance._versions(board, "openocd")
    assert set(found) == {"hil", "python", "numpy", "compiler"}
    assert found["compiler"] == "gcc 1"
    assert found["numpy"] == np.__version__
    emulated = provenance._versions(board, "qemu")
    assert emulated == {**found, "qemu": "version of qemu for cortex-m4"}

    def missing(what: object) -> str:
        raise InputError("it is not in PATH", "install it")

    for name in ("compiler_version", "program"):
        monkeypatch.setattr(provenance, name, missing)
    assert set(provenance._versions(board, "qemu")) == {"hil", "python", "numpy"}
