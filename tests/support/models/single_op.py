"""Random single operators of every kind but the linear layers, corner cases included."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from nodes import make_node
from tflite_builder import file_of

from hilc.errors import ModelError
from hilc.frontends.tflite.schema import OPERATORS
from hilc.ir import (
    ELEMENT_TYPES,
    Array,
    Graph,
    Node,
    Numerics,
    Quant,
    Rounding,
    State,
    Tensor,
)
from hilc.ops import OPS, doubles, integers, real_functions
from hilc.ops.operands import ARITHMETIC
from hilc.ops.tree_ensemble import LAST, MORE

ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")
#: Types that operators which only move data take.
MOVABLE = ("int8", "uint8", "int16", "int32", "int64", "float32", "bool")

Random = np.random.Generator


@dataclass(frozen=True)
class SingleOp:
    """One operator with its tensors; ``values`` has an array for each input."""

    node: Node
    ins: tuple[Tensor, ...]
    outs: tuple[Tensor, ...]
    values: tuple[Array, ...]
    #: By the position of an output the input whose next value it is.
    states: Mapping[int, int] = field(default_factory=dict)
    #: Inputs that not every value suits, by their names.
    certain: frozenset[str] = frozenset()

    def reference(self) -> list[Array]:
        """What the operator's numpy reference computes."""
        return OPS[self.node.op].reference(self.node, self.ins, self.outs, self.values)

    def by(self, numerics: Numerics) -> SingleOp:
        """The same by this definition."""
        return replace(self, node=replace(self.node, numerics=numerics))

    def tflite(self) -> bytes:
        """The operator as a model."""
        return file_of(self.graph())

    def graph(self) -> Graph:
        """The operator as a graph, with its states."""
        tensors = {t.name: t for t in (*self.ins, *self.outs)}
        states = tuple(
            State(self.ins[own].name, self.outs[new].name) for new, own in self.states.items()
        )
        # An estimate of noise is an output, too, and so are rows that are kept.
        own_state = ("SIGNAL_FILTER_BANK_SPECTRAL_SUBTRACTION", "CIRCULAR_BUFFER")
        shown = set(self.node.outputs if self.node.op in own_state else ())
        kept = {name for state in states for name in (state.name, state.after)} - shown
        given = [t.name for t in self.ins if t.data is None and t.name not in kept]
        results = tuple(tensor.name for tensor in self.outs if tensor.name not in kept)
        inputs = tuple(dict.fromkeys(given))
        return Graph("operator", tensors, (self.node,), inputs, results, states)


@dataclass(frozen=True)
class Draft:
    """An operator before its outputs are inferred: inputs, the quantization of the outputs."""

    ins: Sequence[Tensor]
    quant: Quant | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    #: Values of inputs that not every value suits, by their names.
    values: Mapping[str, Array] = field(default_factory=dict)
    #: By the position of an output the input whose next value it is, quantized alike.
    states: Mapping[int, int] = field(default_factory=dict)
    rounding: Rounding = Rounding.DOUBLE


def finish(rng: Random, op: str, draft: Draft, values: Sequence[Array] | None = None) -> SingleOp:
    """The operator with outputs of the inferred shapes, and random values for its inputs."""
    names = tuple(f"y{i}" for i in range(draft.outputs))
    node = make_node(op, [t.name for t in draft.ins], names, **draft.attrs)
    node = replace(node, rounding=draft.rounding)
    signatures = OPS[op].infer(node, draft.ins)
    quants = [
        draft.ins[draft.states[i]].quant if i in draft.states else draft.quant
        for i in range(draft.outputs)
    ]
    outs = tuple(
        Tensor(name, shape, dtype, quant)
        for name, (shape, dtype), quant in zip(names, signatures, quants, strict=True)
    )
    OPS[op].check(node, draft.ins, outs)
    certain = frozenset(draft.values if values is None else (t.name for t in draft.ins))
    if values is None:
        by_name = {t.name: t.data if t.data is not None else content(rng, t) for t in draft.ins}
        values = [{**by_name, **draft.values}[t.name] for t in draft.ins]
    return SingleOp(node, tuple(draft.ins), outs, tuple(values), draft.states, certain)


def random_op(rng: Random, op: str, dtype: str) -> SingleOp:
    """A random instance of ``op`` on tensors of ``dtype``."""
    return finish(rng, op, {**_DRAFTS, **_ONNX_DRAFTS}[op](rng, dtype))


def float_slopes(rng: Random, op: str, dtype: str) -> SingleOp:
    """PRELU of integers with slopes of floats, of either sign: one for all or one a channel."""
    x = activation_tensor(rng, dtype, shape_of(rng, int(rng.integers(1, 5))))
    shape = pick(rng, (1,), x.shape[-1:])
    data = rng.standard_normal(shape).astype(np.float32)
    slopes = Tensor("slopes", shape, "float32", data=data)
    return finish(
        rng, op, Draft([x, slopes], quantized(rng, dtype), rounding=Rounding.NEAREST_EVEN)
    )


def merged(singles: Sequence[SingleOp]) -> tuple[Graph, dict[str, Array]]:
    """All operators side by side in one graph, and its inputs."""
    tensors: dict[str, Tensor] = {}
    nodes: list[Node] = []
    values: dict[str, Array] = {}
    outputs: list[str] = []
    for i, single in enumerate(singles):
        for tensor in (*single.ins, *single.outs):
            name = f"op{i}_{tensor.name}"
            tensors[name] = replace(tensor, name=name, data=tensor.data)
        for tensor, value in zip(single.ins, single.values, strict=True):
            if tensor.data is None:
                values[f"op{i}_{tensor.name}"] = value
        node = single.node
        nodes.append(
            replace(
                node,
                inputs=tuple(f"op{i}_{name}" for name in node.inputs),
                outputs=tuple(f"op{i}_{name}" for name in node.outputs),
                index=i,
            )
        )
        outputs += nodes[-1].outputs
    return Graph("operators", tensors, tuple(nodes), tuple(values), tuple(outputs)), values


# Building blocks --------------------------------------------------------------------------------


def content(rng: Random, tensor: Tensor) -> Array:
    """Random values; those of quantized tensors now and then all lie at one end of the range."""
    dtype = np.dtype(tensor.dtype)
    if dtype.kind == "f":
        return (rng.standard_normal(tensor.shape) * 4).astype(dtype)
    if dtype == np.bool_:
        return rng.integers(0, 2, tensor.shape).astype(np.bool_)
    info = np.iinfo(dtype)
    if rng.random() < 0.1:
        return np.full(tensor.shape, rng.choice(np.array([info.min, info.max], dtype)), dtype)
    return rng.integers(info.min, info.max, tensor.shape, dtype, endpoint=True)


def pick(rng: Random, *options: Any) -> Any:
    """One of ``options``."""
    return options[int(rng.integers(len(options)))]


def shape_of(rng: Random, rank: int, largest: int = 6) -> tuple[int, ...]:
    """A random shape; single elements along an axis are frequent."""
    return tuple(1 if rng.random() < 0.2 else int(n) for n in rng.integers(1, largest + 1, rank))


def scale_near(rng: Random, centre: float) -> float:
    """A scale as a file holds it, mostly near ``centre``, sometimes far away."""
    factor = np.exp(rng.normal(0, 0.7)) * pick(rng, 1, 1, 1, 1, 1, 0.01, 100)
    return float(np.float32(centre * factor))


def byte_quant(rng: Random, dtype: str = "int8", centre: float = 0.05) -> Quant:
    """A quantization with frequent extreme zero points."""
    info = np.iinfo(dtype)
    zero_point = pick(rng, info.min, info.max, 0, int(rng.integers(info.min, info.max + 1)))
    return Quant((scale_near(rng, centre),), (int(zero_point),))


def quantized(rng: Random, dtype: str, centre: float = 0.05) -> Quant | None:
    """A quantization for the types that have one; those of 16 bits have finer steps, from 0."""
    if dtype == "int16":
        return Quant((scale_near(rng, centre / 256),), (0,))
    return byte_quant(rng, dtype, centre) if dtype in ("int8", "uint8") else None


def no_finer(quant: Quant | None, least: float) -> Quant | None:
    """The quantization with a scale of at least this; what a finer one gives, nothing defines."""
    if quant is None:
        return None
    return replace(quant, scale=(float(np.float32(max(least, quant.scale[0]))),))


def scale_of(tensor: Tensor) -> float:
    """The scale of a tensor that has one."""
    assert tensor.quant is not None
    return tensor.quant.scale[0]


def activation_tensor(rng: Random, dtype: str, shape: Sequence[int], name: str = "x") -> Tensor:
    """A tensor that is computed at run time."""
    return Tensor(name, tuple(shape), dtype, quantized(rng, dtype))


def summed(dtype: str) -> Rounding:
    """How sums of products are rounded: those of 64 bits once."""
    return Rounding.SINGLE if dtype == "int16" else Rounding.DOUBLE


def index_tensor(values: Sequence[Any] | int, name: str) -> Tensor:
    """A constant operand of integers."""
    data = np.array(values, np.int32)
    return Tensor(name, data.shape, "int32", data=data)


# One draft an operator --------------------------------------------------------------------------


def _conv_3d(rng: Random, dtype: str) -> Draft:
    padding, filters = pick(rng, "SAME", "VALID"), [int(n) for n in rng.integers(1, 4, 3)]
    strides, dilations = ([int(n) for n in rng.integers(1, 3, 3)] for _ in range(2))
    sizes = [int(n) for n in rng.integers(1, 6, 3)]
    if padding == "VALID":
        spans = [(n - 1) * m + 1 for n, m in zip(filters, dilations, strict=True)]
        sizes = [max(n, m) for n, m in zip(sizes, spans, strict=True)]
    in_c, out_c = (int(n) for n in rng.integers(1, 6, 2))
    x = Tensor("x", (pick(rng, 1, 1, 2), *sizes, in_c), dtype)
    w = Tensor("w", (*filters, in_c, out_c), dtype)
    ins = [x, replace(w, data=content(rng, w))]
    if rng.random() < 0.7:
        bias = Tensor("b", (out_c,), dtype)
        ins.append(replace(bias, data=content(rng, bias)))
    attrs: dict[str, Any] = {"padding": padding, "activation": pick(rng, *ACTIVATIONS)}
    for side, stride, dilation in zip("dhw", strides, dilations, strict=True):
        attrs |= {f"stride_{side}": stride, f"dilation_{side}": dilation}
    return Draft(ins, attrs=attrs)


def _bucketize(rng: Random, dtype: str) -> Draft:
    x = Tensor("x", shape_of(rng, int(rng.integers(0, 5))), dtype)
    ends = np.sort(np.round(rng.standard_normal(int(rng.integers(1, 9))) * 8) / 2)
    values = (content(rng, Tensor("x", x.shape, "float32")) * 2).round() / 2
    attrs = {"boundaries": tuple(float(end) for end in ends)}
    return Draft([x], attrs=attrs, values={"x": np.asarray(values).astype(dtype)})


