"""Dynamic-range ("hybrid") layers as TFLite's run time computes them: int8 weights, and floats that
are quantized by their range when the model runs.

A layer becomes operators on its parts: DYNAMIC_QUANTIZE, exact sums of integers, then the scales,
the bias and the activation in float32, in the order of TFLite's reference kernels. Fully connected
layers, products of matrices and layers with a state quantize each row by itself, a convolution each
image. TRANSPOSE_CONV has no such kernel: it is computed in floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import numpy as np

from hilc.errors import UnsupportedError
from hilc.ir import Array, Attributes, Graph, Node, Tensor
from hilc.ops import OPS
from hilc.ops.attributes import ActivationAttributes, ConvolutionAttributes, ReductionAttributes
from hilc.ops.batch_matmul import BatchMatmulAttributes
from hilc.ops.cast import CastAttributes
from hilc.ops.concat_split import ConcatenationAttributes, SplitAttributes, UnpackAttributes
from hilc.ops.control_flow import WhileAttributes
from hilc.ops.depthwise_conv2d import DepthwiseConv2DAttributes
from hilc.ops.dynamic import ConvIntegerAttributes, DynamicQuantizeAttributes
from hilc.ops.gather import GatherAttributes
from hilc.ops.lstm import LstmAttributes
from hilc.ops.svdf import SvdfAttributes
from hilc.ops.views import ReshapeAttributes

#: Operators that TFLite also computes of floats and int8 weights: the positions of the weights.
#: The positions of an LSTM are those of the file; TRANSPOSE_CONV is one that converters write.
WEIGHTS: Mapping[str, tuple[int, ...]] = {
    "CONV_2D": (1,),
    "DEPTHWISE_CONV_2D": (1,),
    "FULLY_CONNECTED": (1,),
    "TRANSPOSE_CONV": (1,),
    "BATCH_MATMUL": (1,),
    "SVDF": (1, 2),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": tuple(range(1, 9)),
}
#: Those whose input may get a zero point.
ASYMMETRIC = ("FULLY_CONNECTED", "BATCH_MATMUL", "SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM")
#: Those that have no kernel on integers.
FLOATS_ALONE = ("TRANSPOSE_CONV",)
_INPUT_OF = {"TRANSPOSE_CONV": 2}
_FLOAT_HINT = "compute dynamic-range layers in floats: dynamic=float"


def hybrid_weights(code: str, operands: Sequence[Tensor | None]) -> tuple[int, ...]:
    """Return the positions of a dynamic-range layer's quantized weights; none for other layers."""
    positions = WEIGHTS.get(code, ())
    x = next(iter(operands[_INPUT_OF.get(code, 0) :]), None)
    if x is None or not x.element.weights or x.element.quantized:
        return ()
    return tuple(
        position
        for position, weights in enumerate(operands)
        if position in positions
        and weights is not None
        and weights.element.needs_scale
        and weights.is_constant
        and weights.quant is not None
    )


@dataclass(frozen=True)
class HybridOperator:
    """A dynamic-range layer of a file: its operands, those that lack as None."""

    index: int
    code: str
    operands: Sequence[Tensor | None]
    out: Tensor
    attrs: Attributes
    #: Whether inputs get a zero point.
    asymmetric: bool
    #: The next values of the variables that the operator updates, in the order of its operands.
    updated: Sequence[Tensor] = ()

    def operand(self, position: int) -> Tensor:
        """Return an operand that the layer has."""
        found = self.operands[position]
        assert found is not None
        return found


