"""Small graphs with states, in every way that a new value can come about."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tflite_builder import ModelBuilder

from hilc.frontends import load_model
from hilc.interpreter import Interpreter
from hilc.ir import Array, Graph, Node, Quant, State, Tensor
from hilc.ops.attributes import ActivationAttributes, ReductionAttributes
from hilc.ops.concat_split import ConcatenationAttributes
from hilc.ops.data_movement import StridedSliceAttributes
from hilc.references.tflm import TflmModel

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
        if tensor.dtype == "bool":
            return rng.integers(0, 2, tensor.shape).astype(np.bool_)
        info = np.iinfo(tensor.dtype)
        return rng.integers(info.min, info.max, tensor.shape, tensor.dtype, endpoint=True)

    return [{name: value(graph.tensors[name]) for name in graph.inputs} for _ in range(count)]


def variable(builder: ModelBuilder, handle: str, name: str = "ring") -> None:
    """Declare a handle of a variable, and name it."""
    builder.tensor(handle, (1,), "resource")
    builder.op("VAR_HANDLE", (), (handle,), container="model", shared_name=name)


def ring_file(dtype: str = "int8", *, initialized: bool, frames: int = 6, width: int = 8) -> bytes:
    """A TFLite file that keeps the last rows in a variable; their mean goes out."""
    rng = np.random.default_rng(1)
    quant = (0.05, -3) if dtype == "int8" else ()
    b = ModelBuilder()
    b.input("x", (1, width), dtype, *quant)
    for name, rows in (("buffer", frames), ("rest", frames - 1), ("filled", frames)):
        b.tensor(name, (rows, width), dtype, *quant)
    for name, values in (("begin", [1, 0]), ("end", [frames, width]), ("strides", [1, 1])):
        b.const(name, np.array(values, np.int32))
    b.const("axes", np.array([0], np.int32))
    if initialized:
        first = rng.integers(-128, 128, (frames, width)).astype(dtype)
        function = ModelBuilder()
        variable(function, "h")
        function.const("first", first, *quant)
        function.op("ASSIGN_VARIABLE", ("h", "first"), ())
        b.functions.append(function)
        b.op("CALL_ONCE", (), (), subgraph=1)
    variable(b, "handle")
    b.op("READ_VARIABLE", ("handle",), ("buffer",))
    b.op("STRIDED_SLICE", ("buffer", "begin", "end", "strides"), ("rest",))
    b.op("CONCATENATION", ("rest", "x"), ("filled",), axis=0)
    b.op("ASSIGN_VARIABLE", ("handle", "filled"), ())
    b.output("y", (width,), dtype, *quant)
    b.op("MEAN", ("filled", "axes"), ("y",), keep_dims=False)
    return b.build()


def check_steps(model: bytes, steps: int, resets: int = 2) -> None:
    """The interpreter gives every output of TFLite Micro, which is reset in between."""
    graph = load_model(model)
    interpreter, reference = Interpreter(graph), TflmModel(model)
    for turn in range(resets):
        for step, inputs in enumerate(samples(graph, steps, turn)):
            expected = reference.run(list(inputs.values()), outputs=len(graph.outputs))
            got = interpreter.run(inputs)
            for name, theirs in zip(graph.outputs, expected, strict=True):
                np.testing.assert_array_equal(
                    got[name], theirs.reshape(got[name].shape), f"{name} of step {step}"
                )
        interpreter.reset_state()
        reference.reset()


def _weights(
    b: ModelBuilder, name: str, shape: tuple[int, ...], scale: float, limit: int = 127
) -> None:
    rng = np.random.default_rng([*name.encode()])
    dtype = "int8" if limit == 127 else "int16" if limit < 3000 else "int32"
    b.const(name, rng.integers(-limit, limit + 1, shape).astype(dtype), scale)


def _classes(b: ModelBuilder, features: str, count: int, scale: float) -> None:
    """A fully connected layer of four classes, and their probabilities."""
    _weights(b, "w", (4, count), 0.01)
    _weights(b, "b", (4,), scale * 0.01, 4000)
    b.tensor("logits", (1, 4), "int8", 0.1, 3)
    b.op("FULLY_CONNECTED", (features, "w", "b"), ("logits",))
    b.output("y", (1, 4), "int8", 1 / 256, -128)
    b.op("SOFTMAX", ("logits",), ("y",), beta=1.0)


def keyword_file() -> bytes:
    """Two SVDF layers over a stream of frames, then the classes: int8 with a state of int16."""
    b = ModelBuilder()
    b.input("x", (1, 20), "int8", 0.05, 4)
    before, depth, scale = "x", 20, 0.05
    for layer, units in (("one", 12), ("two", 8)):
        _weights(b, f"{layer}_features", (2 * units, depth), 0.01)
        _weights(b, f"{layer}_moments", (2 * units, 8), 0.0005, 2000)
        _weights(b, f"{layer}_bias", (units,), 0.0005 * 0.002, 4000)
        b.tensor(f"{layer}_state", (1, 16 * units), "int16", 0.002, 0, variable=True)
        b.tensor(layer, (1, units), "int8", 0.05, -128)
        operands = [before, *(f"{layer}_{part}" for part in ("features", "moments", "bias"))]
        b.op("SVDF", [*operands, f"{layer}_state"], (layer,), rank=2, activation="RELU")
        before, depth, scale = layer, units, 0.05
    _classes(b, before, depth, scale)
    return b.build()


def lstm_file() -> bytes:
    """An LSTM layer that takes a frame in each run, then the classes: int8."""
    depth, units = 12, 10
    b = ModelBuilder()
    b.input("x", (1, 1, depth), "int8", 0.03, 4)
    gates = []
    for part, shape in (("w", (units, depth)), ("r", (units, units)), ("b", (units,))):
        for gate in "ifco":
            name = f"{part}{gate}"
            is_bias = part == "b"
            _weights(b, name, shape, 0.0003 if is_bias else 0.01, 4000 if is_bias else 127)
            gates.append(name)
    b.tensor("h", (1, units), "int8", 1 / 128, 2, variable=True)
    b.tensor("c", (1, units), "int16", 2.0**-12, 0, variable=True)
    b.tensor("sequence", (1, 1, units), "int8", 1 / 128, 2)
    b.tensor("last", (1, units), "int8", 1 / 128, 2)
    operands = ["x", *gates[:8], "", "", "", *gates[8:], "", "", "h", "c", *[""] * 4]
    b.op("UNIDIRECTIONAL_SEQUENCE_LSTM", operands, ("sequence",), activation="TANH")
    b.op("RESHAPE", ("sequence",), ("last",), new_shape=(1, units))
    _classes(b, "last", units, 1 / 128)
    return b.build()


#: Models of streams.
STREAMS = {
    "keyword": keyword_file(),
    "lstm": lstm_file(),
    "ring": ring_file(initialized=True),
}
