"""Code of other generators on a board: every output and layer equal to the reference."""

from __future__ import annotations

import os
from pathlib import Path

import answers
import models
import numpy as np
import pytest
from campaigns import sampled
from cmsis_nn_versions import STAND_IN, VERSIONS, stand_in
from nested_generator import host_object

import hil
import hilc
import hilc.host
from hil import verify
from hil.board import load_board
from hil.build import build
from hil.cli import main
from hil.oracle import reference_of
from hil.verify import Report
from hilc.artifact.library import ModelLibrary
from hilc.errors import InputError
from hilc.external import ExternalModule, load_generator
from hilc.ir import Graph
from hilc.target import Cpu

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits"
MATRIX_UNIT = f"{ROOT / 'examples/byoc/matrix_unit.py'},units=2"
CMSIS_NN = f"{ROOT / 'examples/byoc/cmsis_nn.py'},path=" + (
    os.environ.get("HIL_CMSIS_NN") or str(ROOT / "tests" / "cmsis_nn")
)


def compiled(path: Path, name: str, board: str, generator: str, api: str) -> ModelLibrary:
    """The model for a firmware, partly by the generator."""
    return hilc.compile(
        path,
        cpu=load_board(board).cpu.name,
        name=name,
        pools="external",
        io_in_pool=api == "unpacked",
        api=api,
        interface="packed" if api == "packed" else "c",
        externals=[load_generator(generator)],
    )


def verified(board: str, *libraries: ModelLibrary) -> list[Report]:
    """Every layer of every model, all in one image, on a real input."""
    images = np.load(DIGITS / "digits_test.npz")["image"]
    reports = []
    with hil.open(board, *libraries) as device:
        for library in libraries:
            (module,) = library.modules
            (tensor,) = module.inputs
            is_digits = module.name.startswith("digits")
            value = images[:1] if is_digits else models.samples("kws", 1)[0]
            oracle = reference_of(library, module)
            reports.append(
                verify(
                    device[module.name], [{tensor.name: value}], oracle, board=board, per_layer=True
                )
            )
    return reports


def external_layers(report: Report) -> int:
    """How many layers of the report were computed by a generator's code, and compared."""
    assert report.match, report.json()["first_different_layer"]
    assert report.layers is not None
    assert all(layer.outputs for layer in report.layers), "a layer was not compared"
    return sum(layer.op == "EXTERNAL" for layer in report.layers)


@pytest.mark.full  # It changes rarely, and takes long.
def test_both_generators_in_one_image() -> None:
    """Plain and packed calls, C and objects, two units and a library that two models share."""
    board = "mps2-an386"
    digits = DIGITS / "digits.tflite"
    libraries = [
        compiled(digits, "digits", board, MATRIX_UNIT, "unpacked"),
        compiled(digits, "digits_packed", board, MATRIX_UNIT, "packed"),
        compiled(models.model_path("kws"), "kws", board, CMSIS_NN, "unpacked"),
        compiled(digits, "digits_cmsis_nn", board, CMSIS_NN, "packed"),
    ]
    counts = [external_layers(report) for report in verified(board, *libraries)]
    # kws: five convolutions, four depthwise ones, the fully connected layer.
    assert counts == [1, 1, 10, 4]


@pytest.mark.full  # It changes rarely, and takes long.
@pytest.mark.parametrize(
    ("version", "board"),
    sampled(
        [*((version, "mps3-an547") for version in VERSIONS), (5, "mps2-an386"), (6, "mps2-an386")],
        keep=[(7, "mps3-an547"), (5, "mps2-an386")],
    ),
)
def test_versions_of_cmsis_nn(version: int, board: str, tmp_path: Path) -> None:
    """With Helium another scratch, and sums of the weights that the caller makes."""
    generator = f"{ROOT / 'examples/byoc/cmsis_nn.py'},path={stand_in(version, tmp_path)}"
    library = compiled(DIGITS / "digits.tflite", "digits", board, generator, "unpacked")
    (report,) = verified(board, library)
    assert external_layers(report) == 4


def test_models_must_share_one_library() -> None:
    """Objects of one name are linked once, so they must be one."""

    class Sharing:
        name = "sharing"

        def __init__(self, value: int) -> None:
            self._value = value

        def claim(self, graph: Graph) -> list[list[int]]:
            return [[0]]

        def generate(self, subgraph: Graph, symbol: str, cpu: Cpu, api: str) -> ExternalModule:
            common = host_object(f"int common(void) {{ return {self._value}; }}")
            source = f"int32_t {symbol}(void *in, void *out) {{ return 0; }}"
            return ExternalModule(symbol, source=source, shared_objects={"common.o": common})

    libraries = [
        hilc.compile(DIGITS / "digits.tflite", name=name, externals=[Sharing(value)])
        for value, name in enumerate(("a", "b"))
    ]
    with pytest.raises(InputError, match="models 'a' and 'b' bring different objects common.o"):
        build(libraries, load_board("native"))


def test_an_object_for_another_core_is_refused() -> None:
    """An object for a Cortex-M4 would link into firmware of a Cortex-M3, and end in a fault."""
    generator = f"{ROOT / 'examples/byoc/cmsis_nn.py'},path={STAND_IN}"
    library = compiled(DIGITS / "digits.tflite", "digits", "mps2-an386", generator, "unpacked")
    refused = "'digits' was compiled for cortex-m4, but lm3s6965evb has a cortex-m3"
    with pytest.raises(InputError, match=refused):
        build([library], load_board("lm3s6965evb"))
    with pytest.raises(InputError, match="is an object for 32-bit Arm, but host is"):
        hilc.host.load(library)


@pytest.mark.parametrize("board", ["mps2-an386", "native"])
def test_helium_kernels_are_refused_without_helium(board: str) -> None:
    library = hilc.compile(DIGITS / "digits.tflite", cpu="cortex-m55")
    with pytest.raises(InputError, match=r"digits.* (compiled|is) for cortex-m55, "):
        build([library], load_board(board))


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = tmp_path / "digits.tar"
    words = ["compile", str(DIGITS / "digits.tflite"), "--cpu", "cortex-m4", "-o", str(archive)]
    assert main([*words, "--external", MATRIX_UNIT, "--json"]) == 0
    report = answers.entry(capsys.readouterr().out)
    assert report["externals"] == [
        {
            # The last but the softmax, however many run in a group before it.
            "layer": report["layer_count"] - 2,
            "function": "tvmgen_digits_matrix_unit_main_0",
            "generator": "matrix_unit",
            "device": "matrix_unit_0",
            "program": "single",
        }
    ]
    (module,) = ModelLibrary.load(archive).modules
    assert [external.device for external in module.externals] == ["matrix_unit_0"]
    assert main([*words, "--external", f"{MATRIX_UNIT},size=3"]) == 2
    assert "unexpected keyword argument 'size'" in capsys.readouterr().err
