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
* what depends on the order of elements alone (ARG_MAX, comparisons) takes the integers as well;
* any function of single elements of one tensor is a LOOKUP, its 256 results computed here.

uint8 becomes int8, whose zero point is 128 less, and so do wider types without a sign; at the
model's borders they stay. An operator computes in the widest of the types that it takes and gives:
what a narrower one holds stays what it is.

What is left in floats is listed in the graph, each with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from hilc.errors import HilError, UnsupportedError
from hilc.interpreter import run_node
from hilc.ir import (
    ELEMENT_TYPES,
    Array,
    Dequantized,
    ElementType,
    FloatLayer,
    Graph,
    Node,
    Quant,
    RoundedBias,
    Rounding,
    State,
    Tensor,
    of_node,
)
from hilc.numerics.requantize import SUMS
from hilc.ops import OPS
from hilc.ops.broadcast import broadcast_channel_groups
from hilc.ops.quantize import QuantizeAttributes
from hilc.ops.traits import (
    IntegerInput,
    IntegerOperands,
    OrderOfOperands,
    SameRows,
    SharedQuantization,
    WeightedSums,
    channelwise,
)
from hilc.ops.verify import check_node
from hilc.support.suggest import counted
from hilc.transforms.remove_dead import remove_dead

#: The integers that operators compute with a quantization, the narrowest first.
_INTEGERS = tuple(row for row in ELEMENT_TYPES.values() if row.quantized and row.computed is row)
#: Types that are computed as these integers.
_QUANTIZED = tuple(name for name, row in ELEMENT_TYPES.items() if row.computed in _INTEGERS)
#: Suffix that a reader appends to the name of an operator's result for its intermediate steps.
_STEPS = re.compile(r"(:\d+)+$")


#: Number of nodes, and positions in the logs of :class:`_Undoable`.
_State = tuple[int, ...]
#: Largest number of consecutive operators that become one operator on integers.
_LONGEST_ROW = 128

_KeyT = TypeVar("_KeyT", bound=Hashable)
_ValueT = TypeVar("_ValueT")


class _Undoable(dict[_KeyT, _ValueT]):
    """A dictionary with a log of its changes, to take the last ones back."""

    def __init__(self, given: Mapping[_KeyT, _ValueT] | None = None) -> None:
        super().__init__(given or {})
        #: Previous value of each changed key; an empty tuple for none.
        self._log: list[tuple[_KeyT, tuple[_ValueT, ...]]] = []

    def __setitem__(self, key: _KeyT, value: _ValueT) -> None:
        self._log.append((key, (self[key],) if key in self else ()))
        super().__setitem__(key, value)

    def state(self) -> int:
        """Return the position in the log to which :meth:`go_back` reverts."""
        return len(self._log)

    def go_back(self, state: int) -> None:
        """Take back every change since a state."""
        while len(self._log) > state:
            key, before = self._log.pop()
            if before:
                super().__setitem__(key, *before)
            else:
                super().__delitem__(key)


class _Names(_Undoable[_KeyT, str]):
    """Names of tensors, each of which can be replaced wherever it stands."""

    def __init__(self) -> None:
        super().__init__()
        #: The keys that have had a name.
        self._keys: dict[str, dict[_KeyT, None]] = {}

    def __setitem__(self, key: _KeyT, value: str) -> None:
        super().__setitem__(key, value)
        self._keys.setdefault(value, {})[key] = None

    def rename(self, old: str, new: str) -> None:
        """Replace a name."""
        for key in self._keys.pop(old, ()):
            if self.get(key) == old:
                self[key] = new


class _Form(NamedTuple):
    """An integer type and its quantization."""

    dtype: str
    quant: Quant

    @property
    def element(self) -> ElementType:
        return ELEMENT_TYPES[self.dtype]

    @property
    def bounds(self) -> tuple[int, int]:
        return self.element.bounds

    @property
    def scale(self) -> float:
        return self.quant.scale[0]

    @property
    def zero_point(self) -> int:
        return self.quant.zero_point[0]


#: A float tensor, and the form of its integers.
_Key = tuple[str, _Form]


class _NoIntegersError(Exception):
    """A tensor of floats has no integers; the text says why."""


