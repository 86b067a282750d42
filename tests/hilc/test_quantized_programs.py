"""Networks that `hilc.quantization` quantized with torchao: equal to PyTorch's eager execution."""

from __future__ import annotations

import io
import json
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns import cases
from quantized_files import fused_file

import hilc
from hilc import host
from hilc.errors import HilError, InputError
from hilc.frontends import load_model, read_model
from hilc.interpreter import Interpreter
from hilc.quantization import QuantizedModel, Samples, quantize
from hilc.quantization.report import compare
from hilc.references import get_reference

#: Made by tools/quantized_programs.py.
PROGRAMS = Path(__file__).resolve().parents[1] / "quantized_programs.tar.xz"
NAMES = (
    "attention",
    "branched",
    "cells",
    "decoder",
    "masked",
    "regression",
    "separable",
    "sequence",
)
#: Those with layers without an integer implementation, and the layers.
#: Those whose samples are one sequence, which a state remembers.
SEQUENCES = ("decoder",)
IN_FLOATS = {"cells": {"gru_cell", "getitem", "rnn_tanh_cell"}}


@cache
def files() -> dict[str, bytes]:
    with tarfile.open(PROGRAMS) as archive:
        return {m.name: file.read() for m in archive if (file := archive.extractfile(m))}


def arrays(name: str) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(files()[f"{name}.npz"])) as stored:
        return dict(stored)


@cases("name", NAMES, first=2)
def test_integers_are_what_pytorch_computes(name: str) -> None:
    """At most one output in ten thousand is off, by one step: here, none."""
    read = read_model(files()[f"{name}.pt2"], name)
    graph, model = read.graph, read.data
    stored = arrays(name)
    reference = get_reference("qdq", graph, model)
    for x, wanted in zip(stored["x"], stored["quantized"], strict=True):
        found = reference.run_all({"x": x})[graph.outputs[0]]
        np.testing.assert_array_equal(found, wanted)


@cases("name", NAMES, first=2)
def test_the_library_gives_the_same_bytes(name: str) -> None:
    stored = arrays(name)
    library = hilc.compile(files()[f"{name}.pt2"], name=name, allow_float=name in IN_FLOATS)
    with host.load(library) as model:
        for x, wanted in list(zip(stored["x"], stored["quantized"], strict=True))[:8]:
            model.set_input("x", x)
            model.run()
            np.testing.assert_array_equal(model.get_output(0), wanted)


@pytest.mark.parametrize("name", NAMES)
def test_float_layers_have_no_integer_form(name: str) -> None:
    fused = fused_file(files()[f"{name}.pt2"], name)
    names = {layer.name.partition(":")[0] for layer in fused.float_layers}
    assert names == IN_FLOATS.get(name, set())
    if names:
        with pytest.raises(HilError, match=f"{len(names)} layers? of the quantized model compute"):
            hilc.compile(files()[f"{name}.pt2"], name=name)


@cases("name", NAMES, first=2)
def test_the_report_is_made_again(name: str) -> None:
    plain = load_model(files()[f"{name}.float.pt2"], name)
    stored = arrays(name)
    interpreter = Interpreter(plain)
    for x, wanted in zip(stored["x"], stored["float"], strict=True):
        found = interpreter.run({"x": x})[plain.outputs[0]]
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    recorded = json.loads(files()[f"{name}.json"])
    samples = Samples({"x": stored["x"]}, plain)
    quantized = read_model(files()[f"{name}.pt2"], name)
    kept = name in SEQUENCES
    report = compare(plain, quantized, samples, None, lambda: None, len(samples), keep_state=kept)
    (output,) = report.outputs.values()
    assert output == pytest.approx(next(iter(recorded["outputs"].values())), abs=0.05)
    assert output is not None
    assert output > 25
    by_name = {tensor["name"]: tensor for tensor in recorded["tensors"]}
    # A normalization is part of the layer before it in the recorded report.
    for tensor in report.tensors:
        assert tensor.scale == by_name[tensor.name]["scale"]


def test_a_cache_of_a_decoder_is_integers() -> None:
    graph = fused_file(files()["decoder.pt2"], "decoder").graph
    kinds = {state.name: graph.tensors[state.name].dtype for state in graph.states}
    assert kinds == {"b_keys": "int8", "b_values": "int8", "b_position": "int64"}
    # What stands for zeros, written in place: nothing of it is copied or converted.
    for state in graph.states[:2]:
        quant = graph.tensors[state.name].quant
        assert quant is not None
        assert (graph.reset_value(state) == quant.zero_point[0]).all() or state.name == "b_position"
    assert [node.op for node in graph.nodes].count("QUANTIZE") == 0


