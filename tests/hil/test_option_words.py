"""Options: one word has one meaning in all commands, and old words are refused with the new."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.cli import main
from hil.cli.command_line import build_parser
from hil.cli.parser import Parser


def commands(parser: Parser | None = None) -> Iterator[tuple[str, Parser]]:
    """Yield each command that runs, by its words; those of tvmc have tvmc's options."""
    found = parser or build_parser()
    children = found._commands.choices if found._commands else {}
    for name, child in children.items():
        if name != "tvmc":
            yield from commands(child)
    if not children:
        yield found.prog.removeprefix("hil "), found


def test_a_word_takes_the_same_everywhere() -> None:
    """A value in all commands or in none."""
    same_values = "--energy --samples --reference --input --format --from --base --baud --labels"
    forms: dict[str, dict[tuple[object, ...], list[str]]] = {}
    for name, parser in commands():
        for action in parser._actions:
            # Labels are those of samples; of a data set they may also be columns or an array.
            values = "WHERE" if "--labels" in action.option_strings else action.metavar
            for flag in action.option_strings:
                form: tuple[object, ...] = (action.nargs != 0,)
                if flag in same_values.split():
                    form = (*form, values)
                forms.setdefault(flag, {}).setdefault(form, []).append(name)
    # A reference is named, of the few whose arithmetic code can have, or of any to compare with.
    forms.pop("--reference")
    assert {flag: found for flag, found in forms.items() if len(found) > 1} == {}


@pytest.mark.parametrize(
    ("words", "new"),
    [
        ("build m.tflite --board native --energy", "--energy-mode"),
        ("quantize m.onnx --samples x.npz -o n.onnx", "--calibration"),
        ("board new mine --from microbit", "--base"),
        ("export m.tflite --format cmake -o out", "--build-system cmake"),
        ("export m.tflite --format=zephyr -o out", "--build-system zephyr"),
        ("compile m.onnx -o m.tar --input axes=a.npy", "--constant"),
        ("verify m.onnx --board native --input=axes=a.npy", "--constant"),
    ],
)
def test_an_old_word_is_refused(words: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    assert capsys.readouterr().err.endswith(f"hint: write {new}\n")


def test_run_still_takes_input_values() -> None:
    words = ["run", "m.tflite", "--board", "native", "--input", "x=x.npy"]
    args, _ = build_parser(words).parse_known_args(words)
    assert args.input == ["x=x.npy"]


def test_every_command_has_formats() -> None:
    """But for the one whose stdout is a protocol."""
    for name, parser in commands():
        if name == "mcp":
            continue
        flags = {flag: action for action in parser._actions for flag in action.option_strings}
        assert isinstance(flags.get("--format"), argparse.Action), name
        assert isinstance(flags.get("--json"), argparse.Action), name


def test_format_json_is_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = []
    for words in (["--json"], ["--format", "json"], ["--format=json", "--json"]):
        assert main(["boards", "native", *words]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1] == found[2]
    assert main(["boards", "native", "--format", "text"]) == 0
    assert capsys.readouterr().out.startswith("native")
    # An error is written in the format, too.
    assert main(["boards", "absent", "--format", "json"]) == 2
    assert json.loads(capsys.readouterr().out)["exit_code"] == 2
    assert main(["boards", "--bord", "--format=json"]) == 2
    assert json.loads(capsys.readouterr().out)["exit_code"] == 2


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        ("--format html", "hil boards has no format 'html'"),
        ("--json --format text", "--json and --format text are both given"),
    ],
)
def test_a_wrong_format(words: str, fact: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["boards", *words.split()]) == 2
    captured = capsys.readouterr()
    assert fact in captured.out + captured.err
