"""Archives that TVM wrote, through the command line: built, run, verified and measured as ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import answers
import numpy as np
import pytest
from campaigns import sampled
from tvm_archive import INPUTS, OUTPUTS, Style, expected, tvm_files, tvm_tar, write_tar

import hilc
from hil.cli import main
from hilc.target import get_cpu

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.tflite"
BOARD = "mps2-an386"

#: One of each way to be called and to get memory.
KINDS = (
    Style(5, pools="calls"),
    Style(pools="external", external_constants=True),
    Style(7, "packed", "packed", system_lib=True),
    Style(7, "packed", "unpacked", "calls"),
)


def hil_json(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    """The only entry of a command's answer, all of several, or the error that ended it."""
    assert main([*words, "--json"]) == code
    return answers.result(capsys.readouterr().out)


def samples(count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs and outputs by their names, samples along the first axis."""
    rng = np.random.default_rng(2)
    inputs = {
        name: rng.integers(-128, 127, (count, *shape), np.int8, endpoint=True)
        for name, (shape, _) in INPUTS.items()
    }
    outputs = [expected({n: a[i] for n, a in inputs.items()}) for i in range(count)]
    return inputs, {name: np.stack([output[name] for output in outputs]) for name in OUTPUTS}


@pytest.mark.parametrize("style", sampled(KINDS, keep=KINDS[2:3]), ids=str)
def test_each_command(style: Style, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tar = str(tvm_tar(tmp_path / "net.tar", style))
    inputs, outputs = samples(4)
    np.savez(tmp_path / "in.npz", **inputs)
    np.savez(tmp_path / "right.npz", **outputs)
    outputs["output1"] = outputs["output1"] + np.int16(1)
    np.savez(tmp_path / "wrong.npz", **outputs)

    report = hil_json(capsys, "build", tar, "--board", BOARD)
    assert [model["model"] for model in report["models"]] == ["default"]

    words = ["verify", tar, "--board", BOARD, "--inputs", str(tmp_path / "in.npz")]
    report = hil_json(capsys, *words, "--expect", str(tmp_path / "right.npz"))
    assert (report["match"], report["samples"]) == (True, 4)
    assert [output["name"] for output in report["outputs"]] == list(OUTPUTS)
    report = hil_json(capsys, *words, "--expect", str(tmp_path / "wrong.npz"), code=1)
    assert [output["mismatches"] for output in report["outputs"]] == [0, 4]

    given = []
    for name, array in inputs.items():
        np.save(tmp_path / f"{name}.npy", array[0])
        given += ["--input", f"{name}={tmp_path / name}.npy"]
    report = hil_json(capsys, "run", tar, "--board", BOARD, *given)
    wanted = expected({name: array[0] for name, array in inputs.items()})
    assert [output["values"] for output in report["outputs"]] == [
        answer.ravel().tolist() for answer in wanted.values()
    ]

    # Nothing computes what it should answer.
    refused = hil_json(capsys, "bench", tar, "--board", BOARD, code=2)
    assert "--no-check" in refused["hint"]
    report = hil_json(capsys, "bench", tar, "--board", BOARD, "--no-check")
    assert report["counter"] == "instructions"
    assert 0 < report["per_inference"] < 20_000
    assert report["workspace_bytes"] >= 80
    assert report["io_bytes"] == 34
    assert report["layers"] == []


def test_several_models_of_one_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tar = str(tvm_tar(tmp_path / "net.tar", Style(), ("one", "Two")))
    report = hil_json(capsys, "bench", tar, "--board", BOARD, "--no-check")
    # The module that sorts first in the archive is the image's first.
    assert [model["model"] for model in report] == ["Two", "one"]
    assert len({model["per_inference"] for model in report}) == 1


#: A board with a core that has no DSP instructions.
SMALLER = "lm3s6965evb"
FOR_M7 = "-keys=arm_cpu,cpu -mcpu=cortex-m7"


def test_c_for_another_core_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tar = str(tvm_tar(tmp_path / "net.tar", Style(target=f"c {FOR_M7}")))
    inputs, outputs = samples(4)
    np.savez(tmp_path / "in.npz", **inputs)
    np.savez(tmp_path / "right.npz", **outputs)
    words = ["verify", tar, "--board", SMALLER, "--inputs", str(tmp_path / "in.npz")]
    assert main([*words, "--expect", str(tmp_path / "right.npz"), "--json"]) == 0
    printed = capsys.readouterr()
    report = answers.entry(printed.out)
    assert (report["match"], report["samples"]) == (True, 4)
    assert f"'default' was compiled for cortex-m7, but {SMALLER} has a cortex-m3" in printed.err


@pytest.mark.full
def test_c_that_needs_another_core_does_not_build(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = tvm_files(Style(target=f"c {FOR_M7}"))
    files["codegen/host/src/default_lib1.c"] += (
        b"int32_t tvmgen_default_dot(int32_t a, int32_t b) {\n"
        b'    int32_t sum;\n    __asm__("smuad %0, %1, %2" : "=r"(sum) : "r"(a), "r"(b));\n'
        b"    return sum;\n}\n"
    )
    tar = str(write_tar(tmp_path / "net.tar", files))
    assert main(["build", tar, "--board", BOARD]) == 0
    capsys.readouterr()
    assert main(["build", tar, "--board", SMALLER]) == 3
    message = capsys.readouterr().err
    assert f"'default' was compiled for cortex-m7, but {SMALLER} has a cortex-m3" in message
    assert "smuad" in message
    assert "hint: choose a board with a cortex-m7, or ask for an archive generated for" in message


def test_an_object_for_another_core_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compiler = ("arm-none-eabi-gcc", "-std=c11", *get_cpu("cortex-m7").cflags)
    style = Style(compiler=compiler, target=f"llvm {FOR_M7}")
    tar = str(tvm_tar(tmp_path / "net.tar", style))
    assert main(["build", tar, "--board", SMALLER]) == 2
    assert "for Armv7E-M, but cortex-m3 is Armv7-M" in capsys.readouterr().err


def test_the_models_file_is_the_reference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An archive without model and descriptions, as TVM would have compiled it."""
    library = hilc.compile(DIGITS, cpu="cortex-m4")
    files = {n: d for n, d in library.files.items() if not n.startswith(("hil/", "src/"))}
    tar = str(write_tar(tmp_path / "digits.tar", files))
    words = ["verify", tar, "--board", BOARD, "--samples", "3", "--reference", "hilc"]
    report = hil_json(capsys, *words, "--source", str(DIGITS))
    assert (report["match"], report["reference"]) == (True, "hilc")
    # The archive does not say the shape; the model's file has it.
    assert [len(output["shape"]) for output in report["outputs"]] == [1]

    assert main(words) == 2
    message = capsys.readouterr().err
    assert "does not hold the model that it was compiled from" in message
    assert "--source MODEL.tflite" in message
    assert "--expect F.npz" in message