def test_weights_that_a_run_quantizes_are_constants() -> None:
    fused = fused_file(files()["unfolded.pt2"], "unfolded")
    graph = fused.graph
    assert not fused.float_layers
    interpreter, stored = Interpreter(graph), arrays("unfolded")
    (name,) = graph.inputs
    for x, wanted in zip(stored["x"], stored["quantized"], strict=True):
        np.testing.assert_array_equal(interpreter.run({name: x})[graph.outputs[0]], wanted)


@pytest.mark.parametrize("name", NAMES)
def test_outputs_keep_their_names(name: str) -> None:
    plain, quantized = (load_model(files()[f"{name}{end}.pt2"]) for end in (".float", ""))
    assert quantized.outputs == plain.outputs


def test_scores_that_a_mask_hides_get_nothing() -> None:
    graph = fused_file(files()["masked.pt2"], "masked").graph
    values = Interpreter(graph).run_all({"x": arrays("masked")["x"][0]})
    shares = [node for node in graph.nodes if node.op == "SOFTMAX"]
    assert len(shares) == 4
    for node in shares[:2]:
        later = np.triu(np.ones((6, 6), bool), 1)
        assert (values[node.outputs[0]][0, :, later] == -128).all()


# With PyTorch ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def torch() -> Any:
    pytest.importorskip("torchao", reason="pip install 'hil-harness[torch]'")
    return pytest.importorskip("torch")


@pytest.mark.full
def test_a_module_is_quantized(torch: Any, tmp_path: Path) -> None:
    stored = arrays("regression")
    made = quantize(files()["regression.float.pt2"], stored["x"], name="regression")
    assert isinstance(made, QuantizedModel)
    recorded = json.loads(files()["regression.json"])
    assert made.report.outputs == pytest.approx(recorded["outputs"], abs=0.05)
    for suffix in (".pt2", ".onnx"):
        path = made.save(tmp_path / f"net{suffix}")
        read = read_model(path)
        graph, model = read.graph, read.data
        reference = get_reference("qdq", graph, model)
        found = reference.run_all({"x": stored["x"][0]})[graph.outputs[0]]
        np.testing.assert_array_equal(found, stored["quantized"][0])
    with pytest.raises(InputError, match="use a name that ends in .pt2 or .onnx"):
        made.save(tmp_path / "net.tflite")


@pytest.mark.full
def test_a_module_that_cannot_be_exported(torch: Any, capfd: pytest.CaptureFixture[str]) -> None:
    class Cut(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x[:, : int(x.sum().item())]

    with pytest.raises(HilError, match="PyTorch cannot export the module Cut"):
        hilc.compile(Cut().eval(), samples=torch.rand(1, 4))
    with pytest.raises(InputError, match="Linear does not run with samples of int64"):
        hilc.compile(torch.nn.Linear(4, 2).eval(), samples=torch.ones(1, 4, dtype=torch.long))
    assert capfd.readouterr() == ("", "")


@pytest.mark.full
def test_a_wrong_shape_in_a_branch(torch: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """PyTorch compiles the branches: its error and its log would hide the sizes."""

    class Choice(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            weights = torch.ones(4, 3)
            return torch.cond(x.sum() > 0, lambda a: a @ weights, lambda a: -a @ weights, (x,))

    with pytest.raises(InputError, match=r"float32\[2, 5\]: .*\[2, 5\] X \[4, 3\]") as caught:
        hilc.compile(Choice().eval(), samples=torch.ones(2, 5))
    assert len(caught.value.fact) < 200
    assert capfd.readouterr() == ("", "")


@pytest.mark.full
def test_torchaos_own_steps_take_the_quantizer(torch: Any) -> None:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from hilc.quantization import TorchQuantizer

    class Network(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = torch.nn.Conv2d(2, 4, 3), torch.nn.BatchNorm2d(4)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.norm(self.conv(x)))

    x = torch.randn(1, 2, 8, 8)
    for calibrator in ("percentile", "mse"):
        module = torch.export.export(Network().eval(), (x,)).module()
        prepared = prepare_pt2e(module, TorchQuantizer(calibrator=calibrator))
        for _ in range(4):
            prepared(torch.randn(1, 2, 8, 8))
        library = hilc.compile(convert_pt2e(prepared), samples=x)
        assert not library.modules[0].float_layers
    with pytest.raises(InputError, match="no node or module 'cnv' to exclude .did you mean conv"):
        prepare_pt2e(
            torch.export.export(Network().eval(), (x,)).module(), TorchQuantizer(exclude=["cnv"])
        )