def _pool(rng: Random, dtype: str) -> Draft:
    filter_h, filter_w = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    padding = pick(rng, "SAME", "VALID")
    h, w = (int(n) for n in rng.integers(1, 9, 2))
    if padding == "VALID":
        h, w = max(h, filter_h), max(w, filter_w)
    x = activation_tensor(rng, dtype, (pick(rng, 1, 1, 2), h, w, int(rng.integers(1, 11))))
    attrs = {
        "filter_h": filter_h,
        "filter_w": filter_w,
        "stride_h": int(rng.integers(1, 4)),
        "stride_w": int(rng.integers(1, 4)),
        "padding": padding,
        "activation": pick(rng, *ACTIVATIONS),
    }
    return Draft([x], x.quant, attrs)


def _transpose_conv(rng: Random, dtype: str) -> Draft:
    """Weights and bias are constants; the output is as large as SAME or VALID lets it be."""
    batch, in_c, out_c = pick(rng, 1, 1, 2), int(rng.integers(1, 7)), int(rng.integers(1, 7))
    # Whole vectors are copied by another way.
    in_c = pick(rng, in_c, in_c, 16)
    filter_h, filter_w = (int(n) for n in rng.integers(1, 5, 2))
    strides, padding = [int(n) for n in rng.integers(1, 4, 2)], pick(rng, "SAME", "VALID")
    sizes, out_sizes = [int(n) for n in rng.integers(1, 6, 2)], []
    for size, taps, stride in zip(sizes, (filter_h, filter_w), strides, strict=True):
        least = (size - 1) * stride + (1 if padding == "SAME" else taps)
        out_sizes.append(least + int(rng.integers(stride)))
    image, out = (batch, *sizes, in_c), (batch, *out_sizes, out_c)
    attrs = {"stride_h": strides[0], "stride_w": strides[1], "padding": padding}
    return transpose_conv_draft(rng, dtype, image, (filter_h, filter_w), out, attrs)


def transpose_conv_draft(
    rng: Random,
    dtype: str,
    image: tuple[int, ...],
    filters: tuple[int, int],
    out: tuple[int, ...],
    attrs: dict[str, Any],
) -> Draft:
    """A transposed convolution from one image to another of these shapes."""
    (filter_h, filter_w), in_c, out_c = filters, image[3], out[3]
    x = activation_tensor(rng, dtype, image)
    w_shape = (out_c, filter_h, filter_w, in_c)
    shape = index_tensor([*out], "shape")
    bias = Tensor("b", (out_c,), next(iter(x.element.biases), "int32"))
    if x.quant is None:
        w = Tensor("w", w_shape, dtype, data=content(rng, Tensor("w", w_shape, dtype)))
        bias = replace(bias, data=content(rng, bias))
        quant = None
    else:
        scales = [scale_near(rng, 0.01) for _ in range(pick(rng, 1, out_c))]
        data = content(rng, Tensor("w", w_shape, "int8", Quant((1.0,), (0,))))
        w = Tensor("w", w_shape, "int8", Quant(tuple(scales), (0,) * len(scales)), data)
        data = rng.integers(-9999, 9999, out_c).astype(bias.dtype)
        scales = [float(np.float32(scale_of(x) * scale)) for scale in scales]
        bias = replace(bias, data=data, quant=Quant(tuple(scales), (0,) * len(scales)))
        spread = max(scales) * 100 * (filter_h * filter_w * in_c) ** 0.5
        # Six steps of a still smaller scale, the clamp of an activation, leave 32 bits.
        spread = max(5e-3, spread * (200 if dtype == "int16" else 1))
        quant = quantized(rng, dtype, spread)
    ins = [shape, w, x, bias] if rng.random() < 0.7 else [shape, w, x]
    attrs = {"activation": pick(rng, *ACTIVATIONS), **attrs}
    return Draft(ins, quant, attrs, rounding=summed(dtype))


def _batch_matmul(rng: Random, dtype: str) -> Draft:
    batch = shape_of(rng, int(rng.integers(0, 4)), 3)
    rows, depth, columns = (int(n) for n in rng.integers(1, pick(rng, 9, 40), 3))
    own, others = (
        tuple(1 if rng.random() < 0.3 else n for n in batch)[int(rng.integers(len(batch) + 1)) :]
        for _ in range(2)
    )
    adj_x, adj_y = (bool(n) for n in rng.integers(0, 2, 2))
    a_shape = (*own, depth, rows) if adj_x else (*own, rows, depth)
    b_shape = (*others, columns, depth) if adj_y else (*others, depth, columns)
    return batch_matmul_draft(rng, dtype, a_shape, b_shape, adj_x, adj_y, rng.random())


def batch_matmul_draft(
    rng: Random,
    dtype: str,
    a_shape: Sequence[int],
    b_shape: Sequence[int],
    adj_x: bool = False,
    adj_y: bool = False,
    constant: float = 1.0,
) -> Draft:
    """A product of matrices of these shapes; below 0.5 ``constant`` says which is a constant."""
    a = activation_tensor(rng, dtype, a_shape, "a")
    b = activation_tensor(rng, dtype, b_shape, "b")
    if constant < 0.3:
        b = replace(b, data=content(rng, b))
    elif constant < 0.5:
        a = replace(a, data=content(rng, a))
    attrs = {"adj_x": adj_x, "adj_y": adj_y}
    if a.quant is None:
        return Draft([a, b], None, attrs)
    steps = 100 if dtype == "int8" else 30000 * 256
    quant = quantized(rng, dtype, scale_of(a) * scale_of(b) * steps)
    return Draft([a, b], quant, attrs, rounding=summed(dtype))


def _resize(rng: Random, dtype: str) -> Draft:
    n, h, w, c = shape_of(rng, 4, 7)
    x = activation_tensor(rng, dtype, (n % 3 + 1, h, w, c))
    # Often by a whole factor.
    size = [pick(rng, 2 * n, 3 * n, int(rng.integers(1, 14))) for n in (h, w)]
    names = pick(rng, None, "align_corners", "half_pixel_centers")
    attrs = {name: name == names for name in ("align_corners", "half_pixel_centers")}
    return Draft([x, index_tensor(size, "size")], x.quant, attrs)


def _unary(rng: Random, dtype: str) -> Draft:
    x = activation_tensor(rng, dtype, shape_of(rng, int(rng.integers(1, 6))))
    return Draft([x], quantized(rng, dtype))


def _rescaled(rng: Random, dtype: str) -> Draft:
    """From 16 bits to a scale that is not too far away; the others to any."""
    draft = _unary(rng, dtype)
    if dtype == "int16":
        # Six steps of a still smaller scale leave 32 bits.
        near = Quant((scale_near(rng, scale_of(draft.ins[0])),), (0,))
        return Draft(draft.ins, no_finer(near, 1e-8))
    return draft


def _relu6(rng: Random, dtype: str) -> Draft:
    draft = _unary(rng, dtype)
    return Draft(draft.ins, draft.ins[0].quant if dtype == "int16" else draft.quant)


def _hard_swish(rng: Random, dtype: str) -> Draft:
    draft = _unary(rng, dtype)
    if dtype == "int8":
        in_scale = scale_of(draft.ins[0])
        out_scale = float(np.float32(in_scale * rng.uniform(0.01, 4)))
        return Draft(draft.ins, Quant((out_scale,), byte_quant(rng).zero_point))
    return draft


def _leaky_relu(rng: Random, dtype: str) -> Draft:
    draft = _rescaled(rng, dtype)
    alpha = float(np.float32(pick(rng, 0.0, 0.01, 0.3, 1.0, 2.5, rng.uniform(0, 1))))
    return Draft(draft.ins, draft.quant, {"alpha": alpha})


def _function(rng: Random, dtype: str) -> Draft:
    shape = shape_of(rng, int(rng.integers(0, 7)), 4)
    if dtype == "int16":
        own, quant = (Quant((scale_near(rng, 2.0**-12),), (0,)) for _ in range(2))
        # A magnitude in steps of the output stays within 31 bits.
        least = own.scale[0] / (1 << 13)
        return Draft([Tensor("x", shape, dtype, own)], no_finer(quant, least))
    return Draft([activation_tensor(rng, dtype, shape)], quantized(rng, dtype))


def _gelu(rng: Random, dtype: str) -> Draft:
    draft = _function(rng, dtype)
    (x,) = draft.ins
    approximate = bool(rng.integers(2))
    # The reference's approximation loses its digits below zero.
    values = {"x": content(rng, x).clip(-1)} if approximate and dtype == "float32" else {}
    return replace(draft, attrs={"approximate": approximate}, values=values)


def _exp(rng: Random, dtype: str) -> Draft:
    draft = _function(rng, dtype)
    if dtype == "float32":
        return draft
    (x,) = draft.ins
    if dtype == "int16":
        # Its largest result is a number, too.
        scale = min(scale_of(x), 0.0015)
        quant = Quant((scale_near(rng, float(np.exp(scale * 32767)) / 32767),), (0,))
        return Draft([replace(x, quant=Quant((scale,), (0,)))], quant)
    assert x.quant is not None
    zero_point, scale = x.quant.zero_point, min(scale_of(x), 0.1875)
    # The largest result is near the end of what the output holds.
    largest = np.exp(scale * (127 - zero_point[0]))
    x = replace(x, quant=Quant((scale,), zero_point))
    return Draft([x], byte_quant(rng, centre=float(largest) / 255))


def _from_zero(rng: Random, dtype: str) -> Draft:
    """A function that takes no numbers below zero."""
    draft = _function(rng, dtype)
    (x,) = draft.ins
    if dtype == "float32":
        return replace(draft, values={"x": np.abs(content(rng, x)) + np.float32(0.01)})
    assert x.quant is not None
    values = {"x": np.maximum(content(rng, x), np.array(x.quant.zero_point[0], dtype))}
    quant = replace(x.quant, scale=(scale_near(rng, 0.1 / scale_of(x) ** 0.5),))
    return replace(draft, quant=quant, values=values)


def _cast(rng: Random, dtype: str) -> Draft:
    target = pick(rng, *MOVABLE)
    x = activation_tensor(rng, dtype, shape_of(rng, int(rng.integers(0, 7)), 4))
    values = {"x": content(rng, x)}
    if dtype == "float32":
        # Beyond the ends of the narrower types; no type holds all of the wider ones.
        values["x"] *= np.float32(pick(rng, 1, 10, 1000, 1e5, 1e10))
    return Draft([x], quantized(rng, target), {"dtype": target}, values=values)


def _logistic(rng: Random, dtype: str) -> Draft:
    draft = _unary(rng, dtype)
    if dtype == "int8":
        zero_point = pick(rng, -128, -128, 0, 17)
        return Draft(draft.ins, Quant((1 / 256,), (zero_point,)))
    return _fraction(rng, draft) if dtype == "int16" else draft


def _fraction(rng: Random, draft: Draft) -> Draft:
    """From any scale to Q0.15; powers of two among them, which take another way."""
    (x,) = draft.ins
    scale = pick(rng, 2.0**-12, 2.0**-11, 2.0**-10, min(scale_of(x), 2.6))
    return Draft([replace(x, quant=Quant((scale,), (0,)))], Quant((2.0**-15,), (0,)))


