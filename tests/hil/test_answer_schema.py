"""Every command's JSON answer, against the schema: of a result where no lab is needed, else of an
error. All other tests that read answers validate them too (tests/support/harness/answers.py).
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import answers
import numpy as np
import pytest

from hil.cli import main
from hil.cli.command_line import build_parser
from hil.results.answer import COMBINED, ENTRIES, command_of
from hil.results.schema import answer_schema, commands, reference_page

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits"
BOARD = "mps2-an386"

#: A line of each command, and its exit code.
LINES: dict[str, tuple[str, int]] = {
    "boards": ("boards microbit", 0),
    "boards --connected": ("boards --connected", 0),
    "board identify": ("board identify one --board native --port loop://", 0),
    "board new": ("board new my-board --base microbit", 0),
    "board prove": (f"board prove {BOARD}", 0),
    "help": ("help verify", 0),
    "completion": ("completion bash", 0),
    "doctor": ("doctor --board native", 0),
    "compile": (f"compile digits.tflite --board {BOARD} -o digits.tar", 0),
    "explain": (f"explain digits.tflite --board {BOARD}", 0),
    "explain --frontier": (f"explain digits.tflite --board {BOARD} --frontier", 0),
    "fit": (f"fit digits.tflite --board {BOARD}", 0),
    "export": (f"export digits.tflite --build-system arduino --board {BOARD} -o arduino_lib", 0),
    "build": (f"build digits.tflite --board {BOARD}", 0),
    "run --elf": ("run --elf /bin/true --board native", 0),
    "run": ("run digits.tflite --board native", 0),
    "verify": ("verify a=digits.tflite b=digits.tflite --board native --samples 1 --per-layer", 0),
    "bench": (f"bench digits.tflite --board {BOARD} --history h.db", 0),
    "evaluate": ("evaluate digits.tflite --data x.npz --labels y.npy --board native", 0),
    "report": ("report digits.tflite --board native --samples 1 -o page.html", 0),
    "history": ("history --history h.db", 0),
    "compare": ("compare 1 1 --history h.db", 0),
    "gate": (f"gate digits.tflite --board {BOARD} --baseline 1 --history h.db --max-slower 0", 0),
    "quantize": ("quantize digits.tflite --data absent.npz -o q.onnx", 2),
    "tune": (f"tune digits.tflite --board {BOARD} -o log.json --programs 0", 0),
    "mlperf": (f"mlperf digits.tflite --board {BOARD} --benchmark ic01 --seconds 0.01", 0),
    "monitor": (f"monitor --board {BOARD} --seconds 0.1", 0),
    "flash": ("flash digits.tflite --board microbit --probe virtual", 0),
    "erase": ("erase --board microbit --probe virtual", 0),
    "reset": ("reset --board microbit --probe absent", 4),
    "power": ("power cycle --board microbit", 2),
    "debug": ("debug digits.tflite --board microbit", 0),
    "lab list": ("lab list", 4),
    "lab watch": ("lab watch --once", 4),
    "lab serve": ("lab serve no-such-board", 2),
    "lab reap": ("lab reap", 4),
    "tvmc compile": ("tvmc compile digits.tflite --target c -o t.tar --output-format mlf", 0),
    "tvmc micro create": ("tvmc micro create p t.tar zephyr --project-option board=native", 0),
    "tvmc micro create-project": ("tvmc micro create-project q absent.tar zephyr", 2),
    "tvmc micro build": ("tvmc micro build p zephyr", 0),
    "tvmc micro flash": ("tvmc micro flash p zephyr", 0),
    "tvmc run": ("tvmc run --device micro p", 0),
}


def parsed_commands(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[str]:
    """The commands that take ``--json``, from the parser itself."""
    groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    for group in groups:
        for name, sub in group.choices.items():
            yield from parsed_commands(sub, (*words, name))
    if not groups and any(action.dest == "format" for action in parser._actions):
        yield " ".join(words)


def test_each_command_has_an_entry_and_a_line() -> None:
    (group,) = [a for a in build_parser([])._actions if isinstance(a, argparse._SubParsersAction)]
    # A group of commands is read when the command line names it.
    whole = [build_parser([name, "micro"]) for name in group.choices]
    found = {name for parser in whole for name in parsed_commands(parser)}
    found = found - {"board", "lab", "tvmc", "tvmc micro"} | {
        "explain --frontier",
        "boards --connected",
        "run --elf",
    }
    assert found == set(commands())
    assert found == set(LINES)
    assert set(ENTRIES) >= COMBINED == {"verify", "bench", "build"}


#: The command whose files a command needs.
NEEDS = {
    **dict.fromkeys(("history", "compare", "gate"), "bench"),
    "tvmc micro create": "tvmc compile",
    "tvmc micro build": "tvmc micro create",
    **dict.fromkeys(("tvmc micro flash", "tvmc run"), "tvmc micro build"),
}
_DONE: set[str] = set()


def prepare(command: str) -> None:
    """Run what a command needs, unless this process has."""
    needed = NEEDS.get(command)
    if needed is not None and needed not in _DONE:
        prepare(needed)
        assert main(shlex.split(LINES[needed][0])) == 0
        _DONE.add(needed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("answers")
    shutil.copy(DIGITS / "digits.tflite", place)
    with np.load(DIGITS / "digits_test.npz") as data:
        np.savez(place / "x.npz", **{name: array[:3] for name, array in data.items()})
    np.save(place / "y.npy", np.load(DIGITS / "digits_labels.npy")[:3])
    return place


@pytest.mark.parametrize("command", LINES)
def test_answer(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HIL_CONFIG", str(folder / "config.toml"))
    monkeypatch.setenv("LG_COORDINATOR", "127.0.0.1:1")
    prepare(command)
    capsys.readouterr()
    line, code = LINES[command]
    if command == "debug":
        text = _first_answer(line)
    else:
        assert main([*shlex.split(line), "--json"]) == code, capsys.readouterr().err
        text = capsys.readouterr().out
    _DONE.add(command)
    data = answers.answer(text)
    assert (data["command"], data["exit_code"]) == (command_of(command), code)
    # Where nothing is plugged in, as in CI, the list is empty.
    assert bool(data["results"]) == (code == 0) or command == "boards --connected"
    assert ("error" in data) == (code != 0)


def _first_answer(line: str) -> str:
    """The answer of a command that serves until it is interrupted."""
    words = [sys.executable, "-m", "hil", *shlex.split(line), "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        text = "".join(iter(process.stdout.readline, "}\n")) + "}"
        process.terminate()
    return text


def test_a_wrong_answer_is_found(folder: Path) -> None:
    good: dict[str, Any] = {"schema": 1, "command": "lab reap", "exit_code": 0, "results": []}
    answers.check(good)
    good["results"] = [{"place": "a"}]
    answers.check(good)
    changes: list[dict[str, Any]] = [
        {"schema": 2},
        {"exit_code": "0"},
        {"results": [{"place": 1}]},
        {"results": [{}]},
        {"results": [{"place": "a", "other": 1}]},
        {"places": []},
        {"error": {"message": "m", "hint": "", "class": "input"}},
    ]
    for change in changes:
        with pytest.raises(AssertionError):
            answers.check({**good, **change})


def test_an_error_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bords", "--json"]) == 2
    found = answers.answer(capsys.readouterr().out)
    assert (found["command"], found["results"]) == ("", [])
    assert "bords" in found["error"]["message"]


def test_the_committed_schema_is_that_of_the_types() -> None:
    committed = json.loads((ROOT / "docs" / "reference" / "hil.schema.json").read_text())
    assert committed == answer_schema()
    assert "### hil verify" in reference_page()


def test_json_has_one_name_for_each_figure() -> None:
    """A count of bytes ends in ``bytes``, ``layers`` is a list, ``size`` counts elements."""
    found = answer_schema()["$defs"]
    keys = {(kind, key) for kind, one in found.items() for key in one.get("properties", {})}
    assert not {key for _, key in keys} & {"nbytes", "io_in_pool"}
    assert {kind for kind, key in keys if key == "size"} == {"Diagnosis", "FixedSize"}
    layers = [found[kind]["properties"][key] for kind, key in keys if key == "layers"]
    assert layers
    assert all('"array"' in json.dumps(one) for one in layers)