@dataclass
class Parts:
    """Nodes that a layer consists of, with the tensors between them."""

    operator: HybridOperator
    #: Returns a name that no tensor has.
    fresh: Callable[[str], str]
    nodes: list[Node] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def emit(
        self, op: str, ins: Sequence[Tensor], attrs: Attributes | None = None, outputs: int = 1
    ) -> list[Tensor]:
        """Return the outputs of a new node."""
        names = [self.fresh(f"{self.operator.out.name}:{op.lower()}") for _ in range(outputs)]
        inputs = tuple(tensor.name for tensor in ins)
        node = Node(op, inputs, tuple(names), attrs or Attributes(), self.operator.index)
        made = [
            Tensor(name, shape, dtype)
            for name, (shape, dtype) in zip(names, OPS[op].infer(node, ins), strict=True)
        ]
        self.nodes.append(node)
        self.tensors.update((tensor.name, tensor) for tensor in made)
        return made

    def single(self, op: str, *ins: Tensor, attrs: Attributes | None = None) -> Tensor:
        """Return the output of a new node."""
        return self.emit(op, ins, attrs)[0]

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        """Return ``a + b``."""
        return self.single("ADD", a, b, attrs=ActivationAttributes())

    def multiply(self, a: Tensor, b: Tensor) -> Tensor:
        """Return ``a * b``."""
        return self.single("MUL", a, b, attrs=ActivationAttributes())

    def reshape(self, x: Tensor, shape: Iterable[int]) -> Tensor:
        """Return the elements in another shape."""
        return self.single("RESHAPE", x, attrs=ReshapeAttributes(new_shape=tuple(shape)))

    def constant(self, word: str, value: Array, base: str = "") -> Tensor:
        """Return a constant."""
        name = self.fresh(f"{base or self.operator.out.name}:{word}")
        value = np.ascontiguousarray(value).reshape(value.shape)
        value.flags.writeable = False
        self.tensors[name] = Tensor(name, value.shape, value.dtype.name, data=value)
        return self.tensors[name]

    def argument(self, tensor: Tensor) -> Tensor:
        """Return an input of a graph that is called, which is given this tensor."""
        name = self.fresh(tensor.name)
        self.tensors[name] = replace(tensor, name=name, data=None)
        return self.tensors[name]

    def quantize(self, x: Tensor, asymmetric: bool, leading: int) -> list[Tensor]:
        """Return int8, and the scale and the zero point of each row."""
        form: Literal["asymmetric", "symmetric"] = "asymmetric" if asymmetric else "symmetric"
        attrs = DynamicQuantizeAttributes(form=form, leading=leading)
        return self.emit("DYNAMIC_QUANTIZE", [x], attrs, 3)

    def scaled(self, sums: Tensor, scale: Tensor, shape: Iterable[int], scales: Array) -> Tensor:
        """Return sums times the product of both scales."""
        factor = self.multiply(self.reshape(scale, shape), self.constant("scale", scales))
        real = self.single("CAST", sums, attrs=CastAttributes(dtype="float32"))
        return self.multiply(real, factor)

    def product(self, x: Tensor, weights: Tensor, scales: Array) -> Tensor:
        """Return the product of rows, each quantized by itself, with the transposed weights."""
        q, scale, zero_point = self.quantize(x, self.operator.asymmetric, leading=-1)
        sums = self.single("MATMUL_INTEGER", q, zero_point, weights)
        rows = (-1, 1) if len(x.shape) == 2 else (*x.shape[:-1], 1)
        return self.scaled(sums, scale, rows, scales)

    def rename(self, made: Tensor, name: str) -> None:
        """Give the output of a node, which no node reads, another name."""
        for index, node in enumerate(self.nodes):
            if made.name in node.outputs:
                outputs = tuple(name if o == made.name else o for o in node.outputs)
                self.nodes[index] = replace(node, outputs=outputs)
        del self.tensors[made.name]

    def graph(self, word: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Graph:
        """Return the nodes as a graph to call."""
        return Graph(
            f"{self.operator.out.name}:{word}",
            self.tensors,
            tuple(self.nodes),
            tuple(tensor.name for tensor in inputs),
            tuple(tensor.name for tensor in outputs),
        )


def scales_of(weights: Tensor) -> Array:
    """Return the scales of weights."""
    assert weights.quant is not None
    return np.array(weights.quant.scale, np.float32)


def one_scale(weights: Tensor) -> np.float32:
    """Return the scale of weights that have one, as these kernels read them."""
    scales = scales_of(weights)
    if scales.size != 1:
        raise UnsupportedError(
            f"its weights {weights.name!r} have {scales.size} scales; TFLite on integers reads one",
            _FLOAT_HINT,
        )
    return np.float32(scales[0])


def require_symmetric(weights: Tensor) -> None:
    """Raise UnsupportedError for weights with a zero point."""
    assert weights.quant is not None
    if any(weights.quant.zero_point):
        raise UnsupportedError(
            f"its weights {weights.name!r} have a zero point other than 0", _FLOAT_HINT
        )


def layer_parts(operator: HybridOperator, fresh: Callable[[str], str]) -> Parts:
    """Return the nodes of a layer, whose weights stay integers."""
    quantized = hybrid_weights(operator.code, operator.operands)
    for position in WEIGHTS[operator.code]:
        weights = operator.operand(position)
        if position not in quantized:
            raise UnsupportedError(
                f"its weights {weights.name!r} of {weights.dtype} are no quantized constants, but "
                "others are",
                _FLOAT_HINT,
            )
        require_symmetric(weights)
    parts = Parts(operator, fresh)
    _LAYERS[operator.code](parts)
    return parts


def _fully_connected(p: Parts) -> None:
    x, weights = p.operator.operand(0), p.operator.operand(1)
    depth = weights.shape[1]
    if not x.shape or x.shape[-1] != depth:
        x = p.reshape(x, (-1, depth))
    _finish(p, p.product(x, _weights(p, _as_they_are), scales_of(weights)))


def _batch_matmul(p: Parts) -> None:
    """Emit a product for each matrix of the weights."""
    operator = p.operator
    x, weights = operator.operand(0), operator.operand(1)
    attrs, scale = cast(BatchMatmulAttributes, operator.attrs), np.array(one_scale(weights))
    assert weights.data is not None
    rows = weights.data if attrs.adj_y else weights.data.swapaxes(-1, -2)
    if attrs.adj_x:
        order = (*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2)
        x = p.single("TRANSPOSE", x, p.constant("order", np.array(order, np.int32)))
    matrices = rows.reshape(-1, *rows.shape[-2:])
    constants = [p.constant("int8", matrix, weights.name) for matrix in matrices]
    if len(constants) == 1:
        whole = p.product(x, constants[0], scale)
    else:
        batch = np.broadcast_shapes(x.shape[:-2], rows.shape[:-2])
        own = _matrices(p, x)
        first, second = (
            np.broadcast_to(np.arange(len(found)).reshape(shape[:-2]), batch).flat
            for found, shape in ((own, x.shape), (constants, rows.shape))
        )
        made = [p.product(own[a], constants[b], scale) for a, b in zip(first, second, strict=True)]
        whole = p.emit("CONCATENATION", made, ConcatenationAttributes(axis=0))[0]
    p.rename(p.reshape(whole, operator.out.shape), operator.out.name)


def _matrices(p: Parts, x: Tensor) -> list[Tensor]:
    """Return the matrices of a tensor one by one."""
    if len(x.shape) == 2:
        return [x]
    stack = p.reshape(x, (-1, *x.shape[-2:]))
    count = stack.shape[0]
    return p.emit("UNPACK", [stack], UnpackAttributes(axis=0, num=count), count)


def _convolution(p: Parts) -> None:
    operator = p.operator
    x, kernel = operator.operand(0), operator.operand(1)
    given, scales = cast(ConvolutionAttributes, operator.attrs), scales_of(kernel)
    names = ("stride_h", "stride_w", "dilation_h", "dilation_w", "padding")
    attrs = ConvIntegerAttributes(**{name: getattr(given, name) for name in names})
    by_channel = isinstance(given, DepthwiseConv2DAttributes)
    if by_channel and scales.size == 1 and operator.out.shape[-1] != 1:
        raise UnsupportedError(
            f"its weights {kernel.name!r} have one scale; TFLite on integers reads one for each "
            "channel",
            _FLOAT_HINT,
        )
    # With a scale for each channel TFLite takes another function.
    several = by_channel or scales.size > 1
    q, scale, zero_point = p.quantize(x, several, leading=1)
    weights = _weights(p, _channels_first if by_channel else _as_they_are)
    sums = p.single("CONV_INTEGER", q, zero_point, weights, attrs=attrs)
    images = (-1, 1, 1, 1)
    if by_channel or not several:
        _finish(p, p.scaled(sums, scale, images, scales))
        return
    real = p.single("CAST", sums, attrs=CastAttributes(dtype="float32"))
    by_weights = p.multiply(real, p.constant("scale", scales))
    _finish(p, p.multiply(by_weights, p.reshape(scale, images)))


def _finish(p: Parts, x: Tensor) -> None:
    """Add the bias, apply the activation, and give the result the layer's shape and name."""
    operator = p.operator
    activation = cast(ActivationAttributes, operator.attrs).activation
    attrs = ActivationAttributes(activation=activation)
    bias = operator.operands[2] if len(operator.operands) > 2 else None
    if bias is None:
        bias = p.constant("bias", np.zeros(1, np.float32))
    made = p.single("ADD", x, bias, attrs=attrs)
    if len(made.shape) != len(operator.out.shape):
        made = p.reshape(made, operator.out.shape)
    p.rename(made, operator.out.name)


def _weights(p: Parts, order: Callable[[Array], Array]) -> Tensor:
    weights = p.operator.operand(1)
    assert weights.data is not None
    return p.constant("int8", order(weights.data), weights.name)


def _as_they_are(weights: Array) -> Array:
    return weights


def _channels_first(weights: Array) -> Array:
    """Return depthwise filters ``[1, h, w, O]`` as groups of one channel, ``[O, h, w, 1]``."""
    return weights.transpose(3, 1, 2, 0)


def asymmetric_inputs(options: Any) -> bool:
    """Return whether a layer's options ask for zero points of its input."""
    return bool(options.AsymmetricQuantizeInputs())


# Layers with a state ----------------------------------------------------------------------------


def _svdf(p: Parts) -> None:
    """Emit an SVDF: its features are those of integers, its sums over moments of floats."""
    operator = p.operator
    x, features, moments = (operator.operand(position) for position in range(3))
    state, (after,) = operator.operand(4), operator.updated
    attrs = cast(SvdfAttributes, operator.attrs)
    filters, memory = moments.shape
    batch, units = x.shape[0], filters // attrs.rank
    newest = p.product(x, _weights(p, _as_they_are), np.array(one_scale(features)))
    kept = p.reshape(state, (batch, filters, memory))
    if memory > 1:
        begin, size = np.array((0, 0, 1)), np.array((batch, filters, memory - 1))
        ends = [p.constant("end", end.astype(np.int32)) for end in (begin, size)]
        parts = [p.single("SLICE", kept, *ends), p.reshape(newest, (batch, filters, 1))]
        kept = p.emit("CONCATENATION", parts, ConcatenationAttributes(axis=2))[0]
    else:
        kept = p.reshape(newest, (batch, filters, 1))
    assert moments.data is not None
    weights = moments.data.astype(np.float32) * one_scale(moments)
    weighted = p.multiply(kept, p.constant("float32", weights, moments.name))
    added = p.reshape(_summed(p, weighted), (batch, units, attrs.rank))
    total = added if attrs.rank == 1 else _summed(p, added)
    total, bias = p.reshape(total, (batch, units)), operator.operand(3)
    activation = ActivationAttributes(activation=attrs.activation)
    made = p.single("ADD", total, bias, attrs=activation)
    p.rename(made, operator.out.name)
    p.rename(p.reshape(kept, after.shape), after.name)


def _summed(p: Parts, x: Tensor) -> Tensor:
    axis = p.constant("axis", np.array([len(x.shape) - 1], np.int32))
    return p.single("SUM", x, axis, attrs=ReductionAttributes())


#: Positions of an LSTM's operands in the file.
_IN_WEIGHTS, _HIDDEN_WEIGHTS, _BIASES, _HIDDEN, _CELL = (
    range(1, 5),
    range(5, 9),
    range(12, 16),
    18,
    19,
)


def _lstm(p: Parts) -> None:
    """Emit an LSTM: what the input adds to the gates of all steps, and a loop over the steps."""
    operator = p.operator
    x, attrs = operator.operand(0), cast(LstmAttributes, operator.attrs)
    fed = p.product(x, *_gates(p, _IN_WEIGHTS))
    biases = [operator.operand(position).data for position in _BIASES]
    fed = p.add(fed, p.constant("bias", np.concatenate([b for b in biases if b is not None])))
    axis = 0 if attrs.time_major else 1
    zeros = np.zeros((), np.int32), np.zeros(operator.out.shape, np.float32)
    turn, rows = (p.constant(*pair) for pair in zip(("turn", "rows"), zeros, strict=True))
    carried = [turn, operator.operand(_HIDDEN), operator.operand(_CELL), rows]
    given = [*carried, fed]
    condition, body = Parts(operator, p.fresh), Parts(operator, p.fresh)
    asked, inner = ([scope.argument(t) for t in given] for scope in (condition, body))
    steps = condition.constant("steps", np.array(x.shape[axis], np.int32))
    attributes = WhileAttributes(
        condition=condition.graph("condition", asked, [condition.single("LESS", asked[0], steps)]),
        body=body.graph("body", inner, _step(body, inner, axis, attrs.cell_clip)),
    )
    _, hidden, cell, made = p.emit("WHILE", given, attributes, len(carried))
    names = (tensor.name for tensor in (*operator.updated, operator.out))
    for tensor, name in zip((hidden, cell, made), names, strict=True):
        p.rename(tensor, name)


def _gates(p: Parts, positions: Iterable[int]) -> tuple[Tensor, Array]:
    """Return the weights of all gates, and the scale of each of their units."""
    gates = [p.operator.operand(position) for position in positions]
    whole = np.concatenate([gate.data for gate in gates if gate.data is not None])
    scales = np.repeat([one_scale(gate) for gate in gates], gates[0].shape[0])
    return p.constant("int8", whole, gates[0].name), scales.astype(np.float32)


def _step(p: Parts, given: Sequence[Tensor], axis: int, clip: float) -> list[Tensor]:
    """Return the next values of the loop's variables: turn, states, and the output's rows."""
    turn, hidden, cell, rows, fed = given
    now = p.single("GATHER", fed, turn, attrs=GatherAttributes(axis=axis))
    total = p.add(now, p.product(hidden, *_gates(p, _HIDDEN_WEIGHTS)))
    last = p.constant("axis", np.array(1, np.int32))
    gates = p.emit("SPLIT", [last, total], SplitAttributes(num_splits=4), 4)
    entering, forget, leaving = (p.single("LOGISTIC", gates[i]) for i in (0, 1, 3))
    new = p.multiply(p.single("TANH", gates[2]), entering)
    cell = p.add(p.multiply(forget, cell), new)
    if clip > 0:
        for op, limit in (("MAXIMUM", -clip), ("MINIMUM", clip)):
            cell = p.single(op, cell, p.constant("clip", np.array(limit, np.float32)))
    hidden = p.multiply(leaving, p.single("TANH", cell))
    place = [p.constant("zero", np.zeros(1, np.int32)) for _ in range(3)]
    place[axis] = p.reshape(turn, (1,))
    start = p.emit("CONCATENATION", place, ConcatenationAttributes(axis=0))[0]
    shape = [*rows.shape]
    shape[axis] = 1
    rows = p.single("DYNAMIC_UPDATE_SLICE", rows, p.reshape(hidden, shape), start)
    one = p.constant("one", np.array(1, np.int32))
    return [p.add(turn, one), hidden, cell, rows]


_LAYERS: Mapping[str, Callable[[Parts], None]] = {
    "FULLY_CONNECTED": _fully_connected,
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _convolution,
    "BATCH_MATMUL": _batch_matmul,
    "SVDF": _svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
}