def _tanh(rng: Random, dtype: str) -> Draft:
    draft = _unary(rng, dtype)
    if dtype == "int8":
        return Draft(draft.ins, pick(rng, Quant((1 / 128,), (0,)), draft.quant))
    return _fraction(rng, draft) if dtype == "int16" else draft


def _softmax(rng: Random, dtype: str) -> Draft:
    shape = (*shape_of(rng, int(rng.integers(0, 4)), 4), pick(rng, 1, 2, 3, 10, 40, 300))
    x = activation_tensor(rng, dtype, shape)
    attrs = {"beta": float(np.float32(pick(rng, 1.0, 1.0, 0.5, 2.0, 10.0)))}
    if dtype == "int16":
        # Differences of 16 bits times more than this leave 31 bits.
        x = replace(x, quant=Quant((min(scale_of(x), 2 / attrs["beta"]),), (0,)))
        return Draft([x], Quant((2.0**-15,), (0,)), attrs)
    return Draft([x], Quant((1 / 256,), (-128,)) if dtype == "int8" else None, attrs)


def _binary(rng: Random, dtype: str) -> Draft:
    shape = shape_of(rng, int(rng.integers(1, 7)), 5)
    a_shape, b_shape = shape, shape
    match int(rng.integers(5)):
        case 0:
            b_shape = (1,) * int(rng.integers(0, len(shape) + 1))
        case 1:
            b_shape = shape[int(rng.integers(len(shape))) :]
        case 2:
            a_shape = tuple(1 if rng.random() < 0.5 else n for n in shape)
            b_shape = tuple(1 if rng.random() < 0.5 else n for n in shape)
    if rng.random() < 0.3:
        a_shape, b_shape = b_shape, a_shape
    a = activation_tensor(rng, dtype, a_shape, "a")
    b = activation_tensor(rng, dtype, b_shape, "b")
    if rng.random() < 0.2:
        b = Tensor("b", b.shape, dtype, b.quant, content(rng, b))
    quant = quantized(rng, dtype, 0.1)
    if dtype == "int16":
        quant = Quant((scale_near(rng, 2 * max(scale_of(a), scale_of(b))),), (0,))
    activation = pick(rng, *ACTIVATIONS) if dtype in ARITHMETIC else "NONE"
    return Draft([a, b], quant, {"activation": activation})


def _difference(rng: Random, dtype: str) -> Draft:
    draft = _binary(rng, dtype)
    return _activated(rng, draft) if dtype == "int32" else draft


def _activated(rng: Random, draft: Draft) -> Draft:
    return replace(draft, attrs={"activation": pick(rng, *ACTIVATIONS)})


def _plain_binary(rng: Random, dtype: str) -> Draft:
    """An operator without an activation, broadcast to the 4 dimensions of the reference at most."""
    draft = _binary(rng, dtype)
    while len(set(t.shape for t in draft.ins)) > 1 and max(len(t.shape) for t in draft.ins) > 4:
        draft = _binary(rng, dtype)
    return replace(draft, attrs={})


def _same_scale(rng: Random, dtype: str) -> Draft:
    """A choice between elements of one quantization."""
    draft = _plain_binary(rng, dtype)
    quant = draft.ins[0].quant
    return replace(draft, ins=[replace(t, quant=quant) for t in draft.ins], quant=quant)


def _squared_difference(rng: Random, dtype: str) -> Draft:
    draft = _plain_binary(rng, dtype)
    if dtype not in ("int8", "int16"):
        return draft
    largest = max(map(scale_of, draft.ins))
    steps = rng.uniform(30, 300) if dtype == "int8" else rng.uniform(3e3, 3e4)
    out = quantized(rng, dtype)
    assert out is not None
    return replace(draft, quant=replace(out, scale=(float(np.float32(largest**2 * steps)),)))


def _division(rng: Random, dtype: str) -> Draft:
    draft = _plain_binary(rng, dtype)
    a, b = draft.ins
    divisors = content(rng, b) if b.data is None else b.data
    zero = b.quant.zero_point[0] if dtype == "int8" and b.quant else 0
    one = np.array(zero + 1 if zero < 127 else zero - 1, dtype)
    divisors = np.where(divisors == zero, one, divisors)
    if b.data is None:
        return replace(draft, values={b.name: divisors})
    return replace(draft, ins=[a, replace(b, data=divisors)])


def _floor(rng: Random, dtype: str) -> Draft:
    """A division of integers as they are: their zero is 0."""
    draft = _plain_binary(rng, dtype)
    a, b = draft.ins
    divisors = content(rng, b) if b.data is None else b.data
    divisors = np.where(divisors == 0, np.array(3, dtype), divisors)
    if b.data is None:
        return replace(draft, values={b.name: divisors})
    return replace(draft, ins=[a, replace(b, data=divisors)])


def _quotient(rng: Random, dtype: str) -> Draft:
    draft = _activated(rng, _division(rng, dtype))
    if dtype == "int8":
        a, b = draft.ins
        # The reference's shifts are defined from here on.
        scale = float(np.float32(scale_of(a) / scale_of(b) / rng.uniform(70, 400)))
        return replace(draft, quant=Quant((scale,), byte_quant(rng).zero_point))
    return draft


def _power(rng: Random, dtype: str) -> Draft:
    draft = _plain_binary(rng, dtype)
    a, b = (replace(t, data=None) for t in draft.ins)
    if dtype == "int32":
        values = {
            "a": rng.integers(-9, 10, a.shape, np.int32),
            "b": rng.integers(0, 8, b.shape, np.int32),
        }
    else:
        values = {"a": np.abs(content(rng, a)) + np.float32(0.1), "b": content(rng, b)}
    return replace(draft, ins=[a, b], values=values)


def _below_one(quant: Quant) -> Quant:
    return replace(quant, scale=(min(quant.scale[0], 0.5),))


def _comparison(rng: Random, dtype: str) -> Draft:
    draft = _plain_binary(rng, dtype)
    a, b = draft.ins
    if dtype == "int16":
        b = replace(b, quant=a.quant)
    if dtype == "int8":
        # The reference has scales below 1.
        a, b = (replace(t, quant=_below_one(byte_quant(rng, dtype, 0.001))) for t in (a, b))
    # Of few numbers, so that some are equal.
    values = {t.name: content(rng, t) for t in (a, b) if t.data is None}
    if rng.random() < 0.5 and dtype != "bool":
        values = {name: (value % 3).astype(dtype) for name, value in values.items()}
    return replace(draft, ins=[a, b], quant=None, values=values)


def _select(rng: Random, dtype: str) -> Draft:
    shape = shape_of(rng, int(rng.integers(0, 7)), 4)
    quant = quantized(rng, dtype)
    a, b = (Tensor(name, shape, dtype, quant) for name in "ab")
    condition = pick(rng, shape, shape, (), shape[:1] if len(shape) > 1 else shape)
    return Draft([Tensor("c", condition, "bool"), a, b], quant)


def _select_v2(rng: Random, dtype: str) -> Draft:
    shape = shape_of(rng, int(rng.integers(0, 7)), 4)
    quant = quantized(rng, dtype)

    def part() -> tuple[int, ...]:
        if len(shape) > 4 or rng.random() < 0.5:
            return shape
        return tuple(1 if rng.random() < 0.5 else n for n in shape[int(rng.integers(2)) :])

    a, b = (Tensor(name, part(), dtype, quant) for name in "ab")
    return Draft([Tensor("c", part(), "bool"), a, b], quant)


def _mul(rng: Random, dtype: str) -> Draft:
    draft = _difference(rng, dtype)
    if dtype == "int8":
        a, b = draft.ins
        centre = scale_of(a) * scale_of(b) * 100
        return Draft(draft.ins, quantized(rng, dtype, centre), draft.attrs)
    if dtype == "int16":
        a, b = draft.ins
        # Six steps of a still smaller scale, the clamp of an activation, leave 32 bits.
        scale = max(1e-8, scale_near(rng, scale_of(a) * scale_of(b) * 30000))
        quant = Quant((float(np.float32(scale)),), (0,))
        return Draft(draft.ins, quant, draft.attrs)
    return draft


def _mean(rng: Random, dtype: str) -> Draft:
    x = activation_tensor(rng, dtype, shape_of(rng, int(rng.integers(1, 6)), 7))
    rank = len(x.shape)
    if rank == 4 and rng.random() < 0.5:
        axes: Any = pick(rng, [1, 2], [2, 1], [-3, -2])
    elif rng.random() < 0.2:
        axes = int(rng.integers(-rank, rank))
    else:
        axes = [int(a) for a in rng.permutation(rank)[: int(rng.integers(1, rank + 1))]]
        if rng.random() < 0.2:
            axes.append(axes[0] - rank)
    attrs = {"keep_dims": bool(rng.integers(2))}
    quant = quantized(rng, dtype)
    if dtype == "int16":
        quant = Quant((scale_near(rng, scale_of(x)),), (0,))
    return Draft([x, index_tensor(axes, "axes")], quant, attrs)


def _sum(rng: Random, dtype: str) -> Draft:
    draft = _mean(rng, dtype)
    x = draft.ins[0]
    if x.quant is None:
        return draft
    # The sum of all elements, in steps of the output, stays within 31 bits.
    least = scale_of(x) * x.size / (1 << 28 - x.element.dl_bits)
    return replace(draft, quant=no_finer(draft.quant, least))


def _of_axes(rng: Random, dtype: str) -> Draft:
    draft = _mean(rng, dtype)
    return Draft(draft.ins, draft.ins[0].quant, draft.attrs)


def _product(rng: Random, dtype: str) -> Draft:
    draft = _of_axes(rng, dtype)
    if dtype == "float32":
        # Signs and powers of two, whose products are exact in every order.
        values = rng.choice([1.0, -1.0, 2.0, 0.5], draft.ins[0].shape).astype(np.float32)
        return replace(draft, values={"x": values})
    return draft


def _arg(rng: Random, dtype: str) -> Draft:
    x = activation_tensor(rng, dtype, shape_of(rng, int(rng.integers(1, 7)), 5))
    rank = len(x.shape)
    axis = index_tensor(int(rng.integers(-rank, rank)), "axis")
    # Many of a value.
    values = (rng.integers(-3, 3, x.shape) * 20).astype(dtype)
    return Draft([x, axis], attrs={"dtype": "int32"}, values={"x": values})


def _quantize(rng: Random, dtype: str) -> Draft:
    shape = shape_of(rng, int(rng.integers(1, 6)))
    targets = {
        "float32": ("int8", "uint8", "int16"),
        "int8": ("int8", "uint8", "int16", "int32"),
        "int16": ("int8", "int16", "int32"),
        "int32": ("int8", "int16"),
    }
    target = pick(rng, *targets.get(dtype, ("int8", "uint8")))
    if dtype in ("int16", "int32"):
        # Wide integers are symmetric, and cover with their steps what the other type's do.
        x = Tensor("x", shape, dtype, Quant((scale_near(rng, 2.0**-14),), (0,)))
        centre = {"int8": 2.0**-6, "int16": 2.0**-13, "int32": 2.0**-16}[target]
        if dtype == "int32":
            x = replace(x, quant=Quant((scale_near(rng, 2.0**-30),), (0,)))
            centre = max(centre, 2 * scale_of(x))
        zero_point = byte_quant(rng).zero_point if target == "int8" else (0,)
        # What is finer than this leaves 32 bits.
        scale = float(np.float32(max(scale_near(rng, centre), scale_of(x) * 2.0**-13)))
        return Draft([x], Quant((scale,), zero_point), {"dtype": target})
    x = activation_tensor(rng, dtype, shape)
    if dtype == "int8" and target in ("int16", "int32"):
        scale = float(np.float32(scale_of(x) * rng.uniform(1 / 200, 4)))
        return Draft([x], Quant((scale,), (0,)), {"dtype": target})
    if target == "int16":
        return Draft([x], Quant((scale_near(rng, 2.0**-12),), (0,)), {"dtype": target})
    return Draft([x], quantized(rng, target, 0.05), {"dtype": target})


