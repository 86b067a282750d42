"""``hil lab``, and the commands that run on a board of a lab."""

from __future__ import annotations

from pathlib import Path

import answers
import pytest

from hil.cli import main
from hil.lab.place import leased
from hil.lab.serve import Served

DIGITS = str(Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite")


def test_list(lab: Served, capsys: pytest.CaptureFixture[str]) -> None:
    with leased("lab:mps2-an386-2"):
        assert main(["lab", "list", "--json", "cpu=cortex-m4"]) == 0
        first, second = answers.entries(capsys.readouterr().out)
        assert main(["lab", "list"]) == 0
        text = capsys.readouterr().out
    assert first == {
        "place": "mps2-an386-1",
        "board": "mps2-an386",
        "tags": {"cpu": "cortex-m4", "emulated": "yes"},
        "user": "",
        "reserved": False,
        "online": True,
    }
    assert "/hil.tester." in second["user"]
    assert text.splitlines()[0].split() == ["place", "board", "tags", "state"]
    assert "free" in text
    assert "used by" in text


def test_verify_on_a_board_of_the_lab(lab: Served, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["verify", DIGITS, "--board", "cpu=cortex-m3", "--samples", "2", "--json"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    report = answers.entry(out)
    assert (report["board"], report["match"]) == ("mps2-an385", True)
    assert "using mps2-an385-1, a mps2-an385 of the lab" in err


@pytest.mark.full  # It changes rarely, and takes long.
def test_evaluate_on_boards_of_the_lab(lab: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """Over either protocol: a lab forwards the serial line."""
    folder = Path(DIGITS).parent
    words = ["--data", str(folder / "digits_test.npz"), "--samples", "3", "--json"]
    words += ["--labels", str(folder / "digits_labels.npy"), "--board", "cpu=cortex-m3"]
    assert main(["evaluate", DIGITS, *words]) == 0
    report = answers.entry(capsys.readouterr().out)
    assert report["mismatches"] == 0
    assert "CRC-32" in report["transport"]
    words += ["--benchmark", "ic01", "--mode", "accuracy"]
    assert main(["mlperf", DIGITS, *words]) == 0
    report = answers.entry(capsys.readouterr().out)
    assert report["accuracy"]["files"] == 3
    assert report["device"]["name"] == "mps2-an385"
    assert main(["mlperf", DIGITS, *words, "--baud", "9600"]) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["build", DIGITS, "--board", "lab:x"], "hil build does not take a lab selector"),
        (["run", DIGITS, "--board", "cpu=a", "--port", "loop://"], "--port does not apply"),
        (["run", DIGITS, "--board", "cpu="], "'cpu=' is not KEY=VALUE"),
        (["run", DIGITS, "--board", "lab:nowhere"], "has no place that matches lab:nowhere"),
        (["lab", "list", "nonsense"], "'nonsense' is not a lab selector"),
    ],
)
def test_what_cannot_be(
    lab: Served, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err


@pytest.mark.full  # It changes rarely, and takes long.
def test_serve_and_reap(lab: Served, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["lab", "serve", "mps2-an385", "attic-1=netduinoplus2", "--seconds", "1"]
    assert main([*words, "--coordinator", lab.address, "--json"]) == 0
    served = answers.entries(capsys.readouterr().out)
    assert {place["coordinator"] for place in served} == {lab.address}
    # The lab has an mps2-an385-1 already.
    assert [place["place"] for place in served] == ["mps2-an385-2", "attic-1"]
    assert main(["lab", "serve", "mps2-an386-1=native", "--coordinator", lab.address]) == 2
    assert "already has a place 'mps2-an386-1'" in capsys.readouterr().err
    assert main(["lab", "list", "lab:attic-1"]) == 0
    assert "offline" in capsys.readouterr().out
    assert main(["lab", "reap", "--seconds", "0.5"]) == 0
    assert capsys.readouterr().out == "no place was abandoned\n"
