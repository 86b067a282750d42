"""Paths that hold what shells, CMake, Ninja and linkers read as their own: built, or refused."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from campaigns import cases, sampled
from small_models import convolutions, moves
from tiny_library import tiny_library

import hilc
from hil.board import load_board
from hil.build import build
from hil.cli import main
from hil.errors import BoardError, InputError
from hilc.support.resources import data_dir

BOARD = load_board("mps2-an386")
#: Of files whose names are no UTF-8.
ENDS = (b".tflite", b".npz", b"")
#: A locale whose file names are ASCII.
IN_ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0"}
#: Each of them has broken a tool somewhere.
ODD = "a b,c=d#$e'f%(g)[\N{MICRO SIGN}]&*:<~`"


def image(elf: Path, target: Path) -> bytes:
    command = ["arm-none-eabi-objcopy", "-O", "binary", str(elf), str(target)]
    subprocess.run(command, check=True)
    return target.read_bytes()


@pytest.mark.full
@cases("codegen", ["c", "llvm"], first=1)
def test_a_firmware_is_built_anywhere(
    codegen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same image and the same sizes, which come from a link map full of paths."""
    options = {"cpu": BOARD.cpu.name, "name": "net", "pools": "external", "codegen": codegen}
    library = hilc.compile(moves(), **options)  # type: ignore[call-overload]
    found = []
    for name in ("plain", ODD):
        monkeypatch.setenv("HIL_CACHE", str(tmp_path / name))
        firmware = build([library], BOARD)
        assert str(tmp_path).encode() not in firmware.elf.read_bytes()
        found.append((image(firmware.elf, tmp_path / "image"), firmware.sizes))
    assert found[0] == found[1]


@pytest.mark.parametrize("character", [";", '"', "\\", "|", "\n", "${", "$(", "$<"])
@pytest.mark.parametrize("place", ["output", "cache"])
def test_a_folder_that_cmake_misreads_is_refused(
    place: str, character: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / f"a{character}b"
    monkeypatch.setenv("HIL_CACHE", str(folder if place == "cache" else tmp_path / "cache"))
    library = tiny_library("y[0] = x[0];")
    with pytest.raises(InputError, match="CMake cannot build in ") as caught:
        build([library], BOARD, folder / "project" if place == "output" else None)
    assert f"the path has {character!r} in it" in caught.value.fact
    assert ("-o" if place == "output" else "HIL_CACHE") in caught.value.hint
    assert not folder.exists()


@pytest.mark.parametrize("name", sampled([ODD, 'a;b"c|d', "a\nb", "-o", "9*"], keep=[ODD, "-o"]))
def test_models_and_boards_have_any_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What of a name gets into C is made fit for it."""
    monkeypatch.chdir(tmp_path)
    model, board = tmp_path / f"{name}.tflite", tmp_path / f"{name}.toml"
    model.write_bytes(convolutions())
    shutil.copy(BOARD.path, board)
    if "\n" in name:
        with pytest.raises(BoardError, match="has an invalid name for a board"):
            load_board(board)
        board = BOARD.path
    assert main(["verify", str(model), "--board", str(board), "--samples", "1", "--json"]) == 0
    assert main(["compile", str(model), "-o", f"{tmp_path}/{name}.tar"]) == 0
    capsys.readouterr()


@pytest.mark.full
def test_a_checkout_lies_anywhere(tmp_path: Path) -> None:
    """And is read-only, as an installation is."""
    checkout = tmp_path / f'{ODD[:12]};"|'.replace(":", "")
    checkout.mkdir()
    for name in ("hil", "compiler", "targets", "firmware_template"):
        source = data_dir("targets").parent / name
        shutil.copytree(source, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (checkout, *checkout.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    model = tmp_path / "net.tflite"
    model.write_bytes(convolutions())
    environment = {
        **os.environ,
        "PYTHONPATH": f"{checkout}:{checkout / 'compiler'}",
        "HIL_CACHE": str(tmp_path / "cache"),
        "PYTHONPYCACHEPREFIX": str(tmp_path / "bytecode"),
    }
    command = [sys.executable, "-m", "hil", "verify", str(model), "--board", "native"]
    done = subprocess.run(
        [*command, "--samples", "1", "--codegen", "llvm"],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    for path in (checkout, *checkout.rglob("*")):
        path.chmod(0o755)
    assert done.returncode == 0, done.stderr


@pytest.mark.full
def test_a_name_that_is_no_text_can_be_told(tmp_path: Path) -> None:
    """File names are bytes; stdout may have an encoding that has no words for them."""
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xb5.toml")
    shutil.copy(BOARD.path, path)
    for encoding in ("ascii", "utf-8"):
        environment = {**os.environ, "PYTHONIOENCODING": encoding}
        command = [sys.executable, "-m", "hil", "boards", path]
        done = subprocess.run(command, env=environment, capture_output=True, timeout=60)
        assert done.returncode == 2
        assert b"has an invalid name for a board" in done.stderr
        assert b"Traceback" not in done.stderr
        script = r"from hil.cli.console import Console; Console(False).line('\u03bc \udcff')"
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, timeout=60
        )
        assert re.fullmatch(rb"(\\u03bc|\xce\xbc) \\udcff\n", done.stdout), done.stderr


@pytest.mark.full
@pytest.mark.parametrize("environment", sampled([{}, IN_ASCII], keep=[IN_ASCII]))
def test_names_that_are_no_text_are_names(tmp_path: Path, environment: dict[str, str]) -> None:
    """Of inputs and of outputs; what is read as JSON or HTML holds them with their bytes named."""
    environment = {**os.environ, "PYTHONCOERCECLOCALE": "0", **environment}
    model, data, folder = (os.fsencode(tmp_path) + b"/\xff\xb5\xc3\xbc" + end for end in ENDS)
    digits = Path(__file__).parents[2] / "examples" / "digits"
    shutil.copy(digits / "digits.tflite", os.fsdecode(model))
    shutil.copy(digits / "digits_test.npz", os.fsdecode(data))

    def run(*words: bytes | str) -> None:
        command = [sys.executable, "-m", "hil", *words, "--board", BOARD.name]
        done = subprocess.run(command, env=environment, capture_output=True, timeout=200)
        assert done.returncode == 0, done.stderr.decode("utf-8", "replace")

    run("build", model, "-o", folder)
    run("explain", model, "-o", folder + b".svg")
    labels = str(digits / "digits_labels.npy")
    run("evaluate", model, "--data", data, "--labels", labels, "--samples", "2")
    run("report", model, "-o", folder + b".html", "--results", folder + b".json", "--samples", "1")
    text = Path(os.fsdecode(folder + b".json")).read_text("utf-8")
    assert r"\\xff\\xb5\u00fc.tflite" in text
