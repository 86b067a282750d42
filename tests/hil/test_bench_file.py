"""The bench file: which board of it an option names, and how that is reached."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_bench import Bench
from waiting import PATIENCE_S

import hil
from hil.access.bench_boards import held_board, reach_of
from hil.access.board_lock import board_lock
from hil.board import load_board
from hil.board.bench import read_bench
from hil.board.bench_selector import parse_selector, selected_boards
from hil.cli import main
from hil.device.power import power_of_board
from hil.device.power.programs import Uhubctl
from hil.errors import BoardError, HilError, InputError, ProbeError
from hil.lab import parse_selector as lab_selector

DIGITS = Path(__file__).parents[2] / "examples/digits/digits.tflite"
BOARD = "mps2-an386"
SMALL = """
[boards.one]
board = "nucleo-l476rg"
probe = "0669FF01"
port = "usb:0669FF01"
tags = { site = "a" }

[boards.one.line]
baud = 921600
dtr = false

[boards.one.power]
driver = "uhubctl"
location = "1-1"
port = 2

[boards.two]
board = "raspberry-pi-pico"
port = "usb-path:1-2.4"

[boards.three]
board = "mps2-an386"
"""
Hil = Callable[..., Any]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a bench file, in a folder below it."""
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path / "models")
    path = tmp_path / "hil-bench.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def hil_json(capsys: pytest.CaptureFixture[str]) -> Hil:
    def run(*words: str, code: int = 0) -> Any:
        ended = main([*words, "--json"])
        out, err = capsys.readouterr()
        assert ended == code, out + err
        return json.loads(out)

    return run


def test_a_board_is_found_by_its_name(bench: Path) -> None:
    board = load_board("one@bench")
    assert board.name == "nucleo-l476rg"
    assert (board.line.baud, board.line.dtr, board.line.rts) == (921_600, False, None)
    assert board.macros["HIL_UART_BAUD"] == 921_600
    assert reach_of(board) == {"probe": "0669FF01", "port": "usb:0669FF01", "runner": None}
    power = power_of_board(board)
    assert power is not None
    assert power.switch == Uhubctl("one", bench, 30.0, "1-1", 2)
    assert load_board("nucleo-l476rg").unit is None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("one@bench", ["one"]),
        ("arch=armv7e-m", ["one", "three"]),
        ("arch=armv7e-m@bench", ["one", "three"]),
        ("ram>=264K,ram<=300K", ["two"]),
        ("cpu=cortex-m4,flash>=1M,clock<=100M", ["one", "three"]),
        ("board=raspberry-pi-pico", ["two"]),
        ("site=a", ["one"]),
        ("name=three", ["three"]),
        ("feature=dsp,site=a", ["one"]),
    ],
)
def test_boards_are_selected_by_properties(bench: Path, text: str, names: list[str]) -> None:
    assert [board.unit and board.unit.name for board in selected_boards(text)] == names


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("on@bench", r"has no board 'on' \(did you mean one\?\)"),
        ("ram>=1G", "no board of the bench .* fits ram>=1G@bench; its boards: one "),
        ("colour=red", "boards have no property 'colour'"),
        ("ram>=lots", "ram: 'lots' is not a number"),
        ("arch>=armv7e-m", "arch is not a number"),
        ("arch=armv7e-m,@bench", "'' is no property of a board"),
    ],
)
def test_a_selector_that_selects_nothing(bench: Path, text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        selected_boards(text)


def test_properties_mean_a_lab_without_a_bench_file(bench: Path) -> None:
    assert lab_selector("cpu=cortex-m4") is None
    assert lab_selector("lab:cpu=cortex-m4") is not None
    bench.unlink()
    assert lab_selector("cpu=cortex-m4") is not None
    with pytest.raises(InputError, match=r"there is no hil-bench\.toml"):
        load_board("one@bench")
    assert str(parse_selector("ram>=64K,cpu=cortex-m4")) == "ram>=64K,cpu=cortex-m4@bench"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[board.one]", r"board: unknown key \(did you mean boards\?\)"),
        ("[boards.one]\nprobe = '1'", r"boards\.one\.board: the key is missing"),
        ("[boards.one]\nboard = 'x'\nprob = '1'", r"boards\.one\.prob: unknown key"),
        ("[boards.one]\nboard = 'x'\nline = { bad = 1 }", r"boards\.one\.line\.bad: unknown key"),
        ("[boards.one]\nboard = 'x'\nline = { baud = 0 }", r"line\.baud: 0 is not within"),
        ("[boards.'a b']\nboard = 'x'", "'a b' is not a name"),
        ("[boards.one]\nboard = 'no-such'", "unknown board 'no-such'"),
        ("[boards.one]\nboard = 'native'\npower = { on = 'x' }", "a bench file runs none"),
        ("[boards.one]\nboard = 'native'\npower = { of = 'x' }", r"power\.of: unknown key"),
    ],
)
def test_a_wrong_file_is_refused(bench: Path, text: str, problem: str) -> None:
    bench.write_text(text)
    with pytest.raises(HilError) as caught:
        power_of_board(load_board("one@bench"))
    assert re.search(problem, str(caught.value)), caught.value
    assert isinstance(caught.value, BoardError | InputError)


def test_a_description_is_relative_to_the_bench_file(bench: Path) -> None:
    own = bench.parent / "own.toml"
    own.write_text(load_board("nucleo-l476rg").path.read_text())
    bench.write_text("[boards.one]\nboard = './own.toml'\n")
    assert load_board("one@bench").path.samefile(own)