def _dequantize(rng: Random, dtype: str) -> Draft:
    x = activation_tensor(rng, dtype, shape_of(rng, int(rng.integers(1, 6))))
    if dtype == "int16":
        x = replace(x, quant=Quant((scale_near(rng, 2.0**-12),), (0,)))
    return Draft([x])


def _reshape(rng: Random, dtype: str) -> Draft:
    x = activation_tensor(rng, dtype, shape_of(rng, int(rng.integers(1, 6))))
    shape = [int(n) for n in rng.permutation(x.shape)]
    if rng.random() < 0.5:
        shape[int(rng.integers(len(shape)))] = -1
    if rng.random() < 0.5:
        return Draft([x, index_tensor(shape, "shape")], x.quant)
    return Draft([x], x.quant, {"new_shape": tuple(shape)})


def _squeeze(rng: Random, dtype: str) -> Draft:
    shape = shape_of(rng, int(rng.integers(2, 6)))
    shape = tuple(1 if rng.random() < 0.5 else n for n in shape)
    x = activation_tensor(rng, dtype, shape)
    ones = [i - len(shape) * int(rng.integers(2)) for i, n in enumerate(shape) if n == 1]
    dims = tuple(ones[: int(rng.integers(len(ones) + 1))])
    return Draft([x], x.quant, {"squeeze_dims": dims})


def _expand_dims(rng: Random, dtype: str) -> Draft:
    x = activation_tensor(rng, dtype, shape_of(rng, int(rng.integers(1, 5))))
    axis = int(rng.integers(-len(x.shape) - 1, len(x.shape) + 1))
    return Draft([x, index_tensor(pick(rng, axis, [axis]), "axis")], x.quant)


def _transpose(rng: Random, dtype: str) -> Draft:
    x = activation_tensor(rng, dtype, shape_of(rng, int(rng.integers(1, 7)), 4))
    perm = [int(a) for a in rng.permutation(len(x.shape))]
    return Draft([x, index_tensor(perm, "perm")], x.quant)


def swapped_axes(rng: Random) -> SingleOp:
    """TRANSPOSE of images of bytes between channels first and channels last."""
    short, long = int(rng.integers(2, 20)), int(rng.integers(2, 80))
    first, second = pick(rng, (short, long), (long, short))
    x = activation_tensor(rng, "int8", (int(rng.integers(1, 4)), first, second))
    return finish(rng, "TRANSPOSE", Draft([x, index_tensor([0, 2, 1], "perm")], x.quant))


def resized_channels(rng: Random) -> SingleOp:
    """RESIZE_BILINEAR of int8 with many channels, often by a power of two."""
    h, w = (int(n) for n in rng.integers(1, 7, 2))
    channels = pick(rng, int(rng.integers(1, 40)), 4 * int(rng.integers(1, 9)))
    x = activation_tensor(rng, "int8", (int(rng.integers(1, 3)), h, w, channels))
    size = [pick(rng, n, 2 * n, 4 * n, 8 * n, int(rng.integers(1, 14))) for n in (h, w)]
    names = pick(rng, None, "align_corners", "half_pixel_centers")
    attrs = {name: name == names for name in ("align_corners", "half_pixel_centers")}
    quant = x.quant
    return finish(rng, "RESIZE_BILINEAR", Draft([x, index_tensor(size, "size")], quant, attrs))


def averaged_images(rng: Random) -> SingleOp:
    """MEAN and SUM of int8 images of many channels, and of more pixels than 16 bits sum up."""
    sides = [int(n) for n in rng.integers(1, 20, 2)]
    x = activation_tensor(rng, "int8", (int(rng.integers(1, 3)), *sides, int(rng.integers(1, 40))))
    op, axes = pick(rng, "MEAN", "SUM"), pick(rng, [1, 2], [1], [3], [2, 3])
    quant = quantized(rng, "int8")
    if op == "SUM":
        quant = no_finer(quant, scale_of(x) * x.size / (1 << 20))
    draft = Draft([x, index_tensor(axes, "axes")], quant, {"keep_dims": bool(rng.integers(2))})
    return finish(rng, op, draft)


def joined_rows(rng: Random, rows: int = 5, parts: int = 6, longest: int = 70) -> SingleOp:
    """CONCATENATION of up to so many rows of so many parts, of up to ``longest`` bytes each."""
    count = int(rng.integers(1, rows + 1))
    drawn = [
        Tensor(f"x{i}", (count, int(rng.integers(1, longest + 1))), "int8", Quant((1.0,), (0,)))
        for i in range(int(rng.integers(1, parts + 1)))
    ]
    return finish(rng, "CONCATENATION", Draft(drawn, drawn[0].quant, {"axis": 1}))


def _pad(rng: Random, dtype: str) -> Draft:
    x = activation_tensor(rng, dtype, shape_of(rng, int(rng.integers(1, 6)), 4))
    amounts = rng.integers(0, 4, (len(x.shape), 2)) * (rng.random((len(x.shape), 1)) < 0.5)
    return Draft([x, index_tensor(amounts.tolist(), "paddings")], x.quant)


def _pad_v2(rng: Random, dtype: str) -> Draft:
    draft = _pad(rng, dtype)
    x, amounts = draft.ins
    fill = Tensor("fill", pick(rng, (), (1,)), dtype, x.quant)
    return Draft([x, amounts, replace(fill, data=content(rng, fill))], x.quant)


def _mirror_pad(rng: Random, dtype: str) -> Draft:
    x = activation_tensor(rng, dtype, shape_of(rng, int(rng.integers(1, 7)), 4))
    mode = pick(rng, "REFLECT", "SYMMETRIC")
    amounts = [[int(n) for n in rng.integers(0, size + (mode != "REFLECT"), 2)] for size in x.shape]
    return Draft([x, index_tensor(amounts, "paddings")], x.quant, {"mode": mode})


def _slice(rng: Random, dtype: str) -> Draft:
    x = activation_tensor(rng, dtype, shape_of(rng, int(rng.integers(1, 6)), 4))
    begins = [int(rng.integers(size)) if rng.random() < 0.6 else 0 for size in x.shape]
    left = [size - begin for size, begin in zip(x.shape, begins, strict=True)]
    sizes = [pick(rng, -1, most, int(rng.integers(1, most + 1))) for most in left]
    return Draft([x, index_tensor(begins, "begin"), index_tensor(sizes, "size")], x.quant)


def _reverse(rng: Random, dtype: str) -> Draft:
    x = activation_tensor(rng, dtype, shape_of(rng, int(rng.integers(1, 7)), 4))
    rank = len(x.shape)
    # The references reverse axes that lie side by side.
    first = int(rng.integers(rank))
    axes = list(range(first, int(rng.integers(first + 1, rank + 1))))
    # Whatever scale its output has, the numbers are the same.
    return Draft([x, index_tensor(axes, "axes")], pick(rng, x.quant, quantized(rng, dtype)))


def _tile(rng: Random, dtype: str) -> Draft:
    x = activation_tensor(rng, dtype, shape_of(rng, int(rng.integers(1, 7)), 3))
    times = [pick(rng, 1, 1, 2, 3) for _ in x.shape]
    return Draft([x, index_tensor(times, "multiples")], x.quant)


def _space_to_depth(rng: Random, dtype: str) -> Draft:
    block = int(rng.integers(1, 4))
    n, h, w, c = shape_of(rng, 4, 3)
    x = activation_tensor(rng, dtype, (n, h * block, w * block, c))
    return Draft([x], x.quant, {"block_size": block})


def _depth_to_space(rng: Random, dtype: str) -> Draft:
    block = int(rng.integers(1, 4))
    n, h, w, c = shape_of(rng, 4, 3)
    x = activation_tensor(rng, dtype, (n, h, w, c * block * block))
    return Draft([x], x.quant, {"block_size": block})


def _space_to_batch(rng: Random, dtype: str) -> Draft:
    n, *sizes, c = shape_of(rng, int(rng.integers(3, 5)), 5)
    block = [int(size) for size in rng.integers(1, 4, len(sizes))]
    before = [int(count) for count in rng.integers(0, 3, len(sizes))]
    after = [-(size + pad) % by for size, pad, by in zip(sizes, before, block, strict=True)]
    x = activation_tensor(rng, dtype, (n, *sizes, c))
    if dtype == "int8":
        # TFLM pads with what it finds.
        x = replace(x, quant=Quant((scale_of(x),), (0,)))
    amounts = [list(pair) for pair in zip(before, after, strict=True)]
    return Draft([x, index_tensor(block, "block"), index_tensor(amounts, "pads")], x.quant)


def _batch_to_space(rng: Random, dtype: str) -> Draft:
    n, *sizes, c = shape_of(rng, int(rng.integers(3, 5)), 4)
    block = [int(size) for size in rng.integers(1, 4, len(sizes))]
    crops = []
    for size, by in zip(sizes, block, strict=True):
        before = int(rng.integers(min(3, size * by)))
        crops.append([before, int(rng.integers(min(3, size * by - before)))])
    x = activation_tensor(rng, dtype, (n * int(np.prod(block)), *sizes, c))
    return Draft([x, index_tensor(block, "block"), index_tensor(crops, "crops")], x.quant)


def _strided_slice(rng: Random, dtype: str) -> Draft:
    shape = shape_of(rng, int(rng.integers(1, 6)))
    x = activation_tensor(rng, dtype, shape)
    rank = len(shape)
    masks = {name: 0 for name in ("begin_mask", "end_mask", "shrink_axis_mask")}
    begin, end, strides = [], [], []
    for axis, size in enumerate(shape):
        step = pick(rng, 1, 1, 1, 2, 3, -1, -2)
        first = int(rng.integers(size))
        count = int(rng.integers(1, size + 1))
        last = first + count * step
        if rng.random() < 0.2:
            masks["shrink_axis_mask"] |= 1 << axis
            step = 1
        if rng.random() < 0.2:
            masks["begin_mask"] |= 1 << axis
            last = int(np.sign(step)) * 2 * size if not masks["shrink_axis_mask"] >> axis & 1 else 0
        if rng.random() < 0.2:
            masks["end_mask"] |= 1 << axis
        # Below -size, a negative end says "beyond the first element".
        last = -size - 1 if last < 0 else last
        begin.append(first - size * int(rng.integers(2)))
        end.append(last)
        strides.append(step)
    lists = (begin, end, strides)
    masks |= {"ellipsis_mask": 0, "new_axis_mask": 0}
    if rng.random() < 0.3:
        first = int(rng.integers(rank))
        _insert(lists, masks, first, int(rng.integers(1, rank - first + 1)))
        masks["ellipsis_mask"] = 1 << first
    for _ in range(pick(rng, 0, 0, 0, 1, 2)):
        if rank + masks["new_axis_mask"].bit_count() < 5:
            place = int(rng.integers(len(begin) + 1))
            _insert(lists, masks, place, 0)
            masks["new_axis_mask"] |= 1 << place
    ins = [x, *(index_tensor(v, n) for v, n in zip(lists, "bes", strict=True))]
    return Draft(ins, x.quant, masks)


