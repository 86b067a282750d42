"""Random graphs over all operators, in all their types, whose nodes take what others give.

Each node is a random operator of :mod:`single_op`. What it takes at run time comes from a tensor of
its type that another node gives, brought to its shape (RESHAPE, TILE, SLICE) and scale (QUANTIZE);
where there is none, or its values must be certain ones, it is an input of the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from nodes import make_node
from single_op import KINDS, random_op

from hilc.errors import ModelError
from hilc.ir import Array, Graph, Node, State, Tensor
from hilc.ops import OPS

#: Floats whose last bits the C library decides: nothing that decides by them may follow.
_INEXACT = (
    *("COS", "CUMSUM", "ELU", "EXP", "GELU", "HARD_SWISH", "L2_NORMALIZATION", "LOG", "POW", "SIN"),
    *("LOGISTIC", "LOG_SOFTMAX", "RSQRT", "SOFTMAX", "TANH", "SIGNAL_RFFT", "SIGNAL_IRFFT"),
    *("BATCH_MATMUL", "CONV_3D", "TRANSPOSE_CONV", "MEAN", "SUM", "SVDF", "RESIZE_BILINEAR"),
    *(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        "DIV",
        "L2_POOL_2D",
        "REDUCE_PROD",
        "AVERAGE_POOL_2D",
        "SQRT",
    ),
)
#: By how much floats may differ, relative to what is expected.
_LAST_BITS = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-12}
#: Elements of a tensor that others are made of.
_MOST = 4000


class _Mixed:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self.values: dict[str, Array] = {}
        self.states: list[State] = []
        #: What nodes give, for others to take.
        self.live: list[str] = []
        #: Of every tensor its value in the first run.
        self.computed: dict[str, Array] = {}

    def add(self, op: str, dtype: str) -> None:
        """A random operator, with what it takes from others."""
        single = random_op(self.rng, op, dtype)
        number = len(self.nodes)
        names: dict[str, str] = {}
        kept = {single.ins[own].name for own in single.states.values()}
        for tensor, value in zip(single.ins, single.values, strict=True):
            name = names[tensor.name] = f"n{number}_{tensor.name}"
            own = replace(tensor, name=name, data=tensor.data)
            is_free = tensor.data is None and tensor.name not in {*kept, *single.certain}
            if is_free and (taken := self._taken(own)) is not None:
                names[tensor.name] = taken
                continue
            self.tensors[name] = own
            self.computed[name] = value
            if tensor.data is None and tensor.name not in kept:
                self.values[name] = value
        outputs = tuple(f"n{number}_{tensor.name}" for tensor in single.outs)
        for name, tensor in zip(outputs, single.outs, strict=True):
            self.tensors[name] = replace(tensor, name=name)
        inputs = [names[name] if name else "" for name in single.node.inputs]
        self._node(replace(single.node, inputs=tuple(inputs), outputs=outputs))
        for new, old in single.states.items():
            before = names[single.ins[old].name]
            self.states.append(State(before, outputs[new], self.computed[before]))
        given = [name for i, name in enumerate(outputs) if i not in single.states]
        self.live += [name for name in given if self._serves(op, name)]

    def graph(self) -> Graph:
        """The graph; what no node reads goes out, and some of the rest."""
        read = {name for node in self.nodes for name in node.inputs}
        after = {state.after for state in self.states}
        written = [n for node in self.nodes for n in node.outputs if n not in after]
        shown = [n for n in written if n not in read or self.rng.random() < 0.1]
        tensors = {n: t for n, t in self.tensors.items() if n in read or n in {*written, *after}}
        inputs = tuple(name for name in self.values if name in tensors)
        return Graph("mixed", tensors, tuple(self.nodes), inputs, tuple(shown), tuple(self.states))

    def _serves(self, op: str, name: str) -> bool:
        """Whether others may take what an operator gives."""
        value = self.computed[name]
        if value.dtype != np.float32:
            return value.size <= _MOST
        # Of what is no number C does not say which integer it is.
        tame = np.isfinite(value).all() and np.abs(value).max() < 1e6
        return bool(tame) and op not in _INEXACT and value.size <= _MOST

    def _taken(self, wanted: Tensor) -> str | None:
        """What another node gives, of the wanted kind; None where no node does."""
        fitting = [n for n in self.live if self.tensors[n].dtype == wanted.dtype]
        if not fitting or not wanted.size or wanted.dtype in ("uint32", "uint64"):
            return None
        before = len(self.nodes), set(self.tensors)
        name = fitting[-1 - int(self.rng.exponential(2)) % len(fitting)]
        try:
            return self._brought(name, wanted)
        except ModelError:
            # Scales that are too far apart.
            del self.nodes[before[0] :]
            for added in self.tensors.keys() - before[1]:
                del self.tensors[added]
            return None

    def _brought(self, name: str, wanted: Tensor) -> str:
        shape = self.tensors[name].shape
        if shape != wanted.shape:
            size, needed = prod(shape), prod(wanted.shape)
            if len(shape) != 1:
                name = self._op("RESHAPE", (name,), new_shape=(size,))
            if size < needed:
                times = -(-needed // size)
                name = self._op("TILE", (name, self._ints([times])))
            if self.tensors[name].size > needed:
                name = self._op("SLICE", (name, self._ints([0]), self._ints([needed])))
            if wanted.shape != (needed,):
                name = self._op("RESHAPE", (name,), new_shape=wanted.shape)
        if self.tensors[name].quant != wanted.quant:
            # Numbers without a scale stay what they are.
            if self.tensors[name].quant is None or wanted.quant is None:
                raise ModelError("no operator gives integers another meaning")
            name = self._op("QUANTIZE", (name,), wanted)
        return name

    def _op(self, op: str, inputs: Sequence[str], like: Tensor | None = None, **attrs: Any) -> str:
        if op == "QUANTIZE" and like is not None:
            attrs["dtype"] = like.dtype
        name = f"g{len(self.tensors)}"
        node = make_node(op, inputs, (name,), len(self.nodes), **attrs)
        ins = [self.tensors[each] for each in inputs]
        ((shape, dtype),) = OPS[op].infer(node, ins)
        out = Tensor(name, shape, dtype, ins[0].quant if like is None else like.quant)
        OPS[op].check(node, ins, [out])
        self.tensors[name] = out
        self._node(node)
        return name

    def _ints(self, values: Sequence[int]) -> str:
        name = f"g{len(self.tensors)}"
        data = np.array(values, np.int32)
        self.tensors[name] = Tensor(name, data.shape, "int32", data=data)
        self.computed[name] = data
        return name

    def _node(self, node: Node) -> None:
        node = replace(node, index=len(self.nodes))
        self.nodes.append(node)
        ins = [self.tensors[name] if name else None for name in node.inputs]
        outs = [self.tensors[name] for name in node.outputs]
        values = [self.computed[name] if name else None for name in node.inputs]
        results = OPS[node.op].reference(node, ins, outs, values)
        self.computed.update(zip(node.outputs, results, strict=True))


def mixed_graph(
    seed: int, kinds: Sequence[tuple[str, str]] = KINDS
) -> tuple[Graph, dict[str, Array]]:
    """A graph of 4 to 12 operators and what is between them, and values of its inputs."""
    mixed = _Mixed(seed)
    for _ in range(int(mixed.rng.integers(4, 13))):
        mixed.add(*kinds[int(mixed.rng.integers(len(kinds)))])
    graph = mixed.graph()
    return graph, {name: mixed.values[name] for name in graph.inputs}


def differences(
    graph: Graph, outputs: Mapping[str, Array], expected: Mapping[str, Array]
) -> list[str]:
    """The outputs that are not what is expected; floats may differ in their last bits."""

    def equal(output: Array, value: Array) -> bool:
        relative = _LAST_BITS.get(value.dtype.name)
        if relative is None:
            return np.array_equal(output, value)
        return np.allclose(output, value, relative, relative / 10, equal_nan=True)

    return [name for name in graph.outputs if not equal(outputs[name], expected[name])]
