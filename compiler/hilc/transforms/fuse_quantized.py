"""Operators on integers in the place of those on floats between DEQUANTIZE and QUANTIZE.

A model that was quantized by ONNX's or PyTorch's tools computes in floats: each tensor is quantized
and dequantized again, and so are weights. Where all operands of an operator come from integers, and
its result becomes integers, one operator on integers computes the same: exact sums, a real factor,
one rounding with ties to even (:data:`hilc.ir.Rounding.NEAREST_EVEN`).

The pass goes from each QUANTIZE back to what it quantizes:

* what moves elements, or chooses among them, is done to the integers: before or behind them, that
  is the same;
* linear operators, sums, products and averages take the integers of their operands, constant ones
  included, and give those of the output;
* any function of single elements of one tensor is a LOOKUP, its 256 results computed here.

uint8 becomes int8, whose zero point is 128 less; at the model's borders it stays.

What is left in floats is listed in the graph, each with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from hilc.errors import HilError, UnsupportedError
from hilc.interpreter import run_node
from hilc.ir import (
    ELEMENT_TYPES,
    Array,
    Dequantized,
    FloatLayer,
    Graph,
    Node,
    Quant,
    RoundedBias,
    Rounding,
    State,
    Tensor,
)
from hilc.numerics.requantize import INT32_MAX
from hilc.ops import OPS, transpose_conv
from hilc.ops.broadcast import broadcast_links
from hilc.ops.quantize import QuantizeAttributes
from hilc.ops.scatter import ScatterAttributes
from hilc.ops.traits import SameRows, channelwise
from hilc.ops.verify import check_node
from hilc.transforms.remove_dead import remove_dead

#: The integers that the operators of the graph compute, and what becomes them.
_INTEGERS = ELEMENT_TYPES["int8"]
_BYTES = tuple(name for name, row in ELEMENT_TYPES.items() if row.computed is _INTEGERS)
#: What a reader appends to the name of an operator's result for the steps on the way to it.
_STEPS = re.compile(r"(:\d+)+$")


#: How many nodes there are; tensors, images and what is made.
_State = tuple[int, dict[str, Tensor], dict[str, str], dict[tuple[str, Quant], str]]


class _NoIntegersError(Exception):
    """A tensor of floats has no integers; the text says why."""


def fuse_quantized(graph: Graph) -> Graph:
    """Return the graph with operators on integers wherever its quantization says them."""
    if not any(_quantizes(node) for node in graph.nodes):
        return _without_origins(graph)
    return _Fusion(graph).run()


def is_quantized(graph: Graph) -> bool:
    """Return whether a graph computes on integers that are rounded with ties to even."""
    return any(node.rounding is Rounding.NEAREST_EVEN for node in graph.nodes)


def _quantizes(node: Node) -> bool:
    return node.op in ("QUANTIZE", "DEQUANTIZE") and node.rounding is Rounding.NEAREST_EVEN


def _without_origins(graph: Graph) -> Graph:
    if all(tensor.origin is None for tensor in graph.tensors.values()):
        return graph
    tensors = {name: replace(t, origin=None) for name, t in graph.tensors.items()}
    return graph.with_(tensors=tensors)


class _Places(NamedTuple):
    """Positions of a linear operator's operands, and the axis of its weights that its outputs lie
    along.
    """

    image: int
    weights: int
    bias: int
    axis: int


@dataclass
class _Fusion:
    graph: Graph
    tensors: dict[str, Tensor] = field(init=False)
    nodes: list[Node] = field(default_factory=list)
    #: The integers that a tensor of floats was made of.
    images: dict[str, str] = field(default_factory=dict)
    #: Integers by the tensor of floats, and by their quantization.
    made: dict[tuple[str, Quant], str] = field(default_factory=dict)
    #: Outputs of QUANTIZE that are another tensor now.
    renamed: dict[str, str] = field(default_factory=dict)
    #: Why the output of a node stays a float.
    reasons: dict[str, str] = field(default_factory=dict)
    biases: dict[str, RoundedBias] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tensors = dict(self.graph.tensors)
        self.producers = {name: n for n in self.graph.nodes for name in n.outputs}

    def run(self) -> Graph:
        for node in self.graph.nodes:
            node = replace(node, inputs=tuple(self.renamed.get(n, n) for n in node.inputs))
            if _quantizes(node) and node.op == "DEQUANTIZE":
                self.images[node.outputs[0]] = self._signed(node.inputs[0])
                self.nodes.append(node)
            elif _quantizes(node) and self.tensors[node.inputs[0]].element.is_real:
                self._quantize(node)
            else:
                self.nodes.append(node)
        states = tuple(self._integer_state(state) for state in self.graph.states)
        graph = self.graph.with_(tensors=self.tensors, nodes=tuple(self.nodes), states=states)
        graph = remove_dead(_without_origins(graph))
        return graph.with_(
            float_layers=tuple(self._float_layers(graph)),
            rounded_biases=tuple(
                bias for name, bias in self.biases.items() if name in graph.tensors
            ),
        )

    def _float_layers(self, graph: Graph) -> list[FloatLayer]:
        """Return what computes on floats, conversions aside."""
        found = []
        for node in graph.nodes:
            # Constants of floats alone are factors of an operator on integers.
            taken = [t for t in graph.ins(node) if t is not None and not t.is_constant]
            floats = any(t.element.is_real for t in (*taken, *graph.outs(node)))
            if floats and node.op not in ("QUANTIZE", "DEQUANTIZE") and not OPS[node.op].moves:
                reason = self.reasons.get(node.name, "no QUANTIZE takes its result")
                found.append(FloatLayer(node.name, node.op, reason))
        return found

    # States ---------------------------------------------------------------------------------------

    def _integer_state(self, state: State) -> State:
        """Return a state of floats as one of integers, where a run leaves some for it, and reads
        nothing but the same ones.
        """
        before, readers = self.tensors[state.name], self._readers(state.name)
        kept = self._state()
        made = self._known_image(state.after) if before.element.is_real else None
        quant = None if made is None else self.tensors[made].quant
        if made is None or quant is None or not self._may_be_integers(state, made, quant, readers):
            self._go_back(kept)
            return state
        reset = np.rint(self.graph.reset_value(state) / np.float32(quant.scale[0]))
        placed = np.clip(reset + quant.zero_point[0], *_INTEGERS.bounds).astype(np.int8)
        self.tensors[state.name] = replace(before, dtype="int8", quant=quant)
        for node in readers:
            place, (name,) = self.nodes.index(node), node.outputs
            if self.tensors[name].element is _INTEGERS:
                self._rename(name, state.name)
                del self.nodes[place]
        return State(state.name, made, placed)

    def _readers(self, name: str) -> list[Node]:
        return [node for node in self.nodes if name in node.inputs]

    def _may_be_integers(
        self, state: State, made: str, quant: Quant, readers: Sequence[Node]
    ) -> bool:
        """Return whether all that is read of a state are the integers that a run leaves."""
        outs = [self.tensors[node.outputs[0]] for node in readers]
        others = [*self.graph.results, *self.graph.given]
        return (
            self.tensors[made].shape == self.tensors[state.name].shape
            and state.name not in self.graph.outputs
            and not self.tensors[made].is_constant
            and made not in others
            and all(map(_quantizes, readers))
            and all(out.dtype in _BYTES and _signed_quant(out) == quant for out in outs)
            and all(out.name not in self.graph.results for out in outs)
        )

    # Conversions ----------------------------------------------------------------------------------

    def _quantize(self, node: Node) -> None:
        """Give the output of a QUANTIZE integers that no float is made for, if there are."""
        source, out = node.inputs[0], self.tensors[node.outputs[0]]
        assert out.quant is not None
        before = self._state()
        if out.dtype not in _BYTES:
            self.reasons[source] = f"it becomes {out.dtype}"
            self.nodes.append(node)
            return
        quant = _signed_quant(out)
        try:
            made = self._integers(source, quant)
        except _NoIntegersError as error:
            self._go_back(before)
            self.reasons.setdefault(source, str(error))
            self.nodes.append(node)
            if out.element is not _INTEGERS:
                # Its readers take int8.
                signed = self._fresh(out.name, out.shape, "int8", quant)
                self.made[out.name, quant] = self._convert(source, signed)
            return
        if out.element is _INTEGERS and self._is_fresh(made):
            self._rename(made, out.name)
        elif out.element is _INTEGERS and out.name not in self.graph.results:
            self.renamed[out.name] = made
        else:
            if self._is_fresh(made):
                name = self._fresh(out.name, out.shape, "int8", quant).name
                self._rename(made, name)
                made = name
            self._convert(made, out)
            self.made[out.name, quant] = made

    def _state(self) -> _State:
        """Return what :meth:`_go_back` takes back what is made from here on by."""
        return len(self.nodes), dict(self.tensors), dict(self.images), dict(self.made)

    def _go_back(self, state: _State) -> None:
        count, self.tensors, self.images, self.made = state
        del self.nodes[count:]

    def _is_fresh(self, made: str) -> bool:
        """Return whether integers have no name of the model yet."""
        return made not in self.graph.tensors and not self.tensors[made].is_constant

    def _rename(self, old: str, new: str) -> None:
        """Give integers the name that the model has for them."""
        self.tensors[new] = replace(self.tensors.pop(old), name=new)

        def names(given: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(new if name == old else name for name in given)

        self.nodes = [
            replace(n, inputs=names(n.inputs), outputs=names(n.outputs))
            if old in n.inputs or old in n.outputs
            else n
            for n in self.nodes
        ]
        self.made = {key: new if name == old else name for key, name in self.made.items()}
        self.images = {key: new if name == old else name for key, name in self.images.items()}
        if old in self.biases:
            self.biases[new] = replace(self.biases.pop(old), layer=new)

    def _signed(self, name: str) -> str:
        """Return int8 for a tensor of integers: itself, or what it is 128 above."""
        tensor = self.tensors[name]
        if tensor.element.computed is tensor.element:
            return name
        quant = _signed_quant(tensor)
        if (name, quant) not in self.made:
            signed = self._fresh(name, tensor.shape, "int8", quant)
            self.made[name, quant] = self._convert(name, signed)
        return self.made[name, quant]

    def _convert(self, name: str, out: Tensor) -> str:
        """Add a conversion from one quantization of bytes to another."""
        self.tensors[out.name] = out
        node = Node(
            "QUANTIZE",
            (name,),
            (out.name,),
            QuantizeAttributes(dtype=out.dtype),
            rounding=Rounding.NEAREST_EVEN,
        )
        return self._add(node)

    def _fresh(self, base: str, shape: tuple[int, ...], dtype: str, quant: Quant | None) -> Tensor:
        number = 0
        while (name := f"{base}:{dtype}" + (f":{number}" if number else "")) in self.tensors:
            number += 1
        return Tensor(name, shape, dtype, quant)

    def _constant(self, base: str, data: Array, quant: Quant | None) -> str:
        tensor = self._fresh(base, data.shape, data.dtype.name, quant)
        data = np.array(data, order="C")
        data.flags.writeable = False
        self.tensors[tensor.name] = replace(tensor, data=data)
        return tensor.name

    def _add(self, node: Node) -> str:
        """Add a node on integers; :class:`_NoIntegersError` where its operator refuses it."""
        graph = Graph("fused", self.tensors, (node,), (), ())
        try:
            check_node(graph, node)
        except HilError as error:
            raise _NoIntegersError(error.fact) from error
        self.nodes.append(node)
        return node.outputs[0]

    # Integers of floats ---------------------------------------------------------------------------

    def _image(self, name: str) -> str:
        """Return the integers that a tensor of floats was made of, or moved with."""
        if name in self.images:
            return self.images[name]
        tensor = self.tensors[name]
        if tensor.is_constant:
            self.images[name] = self._constant_image(tensor)
            return self.images[name]
        node = self.producers.get(name)
        if node is None:
            raise _NoIntegersError(f"its operand {name!r} is a float that the model is given")
        if not OPS[node.op].moves:
            raise _NoIntegersError(f"its operand {name!r} is not quantized")
        sources = [self._image(n) if self._is_real(n) else n for n in node.inputs]
        quants = {
            self.tensors[s].quant
            for s, n in zip(sources, node.inputs, strict=True)
            if self._is_real(n)
        }
        if len(quants) != 1:
            raise _NoIntegersError(f"its operand {name!r} joins several quantizations")
        (quant,) = quants
        assert quant is not None
        self._move(node, sources, quant)
        return self.images[name]

    def _is_real(self, name: str) -> bool:
        return bool(name) and self.tensors[name].element.is_real

    def _constant_image(self, tensor: Tensor) -> str:
        origin = tensor.origin
        if origin is None or origin.values.dtype.name not in _BYTES:
            raise _NoIntegersError(f"its constant {tensor.name!r} is not quantized")
        scales, zero_points = np.unique(origin.scales), np.unique(origin.zero_points)
        if scales.size != 1 or zero_points.size != 1:
            raise _NoIntegersError(f"its constant {tensor.name!r} has several scales")
        quant = Quant((float(scales[0]),), (int(zero_points[0]),))
        made = self._constant(tensor.name, origin.values, quant)
        return self._constant(tensor.name, *_signed_values(self.tensors[made]))

    def _move(self, node: Node, sources: list[str], quant: Quant) -> list[str]:
        """Do to integers what a node does to floats, which were made of them."""
        outs = self._moved(node, sources, quant)
        self.images.update(zip(node.outputs, outs, strict=True))
        return outs

    def _moved(self, node: Node, sources: list[str], quant: Quant) -> list[str]:
        """Do to integers what a node does to floats."""
        outs = []
        for name in node.outputs:
            tensor = self._fresh(name, self.tensors[name].shape, "int8", quant)
            self.tensors[tensor.name] = tensor
            outs.append(tensor.name)
        self._add(replace(node, inputs=tuple(sources), outputs=tuple(outs)))
        for name, out in zip(node.outputs, outs, strict=True):
            self.made[name, quant] = out
        return outs

    def _integers(self, name: str, quant: Quant) -> str:
        """Return a tensor of floats as int8 of a quantization, rounded once."""
        if (name, quant) not in self.made:
            self.made[name, quant] = self._made(name, quant)
        return self.made[name, quant]

    def _made(self, name: str, quant: Quant) -> str:
        tensor = self.tensors[name]
        if tensor.data is not None:
            steps = np.rint(tensor.data / np.float32(quant.scale[0])) + quant.zero_point[0]
            return self._constant(name, np.clip(steps, *_INTEGERS.bounds).astype(np.int8), quant)
        known = self._known_image(name)
        # After it: integers of another quantization take a name, too.
        out = self._fresh(name, tensor.shape, "int8", quant)
        if known is not None:
            if self.tensors[known].quant == quant:
                return known
            return self._convert(known, out)
        node = self.producers.get(name)
        if node is None:
            raise _NoIntegersError("the model's float input is quantized here")
        operator = OPS[node.op]
        if operator.moves:
            sources = [self._integers(n, quant) if self._is_real(n) else n for n in node.inputs]
            if operator.bounds is not None and len(node.outputs) == 1 and len(sources) == 2:
                kept = self._unclamped(node, sources)
                if kept is not None:
                    return kept
            self._moved(node, sources, quant)
            return self.made[name, quant]
        if operator.as_activation == "RELU":
            # Below zero real numbers become zero, whichever way round.
            source = self._integers(node.inputs[0], quant)
            if quant.zero_point[0] == _INTEGERS.low:
                return source
            self.tensors[out.name] = out
            return self._add(replace(node, inputs=(source,), outputs=(out.name,)))
        fused = _FUSED.get(node.op)
        try:
            if fused is not None:
                self.tensors[out.name] = out
                return fused(self, node, out)
        except _NoIntegersError as error:
            self.reasons[node.name] = str(error)
            first = error
        else:
            first = _NoIntegersError(f"{node.op} has no form on integers")
        try:
            return self._table(name, out)
        except _NoIntegersError:
            self.reasons[node.name] = str(first)
            raise first from None

    def _known_image(self, name: str) -> str | None:
        """Return the integers of a tensor where it was made of some, without further rounding."""
        before = self._state()
        try:
            return self._image(name)
        except _NoIntegersError:
            self._go_back(before)
            return None

    def _unclamped(self, node: Node, sources: list[str]) -> str | None:
        """Return the other operand of a MAXIMUM or MINIMUM with what no byte lies beyond."""
        ends = {"MAXIMUM": _INTEGERS.low, "MINIMUM": _INTEGERS.high}
        for bound, other in (sources, sources[::-1]):
            data = self.tensors[bound].data
            shape = self.tensors[node.outputs[0]].shape
            if node.op in ends and data is not None and (data == ends[node.op]).all():
                return other if self.tensors[other].shape == shape else None
        return None

    # Functions of single elements -----------------------------------------------------------------

    def _table(self, name: str, out: Tensor) -> str:
        """Return the LOOKUP of a function of the elements of one tensor of integers."""
        source, values = self._function(name, {})
        image = self.tensors[source]
        assert out.quant is not None
        if image.shape != out.shape:
            raise _NoIntegersError("it is a function of a tensor of another shape")
        with np.errstate(all="ignore"):
            steps = np.rint(values.astype(np.float64) / np.float32(out.quant.scale[0]))
        placed = np.nan_to_num(steps, nan=_INTEGERS.low) + out.quant.zero_point[0]
        answers = np.clip(placed, *_INTEGERS.bounds).astype(np.int8)
        table = self._constant(f"{out.name}:table", answers, out.quant)
        self.tensors[out.name] = out
        return self._add(Node("LOOKUP", (source, table), (out.name,)))

    def _function(self, name: str, seen: dict[str, tuple[str, Array]]) -> tuple[str, Array]:
        """Return the integers that a tensor is a function of, and its value for each of 256."""
        if name in seen:
            return seen[name]
        known = self._known_image(name)
        if known is not None:
            quant = self.tensors[known].quant
            assert quant is not None
            numbers = np.array(_INTEGERS.values) - quant.zero_point[0]
            found = known, np.float32(quant.scale[0]) * numbers.astype(np.float32)
        else:
            node = self.producers.get(name)
            if node is None or not _is_pointwise(node):
                raise _NoIntegersError("it is no function of single elements")
            found = self._evaluated(node, seen)
        seen[name] = found
        return found

    def _evaluated(self, node: Node, seen: dict[str, tuple[str, Array]]) -> tuple[str, Array]:
        sources = set[str]()
        lines: list[Array | None] = []
        for operand in node.inputs:
            tensor = self.tensors[operand] if operand else None
            if tensor is None:
                lines.append(None)
            elif tensor.data is not None:
                if tensor.size != 1:
                    raise _NoIntegersError("it takes a constant of several elements")
                lines.append(tensor.data.reshape((1,)))
            else:
                source, values = self._function(operand, seen)
                sources.add(source)
                lines.append(values)
        if len(sources) != 1:
            raise _NoIntegersError("it is a function of several tensors")
        tensors = {
            n: Tensor(n, line.shape, line.dtype.name)
            for n, line in zip(node.inputs, lines, strict=True)
            if line is not None
        }
        out = self.tensors[node.outputs[0]]
        tensors[out.name] = Tensor(out.name, (256,), out.dtype)
        line_graph = Graph("function", tensors, (node,), (), node.outputs)
        try:
            (values,) = run_node(line_graph, node, lines)
        except HilError as error:
            raise _NoIntegersError(error.fact) from error
        return sources.pop(), np.asarray(values).reshape(-1)

    # Operators ------------------------------------------------------------------------------------

    def _linear(self, node: Node, out: Tensor) -> str:
        weights_of = OPS[node.op].weights
        assert weights_of is not None
        return self._weighted(node, out, _Places(0, 1, 2, weights_of.channel_axis))

    def _transposed(self, node: Node, out: Tensor) -> str:
        image, weights, bias = transpose_conv.IMAGE, transpose_conv.WEIGHTS, transpose_conv.BIAS
        return self._weighted(node, out, _Places(image, weights, bias, 0))

    def _weighted(self, node: Node, out: Tensor, places: _Places) -> str:
        """Return an operator whose sums are of products with constant weights."""
        x, weights = (
            self._image(node.inputs[places.image]),
            self.tensors[node.inputs[places.weights]],
        )
        if weights.origin is None:
            raise _NoIntegersError(f"its weights {weights.name!r} are not quantized")
        values, quant = _channel_quantization(weights, weights.origin, places.axis)
        made = list(node.inputs)
        made[places.image] = x
        made[places.weights] = self._constant(weights.name, values, quant)
        if len(made) > places.bias and made[places.bias]:
            x_quant = self.tensors[x].quant
            assert x_quant is not None
            units = np.array(quant.scale) * x_quant.scale[0]
            made[places.bias] = self._bias(self.tensors[made[places.bias]], units, out)
        fused = replace(
            node, inputs=tuple(made), outputs=(out.name,), rounding=Rounding.NEAREST_EVEN
        )
        return self._add(fused)

    def _bias(self, bias: Tensor, units: Array, out: Tensor) -> str:
        """Return a bias in whole units of the sums, and note what of it is lost."""
        assert out.quant is not None
        if bias.data is None:
            raise _NoIntegersError(f"its bias {bias.name!r} is computed")
        steps = np.rint(bias.data.astype(np.float64).reshape(-1) / units)
        if np.abs(steps).max(initial=0) > INT32_MAX:
            raise _NoIntegersError(f"its bias {bias.name!r} exceeds 32 bits")
        lost = np.abs(bias.data.astype(np.float64).reshape(-1) - steps * units)
        effect = float(lost.max(initial=0) / out.quant.scale[0])
        self.biases[out.name] = RoundedBias(out.name, effect)
        return self._constant(bias.name, steps.astype(np.int32), None)

    def _first_operand(self, node: Node, out: Tensor) -> str:
        """Return an operator on integers whose other operands stay constants of floats."""
        if any(self.tensors[name].data is None for name in node.inputs[1:] if name):
            raise _NoIntegersError("its factors are computed")
        sources = (self._image(node.inputs[0]), *node.inputs[1:])
        fused = replace(node, inputs=sources, outputs=(out.name,), rounding=Rounding.NEAREST_EVEN)
        return self._add(fused)

    def _operands(self, node: Node, out: Tensor) -> str:
        """Return an operator whose operands are all integers, constant ones included."""
        sources = tuple(self._image(n) if self._is_real(n) else n for n in node.inputs)
        fused = replace(node, inputs=sources, outputs=(out.name,), rounding=Rounding.NEAREST_EVEN)
        return self._add(fused)

    def _put(self, node: Node, out: Tensor) -> str:
        """Return a SCATTER of integers of one quantization."""
        assert out.quant is not None
        if ScatterAttributes.of(node).reduction != "none":
            raise _NoIntegersError("it combines what it puts with what is there")
        sources = tuple(
            self._integers(n, out.quant) if self._is_real(n) else n for n in node.inputs
        )
        return self._add(replace(node, inputs=sources, outputs=(out.name,)))


#: How an operator on floats becomes one on integers, by its name.
_FUSED: Mapping[str, Callable[[_Fusion, Node, Tensor], str]] = {
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"), _Fusion._linear),
    "TRANSPOSE_CONV": _Fusion._transposed,
    **dict.fromkeys(
        ("ADD", "SUB", "MUL", "MEAN", "AVERAGE_POOL_2D", "SOFTMAX", "BATCH_MATMUL"),
        _Fusion._operands,
    ),
    "LAYER_NORMALIZATION": _Fusion._first_operand,
    "SCATTER": _Fusion._put,
}


def _is_pointwise(node: Node) -> bool:
    """Return whether each element of the output is made of the same element of each operand."""
    operator = OPS[node.op]
    is_of_one = isinstance(operator.rows, SameRows) and operator.links is channelwise
    return is_of_one or operator.links is broadcast_links


def _lowered(tensor: Tensor) -> int:
    """Return how far a tensor's numbers lie above those that compute in their place."""
    return int(tensor.element.low - tensor.element.computed.low)


