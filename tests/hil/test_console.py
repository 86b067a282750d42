"""Tables and the one JSON object."""

from __future__ import annotations

import io
import json
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import answers
import pytest
from campaigns import cases

from hil.cli.console import Console, coloured, shown_name, table
from hil.cli.render import quantized_lines
from hil.errors import InputError
from hilc.errors import shortened
from hilc.ir import FloatLayer, RoundedBias


def test_columns_of_numbers_are_right_aligned() -> None:
    rows = [["a", 1, None], ["bcd", 12345, 1.5]]
    assert table(rows, ["name", "bytes", "x"]).splitlines() == [
        "name   bytes     x",
        "a          1     -",
        "bcd   12,345  1.50",
    ]


def test_a_table_without_rows_is_its_header() -> None:
    assert table([], ["a", "b"]) == "a  b"


def test_result(capsys: pytest.CaptureFixture[str]) -> None:
    Console(False).result({"a": 1}, "text")
    assert capsys.readouterr().out == "text\n"
    console = Console(True)
    console.command = "boards"
    console.result({"a": 1}, "text", 3)
    found = json.loads(capsys.readouterr().out)
    assert found == {"schema": 1, "command": "boards", "exit_code": 3, "results": [{"a": 1}]}


def test_json_has_null_for_nan(capsys: pytest.CaptureFixture[str]) -> None:
    Console(True).result({"a": float("nan"), "b": [float("-inf")]}, "")
    (entry,) = json.loads(capsys.readouterr().out)["results"]
    assert entry == {"a": None, "b": [None]}


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
    assert coloured("match", "ok", quiet) == "match"
    assert coloured("match", "ok", terminal) == "\x1b[32mmatch\x1b[0m"
    monkeypatch.setenv("TERM", "dumb")
    assert coloured("match", "ok", terminal) == "match"
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured("match", "ok", terminal) == "match"


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


def hil(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """A command line in a process of its own, whose standard streams are the test's."""
    command = [sys.executable, "-m", "hil.cli", *words]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(command, text=True, timeout=60, check=False, **streams)


@cases(
    "words",
    [
        ("boards",),
        ("boards", "--json"),
        ("--help",),
        ("--version",),
        ("build", "-h"),
        ("boards", "x"),
    ],
    first=2,
)
def test_a_full_disk_behind_stdout_is_one_error(words: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        done = hil(*words, stdout=full)
    assert done.returncode == 2
    if words != ("boards", "x"):
        assert done.stderr == (
            "error: cannot write standard output: No space left on device\n\n"
            "hint: free some space there, or send it to another file\n"
        )


def test_an_error_is_one_json_object() -> None:
    """Also the error that a file could not be written, and after a stderr that is full."""
    with open("/dev/full", "w") as full:
        done = hil("board", "new", "x", "-o", "/proc/none/x.toml", "--json", stderr=full)
    error = answers.error(done.stdout)
    assert (done.returncode, error["exit_code"]) == (2, 2)
    assert error["message"].startswith("cannot write /proc/none/x.toml: ")


@pytest.mark.full
def test_a_reader_that_goes_away_is_told_nothing() -> None:
    command = f"{sys.executable} -m hil.cli boards | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    # Where all fitted into the pipe before its reader went, nothing was wrong.
    assert done.returncode in (0, 141)
    assert done.stdout.startswith("board ")
    assert done.stderr == ""


@pytest.mark.full
@cases("closed", ["1", "2"], first=1)
def test_a_stream_that_was_closed(closed: str) -> None:
    """Nothing that belongs on stderr gets onto stdout instead."""
    command = f"{sys.executable} -m hil.cli boards microbit --json {closed}>&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    if closed == "2":
        assert done.returncode == 0
        assert answers.entry(done.stdout)["name"] == "microbit"
    else:
        assert done.returncode == 2
        assert "cannot write standard output: Bad file descriptor" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.full
@cases("closed", ["<&-", "<&- 2>&-"], first=1)
def test_a_board_without_standard_streams(closed: str) -> None:
    """What the emulator inherits does not take their places."""
    model = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"
    command = f"{sys.executable} -m hil.cli run {model} --board mps2-an386 --json {closed}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "outputs" in answers.entry(done.stdout)


def test_json_survives_a_round_trip(capsys: pytest.CaptureFixture[str]) -> None:
    data = {"a": [1, 2.5, None, True], "b": {"c": "text"}}
    Console(True).result(data, "")
    assert json.loads(capsys.readouterr().out)["results"] == [data]


def test_what_steers_a_terminal_is_written_out(capsys: pytest.CaptureFixture[str]) -> None:
    """A board's log and a file's strings reach the terminal; colours of ours stay."""
    console = Console(False)
    hostile = "\x1b[2J\x1b]0;owned\x07 \u202eabc\u009b1m\r\x7f"
    console.warn(hostile)
    console.log(hostile)
    console.error(InputError(hostile, hostile))
    console.line(f"\x1b[32mgood\x1b[0m\tü\n{hostile}")
    told = capsys.readouterr()
    for stream in told:
        assert r"\x1b[2J\x1b]0;owned\x07 \u202eabc\x9b1m\r\x7f" in stream
        assert not set(stream) & set("\x07\u202e\u009b\r\x7f")
    assert "\x1b[32mgood\x1b[0m\tü\n" in told.out


#: A name as a model or an archive may have it.
EVIL = "N\n\x1b[31mred\x1b[8m\x1b]0;title\x07\r\u202e'\" " + "x y" * 20 + "L" * 5000


def test_a_name_of_any_length_is_shortened_in_messages() -> None:
    for fact in (f"tensor {EVIL!r} is wrong", f"the inputs are {EVIL}", f"a {EVIL}, b {EVIL}"):
        error = InputError(fact, f"change {EVIL!r}")
        assert len(error.fact) < 1000
        assert len(error.hint) < 300
        assert str(error).startswith(error.fact)
    error = InputError(f"tensor {'n' * 300!r} of 'net' is wrong: 3", "use 'm'")
    assert error.fact == f"tensor '{'n' * 99}...{'n' * 98}' of 'net' is wrong: 3"
    assert error.hint == "use 'm'"
    apart = f"the model's {'word ' * 60}and the board's"
    assert InputError(apart).fact == apart
    # Words of any number are cut by the line; what has lines, such as a compiler's output, keeps
    # them.
    assert len(InputError("a b " * 5000).fact) == 2000
    lines = "\n".join(f"line {number} of 'net'" for number in range(1000))
    assert InputError(lines).fact == lines


def test_a_message_is_shortened_once() -> None:
    for text in (EVIL, repr(EVIL), "a" * 199, "b" * 2001, "'" + "\\'" * 300 + "'"):
        assert shortened(shortened(text)) == shortened(text)


def test_names_do_not_break_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(as_json=False)
    console.result({}, table([[EVIL, 1]], ["output", "x"]) + f"\nfirst {shown_name(EVIL)}")
    console.warn(f"{EVIL}: odd")
    console.error(InputError(f"unknown {EVIL}"), label="b")
    out, err = capsys.readouterr()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", out + err)
    assert [len(line) < 300 for line in out.splitlines()] == [True] * 3
    assert "N\\nred\\x1b]0;title" in out
    assert len(err) < 1100


def test_texts_of_an_archive_are_shown_in_a_line() -> None:
    lines = quantized_lines([FloatLayer(EVIL, EVIL, EVIL)], [RoundedBias(EVIL, 1.0)])
    for line in lines:
        assert not re.search("[\x00-\x1f\x7f-\x9f\u202e]", line)
        assert len(line) < 600
