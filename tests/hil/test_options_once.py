"""Options of the compiler: stated once as fields, from which each interface derives its own."""

from __future__ import annotations

import argparse
import inspect
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import hil
import hilc
from hil.cli import main
from hil.cli.command_line import build_parser
from hil.device.session import DeviceKeywords
from hil.device.session import open as open_device
from hil.errors import InputError
from hil.pytest_plugin import _marker_problem
from hilc.ir import Numerics
from hilc.options import CodeKeywords, CompileKeywords, CompileOptions
from hilc.support.option import flag_of, options_of

STATED = options_of(CompileOptions)
#: What a user of a board may choose; the harness decides the others, from the purpose.
OF_USERS = {name for name, stated in STATED.items() if stated.form is not None} | {"cpu"}


def own_annotations(kind: Any) -> dict[str, str]:
    """The annotations of a class and its bases as they are written, by name."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        for name, annotation in vars(base).get("__annotations__", {}).items():
            found[name] = getattr(annotation, "__forward_arg__", annotation)
    return found


def test_each_field_states_its_option() -> None:
    assert {each.name for each in fields(CompileOptions)} == set(STATED)
    assert all(stated.help for stated in STATED.values())
    assert set(STATED["reference"].choices) == {each.value for each in Numerics}


def test_keywords_have_the_fields_types() -> None:
    """Type checkers derive no TypedDict from a dataclass, so the two are compared here."""
    written = own_annotations(CompileOptions)
    written = {name: text for name, text in written.items() if name in STATED}
    assert {**own_annotations(CompileKeywords), "samples": "Any"} == written
    assert set(CodeKeywords.__annotations__) == OF_USERS - {"name", "reference"}


def test_device_keywords_are_parameters_of_open() -> None:
    parameters = inspect.signature(open_device).parameters.values()
    taken = {each.name: each.annotation for each in parameters if each.kind is each.KEYWORD_ONLY}
    # Those of one call: of `hil.verify` the model's, its firmware's and the board's are together.
    taken = {name: text for name, text in taken.items() if name not in ("progress", "flashed")}
    given = own_annotations(DeviceKeywords)
    others = own_annotations(CodeKeywords).keys() | {"include_dirs", "sources"}
    assert {name: text for name, text in given.items() if name not in others} == taken


@pytest.mark.parametrize("command", ["compile", "build", "flash", "run", "verify", "bench", "tune"])
def test_each_command_has_each_option(command: str) -> None:
    parser: argparse.ArgumentParser = build_parser()._commands.choices[command]  # type: ignore[union-attr]
    (group,) = (each for each in parser._action_groups if each.title == "compiler")
    shown = {action.option_strings[0]: action for action in group._group_actions}
    expected = {flag_of(n, s): s for n, s in STATED.items() if s.form is not None}
    if command == "verify":  # whose own option says what outputs are compared with
        expected.pop("--reference")
    assert list(shown) == list(expected)
    for flag, stated in expected.items():
        assert tuple(shown[flag].choices or ()) == stated.choices
        assert stated.help in str(shown[flag].help).replace("%%", "%")


@pytest.mark.parametrize(
    "call",
    [
        lambda **words: hil.verify("m.tflite", **words),
        lambda **words: hil.bench("m.tflite", **words),
        lambda **words: hil.evaluate("m.tflite", "d.npz", **words),
        lambda **words: hil.compile("m.tflite", **words),
        lambda **words: hil.export("m.tflite", "cmake", "out", **words),
        lambda **words: hilc.compile("m.tflite", **words),
        lambda **words: hilc.explain("m.tflite", **words),
        lambda **words: hilc.CompileOptions(**words),
    ],
    ids=[
        "verify",
        "bench",
        "evaluate",
        "compile",
        "export",
        "hilc.compile",
        "hilc.explain",
        "CompileOptions",
    ],
)
def test_a_misspelt_keyword_is_named(call: Any) -> None:
    with pytest.raises(InputError, match=r"unknown option 'optimise' \(did you mean optimize\?\)"):
        call(optimise="ram")


@pytest.mark.parametrize(
    ("function", "given"),
    [(hil.verify, ("m",)), (hil.bench, ("m",)), (hil.evaluate, ("m", "d.npz"))],
    ids=["verify", "bench", "evaluate"],
)
def test_own_parameters_are_suggested(function: Any, given: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=r"unknown option 'bord' \(did you mean board\?\)"):
        function(*given, bord="native")


@pytest.mark.parametrize(
    "call",
    [
        lambda **words: hil.verify("m.tflite", board="native", **words),
        lambda **words: hil.compile("m.tflite", **words),
        lambda **words: hil.export("m.tflite", "cmake", "out", **words),
        lambda **words: hilc.compile("m.tflite", **words),
        lambda **words: hilc.CompileOptions(**words),
    ],
    ids=["verify", "compile", "export", "hilc.compile", "CompileOptions"],
)
def test_an_old_keyword_is_refused(call: Any) -> None:
    with pytest.raises(InputError) as caught:
        call(external=("unit.py",))
    assert "'external'" in caught.value.fact
    assert "externals" in caught.value.hint


def test_the_marker_takes_every_option() -> None:
    words: dict[str, Any] = dict.fromkeys(OF_USERS)
    assert _marker_problem(pytest.mark.hil(model="m.tflite", **words).mark) == ""
    problem = _marker_problem(pytest.mark.hil(model="m.tflite", optimise="ram").mark)
    assert "'optimise' (did you mean optimize?)" in problem


SUITE = """
import pytest

@pytest.mark.hil(model={model!r}, boards=["native"], optimize="size", name="own")
def test_goal(hil_library):
    (module,) = hil_library.modules
    assert module.name == "own"
    assert hil_library.reports["own"].goal == "size"

@pytest.mark.hil(model={model!r}, boards=["native"], optimize="fast")
def test_wrong_goal(hil_library):
    pass
"""


def test_the_marker_reaches_the_compiler(pytester: pytest.Pytester) -> None:
    model = Path(__file__).parents[2] / "examples/digits/digits.tflite"
    pytester.makepyfile(SUITE.format(model=str(model)))
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, errors=1)
    assert "optimize=fast is not available" in result.stdout.str()


def test_tune_takes_the_shape_of_an_open_input(tmp_path: Path) -> None:
    weights = onnx.numpy_helper.from_array(np.ones((4, 3), np.float32), "w")
    kind = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Gemm", ["x", "w"], ["y"])],
        "open",
        [onnx.helper.make_tensor_value_info("x", kind, ["n", 4])],
        [onnx.helper.make_tensor_value_info("y", kind, ["n", 3])],
        [weights],
    )
    opset = onnx.helper.make_opsetid("", 13)
    model = tmp_path / "open.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), model)
    log = tmp_path / "log.json"
    words = ["tune", str(model), "--board", "mps2-an386", "--programs", "0", "-o", str(log)]
    assert main(words) == 2
    assert main([*words, "--shape", "x=1,4"]) == 0
    assert log.exists()
