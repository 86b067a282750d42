"""The porting guide: its command lines parse, what they name exists, its Python runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import small_models

import hilc
from hil.cli.command_line import build_parser
from hil.compat.tvm.tvmc_flags import _MISSING_FLAGS, translate
from hil.compat.tvm.tvmc_project import find_board, parse_options

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "how-to" / "microtvm.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ (hil .*)$", GUIDE, re.MULTILINE)
PYTHON = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)


def test_there_is_something_to_check() -> None:
    assert len(COMMANDS) > 10
    assert len(PYTHON) == 1


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_is_one(line: str) -> None:
    args = build_parser().parse_args(shlex.split(line)[1:])
    if line.startswith("hil tvmc compile"):
        assert translate(args).options["name"] == "net"
    elif line.startswith("hil tvmc"):
        options = parse_options(args.project_option)
        assert options.board is None or find_board(options.board).name == "mps2-an386"
    for spec in getattr(args, "external", []):
        assert (ROOT / spec.partition(",")[0]).is_file()


@pytest.mark.parametrize("flag", sorted(set(re.findall(r"`(?:run )?(--[a-z-]+)", GUIDE))))
def test_a_flag_is_one(flag: str) -> None:
    """Of some command: the tables name flags without their commands."""
    lines = ["tvmc compile f", "tvmc run p", "tvmc micro create p m zephyr", "verify m --board b"]
    parsers = [build_parser().parse_args(shlex.split(line)).parser for line in lines]
    known = {option for parser in parsers for option in parser._option_string_actions}
    # Of `hil tvmc` itself, without a command; and what is refused by name.
    known |= {"--version", *_MISSING_FLAGS}
    # `--target-c-...` stands for all of them.
    assert flag in known or any(option.startswith(flag) for option in known), flag


def test_the_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.tflite").write_bytes(small_models.convolutions())
    monkeypatch.chdir(tmp_path)
    for text in PYTHON:
        exec(compile(text, "microtvm.md", "exec"), {})
    assert [m.name for m in hilc.ModelLibrary.load("net.tar").modules] == ["net"]


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`((?:examples|targets|firmware_template)/[\w/]+)`", GUIDE)))
)
def test_a_path_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_the_contents_name_every_section() -> None:
    sections = re.findall(r"^## (.+)$", GUIDE, re.MULTILINE)
    assert re.findall(r"^- \[(.+?)\]", GUIDE, re.MULTILINE) == sections
