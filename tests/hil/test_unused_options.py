"""Options of the compiler that change nothing in a model: a warning, or an error, names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import float_networks
import numpy as np
import pytest
from tflite_builder import ModelBuilder

import hilc
from hil.cli import main

BYOC = Path(__file__).parents[2] / "examples" / "byoc"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "net.tflite"
    path.write_bytes(float_networks.network().build())
    return str(path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--dynamic", "integer"], "net: --dynamic integer has no effect"),
        (["--dynamic", "float"], "net: --dynamic float has no effect"),
        (["--external", str(BYOC / "matrix_unit.py")], "net: --external has no effect"),
    ],
)
def test_a_warning(
    model: str, tmp_path: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", model, "--cpu", "host", "-o", str(tmp_path / "o.tar"), *words]) == 0
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--loop-bound", "y=3"], "needs no bounds of loops; 'y' cannot be given"),
        (["--signature", "f"], "has no signatures; 'f' cannot be selected"),
        (
            ["--shape", "x=2,8,8,2"],
            "'x' is [1, 8, 8, 2], which the shape [2, 8, 8, 2] does not fit",
        ),
        (["--shape", "y=1,8"], "no input 'y', whose shape is stated\n\nhint: its inputs are 'x'"),
        (["--pin", "z=0"], "'z' is not an input or output"),
    ],
)
def test_an_error(
    model: str, tmp_path: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", model, "--cpu", "host", "-o", str(tmp_path / "o.tar"), *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("words", [["verify", "--samples", "2"], ["bench"], ["run"]], ids=" ".join)
def test_quantized_inputs_need_a_file(
    words: list[str], model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An option without effect is named; random inputs have the model's types."""
    board = "mps2-an386" if words[0] == "bench" else "native"
    given = [words[0], model, "--board", board, *words[1:]]
    assert main([*given, "--quantize-inputs"]) == 0
    files = "--input" if words[0] == "run" else "--inputs"
    warned = capsys.readouterr().err
    assert f"--quantize-inputs has no effect without {files}:" in warned
    assert main(given) == 0
    assert "--quantize-inputs" not in capsys.readouterr().err


def test_dynamic_layers_need_no_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.tflite"
    builder = ModelBuilder()
    builder.input("x", (1, 16))
    builder.const("w", np.arange(-64, 64, dtype=np.int8).reshape(8, 16), 0.1)
    builder.output("y", (1, 8))
    builder.op("FULLY_CONNECTED", ("x", "w"), ("y",))
    path.write_bytes(builder.build())
    words = ["compile", str(path), "--cpu", "host", "-o", str(tmp_path / "o.tar")]
    assert main([*words, "--dynamic", "integer"]) == 0
    assert "no effect" not in capsys.readouterr().err


def warned(words: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the options without effect that a command line names."""
    assert main(words) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if " has no effect: " in line]
    assert all(line.startswith("warning: ") for line in lines)
    return [next(word for word in line.split() if word.startswith("--")) for line in lines]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("inputs") / "x.npz"
    network = float_networks.network().build()
    library = hilc.compile(network, cpu="host", name="net")
    rng = np.random.default_rng(0)
    tensors = library.modules[0].inputs
    arrays: dict[str, Any] = {
        t.name: rng.normal(size=(4, *t.shape)).astype(t.dtype) for t in tensors
    }
    np.savez(path, **arrays)
    return str(path)


def test_options_of_a_comparison(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["verify", model, "--board", "native", "--samples", "2"]
    unused = ["--jobs", "2", "--no-bulk", "--allow-float"]
    # Of one model it saves nothing, and says so elsewhere: it moves inputs and outputs.
    found = warned([*given, *unused, "--workspace", "shared"], capsys)
    assert sorted(found) == ["--allow-float", "--jobs", "--no-bulk"]
    assert warned([*given, "--jobs", "1", "--workspace", "own"], capsys) == []


def test_an_option_of_all_boards_is_named_once(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    boards = ["--board", "mps2-an386", "--board", "mps3-an547"]
    assert warned(["fit", model, *boards, "--allow-float"], capsys) == ["--allow-float"]


def test_the_seed_of_inputs_that_are_given(
    model: str, inputs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    on = [model, "--board", "native"]
    random = ["verify", *on, "--samples", "2", "--seed", "3"]
    assert warned(random, capsys) == []
    assert warned([*random, "--inputs", inputs], capsys) == ["--seed"]
    with np.load(inputs) as arrays:
        words = [f"{name}={tmp_path / f'{at}.npy'}" for at, name in enumerate(arrays)]
        for at, name in enumerate(arrays):
            np.save(tmp_path / f"{at}.npy", arrays[name][0])
    given = [word for each in words for word in ("--input", each)]
    assert warned(["run", *on, "--seed", "3", *given], capsys) == ["--seed"]
    assert warned(["run", *on, "--seed", "3"], capsys) == []


@pytest.mark.parametrize("checked", [False, True])
def test_the_seed_of_a_measurement(
    checked: bool, model: str, inputs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The comparison of a measurement has random samples too."""
    given = ["bench", model, "--board", "mps2-an386", "--inputs", inputs, "--seed", "3"]
    found = warned(given if checked else [*given, "--no-check"], capsys)
    assert found == ([] if checked else ["--seed"])


def test_the_seed_of_a_whole_data_set(capsys: pytest.CaptureFixture[str]) -> None:
    digits = BYOC.parent / "digits"
    data = [
        "--data",
        str(digits / "digits_test.npz"),
        "--labels",
        str(digits / "digits_labels.npy"),
    ]
    given = ["evaluate", str(digits / "digits.tflite"), "--board", "native", *data, "--seed", "3"]
    assert warned(given, capsys) == ["--seed"]
    assert warned([*given, "--samples", "5"], capsys) == []
