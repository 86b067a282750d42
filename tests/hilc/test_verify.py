"""The verifier, case by case: one valid graph and the ways to break it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hilc.errors import ModelError, UnsupportedError
from hilc.ir import Graph, Node, Quant, Tensor
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.verify import MAX_TENSOR_BYTES, verify

_QUANT = Quant((0.5,), (1,))


def _valid() -> Graph:
    """x -> RELU -> t -> ADD c -> y"""
    tensors = [
        Tensor("x", (1, 4), "int8", _QUANT),
        Tensor("t", (1, 4), "int8", _QUANT),
        Tensor("c", (1, 4), "int8", _QUANT, np.zeros((1, 4), np.int8)),
        Tensor("y", (1, 4), "int8", _QUANT),
    ]
    nodes = (
        Node("RELU", ("x",), ("t",), index=0),
        Node("ADD", ("t", "c"), ("y",), ActivationAttributes(), index=7),
    )
    return Graph("m", {t.name: t for t in tensors}, nodes, ("x",), ("y",))


def _tensor(which: str, **changes: Any) -> Callable[[Graph], Graph]:
    def change(graph: Graph) -> Graph:
        tensor = replace(graph.tensors[which], **changes)
        return graph.with_(tensors={**graph.tensors, which: tensor})

    return change


def _node(position: int, **changes: Any) -> Callable[[Graph], Graph]:
    def change(graph: Graph) -> Graph:
        nodes = list(graph.nodes)
        nodes[position] = replace(nodes[position], **changes)
        return graph.with_(nodes=tuple(nodes))

    return change


def _without_tensor(graph: Graph) -> Graph:
    return graph.with_(tensors={n: t for n, t in graph.tensors.items() if n != "c"})


def _with_second_output(graph: Graph) -> Graph:
    second = Tensor("u", (1, 4), "int8", _QUANT)
    return _node(0, outputs=("t", "u"))(graph.with_(tensors={**graph.tensors, "u": second}))


def test_valid_graph_passes() -> None:
    verify(_valid())


BROKEN: list[tuple[Callable[[Graph], Graph], str]] = [
    (_tensor("x", name="z"), "tensor 'z' is listed under the name 'x'"),
    (lambda g: g.with_(inputs=("x", "x")), "'x' is listed twice as input"),
    (lambda g: g.with_(outputs=("y", "y")), "'y' is listed twice as output"),
    (lambda g: g.with_(inputs=("nowhere",)), "the model's inputs: there is no tensor 'nowhere'"),
    (lambda g: g.with_(inputs=("x", "c")), "the model's input 'c' is a constant"),
    (lambda g: g.with_(inputs=()), "operator 0 (RELU) reads 'x' before any operator writes it"),
    (lambda g: g.with_(nodes=g.nodes[::-1]), "operator 7 (ADD) reads 't' before"),
    (lambda g: g.with_(nodes=(*g.nodes, g.nodes[0])), "writes 't', which already has a value"),
    (_node(1, outputs=("x",)), "operator 7 (ADD) writes 'x', which already has a value"),
    (_node(1, outputs=("c",)), "operator 7 (ADD) writes the constant 'c'"),
    (_node(1, outputs=("nowhere",)), "operator 7 (ADD): there is no tensor 'nowhere'"),
    (_without_tensor, "operator 7 (ADD): there is no tensor 'c'"),
    (lambda g: g.with_(outputs=("x",)), "no operator computes the model's output 'x'"),
    (lambda g: g.with_(outputs=("c",)), "no operator computes the model's output 'c'"),
    (lambda g: g.with_(outputs=()), "the model has no output"),
    (_tensor("y", shape=(4, 1)), "computes int8[1, 4] but 'y' is declared int8[4, 1]"),
    (_tensor("y", dtype="int32"), "computes int8[1, 4] but 'y' is declared int32[1, 4]"),
    (_with_second_output, "operator 0 (RELU)"),
    (_node(1, attrs={"activation": "GELU"}), "operator 7 (ADD): "),
    (_tensor("t", quant=None), "takes 't', of type int8, without quantization"),
    (_tensor("t", quant=Quant((0.5,), (128,))), "'t' has zero point 128, outside of int8"),
    (_tensor("t", quant=Quant((0.5,) * 4, (0,) * 4, 1)), "'t' is computed but quantized per"),
    (_tensor("c", quant=Quant((0.5,) * 3, (0,) * 3, 1)), "has 3 scales along axis 1"),
    (_tensor("c", quant=Quant((0.5,) * 4, (0,) * 4, 2)), "has 4 scales along axis 2"),
    (_tensor("t", shape=(1, MAX_TENSOR_BYTES + 1)), f"takes {MAX_TENSOR_BYTES + 1} bytes"),
    (_tensor("x", dtype="float32"), "'x' is float32 but has a quantization"),
]


@pytest.mark.parametrize(("change", "message"), BROKEN)
def test_broken_graph_is_refused(change: Callable[[Graph], Graph], message: str) -> None:
    with pytest.raises(ModelError) as caught:
        verify(change(_valid()))
    assert message in caught.value.fact


def test_unknown_operator_lists_the_known() -> None:
    with pytest.raises(UnsupportedError, match=r"operator 0 \(FUTURE\) is not supported") as caught:
        verify(_node(0, op="FUTURE")(_valid()))
    assert "CONV_2D" in caught.value.hint