def test_another_file_is_named(bench: Path, tmp_path: Path, hil_json: Hil) -> None:
    other = tmp_path / "other.toml"
    other.write_text('[boards.host]\nboard = "native"\n')
    words = ("verify", str(DIGITS), "--board", "host@bench", "--samples", "1")
    answer = hil_json(*words, "--bench", str(other))
    assert answer["results"][0]["board"] == "native"
    assert "has no board 'host'" in hil_json(*words, code=2)["error"]["message"]


@pytest.mark.parametrize("option", ["--probe=1", "--port=loop://", "--runner=qemu"])
def test_how_a_board_is_reached_is_not_given_twice(bench: Path, hil_json: Hil, option: str) -> None:
    answer = hil_json("run", str(DIGITS), "--board=three@bench", option, code=2)
    assert f"{option.partition('=')[0]} is given for three@bench" in answer["error"]["message"]


def test_an_emulated_board_of_the_bench(bench: Path) -> None:
    with hil.open("three@bench", str(DIGITS)) as device:
        assert device.hello.board == "mps2-an386"


# -- boards behind probes: emulated machines on a stand-in for USB ---------------------------------


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(rig: Bench, *names: str) -> None:
    boards = [rig.add() for _ in names]
    text = ""
    for name, board in zip(names, boards, strict=True):
        text += f'[boards.{name}]\nboard = "{BOARD}"\nprobe = "{board.serial}"\n'
        text += f'port = "usb:{board.serial}"\n'
    Path("hil-bench.toml").write_text(text)


def test_a_named_board_is_programmed_and_verified(rig: Bench, hil_json: Hil) -> None:
    write(rig, "left", "right")
    for name in ("left", "right"):
        words = ("verify", str(DIGITS), "--board", f"{name}@bench", "--samples", "1")
        (found,) = hil_json(*words)["results"]
        assert found["match"]
        assert found["provenance"]["line"] == {"port": read_bench()[name].port, "proven": True}


def test_two_boards_of_one_type_in_one_command(rig: Bench, hil_json: Hil) -> None:
    write(rig, "left", "right")
    boards = ("--board", "left@bench", "--board", "right@bench")
    found = hil_json("verify", str(DIGITS), *boards, "--samples", "1")["results"]
    lines = [each["provenance"]["line"]["port"] for each in found]
    assert lines == [unit.port for unit in read_bench().values()]


def test_the_first_free_board_is_taken(rig: Bench, hil_json: Hil) -> None:
    write(rig, "left", "right")
    units = read_bench()
    with held_board("arch=armv7e-m") as first, held_board("arch=armv7e-m") as second:
        assert [first.unit, second.unit] == [units["left"], units["right"]]
        none = ("reset", "--board", "arch=armv7e-m")
        ended = subprocess.run([*rig.hil, *none], capture_output=True, text=True, timeout=120)
        assert ended.returncode == 4
        assert "left (mps2-an386): in use by process" in ended.stderr
    rig.boards[0].unplug()
    with held_board("arch=armv7e-m") as found:
        assert found.unit == units["right"]
    with (
        board_lock("it", str(units["right"].probe)),
        pytest.raises(ProbeError) as caught,
        held_board("arch=armv7e-m"),
    ):
        pass
    assert "left (mps2-an386): not connected" in caught.value.fact
    assert "right (mps2-an386): in use by this process" in caught.value.fact


def test_a_late_board_is_awaited(rig: Bench, hil_json: Hil) -> None:
    write(rig, "left")
    (board,) = rig.boards
    words = ("verify", str(DIGITS), "--board", "left@bench", "--samples", "1")
    board.unplug()
    (failed,) = hil_json(*words, code=4)["results"]
    assert "is not connected" in failed["error"]["message"]
    board.plug(after_s=2.0)
    (found,) = hil_json(*words, "--wait", str(PATIENCE_S))["results"]
    assert found["match"]


def test_a_board_in_use_is_awaited(rig: Bench) -> None:
    write(rig, "left")
    flash = ("flash", str(DIGITS), "--board", "left@bench")
    with held_board("left@bench"):
        ended = subprocess.run([*rig.hil, *flash], capture_output=True, text=True, timeout=120)
        assert ended.returncode == 4
        assert "the board left@bench is in use by process" in ended.stderr
        words = [*rig.hil, *flash, "--wait", str(PATIENCE_S)]
        waiting = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    output, errors = waiting.communicate(timeout=PATIENCE_S)
    assert waiting.returncode == 0, output + errors


SUITE = """
import pytest
from hil.access.board_lock import is_own

@pytest.mark.hil(model={model!r})
@pytest.mark.parametrize("number", range(4))
def test_model(hil_device, number):
    assert hil_device.port in {ports!r}
    assert is_own(hil_device.port.partition(":")[2])
"""


def test_pytest_takes_the_boards_of_a_bench(rig: Bench, tmp_path: Path) -> None:
    write(rig, "left", "right")
    ports = {unit.port for unit in read_bench().values()}
    (tmp_path / "test_suite.py").write_text(SUITE.format(model=str(DIGITS), ports=ports))
    # In one process: others would not find the stand-in for USB.
    words = [*rig.python, "-m", "pytest", "-q", "-pno:cacheprovider", "test_suite.py"]
    for spec in ("arch=armv7e-m@bench", "right@bench"):
        ended = subprocess.run(
            [*words, f"--hil-board={spec}"], capture_output=True, text=True, timeout=300
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert "4 passed" in ended.stdout
    refused = subprocess.run(
        [*words, "--hil-board=left@bench", "--hil-port=loop://"], capture_output=True, text=True
    )
    assert "--hil-port is given for left@bench" in refused.stderr