def _reason(node: Node, error: _NoIntegersError) -> str:
    """Return why a node stays in floats, without the names of tensors that a reader made."""
    made = f"'{_STEPS.sub('', node.name)}:"
    return "it has no integer form on these operands" if made in str(error) else str(error)


@dataclass(frozen=True)
class FusedGraph:
    """A graph after :func:`fuse_quantized`."""

    graph: Graph
    #: The layers that stay in float32, each with the reason.
    float_layers: tuple[FloatLayer, ...] = ()
    #: The biases that were rounded to the scale of the sums.
    rounded_biases: tuple[RoundedBias, ...] = ()


def fuse_quantized(
    graph: Graph, dequantized: Mapping[str, Dequantized] = MappingProxyType({})
) -> FusedGraph:
    """Replace operators on floats between DEQUANTIZE and QUANTIZE by operators on integers, where
    all operands and the result are quantized.

    ``dequantized`` has the integers of float constants, by name
    (:attr:`hilc.frontends.ModelFile.dequantized`). Without it, operators with weights stay in
    float32.
    """
    if not any(_quantizes(node) for node in graph.nodes):
        return FusedGraph(graph)
    return _Fusion(graph, dequantized).run()


def is_quantized(graph: Graph) -> bool:
    """Return whether a graph computes on integers that are rounded with ties to even."""
    return any(node.rounding is Rounding.NEAREST_EVEN for node in graph.nodes)


def _quantizes(node: Node) -> bool:
    """Return whether a node converts to or from integers and rounds with ties to even."""
    return OPS[node.op].conversion is not None and node.rounding is Rounding.NEAREST_EVEN