def _insert(lists: Sequence[list[int]], masks: dict[str, int], place: int, replaced: int) -> None:
    """Put an entry of any value where ``replaced`` ones were, in the lists and the masks."""
    for values in lists:
        values[place : place + replaced] = [1]
    for name, mask in masks.items():
        masks[name] = mask & ((1 << place) - 1) | mask >> place + replaced << place + 1


def _parts(rng: Random, dtype: str, shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    quant = quantized(rng, dtype)
    return [Tensor(f"x{i}", shape, dtype, quant) for i, shape in enumerate(shapes)]


def _concatenation(rng: Random, dtype: str) -> Draft:
    shape = shape_of(rng, int(rng.integers(1, 6)), 4)
    axis = int(rng.integers(len(shape)))
    sizes = rng.integers(1, 5, int(rng.integers(1, 5)))
    parts = _parts(rng, dtype, [(*shape[:axis], int(size), *shape[axis + 1 :]) for size in sizes])
    if rng.random() < 0.3:
        parts[-1] = Tensor("c", parts[-1].shape, dtype, parts[-1].quant, content(rng, parts[-1]))
    attrs = {"axis": axis - len(shape) * int(rng.integers(2)), "activation": "NONE"}
    return Draft(parts, parts[0].quant, attrs)


def _pack(rng: Random, dtype: str) -> Draft:
    shape = shape_of(rng, int(rng.integers(1, 5)), 4)
    parts = _parts(rng, dtype, [shape] * int(rng.integers(1, 5)))
    axis = int(rng.integers(-len(shape) - 1, len(shape) + 1))
    return Draft(parts, parts[0].quant, {"axis": axis, "values_count": len(parts)})


def _indices(rng: Random, size: int, shape: Sequence[int], name: str) -> tuple[Tensor, Array]:
    """Indices of ``size`` elements, known or computed, and their values."""
    values = rng.integers(0, size, tuple(shape)).astype(np.int32)
    data = values if rng.random() < 0.4 else None
    return Tensor(name, values.shape, "int32", data=data), values


def _gather(rng: Random, dtype: str) -> Draft:
    rank = int(rng.integers(1, 6))
    shape = shape_of(rng, rank, 4)
    axis = int(rng.integers(rank))
    batch = int(rng.integers(axis + 1)) if rng.random() < 0.4 else 0
    more = shape_of(rng, int(rng.integers(0, 7 - rank)), 3)
    indices, values = _indices(rng, shape[axis], (*shape[:batch], *more), "i")
    x = activation_tensor(rng, dtype, shape)
    attrs = {"axis": axis - rank * int(rng.integers(2)), "batch_dims": batch}
    return Draft([x, indices], x.quant, attrs, values={"i": values})


def _embedding_lookup(rng: Random, dtype: str) -> Draft:
    shape = shape_of(rng, int(rng.integers(2, 6)), 5)
    indices, values = _indices(rng, shape[0], (int(rng.integers(1, 6)),), "i")
    x = activation_tensor(rng, dtype, shape)
    if rng.random() < 0.5:
        x = replace(x, data=content(rng, x))
        indices = replace(indices, data=None)
    return Draft([indices, x], x.quant, values={"i": values})


def _gather_nd(rng: Random, dtype: str) -> Draft:
    shape = shape_of(rng, int(rng.integers(1, 6)), 4)
    depth = int(rng.integers(1, min(len(shape), 5) + 1))
    count = shape_of(rng, int(rng.integers(0, 3)), 3)
    columns = [rng.integers(0, size, count) for size in shape[:depth]]
    values = np.stack(columns, -1).astype(np.int32)
    data = values if rng.random() < 0.4 else None
    indices = Tensor("i", values.shape, "int32", data=data)
    x = activation_tensor(rng, dtype, shape)
    return Draft([x, indices], x.quant, values={"i": values})


def _update_slice(rng: Random, dtype: str) -> Draft:
    shape = shape_of(rng, int(rng.integers(1, 6)), 5)
    x = activation_tensor(rng, dtype, shape)
    part = tuple(int(rng.integers(1, size + 1)) for size in shape)
    update = replace(x, name="u", shape=part)
    # Beyond both ends, too.
    values = rng.integers(-3, 7, len(shape)).astype(np.int32)
    data = values if rng.random() < 0.3 else None
    begins = Tensor("b", values.shape, "int32", data=data)
    return Draft([x, update, begins], x.quant, values={"b": values})


def _one_hot(rng: Random, dtype: str) -> Draft:
    shape = shape_of(rng, int(rng.integers(1, 5)), 4)
    depth = int(rng.integers(1, 6))
    kind = pick(rng, "int32", "int64")
    values = rng.integers(-2, depth + 2, shape).astype(kind)
    quant = quantized(rng, dtype)
    on, off = (Tensor(name, (), dtype, quant) for name in ("on", "off"))
    ins = [Tensor("i", shape, kind), index_tensor(depth, "depth")]
    ins += [replace(t, data=content(rng, t)) for t in (on, off)]
    attrs = {"axis": int(rng.integers(-1, len(shape) + 1))}
    # Whatever scale its output has, the numbers are the same.
    return Draft(ins, pick(rng, quant, quantized(rng, dtype)), attrs, values={"i": values})


def _unpack(rng: Random, dtype: str) -> Draft:
    shape = shape_of(rng, int(rng.integers(1, 7)), 4)
    x = activation_tensor(rng, dtype, shape)
    axis = int(rng.integers(-len(shape), len(shape)))
    return Draft([x], x.quant, {"axis": axis, "num": shape[axis]}, shape[axis])


def _split_v(rng: Random, dtype: str) -> Draft:
    sizes = [int(n) for n in rng.integers(1, 5, int(rng.integers(1, 5)))]
    shape = list(shape_of(rng, int(rng.integers(1, 7)), 4))
    axis = int(rng.integers(len(shape)))
    shape[axis] = sum(sizes)
    x = activation_tensor(rng, dtype, shape)
    axis -= len(shape) * int(rng.integers(2))
    ins = [x, index_tensor(sizes, "sizes"), index_tensor(axis, "axis")]
    return Draft(ins, x.quant, {"num_splits": len(sizes)}, len(sizes))


def _split(rng: Random, dtype: str) -> Draft:
    count = int(rng.integers(1, 5))
    shape = list(shape_of(rng, int(rng.integers(1, 5)), 4))
    axis = int(rng.integers(len(shape)))
    shape[axis] *= count
    x = activation_tensor(rng, dtype, shape)
    axis_tensor = index_tensor(axis - len(shape) * int(rng.integers(2)), "axis")
    return Draft([axis_tensor, x], x.quant, {"num_splits": count}, count)


def _constant(rng: Random, name: str, shape: Sequence[int], dtype: str, scale: float) -> Tensor:
    """Weights or a bias: no more than a converter would write."""
    if dtype == "float32":
        return Tensor(name, tuple(shape), dtype, data=content(rng, Tensor(name, (*shape,), dtype)))
    limit = 127 if dtype == "int8" else 3000
    data = rng.integers(-limit, limit + 1, shape).astype(dtype)
    return Tensor(name, tuple(shape), dtype, Quant((scale,), (0,)), data)


def _svdf(rng: Random, dtype: str) -> Draft:
    most = pick(rng, (3, 12, 6, 4, 9), (3, 40, 20, 4, 20))
    batch, depth, units, rank, memory = (int(n) for n in rng.integers(1, most))
    kept = pick(rng, "int16", "int8") if dtype == "int8" else dtype
    return svdf_draft(rng, dtype, kept, batch, depth, units, rank, memory)


def svdf_draft(
    rng: Random,
    dtype: str,
    kept: str,
    batch: int,
    depth: int,
    units: int,
    rank: int,
    memory: int,
) -> Draft:
    """An SVDF of these sizes, whose state is of the type ``kept``, with random weights."""
    in_scale, feature_scale, moment_scale, state_scale = (
        scale_near(rng, centre) for centre in (0.05, 0.02, 0.01, 0.005)
    )
    is_float = dtype == "float32"
    state_zero_point = int(rng.integers(-20, 21)) if kept == "int8" else 0
    ins = [
        Tensor("x", (batch, depth), dtype, None if is_float else byte_quant(rng, dtype, in_scale)),
        _constant(rng, "features", (units * rank, depth), dtype, feature_scale),
        _constant(rng, "moments", (units * rank, memory), kept, moment_scale),
        _constant(
            rng,
            "bias",
            (units,),
            dtype if is_float else "int32",
            float(np.float32(state_scale) * np.float32(moment_scale)),
        ),
        Tensor(
            "state",
            (batch, units * rank * memory),
            kept,
            None if is_float else Quant((state_scale,), (state_zero_point,)),
        ),
    ]
    activation = pick(rng, *(ACTIVATIONS if is_float else ("NONE", "RELU")))
    attrs = {"rank": rank, "activation": activation}
    return Draft(ins, None if is_float else byte_quant(rng, "int8", 0.1), attrs, 2, states={1: 4})


def _lstm(rng: Random, dtype: str) -> Draft:
    # Some of more than a vector, or two.
    most = pick(rng, (3, 4, 9, 9), (2, 3, 40, 40))
    batch, steps, depth, units = (int(n) for n in rng.integers(1, most))
    return lstm_draft(rng, dtype, batch, steps, depth, units)


def lstm_draft(rng: Random, dtype: str, batch: int, steps: int, depth: int, units: int) -> Draft:
    """An LSTM of these sizes, with random weights."""
    is_float, time_major = dtype == "float32", bool(rng.integers(2))
    x_quant = hidden_quant = cell_quant = None
    weights, bias, cell = dtype, dtype, dtype
    if not is_float:
        weights, bias, cell = "int8", "int32" if dtype == "int8" else "int64", "int16"
        unit = 0.03 if dtype == "int8" else 1e-3
        wide = Quant((scale_near(rng, unit),), (0,)), Quant((2.0**-15,), (0,))
        narrow = byte_quant(rng, "int8", unit), Quant((2.0**-7,), (int(rng.integers(-20, 21)),))
        x_quant, hidden_quant = narrow if dtype == "int8" else wide
        cell_quant = Quant((2.0 ** int(rng.integers(-15, -10)),), (0,))
    shapes = {"w": (units, depth), "r": (units, units), "b": (units,)}
    scales = {part: scale_near(rng, 0.01) for part in "wrb"}
    gates = [
        _constant(
            rng, f"{part}{gate}", shapes[part], bias if part == "b" else weights, scales[part]
        )
        for part in "wrb"
        for gate in "ifco"
    ]
    x_shape = (steps, batch, depth) if time_major else (batch, steps, depth)
    ins = [
        Tensor("x", x_shape, dtype, x_quant),
        *gates,
        Tensor("h", (batch, units), dtype, hidden_quant),
        Tensor("c", (batch, units), cell, cell_quant),
    ]
    attrs = {"time_major": time_major, "cell_clip": pick(rng, 0.0, 0.0, 1.5)}
    return Draft(ins, hidden_quant, attrs, 3, states={1: 13, 2: 14})


def _recurrent(gates: int, **choices: Sequence[Any]) -> Callable[[Random, str], Draft]:
    def draft(rng: Random, dtype: str) -> Draft:
        steps, batch, units = (int(n) for n in rng.integers(1, (5, 3, 20)))
        ins = [
            Tensor("x", (steps, batch, gates * units), dtype),
            _constant(rng, "r", (gates * units, units), dtype, 0.01),
            _constant(rng, "b", (gates * units,), dtype, 0.01),
            Tensor("h", (batch, units), dtype),
        ]
        attrs = {name: pick(rng, *values) for name, values in choices.items()}
        return Draft(ins, None, attrs, 2)

    return draft


def _trees(rng: Random, dtype: str) -> Draft:
    """Trees of a few levels over small whole numbers, so that features equal thresholds."""
    rows, features, targets = (int(n) for n in rng.integers(1, (5, 7, 4)))
    nodes: list[tuple[float, int, int]] = []

    def tree(depth: int) -> None:
        place = len(nodes)
        if depth == 0 or rng.random() < 0.2:
            count = int(rng.integers(1, targets + 1))
            for i in range(count):
                test = LAST if i + 1 == count else MORE
                nodes.append((float(rng.integers(-9, 10)) / 4, test, int(rng.integers(targets))))
            return
        nodes.append((float(rng.integers(-2, 3)), int(rng.integers(2 * features)), 0))
        tree(depth - 1)
        nodes[place] = (*nodes[place][:2], len(nodes) - place)
        tree(depth - 1)

    roots = []
    for _ in range(int(rng.integers(1, 6))):
        roots.append(len(nodes))
        tree(int(rng.integers(5)))
    x = Tensor("x", (rows, features), dtype)
    tables = zip(("values", "tests", "nexts"), ("float32", "int16", "int16"), strict=True)
    constants = [
        Tensor(name, (len(nodes),), kind, data=np.array([node[i] for node in nodes], kind))
        for i, (name, kind) in enumerate(tables)
    ]
    constants.append(Tensor("roots", (len(roots),), "int32", data=np.array(roots, np.int32)))
    corners = (-2, -1, -0.0, 0.0, 1, 2, np.inf, -np.inf, np.nan, -1e-45)
    values = {"x": rng.choice(np.array(corners, np.float32), x.shape)}
    return Draft([x, *constants], None, {"targets": targets}, values=values)


def _row(dtype: str, size: int, name: str = "x") -> Tensor:
    """A tensor of one dimension that is computed."""
    return Tensor(name, (size,), dtype)


def _table(rng: Random, size: int, name: str, low: int = -(1 << 15), high: int = 1 << 15) -> Tensor:
    """A constant of 16-bit numbers from ``low`` on, below ``high``."""
    return Tensor(name, (size,), "int16", data=rng.integers(low, high, size).astype(np.int16))


def _detection(rng: Random, dtype: str) -> Draft:
    """Boxes of which many overlap, and scores of which many are equal."""
    anchors, classes = int(rng.integers(1, 40)), int(rng.integers(1, 6))
    columns, encoded = classes + int(rng.integers(2)), int(pick(rng, 4, 4, 6))
    x = Tensor("x", (1, anchors, encoded), dtype)
    scores = Tensor("scores", (1, anchors, columns), dtype)
    places = rng.uniform(0.1, 1, (anchors, 4)).astype(np.float32)
    attrs = {
        "max_detections": int(rng.integers(1, 12)),
        "max_classes_per_detection": 1,
        "num_classes": classes,
        "nms_score_threshold": float(np.float32(pick(rng, 0.3, 0.6, 0.0, -9.0))),
        "nms_iou_threshold": float(np.float32(pick(rng, 0.5, 0.3, 1.0))),
        **{f"{side}_scale": float(pick(rng, 10, 5, 1)) for side in "yxhw"},
        "use_regular_nms": bool(rng.integers(2)),
        "detections_per_class": int(pick(rng, 100, 3, 1)),
    }
    # Fast, the references write several classes of several boxes beyond their outputs.
    if attrs["use_regular_nms"] or (anchors == 1 and attrs["max_detections"] > 1):
        attrs["max_classes_per_detection"] = int(rng.integers(1, 3))
    steps = rng.integers(0, pick(rng, 4, 256), scores.shape)
    boxes = content(rng, x)
    # The references stop at a box whose sides meet as float32: exp(-8) keeps them apart.
    boxes[..., 2:4] = np.maximum(boxes[..., 2:4], np.float32(-8))
    values = {"x": boxes, "scores": (steps / 256).astype(np.float32)}
    place = Tensor("anchors", places.shape, dtype, data=places)
    return Draft([x, scores, place], attrs=attrs, outputs=4, values=values)


def _signal_window(rng: Random, dtype: str) -> Draft:
    shape = (*shape_of(rng, int(rng.integers(0, 3)), 3), int(rng.integers(1, 40)))
    weights = _row("int16", shape[-1], "weights")
    if rng.random() < 0.7:
        weights = replace(weights, data=content(rng, weights))
    return Draft([Tensor("x", shape, dtype), weights], attrs={"shift": int(rng.integers(0, 20))})


def _signal_rfft(rng: Random, dtype: str) -> Draft:
    length = int(pick(rng, 4, 8, 16, 32, 64, 128, 256, 512))
    shape = (*shape_of(rng, int(rng.integers(0, 3)), 2), int(rng.integers(1, length + 1)))
    return Draft([Tensor("x", shape, dtype)], attrs={"fft_length": length})


def _signal_irfft(rng: Random, dtype: str) -> Draft:
    length = int(pick(rng, 4, 8, 16, 32, 64, 128, 256, 512))
    shape = (*shape_of(rng, int(rng.integers(0, 3)), 2), length + 2)
    return Draft([Tensor("x", shape, dtype)], attrs={"fft_length": length})


def _signal_auto_scale(rng: Random, dtype: str) -> Draft:
    x = _row(dtype, int(rng.integers(1, 40)))
    quiet = content(rng, x) >> np.int16(pick(rng, 0, 0, 1, 3, 9, 15))
    return Draft([x], outputs=2, values={"x": quiet})


def _signal_energy(rng: Random, dtype: str) -> Draft:
    pairs = int(rng.integers(1, 40))
    # The reference leaves what is not wanted as it finds it.
    return Draft([_row(dtype, 2 * pairs)], attrs={"start_index": 0, "end_index": pairs})


def _signal_filter_bank(rng: Random, dtype: str) -> Draft:
    channels, size = int(rng.integers(1, 8)), int(rng.integers(1, 40))
    widths = rng.integers(0, size + 1, channels + 1)
    frequencies = [int(rng.integers(0, size - n + 1)) for n in widths]
    begins = np.cumsum([0, *widths[:-1]])
    low = pick(rng, 0, 0, -(1 << 15))
    total = max(1, int(widths.sum()))
    tables = [_table(rng, total, name, low) for name in ("weights", "unweights")]
    lists = {"frequency": np.array(frequencies), "weight": begins, "width": widths}
    rows = [Tensor(n, v.shape, "int16", data=v.astype(np.int16)) for n, v in lists.items()]
    return Draft([_row(dtype, size), *tables, *rows], attrs={"num_channels": channels})


def _signal_square_root(rng: Random, dtype: str) -> Draft:
    x = _row(dtype, int(rng.integers(1, 40)))
    values = content(rng, x) >> rng.integers(0, 64, x.size).astype(np.uint64)
    shift = np.array(rng.integers(0, 20), np.int32)
    return Draft([x, Tensor("shift", (), "int32")], values={"x": values, "shift": shift})


def _signal_log(rng: Random, dtype: str) -> Draft:
    x = _row(dtype, int(rng.integers(1, 40)))
    values = content(rng, x) >> rng.integers(0, 32, x.size).astype(np.uint32)
    scale = int(pick(rng, 1600, 64, 1, 100000))
    attrs = {"input_correction_bits": int(rng.integers(0, 6)), "output_scale": scale}
    return Draft([x], attrs=attrs, values={"x": values})


def _signal_pcan(rng: Random, dtype: str) -> Draft:
    x = _row(dtype, int(rng.integers(1, 40)))
    levels = content(rng, x) >> rng.integers(0, 32, x.size).astype(np.uint32)
    table = _table(rng, 125, "gains", pick(rng, 0, -(1 << 13)), 1 << 13)
    attrs = {"snr_shift": int(rng.integers(0, 40))}
    return Draft([x, _row(dtype, x.size, "noise"), table], attrs=attrs, values={"noise": levels})


def _prelu(rng: Random, dtype: str) -> Draft:
    shape = shape_of(rng, int(rng.integers(1, 5)), 5)
    slopes = pick(rng, shape, shape[-1:], (1,) * len(shape), (1,))
    x, alpha = activation_tensor(rng, dtype, shape), activation_tensor(rng, dtype, slopes, "a")
    if rng.random() < 0.7:
        alpha = replace(alpha, data=content(rng, alpha))
    quant = quantized(rng, dtype)
    if quant is not None:
        # A product with a slope, in steps of the output, stays within 31 bits.
        quant = no_finer(quant, scale_of(x) * scale_of(alpha) / (1 << 13))
    return Draft([x, alpha], quant)


def _add_n(rng: Random, dtype: str) -> Draft:
    shape = shape_of(rng, int(rng.integers(0, 7)), 4)
    parts = _parts(rng, dtype, [shape] * int(rng.integers(2, 6)))
    return Draft(parts, quantized(rng, dtype, 0.1))


def _cumsum(rng: Random, dtype: str) -> Draft:
    x = activation_tensor(rng, dtype, shape_of(rng, int(rng.integers(1, 6)), 5))
    axis = index_tensor(int(rng.integers(-len(x.shape), len(x.shape))), "axis")
    attrs = {"exclusive": bool(rng.integers(2)), "reverse": bool(rng.integers(2))}
    return Draft([x, axis], quantized(rng, dtype, 0.2), attrs)


def _fill(rng: Random, dtype: str) -> Draft:
    x = activation_tensor(rng, dtype, ())
    return Draft([index_tensor(shape_of(rng, int(rng.integers(1, 6))), "dims"), x], x.quant)


def _broadcast_to(rng: Random, dtype: str) -> Draft:
    shape = shape_of(rng, int(rng.integers(1, 6)))
    own = tuple(1 if rng.random() < 0.5 else n for n in shape[int(rng.integers(2)) :])
    x = activation_tensor(rng, dtype, own)
    return Draft([x, index_tensor(shape, "shape")], x.quant)


def _log_softmax(rng: Random, dtype: str) -> Draft:
    draft = _softmax(rng, dtype)
    quant = Quant((16 / 256,), (127,)) if dtype == "int8" else None
    if dtype == "float32":
        # The largest is within a few of the others, so that its logarithm keeps its digits.
        values = {"x": content(rng, draft.ins[0]).clip(-2, 2)}
        return Draft(draft.ins, quant, values=values)
    return Draft(draft.ins, quant)


def _l2_normalization(rng: Random, dtype: str) -> Draft:
    draft = _softmax(rng, dtype)
    return Draft(draft.ins, Quant((1 / 128,), (0,)) if dtype == "int8" else None)


def _remembering(
    op: str, x: Tensor, attrs: Mapping[str, Any], outputs: int, values: Mapping[str, Array] = {}
) -> Draft:
    """A draft with what the operator remembers, named as the importer names it."""
    row = next(row for row in OPERATORS.values() if row.op == op)
    assert row.memory is not None
    memories = row.memory(make_node(op, [x.name], ["y0"], **attrs), [x])
    names = [f"y0:memory{number or ''}" for number in range(len(memories))]
    ins = [
        x,
        *(
            Tensor(name, memory.shape, memory.dtype, memory.quant)
            for name, memory in zip(names, memories, strict=True)
        ),
    ]
    states, total = {}, outputs
    for number, memory in enumerate(memories):
        states[total if memory.output is None else memory.output] = 1 + number
        total += memory.output is None
    return Draft(ins, attrs=attrs, outputs=total, values=values, states=states)


def _signal_delay(rng: Random, dtype: str) -> Draft:
    x = Tensor("x", (*shape_of(rng, int(rng.integers(0, 3)), 3), int(rng.integers(1, 20))), dtype)
    return _remembering("SIGNAL_DELAY", x, {"delay_length": int(rng.integers(1, 30))}, 1)


def _signal_framer(rng: Random, dtype: str) -> Draft:
    step, frames = int(rng.integers(1, 8)), int(rng.integers(1, 4))
    x = Tensor("x", (*shape_of(rng, int(rng.integers(0, 3)), 2), step * frames), dtype)
    # The reference leaves frames that are not valid as it finds them.
    attrs = {"frame_size": step + int(rng.integers(0, 12)), "frame_step": step, "prefill": True}
    missing = np.array([pick(rng, 0, 1, 3)], np.int32)
    return _remembering("SIGNAL_FRAMER", x, attrs, 2, {"y0:memory1": missing})


def _signal_overlap_add(rng: Random, dtype: str) -> Draft:
    size = int(rng.integers(1, 20))
    shape = (*shape_of(rng, int(rng.integers(0, 3)), 2), int(rng.integers(1, 4)), size)
    attrs = {"frame_step": int(rng.integers(1, size + 1))}
    return _remembering("SIGNAL_OVERLAP_ADD", Tensor("x", shape, dtype), attrs, 1)


def _circular_buffer(rng: Random, dtype: str) -> Draft:
    shape = (1, 1, int(rng.integers(1, 4)), int(rng.integers(1, 8)))
    x, slots = activation_tensor(rng, dtype, shape), int(rng.integers(1, 7))
    attrs = {"cycles_max": 0 if slots == 5 else 1, "slots": slots}
    return replace(_remembering("CIRCULAR_BUFFER", x, attrs, 1), quant=x.quant)


def _signal_stacker(rng: Random, dtype: str) -> Draft:
    left, channels = int(rng.integers(0, 4)), int(rng.integers(1, 6))
    # With rows to wait for, outputs that are not valid are as the reference finds them.
    attrs = {
        "num_channels": channels, "stacker_left_context": left, "stacker_right_context": 0,
        "stacker_step": 1,
    }  # fmt: skip
    waiting = np.array([pick(rng, -1, 0, 1, 2)], np.int32)
    x = _row(dtype, channels)
    return _remembering("SIGNAL_STACKER", x, attrs, 2, {"y0:memory1": waiting})


def _signal_subtraction(rng: Random, dtype: str) -> Draft:
    channels, bits = int(rng.integers(1, 10)), int(rng.integers(8, 16))
    smoothing, alternate = (int(n) for n in rng.integers(0, 1 << bits, 2))
    attrs = {
        "smoothing": smoothing,
        "one_minus_smoothing": (1 << bits) - smoothing,
        "alternate_smoothing": alternate,
        "alternate_one_minus_smoothing": (1 << bits) - alternate,
        "clamping": bool(rng.integers(2)),
        "min_signal_remaining": int(rng.integers(0, 1 << bits)),
        "num_channels": channels,
        "smoothing_bits": int(rng.integers(0, 12)),
        "spectral_subtraction_bits": bits,
    }
    x = _row(dtype, channels)
    return _remembering("SIGNAL_FILTER_BANK_SPECTRAL_SUBTRACTION", x, attrs, 2)


_DRAFTS: Mapping[str, Callable[[Random, str], Draft]] = {
    "TRANSPOSE_CONV": _transpose_conv,
    "BATCH_MATMUL": _batch_matmul,
    "CONV_3D": _conv_3d,
    "AVERAGE_POOL_2D": _pool,
    "MAX_POOL_2D": _pool,
    "L2_POOL_2D": _pool,
    "RESIZE_BILINEAR": _resize,
    "RESIZE_NEAREST_NEIGHBOR": _resize,
    "SOFTMAX": _softmax,
    "ADD": _binary,
    "SUB": _difference,
    "MUL": _mul,
    "MEAN": _mean,
    "SUM": _sum,
    "REDUCE_MAX": _of_axes,
    "REDUCE_MIN": _of_axes,
    "REDUCE_PROD": _product,
    "REDUCE_ANY": _of_axes,
    "REDUCE_ALL": _of_axes,
    "ARG_MAX": _arg,
    "ARG_MIN": _arg,
    "RELU": _rescaled,
    "RELU6": _relu6,
    "RELU_0_TO_1": _unary,
    "RELU_N1_TO_1": _unary,
    "LOGISTIC": _logistic,
    "TANH": _tanh,
    "HARD_SWISH": _hard_swish,
    "LEAKY_RELU": _leaky_relu,
    "ABS": _function,
    "BUCKETIZE": _bucketize,
    "CAST": _cast,
    "CEIL": _function,
    "COS": _function,
    "ELU": _function,
    "EXP": _exp,
    "FLOOR": _function,
    "GELU": _gelu,
    "LOG": _from_zero,
    "LOGICAL_NOT": _function,
    "NEG": _function,
    "ROUND": _function,
    "RSQRT": _from_zero,
    "SIGN": _function,
    "SIN": _function,
    "SQRT": _from_zero,
    "SQUARE": _function,
    "ZEROS_LIKE": _function,
    "DIV": _quotient,
    "FLOOR_DIV": _floor,
    "FLOOR_MOD": _floor,
    "MAXIMUM": _same_scale,
    "MINIMUM": _same_scale,
    "POW": _power,
    "SQUARED_DIFFERENCE": _squared_difference,
    "LOGICAL_AND": _plain_binary,
    "LOGICAL_OR": _plain_binary,
    "EQUAL": _comparison,
    "GREATER": _comparison,
    "GREATER_EQUAL": _comparison,
    "LESS": _comparison,
    "LESS_EQUAL": _comparison,
    "NOT_EQUAL": _comparison,
    "SELECT": _select,
    "SELECT_V2": _select_v2,
    "ADD_N": _add_n,
    "BROADCAST_TO": _broadcast_to,
    "CUMSUM": _cumsum,
    "FILL": _fill,
    "L2_NORMALIZATION": _l2_normalization,
    "LOG_SOFTMAX": _log_softmax,
    "PRELU": _prelu,
    "QUANTIZE": _quantize,
    "DEQUANTIZE": _dequantize,
    "RESHAPE": _reshape,
    "SQUEEZE": _squeeze,
    "EXPAND_DIMS": _expand_dims,
    "PAD": _pad,
    "PADV2": _pad_v2,
    "MIRROR_PAD": _mirror_pad,
    "TRANSPOSE": _transpose,
    "STRIDED_SLICE": _strided_slice,
    "SLICE": _slice,
    "REVERSE_V2": _reverse,
    "TILE": _tile,
    "SPACE_TO_DEPTH": _space_to_depth,
    "DEPTH_TO_SPACE": _depth_to_space,
    "SPACE_TO_BATCH_ND": _space_to_batch,
    "BATCH_TO_SPACE_ND": _batch_to_space,
    "GATHER": _gather,
    "GATHER_ND": _gather_nd,
    "EMBEDDING_LOOKUP": _embedding_lookup,
    "DYNAMIC_UPDATE_SLICE": _update_slice,
    "ONE_HOT": _one_hot,
    "CONCATENATION": _concatenation,
    "PACK": _pack,
    "UNPACK": _unpack,
    "SPLIT": _split,
    "SVDF": _svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
    "GRU": _recurrent(3, linear_before_reset=(False, True)),
    "RNN": _recurrent(1, activation=("TANH", "RELU", "LOGISTIC")),
    "TREE_ENSEMBLE": _trees,
    "SPLIT_V": _split_v,
    "DETECTION_POSTPROCESS": _detection,
    "CIRCULAR_BUFFER": _circular_buffer,
    "SIGNAL_WINDOW": _signal_window,
    "SIGNAL_RFFT": _signal_rfft,
    "SIGNAL_IRFFT": _signal_irfft,
    "SIGNAL_FFT_AUTO_SCALE": _signal_auto_scale,
    "SIGNAL_ENERGY": _signal_energy,
    "SIGNAL_FILTER_BANK": _signal_filter_bank,
    "SIGNAL_FILTER_BANK_SQUARE_ROOT": _signal_square_root,
    "SIGNAL_FILTER_BANK_LOG": _signal_log,
    "SIGNAL_PCAN": _signal_pcan,
    "SIGNAL_FILTER_BANK_SPECTRAL_SUBTRACTION": _signal_subtraction,
    "SIGNAL_FRAMER": _signal_framer,
    "SIGNAL_OVERLAP_ADD": _signal_overlap_add,
    "SIGNAL_DELAY": _signal_delay,
    "SIGNAL_STACKER": _signal_stacker,
}

#: Those that only ONNX models have: no file of TensorFlow Lite holds them.
_IN_TFLITE = frozenset(row.op or code for code, row in OPERATORS.items())
ONNX_ALONE = tuple(op for op in _DRAFTS if op not in _IN_TFLITE)

#: Those that update states.
STATEFUL = (
    "CIRCULAR_BUFFER",
    "SVDF",
    "UNIDIRECTIONAL_SEQUENCE_LSTM",
    "SIGNAL_FILTER_BANK_SPECTRAL_SUBTRACTION",
    "SIGNAL_FRAMER",
    "SIGNAL_OVERLAP_ADD",
    "SIGNAL_DELAY",
    "SIGNAL_STACKER",
)

#: Custom operators of the signal library, with the types that they work on.
SIGNAL_DTYPES: Mapping[str, tuple[str, ...]] = {
    "SIGNAL_WINDOW": ("int16",),
    "SIGNAL_RFFT": ("int16", "int32", "float32"),
    "SIGNAL_IRFFT": ("int16", "int32", "float32"),
    "SIGNAL_FFT_AUTO_SCALE": ("int16",),
    "SIGNAL_ENERGY": ("int16",),
    "SIGNAL_FILTER_BANK": ("uint32",),
    "SIGNAL_FILTER_BANK_SQUARE_ROOT": ("uint64",),
    "SIGNAL_FILTER_BANK_LOG": ("uint32",),
    "SIGNAL_PCAN": ("uint32",),
    "SIGNAL_FILTER_BANK_SPECTRAL_SUBTRACTION": ("uint32",),
    "SIGNAL_FRAMER": ("int16",),
    "SIGNAL_OVERLAP_ADD": ("int16", "float32"),
    "SIGNAL_DELAY": ("int16",),
    "SIGNAL_STACKER": ("int16",),
}

#: Types of drafts that other types than an operator's operands say: those of constant operands, or
#: types that only few operators have.
_STATED_DTYPES: Mapping[str, Sequence[str]] = {**SIGNAL_DTYPES, "ONE_HOT": MOVABLE}
#: Drafts that are tried for a type: some of them have other types in their operands.
_DRAFTS_TRIED = 2


def _accepted_dtypes(op: str) -> list[str]:
    """The types of operands that the operator's own ``infer`` and ``check`` accept."""
    return [dtype for dtype in MOVABLE if _accepts(op, dtype)]


def _accepts(op: str, dtype: str) -> bool:
    for seed in range(_DRAFTS_TRIED):
        rng = np.random.default_rng(seed)
        try:
            made = finish(rng, op, _DRAFTS[op](rng, dtype))
        except (AssertionError, KeyError, ModelError, TypeError, ValueError):
            continue
        if any(t.dtype == dtype and t.data is None for t in made.ins):
            return True
    return False


#: Every operator here, with the types that it works on.
KINDS: Sequence[tuple[str, str]] = [
    (op, dtype) for op in _DRAFTS for dtype in _STATED_DTYPES.get(op) or _accepted_dtypes(op)
]

# Operators of ONNX alone, on numbers that stand for themselves ---------------------------------


def _integers(rng: Random, dtype: str) -> Draft:
    """Two operands; now and then the second has small numbers, as exponents and shifts are."""
    draft = _plain_binary(rng, dtype)
    a, b = (replace(t, quant=None) for t in draft.ins)
    values = {}
    if b.data is None and rng.random() < 0.6:
        values["b"] = rng.integers(0 if dtype.startswith("u") else -3, 9, b.shape).astype(dtype)
    return Draft([a, b], values=values)


def _reals(rng: Random, dtype: str) -> Draft:
    """One operand; now and then with what is no number, infinite, or zero of either sign."""
    x = Tensor("x", shape_of(rng, int(rng.integers(0, 7)), 4), dtype)
    values = content(rng, x)
    if rng.random() < 0.5:
        odd = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0], x.shape)
        with np.errstate(invalid="ignore"):  # of what is no number, in integers
            values = np.where(rng.random(x.shape) < 0.5, odd, values).astype(dtype)
    return Draft([x], values={"x": np.asarray(values)})


