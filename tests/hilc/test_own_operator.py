"""An operator from one file outside the package (``own_operator.py``), from file to board."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns import cases
from tflite_builder import ModelBuilder

import hil
import hilc
import hilc.host
from hilc import interpreter
from hilc.errors import HilError, InputError
from hilc.frontends import load_model
from hilc.frontends.tflite import schema
from hilc.ir import Attributes, Graph, Node, Quant, Rounding, Tensor
from hilc.lowering import registry
from hilc.ops import OPS, _tables, register
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.quantize import QuantizeAttributes
from hilc.ops.traits import IntegerOperands
from hilc.transforms import run_passes
from hilc.transforms.fold_channels import fold_channels
from hilc.transforms.fuse_quantized import fuse_quantized

OWN = Path(__file__).parents[1] / "support" / "harness" / "own_operator.py"
SIDE, CHANNELS = 24, 4
#: A sum so large that what is computed of it is the same for every input: the RELU clamps it.
FAR = 1 << 24


@pytest.fixture(scope="module", autouse=True)
def own_operator() -> Iterator[None]:
    """The operator, registered as its file does it, and taken out again."""
    spec = importlib.util.spec_from_file_location("own_operator", OWN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["own_operator"] = module
    spec.loader.exec_module(module)
    yield
    del _tables()[0][module.NAME]
    # What is compiled by builders from outside is not kept in the cache: other tests ask for that.
    del registry._ENTRIES[module.NAME]
    del schema._OPERATORS[schema.custom_name("Negate")]


def _model() -> bytes:
    """conv -> Negate -> RELU -> conv -> (+ Negate of a constant)."""
    rng = np.random.default_rng(7)
    image = (1, SIDE, SIDE, CHANNELS)
    b = ModelBuilder()
    b.input("x", image, "int8", scale=0.1, zero_point=3)
    for name, bias in (("first", [40, FAR, FAR, 7]), ("second", [0] * CHANNELS)):
        weights = rng.integers(-90, 91, (CHANNELS, 3, 3, CHANNELS), np.int8)
        zeros = np.zeros(CHANNELS, np.int64)
        b.const(f"{name}/w", weights, np.full(CHANNELS, 0.002), zeros)
        b.const(f"{name}/b", np.array(bias, np.int32))
    b.const("k", rng.integers(-100, 100, (1, 1, 1, CHANNELS), np.int8), 0.1, 3)
    for name in ("c", "n", "r", "d"):
        b.tensor(name, image, "int8", scale=0.1, zero_point=3)
    b.tensor("negated", (1, 1, 1, CHANNELS), "int8", scale=0.1, zero_point=3)
    b.output("y", image, "int8", scale=0.1, zero_point=3)
    conv: dict[str, Any] = {
        "stride_h": 1, "stride_w": 1, "padding": "SAME", "dilation_h": 1, "dilation_w": 1,
    }  # fmt: skip
    b.op("CONV_2D", ("x", "first/w", "first/b"), ("c",), **conv)
    b.op("CUSTOM", ("c",), ("n",), custom_code="Negate", custom_options=b"\x00")
    b.op("RELU", ("n",), ("r",))
    b.op("CONV_2D", ("r", "second/w", "second/b"), ("d",), **conv)
    b.op("CUSTOM", ("k",), ("negated",), custom_code="Negate", custom_options=b"\x01")
    b.op("ADD", ("d", "negated"), ("y",))
    return b.build()


def test_it_is_imported_folded_and_fused() -> None:
    graph = load_model(_model())
    assert [node.op for node in graph.nodes].count("NEGATE") == 1  # the other was of a constant
    simplified = run_passes(graph)
    (own,) = (node for node in simplified.nodes if node.op == "NEGATE")
    assert own.attrs == ActivationAttributes(activation="RELU")
    assert [node.op for node in simplified.nodes] == ["CONV_2D", "NEGATE", "CONV_2D", "ADD"]
    folded = fold_channels(simplified).graph
    (own,) = (node for node in folded.nodes if node.op == "NEGATE")
    assert folded.tensors[own.outputs[0]].shape == (1, SIDE, SIDE, CHANNELS - 2)


@pytest.mark.parametrize(
    ("scales", "message"),
    [
        (
            (Quant((0.1,), (3,)), Quant((0.2,), (3,))),
            "'x' and gives 'y', whose quantizations differ",
        ),
        (
            (Quant((0.1,), (3,)), Quant((0.1,), (4,))),
            "'x' and gives 'y', whose quantizations differ",
        ),
        ((None, Quant((0.1,), (3,))), "takes 'x', of type int8, without quantization"),
        ((Quant((0.1,), (3,)), None), "takes 'y', of type int8, without quantization"),
        ((None, None), "takes 'x', of type int8, without quantization"),
    ],
    ids=["two scales", "two zero points", "input without", "output without", "both without"],
)
def test_other_quantizations_are_refused(
    scales: tuple[Quant | None, Quant | None], message: str
) -> None:
    tensors = (Tensor("x", (1, 4), "int8", scales[0]), Tensor("y", (1, 4), "int8", scales[1]))
    node = Node("NEGATE", ("x",), ("y",), ActivationAttributes())
    graph = Graph("net", {tensor.name: tensor for tensor in tensors}, (node,), ("x",), ("y",))
    with pytest.raises(HilError, match=message):
        hilc.compile(graph)


@cases("goal", ["speed", "ram"], first=1)
def test_it_runs_in_this_process_and_on_a_board(goal: str) -> None:
    data = _model()
    rng = np.random.default_rng(1)
    graph = load_model(data)
    library = hilc.compile(data, cpu="cortex-m4", name="net", optimize=goal)
    (module,) = library.modules
    if goal == "ram":
        # Cut into rows, with the layers around it.
        assert any("r" in layer.group for layer in module.layers)
    host = hilc.compile(data, cpu="host", name="net", optimize=goal)
    with hil.open("mps2-an386", library) as device, hilc.host.load(host) as here:
        for _ in range(3):
            x = rng.integers(-128, 128, (1, SIDE, SIDE, CHANNELS), np.int8)
            expected = interpreter.run(graph, {"x": x})["y"]
            for model in (device["net"], here):
                model.set_input(0, x)
                model.run()
                np.testing.assert_array_equal(model.get_output(0), expected)


def test_it_is_in_the_table_of_the_documents() -> None:
    reference = importlib.import_module("reference")
    page = reference.operators()
    assert "`NEGATE`" in page
    assert "An operator from outside the package" in page


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("left_to_chance", "undefined_in_tflm"),
        ("moves", "copies_elements"),
        ("added_around", "explicit_padding"),
        ("passes_on", "is_identity"),
        ("links", "channel_groups"),
        ("narrowed", "with_fewer_channels"),
    ],
)
def test_old_fields_are_refused_by_name(old: str, new: str) -> None:
    own = OPS["NEGATE"]
    given: Any = {old: None}
    with pytest.raises(InputError, match=old) as caught:
        replace(own, **given)
    assert new in str(caught.value.hint)
    assert getattr(own, new, "") != ""


def test_its_integer_form_is_fused() -> None:
    """Integers between DEQUANTIZE and QUANTIZE are computed as the operator states."""
    even = Rounding.NEAREST_EVEN
    quant = Quant((0.5,), (3,))
    tensors = [
        Tensor("x", (1, 4), "int8", quant),
        Tensor("f", (1, 4), "float32"),
        Tensor("g", (1, 4), "float32"),
        Tensor("y", (1, 4), "int8", quant),
    ]
    nodes = (
        Node("DEQUANTIZE", ("x",), ("f",), rounding=even),
        Node("OWN_FLOAT", ("f",), ("g",)),
        Node("QUANTIZE", ("g",), ("y",), QuantizeAttributes(dtype="int8"), rounding=even),
    )
    graph = Graph("own", {t.name: t for t in tensors}, nodes, ("x",), ("y",))
    own = replace(
        OPS["NEGATE"],
        infer=lambda node, ins: [(t.shape, t.dtype) for t in ins if t is not None],
        attributes=Attributes,
        roundings=frozenset({Rounding.DOUBLE, even}),
    )
    computed = {}
    for form in (None, IntegerOperands()):
        # Not elementwise for the passes: no table of its values is made.
        _tables()[0]["OWN_FLOAT"] = replace(own, rows=None, channel_groups=None, integer_form=form)
        try:
            fused = fuse_quantized(graph).graph
        finally:
            del _tables()[0]["OWN_FLOAT"]
        computed[form] = [node.op for node in fused.nodes]
    assert computed[None] == ["DEQUANTIZE", "OWN_FLOAT", "QUANTIZE"]
    assert computed[IntegerOperands()] == ["OWN_FLOAT"]


def test_names_are_taken_once() -> None:
    with pytest.raises(InputError, match="'NEGATE'"):
        register("NEGATE", OPS["RELU"])
    with pytest.raises(InputError, match="'Negate' is registered"):
        schema.register_custom("Negate", schema.Operator((1, 1)))
