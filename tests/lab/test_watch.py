"""`hil lab watch`: a lab on a terminal, against labgrid's own coordinator."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import answers
import pytest

from hil.cli import main
from hil.history import History
from hil.lab.overview import PlaceState
from hil.lab.place import leased
from hil.lab.serve import Served

DIGITS = str(Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite")
_LIMIT_S = 120.0


@pytest.mark.full
def test_once(
    lab: Served,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Who has a board, the models of its firmware, and the last result on it."""
    monkeypatch.setenv("HIL_HISTORY", str(tmp_path / "history.db"))
    words = ["bench", DIGITS, "--board", "lab:mps2-an386-1", "--json"]
    assert main(words) == 0
    count = answers.entry(capsys.readouterr().out)["per_inference"]
    with leased("lab:mps2-an386-2"):
        assert main(["lab", "watch", "--json", "cpu=cortex-m4"]) == 0
        data = answers.entries(capsys.readouterr().out)
        # stdout is no terminal.
        assert main(["lab", "watch"]) == 0
        text = capsys.readouterr().out
    # Other tests may have left places of their own.
    places = {each["place"]: each for each in data}
    first, second = places["mps2-an386-1"], places["mps2-an386-2"]
    assert (first["place"], first["board"], first["state"]) == (
        "mps2-an386-1",
        "mps2-an386",
        "free",
    )
    assert first["firmware"] == "digits"
    assert first["last_result"]["result"]["per_inference"] == count
    assert second["state"] == "in use"
    assert "/hil.tester." in second["user"]
    assert second["last_result"] is None
    rows = {line.split()[0]: line for line in text.splitlines()}
    assert f"bench digits: {count:,} instructions, 0 min ago" in rows["mps2-an386-1"]
    assert "in use" in rows["mps2-an386-2"]
    assert History(tmp_path / "history.db").entries()[0].result["provenance"]["runner"] == (
        "lab:mps2-an386-1"
    )


class Terminal:
    """A command on a terminal of its own; what it shows."""

    def __init__(self, words: list[str]) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 160, 0, 0))
        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hil", *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**environment, "TERM": "xterm"},
        )
        os.close(slave)
        self.raw = b""

    def until(self, pattern: str) -> str:
        """What was shown since the last match, until the pattern is in it."""
        deadline, seen = time.monotonic() + _LIMIT_S, b""
        while not re.search(pattern, text := _plain(seen)):
            left = deadline - time.monotonic()
            assert left > 0, f"{pattern!r} is not in {text[-3000:]}"
            if select.select([self._master], [], [], left)[0]:
                data = self._read()
                assert data, f"it has ended, without {pattern!r}: {text[-3000:]}"
                seen += data
        return text

    def _read(self) -> bytes:
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the process has closed its side
            return b""
        self.raw += data
        return data

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    def end(self) -> None:
        while self._read():
            pass


def _plain(data: bytes) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", data.decode(errors="replace"))


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    pytest.importorskip("rich")
    made: list[Terminal] = []

    def make(*words: str) -> Terminal:
        made.append(Terminal(list(words)))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.full  # It changes rarely, and takes long.
def test_live_until_ctrl_c(lab: Served, terminal: Callable[..., Terminal]) -> None:
    """A change is shown, and the terminal is left as it was."""
    shown = terminal("lab", "watch", "--interval", "0.3", "cpu=cortex-m4")
    row = r"mps2-an386-1\s*\W\s*mps2-an386\s*\W\s*"
    shown.until(rf"\d+ places, \d+ free(.|\n)*{row}free")
    with leased("lab:mps2-an386-1"):
        text = shown.until(rf"{row}in use(.|\n)*mps2-an386-2")
        assert "mps2-an385" not in text
    shown.until(rf"{row}free")
    shown.process.send_signal(signal.SIGINT)
    shown.end()
    assert shown.process.wait(timeout=_LIMIT_S) == 0
    # The other screen is left, and the cursor is there again.
    assert shown.raw.rindex(b"\x1b[?1049l") > shown.raw.rindex(b"\x1b[?1049h")
    assert shown.raw.rindex(b"\x1b[?25h") > shown.raw.rindex(b"\x1b[?25l")
    assert b"Traceback" not in shown.raw


@pytest.mark.full  # It changes rarely, and takes long.
def test_without_a_coordinator(
    terminal: Callable[..., Terminal],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Once it is an error; live it is looked for again."""
    monkeypatch.setenv("LG_COORDINATOR", "127.0.0.1:9")
    assert main(["lab", "watch", "--once"]) == 4
    assert "127.0.0.1:9 does not answer" in capsys.readouterr().err
    shown = terminal("lab", "watch", "--interval", "0.2")
    shown.until("does not answer")
    shown.until("does not answer")
    shown.process.send_signal(signal.SIGINT)
    shown.end()
    assert shown.process.wait(timeout=_LIMIT_S) == 0


def place(**given: object) -> PlaceState:
    values = {"user": "", "reserved": False, "online": True, "status": None, **given}
    return PlaceState("p", "b", {}, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "state"),
    [
        ({}, "free"),
        ({"reserved": True}, "reserved"),
        ({"user": "a/b"}, "in use"),
        ({"user": "a/b", "status": {"in_use": True}}, "running"),
        ({"online": False, "user": "a/b"}, "offline"),
        ({"status": {"powered": False}}, "switched off"),
        ({"status": {"failure": "QEMU ended"}}, "failed"),
        ({"status": {}}, "free"),
    ],
)
def test_states(given: dict[str, object], state: str) -> None:
    assert place(**given).state == state
