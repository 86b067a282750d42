"""Inputs and outputs in another type: integers in place of the floats that a quantized model
converts, or floats in place of its integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hilc.errors import InputError
from hilc.interpreter import run_node
from hilc.ir import ELEMENT_TYPES, Array, Graph, IoSaving, Node, Quant, Rounding, Tensor
from hilc.ir.dtypes import IO_TYPES, KEEP, SIGNED_IO
from hilc.ops import OPS
from hilc.ops.quantize import DEQUANTIZE, QUANTIZE, QuantizeAttributes
from hilc.ops.verify import verify
from hilc.ops.views import ReshapeAttributes
from hilc.support.identifiers import unused


def with_io(graph: Graph, io: str) -> Graph:
    """Return the graph with inputs and outputs of floats or quantized integers in the type that
    ``io`` names; ``"keep"`` leaves them as they are.

    The integers are those to which the model converts its input itself, and from which it converts
    its output, so no result changes. Tensors of other types stay.

    Raises :class:`~hilc.errors.InputError` for an input or output that the model does not convert,
    and for a type of another width than the model's.
    """
    if io == KEEP:
        return graph
    made = _Borders(graph, IO_TYPES[io], io)
    made.convert()
    result = graph.with_(
        tensors=made.tensors,
        nodes=tuple(made.nodes),
    )
    verify(result)
    return result


def io_saving(graph: Graph) -> IoSaving | None:
    """Return the type of integers that saves bytes of inputs and outputs; None if none does."""
    for io in SIGNED_IO:
        try:
            made = with_io(graph, io)
        except InputError:
            continue
        saved = _io_bytes(graph) - _io_bytes(made)
        if saved > 0:
            return IoSaving(io, saved)
    return None


def _io_bytes(graph: Graph) -> int:
    return sum(graph.tensors[name].nbytes for name in (*graph.inputs, *graph.outputs))


def rounding_of(graph: Graph) -> Rounding:
    """Return how a graph rounds floats that it converts to integers."""
    even = any(node.rounding is Rounding.NEAREST_EVEN for node in graph.nodes)
    return Rounding.NEAREST_EVEN if even else Rounding.DOUBLE


def converted(values: Array, source: Tensor, target: Tensor, rounding: Rounding) -> Array:
    """Return an input or output in the type that it has after, or before, :func:`with_io`."""
    if (source.dtype, source.quant) == (target.dtype, target.quant):
        return values
    if source.quant is not None:
        steps = values.astype(np.int64) - source.quant.zero_point[0]
        if target.quant is not None:
            return (steps + target.quant.zero_point[0]).astype(target.dtype)
        real: Array = np.float32(source.quant.scale[0]) * steps.astype(np.float32)
        return real
    tensors = {
        "floats": Tensor("floats", values.shape, "float32"),
        "integers": replace(target, name="integers", shape=values.shape),
    }
    attrs = QuantizeAttributes(dtype=target.dtype)
    node = Node("QUANTIZE", ("floats",), ("integers",), attrs, rounding=rounding)
    graph = Graph("conversion", tensors, (node,), ("floats",), ("integers",))
    return run_node(graph, node, [values])[0]


class _Borders:
    def __init__(self, graph: Graph, dtype: str, option: str) -> None:
        self.graph = graph
        self.tensors = dict(graph.tensors)
        self.nodes = list(graph.nodes)
        self._dtype, self._option = dtype, option
        self._rounding = rounding_of(graph)

    def convert(self) -> None:
        """Convert every input and output."""
        to_float = ELEMENT_TYPES[self._dtype].is_real
        for name in self.graph.inputs:
            tensor = self.tensors[name]
            if to_float and tensor.quant is not None:
                self._float_input(tensor)
            elif not to_float and (tensor.element.is_real or self._differs(tensor)):
                self._integer_input(tensor)
        for name in dict.fromkeys(self.graph.outputs):
            tensor = self.tensors[name]
            if name in self.graph.inputs:
                continue
            if to_float and tensor.quant is not None:
                self._float_output(tensor)
            elif not to_float and (tensor.element.is_real or self._differs(tensor)):
                self._integer_output(tensor)

    def _differs(self, tensor: Tensor) -> bool:
        """Return whether a tensor has quantized integers of another type."""
        return tensor.quant is not None and tensor.dtype != self._dtype

    # Floats ---------------------------------------------------------------------------------------

    def _float_input(self, tensor: Tensor) -> None:
        """Quantize the input; what reads it reads the result."""
        inner = self._renamed(tensor.name, tensor)
        self.tensors[tensor.name] = Tensor(tensor.name, tensor.shape, self._dtype)
        self.nodes.insert(0, self._quantize(tensor.name, inner))

    def _float_output(self, tensor: Tensor) -> None:
        inner = self._renamed(tensor.name, tensor)
        self.tensors[tensor.name] = Tensor(tensor.name, tensor.shape, self._dtype)
        node = Node("DEQUANTIZE", (inner.name,), (tensor.name,), rounding=self._rounding)
        self.nodes.append(self._last(node))

    # Integers -------------------------------------------------------------------------------------

    def _integer_input(self, tensor: Tensor) -> None:
        readers = [node for node in self.nodes if tensor.name in node.inputs]
        if tensor.quant is None:
            others = [node for node in readers if OPS[node.op] is not QUANTIZE]
            forms = {node.outputs[0]: self.tensors[node.outputs[0]] for node in readers}
            kinds = {(made.dtype, made.quant) for made in forms.values()}
            if others or len(kinds) != 1 or tensor.name in self.graph.results:
                self._refuse("input", tensor, "read as floats" if others else "quantized twice")
            ((dtype, quant),) = kinds
            assert quant is not None
        else:
            dtype, quant = tensor.dtype, tensor.quant
        wanted = self._moved("input", tensor, dtype, quant)
        self.tensors[tensor.name] = replace(tensor, dtype=self._dtype, quant=wanted)
        if tensor.quant is not None:
            inner = self._fresh(tensor)
            self.tensors[inner.name] = inner
            self._replace_reads(tensor.name, inner.name)
            self.nodes.insert(0, self._quantize(tensor.name, inner))
        elif dtype == self._dtype:
            for name in forms:
                self._bypass(name, tensor.name)
        # Otherwise the model's own QUANTIZE converts from integers now.
        self._drop_round_trips(tensor.name)

    def _integer_output(self, tensor: Tensor) -> None:
        (maker,) = (node for node in self.nodes if tensor.name in node.outputs)
        if tensor.quant is None:
            if OPS[maker.op] is not DEQUANTIZE:
                self._refuse("output", tensor, f"computed in floats by {maker.op}")
            source = self.tensors[maker.inputs[0]]
            assert source.quant is not None
            if any(tensor.name in node.inputs for node in self.nodes) or any(
                state.after == tensor.name for state in self.graph.states
            ):
                inner = self._fresh(tensor)
                self.tensors[inner.name] = inner
                self._replace_reads(tensor.name, inner.name)
                self.nodes.insert(self.nodes.index(maker), replace(maker, outputs=(inner.name,)))
            self.nodes.remove(maker)
        else:
            source = self._renamed(tensor.name, tensor)
        assert source.quant is not None
        wanted = self._moved("output", tensor, source.dtype, source.quant)
        made = replace(tensor, dtype=self._dtype, quant=wanted)
        self.tensors[tensor.name] = made
        converted = next((node for node in self.nodes if source.name in node.outputs), None)
        if converted is not None and OPS[converted.op] is QUANTIZE:
            before = self.tensors[converted.inputs[0]]
            if (before.dtype, before.quant) == (made.dtype, made.quant):
                source = before
        is_free = self.tensors[source.name].data is None and source.name not in (
            *self.graph.given,
            *self.graph.results,
        )
        if (source.dtype, source.quant) == (made.dtype, made.quant) and is_free:
            self._rename(source.name, tensor.name)
        else:
            self.nodes.append(self._last(self._from(source, made)))

    def _from(self, source: Tensor, made: Tensor) -> Node:
        """Return the node that gives integers in another type, or under another name."""
        if (source.dtype, source.quant) == (made.dtype, made.quant):
            attrs = ReshapeAttributes(new_shape=made.shape)
            return Node("RESHAPE", (source.name,), (made.name,), attrs)
        return self._quantize(source.name, made)

    def _moved(self, role: str, tensor: Tensor, dtype: str, quant: Quant) -> Quant:
        """Return the quantization of the same numbers in the wanted type, which is as wide."""
        own, wanted = ELEMENT_TYPES[dtype], ELEMENT_TYPES[self._dtype]
        if own.dl_bits != wanted.dl_bits:
            raise InputError(
                f"the {role} {tensor.name!r} cannot be {self._dtype}: the model has it in {dtype}",
                f"choose {' or '.join(self._as_wide(own.dl_bits))} (io), or keep",
            )
        moved = int(wanted.low - own.low)
        return Quant(quant.scale, tuple(z + moved for z in quant.zero_point), quant.axis)

    def _as_wide(self, bits: int) -> Iterator[str]:
        return (
            option
            for option, name in IO_TYPES.items()
            if name and not ELEMENT_TYPES[name].is_real and ELEMENT_TYPES[name].dl_bits == bits
        )

    def _refuse(self, role: str, tensor: Tensor, why: str) -> None:
        raise InputError(
            f"the {role} {tensor.name!r} cannot be {self._dtype}: it is {why}",
            "quantize the model as a whole, or leave its inputs and outputs as they are: io=keep",
        )

    # Graph ----------------------------------------------------------------------------------------

    def _fresh(self, tensor: Tensor) -> Tensor:
        return replace(tensor, name=unused(f"{tensor.name}:inner", self.tensors), data=None)

    def _renamed(self, name: str, tensor: Tensor) -> Tensor:
        """Give a tensor another name, wherever it stands, and return it."""
        inner = self._fresh(tensor)
        self.tensors[inner.name] = inner
        self._rename(name, inner.name)
        return inner

    def _rename(self, old: str, new: str) -> None:
        self._replace_reads(old, new)
        self.nodes = [
            replace(node, outputs=tuple(new if n == old else n for n in node.outputs))
            for node in self.nodes
        ]
        del self.tensors[old]

    def _replace_reads(self, old: str, new: str) -> None:
        self.nodes = [
            replace(node, inputs=tuple(new if n == old else n for n in node.inputs))
            if old in node.inputs
            else node
            for node in self.nodes
        ]

    def _bypass(self, name: str, source: str) -> None:
        """Let all that reads a tensor read another one that has the same integers."""
        maker = next(node for node in self.nodes if name in node.outputs)
        self.nodes.remove(maker)
        if name in self.graph.results:
            made = self.tensors[name]
            self.nodes.insert(0, self._from(self.tensors[source], made))
            return
        self._replace_reads(name, source)
        del self.tensors[name]

    def _drop_round_trips(self, name: str) -> None:
        """Let what is converted back to the input's integers be the input."""
        given = self.tensors[name]
        for first in [node for node in self.nodes if node.inputs == (name,)]:
            for node in [n for n in self.nodes if n.inputs == first.outputs[:1]]:
                made = self.tensors[node.outputs[0]]
                is_back = (made.dtype, made.quant) == (given.dtype, given.quant)
                if OPS[first.op] is OPS[node.op] is QUANTIZE and is_back:
                    self._bypass(made.name, name)

    def _quantize(self, source: str, made: Tensor) -> Node:
        attrs = QuantizeAttributes(dtype=made.dtype)
        return Node("QUANTIZE", (source,), (made.name,), attrs, rounding=self._rounding)

    def _last(self, node: Node) -> Node:
        """Return a node that stands behind all others of the file."""
        return replace(node, index=max((n.index for n in self.nodes), default=0))
