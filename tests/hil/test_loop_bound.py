"""``--loop-bound`` of the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser
from onnx_control_flow import control_flow_model

import hil
import hilc
from hil.cli import main
from hil.device import Device
from hil.samples import StandardSamples
from hilc.artifact.library import ModelLibrary
from hilc.errors import LoopBoundError
from hilc.ir.loop_bounds import exceeded_unnamed


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "net.onnx"
    path.write_bytes(control_flow_model("for"))
    return str(path)


def test_the_error_states_the_option(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["compile", model, "-o", str(tmp_path / "net.tar")]
    assert main(words) == 2
    assert "--loop-bound y=N" in capsys.readouterr().err
    assert main([*words, "--loop-bound", "y=6"]) == 0


@pytest.mark.parametrize(
    "bounds",
    [["y"], ["y=0"], ["y=-1"], ["=3"], ["y=x"], ["y=3", "y=4"], ["y=3", "rows=4"], ["z=3"]],
)
def test_wrong_bounds_are_refused(
    bounds: list[str], model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word for bound in bounds for word in ("--loop-bound", bound)]
    assert main(["compile", model, "-o", str(tmp_path / "net.tar"), *words]) == 2
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("bound", "value"),
    [("0", "0"), ("-1", "-1"), ("2147483648", "2147483648"), ("99999999", "99,999,999 turns")],
)
def test_the_error_states_value_and_range(
    bound: str, value: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One range, whatever is wrong; for too many rows, the turns that memory has room for."""
    command = ["compile", model, "-o", str(tmp_path / "net.tar"), "--loop-bound", f"y={bound}"]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert value in said
    assert ("1 to 4,194,304" if "turns" in value else "1 to 2,147,483,647") in said


def test_more_rows_than_65536_compile(model: str, tmp_path: Path) -> None:
    command = ["compile", model, "-o", str(tmp_path / "net.tar"), "--loop-bound", "y=70000"]
    assert main(command) == 0


def test_a_bound_replaces_that_of_the_file() -> None:
    """Also where it names the loop by another of its outputs."""
    model = onnx.load_from_string(control_flow_model("for"))
    model.metadata_props.add(key="hil.loop-bound:y", value="5")
    library = hilc.compile(model.SerializeToString(), loop_bounds={"rows": 3})
    assert {t.name: t.shape[0] for t in library.modules[0].outputs}["rows"] == 3


