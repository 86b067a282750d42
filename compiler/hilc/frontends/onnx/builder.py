"""The graph under construction: tensors, nodes, and what is known of them already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

import numpy as np
import onnx
from onnx import helper, numpy_helper

from hilc.errors import HilError, ModelError, UnsupportedError
from hilc.frontends.budget import NodeBudget
from hilc.frontends.onnx.storage import Stored, packed, stored_as
from hilc.interpreter import run_node
from hilc.ir import DTYPES, Array, Dequantized, Graph, Node, Numerics, Quant, Tensor
from hilc.ops import OPS
from hilc.ops.verify import check_attributes, check_node, check_tensor, located, no_elements
from hilc.ops.views import ReshapeAttributes
from hilc.support.identifiers import NumberedNames

#: Limit of a model's constants together, in bytes, unread ones included.
MAX_CONSTANT_BYTES = 1 << 30


def declared_name(code: int) -> str:
    """Return what ONNX calls the type with this number, which a file need not keep to."""
    known = code in onnx.TensorProto.DataType.values()
    return onnx.TensorProto.DataType.Name(code).lower() if known else f"number {code}"


def dtype_name(code: int) -> str:
    """Return the name of ONNX's type with this number; raise for an unsupported type."""
    try:
        name = np.dtype(helper.tensor_dtype_to_np_dtype(code)).name
    except (KeyError, TypeError):
        name = ""
    if name not in DTYPES:
        raise UnsupportedError(
            f"the type {declared_name(code)} is not supported",
            f"supported: {', '.join(DTYPES)}",
        )
    return str(name)


def array_of(constant: onnx.TensorProto) -> Array:
    """Return the value of a constant; raise if its data do not fit its type and shape."""
    try:
        return np.asarray(numpy_helper.to_array(constant))
    except (LookupError, MemoryError, TypeError, ValueError) as error:
        raise ModelError(
            f"the constant {constant.name!r} of type {constant.data_type} and shape "
            f"{list(constant.dims)} is damaged: {' '.join(str(error).split()):.200}",
            "export the model again",
        ) from error


