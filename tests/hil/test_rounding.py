"""Floats that cancel: rounding is no difference, an error is one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from nodes import make_node
from onnx import TensorProto, helper, numpy_helper

import hilc
import hilc.host
from hil.export.samples import sample_of
from hil.oracle import expected_outputs, reference_of
from hil.verify import Oracle, Report, evaluation
from hil.verify.comparison import TensorComparison, compare
from hil.verify.samples import RandomSamples, Sample
from hil.verify.sensitivity import NamedGraph, Sensitivity
from hilc.artifact.library import ModelLibrary, TensorInfo
from hilc.frontends import load_model
from hilc.host import HostModel
from hilc.ir import Array, Graph, Quant, State, Tensor

Arrays = Mapping[str, Array]
FEATURES = 32


def onnx_file(nodes: list[Any], constants: Arrays, path: Path, version: int = 13) -> Path:
    """Write a model from x to y, each a row, as a file."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "net",
        [value("x", TensorProto.FLOAT, [1, FEATURES])],
        [value("y", TensorProto.FLOAT, [1, 1])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8)
    onnx.save(model, path)
    return path


def ridge(path: Path) -> Path:
    """A linear regression: its result is near zero in some samples."""
    w = np.random.default_rng(1).standard_normal((FEATURES, 1)).astype(np.float32)
    node = helper.make_node
    return onnx_file([node("MatMul", ["x", "w"], ["y"])], {"w": w}, path)


def anomaly(path: Path) -> Path:
    """The error of an autoencoder that reproduces its input well: always a small difference."""
    rng = np.random.default_rng(2)
    encoder = np.linalg.qr(rng.standard_normal((FEATURES, FEATURES)))[0]
    decoder = encoder.T + 1e-3 * rng.standard_normal((FEATURES, FEATURES))
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "e"], ["code"]),
        node("MatMul", ["code", "d"], ["again"]),
        node("Sub", ["x", "again"], ["error"]),
        node("Mul", ["error", "error"], ["square"]),
        node("ReduceMean", ["square"], ["y"], axes=[1]),
    ]
    weights = {"e": encoder.astype(np.float32), "d": decoder.astype(np.float32)}
    return onnx_file(nodes, weights, path)


MODELS = {"ridge": ridge, "anomaly": anomaly}


@pytest.fixture(scope="module", params=MODELS)
def library(request: pytest.FixtureRequest, tmp_path_factory: Any) -> ModelLibrary:
    path = MODELS[request.param](tmp_path_factory.mktemp("net") / f"{request.param}.onnx")
    return hilc.compile(path)


@pytest.fixture(scope="module")
def here(library: ModelLibrary) -> Iterator[HostModel]:
    with hilc.host.load(library) as model:
        yield model


def run(model: Any, samples: Iterable[Sample], oracle: Oracle, **options: Any) -> Report:
    return compare(model, samples, oracle, board="none", **options)


def verified(model: Any, oracle: Oracle, count: int, **options: Any) -> Report:
    return run(model, RandomSamples(model.inputs, 0, count), oracle, **options)


def test_rounding_is_no_difference(library: ModelLibrary, here: HostModel) -> None:
    """Judged by the first tolerance alone, some of the same outputs differ."""
    oracle = reference_of(library, library.modules[0], "onnx")
    strict = verified(here, replace(oracle, sensitivity=None), 1000)
    assert strict.outputs[0].mismatches > 0
    report = verified(here, oracle, 1000)
    assert report.match
    (output,) = report.outputs
    assert output.ill_conditioned == strict.outputs[0].mismatches
    (remark,) = (line for line in report.remarks if "terms cancel" in line)
    assert f"{output.ill_conditioned_diff:.3g} in {output.ill_conditioned} element" in remark
    (entry,) = report.to_json()["outputs"]
    assert entry["ill_conditioned"] == {
        "elements": output.ill_conditioned,
        "max_abs_diff": output.ill_conditioned_diff,
    }
    assert entry["tolerance"] < 1e-3


