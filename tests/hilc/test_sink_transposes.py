"""Transposes that sink: each operator that says how it is permuted, and whole graphs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from single_op import KINDS, random_op

from hilc.interpreter import run
from hilc.ir import Graph, Node, Numerics, Quant, Tensor
from hilc.ops import OPS, permuting
from hilc.ops.attributes import ActivationAttributes, ReductionAttributes
from hilc.ops.concat_split import ConcatenationAttributes
from hilc.transforms import run_passes
from hilc.transforms.numerics import with_numerics
from hilc.transforms.sink_transposes import sink_transposes

PERMUTED = [kind for kind in KINDS if OPS[kind[0]].permuted is not None]


@pytest.mark.parametrize(("op", "dtype"), PERMUTED)
def test_operators_on_permuted_operands(op: str, dtype: str) -> None:
    rng = np.random.default_rng(len(op) + len(dtype))
    permute = OPS[op].permuted
    assert permute is not None
    done = 0
    for _ in range(60):
        single = random_op(rng, op, dtype)
        node, ins, outs = single.node, single.ins, single.outs
        broadcast = OPS[op].permuted is permuting.elements
        rank = len((outs if broadcast else ins)[0].shape)
        order = tuple(int(axis) for axis in rng.permutation(rank))
        permuted = permute(node, ins, outs, order)
        if permuted is None:
            continue
        tensors, values = list(ins), list(single.values)
        for place in permuted.moved:
            values[place] = np.transpose(values[place], np.argsort(order))
            tensors[place] = replace(ins[place], shape=values[place].shape)
        for place, value in permuted.constants.items():
            values[place] = value
            tensors[place] = replace(ins[place], shape=value.shape, data=value)
        made = replace(node, attrs=permuted.attrs)
        results = [
            replace(out, shape=shape)
            for out, (shape, _) in zip(outs, OPS[op].infer(made, tensors), strict=True)
        ]
        OPS[op].check(made, tensors, results)
        wanted = OPS[op].reference(node, ins, outs, single.values)
        found = OPS[op].reference(made, tensors, results, values)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(np.transpose(one, permuted.order), other)
        done += 1
    assert done >= 5


# Graphs -------------------------------------------------------------------------------------------

NHWC_TO_NCHW, NCHW_TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)


class Drawing:
    """A graph under construction: float32 tensors named by what computes them."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []

    def input(self, name: str, *shape: int) -> str:
        self.tensors[name] = Tensor(name, shape, "float32")
        return name

    def constant(self, value: np.ndarray) -> str:
        name = f"c{len(self.tensors)}"
        self.tensors[name] = Tensor(name, value.shape, value.dtype.name, data=value)
        return name

    def op(self, op: str, *inputs: str, attrs: object = None) -> str:
        name = f"{op.lower()}{len(self.nodes)}"
        node = Node(op, inputs, (name,), attrs or OPS[op].attributes(), len(self.nodes))  # type: ignore[arg-type]
        ((shape, dtype),) = OPS[op].infer(node, [self.tensors[i] for i in inputs])
        self.tensors[name] = Tensor(name, shape, dtype)
        self.nodes.append(node)
        return name

    def transpose(self, x: str, order: tuple[int, ...]) -> str:
        return self.op("TRANSPOSE", x, self.constant(np.array(order, np.int32)))

    def graph(self, *outputs: str) -> Graph:
        given = [n for n, t in self.tensors.items() if t.data is None]
        computed = {n for node in self.nodes for n in node.outputs}
        inputs = tuple(n for n in given if n not in computed)
        graph = Graph("drawn", self.tensors, tuple(self.nodes), inputs, outputs)
        return with_numerics(graph, Numerics.ONNX)


def transposes(graph: Graph) -> int:
    return sum(node.op == "TRANSPOSE" for node in graph.nodes)


def assert_equal(before: Graph, after: Graph) -> None:
    rng = np.random.default_rng(3)
    inputs = {
        name: rng.normal(size=before.tensors[name].shape).astype(np.float32)
        for name in before.inputs
    }
    wanted, found = run(before, inputs), run(after, inputs)
    for name in before.outputs:
        np.testing.assert_array_equal(found[name], wanted[name])