def _of_two_doubles(rng: Random, dtype: str) -> Draft:
    return replace(_plain_binary(rng, dtype), quant=None)


def _compared_doubles(rng: Random, dtype: str) -> Draft:
    return _comparison(rng, dtype)


def _reduced_doubles(rng: Random, dtype: str) -> Draft:
    return replace(_of_axes(rng, dtype), quant=None)


def _double_cast(rng: Random, dtype: str) -> Draft:
    target = pick(rng, *MOVABLE) if dtype == "float64" else "float64"
    x = Tensor("x", shape_of(rng, int(rng.integers(0, 7)), 4), dtype)
    return Draft([x], attrs={"dtype": target})


def _lookup(rng: Random, dtype: str) -> Draft:
    """A table of a smooth function, of one with a jump, or of any numbers."""
    element = ELEMENT_TYPES[dtype]
    # Other types are refused, whatever their tables are.
    low, high = element.bounds if element.dl_bits <= 16 and not element.is_real else (-2, 1)
    place = np.linspace(-6, 6, high - low + 1)
    jump = rng.random() < 0.3
    smooth = np.tanh(place * rng.uniform(0.1, 3)) * high * (np.sign(place) if jump else 1)
    drawn = rng.integers(low, high + 1, place.size)
    values = drawn if rng.random() < 0.2 else np.maximum(np.rint(smooth), low)
    table = Tensor("table", values.shape, dtype, data=values.astype(dtype))
    x = activation_tensor(rng, dtype, shape_of(rng, int(rng.integers(1, 5))))
    return Draft([x, table], quantized(rng, dtype))


