"""``hil.verify`` and ``hil.bench``: one call from a model and a board to a report."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import answers
import numpy as np
import pytest
from campaigns import sampled
from tflite_builder import ModelBuilder

import hil
import hilc
import hilc.host
from hil.bench import BenchReport
from hil.device import Model, RunResult
from hil.errors import InputError, NumericError
from hil.jobs.functions import bench as bench_function
from hil.jobs.functions import verify as verify_function
from hil.oracle import reference_of
from hil.verify import Report
from hilc.frontends import load_model

BOARD = "mps2-an386"


def dense(seed: int = 0) -> bytes:
    """A fully connected layer of 8 to 4, whose input has the scale 1/20 and the zero point -3."""
    rng = np.random.default_rng(seed)
    builder = ModelBuilder()
    builder.input("x", (1, 8), "int8", scale=0.05, zero_point=-3)
    builder.const("w", rng.integers(-127, 128, (4, 8)).astype(np.int8), scale=0.01)
    builder.output("y", (1, 4), "int8", scale=0.4, zero_point=5)
    builder.op("FULLY_CONNECTED", ("x", "w", ""), ("y",))
    return builder.build()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "dense.tflite"
    path.write_bytes(dense())
    return path


def command(*words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "hil", *words, "--json"], capture_output=True, text=True
    )
    found: dict[str, Any] = answers.entry(done.stdout)
    if "provenance" in found:
        assert found["provenance"].pop("command").startswith(f"hil {words[0]}")
        assert len(found["provenance"].pop("run")) == 32
    return found


def comparable(report: Report | BenchReport) -> dict[str, Any]:
    """The report's object; it has the call in place of the words of the command line."""
    found = report.to_json()
    assert found["provenance"].pop("command").startswith("hil.")
    assert len(found["provenance"].pop("run")) == 32
    return found


def test_a_call_is_told_as_it_was_made(model: Path) -> None:
    """And the words give the same result again; what has no words stands in angle brackets."""
    report = hil.verify(model, 2, board="native", seed=7, optimize="ram", repeated=None)
    made = report.provenance
    assert made is not None
    assert made.command == (
        f"hil.verify({str(model)!r}, samples=2, board='native', seed=7, optimize='ram')"
    )
    again = eval(made.command, {"hil": hil})
    assert again.provenance == made
    labels = np.zeros(2, int)
    data = np.zeros((2, 8), np.int8)
    found = hil.evaluate(dense(), data, labels, board="native", name="d", at_most={"f1": 1.0},
                         metric=["f1"], journal=model.with_suffix(".journal"))  # fmt: skip
    assert found.provenance is not None
    assert found.provenance.inputs.sha256
    assert found.provenance.command == (
        "hil.evaluate(<bytes>, <int8[2, 8]>, labels=<int64[2]>, board='native', metric=['f1'], "
        "at_most={'f1': 1.0}, name='d')"
    )


@pytest.mark.full
def test_a_file_on_a_board(model: Path) -> None:
    report: Report = hil.verify(str(model), 3, board=BOARD, per_layer=True)
    assert report.match
    assert report.check() is report
    assert (report.model, report.board, report.samples) == ("dense", BOARD, 3)
    shown = command("verify", str(model), "--board", BOARD, "--samples", "3", "--per-layer")
    assert {**comparable(report), "seconds": 0} == {**shown, "seconds": 0}
    assert repr(report) == f"<Report dense on {BOARD}: match over 3 samples, reference tflm>"
    assert "<td>int8</td>" in report._repr_html_()


def test_what_it_costs(model: Path) -> None:
    report: BenchReport = hil.bench(model, board=BOARD, cycles=True)
    assert comparable(report) == command("bench", str(model), "--board", BOARD, "--cycles")
    assert report.estimate is not None
    assert report.estimate.cycles[0] > 0
    with pytest.raises(InputError, match="cycles are estimated for cortex-m0, "):
        hil.bench(model, board="mps2-an500", cycles=True)
    assert repr(report).startswith(f"<BenchReport dense on {BOARD}: {report.per_inference:,} ins")
    assert "<td>FULLY_CONNECTED</td>" in report._repr_html_()
    assert pickle.loads(pickle.dumps(report)) == report


def test_every_kind_of_model() -> None:
    """Bytes, a graph, a library, and what runs already."""
    oracle_samples = [{"x": np.full((1, 8), 7, np.int8)}]
    by_bytes = hil.verify(dense(), oracle_samples, board="native", name="other")
    assert (by_bytes.model, by_bytes.match) == ("other", True)
    library = hil.compile(dense(), name="net", board="native")
    assert hil.verify(library, 2, board="native").match
    with hil.open("native", library) as device:
        assert hil.verify(device["net"], 2).match
        assert hil.verify(library, 2, board=device).match
        assert hil.verify("net", 2, board=device).board == "native"
        with pytest.raises(InputError, match="ram is given for a model that runs"):
            hil.verify(device["net"], ram=4096)
        with pytest.raises(InputError, match="unknown option 'smaples'"):
            hil.verify(device["net"], smaples=4)  # type: ignore[call-arg]
    with hilc.host.load(library) as here:
        oracle = reference_of(library, library.modules[0])
        assert hil.verify(here, 2, oracle).board == "this process"
        with pytest.raises(InputError, match="library of the model 'net' is not known here"):
            hil.verify(here, 2)