def test_rounding_of_layers(library: ModelLibrary, here: HostModel) -> None:
    oracle = reference_of(library, library.modules[0], "onnx")
    assert verified(here, oracle, 100, per_layer=True).match


def test_rounding_against_a_file(library: ModelLibrary, here: HostModel) -> None:
    """Of outputs that another program computed, with the library's model."""
    module = library.modules[0]
    samples = RandomSamples(module.inputs, 0, 1000)
    oracle = reference_of(library, module, "onnx")
    wanted = {"y": np.stack([oracle.values(i, x)["y"] for i, x in enumerate(samples)])}
    assert run(here, samples, expected_outputs(wanted, module, 1000, library)).match
    assert not run(here, samples, expected_outputs(wanted, module, 1000)).match


def variance(path: Path) -> Path:
    """Of numbers that are close to each other: the most sensitive results of all."""
    node = helper.make_node
    nodes = [
        node("Add", ["x", "far"], ["a"]),
        node("ReduceMean", ["a"], ["mean"], axes=[1]),
        node("Sub", ["a", "mean"], ["d"]),
        node("Mul", ["d", "d"], ["square"]),
        node("ReduceMean", ["square"], ["y"], axes=[1]),
    ]
    return onnx_file(nodes, {"far": f32(1e4)}, path)


def certainty(path: Path) -> Path:
    """The logarithm of the probability of a class, which is nearly certain in many samples."""
    rng = np.random.default_rng(1)
    w = rng.standard_normal((FEATURES, 4)).astype(np.float32)
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "w"], ["logits"]),
        node("LogSoftmax", ["logits"], ["all"], axis=1),
        node("Gather", ["all", "class"], ["y"], axis=1),
    ]
    return onnx_file(nodes, {"w": w, "class": np.array([2])}, path)


def gate(path: Path) -> Path:
    """A unit that is nearly zero in many samples."""
    w = np.random.default_rng(1).standard_normal((FEATURES, 1)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["sum"]),
        helper.make_node("Gelu", ["sum"], ["y"]),
    ]
    return onnx_file(nodes, {"w": w}, path, version=20)


@pytest.mark.parametrize("model", [certainty, gate])
def test_terms_that_cancel_inside(model: Callable[[Path], Path], tmp_path: Path) -> None:
    """Of one operator: no change of its operands shows them."""
    library = hilc.compile(model(tmp_path / "net.onnx"))
    oracle = reference_of(library, library.modules[0], "onnx")
    with hilc.host.load(library) as here:
        strict = verified(here, replace(oracle, sensitivity=None), 300)
        assert strict.outputs[0].mismatches > 5
        assert verified(here, oracle, 300).match


def test_what_may_be_rounding_is_said(tmp_path: Path) -> None:
    """Of a class that is nearly certain in every sample: a right program differs, as one that gives
    twice the logarithms does.
    """
    w = 0.01 * np.random.default_rng(1).standard_normal((FEATURES, 4)).astype(np.float32)
    nodes = [
        helper.make_node("Gemm", ["x", "w", "bias"], ["logits"]),
        helper.make_node("LogSoftmax", ["logits"], ["all"], axis=1),
        helper.make_node("Gather", ["all", "class"], ["y"], axis=1),
    ]
    bias = np.array([0, 0, 16, 0], np.float32)
    constants = {"w": w, "bias": bias, "class": np.array([2])}
    library = hilc.compile(onnx_file(nodes, constants, tmp_path / "net.onnx"))
    oracle = reference_of(library, library.modules[0], "onnx")
    with hilc.host.load(library) as here:
        report = verified(here, oracle, 20)
    assert not report.match
    (output,) = report.outputs
    assert output.undecided == output.mismatches > 5
    (remark,) = report.remarks
    assert f"{output.undecided} of {output.mismatches} differences may be rounding" in remark
    assert "--per-layer" in remark
    assert report.to_json()["outputs"][0]["undecided"] == output.undecided


