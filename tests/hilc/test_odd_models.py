"""Models with something that few models have: equal to the reference in every byte and layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import litert_ref
import numpy as np
import pytest
import tflm
from answers import entry
from campaigns import cases, sampled
from odd_models import ODD_MODELS, Q, open_batch, outputs, reference_name
from tflite_builder import ModelBuilder

import hilc
import hilc.host
from hil import verify
from hil.cli import main
from hil.oracle import reference_of
from hil.verify.samples import random_sample
from hilc.artifact.library import Module
from hilc.errors import InputError, ModelError, UnsupportedError
from hilc.frontends import load_model
from hilc.host import HostModel
from hilc.interpreter import run_all
from hilc.ir import Array, FixedSize
from hilc.memory.plan import Pin

FORMS: Mapping[str, dict[str, Any]] = {
    "structs": {"interface": "c", "pools": "external"},
    "packed": {"api": "packed", "interface": "packed", "pools": "calls"},
    "in the pool": {"io_in_pool": True, "pools": "internal"},
    "kept": {"io_in_pool": True, "keep_inputs": True, "pools": "external", "optimize": "size"},
}


@tflm.needs_tflm
@pytest.mark.parametrize("form", sampled(FORMS, keep=["packed", "in the pool"]))
def test_on_the_host(form: str, tmp_path: Path) -> None:
    libraries = {
        name: hilc.compile(build(), name=name, **FORMS[form]) for name, build in ODD_MODELS.items()
    }
    path = hilc.host.export_library(hilc.merge(list(libraries.values())), tmp_path / "odd.so")
    factory = hilc.host.load_module(path)
    for name, library in libraries.items():
        (module,) = library.modules
        with factory[name](hilc.host.cpu(0)) as executor:
            assert isinstance(executor.model, HostModel)
            report = verify(
                executor.model,
                [random_sample(module.inputs, 1, index) for index in range(3)],
                reference_of(library, module, reference_name(name)),
                board="this machine",
                per_layer=True,
            )
        report.check()
        assert not any(layer.uncompared for layer in report.layers or ())


@tflm.needs_tflm
@cases("model", ["clamps_of_two_scales", "negative_slopes", "wide_shares"], first=1)
@pytest.mark.parametrize("seed", range(3))
def test_every_number_of_8_bits_and_the_ends_of_16(model: str, seed: int) -> None:
    """Through the interpreter and C on the host, against TensorFlow Lite Micro."""
    rng = np.random.default_rng(seed)
    data = ODD_MODELS[model]()
    graph = load_model(data)
    values = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        every: Array = rng.normal(size=256).astype(np.float32) * 100
        if tensor.dtype != "float32":
            ends = np.iinfo(tensor.dtype)
            every = np.arange(-128, 128) if seed else rng.choice([ends.min, 0, 1, ends.max], 256)
            every = np.clip(every * (1 if tensor.dtype == "int8" else rng.integers(1, 256)),
                            ends.min, ends.max)  # fmt: skip
        values[name] = rng.permutation(np.resize(every, tensor.size)).reshape(tensor.shape)
        values[name] = values[name].astype(tensor.dtype)
    expected = tflm.run(data, values)
    computed = run_all(graph, values)
    with hilc.host.load(hilc.compile(data, name="net")) as host:
        for name, value in values.items():
            host.set_input(name, value)
        host.run()
        for name in graph.outputs:
            np.testing.assert_array_equal(computed[name], expected[name])
            np.testing.assert_array_equal(host.get_output(name), expected[name])


def test_outputs_have_names_of_their_own() -> None:
    library = hilc.compile(outputs(), name="net")
    (module,) = library.modules
    names = ("y", "x_output1", "y_output2", "c", "x_output4", "n_output5", "flag_output6")
    assert tuple(tensor.name for tensor in module.outputs) == (*names, "q", "c_output8", "d")
    assert [(tensor.dtype, tensor.shape) for tensor in module.outputs[3:7]] == [
        ("int8", (5,)),
        ("int8", (1, 4)),
        ("int32", (2, 3)),
        ("bool", (3,)),
    ]


def test_outputs_that_share_memory_take_none() -> None:
    """What is handed through lies where the input does, what is listed twice lies there once."""
    (module,) = hilc.compile(outputs(), name="net", io_in_pool=True).modules
    places = {tensor.name: tensor.offset for tensor in (*module.inputs, *module.outputs)}
    assert places["x"] == places["x_output1"] == places["x_output4"]
    assert places["y"] == places["y_output2"] != places["x"]
    assert places["n"] == places["n_output5"]


def test_pins_of_what_shares_memory() -> None:
    pins = {"x": Pin(0), "x_output1": Pin(0), "y_output2": Pin(64)}
    (module,) = hilc.compile(outputs(), name="net", io_in_pool=True, pins=pins).modules
    places = {tensor.name: tensor.offset for tensor in (*module.inputs, *module.outputs)}
    assert (places["x"], places["x_output4"], places["y"]) == (0, 0, 64)
    with pytest.raises(
        InputError, match="'y_output2' and 'y' share one buffer but are pinned at 64"
    ):
        hilc.compile(outputs(), io_in_pool=True, pins={"y": Pin(0), "y_output2": Pin(64)})


def test_shapes_that_a_file_leaves_open() -> None:
    graph = load_model(open_batch())
    assert [node.op for node in graph.nodes] == ["RESHAPE", "RELU", "RESHAPE", "LEAKY_RELU"]
    assert graph.tensors["flat"].shape == (4, 6)
    assert graph.tensors["y"].shape == (2, 12)


def test_an_open_batch_is_fixed_and_said_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "open.tflite"
    model.write_bytes(open_batch())
    library = hilc.compile(model)
    fixed = FixedSize("x", 0, 1)
    assert library.modules[0].fixed_sizes == (fixed,)
    archive = library.save(tmp_path / "open.tar")
    assert hilc.ModelLibrary.load(archive).modules[0].fixed_sizes == (fixed,)

    compile_ = ["compile", str(model), "-o", str(tmp_path / "again.tar")]
    assert main(compile_) == 0
    assert "open: the file leaves axis 0 of the input x open; it is fixed at 1\n" in (
        capsys.readouterr().out
    )
    assert main([*compile_, "--force", "--json"]) == 0
    said = entry(capsys.readouterr().out)
    assert said["fixed_sizes"] == [{"input": "x", "axis": 0, "size": 1}]


def test_the_shape_of_an_open_batch_may_be_stated() -> None:
    """It is the one that the file is compiled with; no other one is."""
    shape = hilc.compile(open_batch()).modules[0].inputs[0].shape
    stated = hilc.compile(open_batch(), shapes={"x": shape})
    assert stated.modules[0].inputs[0].shape == shape
    with pytest.raises(InputError, match="the input 'x' is .* does not fit") as found:
        hilc.compile(open_batch(), shapes={"x": (2, *shape[1:])})
    assert "a batch of 1 where it leaves that open" in found.value.hint
    with pytest.raises(InputError, match="has constants of its own; 'x' cannot be given"):
        hilc.compile(open_batch(), inputs={"x": np.zeros(shape, np.float32)})


def test_a_description_of_other_sizes(tmp_path: Path) -> None:
    (module,) = hilc.compile(open_batch()).modules
    for wrong in (FixedSize("y", 0, 1), FixedSize("x", 3, 1), FixedSize("x", 0, 2)):
        text = replace(module, fixed_sizes=(wrong,)).to_json()
        with pytest.raises(InputError, match="is not of an input"):
            Module.from_json(text, "here")


def test_models_without_open_sizes_state_none() -> None:
    assert b"fixed_sizes" not in hilc.compile(outputs()).files["hil/default.json"]


def _bare_rank(b: ModelBuilder) -> None:
    """A result of unknown rank, for which a file gives no side at all."""
    b.input("x", (1, 4), **Q)
    b.tensor("r", (), **Q)
    b.output("y", (), **Q)
    b.op("RELU", ("x",), ("r",))
    b.op("RELU6", ("r",), ("y",))


def test_a_rank_that_a_file_leaves_open() -> None:
    b = ModelBuilder()
    _bare_rank(b)
    graph = load_model(b.build())
    assert graph.tensors["y"].shape == (1, 4)


# What stands in a file beside the graph -----------------------------------------------------------


def _sum_with_constant(**build: Any) -> bytes:
    b = ModelBuilder()
    b.input("x", (1, 4))
    b.const("c", np.array([[1, 2, 3, 4]], np.float32))
    b.output("y", (1, 4))
    b.op("ADD", ("x", "c"), ("y",))
    return b.build(**build)


def test_data_behind_the_flatbuffer() -> None:
    data = _sum_with_constant(outside=True)
    graph = load_model(data)
    x = {"x": np.ones((1, 4), np.float32)}
    assert run_all(graph, x)["y"].tolist() == [[2, 3, 4, 5]]
    reference = litert_ref.reference(graph, data)
    np.testing.assert_array_equal(reference.run_all(x)["y"], [[2, 3, 4, 5]])
    with pytest.raises(ModelError, match="reads no data behind the FlatBuffers part"):
        tflm.reference(graph, data)
    with pytest.raises(ModelError, match="16 bytes at .* exceed the file's"):
        load_model(data[:-1])


def test_metadata_is_no_matter() -> None:
    b = ModelBuilder(metadata={"min_runtime_version": b"1.14.0", "x": b""})
    b.input("x", (1, 4), **Q)
    b.output("y", (1, 4), **Q)
    b.op("RELU", ("x",), ("y",))
    data = b.build()
    graph = load_model(data)
    x = {"x": np.arange(-2, 2, dtype=np.int8).reshape(1, 4)}
    expected = tflm.reference(graph, data).run_all(x)["y"]
    np.testing.assert_array_equal(run_all(graph, x)["y"], expected, strict=True)


# Refused ------------------------------------------------------------------------------------------


def _range_at_run_time(b: ModelBuilder) -> None:
    b.input("x", (), "int32")
    b.const("n", np.array(7, np.int32))
    b.const("d", np.array(1, np.int32))
    b.output("y", (2,), "int32")
    b.op("RANGE", ("x", "n", "d"), ("y",))


def _gather_outside(b: ModelBuilder) -> None:
    b.input("x", (1, 4), **Q)
    b.tensor("shape", (2,), "int32")
    b.const("i", np.array([2], np.int32))
    b.tensor("n", (1,), "int32")
    b.output("y", (4,), **Q)
    b.op("SHAPE", ("x",), ("shape",), out_type=2)
    b.op("GATHER", ("shape", "i"), ("n",))
    b.op("RESHAPE", ("x", "n"), ("y",))


def _gather_too_much(b: ModelBuilder) -> None:
    b.const("table", np.zeros((1, 1 << 13), np.int32))
    b.const("i", np.zeros(1 << 12, np.int32))
    b.output("y", (1 << 12, 1 << 13), "int32")
    b.op("GATHER", ("table", "i"), ("y",))


def _huge_result(b: ModelBuilder) -> None:
    """Of an operator on constants, whose shape the file leaves open."""
    b.input("x", (1, 4), **Q)
    b.const("c", np.zeros((1, 4), np.int8), 0.1, 3)
    b.const("p", np.full((2, 2), 1 << 20, np.int32))
    b.tensor("padded", (1, 1), **Q, signature=(-1, -1))
    b.output("y", (1, 4), **Q)
    b.op("PAD", ("c", "p"), ("padded",))
    b.op("ADD", ("x", "padded"), ("y",))


def _much_at_once(b: ModelBuilder) -> None:
    b.input("x", (1, 9 << 20), **Q)
    b.output("y", (1, 9 << 20), **Q)
    b.op("RELU", ("x",), ("y",))


def _variable(b: ModelBuilder) -> None:
    b.input("x", (1, 4), **Q)
    b.tensor("state", (1, 4), variable=True, **Q)
    b.output("y", (1, 4), **Q)
    b.op("ADD", ("x", "state"), ("y",))


def _nine_dimensions(b: ModelBuilder) -> None:
    b.input("x", (1,) * 9, **Q)
    b.output("y", (1,) * 9, **Q)
    b.op("RELU", ("x",), ("y",))


def _seven_dimensions(b: ModelBuilder) -> None:
    b.input("x", (2,) * 7)
    b.const("p", np.arange(7, dtype=np.int32)[::-1].copy())
    b.output("y", (2,) * 7)
    b.op("TRANSPOSE", ("x", "p"), ("y",))


def _weights_with_zero_points(b: ModelBuilder) -> None:
    b.input("x", (1, 4), **Q)
    b.const("w", np.ones((2, 4), np.int8), (0.1, 0.2), (0, 5))
    b.output("y", (1, 2), **Q)
    b.op("FULLY_CONNECTED", ("x", "w", ""), ("y",))


def _empty_result(b: ModelBuilder) -> None:
    b.input("x", (1, 4), **Q)
    b.output("y", (0, 4), **Q)
    b.op("RELU", ("x",), ("y",))


def _empty_operand(b: ModelBuilder) -> None:
    b.input("x", (1, 4), **Q)
    b.tensor("none", (0,), data=np.zeros(0, np.int8), **Q)
    b.output("y", (1, 4), **Q)
    b.op("ADD", ("x", "none"), ("y",))


def _empty_output(b: ModelBuilder) -> None:
    b.input("x", (1, 4), **Q)
    b.output("y", (1, 4), **Q)
    b.op("RELU", ("x",), ("y",))
    b.output("axes", (0,), "int32")


def _input_twice(b: ModelBuilder) -> None:
    b.input("x", (1, 4), **Q)
    b.inputs("x")
    b.output("y", (1, 4), **Q)
    b.op("RELU", ("x",), ("y",))


def _activation_of_scale_zero(b: ModelBuilder) -> None:
    b.input("x", (1, 4), "int8", 0.0, 0)
    b.output("y", (1, 4), **Q)
    b.op("RELU", ("x",), ("y",))


def _mean_without_operand(b: ModelBuilder) -> None:
    b.input("x", (1, 4), **Q)
    b.output("y", (), **Q)
    b.op("MEAN", ("x",), ("y",))


@pytest.mark.parametrize(
    ("build", "kind", "words"),
    [
        (_range_at_run_time, UnsupportedError, ("operator 0 (RANGE)", "'x' (int32[])")),
        (_gather_outside, ModelError, ("operator 1 (GATHER)", "element 2 of axis 0, which has 2")),
        (_gather_too_much, ModelError, ("'y'", "that may ever fit")),
        (_huge_result, ModelError, ("operator 0 (PAD)", "'padded'", "that may ever fit")),
        (_much_at_once, UnsupportedError, ("operator 0 (RELU)", "18874368 bytes at once")),
        (_variable, UnsupportedError, ("operator 0 (ADD)", "reads the variable 'state'")),
        (_nine_dimensions, UnsupportedError, ("'x'", "9 dimensions")),
        (_seven_dimensions, UnsupportedError, ("operator 0 (TRANSPOSE)", "7 axes, more than 6")),
        (
            _weights_with_zero_points,
            UnsupportedError,
            ("operator 0 (FULLY_CONNECTED)", "'w' with a zero point other than 0"),
        ),
        (_empty_result, UnsupportedError, ("operator 0 (RELU)", "'y' has shape [0, 4]")),
        (_empty_operand, UnsupportedError, ("operator 0 (ADD)", "'none', int8[0]")),
        (_empty_output, UnsupportedError, ("the model's output 'axes', int32[0]",)),
        (_input_twice, ModelError, ("'x' is listed twice as input",)),
        (_activation_of_scale_zero, ModelError, ("operator 0 (RELU)", "'x' with scale 0.0")),
        (_mean_without_operand, ModelError, ("operator 0 (MEAN)", "1 inputs; 2 are accepted")),
    ],
)
def test_refused(
    build: Callable[[ModelBuilder], None], kind: type[ModelError], words: tuple[str, ...]
) -> None:
    b = ModelBuilder()
    build(b)
    with pytest.raises(ModelError) as caught:
        load_model(b.build())
    assert type(caught.value) is kind
    for word in words:
        assert word in caught.value.fact
    if kind is UnsupportedError:
        assert caught.value.hint