def _signed_quant(tensor: Tensor) -> Quant:
    """Return the quantization of the int8 numbers that stand for a tensor's bytes."""
    assert tensor.quant is not None
    lowered = _lowered(tensor)
    return Quant(tensor.quant.scale, tuple(z - lowered for z in tensor.quant.zero_point))


def _signed_values(tensor: Tensor) -> tuple[Array, Quant]:
    assert tensor.data is not None
    return (tensor.data.astype(np.int64) - _lowered(tensor)).astype(np.int8), _signed_quant(tensor)


def _channel_quantization(weights: Tensor, origin: Dequantized, axis: int) -> tuple[Array, Quant]:
    """Return weights as int8 without a zero point, with a scale for each channel or one for all.

    What a zero point is other than 0 goes into the weights, where that leaves them 8 bits.
    """
    steps = origin.values.astype(np.int64) - origin.zero_points.astype(np.int64)
    if steps.min(initial=0) < _INTEGERS.low or steps.max(initial=0) > _INTEGERS.high:
        raise _NoIntegersError(
            f"its weights {weights.name!r} less their zero point are beyond int8"
        )
    scales = np.moveaxis(origin.scales, axis, 0).reshape(origin.scales.shape[axis], -1)
    if (scales != scales[:, :1]).any():
        raise _NoIntegersError(f"its weights {weights.name!r} have scales along another axis")
    each = [float(scale) for scale in scales[:, 0]]
    if len(set(each)) == 1:
        return steps.astype(np.int8), Quant((each[0],), (0,))
    return steps.astype(np.int8), Quant(tuple(each), (0,) * len(each), axis)


def require_integers(graph: Graph, allow_float: bool) -> None:
    """Refuse a quantized model of which layers are left in floats, unless these are allowed."""
    if allow_float or not graph.float_layers:
        return
    # A reader makes several nodes of an operator, and numbers them.
    steps: dict[str, list[FloatLayer]] = {}
    for layer in graph.float_layers:
        steps.setdefault(_STEPS.sub("", layer.name), []).append(layer)
    listed = "; ".join(
        f"{', '.join(dict.fromkeys(layer.op for layer in layers))} {name!r} ({layers[-1].reason})"
        for name, layers in steps.items()
    )
    raise UnsupportedError(
        f"{len(steps)} layers of the quantized model compute in floats: {listed}",
        "quantize what they read and give, or allow them: --allow-float, in Python "
        "allow_float=True",
    )