def test_an_error_is_not_said_to_be_rounding(library: ModelLibrary, here: HostModel) -> None:
    module = library.modules[0]
    samples = RandomSamples(module.inputs, 0, 20)
    oracle = reference_of(library, module, "onnx")
    wanted = np.stack([oracle.values(i, x)["y"] for i, x in enumerate(samples)])
    expected = expected_outputs({"y": wanted * np.float32(1.1)}, module, 20, library)
    report = run(here, samples, expected)
    assert report.outputs[0].mismatches > 5
    assert report.outputs[0].undecided == 0
    assert report.remarks == ()


WRONG: Mapping[str, Callable[[Array], Array]] = {
    "zeros": np.zeros_like,
    "halves": lambda y: y / 2,
    "negatives": np.negative,
    "one percent more": lambda y: y * np.float32(1.01),
    "those of the sample before": lambda y: np.roll(y, 1, axis=0),
    "means": lambda y: np.full_like(y, y.mean()),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("model", [ridge, anomaly, variance, certainty, gate])
def test_wrong_outputs_differ(model: Callable[[Path], Path], wrong: str, tmp_path: Path) -> None:
    """However much a model amplifies rounding."""
    library = hilc.compile(model(tmp_path / "net.onnx"))
    module = library.modules[0]
    samples = RandomSamples(module.inputs, 0, 20)
    oracle = reference_of(library, module, "onnx")
    right = np.stack([oracle.values(i, x)["y"] for i, x in enumerate(samples)])
    expected = expected_outputs({"y": WRONG[wrong](right)}, module, 20, library)
    with hilc.host.load(library) as here:
        assert run(here, samples, oracle).match
        report = run(here, samples, expected)
    assert not report.match
    assert report.outputs[0].mismatches > 5


def test_a_loop_keeps_its_turns(tmp_path: Path) -> None:
    """And its indices, which a change would take out of their table."""
    node, value = helper.make_node, helper.make_tensor_value_info
    steps = [
        node("Cast", ["v"], ["index"], to=TensorProto.INT64),
        node("Gather", ["table", "index"], ["v_next"]),
        node("ReduceMax", ["v_next"], ["most"], keepdims=0),
        node("Greater", ["most", "half"], ["again"]),
    ]
    given = [
        value("i", TensorProto.INT64, []),
        value("c", TensorProto.BOOL, []),
        value("v", TensorProto.FLOAT, [1, FEATURES]),
    ]
    results = [
        value("again", TensorProto.BOOL, []),
        value("v_next", TensorProto.FLOAT, [1, FEATURES]),
    ]
    body = helper.make_graph(steps, "body", given, results)
    nodes = [
        node("ReduceMax", ["x"], ["first"], keepdims=0),
        node("Greater", ["first", "half"], ["begin"]),
        node("Loop", ["", "begin", "x"], ["last"], body=body),
        node("ReduceMean", ["last"], ["y"], axes=[1]),
    ]
    constants = {"table": f32(0.1, 0.2, 1.2, 1.7), "half": np.array(0.5, np.float32)}
    library = hilc.compile(onnx_file(nodes, constants, tmp_path / "net.onnx"))
    samples = [{"x": np.full((1, FEATURES), 3.999, np.float32)}]
    with hilc.host.load(library) as here:
        for y, match in ((0.2, True), (0.26, False)):
            wanted = {"y": np.full((1, 1, 1), y, np.float32)}
            expected = expected_outputs(wanted, library.modules[0], 1, library)
            assert run(here, samples, expected).match == match


def test_a_loop_in_a_loop(tmp_path: Path) -> None:
    """What the inner loop adds and subtracts again is all that rounds."""
    node, value = helper.make_node, helper.make_tensor_value_info

    def loop(steps: list[Any], before: str, after: str) -> Any:
        given = [
            value("i" + before, TensorProto.INT64, []),
            value("c" + before, TensorProto.BOOL, []),
            value(before, TensorProto.FLOAT, [1, FEATURES]),
        ]
        # A loop whose number of turns is known would be written out.
        end = node("Less", ["i" + before, "last_turn"], ["o" + before])
        results = [
            value("o" + before, TensorProto.BOOL, []),
            value(after, TensorProto.FLOAT, [1, FEATURES]),
        ]
        return helper.make_graph([*steps, end], "body" + before, given, results)

    inner = [node("Add", ["v", "far"], ["sum"]), node("Sub", ["sum", "far"], ["v_next"])]
    outer = [node("Loop", ["", "begin", "w"], ["w_next"], body=loop(inner, "v", "v_next"))]
    nodes = [
        node("ReduceMax", ["x"], ["most"], keepdims=0),
        node("Less", ["most", "high"], ["begin"]),
        node("Loop", ["", "begin", "x"], ["last"], body=loop(outer, "w", "w_next")),
        node("ReduceMean", ["last"], ["y"], axes=[1]),
    ]
    far = np.full((1, FEATURES), 1e4, np.float32)
    constants = {"far": far, "last_turn": np.array(2), "high": np.array(9, np.float32)}
    graph = load_model(onnx_file(nodes, constants, tmp_path / "net.onnx"))
    assert [node.op for node in graph.nodes] == ["REDUCE_MAX", "LESS", "WHILE", "MEAN"]
    sample = {"x": np.ones((1, FEATURES), np.float32)}
    slopes = sensitivity(graph)
    slopes.follow(sample, is_first=True)
    found = slopes.slope(info(graph.tensors["y"]))
    assert found is not None
    # Nine changes of both operands, of 32 elements each.
    assert found.item() == pytest.approx(1e4 * np.sqrt(2 * 9 / FEATURES), rel=0.5)


def test_rounding_in_an_exported_example(library: ModelLibrary) -> None:
    """The tolerance in C is that of the same sample here."""
    (module,) = library.modules
    sample = sample_of(library, module)
    assert sample.outputs is not None
    slopes = reference_of(library, module, "hilc").sensitivity
    assert slopes is not None
    slopes.follow(sample.inputs, is_first=True)
    (output,) = module.outputs
    slope = slopes.slope(output)
    assert slope is not None
    wanted = 1e-5 * max(float(np.abs(sample.outputs["y"]).max()), float(slope.max()))
    assert sample.tolerance("y") == pytest.approx(wanted, rel=0.05)


@pytest.mark.parametrize("bit", [17, 20, 22, 23, 27, 30])
def test_a_flipped_bit_is_a_difference(bit: int, tmp_path: Path) -> None:
    """Of any weight, from a relative change of 1/64 on, in one of 20 samples."""
    graph = load_model(ridge(tmp_path / "net.onnx"))
    oracle = Oracle(
        "hilc", "", lambda index, sample: hilc.interpreter.run_all(graph, sample),
        sensitivity=sensitivity(graph),
    )  # fmt: skip
    name = graph.nodes[0].inputs[1]
    weights = graph.tensors[name].data
    assert weights is not None
    for place in range(weights.size):
        wrong = weights.copy()
        wrong.reshape(-1).view(np.uint32)[place] ^= np.uint32(1 << bit)
        tensors = {**graph.tensors, name: replace(graph.tensors[name], data=wrong)}
        found = Computed(graph.with_(tensors=tensors))
        assert not verified(found, oracle, 20).match, place


# -- single graphs ---------------------------------------------------------------------------------


class Computed:
    """A graph that the interpreter runs, as a model; the outputs may be given."""

    name = "net"
    layers = ()
    states = ()
    is_per_layer = False

    def __init__(self, graph: Graph, given: Arrays | None = None) -> None:
        self._run = hilc.interpreter.Interpreter(graph)
        self._given = given
        self.inputs, self.outputs = (
            tuple(info(graph.tensors[name]) for name in names)
            for names in (graph.inputs, graph.outputs)
        )
        self._inputs: dict[str, Array] = {}
        self._found: Arrays = {}

    def set_input(self, name: str, array: Array) -> None:
        self._inputs[name] = array

    def reset_state(self) -> None:
        self._run.reset_state()

    def run(self) -> None:
        self._found = self._given or self._run.run(self._inputs)

    def get_output(self, name: str) -> Array:
        return self._found[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args: None


def info(tensor: Tensor) -> TensorInfo:
    shape, dtype = tensor.shape, tensor.dtype
    return TensorInfo(tensor.name, tensor.name, shape, dtype, None, None, tensor.nbytes, None)


def sensitivity(graph: Graph) -> Sensitivity:
    return Sensitivity(lambda: NamedGraph(graph, dict, dict), bool(graph.states))


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


def float_tensors(*names: str, size: int = 1) -> dict[str, Tensor]:
    return {name: Tensor(name, (size,), "float32") for name in names}


def matches(graph: Graph, x: Array, wanted: Array, got: Array) -> bool:
    """Whether got equals the wanted y of the graph for x."""
    slopes = sensitivity(graph)
    slopes.follow({"x": x}, is_first=True)
    compared = TensorComparison(info(graph.tensors["y"]), slopes)
    return compared.add(0, wanted, got) is None


def test_a_step_is_no_rounding() -> None:
    """Of a function that is no slope: a change of its operand may change it by a whole step."""
    node = make_node("FLOOR", ["x"], ["y"])
    graph = Graph("net", float_tensors("x", "y"), (node,), ("x",), ("y",))
    assert matches(graph, f32(3), f32(3), f32(3))
    assert not matches(graph, f32(3), f32(3), f32(2))


def test_a_quantization_step_is_no_rounding() -> None:
    """Integers stay as they are, though the operand of the quantization changes."""
    tensors = {
        **float_tensors("x", "y"),
        "q": Tensor("q", (1,), "int8", Quant((0.01,), (0,))),
    }
    nodes = (make_node("QUANTIZE", ["x"], ["q"]), make_node("DEQUANTIZE", ["q"], ["y"], 1))
    graph = Graph("net", tensors, nodes, ("x",), ("y",))
    slopes = sensitivity(graph)
    slopes.follow({"x": f32(1.005)}, is_first=True)
    assert slopes.slope(info(tensors["y"])) == 0
    assert slopes.slope(info(tensors["q"])) is None
    assert not matches(graph, f32(1.005), f32(1.0), f32(1.01))


def exponential(size: int) -> Graph:
    node = make_node("EXP", ["x"], ["y"])
    return Graph("net", float_tensors("x", "y", size=size), (node,), ("x",), ("y",))


def test_what_overflows_has_no_slope() -> None:
    """In a trial: the number itself is finite."""
    graph, x = exponential(1), f32(88.7)
    slopes = sensitivity(graph)
    slopes.follow({"x": x}, is_first=True)
    assert slopes.slope(info(graph.tensors["y"])) == 0
    (wanted,) = hilc.interpreter.run(graph, {"x": x}).values()
    assert np.isfinite(wanted)
    assert not matches(graph, x, wanted, f32(np.inf))


def test_a_function_at_the_end_of_its_domain() -> None:
    """Half of the changes make its operand negative; the others tell the slope."""
    tensors = float_tensors("x", "p", "y")
    nodes = (make_node("LOGISTIC", ["x"], ["p"]), make_node("LOG", ["p"], ["y"]))
    graph, x = Graph("net", tensors, nodes, ("x",), ("y",)), f32(-9.24)
    slopes = sensitivity(graph)
    slopes.follow({"x": x}, is_first=True)
    slope = slopes.slope(info(tensors["y"]))
    assert slope is not None
    assert slope > 100
    (wanted,) = hilc.interpreter.run(graph, {"x": x}).values()
    assert matches(graph, x, wanted, wanted * np.float32(1 - 5e-5))
    for wrong in (0, 0.99, 1.01, -1, np.nan):
        assert not matches(graph, x, wanted, wanted * np.float32(wrong))


def running_sum() -> Graph:
    """The sum of all inputs since the reset."""
    node = make_node("ADD", ["s", "x"], ["y"], activation="NONE")
    tensors = float_tensors("s", "x", "y")
    return Graph("net", tensors, (node,), ("x",), ("y",), (State("s", "y"),))


def test_states_carry_the_slope() -> None:
    """The sum of a sequence is small: its slope is that of the terms, until a reset."""
    graph = running_sum()
    slopes = sensitivity(graph)
    y = info(graph.tensors["y"])
    for index, x in enumerate((100.0, -99.0, -0.5)):
        slopes.follow({"x": f32(x)}, is_first=index == 0)
    whole = slopes.slope(y)
    assert whole is not None
    assert 50 < whole[0] < 500
    one_by_one = sensitivity(graph)
    for index, x in enumerate((100.0, -99.0, -0.5)):
        one_by_one.follow({"x": f32(x)}, is_first=index == 0)
        found = one_by_one.slope(y)
    assert found == whole
    slopes.follow({"x": f32(1)}, is_first=True)
    again = slopes.slope(y)
    assert again is not None
    assert 0 < again[0] < 2


def test_a_long_sequence_keeps_its_slope() -> None:
    """Changes of many steps cancel out, as rounding does; they do not add up."""
    graph = running_sum()
    slopes = sensitivity(graph)
    for index in range(2000):
        slopes.follow({"x": f32(0 if index else 1)}, is_first=index == 0)
    slope = slopes.slope(info(graph.tensors["y"]))
    assert slope is not None
    assert 5 < slope[0] < 500


def test_a_sequence_that_cancels() -> None:
    graph = running_sum()
    reference = hilc.interpreter.Interpreter(graph)
    oracle = Oracle(
        "hilc", "", lambda index, sample: reference.run_all(sample), None, reference.reset_state
    )
    samples = [{"x": f32(x)} for x in (100, -60, -40)]

    class Rounded(Computed):
        def get_output(self, name: str) -> Array:
            return super().get_output(name) + np.float32(1e-5)

    def verdict(slopes: Sensitivity | None) -> bool:
        known, model = replace(oracle, sensitivity=slopes), Rounded(graph)
        return run(model, samples, known, keep_state=True).match

    assert verdict(sensitivity(graph))
    assert not verdict(None)


def test_infinities_are_counted() -> None:
    graph = exponential(3)
    oracle = Oracle("hilc", "", lambda index, sample: hilc.interpreter.run_all(graph, sample))
    report = run(Computed(graph), [{"x": f32(100, 200, 1)}], oracle)
    assert report.match
    assert report.to_json()["outputs"][0]["infinities"] == 2
    assert report.remarks[-1] == "output y: 2 elements are infinite in the reference and here"


def test_rounding_in_an_evaluation() -> None:
    """Of each sample alone: its reference starts from reset states."""
    graph = running_sum()
    data: Any = SimpleNamespace(samples=[{"x": f32(100)}, {"x": f32(1e-3)}, {"x": f32(1)}])
    y = info(graph.tensors["y"])
    kept: Any = SimpleNamespace(
        reference=lambda index, tensor: f32(index == 2),
        device=lambda index, tensor: f32(1 if index == 2 else 1e-4),
    )
    oracle = Oracle("hilc", "", lambda index, sample: {}, sensitivity=sensitivity(graph))
    others = evaluation._others(kept, (1, 0, 1, 2), y, data, oracle)
    assert others == [True, False, True, False]
    # Of what the tensor has in all samples: 1e-4 is much where nothing is larger than 0.
    assert evaluation._others(kept, (0, 1), y, data, oracle) == [True, True]
    strict = replace(oracle, sensitivity=None)
    assert evaluation._others(kept, (0, 2), y, data, strict) == [True, False]