def _group_norm(rng: Random, dtype: str) -> Draft:
    groups = int(rng.integers(1, 4))
    channels = groups * int(rng.integers(1, 4))
    x = activation_tensor(rng, dtype, (pick(rng, 1, 2), channels, *shape_of(rng, pick(rng, 0, 2))))
    count = pick(rng, channels, groups)
    factors, addends = (
        Tensor(name, (count,), "float32", data=rng.standard_normal(count).astype(np.float32))
        for name in ("factors", "addends")
    )
    attrs = {"groups": groups, "epsilon": pick(rng, 1e-5, 0.1)}
    return Draft([x, factors, addends], quantized(rng, dtype), attrs)


def _dynamic_quantize(rng: Random, dtype: str) -> Draft:
    """Rows of any range: far from zero, of zeros alone, now and then with what is no number."""
    rows, depth = int(rng.integers(1, 4)), shape_of(rng, int(rng.integers(1, 3)), 40)
    x = Tensor("x", (rows, *depth), dtype)
    values = content(rng, Tensor("x", x.shape, "float32"))
    values = values * pick(rng, 1, 1e-3, 1e4) + pick(rng, 0, 0, 3, -3)
    if rng.random() < 0.1:
        values *= 0
    if rng.random() < 0.1:
        values = np.where(rng.random(x.shape) < 0.2, rng.choice([np.nan, np.inf, -np.inf]), values)
    attrs = {"form": pick(rng, "onnx", "asymmetric", "symmetric"), "leading": pick(rng, 0, 1, -1)}
    with np.errstate(over="ignore", invalid="ignore"):  # of types that it does not take
        values = values.astype(dtype)
    return Draft([x], attrs=attrs, outputs=3, values={"x": values})


