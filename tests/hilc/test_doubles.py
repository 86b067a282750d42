"""Double precision, which ONNX models have: interpreter and C against numpy."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import hilc
import hilc.host
from hilc.errors import UnsupportedError
from hilc.interpreter import run
from hilc.ir import Array, Attributes, Graph, Node, Tensor
from hilc.onnx_backend import prepare, run_node
from hilc.ops import OPS
from hilc.ops.attributes import ReductionAttributes
from hilc.ops.cast import CASTABLE
from hilc.ops.doubles import (
    BINARY,
    COMPARISONS,
    FUNCTIONS,
    OPERATORS,
    REDUCTIONS,
    DoubleCastAttributes,
)

#: Functions of the C library may differ from numpy's in their last bits.
RELATIVE = 1e-14
NONE = Attributes()
#: Numbers at the ends of types, and none.
CORNERS = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, -1e300, 0.5, -1.5, 127.9, -129.0, 255.5, 65536.5,
     2147483647.5, -2147483649.0, 2.0**63, -(2.0**63), 5e-324]
)  # fmt: skip


def case(op: str, node_ins: Sequence[Tensor], attrs: Attributes, name: str) -> tuple[Node, Tensor]:
    names = tuple(t.name for t in node_ins)
    node = Node(op, names, (name,), attrs)
    ((shape, dtype),) = OPS[op].infer(node, node_ins)
    return node, Tensor(name, shape, dtype)


def all_operators() -> tuple[Graph, dict[str, Array]]:
    """Every operator on broadcast operands, the casts on every type, side by side."""
    rng = np.random.default_rng(4)
    a = np.resize(np.concatenate([CORNERS, rng.normal(size=30) * 3]), (4, 1, 12)).copy()
    b = rng.normal(size=(5, 1)) * 2
    b[0] = np.nan
    tensors = {
        "a": Tensor("a", a.shape, "float64"),
        "b": Tensor("b", b.shape, "float64"),
        "axes": Tensor("axes", (2,), "int32", data=np.array([0, 2], np.int32)),
    }
    values = {"a": a, "b": b}
    nodes: list[Node] = []

    def add(op: str, names: Sequence[str], attrs: Attributes = NONE) -> None:
        node, out = case(op, [tensors[n] for n in names], attrs, f"y{len(nodes)}")
        tensors[out.name] = out
        nodes.append(node)

    for kind in (*BINARY, *COMPARISONS):
        add(f"DOUBLE_{kind}", ("a", "b"))
    for kind in FUNCTIONS:
        add(f"DOUBLE_{kind}", ("a",))
    for kind, keep in itertools.product(REDUCTIONS, (False, True)):
        add(f"DOUBLE_{kind}", ("a", "axes"), ReductionAttributes(keep_dims=keep))
    for dtype in CASTABLE:
        x = (rng.normal(size=20) * 100).astype(dtype)
        tensors[dtype], values[dtype] = Tensor(dtype, x.shape, dtype), x
        add("DOUBLE_CAST", (dtype,), DoubleCastAttributes(dtype="float64"))
        add("DOUBLE_CAST", ("a",), DoubleCastAttributes(dtype=dtype))
    outputs = tuple(node.outputs[0] for node in nodes)
    assert {node.op for node in nodes} == set(OPERATORS)
    return Graph("doubles", tensors, tuple(nodes), tuple(values), outputs), values


def test_generated_c_equals_the_interpreter() -> None:
    graph, values = all_operators()
    expected = run(graph, values)
    with hilc.host.load(hilc.compile(graph, cpu="host")) as model:
        for name, value in values.items():
            model.set_input(name, value)
        model.run()
        for node in graph.nodes:
            (name,) = node.outputs
            result = model.get_output(name)
            assert result.dtype == expected[name].dtype
            np.testing.assert_allclose(result, expected[name], RELATIVE, 0, err_msg=node.op)


@pytest.mark.parametrize("device", ["CPU", "CPU:C"])
@pytest.mark.parametrize("shapes", [((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((3,), (2, 3, 4))])
def test_matrices_are_multiplied(device: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    a, b = (np.random.default_rng(1).normal(size=shape) for shape in shapes)
    (product,) = run_node(helper.make_node("MatMul", ["a", "b"], ["y"]), [a, b], device)
    np.testing.assert_allclose(product, a @ b, 1e-13)


def test_a_model_computes_constants_in_full_precision() -> None:
    nodes = [
        helper.make_node("Add", ["x", "third"], ["s"]),
        helper.make_node("Reshape", ["s", "shape"], ["r"]),
        helper.make_node("ReduceMean", ["r"], ["m"], axes=[1]),
        helper.make_node("Cast", ["m"], ["y"], to=TensorProto.FLOAT),
    ]
    third = helper.make_tensor("third", TensorProto.DOUBLE, [1], [1 / 3])
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [2, 3])
    ends = [
        helper.make_tensor_value_info("x", TensorProto.DOUBLE, [6]),
        helper.make_tensor_value_info("m", TensorProto.DOUBLE, [2, 1]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 1]),
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [third, shape])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    x = np.linspace(1e-9, 7, 6)
    expected = ReferenceEvaluator(model).run(None, {"x": x})
    for device in ("CPU", "CPU:C"):
        for result, wanted in zip(prepare(model, device).run([x]), expected, strict=True):
            np.testing.assert_allclose(result, wanted, 1e-15)


def test_layers_in_double_precision_are_refused() -> None:
    x, w = np.zeros((1, 1, 4, 4)), np.zeros((1, 1, 3, 3))
    with pytest.raises(UnsupportedError, match="double|float64"):
        run_node(helper.make_node("Conv", ["x", "w"], ["y"]), [x, w])


@pytest.mark.parametrize("dtype", ["float64", "uint64"])
def test_reductions_without_a_kernel_are_refused(dtype: str) -> None:
    axis = Tensor("axis", (1,), "int32", data=np.array([1], np.int32))
    x, y = Tensor("x", (2, 3), dtype), Tensor("y", (2,), dtype)
    node = Node("REDUCE_MAX", ("x", "axis"), ("y",), ReductionAttributes())
    graph = Graph("g", {"x": x, "axis": axis, "y": y}, (node,), ("x",), ("y",))
    with pytest.raises(UnsupportedError, match=f"REDUCE_MAX does not support {dtype}"):
        hilc.compile(graph, cpu="host")
