"""Every recovery of a board is in the result of the command: as text, JSON, JUnit, page."""

from __future__ import annotations

import html
import logging
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import answers
import numpy as np
import pytest
from campaigns import cases
from fake_bench import Bench, FakeBoard

from hil.cli import main

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.tflite"
COMMANDS = {
    "verify": ["--samples=2"],
    "bench": [],
    "run": [],
    "flash": [],
    "evaluate": ["--data=data.npz", "--labels=labels"],
}


class _Wire(logging.Handler):
    """Connects a board's line when recovery takes its first step."""

    def __init__(self, board: FakeBoard) -> None:
        super().__init__()
        self._board = board

    def emit(self, record: logging.LogRecord) -> None:
        self._board.ports[0].wired_to = self._board


@pytest.fixture
def board(rig: Bench) -> Iterator[FakeBoard]:
    """A board whose line is silent until recovery begins."""
    board = rig.add()
    board.ports[0].wired_to = None
    wire, logger = _Wire(board), logging.getLogger("hil.recovery")
    logger.addHandler(wire)
    yield board
    logger.removeHandler(wire)


def words(command: str, board: FakeBoard, *more: str) -> list[str]:
    where = [f"--probe={board.serial}", f"--port={board.by_id()}", "--board=mps2-an386"]
    return [command, str(DIGITS), *where, *more]


@cases("command", COMMANDS, first=1)
def test_json(
    command: str,
    board: FakeBoard,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One step where the board was silent, none once it is not."""
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", x=np.zeros((3, 1, 8, 8, 1), np.int8), labels=np.zeros(3, np.int64))
    line = words(command, board, "--json", *COMMANDS[command])
    assert main(line) == 0, capsys.readouterr().err
    (step,) = answers.entry(capsys.readouterr().out)["recoveries"]
    assert (step["board"], step["unit"]) == ("mps2-an386", board.serial)
    assert (step["step"], step["failure"]) == ("programming it again", "")
    assert "is not proven to be the serial line" in step["reason"]
    assert step["seconds"] >= 0
    assert main(line) == 0
    assert answers.entry(capsys.readouterr().out)["recoveries"] == []


@cases("command", ["verify", "bench", "run", "flash"], first=1)
def test_text(command: str, board: FakeBoard, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(command, board, *COMMANDS[command])) == 0
    start = f"recovery: mps2-an386 ({board.serial}): usb:{board.serial} ("
    assert start in capsys.readouterr().out


def test_matrix_files(board: FakeBoard, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row for the combination that it happened to, and none for the other."""
    junit, summary = tmp_path / "out.xml", tmp_path / "summary.md"
    files = [f"--junit={junit}", f"--summary={summary}", "--format=html"]
    goals = ["--optimize=balanced", "--optimize=size", "--samples=1"]
    assert main(words("verify", board, *files, *goals)) == 0
    cases = list(ElementTree.parse(junit).iter("testcase"))
    found = [
        [str(p.get("value")) for p in case.iter("property") if p.get("name") == "hil_recovery"]
        for case in cases
    ]
    assert [len(one) for one in found] == [1, 0]
    assert "programming it again took" in found[0][0]
    start = f"mps2-an386 (balanced): recovery: mps2-an386 ({board.serial}): usb:{board.serial} ("
    assert start in summary.read_text()
    page = html.unescape(capsys.readouterr().out)
    assert "Boards failed on the way: 1 step of recovery." in page
    assert '<th scope="row">programming it again</th><td>usb:' in page


def test_an_error_names_what_was_tried(
    rig: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = rig.add(interfaces=(1, 2), line=2)
    junit = tmp_path / "out.xml"
    line = words("verify", silent, "--samples=1", "--json", f"--junit={junit}")
    assert main(line) == 4
    error = answers.error(capsys.readouterr().out)
    assert [step["step"] for step in error["recoveries"]] == ["programming it again"]
    assert all("no answer" in step["failure"] for step in error["recoveries"])
    assert len(ElementTree.parse(junit).findall(".//property[@name='hil_recovery']")) == 1