def _as_viewed(view: Array, data: Array, other: Array) -> Array:
    """Return the elements of ``other`` at the places of those of ``data`` that ``view`` shows."""
    first = view.__array_interface__["data"][0] - data.__array_interface__["data"][0]
    places = np.full(view.shape, first // data.itemsize)
    for axis, (count, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
        steps = np.arange(count) * (stride // data.itemsize)
        places = places + steps.reshape(-1, *(1,) * (view.ndim - 1 - axis))
    shown: Array = np.broadcast_to(other, data.shape).reshape(-1)[places]
    return shown


def _products(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> int:
    """Return the multiply-accumulates of a linear operator; 0 for others."""
    return outs[0].size * OPS[node.op].depth(node, ins)


class Builder:
    """Tensors and nodes in the order of execution."""

    def __init__(self, reserved: Sequence[str] = (), budget: NodeBudget | None = None) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        #: Position in the file of the node that is being translated.
        self.index = 0
        #: Names that are taken: those of the model's tensors, which the importer gives out itself.
        self._names = NumberedNames(reserved)
        #: The inputs of the model that a tensor depends on; without an entry, none.
        self._depends: dict[str, frozenset[str]] = {}
        #: The data of dequantized constants, by identity, and their integers.
        self._origins: dict[int, tuple[Array, Dequantized]] = {}
        #: The integers of dequantized constants and of views of them, by name.
        self.integers: dict[str, Dequantized] = {}
        #: Size of all constants together, in bytes.
        self._constant_bytes = 0
        #: Node budget of the whole model.
        self.budget = budget or NodeBudget()
        #: Positions of the nodes that compute a tensor, and the tensors that nodes name.
        self._makers: dict[str, int] = {}
        self._used: set[str] = set()
        #: Meaning of tensors whose type the intermediate representation does not have.
        self.kinds: dict[str, Stored] = {}
        #: Whether exact sums of integers are computed in integers.
        self.sums_integers = True
        #: Whether there are such sums with constant weights.
        self.has_integer_sums = False
        #: By the names of uint8 tensors, int8 that are 128 less, or such zero points as int32.
        self.signed: dict[str, Tensor] = {}
        #: Names that the model does not know.
        self._fresh: set[str] = set()
        #: Tensors whose last rows a loop may leave empty, depending on its number of turns.
        self.padded: set[str] = set()

    def fresh(self, base: str) -> str:
        """Return a name that no tensor has."""
        name = self._names.new(base)
        self._fresh.add(name)
        return name

    def input(self, tensor: Tensor) -> Tensor:
        """Add an input of the model."""
        check_tensor(tensor)
        self.tensors[tensor.name] = tensor
        self._names.take(tensor.name)
        self._depends[tensor.name] = frozenset((tensor.name,))
        return tensor

    def adopt(self, tensor: Tensor, outer: Builder) -> Tensor:
        """Return the counterpart of a tensor of the graph around this one: the same constant, or an
        input of this graph.
        """
        own = replace(tensor, name=self.fresh(tensor.name), data=tensor.data)
        self.tensors[own.name] = own
        self.named(own, outer.kind(tensor))
        if tensor.data is None:
            self._depends[own.name] = outer.depends_on(tensor)
            # Both sides of the call keep the quantization that the tensor has now.
            self._used.add(own.name)
        elif tensor.name in outer.integers:
            self._keep_origin(own, outer.integers[tensor.name])
        return own

    def kind(self, tensor: Tensor | None) -> Stored | None:
        """Return the meaning of a tensor's values; None if its type states it."""
        return None if tensor is None else self.kinds.get(tensor.name)

    def named(self, tensor: Tensor, kind: Stored | None) -> Tensor:
        """Return a tensor whose values mean elements of this type from here on."""
        if kind is not None:
            self.kinds[tensor.name] = kind
        return tensor

    def depend(self, tensor: Tensor, inputs: frozenset[str]) -> None:
        """Let a tensor depend on these inputs of the model, too."""
        self._depends[tensor.name] = self.depends_on(tensor) | inputs

    def depends_on(self, tensor: Tensor) -> frozenset[str]:
        """Return the inputs of the model that a tensor depends on."""
        return self._depends.get(tensor.name, frozenset())

    def constant(self, base: str, value: Array, quant: Quant | None = None) -> Tensor:
        """Add a constant under a fresh name."""
        return self.named_constant(self.fresh(base), value, quant)

    def named_constant(self, name: str, value: Array, quant: Quant | None = None) -> Tensor:
        """Add a constant under this name.

        Raise :class:`~hilc.errors.UnsupportedError` for an unsupported type,
        :class:`~hilc.errors.ModelError` if the constants exceed their limit.
        """
        kind = stored_as(value.dtype)
        value = packed(value)
        if value.dtype.name not in DTYPES:
            raise UnsupportedError(
                f"the constant {name!r} has type {value.dtype.name}, which is not supported",
                f"supported: {', '.join(DTYPES)}",
            )
        self._constant_bytes += value.nbytes
        if self._constant_bytes > MAX_CONSTANT_BYTES:
            raise ModelError(
                f"the constants of the model take more than {MAX_CONSTANT_BYTES} bytes",
                "shapes or repetitions in it are damaged: export it again",
            )
        data = np.array(value, order="C")
        data.flags.writeable = False
        origin = self._origin_of(value)
        if origin is not None:
            self.integers[name] = origin
        tensor = Tensor(name, data.shape, data.dtype.name, quant, data)
        check_tensor(tensor)
        self.tensors[name] = tensor
        self._names.take(name)
        return self.named(tensor, kind)

    def dequantized(self, base: str, value: Array, origin: Dequantized) -> Tensor:
        """Add a constant of floats that was made of integers.

        What is a view of its data keeps the integers: transposed weights, a slice of them.
        """
        tensor = self.constant(base, value)
        self._keep_origin(tensor, origin)
        return tensor

    def _origin_of(self, value: Array) -> Dequantized | None:
        """Return the integers that a view of a dequantized constant was made of."""
        found = self._origins.get(id(value)) or self._origins.get(id(value.base))
        if found is None:
            return None
        data, origin = found
        return Dequantized(
            *(
                _as_viewed(value, data, part)
                for part in (origin.values, origin.scales, origin.zero_points)
            )
        )

    def quantized(self, x: Tensor, quant: Quant) -> Tensor | None:
        """Return integers with the quantization ``quant`` from here on; None if they have another
        one or if nodes use them as integers.
        """
        known = self.tensors[x.name]
        if known.quant is not None:
            return known if known.quant == quant else None
        if x.name in self._used:
            return None
        self.tensors[x.name] = replace(known, quant=quant)
        return self.tensors[x.name]

    def _maker(self, x: Tensor) -> Node | None:
        """Return the node that computes a tensor; None for inputs and constants."""
        place = self._makers.get(x.name)
        return None if place is None else self.nodes[place]

    def is_a_number(self, x: Tensor) -> bool:
        """Return whether no element of a float tensor can be NaN: a conversion of integers, or a
        rearrangement of one.
        """
        if x.data is not None:
            return not np.isnan(x.data).any()
        maker = self._maker(x)
        if maker is None:
            return False
        sources = [self.tensors[name] for name in maker.inputs if name]
        if all(source.quant is not None for source in sources):
            return True
        floats = [source for source in sources if source.dtype == x.dtype]
        return OPS[maker.op].copies_elements and all(map(self.is_a_number, floats))

    def view(self, base: str, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Return a tensor with another shape of as many elements; 0 and 1 elements are accepted."""
        if x.data is not None:
            return self.constant(base, x.data.reshape(shape), x.quant)
        node = Node("RESHAPE", (x.name,), (self.fresh(base),), ReshapeAttributes(new_shape=shape))
        (output,) = self.add(node, [x], [x.quant])
        return output

    def transposed_back(self, x: Tensor, order: Sequence[int]) -> Tensor | None:
        """Return the tensor that ``x`` is the transpose of, where ``order`` undoes that."""
        maker = self._maker(x)
        axis_order = None if maker is None else OPS[maker.op].axis_order
        if maker is None or axis_order is None:
            return None
        ins = [self.tensors[name] for name in maker.inputs]
        first = axis_order(maker, ins)
        return ins[0] if [first[axis] for axis in order] == [*range(len(order))] else None

    def add(
        self, node: Node, ins: Sequence[Tensor | None], quants: Sequence[Quant | None]
    ) -> list[Tensor]:
        """Add a node, or its value where its inputs are constants; return its outputs.

        Raise :class:`~hilc.errors.UnsupportedError` for an operator that the compiler does not
        have.
        """
        self.budget.count_made()
        node = replace(node, index=self.index, numerics=Numerics.ONNX)
        op = OPS.get(node.op)
        if op is None:
            raise UnsupportedError(f"there is no operator {node.op} to translate it to")
        with located(node.op):
            check_attributes(node)
            signatures = op.infer(node, ins)
        outs = []
        for name, (shape, dtype), quant in zip(node.outputs, signatures, quants, strict=True):
            if 0 in shape:
                # What holds no element is known.
                outs.append(self.named_constant(name, no_elements(name, shape, dtype), quant))
            else:
                outs.append(Tensor(name, shape, dtype, quant))
        if all(out.is_constant for out in outs):
            return outs
        for out in outs:
            check_tensor(out)
        with located(node.op):
            op.check(node, ins, outs)
        if op.control is None and ins and all(t is None or t.is_constant for t in ins):
            return self._evaluated(node, ins, outs)
        inputs = frozenset[str]().union(*(self.depends_on(t) for t in ins if t is not None))
        for out in outs:
            self.tensors[out.name] = out
            self._depends[out.name] = inputs
        self._makers.update(dict.fromkeys(node.outputs, len(self.nodes)))
        self._used.update(node.inputs, node.outputs)
        self.nodes.append(node)
        return outs

    def _evaluated(
        self, node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]
    ) -> list[Tensor]:
        self.budget.count_products(_products(node, ins, outs))
        tensors = {t.name: t for t in (*ins, *outs) if t is not None}
        graph = Graph("constant", tensors, (node,), (), node.outputs)
        results = run_node(graph, node, [None if t is None else t.data for t in ins])
        made = [
            self.named_constant(out.name, value, out.quant)
            for out, value in zip(outs, results, strict=True)
        ]
        self._keep_integers(node, ins, made)
        return made

    def _keep_integers(
        self, node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]
    ) -> None:
        """Keep the integers of a dequantized constant whose elements a node moves, as a transpose
        of weights does.
        """
        moved = [t for t in ins if t is not None and t.name in self.integers]
        if len(moved) != 1 or not OPS[node.op].copies_elements:
            return
        (source,) = moved
        assert source.data is not None
        # The node moves the places of the elements as it moves the elements.
        places = replace(source, dtype="int32", data=None)
        sources = [places if t is source else t for t in ins]
        tensors = {t.name: t for t in sources if t is not None}
        tensors.update((out.name, replace(out, dtype="int32", data=None)) for out in outs)
        numbers = np.arange(source.size, dtype=np.int32).reshape(source.shape)
        graph = Graph("places", tensors, (node,), (), node.outputs)
        values = [None if t is None else (numbers if t is source else t.data) for t in ins]
        try:
            check_node(graph, node)
            found = run_node(graph, node, values)
        except HilError:  # it takes no integers, so its elements are no copies alone
            return
        origin = self.integers[source.name]
        for out, where in zip(outs, found, strict=True):
            assert out.data is not None
            if np.array_equal(source.data.reshape(-1)[where], out.data):
                parts = (origin.values, origin.scales, origin.zero_points)
                shown = (np.broadcast_to(part, source.shape).reshape(-1)[where] for part in parts)
                self._keep_origin(out, Dequantized(*shown))

    def _keep_origin(self, tensor: Tensor, origin: Dequantized) -> None:
        """Keep the integers of a constant, for views of it too."""
        assert tensor.data is not None
        self.integers[tensor.name] = origin
        self._origins[id(tensor.data)] = tensor.data, origin

    def _is_of_this_node(self, tensor: Tensor) -> bool:
        """Return whether the current node made a tensor; a node that undoes another's last step
        returns an intermediate tensor of that.
        """
        own = takewhile(lambda node: node.index == self.index, reversed(self.nodes))
        return any(tensor.name in node.outputs for node in own)

    def rename(self, tensor: Tensor, name: str) -> Tensor:
        """Give a tensor with a fresh name the one that the model has for it, and return it.

        Return the tensor as it is where it has a name of the model already: that of a tensor that
        a node only passes on.
        """
        if tensor.name not in self._fresh or name in self.tensors:
            return tensor
        if tensor.data is None and not self._is_of_this_node(tensor):
            return tensor
        renamed = replace(tensor, name=name, data=tensor.data)
        old = tensor.name
        del self.tensors[old]
        self.tensors[name] = renamed
        if old in self.integers:
            self.integers[name] = self.integers.pop(old)
        self._fresh.discard(old)
        self._depends[name] = self._depends.pop(old, frozenset())
        self.named(renamed, self.kinds.pop(old, None))
        if old in self.signed:
            self.signed[name] = self.signed.pop(old)
        if old in self.padded:
            self.padded.add(name)

        if old in self._makers:
            self._makers[name] = self._makers.pop(old)
        if old in self._used:
            self._used.remove(old)
            self._used.add(name)

        def new(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(name if other == old else other for other in names)

        # A fresh name is renamed by the node that it was made for, so the last nodes know it.
        for place in reversed(range(len(self.nodes))):
            node = self.nodes[place]
            if node.index != self.index:
                break
            self.nodes[place] = replace(node, inputs=new(node.inputs), outputs=new(node.outputs))
        return renamed

    def graph(self, name: str, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
        """Return the graph, verified later.

        Raise :class:`~hilc.errors.ModelError` for an output that no node computes.
        """
        missing = [output for output in outputs if output not in self.tensors]
        if missing:
            raise ModelError(f"no node computes the output {missing[0]!r}")
        return Graph(name, self.tensors, tuple(self.nodes), tuple(inputs), tuple(outputs))
