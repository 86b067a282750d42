"""Models of many small operators in a row, and small files that state large models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from tflite_builder import ModelBuilder

_FLOATS = TensorProto.FLOAT
_OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]


def onnx_file(
    nodes: Sequence[onnx.NodeProto],
    constants: Mapping[str, Any] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
    *,
    shape: Sequence[int] = (4,),
    declared: Sequence[int | str] = ("n",),
) -> bytes:
    """A model from ``x`` to ``y``."""
    values = {name: np.array(value) for name, value in (constants or {}).items()}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", _FLOATS, shape)],
        [helper.make_tensor_value_info("y", _FLOATS, declared)],
        [onnx.numpy_helper.from_array(value, name) for name, value in values.items()],
    )
    model = helper.make_model(graph, opset_imports=_OPSETS, functions=functions, ir_version=9)
    data: bytes = model.SerializeToString()
    return data


def _steps(op: str, count: int, *operands: str, **attributes: Any) -> list[onnx.NodeProto]:
    names = ["x", *(f"t{i}" for i in range(count - 1)), "y"]
    pairs = zip(names, names[1:], strict=False)
    return [helper.make_node(op, [a, *operands], [b], **attributes) for a, b in pairs]


def _converted(count: int) -> list[onnx.NodeProto]:
    """Sigmoids and negations, each quantized and dequantized."""
    nodes, last = [], "x"
    for i in range(count):
        end = "y" if i == count - 1 else f"t{i}"
        nodes += [
            helper.make_node("QuantizeLinear", [last, "scale", "zero"], [f"q{i}"]),
            helper.make_node("DequantizeLinear", [f"q{i}", "scale", "zero"], [f"d{i}"]),
            helper.make_node(("Sigmoid", "Neg")[i % 2], [f"d{i}"], [end]),
        ]
        last = end
    return nodes


def tflite_additions(count: int) -> bytes:
    """int8 sums of the last two tensors."""
    b = ModelBuilder()
    b.input("t0", (1, 8), "int8", 0.1, 3)
    for i in range(count):
        (b.output if i == count - 1 else b.tensor)(f"t{i + 1}", (1, 8), "int8", 0.1, 3)
        b.op("ADD", (f"t{i}", f"t{max(i - 1, 0)}"), (f"t{i + 1}",), activation="NONE")
    return b.build()


#: Chains by their kind: a file of so many operators.
CHAINS: Mapping[str, Callable[[int], bytes]] = {
    "relu": lambda n: onnx_file(_steps("Relu", n)),
    "add": lambda n: onnx_file(_steps("Add", n, "c"), {"c": np.array([1, 2, 3, 4], np.float32)}),
    "identity": lambda n: onnx_file(_steps("Identity", n)),
    "transpose": lambda n: onnx_file(
        _steps("Transpose", n, perm=[1, 2, 0]), shape=(2, 2, 2), declared=(2, 2, 2)
    ),
    "reshape": lambda n: onnx_file(_steps("Reshape", n, "shape"), {"shape": np.array([4])}),
    "qdq": lambda n: onnx_file(
        _converted(n), {"scale": np.float32(0.1), "zero": np.int8(0)}
    ),
    "tflite": tflite_additions,
}  # fmt: skip


def nested_loops(turns: Sequence[int], *, empty: bool = False) -> bytes:
    """Loops in each other around a product; around nothing with ``empty``."""

    def loop(depth: int) -> onnx.NodeProto:
        inner = depth + 1 < len(turns)
        names = f"i{depth}", f"q{depth}", f"v{depth}"
        nodes = [loop(depth + 1)] if inner else []
        if not inner and not empty:
            nodes = [helper.make_node("Mul", [f"v{depth}", "k"], [f"m{depth}"])]
        result = nodes[0].output[0] if nodes else f"v{depth}"
        kinds = TensorProto.INT64, TensorProto.BOOL, _FLOATS
        shapes: list[list[int]] = [[], [], [4]]
        values = [
            helper.make_tensor_value_info(name, kind, shape)
            for name, kind, shape in zip((*names, result), (*kinds, _FLOATS), (*shapes, [4]),
                                         strict=True)
        ]  # fmt: skip
        body = helper.make_graph(nodes, f"L{depth}", values[:3], [values[1], values[3]])
        given = "x" if depth == 0 else f"v{depth - 1}"
        return helper.make_node("Loop", [f"n{depth}", "", given], [f"o{depth}"], body=body)

    constants: dict[str, Any] = {f"n{i}": np.int64(count) for i, count in enumerate(turns)}
    constants["k"] = np.array([0.5], np.float32)
    return onnx_file([loop(0), helper.make_node("Neg", ["o0"], ["y"])], constants)


def functions_that_call_each_other(depth: int, calls: int = 10) -> bytes:
    """Each function calls the one before it several times."""
    functions = [
        helper.make_function(
            "own", f"F{i}", ["a0"], [f"a{calls}"],
            [
                helper.make_node(f"F{i - 1}", [f"a{j}"], [f"a{j + 1}"], domain="own")
                if i
                else helper.make_node("Relu", [f"a{j}"], [f"a{j + 1}"])
                for j in range(calls)
            ],
            _OPSETS,
        )
        for i in range(depth)
    ]  # fmt: skip
    return onnx_file(
        [helper.make_node(f"F{depth - 1}", ["x"], ["y"], domain="own")], functions=functions
    )


def scanned(turns: int) -> bytes:
    """A Scan over the rows of a constant."""
    values = [helper.make_tensor_value_info(name, _FLOATS, [4]) for name in ("s", "e", "t", "u")]
    nodes = [
        helper.make_node("Add", ["s", "e"], ["t"]),
        helper.make_node("Identity", ["t"], ["u"]),
    ]
    body = helper.make_graph(nodes, "b", values[:2], values[2:])
    scan = helper.make_node("Scan", ["x", "rows"], ["last", "y"], num_scan_inputs=1, body=body)
    return onnx_file([scan], {"rows": np.ones((turns, 4), np.float32)}, declared=("n", 4))


def products_of_constants(size: int, count: int) -> bytes:
    """Products of matrices that a few bytes state."""
    nodes = [helper.make_node("ConstantOfShape", ["shape"], ["c0"])]
    nodes += [helper.make_node("MatMul", ["c0", f"c{i}"], [f"c{i + 1}"]) for i in range(count)]
    nodes += [
        helper.make_node("ReduceSum", [f"c{count}"], ["sum"], keepdims=0),
        helper.make_node("Add", ["x", "sum"], ["y"]),
    ]
    return onnx_file(nodes, {"shape": np.array([size, size])})


def subgraphs_that_call_each_other(depth: int, calls: int) -> bytes:
    """A TFLite file whose subgraphs each call the next one in both branches of several IFs."""

    def level(number: int) -> ModelBuilder:
        b = ModelBuilder()
        b.input("c", (1,), "bool")
        b.input("v0", (4,))
        for i in range(calls):
            (b.output if i == calls - 1 else b.tensor)(f"v{i + 1}", (4,))
            if number == depth:
                b.op("RELU", (f"v{i}",), (f"v{i + 1}",))
            else:
                both: dict[str, Any] = {"then": number + 1, "otherwise": number + 1}
                b.op("IF", ("c", "c", f"v{i}"), (f"v{i + 1}",), **both)
        return b

    model = level(0)
    model.functions += [level(number) for number in range(1, depth + 1)]
    return model.build()