def test_a_chain_of_layers_keeps_one_order() -> None:
    """Channels first outside, last inside; the constants follow."""
    d = Drawing()
    x = d.transpose(d.input("x", 1, 4, 4, 6), NHWC_TO_NCHW)
    plain = ActivationAttributes()
    y = d.op("MUL", x, d.constant(np.arange(6, dtype=np.float32).reshape(1, 6, 1, 1)), attrs=plain)
    y = d.op("RELU", y)
    z = d.op("ADD", y, x, attrs=plain)
    z = d.op("CONCATENATION", z, y, attrs=ConcatenationAttributes(axis=1))
    pads = np.array([[0, 0], [0, 0], [1, 2], [0, 1]], np.int32)
    z = d.op("PAD", z, d.constant(pads))
    out = d.op("ABS", d.transpose(z, NCHW_TO_NHWC))
    graph = d.graph(out)
    sunk = run_passes(graph)
    assert transposes(sunk) == 0
    assert_equal(graph, sunk)


def test_a_layout_change_moves_with_a_transpose() -> None:
    """A factor for each channel, as squeeze and excitation have it: (1, C, 1, 1) is a view."""
    d = Drawing()
    x = d.transpose(d.input("x", 1, 4, 5, 6), NHWC_TO_NCHW)
    gate = d.op("LOGISTIC", d.input("gate", 1, 6, 1, 1))
    y = d.op("MUL", gate, x, attrs=ActivationAttributes())
    out = d.op("ABS", d.transpose(y, NCHW_TO_NHWC))
    graph = d.graph(out)
    sunk = run_passes(graph)
    assert transposes(sunk) == 0
    assert_equal(graph, sunk)


def test_a_move_of_elements_blocks_a_transpose() -> None:
    d = Drawing()
    x = d.transpose(d.input("x", 1, 4, 5, 6), NHWC_TO_NCHW)
    rows = d.op("LOGISTIC", d.input("rows", 1, 6, 4, 1))
    y = d.op("MUL", rows, x, attrs=ActivationAttributes())
    graph = d.graph(d.op("ABS", d.transpose(y, NCHW_TO_NHWC)))
    assert_equal(graph, run_passes(graph))


@pytest.mark.parametrize("keep", [False, True])
def test_reductions_are_passed(keep: bool) -> None:
    d = Drawing()
    x = d.transpose(d.input("x", 2, 4, 5, 6), NHWC_TO_NCHW)
    y = d.op("MEAN", x, d.constant(np.array([2, 3], np.int32)),
             attrs=ReductionAttributes(keep_dims=keep))  # fmt: skip
    out = d.op("RELU", y if keep else d.op("NEG", y))
    if keep:
        out = d.op("ABS", d.transpose(out, NCHW_TO_NHWC))
    graph = d.graph(out)
    assert_equal(graph, run_passes(graph))


def test_inverse_transposes_vanish_others_merge() -> None:
    d = Drawing()
    x = d.input("x", 2, 3, 4, 5)
    undone = d.op("ABS", d.transpose(d.transpose(x, NHWC_TO_NCHW), NCHW_TO_NHWC))
    twice = d.op("ABS", d.transpose(d.transpose(x, NHWC_TO_NCHW), NHWC_TO_NCHW))
    graph = d.graph(undone, twice)
    sunk = sink_transposes(graph)
    assert transposes(sunk) == 1
    assert_equal(graph, sunk)


def test_nothing_changes_where_more_would_be_moved() -> None:
    """Operands of different orders, and a tensor that is read in its own order too."""
    d = Drawing()
    x, y = d.input("x", 1, 4, 4, 6), d.input("y", 1, 6, 4, 4)
    moved = d.transpose(x, NHWC_TO_NCHW)
    both = d.op("ADD", moved, y, attrs=ActivationAttributes())
    other = d.op("ABS", d.transpose(y, NCHW_TO_NHWC))
    graph = d.graph(both, other)
    assert_equal(graph, sink_transposes(graph))
    assert transposes(sink_transposes(graph)) <= transposes(graph)


def test_outputs_states_and_quantization_are_kept() -> None:
    d = Drawing()
    x = d.transpose(d.input("x", 1, 2, 3, 4), NHWC_TO_NCHW)
    y = d.op("RELU", x)
    graph = d.graph(y, d.transpose(y, NCHW_TO_NHWC))
    sunk = sink_transposes(graph)
    assert sunk.outputs == graph.outputs
    assert_equal(graph, sunk)
    quant = Quant((0.1,), (3,))
    tensors = {n: replace(t, quant=quant, dtype="int8", data=t.data) if t.data is None else t
               for n, t in graph.tensors.items()}  # fmt: skip
    sunk = sink_transposes(graph.with_(tensors=tensors))
    assert {t.quant for t in sunk.tensors.values() if t.data is None} == {quant}
