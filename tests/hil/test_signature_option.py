"""The option ``--signature`` of each command, and keyword ``signature`` of each function."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from signatures_of_files import two_signatures

import hil
import hilc
from hil.cli import main
from hil.oracle import reference_of
from hil.verify.fidelity import float_meter
from hilc.artifact.library import ModelLibrary
from hilc.errors import ModelError

REFUSED = "the file has 2 signatures, and one is compiled: 'neg', 'abs'"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.tflite"
    path.write_bytes(two_signatures("NEG", "ABS").build())
    return path


@pytest.mark.parametrize(
    "words",
    [
        ["compile", "{m}", "--cpu", "cortex-m4", "-o", "{out}.tar"],
        ["verify", "{m}", "--board", "native"],
        ["bench", "{m}", "--board", "mps2-an386"],
        ["run", "{m}", "--board", "native"],
        ["explain", "{m}", "--board", "mps2-an386"],
        ["export", "{m}", "--build-system", "cmake", "-o", "{out}_cmake", "--cpu", "cortex-m4"],
        ["tvmc", "compile", "{m}", "--target", "c", "-f", "mlf", "-o", "{out}.tar"],
    ],
    ids=lambda words: str(words[0]),
)
def test_commands_need_the_name(
    words: Sequence[str], model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filled = [word.format(m=model, out=tmp_path / "out") for word in words]
    assert main(filled) == 2
    assert REFUSED in capsys.readouterr().err
    assert main([*filled, "--signature", "ab"]) == 2
    assert "the file has no signature 'ab'" in capsys.readouterr().err
    assert main([*filled, "--signature", "abs"]) == 0


def test_evaluate_needs_the_name(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data.npz"
    np.savez(data, x=np.ones((3, 4), np.float32), labels=np.array([0, 0, 0]))
    words = ["evaluate", str(model), "--board", "native", "--data", str(data)]
    assert main(words) == 2
    assert REFUSED in capsys.readouterr().err
    assert main([*words, "--signature", "abs"]) == 0


def test_the_library_has_the_selected_one(model: Path, tmp_path: Path) -> None:
    """Also behind an answer of the cache for the other one."""
    out = tmp_path / "m.tar"
    for name in ("abs", "neg", "abs"):
        words = ["compile", str(model), "--cpu", "cortex-m4", "-o", str(out), "--force"]
        assert main([*words, "--signature", name]) == 0
        (module,) = ModelLibrary.load(out).modules
        assert [layer.op for layer in module.layers] == [name.upper()]
        assert [tensor.name for tensor in (*module.inputs, *module.outputs)] == ["x", "y"]


@pytest.mark.parametrize(
    "function",
    [
        lambda model, **words: hil.compile(model, **words),
        lambda model, **words: hil.verify(model, 2, board="native", **words),
        lambda model, **words: hil.bench(model, board="mps2-an386", **words),
    ],
    ids=["compile", "verify", "bench"],
)
def test_functions_need_the_name(function: Callable[..., Any], model: Path) -> None:
    with pytest.raises(ModelError, match=REFUSED):
        function(model)
    function(model, signature="abs")


SUITE = """
import pytest

@pytest.mark.hil(model={model!r}, boards=["native"], signature="abs")
def test_named(hil_library):
    (module,) = hil_library.modules
    assert [layer.op for layer in module.layers] == ["ABS"]

@pytest.mark.hil(model={model!r}, boards=["native"])
def test_unnamed(hil_library):
    pass
"""


def test_the_marker_selects(pytester: pytest.Pytester, model: Path) -> None:
    pytester.makepyfile(SUITE.format(model=str(model)))
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, errors=1)
    assert REFUSED in result.stdout.str()


def test_verified_signatures_stand_in_one_image(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("abs", "neg"):
        out = str(tmp_path / f"{name}.tar")
        words = ["compile", str(model), "--board", "native", "--signature", name, "--name", name]
        assert main([*words, "-o", out]) == 0
    capsys.readouterr()
    libraries = [str(tmp_path / f"{name}.tar") for name in ("abs", "neg")]
    assert main(["verify", *libraries, "--board", "native", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [each["model"] for each in answer["results"]] == ["abs", "neg"]


def test_files_beside_the_model_need_one_entry(model: Path) -> None:
    """The remedy is not an option that is for another file."""
    library = hilc.compile(model, signature="abs")
    (module,) = library.modules
    without = replace(library, files={n: d for n, d in library.files.items() if ".tflite" not in n})
    with pytest.raises(ModelError, match=REFUSED) as got:
        reference_of(without, module, source=model)
    assert "give a file of one entry point" in got.value.hint
    with pytest.raises(ModelError, match=REFUSED) as got:
        float_meter(model, module.inputs, module.outputs)
    assert "give a file of one entry point" in got.value.hint
