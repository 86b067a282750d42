"""Options of the compiler that change nothing in a model: a warning, or an error, names them."""

from __future__ import annotations

from pathlib import Path

import float_networks
import numpy as np
import pytest
from tflite_builder import ModelBuilder

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
        (["--shape", "x=1,8"], "states the shapes of its inputs; 'x' cannot be given"),
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
