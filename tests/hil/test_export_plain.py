"""Plain C code in exported libraries and in the firmware of hil."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import export_hosts as hosts
import numpy as np
import pytest
from campaigns import sampled
from onnx_control_flow import control_flow_model
from stateful import keyword_file, samples

import hil
import hilc
from hil.board import load_board
from hil.cli import main
from hil.errors import InputError
from hil.export import About
from hilc.errors import LoopBoundError
from hilc.frontends import load_model

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


#: Options of libraries that the firmware runs: memory of the caller, or static in the code.
MEMORY: dict[str, dict[str, Any]] = {
    "static": {},
    "caller's": {"pools": "external"},
    "in pools": {"pools": "external", "io_in_pool": True},
}


@pytest.mark.parametrize("way", MEMORY)
def test_the_firmware_runs_plain_code(way: str) -> None:
    """Three models in one image: of plain code, with a loop, and with microTVM's names."""
    cpu = load_board("mps2-an386").cpu.name
    loop = control_flow_model("loop_in_loop")
    libraries = [
        hilc.compile(DIGITS, cpu=cpu, style="plain", name="digits", **MEMORY[way]),
        hilc.compile(
            loop, cpu=cpu, style="plain", name="turns", loop_bounds={"y": 5, "u": 6}, **MEMORY[way]
        ),
        hilc.compile(DIGITS, cpu=cpu, name="other"),
    ]
    (image,) = samples(load_model(DIGITS.read_bytes()), 1)
    with hil.open("mps2-an386", *libraries) as device, hilc.host.load(libraries[1]) as here:
        found = []
        for name in ("digits", "other"):
            device[name].set_input("image", image["image"])
            device[name].run()
            found.append(device[name].get_output(0))
        assert np.array_equal(found[0], found[1])
        for model in (device["turns"], here):
            model.set_input("x", np.ones(4, np.float32))
            model.set_input("n", np.array(3))
            model.run()
        assert np.array_equal(device["turns"].get_output(0), here.get_output(0))
        device["turns"].set_input("n", np.array(5))
        with pytest.raises(LoopBoundError, match="'u' exceeds its bound of 6"):
            device["turns"].run()
        with pytest.raises(InputError, match="static functions"):
            list(device["digits"].layer_outputs())
        assert device["digits"].profile() == []


@pytest.mark.parametrize("options", [{}, {"feed": "rows"}], ids=["states", "rows"])
def test_the_firmware_resets_and_feeds_plain_code(options: dict[str, Any]) -> None:
    model = DIGITS if options else keyword_file()
    inputs = samples(load_model(model), 4)
    found = []
    for style in ("tvm", "plain"):
        library = hilc.compile(model, style=style, pools="external", name="m", **options)
        with hil.open("native", library) as device:
            outputs: list[bytes] = []
            for values in (*inputs, *inputs[:1]):
                if len(outputs) == len(inputs):
                    device["m"].reset_state()
                for name, value in values.items():
                    device["m"].set_input(name, value)
                device["m"].run()
                outputs.append(device["m"].get_output(0).tobytes())
            found.append(outputs)
    assert found[0] == found[1]
    assert found[1][0] == found[1][-1] != found[1][1]


def test_commands_run_plain_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a model and of an archive."""
    archive = str(tmp_path / "plain.tar")
    command = ["compile", str(DIGITS), "--board", "native", "--style", "plain", "-o", archive]
    assert main(command) == 0
    for words in ([archive], [str(DIGITS), "--style", "plain"]):
        assert main(["verify", *words, "--board", "native", "--samples", "3"]) == 0
        assert "match over 3 samples" in capsys.readouterr().out
    assert main(["verify", archive, "--board", "native", "--per-layer"]) == 2
    assert "--style tvm" in capsys.readouterr().err
    command = ["bench", str(DIGITS), "--board", "mps2-an386", "--style", "plain", "--json"]
    assert main(command) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert result["per_inference"] > 0
    assert result["layers"] == []


@pytest.mark.parametrize(
    ("model", "options", "fact"),
    [(DIGITS, {"io_in_pool": True}, "inputs and outputs"), (keyword_file(), {}, "states")],
    ids=["inputs", "states"],
)
def test_static_memory_that_has_no_name_is_refused(
    model: Any, options: dict[str, Any], fact: str
) -> None:
    library = hilc.compile(model, style="plain", name="m", **options)
    with pytest.raises(InputError, match=f"the {fact} of 'm' lie in the static") as caught:
        hil.build([library], load_board("native"))
    assert "--pools external" in caught.value.hint
