"""Exported libraries of plain C code: their examples, licenses, and what takes no such code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import export_hosts as hosts
import pytest
from campaigns import sampled
from stateful import keyword_file

import hil
import hilc
from hil.board import load_board
from hil.cli import main
from hil.errors import InputError
from hil.export import About

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.tflite"
FORMATS = ("cmake", "zephyr", "arduino", "cmsis-pack", "platformio", "esp-idf")
PASSED = "digits: Identity: 0 of 10 values are wrong\ndigits: passed\n"


@pytest.mark.parametrize("board", sampled(["mps2-an386", "riscv-virt"], keep=["mps2-an386"]))
def test_outputs_on_a_board_equal_the_reference(board: str, tmp_path: Path) -> None:
    """The example, built with the toolchain of the board's core, runs in QEMU."""
    library = tmp_path / "a library"
    hil.export(DIGITS, "cmake", library, board=board, style="plain")
    assert "tvm" not in (library / "example" / "main.c").read_text()
    (toolchain,) = (library / "example").glob("toolchain-*.cmake")
    program = hosts.build_cmake(library, tmp_path / "a build", toolchain)
    assert hosts.run_on_qemu(load_board(board), program) == PASSED


@pytest.mark.parametrize("name", sampled(FORMATS, keep=["arduino", "platformio"]))
def test_the_example_of_each_format_runs_here(name: str, tmp_path: Path) -> None:
    library, build = tmp_path / "a library", tmp_path / "a build"
    hil.export(DIGITS, name, library, style="plain")
    match name:
        case "cmake":
            program: Path | None = hosts.build_cmake(library, build)
        case "zephyr":
            program = hosts.build_zephyr(library / "samples" / "digits", build)
        case "esp-idf":
            program = hosts.build_esp_idf(library, "digits", build)
        case "arduino":
            (sketch,) = library.rglob("*.ino")
            program = hosts.build_arduino(library, sketch, build)
        case "platformio":
            source = library / "examples" / "digits" / "src" / "main.c"
            program = hosts.build_files(library, source, build)
        case _:
            program = hosts.build_files(library, library / "template" / "main.c", build)
    assert program is not None
    assert hosts.run(program) == PASSED


@pytest.mark.parametrize(
    "options",
    [{"pools": "external"}, {"io_in_pool": True}, {"pools": "external", "io_in_pool": True}],
    ids=str,
)
def test_examples_call_every_kind_of_interface(tmp_path: Path, options: dict[str, Any]) -> None:
    """Also of a model with states."""
    libraries = [
        hilc.compile(model, style="plain", name=name, **options)
        for model, name in ((DIGITS, "digits"), (keyword_file(), "words"))
    ]
    hil.export(libraries, "cmake", tmp_path / "both", about=About(name="both"))
    program = hosts.build_cmake(tmp_path / "both", tmp_path / "a build")
    assert hosts.run(program).endswith("both: passed\n")


def test_file_names_differ_in_more_than_case(tmp_path: Path) -> None:
    """Arduino's own header would be Digits.h, beside digits.h."""
    done = hil.export(DIGITS, "arduino", tmp_path, style="plain")
    names = [path.lower() for path in done.files]
    assert len(set(names)) == len(names)
    assert "includes=digits.h" in (tmp_path / "library.properties").read_text()


def test_each_file_states_its_license(tmp_path: Path) -> None:
    """The file with the weights that of the model, too."""
    about = About(license="MIT")
    done = hil.export(DIGITS, "cmsis-pack", tmp_path, style="plain", about=about)
    heads = {
        path: (tmp_path / path).read_text().splitlines()[0]
        for path in done.files
        if path.startswith(("src/", "include/"))
    }
    assert heads.pop("src/digits.c") == "/* SPDX-License-Identifier: Apache-2.0 AND MIT */"
    assert set(heads.values()) == {"/* SPDX-License-Identifier: Apache-2.0 */"}
    assert "`digits.c`, are licensed under MIT" in (tmp_path / "README.md").read_text()


def test_the_command_writes_plain_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compile", str(DIGITS), "-o", str(tmp_path / "out"), "--style", "plain", "--json"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["exit_code"] == 0
    names = {path.name for path in (tmp_path / "out" / "codegen" / "host" / "src").iterdir()}
    assert names == {"digits.c"}


def test_without_the_option_the_code_is_tvms(tmp_path: Path) -> None:
    for command in (["compile"], ["export", "--build-system", "cmake"]):
        folder = tmp_path / command[0]
        assert main([*command, str(DIGITS), "-o", str(folder), "-q"]) == 0
        assert [*folder.rglob("tvmgen_digits.h")]


def test_the_firmware_of_hil_takes_no_plain_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = hilc.compile(DIGITS, cpu="cortex-m4", style="plain")
    library.save(tmp_path / "plain.tar")
    command = ["build", str(tmp_path / "plain.tar"), "--board", "mps2-an386"]
    assert main([*command, "-o", str(tmp_path / "out")]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "'digits' was compiled to plain C code, which the firmware of hil does not call" in said
    assert re.search("hint: compile it with --style tvm", said)
    with pytest.raises(InputError, match="plain C code"), hil.open("mps2-an386", library):
        pass
    assert main([*command[:1], str(DIGITS), *command[2:], "--style", "plain"]) == 2
    assert "plain C code" in capsys.readouterr().err
