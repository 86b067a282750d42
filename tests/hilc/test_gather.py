"""Computed indices: outside of the tensor they are an error of the run, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from campaigns import cases, sampled
from nodes import make_node

import hilc
from hilc import host
from hilc.errors import HilError, InputError
from hilc.interpreter import run
from hilc.ir import Array, Graph, Tensor

_X = np.arange(12, dtype=np.int32).reshape(4, 3)
#: An operator's inputs by name, in order; the largest index that its first axis has is 3.
_MODELS: Mapping[str, tuple[str, ...]] = {
    "GATHER": ("x", "i"),
    "EMBEDDING_LOOKUP": ("i", "x"),
    "GATHER_ND": ("x", "i"),
}


def model(op: str, count: int) -> Graph:
    """``count`` of the same operator, each with an index of its own."""
    tensors = {"x": Tensor("x", (4, 3), "int32")}
    nodes = []
    for n in range(count):
        index, out = f"i{n}", f"y{n}"
        tensors[index] = Tensor(index, (1,), "int32")
        shape = (3,) if op == "GATHER_ND" else (1, 3)
        tensors[out] = Tensor(out, shape, "int32")
        inputs = [index if name == "i" else name for name in _MODELS[op]]
        attrs = {"axis": 0, "batch_dims": 0} if op == "GATHER" else {}
        nodes.append(make_node(op, inputs, (out,), n, **attrs))
    indices = tuple(f"i{n}" for n in range(count))
    outputs = tuple(f"y{n}" for n in range(count))
    return Graph("lookup", tensors, tuple(nodes), ("x", *indices), outputs)


def inputs(*indices: int) -> dict[str, Array]:
    return {"x": _X, **{f"i{n}": np.array([i], np.int32) for n, i in enumerate(indices)}}


@pytest.mark.parametrize("op", _MODELS)
# Where flash matters, layers share a body, which hands the status on.
@cases(("optimize", "count"), [("speed", 1), ("size", 2)], first=1)
@pytest.mark.parametrize("interface", sampled(["c", "packed"], keep=["c"]))
def test_an_index_outside_fails_the_run(op, optimize, count, interface):
    graph = model(op, count)
    library = hilc.compile(graph, optimize=optimize, interface=interface)
    with host.load(library) as loaded:
        for index in (4, -1, 3, 2**31 - 1, -(2**31), 0):
            values = inputs(*[1] * (count - 1), index)
            for name, value in values.items():
                loaded.set_input(name, value)
            if 0 <= index < 4:
                loaded.run()
                taken = loaded.get_output(f"y{count - 1}")
                np.testing.assert_array_equal(taken.reshape(-1), _X[index])
                continue
            with pytest.raises(HilError):
                loaded.run()
            with pytest.raises(InputError, match=f"{op} 'y{count - 1}' takes"):
                run(graph, values)
