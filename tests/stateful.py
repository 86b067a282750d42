"""Small graphs with states, in every way that a new value can come about."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hilc.ir import Array, Graph, Node, Quant, State, Tensor
from hilc.ops.attributes import ActivationAttributes, ReductionAttributes
from hilc.ops.concat_split import ConcatenationAttributes
from hilc.ops.data_movement import StridedSliceAttributes

SIZE = 4


def _graph(
    name: str,
    nodes: Sequence[tuple[str, Sequence[str]]],
    states: Sequence[State],
    outputs: Sequence[str],
) -> Graph:
    """ADDs of float32[4], as ``(output, operands)``; the input is x."""
    names = dict.fromkeys(["x", *(s.name for s in states), *(output for output, _ in nodes)])
    return Graph(
        name,
        {n: Tensor(n, (SIZE,), "float32") for n in names},
        tuple(
            Node("ADD", tuple(operands), (output,), ActivationAttributes(), index)
            for index, (output, operands) in enumerate(nodes)
        ),
        ("x",),
        tuple(outputs),
        tuple(states),
    )


_RAMP = np.arange(SIZE, dtype=np.float32)

#: By what they show. Behind each: how many copies a plan of it needs.
GRAPHS: dict[str, tuple[Graph, int]] = {
    "in_place": (
        _graph("in_place", [("y", ("x", "s")), ("z", ("y", "x"))], [State("s", "y")], ["z"]), 0
    ),
    "new_value_is_an_output": (
        _graph("is_output", [("y", ("x", "s"))], [State("s", "y", _RAMP)], ["y"]), 1
    ),
    "new_value_is_the_input": (
        _graph("delay", [("y", ("s", "s"))], [State("s", "x")], ["y"]), 1
    ),
    "old_value_is_read_later": (
        _graph("late", [("y", ("x", "x")), ("z", ("s", "y"))], [State("s", "y")], ["z"]), 1
    ),
    "states_swap": (
        _graph(
            "swap",
            [("y", ("a", "x")), ("z", ("b", "y"))],
            [State("a", "b"), State("b", "a", _RAMP)],
            ["z"],
        ),
        3,
    ),
    "states_shift": (
        _graph(
            "shift",
            [("y", ("c", "x"))],
            [State("a", "y"), State("b", "a"), State("c", "b")],
            ["y"],
        ),
        3,
    ),
    "nothing_updates_it": (
        _graph("kept", [("y", ("s", "x"))], [State("s", "s", _RAMP)], ["y"]), 0
    ),
    "two_states_of_one_value": (
        _graph("twice", [("y", ("a", "x")), ("z", ("y", "b"))],
               [State("a", "y"), State("b", "y")], ["z"]), 1
    ),
}  # fmt: skip


def ring_buffer(frames: int = 6, width: int = 8) -> Graph:
    """The last ``frames`` rows of int8 that came, of which the mean goes out."""
    quant = Quant((0.05,), (-3,))

    def index(name: str, values: Sequence[int]) -> Tensor:
        data = np.array(values, np.int32)
        return Tensor(name, data.shape, "int32", data=data)

    tensors = [
        Tensor("x", (1, width), "int8", quant),
        Tensor("buffer", (frames, width), "int8", quant),
        Tensor("rest", (frames - 1, width), "int8", quant),
        Tensor("filled", (frames, width), "int8", quant),
        Tensor("y", (width,), "int8", quant),
        index("begin", [1, 0]),
        index("end", [frames, width]),
        index("strides", [1, 1]),
        index("axes", [0]),
    ]
    nodes = (
        Node(
            "STRIDED_SLICE",
            ("buffer", "begin", "end", "strides"),
            ("rest",),
            StridedSliceAttributes(),
            0,
        ),
        Node("CONCATENATION", ("rest", "x"), ("filled",), ConcatenationAttributes(axis=0), 1),
        Node("MEAN", ("filled", "axes"), ("y",), ReductionAttributes(), 2),
    )
    reset = np.full((frames, width), -3, np.int8)
    return Graph(
        "ring",
        {t.name: t for t in tensors},
        nodes,
        ("x",),
        ("y",),
        (State("buffer", "filled", reset),),
    )


def samples(graph: Graph, count: int, seed: int = 0) -> list[dict[str, Array]]:
    """Values of the graph's inputs, run by run."""
    rng = np.random.default_rng(seed)

    def value(tensor: Tensor) -> Array:
        if tensor.dtype == "float32":
            return rng.standard_normal(tensor.shape).astype(np.float32)
        info = np.iinfo(tensor.dtype)
        return rng.integers(info.min, info.max, tensor.shape, tensor.dtype, endpoint=True)

    return [{name: value(graph.tensors[name]) for name in graph.inputs} for _ in range(count)]
