"""One figure for a model's RAM in the commands that compile, by text and by JSON."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import answers
import pytest
import small_models

from hil.cli import main

LINE = re.compile(r"RAM of the model: ([\d,]+) bytes: ([^;\n]*)")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ram") / "net.tflite"
    path.write_bytes(small_models.convolutions())
    return path


def entry(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[Any, str]:
    """The JSON entry of a command for one model, and the line of its text."""
    assert main([str(word) for word in (*words, "--force")]) == 0, capsys.readouterr().err
    text = capsys.readouterr().out
    assert main([str(word) for word in (*words, "--force", "--json")]) == 0
    found = answers.result(capsys.readouterr().out)
    return found.get("models", [found])[0], text


@pytest.mark.parametrize(
    "words",
    [
        ("compile", "-o"),
        ("export", "--build-system", "cmake", "-o"),
        ("build", "-o"),
    ],
    ids=lambda words: words[0],
)
def test_a_model_has_one_figure_of_ram(
    words: tuple[str, ...], model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board = ("--board", "mps2-an386")
    found, text = entry(capsys, *words, tmp_path / "out", model, *board)
    matches = LINE.findall(text)
    assert len(matches) == 1
    assert int(matches[0][0].replace(",", "")) == found["model_ram_bytes"]
    if words[0] == "build":
        assert main(["explain", str(model), *board, "--json"]) == 0
        plan = answers.result(capsys.readouterr().out)
        assert found["model_ram_bytes"] == plan["model_ram_bytes"] == plan["workspace_bytes"]
        return
    assert not found["io_in_workspace"]
    assert found["model_ram_bytes"] == found["workspace_bytes"] + found["io_bytes"]
    assert f"{found['io_bytes']:,} of inputs and outputs beside it" in matches[0][1]
    assert "firmware can place these in the workspace" in text


def test_inputs_in_the_workspace_are_no_part_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An output that overwrites the input: together they are larger than the workspace."""
    model = tmp_path / "moves.tflite"
    model.write_bytes(small_models.moves())
    assert main(["bench", str(model), "--board", "mps2-an386", "--json"]) == 0
    found = answers.result(capsys.readouterr().out)
    assert found["io_in_workspace"]
    assert found["model_ram_bytes"] == found["workspace_bytes"]
    assert main(["bench", str(model), "--board", "mps2-an386"]) == 0
    rows = capsys.readouterr().out.splitlines()
    sizes = [int(row.split()[-1].replace(",", "")) for row in rows if "workspace" in row]
    assert sizes == [found["workspace_bytes"]]