@dataclass
class _Fusion:
    graph: Graph
    #: The integers of float constants, by name.
    origins: Mapping[str, Dequantized]
    tensors: _Undoable[str, Tensor] = field(init=False)
    nodes: list[Node] = field(default_factory=list)
    #: The integers that a tensor of floats was made of.
    images: _Names[str] = field(default_factory=_Names)
    #: Integers by float tensor and form.
    made: _Names[_Key] = field(default_factory=_Names)
    #: Outputs of QUANTIZE that are another tensor now.
    renamed: dict[str, str] = field(default_factory=dict)
    #: Why the output of a node stays a float.
    reasons: dict[str, str] = field(default_factory=dict)
    biases: dict[str, RoundedBias] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tensors = _Undoable(self.graph.tensors)
        #: Next number in the name of a new tensor, by the name without it.
        self._numbers = _Undoable[str, int]()
        self._depth = 0
        self._results = frozenset(self.graph.results)
        self.producers = self.graph.producers()

    def run(self) -> FusedGraph:
        """Return the graph with operators on integers; call it once."""
        for node in self.graph.nodes:
            node = replace(node, inputs=tuple(self.renamed.get(n, n) for n in node.inputs))
            if _quantizes(node) and OPS[node.op].conversion == "dequantize":
                self.images[node.outputs[0]] = self._signed(node.inputs[0])
                self.nodes.append(node)
            elif _quantizes(node) and self.tensors[node.inputs[0]].element.is_real:
                self._quantize(node)
            elif isinstance(OPS[node.op].integer_form, OrderOfOperands):
                self._compare(node)
            else:
                self.nodes.append(node)
        states = tuple(self._integer_state(state) for state in self.graph.states)
        graph = self.graph.with_(tensors=self.tensors, nodes=tuple(self.nodes), states=states)
        graph = remove_dead(graph)
        biases = tuple(bias for name, bias in self.biases.items() if name in graph.tensors)
        return FusedGraph(graph, tuple(self._float_layers(graph)), biases)

    def _float_layers(self, graph: Graph) -> list[FloatLayer]:
        """Return the nodes that compute on floats, except conversions."""
        found = []
        for node in graph.nodes:
            # Constants of floats alone are factors of an operator on integers.
            taken = [t for t in graph.ins(node) if t is not None and not t.is_constant]
            floats = any(t.element.is_real for t in (*taken, *graph.outs(node)))
            operator = OPS[node.op]
            if floats and operator.conversion is None and not operator.copies_elements:
                reason = self.reasons.get(node.name, "no QUANTIZE takes its result")
                found.append(FloatLayer(node.name, node.op, reason))
        return found

    def _compare(self, node: Node) -> None:
        """Add a node whose result depends on the order of its operands, of their integers if they
        have one quantization.
        """
        before = self._state()
        try:
            images = [self._image(n) if self._is_real(n) else n for n in node.inputs]
            reals = [i for i, n in zip(images, node.inputs, strict=True) if self._is_real(n)]
            if len({_form(self.tensors[image]) for image in reals}) > 1:
                raise _NoIntegersError("its operands have several quantizations")
            rounding = Rounding.NEAREST_EVEN if reals else node.rounding
            if rounding not in OPS[node.op].roundings:
                rounding = node.rounding
            self._add(replace(node, inputs=tuple(images), rounding=rounding))
        except _NoIntegersError as error:
            self._go_back(before)
            self.reasons[node.name] = _reason(node, error)
            self.nodes.append(node)

    # States ---------------------------------------------------------------------------------------

    def _integer_state(self, state: State) -> State:
        """Return a state of floats as one of integers, where a run leaves some for it, and reads
        nothing but the same ones.
        """
        before, readers = self.tensors[state.name], self._readers(state.name)
        kept = self._state()
        made = self._known_image(state.after) if before.element.is_real else None
        form = None if made is None else _form(self.tensors[made])
        if made is None or form is None or not self._may_be_integers(state, made, form, readers):
            self._go_back(kept)
            return state
        reset = np.rint(self.graph.reset_value(state) / np.float32(form.scale))
        placed = np.clip(reset + form.zero_point, *form.bounds).astype(form.dtype)
        self.tensors[state.name] = replace(before, dtype=form.dtype, quant=form.quant)
        for node in readers:
            place, (name,) = self.nodes.index(node), node.outputs
            if _is_computed(self.tensors[name]):
                self._rename(name, state.name)
                del self.nodes[place]
        return State(state.name, made, placed)

    def _readers(self, name: str) -> list[Node]:
        return [node for node in self.nodes if name in node.inputs]

    def _may_be_integers(
        self, state: State, made: str, form: _Form, readers: Sequence[Node]
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
            and all(out.dtype in _QUANTIZED and _form(out) == form for out in outs)
            and all(out.name not in self._results for out in outs)
        )

    # Conversions ----------------------------------------------------------------------------------

    def _quantize(self, node: Node) -> None:
        """Give the output of a QUANTIZE integers that no float is made for, if there are."""
        source, out = node.inputs[0], self.tensors[node.outputs[0]]
        before = self._state()
        if out.dtype not in _QUANTIZED:
            self.reasons[source] = f"it becomes {out.dtype}"
            self.nodes.append(node)
            return
        form = _form(out)
        try:
            made = self._integers(source, form)
        except _NoIntegersError as error:
            self._go_back(before)
            self.reasons.setdefault(source, str(error))
            self.nodes.append(node)
            if not _is_computed(out):
                # Its readers take what it is computed as.
                signed = self._fresh(out.name, out.shape, form)
                self.made[out.name, form] = self._convert(source, signed)
            return
        if _is_computed(out) and self._is_fresh(made):
            self._rename(made, out.name)
        elif _is_computed(out) and out.name not in self._results:
            self.renamed[out.name] = made
        else:
            if self._is_fresh(made):
                name = self._fresh(out.name, out.shape, form).name
                self._rename(made, name)
                made = name
            self._convert(made, out)
            self.made[out.name, form] = made

    def _state(self) -> _State:
        """Return the position in the logs to which :meth:`_go_back` reverts."""
        return len(self.nodes), *(log.state() for log in self._logs())

    def _go_back(self, state: _State) -> None:
        count, *states = state
        del self.nodes[count:]
        for log, own in zip(self._logs(), states, strict=True):
            log.go_back(own)

    def _logs(self) -> tuple[_Undoable[Any, Any], ...]:
        return self.tensors, self.images, self.made, self._numbers

    def _is_fresh(self, made: str) -> bool:
        """Return whether integers have no name of the model yet."""
        return made not in self.graph.tensors and not self.tensors[made].is_constant

    def _rename(self, old: str, new: str) -> None:
        """Give integers the name that the model has for them."""
        self.tensors[new] = replace(self.tensors.pop(old), name=new)
        self.made.rename(old, new)
        self.images.rename(old, new)

        def names(given: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(new if name == old else name for name in given)

        # No node names it that stands before the one that computes it.
        for place in reversed(range(len(self.nodes))):
            node = self.nodes[place]
            if old in node.inputs or old in node.outputs:
                made = replace(node, inputs=names(node.inputs), outputs=names(node.outputs))
                self.nodes[place] = made
            if old in node.outputs:
                break
        self._release_name(old)
        if old in self.biases:
            self.biases[new] = replace(self.biases.pop(old), layer=new)

    def _signed(self, name: str) -> str:
        """Return a tensor of integers in a type that operators compute: itself, or a conversion of
        it.
        """
        tensor = self.tensors[name]
        if _is_computed(tensor):
            return name
        form = _form(tensor)
        if (name, form) not in self.made:
            signed = self._fresh(name, tensor.shape, form)
            self.made[name, form] = self._convert(name, signed)
        return self.made[name, form]

    def _convert(self, name: str, out: Tensor) -> str:
        """Add a conversion from one quantization to another."""
        self.tensors[out.name] = out
        node = Node(
            "QUANTIZE",
            (name,),
            (out.name,),
            QuantizeAttributes(dtype=out.dtype),
            rounding=Rounding.NEAREST_EVEN,
        )
        return self._add(node)

    def _fresh(self, base: str, shape: tuple[int, ...], form: _Form) -> Tensor:
        return Tensor(self._fresh_name(base, form.dtype), shape, form.dtype, form.quant)

    def _fresh_name(self, base: str, dtype: str) -> str:
        key = f"{base}:{dtype}"
        number = self._numbers.get(key, 0)
        while (name := key + (f":{number}" if number else "")) in self.tensors:
            number += 1
        self._numbers[key] = number
        return name

    def _release_name(self, name: str) -> None:
        """Let :meth:`_fresh_name` find a name that no tensor has any more."""
        key, _, number = name.rpartition(":")
        if name in self._numbers:
            self._numbers[name] = 0
        elif key in self._numbers and number.isdecimal():
            self._numbers[key] = min(self._numbers[key], int(number))

    def _constant(self, base: str, data: Array, quant: Quant | None) -> str:
        dtype = data.dtype.name
        data = np.array(data, order="C")
        data.flags.writeable = False
        name = self._fresh_name(base, dtype)
        self.tensors[name] = Tensor(name, data.shape, dtype, quant, data)
        return name

    def _add(self, node: Node) -> str:
        """Add a node on integers; :class:`_NoIntegersError` where its operator refuses it."""
        try:
            check_node(of_node(node, self.tensors), node)
        except HilError as error:
            raise _NoIntegersError(error.fact) from error
        self.nodes.append(node)
        return node.outputs[0]

    # Integers of floats ---------------------------------------------------------------------------

    @contextmanager
    def _behind(self) -> Iterator[None]:
        """Go back by one operator; :class:`_NoIntegersError` where there are too many in a row."""
        if self._depth == _LONGEST_ROW:
            raise _NoIntegersError(f"it is made of more than {_LONGEST_ROW} operators in a row")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

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
        if not OPS[node.op].copies_elements:
            raise _NoIntegersError(f"its operand {name!r} is not quantized")
        with self._behind():
            sources = [self._image(n) if self._is_real(n) else n for n in node.inputs]
        forms = {
            _form(self.tensors[s])
            for s, n in zip(sources, node.inputs, strict=True)
            if self._is_real(n)
        }
        if len(forms) != 1:
            raise _NoIntegersError(f"its operand {name!r} joins several quantizations")
        self._move(node, sources, *forms)
        return self.images[name]

    def _is_real(self, name: str) -> bool:
        return bool(name) and self.tensors[name].element.is_real

    def _constant_image(self, tensor: Tensor) -> str:
        origin = self.origins.get(tensor.name)
        if origin is None or origin.values.dtype.name not in _QUANTIZED:
            raise _NoIntegersError(f"its constant {tensor.name!r} is not quantized")
        scales, zero_points = np.unique(origin.scales), np.unique(origin.zero_points)
        if scales.size != 1 or zero_points.size != 1:
            raise _NoIntegersError(f"its constant {tensor.name!r} has several scales")
        quant = Quant((float(scales[0]),), (int(zero_points[0]),))
        stored = Tensor("", tensor.shape, origin.values.dtype.name, quant)
        form = _form(stored)
        lowered = origin.values.astype(np.int64) - int(stored.element.low - form.element.low)
        return self._constant(tensor.name, lowered.astype(form.dtype), form.quant)

    def _move(self, node: Node, sources: list[str], form: _Form) -> list[str]:
        """Apply a node that moves floats to the integers that they were converted from."""
        outs = self._moved(node, sources, form)
        for name, out in zip(node.outputs, outs, strict=True):
            self.images[name] = out
        return outs

    def _moved(self, node: Node, sources: list[str], form: _Form) -> list[str]:
        """Apply a node that moves floats to integers."""
        outs = []
        for name in node.outputs:
            tensor = self._fresh(name, self.tensors[name].shape, form)
            self.tensors[tensor.name] = tensor
            outs.append(tensor.name)
        self._add(replace(node, inputs=tuple(sources), outputs=tuple(outs)))
        for name, out in zip(node.outputs, outs, strict=True):
            self.made[name, form] = out
        return outs

    def _integers(self, name: str, form: _Form) -> str:
        """Return a tensor of floats as integers, rounded once."""
        if (name, form) not in self.made:
            with self._behind():
                made = self._made(name, form)
            self.made[name, form] = made
        return self.made[name, form]

    def _made(self, name: str, form: _Form) -> str:
        tensor = self.tensors[name]
        if tensor.data is not None:
            steps = np.rint(tensor.data / np.float32(form.scale)) + form.zero_point
            return self._constant(name, np.clip(steps, *form.bounds).astype(form.dtype), form.quant)
        known = self._known_image(name)
        # After it: integers of another quantization take a name, too.
        out = self._fresh(name, tensor.shape, form)
        if known is not None:
            return known if _form(self.tensors[known]) == form else self._convert(known, out)
        node = self.producers.get(name)
        if node is None:
            raise _NoIntegersError("the model's float input is quantized here")
        operator = OPS[node.op]
        if operator.copies_elements:
            sources = [self._integers(n, form) if self._is_real(n) else n for n in node.inputs]
            kept = self._unclamped(node, sources)
            if kept is not None:
                return kept
            self._moved(node, sources, form)
            return self.made[name, form]
        if operator.as_activation == "RELU":
            # Below zero real numbers become zero, whichever way round.
            source = self._integers(node.inputs[0], form)
            if form.zero_point == form.element.low:
                return source
            self.tensors[out.name] = out
            if form.element.symmetric and form.zero_point:
                zero = np.full((1,) * len(out.shape), form.zero_point, form.dtype)
                least = self._constant(f"{out.name}:zero", zero, form.quant)
                return self._add(Node("MAXIMUM", (source, least), (out.name,), index=node.index))
            return self._add(replace(node, inputs=(source,), outputs=(out.name,)))
        try:
            return self._integer_form(node, out)
        except _NoIntegersError as error:
            if operator.integer_form is not None:
                self.reasons[node.name] = _reason(node, error)
            first = error
        try:
            return self._table(name, out)
        except _NoIntegersError:
            self.reasons[node.name] = _reason(node, first)
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
        """Return the operand that a binary operator returns unchanged, because the other is the
        neutral end of the type; None if it has another shape than the output.
        """
        neutral = OPS[node.op].neutral
        if neutral is None:
            return None
        low, high = self.tensors[sources[0]].element.bounds
        end = low if neutral == "lowest" else high
        for bound, other in (sources, sources[::-1]):
            data = self.tensors[bound].data
            shape = self.tensors[node.outputs[0]].shape
            if data is not None and (data == end).all():
                return other if self.tensors[other].shape == shape else None
        return None

    # Functions of single elements -----------------------------------------------------------------

    def _table(self, name: str, out: Tensor) -> str:
        """Return the LOOKUP of a function of the elements of one tensor of integers."""
        source, values = self._function(name, {})
        if self.tensors[source].shape != out.shape:
            raise _NoIntegersError("it is a function of a tensor of another shape")
        form = _form(out)
        with np.errstate(all="ignore"):
            steps = np.rint(values.astype(np.float64) / np.float32(form.scale))
        placed = np.nan_to_num(steps, nan=form.element.low) + form.zero_point
        answers = np.clip(placed, *form.bounds)

        def look_up(sources: tuple[str, ...], out: Tensor) -> str:
            (source,) = sources
            # Numbers of a type that was widened do not reach beyond it.
            beyond = (len(self.tensors[source].element.values) - answers.size) // 2
            table = np.pad(answers, beyond, mode="edge").astype(out.dtype)
            constant = self._constant(f"{out.name}:table", table, out.quant)
            return self._add(Node("LOOKUP", (source, constant), (out.name,)))

        return self._computed((source,), out, look_up)

    def _function(self, name: str, seen: dict[str, tuple[str, Array]]) -> tuple[str, Array]:
        """Return the integers that a tensor is a function of, and its value for each of them."""
        if name in seen:
            return seen[name]
        known = self._known_image(name)
        if known is not None:
            form = _form(self.tensors[known])
            numbers = np.array(form.element.values) - form.zero_point
            found = known, np.float32(form.scale) * numbers.astype(np.float32)
        else:
            node = self.producers.get(name)
            if node is None or not _is_pointwise(node):
                raise _NoIntegersError("it is no function of single elements")
            with self._behind():
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
        count = max(line.size for line in lines if line is not None)
        tensors[out.name] = Tensor(out.name, (count,), out.dtype)
        line_graph = Graph("function", tensors, (node,), (), node.outputs)
        try:
            (values,) = run_node(line_graph, node, lines)
        except HilError as error:
            raise _NoIntegersError(error.fact) from error
        return sources.pop(), np.asarray(values).reshape(-1)

    # Operators ------------------------------------------------------------------------------------

    def _integer_form(self, node: Node, out: Tensor) -> str:
        """Return the output of a node's integer form; :class:`_NoIntegersError` where it has
        none.
        """
        match OPS[node.op].integer_form:
            case WeightedSums() as places:
                return self._weighted(node, out, places)
            case IntegerOperands(float_constants):
                return self._operands(node, out, float_constants)
            case IntegerInput():
                return self._first_operand(node, out)
            case SharedQuantization() as form:
                return self._shared(node, out, form)
            case None | OrderOfOperands():
                raise _NoIntegersError("it has no integer implementation")

    def _weighted(self, node: Node, out: Tensor, places: WeightedSums) -> str:
        """Return a node that sums products with constant integer weights."""
        x, weights = (
            self._image(node.inputs[places.image]),
            self.tensors[node.inputs[places.weights]],
        )
        origin = self.origins.get(weights.name)
        if origin is None:
            raise _NoIntegersError(f"its weights {weights.name!r} are not quantized")
        stored = _stored(origin)
        element = self._widest(x, out.dtype, stored)
        values, quant = _channel_quantization(weights, origin, places.channel_axis, element)
        made = list(node.inputs)
        made[places.weights] = self._constant(weights.name, values, quant)
        if len(made) > places.bias and made[places.bias]:
            units = np.array(quant.scale) * _form(self.tensors[x]).scale
            bias = self.tensors[made[places.bias]]
            made[places.bias] = self._bias(bias, units, out, element.sums(None))

        def layer(sources: tuple[str, ...], wide: Tensor) -> str:
            (made[places.image],) = sources
            return self._add(_even(node, made, wide))

        return self._computed((x,), out, layer, stored)

    def _bias(self, bias: Tensor, units: Array, out: Tensor, sums: str) -> str:
        """Return a bias rounded to the scale of the sums, and record the rounding error."""
        if bias.data is None:
            raise _NoIntegersError(f"its bias {bias.name!r} is computed")
        steps = np.rint(bias.data.astype(np.float64).reshape(-1) / units)
        if np.abs(steps).max(initial=0) >= SUMS[sums].limit:
            bits = SUMS[sums].limit.bit_length()
            raise _NoIntegersError(f"its bias {bias.name!r} exceeds {bits} bits")
        lost = np.abs(bias.data.astype(np.float64).reshape(-1) - steps * units)
        effect = float(lost.max(initial=0) / _form(out).scale)
        self.biases[out.name] = RoundedBias(out.name, effect)
        return self._constant(bias.name, steps.astype(sums), None)

    def _first_operand(self, node: Node, out: Tensor) -> str:
        """Return an operator on integers whose other operands stay constants of floats."""
        if any(self.tensors[name].data is None for name in node.inputs[1:] if name):
            raise _NoIntegersError("its factors are computed")
        source = self._image(node.inputs[0])
        return self._computed(
            (source,),
            out,
            lambda sources, wide: self._add(_even(node, (*sources, *node.inputs[1:]), wide)),
        )

    def _operands(self, node: Node, out: Tensor, float_constants: bool) -> str:
        """Return an operator whose operands are all integers, constant ones included unless
        ``float_constants`` lets those stay floats that are not quantized.
        """
        sources = tuple(
            self._image_or_constant(n, float_constants) if self._is_real(n) else n
            for n in node.inputs
        )
        return self._computed(
            sources, out, lambda sources, wide: self._add(_even(node, sources, wide))
        )

    def _image_or_constant(self, name: str, may_be_float: bool) -> str:
        """Return the integers of a tensor; itself for a constant that has none and needs none. With
        a constant of one element, the operator is a function of single elements: a table.
        """
        if may_be_float and self.tensors[name].is_constant and self.tensors[name].size > 1:
            try:
                return self._image(name)
            except _NoIntegersError:
                return name
        return self._image(name)

    def _shared(self, node: Node, out: Tensor, shared: SharedQuantization) -> str:
        """Return a node whose real operands all have the output's quantization."""
        refusal = shared.refusal(node)
        if refusal is not None:
            raise _NoIntegersError(refusal)
        form = _form(out)
        sources = tuple(self._integers(n, form) if self._is_real(n) else n for n in node.inputs)
        self.tensors[out.name] = out
        return self._add(replace(node, inputs=sources, outputs=(out.name,)))

    # Types ----------------------------------------------------------------------------------------

    def _widest(self, *sources: str) -> ElementType:
        """Return the widest of some types, or of the types of quantized tensors."""
        names = (self.tensors[s].dtype if s in self.tensors else s for s in sources)
        found = [element for name in names if (element := ELEMENT_TYPES[name]) in _INTEGERS]
        return max(found, key=_INTEGERS.index)

    def _computed(
        self,
        sources: tuple[str, ...],
        out: Tensor,
        make: Callable[[tuple[str, ...], Tensor], str],
        *types: str,
    ) -> str:
        """Return an operator's result in the widest type of its operands, of its output and of
        ``types``, without loss.
        """
        quantized = [s for s in sources if s and self.tensors[s].quant is not None]
        element = self._widest(*quantized, out.dtype, *types)
        taken = tuple(self._widened(s, element) if s in quantized else s for s in sources)
        if out.dtype == element.name:
            self.tensors[out.name] = out
            return make(taken, out)
        wide = self._fresh(out.name, out.shape, _Form(element.name, _form(out).quant))
        self.tensors[wide.name] = wide
        return self._convert(make(taken, wide), out)

    def _widened(self, name: str, element: ElementType) -> str:
        """Return integers in a type that holds all of theirs."""
        tensor = self.tensors[name]
        if tensor.element is element:
            return name
        form = _Form(element.name, _form(tensor).quant)
        if tensor.data is not None:
            return self._constant(name, tensor.data.astype(form.dtype), form.quant)
        if (name, form) not in self.made:
            self.made[name, form] = self._convert(name, self._fresh(name, tensor.shape, form))
        return self.made[name, form]


def _even(node: Node, inputs: Iterable[str], out: Tensor) -> Node:
    """Return an operator on integers in the place of a node, that rounds once."""
    return replace(node, inputs=tuple(inputs), outputs=(out.name,), rounding=Rounding.NEAREST_EVEN)


def _is_pointwise(node: Node) -> bool:
    """Return whether each element of the output is made of the same element of each operand."""
    operator = OPS[node.op]
    is_of_one = isinstance(operator.rows, SameRows) and operator.channel_groups is channelwise
    return is_of_one or operator.channel_groups is broadcast_channel_groups


def _is_computed(tensor: Tensor) -> bool:
    """Return whether operators compute a tensor's type."""
    return tensor.element.computed is tensor.element


def _form(tensor: Tensor) -> _Form:
    """Return the quantization of the integers that compute a tensor."""
    assert tensor.quant is not None
    element = tensor.element.computed
    lowered = int(tensor.element.low - element.low)
    quant = Quant(tensor.quant.scale, tuple(z - lowered for z in tensor.quant.zero_point))
    return _Form(element.name, quant)


def _channel_quantization(
    weights: Tensor, origin: Dequantized, axis: int, element: ElementType
) -> tuple[Array, Quant]:
    """Return weights for activations of a type, without a zero point, with a scale for each channel
    or one for all.

    What a zero point is other than 0 goes into the weights, where that leaves them their bits.
    """
    steps = origin.values.astype(np.int64) - origin.zero_points.astype(np.int64)
    types = (element.weights, *element.wider_weights)
    held = next((name for name in types if _holds(ELEMENT_TYPES[name], steps)), None)
    if held is None:
        raise _NoIntegersError(
            f"its weights {weights.name!r} less their zero point are beyond {types[-1]}"
        )
    scales = np.moveaxis(origin.scales, axis, 0).reshape(origin.scales.shape[axis], -1)
    if (scales != scales[:, :1]).any():
        raise _NoIntegersError(f"its weights {weights.name!r} have scales along another axis")
    each = [float(scale) for scale in scales[:, 0]]
    if len(set(each)) == 1:
        return steps.astype(held), Quant((each[0],), (0,))
    return steps.astype(held), Quant(tuple(each), (0,) * len(each), axis)


def _stored(origin: Dequantized) -> str:
    """Return the type that holds the integers of weights less their zero points: a type of 8 bits
    only if all of them fit.
    """
    stored = ELEMENT_TYPES[origin.values.dtype.name].computed
    steps = origin.values.astype(np.int64) - origin.zero_points.astype(np.int64)
    if stored in _INTEGERS and not _holds(stored, steps):
        return next((e.name for e in _INTEGERS if _holds(e, steps)), stored.name)
    return stored.name


def _holds(element: ElementType, values: Array) -> bool:
    low, high = element.bounds
    return bool(values.min(initial=0) >= low and values.max(initial=0) <= high)


def require_integers(
    float_layers: Sequence[FloatLayer],
    allow_float: bool,
    *,
    of_file: bool = True,
    operators: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Raise :class:`~hilc.errors.UnsupportedError` for layers of a quantized model that stay in
    float32, unless ``allow_float`` accepts them.

    Where the model is no file but a graph (``of_file`` is False), the integers of its weights may
    be what is missing: graphs have the float values that the file dequantizes. ``operators`` has
    by layer the operator of the file, which the message then names.
    """
    if allow_float or not float_layers:
        return
    # A reader makes several nodes of an operator, and numbers them.
    steps: dict[str, list[FloatLayer]] = {}
    for layer in float_layers:
        base = _STEPS.sub("", layer.name)
        steps.setdefault(operators.get(layer.name, repr(base)), []).append(layer)
    listed = "; ".join(
        (
            f"{operator} with the output "
            if layers[0].name in operators
            else f"{', '.join(dict.fromkeys(layer.op for layer in layers))} "
        )
        + f"{_STEPS.sub('', layers[-1].name)!r} ({layers[-1].reason})"
        for operator, layers in steps.items()
    )
    verb = "computes" if len(steps) == 1 else "compute"
    fact = f"{counted(len(steps), 'layer')} of the quantized model {verb} in floats: {listed}"
    if of_file:
        raise UnsupportedError(
            fact,
            "quantize what they read and give, or allow them: --allow-float, in Python "
            "allow_float=True",
        )
    raise UnsupportedError(
        fact,
        "give the path or the bytes of the model file in place of the graph of `load_model`, which "
        "does not have the integers of quantized weights; or allow floats: allow_float=True",
    )