def _integer_weights(rng: Random, shape: Sequence[int]) -> Tensor:
    """int8, with -128 now and then, which pairs of columns cannot have; or int16 of 9 bits."""
    dtype, end = pick(rng, ("int8", 127), ("int8", 127), ("int8", 128), ("int16", 255))
    data = rng.integers(-end, min(end, 127) + 1 if dtype == "int8" else 256, shape)
    return Tensor("w", tuple(shape), dtype, data=data.astype(dtype))


def _zero_points(rng: Random, count: int) -> tuple[Tensor, Array]:
    count = pick(rng, 1, count)
    return Tensor("zero", (count,), "int32"), rng.integers(-128, 128, count).astype(np.int32)


def _matmul_integer(rng: Random, dtype: str) -> Draft:
    depth, columns = pick(rng, 1, 3, 16, 40, 640), int(rng.integers(1, 11))
    x = Tensor("x", (*shape_of(rng, int(rng.integers(0, 3)), 4), depth), dtype)
    zero, values = _zero_points(rng, x.size // depth)
    return Draft([x, zero, _integer_weights(rng, (columns, depth))], values={"zero": values})


def _conv_integer(rng: Random, dtype: str) -> Draft:
    groups = pick(rng, 1, 1, 2, 3)
    depth = 1 if groups == 3 and rng.random() < 0.7 else int(rng.integers(1, 9))
    filters = (groups * int(rng.integers(1, 7)), *(int(n) for n in rng.integers(1, 4, 2)), depth)
    sizes = (int(n) for n in rng.integers(3, 8, 2))
    x = Tensor("x", (pick(rng, 1, 1, 2), *sizes, depth * groups), dtype)
    zero, values = _zero_points(rng, x.shape[0])
    attrs = {
        "stride_h": pick(rng, 1, 2),
        "stride_w": pick(rng, 1, 2),
        "dilation_h": pick(rng, 1, 1, 2) if filters[1] < 3 else 1,
        "padding": pick(rng, "SAME", "VALID", (0, 1, 2, 0)),
    }
    return Draft([x, zero, _integer_weights(rng, filters)], attrs=attrs, values={"zero": values})


def _resample(rng: Random, dtype: str) -> Draft:
    shape = (pick(rng, 1, 2), *(int(n) for n in rng.integers(1, 8, 2)), int(rng.integers(1, 9)))
    x = activation_tensor(rng, dtype, shape)
    weights = []
    for name, size in zip(("rows", "columns"), shape[1:3], strict=True):
        matrix = rng.uniform(-0.3, 1, (int(rng.integers(1, 12)), size)).astype(np.float32)
        # Few inputs for each output.
        matrix[rng.random(matrix.shape) < pick(rng, 0, 0.5, 0.9)] = 0
        matrix /= np.maximum(np.abs(matrix).sum(1, keepdims=True), np.float32(0.5))
        weights.append(Tensor(name, matrix.shape, "float32", data=matrix))
    rounding = Rounding.DOUBLE if dtype == "float32" else Rounding.NEAREST_EVEN
    return Draft([x, *weights], quantized(rng, dtype, 0.2), rounding=rounding)


_ONNX_DRAFTS: Mapping[str, Callable[[Random, str], Draft]] = {
    "LOOKUP": _lookup,
    "RESAMPLE": _resample,
    "GROUP_NORMALIZATION": _group_norm,
    "DYNAMIC_QUANTIZE": _dynamic_quantize,
    "MATMUL_INTEGER": _matmul_integer,
    "CONV_INTEGER": _conv_integer,
    **dict.fromkeys(integers.NAMES, _integers),
    **dict.fromkeys((*real_functions.FUNCTIONS, *real_functions.CLASSES), _reals),
    **{f"{doubles.PREFIX}{kind}": _of_two_doubles for kind in doubles.BINARY},
    **{f"{doubles.PREFIX}{kind}": _compared_doubles for kind in doubles.COMPARISONS},
    **{f"{doubles.PREFIX}{kind}": _reals for kind in doubles.FUNCTIONS},
    **{f"{doubles.PREFIX}{kind}": _reduced_doubles for kind in doubles.REDUCTIONS},
    f"{doubles.PREFIX}CAST": _double_cast,
}

#: Those with the types that they work on; no file of TensorFlow Lite holds them.
ONNX_KINDS: Sequence[tuple[str, str]] = [
    (op, dtype)
    for op in _ONNX_DRAFTS
    for dtype in (
        integers.DTYPES
        if op in integers.NAMES
        else (*MOVABLE, "float64")
        if op == f"{doubles.PREFIX}CAST"
        else ("int8", "int16")
        if op == "LOOKUP"
        else ("int8", "int16", "float32")
        if op == "GROUP_NORMALIZATION"
        else ("int8", "float32")
        if op == "RESAMPLE"
        else ("int8",)
        if op in ("MATMUL_INTEGER", "CONV_INTEGER")
        else ("float64",)
        if op.startswith(doubles.PREFIX)
        else ("float32",)
    )
]