def test_a_graph_has_expected_outputs_only() -> None:
    graph = load_model(dense(), "net")
    x = {t: np.zeros((2, *graph.tensors[t].shape), graph.tensors[t].dtype) for t in graph.inputs}
    with pytest.raises(InputError, match="does not hold the model"):
        hil.verify(graph, x, board="native")
    wrong = {t: np.full((2, *graph.tensors[t].shape), 99, np.int8) for t in graph.outputs}
    report = hil.verify(graph, x, board="native", expect=wrong)
    assert not report.match
    assert "DIFFER" in repr(report)
    with pytest.raises(NumericError):
        report.check()


@pytest.mark.full
def test_floats_become_the_inputs_integers(model: Path, tmp_path: Path) -> None:
    """0.125 / 0.05 - 3 is a half: away from zero, as QUANTIZE rounds."""
    floats = np.array([[0.125, -0.125, 1e9, -np.inf, 0, 0.05, 0.07, -0.3]], np.float32)
    expected = np.array([[0, -6, 127, -128, -3, -2, -2, -9]], np.int8)
    with hilc.host.load(hil.compile(dense(), name="net")) as here:
        here.set_input(0, floats, quantize=True)
        assert here.get_input(0).tolist() == expected.tolist()
        with pytest.raises(InputError, match="is int8") as caught:
            here.set_input(0, floats)
        assert "quantize=True" in caught.value.hint
        with pytest.raises(InputError, match="NaN"):
            here.set_input(0, floats * np.nan, quantize=True)
        here.set_input(0, expected, quantize=True)  # what is integer stays
    np.savez(tmp_path / "x.npz", x=floats)
    for samples in (tmp_path / "x.npz", {"x": floats}, floats, [{"x": floats}]):
        report = hil.verify(model, samples, board="native", quantize=True)
        assert (report.match, report.samples) == (True, 1)
    with pytest.raises(InputError, match="float32 but the model's"):
        hil.verify(model, tmp_path / "x.npz", board="native")
    words = ("verify", str(model), "--board", "native", "--inputs", str(tmp_path / "x.npz"))
    assert command(*words, "--quantize-inputs")["match"] is True
    assert "error" in command(*words)


def test_labels_in_a_file_of_their_own(model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros((3, 8), np.int8))
    np.save(tmp_path / "labels.npy", np.array([0, 1, 2]))
    for labels in (tmp_path / "labels.npy", str(tmp_path / "labels.npy")):
        assert hil.evaluate(model, tmp_path / "x.npz", labels, board="native").samples == 3


def test_a_run_has_outputs_and_cost() -> None:
    library = hil.compile(dense(), name="net", board=BOARD)
    with hil.open(BOARD, library) as device, hilc.host.load(library) as here:
        board: Model = device["net"]
        for model in (board, here):
            model.set_input("x", np.full((1, 8), 9, np.int8))
            result: RunResult = model.run()
            assert np.array_equal(result.outputs["y"], model.get_output(0))
            assert list(result.outputs) == ["y"]
            assert result.outputs[0] is result.outputs["y"]
            assert result.ticks > 0
            unread = model.run()
            model.run()
            assert result.outputs["y"].shape == (1, 4)  # it was read before
            with pytest.raises(InputError, match="not read before the model ran again"):
                unread.outputs["y"]
        run = board.run()
        assert (run.counter, run.seconds, run.cycles) == ("instructions", None, None)
        assert run.instructions == run.count == device.count(run.ticks)
        assert repr(run).startswith(f"<RunResult {run.count:,} instructions; <Outputs y: int8")
        run = here.run()
        assert (run.counter, run.instructions) == ("nanoseconds", None)
        assert run.seconds == run.ticks / 1e9


@pytest.mark.parametrize(
    ("keywords", "fact"),
    [
        ({}, "no board is given"),
        ({"board": "native", "optimise": "ram"}, r"unknown option 'optimise' \(did you mean opt"),
        ({"board": "native", "samples": 0}, "samples=0 is no number of samples"),
        ({"board": "native", "samples": 1.5}, "samples=1.5 is of type float"),
        ({"board": "native", "example": 1}, "example is given for a file"),
        ({"board": "native", "runner": "pyocd"}, "pyocd"),
        (
            {"board": "native", "samples": {"x": np.zeros((1, 8), np.int8)}}
            | {"expect": {"y": np.zeros((1, 4), np.int8)}, "reference": "tflm"},
            "reference and expect are both given",
        ),
    ],
)
def test_wrong_arguments(model: Path, keywords: dict[str, object], fact: str) -> None:
    with pytest.raises(InputError, match=fact):
        hil.verify(model, **keywords)  # type: ignore[arg-type]


def test_a_library_of_several_models_is_opened_first() -> None:
    both = hilc.merge([hil.compile(dense(), name="one"), hil.compile(dense(1), name="two")])
    with pytest.raises(InputError, match="2 models: one, two"):
        hil.verify(both, board="native")


def test_a_process_counts_nothing(model: Path) -> None:
    with pytest.raises(InputError, match="counts neither instructions nor cycles"):
        hil.bench(model, board="native")


@pytest.mark.full
@pytest.mark.parametrize(
    "code",
    sampled(
        [
            "import hil; hil.verify; import hil.verify, hil.bench",
            "import hil.verify, hil.bench, hil",
            "from hil.verify import verify; from hil.bench import bench; import hil",
        ],
        keep=["import hil; hil.verify; import hil.verify, hil.bench"],
    ),
)
def test_the_order_of_imports_does_not_matter(code: str) -> None:
    code += "; print(callable(hil.verify), callable(hil.bench), hil.Report.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "Report"]


def test_modules_have_their_functions_signatures() -> None:
    assert inspect.signature(hil.verify) == inspect.signature(verify_function)
    assert inspect.signature(hil.bench) == inspect.signature(bench_function)