@pytest.mark.parametrize(("turns", "code"), [(6, 0), (7, 1)])
def test_a_run_within_the_bound_matches(
    turns: int, code: int, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run beyond it fails; the archive keeps the bound."""
    inputs, archive = tmp_path / "inputs.npz", str(tmp_path / "net.tar")
    np.savez(inputs, x=np.ones((1, 4), np.float32), n=np.array([turns]))
    words = ["--board", "native", "--inputs", str(inputs), "--reference", "onnxruntime"]
    assert main(["compile", model, "--board", "native", "--loop-bound", "y=6", "-o", archive]) == 0
    for source in ([model, "--loop-bound", "y=6"], [archive]):
        assert main(["verify", *source, *words]) == code
        said = capsys.readouterr().err
        assert ("the loop of 'y' exceeds its bound of 6 turns" in said) == bool(code)
        assert ("--loop-bound y=N" in said) == bool(code)


def test_firmware_without_its_library_states_the_loop(model: str) -> None:
    """The board does not know a loop's name: the error has its number."""
    library = hil.compile(model, board="native", name="net", loop_bounds={"y": 6})
    with hil.open("native", library) as device:
        known, unknown = device["net"], Device(device._client, [])["net"]
        for run, text in ((known, "loop of 'y' exceeds"), (unknown, "-2: loop 1 of its loops")):
            run.set_input(0, np.ones(4, np.float32))
            run.set_input(1, np.array(7).astype(run.inputs[1].dtype))
            with pytest.raises(LoopBoundError, match=text) as caught:
                run.run()
            assert caught.value.exit_code == 1
    assert exceeded_unnamed(-3) is not None
    assert exceeded_unnamed(-1) is None


def test_an_export_takes_inputs(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Random values may exceed a bound that depends on other values than a number of turns."""
    good, bad, output = tmp_path / "good.npz", tmp_path / "bad.npz", tmp_path / "library"
    x = np.full((1, 4), 0.5, np.float32)
    np.savez(good, x=x, n=np.array([3]))
    np.savez(bad, x=x, n=np.array([7]))
    words = ["export", model, "--build-system", "cmake", "--loop-bound", "y=6", "-o", str(output)]
    assert main([*words, "--inputs", str(bad)]) == 1
    said = capsys.readouterr().err
    assert "loop of 'y' exceeds its bound of 6" in said
    assert "--inputs F.npz" in said
    assert not output.exists()
    assert main([*words, "--inputs", str(good)]) == 0
    capsys.readouterr()
    assert "= {\n    0x1p-1f, 0x1p-1f," in (output / "example" / "samples.h").read_text()
    two = [words[0], model, f"other={model}", *words[2:]]
    assert main([*two, "--inputs", str(good)]) == 2
    assert "for several models" in capsys.readouterr().err
    assert main([*words, "--inputs", str(tmp_path / "none.npz")]) == 2


@pytest.mark.parametrize("reference", ["onnx", "onnxruntime", "hilc"])
def test_verify_draws_turns_within_the_bound(
    reference: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without inputs of the user: no turn, one, as many as the bound, and others."""
    command = ["verify", model, "--board", "native", "--loop-bound", "y=6", "--json"]
    assert main([*command, "--reference", reference]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert result["match"]
    assert result["samples"] >= 10


@pytest.mark.parametrize(
    ("name", "bounds", "input_name", "most"),
    [
        ("for", {"y": 6}, "n", 6),
        ("for_of_one_element", {}, "n", 16),
        ("for_of_one_element", {"y": 5_000_000}, "n", 4096),
        ("rows", {"y": 6}, "n", 6),
        ("in a branch", {"y": 3}, "n", 3),
    ],
)
def test_samples_make_each_number_of_turns(
    name: str, bounds: dict[str, int], input_name: str, most: int, tmp_path: Path
) -> None:
    data = LOOP_IN_BRANCH if name == "in a branch" else control_flow_model(name)
    library = hilc.compile(data, loop_bounds=bounds, name="m")
    inputs = ModelLibrary.load(library.save(tmp_path / "m.tar")).modules[0].inputs
    # Other tensors do not speak of turns.
    assert library.files["hil/m.json"].count(b'"turns"') == len(bounds) + 1
    counts = {tensor.name: tensor.turns for tensor in inputs if tensor.turns is not None}
    assert counts == {input_name: most}
    drawn = [int(sample[input_name].item()) for sample in StandardSamples(inputs, seed=0)]
    assert drawn[:3] == [0, most, 1]
    assert min(drawn) == 0
    assert max(drawn) == most
    assert len(set(drawn)) > min(most, 20)
    conditions = [tensor for tensor in inputs if tensor.dtype == "bool"]
    for tensor in conditions:
        taken = {bool(sample[tensor.name].item()) for sample in StandardSamples(inputs, seed=0)}
        assert taken == {False, True}


@pytest.mark.parametrize(
    ("starts", "first", "step", "test", "most"),
    [
        ("zero", "Less (zero, n)", "Add (i, one)", "Less (j, n)", 6),
        ("zero", "Greater (n, zero)", "Add (one, i)", "Greater (n, j)", 6),
        ("zero", "LessOrEqual (zero, n)", "Add (i, one)", "LessOrEqual (j, n)", 5),
        ("one", "Less (one, n)", "Add (i, one)", "Less (j, n)", 6),
        ("zero", "Less (zero, n)", "Add (i, one)", "Less (i, n)", 5),
        ("n", "Greater (n, zero)", "Sub (i, one)", "Greater (j, zero)", 6),
        ("zero", "Less (zero, n)", "Mul (i, one)", "Less (j, n)", None),
        ("n", "Less (n, one)", "Add (i, one)", "Less (j, one)", None),
        ("zero", "Less (zero, n)", "Add (i, one)", "Equal (j, n)", None),
    ],
)
def test_a_carried_condition_counts_turns(
    starts: str, first: str, step: str, test: str, most: int | None
) -> None:
    """An input that a counter of the body is compared with: no number of it exceeds the bound."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x, int64 n) => (float[4] y) <int64 zero = {{0}}, int64 one = {{1}}> {{
            c = {first}
            k, y = Loop ("", c, {starts}, x) <
                body = b (int64 t, bool q, int64 i, float[4] v) => (bool p, int64 j, float[4] w) {{
                j = {step}
                w = Add (v, x)
                p = {test}
            }}>
        }}"""
    data = parser.parse_model(text).SerializeToString()
    library = hilc.compile(data, loop_bounds={"y": 6}, name="m")
    inputs = library.modules[0].inputs
    assert {t.name: t.turns for t in inputs} == {"x": None, "n": most}
    if most is None:
        return
    with hilc.host.load(library) as model:
        for sample in list(StandardSamples(inputs, seed=0))[:10]:
            model.set_input("x", sample["x"])
            model.set_input("n", sample["n"])
            model.run()
        model.set_input("n", np.array(most + 2))
        with pytest.raises(LoopBoundError, match="the loop of 'y' exceeds its bound of 6 turns"):
            model.run()


#: A loop in a branch, whose number of turns is an input of the model.
LOOP_IN_BRANCH = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[4] x, int64 n, bool c) => (float[4] z) {
        z = If (c) <
            then_branch = t () => (float[4] y) {
                y = Loop (n, "", x) <
                    body = b (int64 i, bool q, float[4] v) => (bool q, float[4] w) {
                    w = Add (v, x)
                }>
            },
            else_branch = e () => (float[4] e) { e = Neg (x) }>
    }""").SerializeToString()
