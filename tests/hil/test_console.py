"""Tables and the one JSON object."""

from __future__ import annotations

import io
import json
import logging
import sys

import pytest

from hil.console import Console, coloured, several, table, writing
from hil.errors import InputError


def test_columns_of_numbers_are_right_aligned() -> None:
    rows = [["a", 1, None], ["bcd", 12345, 1.5]]
    assert table(rows, ["name", "bytes", "x"]).splitlines() == [
        "name   bytes     x",
        "a          1     -",
        "bcd   12,345  1.50",
    ]


def test_a_table_without_rows_is_its_header() -> None:
    assert table([], ["a", "b"]) == "a  b"


@pytest.mark.parametrize(("as_json", "out"), [(True, '{\n  "a": 1\n}\n'), (False, "text\n")])
def test_result(as_json: bool, out: str, capsys: pytest.CaptureFixture[str]) -> None:
    Console(as_json).result({"a": 1}, "text")
    assert capsys.readouterr().out == out


def test_json_never_holds_nan() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        Console(True).result({"a": float("nan")}, "")


def test_several() -> None:
    assert several([{"a": 1}]) == {"a": 1}
    assert several([{"a": 1}, {"a": 2}]) == {"models": [{"a": 1}, {"a": 2}]}


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet, terminal = io.StringIO(), _Terminal()
    for stream in (quiet, terminal):
        monkeypatch.setattr(sys, "stderr", stream)
        assert list(Console(False).progress([1, 2, 3], "counting")) == [1, 2, 3]
    assert quiet.getvalue() == ""
    assert "counting" in terminal.getvalue()


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet, terminal = io.StringIO(), _Terminal()
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert coloured("match", "good", quiet) == "match"
    assert coloured("match", "good", terminal) == "\x1b[32mmatch\x1b[0m"
    monkeypatch.setenv("TERM", "dumb")
    assert coloured("match", "good", terminal) == "match"
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured("match", "good", terminal) == "match"


def test_quiet_leaves_what_may_be_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(False, quiet=True)
    console.log("a log")
    console.warn("a warning")
    console.error(InputError("a fact", "a remedy"), "a board")
    expected = "warning: a warning\nerror: a board: a fact\n\nhint: a remedy\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    ("verbosity", "told"), [(0, "warning: odd\n"), (1, "warning: odd\ndone\n")]
)
def test_what_modules_log(verbosity: int, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("hil.anything")
    with Console(False).listening(verbosity):
        log.warning("odd")
        log.info("done")
        log.debug("a detail")
    log.info("not any more")
    assert capsys.readouterr().err == told


def test_what_cannot_be_written() -> None:
    with pytest.raises(InputError) as caught, writing("/no/such/folder/x"):
        open("/no/such/folder/x", "wb")  # noqa: SIM115
    assert caught.value.fact == "cannot write /no/such/folder/x: No such file or directory"


def test_json_survives_a_round_trip(capsys: pytest.CaptureFixture[str]) -> None:
    data = {"a": [1, 2.5, None, True], "b": {"c": "text"}}
    Console(True).result(data, "")
    assert json.loads(capsys.readouterr().out) == data
