"""The second `hil compile` of one request: the same answer, without loading the compiler."""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from answers import entry as read_entry
from campaigns import cases
from small_models import convolutions

from hil.cli.actions import compile_cache as answers
from hil.cli.actions.compile_cache import Answer, answer_key, keep_answer, kept_answer
from hil.cli.command_line import build_parser
from hil.support.cache import cache_folder
from hilc.errors import InputError


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model, with a cache that is empty."""
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "net.tflite"
    path.write_bytes(convolutions())
    return path


def parsed(*words: object) -> argparse.Namespace:
    given = ["compile", *map(str, words)]
    args = argparse.Namespace()
    _, unknown = build_parser(given).parse_known_args(given, args)
    assert not unknown
    return args


def run(*words: object) -> str:
    """The stdout of a command in a process of its own; it says there what it loaded."""
    program = "import sys; from hil.cli import main; code = main(sys.argv[1:]); "
    program += "print('numpy' in sys.modules, 'hilc.compiler' in sys.modules, file=sys.stderr)"
    command = [sys.executable, "-c", f"{program}; sys.exit(code)", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    loaded = done.stderr.splitlines()[-1]
    return f"{loaded}\n{done.stdout}"


def said(text: str, output: Path) -> list[str]:
    """The lines, without what was loaded, the library's path and the time."""
    text = text.replace(str(output), "OUTPUT")
    return re.sub(r"[0-9.]+ s$", "", text, flags=re.MULTILINE).splitlines()[1:]


@pytest.mark.full
@cases("suffix", [".tar", ""], first=1)
def test_the_second_time_nothing_is_loaded(suffix: str, model: Path, tmp_path: Path) -> None:
    words = ["compile", model, "--board", "mps2-an386", "--ram", "64K", "-o"]
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"
    told = run(*words, first)
    assert told.startswith("True True\n")
    again = run(*words, second)
    assert again.startswith("False False\n")
    assert said(again, second) == said(told, first)
    assert files(first) == files(second)
    as_json = read_entry(run(*words, second, "--json").partition("\n")[2])
    assert as_json["output"] == str(second)
    assert as_json["choice"]["chosen"]["workspace_bytes"] < 65536


def files(path: Path) -> dict[str, bytes]:
    if path.is_file():
        return {"": path.read_bytes()}
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


@pytest.mark.full
def test_the_second_time_takes_a_part_of_the_first(model: Path, tmp_path: Path) -> None:
    """In processor time: about a tenth."""
    words = ["-m", "hil", "compile", str(model), "--cpu", "cortex-m4", "-o", str(tmp_path / "a/")]
    spent: list[float] = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], check=True, capture_output=True, timeout=120)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    assert min(spent[1:]) < spent[0] / 2, spent


@pytest.mark.full
def test_whatever_goes_in_is_in_the_key(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, board = tmp_path / "log.json", tmp_path / "own.toml"
    log.write_text("{}")
    board.write_text('base = "mps2-an386"\n')
    variants: list[list[object]] = [
        [model],
        [f"other={model}"],
        [model, model],
        [model, "--cpu", "cortex-m4"],
        [model, "--cpu", "cortex-m3"],
        [model, "--board", "mps2-an386"],
        [model, "--optimize", "size"],
        [model, "--ram", "64K"],
        [model, "--feed", "rows"],
        [model, "--tuning", log],
    ]

    def keys() -> list[str | None]:
        return [answer_key(parsed(*words, "-o", "x.tar")) for words in variants]

    first = keys()
    assert None not in first
    assert len(set(first)) == len(variants)
    assert keys() == first
    assert answer_key(parsed(model, "-o", "y.tar", "--json", "--force")) == first[0]
    log.write_text("{ }")
    assert [a == b for a, b in zip(keys(), first, strict=True)] == [True] * 9 + [False]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    dated = keys()
    assert not set(dated) & set(first)
    for part in ("compiler_identity", "harness_identity"):
        with monkeypatch.context() as patched:
            patched.setattr(answers, part, lambda: "another")
            assert not set(keys()) & set(dated)
    model.write_bytes(model.read_bytes() + b"\0")
    assert not set(keys()) & set(dated)


def test_what_no_key_describes_is_not_kept(model: Path, tmp_path: Path) -> None:
    other = tmp_path / "net.onnx"
    other.write_bytes(b"\x08\x08")
    (tmp_path / "folder").mkdir()
    for words in (
        [model, "--external", "generator.py"],
        [model, "--constant", "x=x.npy"],
        [model, "--codegen", "llvm"],
        [model, "--tuning", tmp_path / "absent.json"],
        [other],
        [tmp_path / "folder"],
        [tmp_path / "absent.tflite"],
    ):
        assert answer_key(parsed(*words, "-o", "x.tar")) is None, words
    with pytest.raises(InputError, match="unknown CPU"):
        answer_key(parsed(model, "--cpu", "cortex-m99", "-o", "x.tar"))


@pytest.mark.parametrize(
    "damage", ["archive cut", "archive gone", "about changed", "about cut", "renamed"]
)
def test_a_damaged_answer_counts_as_missing(damage: str, model: Path) -> None:
    answer = Answer([{"model": "net"}], ["a line"], {"metadata.json": b"{}", "a/b.c": b"int x;"})
    keep_answer("k" * 32, answer)
    assert kept_answer("k" * 32) == answer
    kept, other = (cache_folder() / "answers" / (letter * 32) for letter in "ko")
    archive, about = kept.with_suffix(".tar"), kept.with_suffix(".json")
    if damage == "archive cut":
        archive.write_bytes(archive.read_bytes()[:-2000])
    elif damage == "archive gone":
        archive.unlink()
    elif damage == "about changed":
        about.write_text(about.read_text().replace("a line", "a lime"))
    elif damage == "renamed":
        keep_answer("o" * 32, Answer([{"model": "other"}], ["another line"], {"b": b""}))
        for own in (archive, about):
            other.with_suffix(own.suffix).replace(own)
    else:
        about.write_text(about.read_text()[:-10])
    assert kept_answer("k" * 32) is None


@pytest.mark.full
@cases("word", ["pipe.tflite", "net=pipe.tflite"], first=1)
def test_a_pipe_is_not_waited_for(word: str, model: Path, tmp_path: Path) -> None:
    """Nobody may ever write to it."""
    os.mkfifo(tmp_path / "pipe.tflite")
    command = [sys.executable, "-m", "hil", "compile", word, "-o", "x.tar"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "pipe.tflite is not a regular file" in done.stderr


def test_a_cache_that_cannot_be_written(model: Path) -> None:
    cache_folder().write_text("a file in place of the folder")
    keep_answer("k" * 32, Answer([], [], {}))
    assert kept_answer("k" * 32) is None
