"""The page "TensorFlow and Keras", run as it is written, where TensorFlow is installed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from documents import ROOT, blocks

from hil.cli import main

PAGE = ROOT / "docs" / "how-to" / "keras.md"


def test_the_page_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorflow", reason="pip install 'hil-harness[keras]'")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    commands = []
    for block in blocks(PAGE):
        if block.language == "python":
            exec(compile(block.text, str(block), "exec"), names)
        for command in block.commands if block.language == "console" else ():
            program, *words = shlex.split(command.line)
            if program == "hil":
                assert main(words) == 0, command.line
                commands.append(words[0])
    assert commands == ["quantize", "verify", "bench", "compile"]
    for name in ("digits.tflite", "digits_int8.tflite"):
        assert main(["verify", name, "--board", "native", "--samples", "3"]) == 0
