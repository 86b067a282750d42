"""Quantizer for PyTorch (PT2E of torchao) that states what the compiler's kernels compute.

The module needs PyTorch and torchao. The tables name operators of PyTorch, without their overload
and without the underscore of operations in place.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import (
    HistogramObserver,
    MinMaxObserver,
    PerChannelMinMaxObserver,
)
from torchao.quantization.pt2e.quantizer import (
    DerivedQuantizationSpec,
    FixedQParamsQuantizationSpec,
    QuantizationAnnotation,
    QuantizationSpec,
    QuantizationSpecBase,
    Quantizer,
    SharedQuantizationSpec,
)

from hilc.errors import InputError
from hilc.quantization.settings import ACTIVATIONS, MASKED, Settings
from hilc.support.suggest import nearest

#: Operators with weights as argument 1, whose output channels lie along axis 0.
_LAYERS = frozenset(("conv1d", "conv2d", "linear"))
#: Layers whose weights have their channels along axis 1.
_TRANSPOSED = frozenset(("conv_transpose1d", "conv_transpose2d"))
#: Sums and products: of two tensors, which become operands on integers, or of one and a number.
_ARITHMETIC = frozenset(("add", "sub", "mul"))
_PRODUCTS = frozenset(("matmul", "bmm"))
#: Normalizations of the last axis, whose factors stay floats.
_NORMALIZATIONS = frozenset(("layer_norm", "rms_norm"))
_SHARES = frozenset(("softmax", "_softmax"))
#: Averages: of all elements, of a window, or of the four pixels around a position.
_AVERAGES = frozenset(
    (
        "upsample_bilinear2d",
        "mean",
        "avg_pool1d",
        "avg_pool2d",
        "adaptive_avg_pool1d",
        "adaptive_avg_pool2d",
    )
)
#: Clamps that are fused into a preceding layer, sum or average.
_CLAMPS = frozenset(("relu", "relu6", "hardtanh", "clamp", "clamp_min"))
#: Functions of single elements, which become tables of 256 results.
_FUNCTIONS = _CLAMPS | frozenset(
    (
        "abs", "atan", "celu", "cos", "div", "elu", "erf", "exp", "expm1", "gelu", "hardsigmoid",
        "hardswish", "leaky_relu", "log", "log1p", "mish", "neg", "pow", "reciprocal", "rsqrt",
        "rsub", "selu", "sigmoid", "silu", "sin", "softplus", "softsign", "sqrt", "square", "tanh",
    )
)  # fmt: skip
#: Operators that replace elements, as a cache does: arguments 0 and 3.
_PUTS = frozenset(("index_copy",))
#: Operators that move or select elements: input and output have one quantization.
_MOVES = frozenset(
    (
        "_unsafe_view", "adaptive_max_pool1d", "adaptive_max_pool2d", "alias", "amax",
        "channel_shuffle", "clone", "contiguous", "detach", "dropout", "expand", "flatten", "flip",
        "index_select", "max_pool1d", "max_pool2d", "movedim", "narrow", "permute",
        "pixel_shuffle", "pixel_unshuffle", "repeat", "reshape", "roll", "select", "slice",
        "squeeze", "t", "transpose", "unflatten", "unsqueeze", "upsample_nearest2d", "view",
    )
)  # fmt: skip
#: Operators that move or select elements of several tensors: one list, or two arguments.
_JOINS = frozenset(("cat", "concat", "stack", "maximum", "minimum"))
#: Operators that move elements to several outputs.
_PARTS = frozenset(("chunk", "split", "split_with_sizes", "unbind"))

#: Least scale, as that of onnxruntime and TensorFlow: a tensor of zeros has one, too.
_LEAST_SCALE = 2.0**-24


_INT32_MAX = 2**31 - 1


class PercentileObserver(HistogramObserver):  # type: ignore[misc]
    """Range of a tensor that contains ``percentile`` per cent of the values; equal shares are
    outside at both ends.
    """

    def __init__(self, percentile: float = 99.999, **settings: Any) -> None:
        super().__init__(**settings)
        self.percentile = percentile

    def _non_linear_param_search(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the ends of the range; the base class searches those of the least noise."""
        shares = torch.cumsum(self.histogram, 0) / self.histogram.sum()
        width = (self.max_val - self.min_val) / self.bins
        tail = (1 - self.percentile / 100) / 2
        first = int((shares < tail).sum())
        last = min(int((shares < 1 - tail).sum()), self.bins - 1)
        return self.min_val + first * width, self.min_val + (last + 1) * width


class MaskedObserver(MinMaxObserver):  # type: ignore[misc]
    """Range of scores, of which a mask sets some so low that their softmax along the last axis is
    0.

    The range is that of the others, and reaches so far below the largest one of each row that all
    masked ones together get less than half a step of a type of activations: the least number
    stands for them.
    """

    low: torch.Tensor

    def __init__(self, activations: str = "int8", **settings: Any) -> None:
        super().__init__(**settings)
        self.kind = ACTIVATIONS[activations]
        self.register_buffer("low", torch.tensor(float("inf")))

    def forward(self, x_orig: torch.Tensor) -> torch.Tensor:
        """Record the range of the scores that are not masked; return the scores unchanged."""
        scores = x_orig.detach()
        kept = scores[scores > MASKED]
        if kept.numel():
            super().forward(kept)
            largest = scores.amax(-1)
            reach = self.kind.reach(scores.shape[-1])
            self.low = torch.minimum(self.low, largest[largest > MASKED].min() - reach)
        return x_orig

    def calculate_qparams(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the scale and zero point of the recorded range."""
        low = torch.minimum(self.min_val, self.low)
        found: tuple[torch.Tensor, torch.Tensor] = self._calculate_qparams(low, self.max_val)
        return found


#: Observers of activations by the calibrator's name.
CALIBRATORS = {
    "minmax": MinMaxObserver,
    "percentile": PercentileObserver,
    "mse": HistogramObserver,
}


class TorchQuantizer(Quantizer):  # type: ignore[misc]
    """Quantizer for ``prepare_pt2e`` of torchao.

    It states what the compiler's kernels compute: weights of layers are symmetric int8 with a scale
    for each output channel, activations are integers with one scale; what moves elements or chooses
    among them, as concatenation and maximum pooling do, has one quantization on all sides; a clamp
    is part of the layer before it; the outputs of a softmax are 256ths, of int16 32768ths;
    biases are int32 of the scale of the sums. Operators without an integer implementation,
    such as LSTM and GRU, stay in floats.

    ``calibrator`` is ``minmax``, ``percentile`` or ``mse`` (the range of the least squared error);
    ``activations`` is ``int8``, ``uint8`` or ``int16``, whose zero points are 0; ``exclude`` names
    nodes, or modules, to be left in floats. Raises :class:`~hilc.errors.InputError` for others.
    """

    def __init__(
        self,
        *,
        calibrator: str = "minmax",
        percentile: float | None = None,
        activations: str = "int8",
        per_channel: bool = True,
        exclude: Iterable[str] = (),
    ) -> None:
        super().__init__()
        settings = Settings(calibrator, percentile, activations, per_channel, tuple(exclude))
        settings.require_calibrator(CALIBRATORS, "torchao")
        self._exclude = settings.exclude
        #: By the user's name of an excluded layer: its nodes, once the model is annotated.
        self.excluded: dict[str, tuple[str, ...]] = {}
        self._activation = _activation_spec(settings)
        self._weights = _weight_spec(per_channel)
        self._masked = replace(
            self._activation,
            observer_or_fake_quant_ctr=MaskedObserver.with_args(
                eps=_LEAST_SCALE, activations=activations
            ),
        )
        kind = ACTIVATIONS[activations]
        self._shares = FixedQParamsQuantizationSpec(
            getattr(torch, activations), *kind.shares, kind.low, kind.high, torch.per_tensor_affine
        )

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """Return the model with attention as products and a softmax, and with masks as choices,
        which have forms on integers. Attention with a mask stays whole, and in floats.
        """
        for node in list(model.graph.nodes):
            if _kind(node) == "scaled_dot_product_attention" and not self._is_excluded(node):
                _expand_attention(model, node)
            elif node.target is torch.ops.aten.view.default:
                # An attention of products has other strides, of which there may be no view.
                node.target = torch.ops.aten.reshape.default
            elif _kind(node) == "add" and not self._is_excluded(node):
                _choose_by_mask(model, node)
        # A normalization that a layer before it could take in is part of that by now.
        convolve_normalizations(model, lambda node: not self._is_excluded(node))
        return model

    def annotate(self, model: GraphModule) -> GraphModule:
        """State the quantization of each operator that has a form on integers."""
        nodes = list(model.graph.nodes)
        self._require_known(nodes)
        for node in nodes:
            if node.op == "call_function" and not self._is_excluded(node):
                annotation = self._annotation(node)
                if annotation is not None:
                    annotation._annotated = True
                    node.meta["quantization_annotation"] = annotation
        return model

    def validate(self, model: GraphModule) -> None:
        """Accept any model: layers without an integer form stay in float32."""

    def _require_known(self, nodes: Sequence[Node]) -> None:
        known: dict[str, list[str]] = {}
        for node in nodes:
            for word in _names(node) if node.op == "call_function" else ():
                known.setdefault(word, []).append(node.name)
        for name in self._exclude:
            if name not in known:
                raise InputError(
                    f"there is no node or module {name!r} to exclude{nearest(name, known)}",
                    "name nodes of the exported program, or modules of the model; a batch "
                    "normalization is part of the convolution before it",
                )
        self.excluded = {name: tuple(known[name]) for name in self._exclude}

    def _is_excluded(self, node: Node) -> bool:
        return not set(self._exclude).isdisjoint(_names(node))

    # Operators ------------------------------------------------------------------------------------

    def _annotation(self, node: Node) -> QuantizationAnnotation | None:
        """Return the quantization of a node's operands and result; None if they stay floats."""
        kind = _kind(node)
        if kind in _PARTS:
            source = _operand(node, 0)
            return None if source is None else QuantizationAnnotation({source: self._activation})
        if node.target is operator.getitem:
            return self._part(node)
        if not _is_float(node):
            return None
        if kind in _LAYERS | _TRANSPOSED:
            return self._layer(node)
        if kind in _MOVES:
            return self._moved([_operand(node, 0)], node)
        if kind in _JOINS:
            return self._moved(_operands(node), node)
        if kind in _PUTS:
            return self._moved([_operand(node, 0), _operand(node, 3)], node)
        if _masked_operand(node) is not None:
            return self._moved([_masked_operand(node)], node)
        if kind in _NORMALIZATIONS:
            return self._computed(_operands(node)[:1], node)
        if kind in ("embedding", "index") and _is_constant(node.args[0]):
            return self._looked_up(node)
        if kind in _AVERAGES or (kind in _PRODUCTS | _ARITHMETIC and _operand(node, 1) is not None):
            return self._computed(_operands(node), node)
        if kind in _SHARES:
            inputs = dict.fromkeys(_operands(node), self._activation)
            return QuantizationAnnotation(inputs, self._shares)
        if kind in _FUNCTIONS | _ARITHMETIC and len(_operands(node)) == 1:
            return self._function(node)
        return None

    def _layer(self, node: Node) -> QuantizationAnnotation | None:
        x, weights = _operand(node, 0), _operand(node, 1)
        if x is None or weights is None or weights.op != "get_attr":
            return None
        inputs = {x: self._activation, weights: self._weights}
        if _kind(node) in _TRANSPOSED:
            if _groups(node) != 1:
                return None
            axis = None if self._weights.ch_axis is None else 1
            inputs[weights] = replace(self._weights, ch_axis=axis)
        bias = _operand(node, 2)
        if bias is not None and bias.op == "get_attr":
            inputs[bias] = self._bias(x, weights, node)
        return QuantizationAnnotation(inputs, self._result_of(node))

    def _bias(self, x: Node, weights: Node, node: Node) -> DerivedQuantizationSpec:
        """Return the quantization of a bias: integers of the sums' scale, which are added up."""
        is_per_channel = self._weights.ch_axis is not None
        return DerivedQuantizationSpec(
            [(x, node), (weights, node)],
            _scale_of_sums,
            torch.int32,
            -_INT32_MAX,
            _INT32_MAX,
            torch.per_channel_symmetric if is_per_channel else torch.per_tensor_symmetric,
            self._weights.ch_axis,
        )

    def _computed(self, operands: Sequence[Node], node: Node) -> QuantizationAnnotation:
        inputs = {operand: self._given(operand) for operand in operands}
        return QuantizationAnnotation(inputs, self._result_of(node))

    def _given(self, node: Node) -> QuantizationSpecBase:
        """Return the quantization of an operand; that of a softmax's output is fixed."""
        source: Node | None = node
        while source is not None and _kind(source) in _MOVES and not self._is_excluded(source):
            source = _operand(source, 0)
        if source is None or _kind(source) not in _SHARES or self._is_excluded(source):
            return self._spec(node)
        return self._shares

    def _result_of(self, node: Node) -> QuantizationSpecBase | None:
        """Return the quantization of a result: none before a clamp that follows it."""
        users = list(node.users)
        is_clamped = len(users) == 1 and _kind(users[0]) in _CLAMPS
        return None if is_clamped and not self._is_excluded(users[0]) else self._spec(node)

    def _spec(self, node: Node) -> QuantizationSpec:
        """Return the quantization of a tensor that shares it with no other yet."""
        return self._masked if self._is_to_be_masked(node) else self._activation

    def _is_to_be_masked(self, node: Node) -> bool:
        """Return whether elements of a tensor are masked, ignoring operators that move them."""
        return any(
            not self._is_excluded(user)
            and (
                _masked_operand(user) is node
                or (_kind(user) in _MOVES and self._is_to_be_masked(user))
            )
            for user in node.users
        )

    def _function(self, node: Node) -> QuantizationAnnotation:
        """Quantize the ends of a chain of functions, which becomes one table."""
        source, users = _operands(node)[0], list(node.users)
        inputs = {} if self._goes_on(source, node) else {source: self._activation}
        ends = len(users) != 1 or not self._goes_on(node, users[0])
        return QuantizationAnnotation(inputs, self._spec(node) if ends else None)

    def _goes_on(self, node: Node, user: Node) -> bool:
        """Return whether a function reads a tensor that is not quantized before it."""
        if len(node.users) != 1 or not _is_float(node) or self._is_excluded(node):
            return False
        if self._is_excluded(user) or not _is_function(user):
            return False
        return _is_function(node) or (_kind(user) in _CLAMPS and self._may_be_clamped(node))

    def _may_be_clamped(self, node: Node) -> bool:
        is_computed = _kind(node) in _LAYERS | _TRANSPOSED | _AVERAGES | _PRODUCTS | _ARITHMETIC
        return is_computed and self._annotation(node) is not None

    def _moved(self, sources: Sequence[Node | None], node: Node) -> QuantizationAnnotation | None:
        listed = [source for source in sources if source is not None and _is_float(source)]
        if not listed or len(listed) != len(sources):
            return None
        first = SharedQuantizationSpec((listed[0], node))
        # The first one first: the others refer to it.
        inputs: dict[Node, QuantizationSpecBase] = {listed[0]: self._given(listed[0])}
        inputs.update((source, first) for source in listed if source is not listed[0])
        return QuantizationAnnotation(inputs, first)

    def _part(self, node: Node) -> QuantizationAnnotation | None:
        whole = node.args[0]
        if not isinstance(whole, Node) or _kind(whole) not in _PARTS or self._is_excluded(whole):
            return None
        source = _operand(whole, 0)
        if source is None or not _is_float(node):
            return None
        return QuantizationAnnotation({}, SharedQuantizationSpec((source, whole)))

    def _looked_up(self, node: Node) -> QuantizationAnnotation:
        """Quantize the rows of a constant table."""
        table = node.args[0]
        return QuantizationAnnotation(
            {table: self._activation}, SharedQuantizationSpec((table, node))
        )


def _activation_spec(settings: Settings) -> QuantizationSpec:
    kind = ACTIVATIONS[settings.activations]
    own = {"percentile": settings.share} if settings.calibrator == "percentile" else {}
    observer = CALIBRATORS[settings.calibrator].with_args(eps=_LEAST_SCALE, **own)
    return QuantizationSpec(
        getattr(torch, settings.activations),
        observer,
        kind.low,
        kind.high,
        torch.per_tensor_symmetric if kind.symmetric else torch.per_tensor_affine,
    )


def _scale_of_sums(observers: Sequence[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the scales of products of an activation and weights, and no zero points."""
    scales, _ = zip(*(observer.calculate_qparams() for observer in observers), strict=True)
    scale = (scales[0] * scales[1]).to(torch.float32)
    return scale, torch.zeros_like(scale, dtype=torch.int32)


def _weight_spec(per_channel: bool) -> QuantizationSpec:
    if per_channel:
        observer, scheme, axis = PerChannelMinMaxObserver, torch.per_channel_symmetric, 0
    else:
        observer, scheme, axis = MinMaxObserver, torch.per_tensor_symmetric, None
    made = observer.with_args(eps=_LEAST_SCALE)
    return QuantizationSpec(torch.int8, made, -127, 127, scheme, axis)


# Nodes --------------------------------------------------------------------------------------------


def _kind(node: Node) -> str:
    """Return the operator's name of a call, such as ``conv2d``; nothing for other nodes."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or not schema.name.startswith("aten::"):
        return ""
    name: str = schema.name.removeprefix("aten::")
    return name if name.endswith("__") else name.removesuffix("_")


def _groups(node: Node) -> Any:
    """Return the groups of a transposed convolution."""
    return node.args[6] if len(node.args) > 6 else node.kwargs.get("groups", 1)


def _names(node: Node) -> set[str]:
    """Return the names of a node: its own, and those of the modules that it belongs to."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = (path for path, _ in stack.values())
    return {node.name, *(path.removeprefix("L['self'].") for path in paths if path)}


def _is_float(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype is torch.float32


def _operands(node: Node) -> list[Node]:
    """Return the tensors of floats that a call takes, those of a list included."""
    found = [arg for part in node.args for arg in (part if isinstance(part, list) else [part])]
    return [arg for arg in found if isinstance(arg, Node) and _is_float(arg)]


def _operand(node: Node, index: int) -> Node | None:
    """Return an argument of a call if it is a tensor of floats."""
    arg = node.args[index] if index < len(node.args) else None
    return arg if isinstance(arg, Node) and _is_float(arg) else None


def _is_constant(arg: object) -> bool:
    return isinstance(arg, Node) and arg.op == "get_attr"


def _masked_operand(node: Node) -> Node | None:
    """Return the tensor of which a call sets elements to a number that masks them, or None."""
    kind = _kind(node)
    if kind == "masked_fill":
        is_masking, x = _is_masking(node.args[2]), node.args[0]
    elif kind == "where" and len(node.args) == 3:
        _, x, other = node.args
        x, other = (other, x) if _is_masking(x) else (x, other)
        is_masking = _is_masking(other)
    else:
        return None
    return x if is_masking and isinstance(x, Node) and _is_float(x) else None


def _is_masking(arg: object) -> bool:
    """Return whether an argument is a number so low that it masks."""
    while isinstance(arg, Node) and _kind(arg) in ("scalar_tensor", "full", "full_like"):
        arg = arg.args[0 if _kind(arg) == "scalar_tensor" else 1]
    if isinstance(arg, Node) and arg.op == "get_attr":
        value = _attribute(arg)
        arg = value.item() if value is not None and value.numel() == 1 else None
    return isinstance(arg, int | float) and arg <= MASKED


def _expand_attention(model: GraphModule, node: Node) -> None:
    """Replace an attention without a mask by softmax(q k^T scale) v."""
    given = dict(zip(_ATTENTION, node.args, strict=False)) | dict(node.kwargs)
    if any(given.get(name) for name in ("attn_mask", "dropout_p", "is_causal", "enable_gqa")):
        return
    q, k, v = (given[name] for name in ("query", "key", "value"))
    scale = given.get("scale")
    if scale is None:
        scale = q.meta["val"].shape[-1] ** -0.5
    aten, call = torch.ops.aten, partial(_call, model, node)
    with model.graph.inserting_before(node):
        scaled = call(aten.mul.Tensor, q, scale)
        scores = call(aten.matmul.default, scaled, call(aten.transpose.int, k, -2, -1))
        result = call(aten.matmul.default, call(aten.softmax.int, scores, -1), v)
    node.replace_all_uses_with(result)
    model.graph.erase_node(node)


def _call(model: GraphModule, like: Node, target: Any, *args: Any) -> Node:
    """Add a call in the place of ``like``, under its names."""
    made: Node = model.graph.call_function(target, args)
    values = [arg.meta["val"] if isinstance(arg, Node) else arg for arg in args]
    with like.meta["val"].fake_mode:
        made.meta = {**like.meta, "val": target(*values)}
    return made


def convolve_normalizations(model: GraphModule, is_meant: Callable[[Node], bool]) -> None:
    """Replace batch normalizations by equal depthwise 1x1 convolutions."""
    for node in list(model.graph.nodes):
        if _kind(node) == "batch_norm" and is_meant(node):
            _convolve(model, node)
    model.graph.eliminate_dead_code()
    model.recompile()


def is_shared(node: Node) -> bool:
    """Return whether a normalization's input has another reader.

    torchao would normalize that as well.
    """
    source = node.args[0]
    return isinstance(source, Node) and len(source.users) > 1


def _convolve(model: GraphModule, node: Node) -> None:
    axes = max(node.meta["val"].ndim - 2, 1)
    x, *parameters = node.args[:5]
    known: list[Any] = [_constant(arg) if isinstance(arg, Node) else arg for arg in parameters]
    is_known = all(isinstance(value, torch.Tensor) for value in known[2:])
    if axes not in _CONVOLUTIONS or node.args[5] or not is_known or not _is_float(node):
        return
    wide: list[Any] = [None if value is None else value.double() for value in known]
    scale, shift, mean, variance = wide
    factor = 1 / torch.sqrt(variance + node.args[7])
    factor = factor if scale is None else factor * scale
    summand = -mean * factor if shift is None else shift - mean * factor
    with model.graph.inserting_before(node):
        weights = _buffer(model, node, factor.float().reshape(-1, 1, *(1,) * axes))
        bias = _buffer(model, node, summand.float())
        ones, zeros = [1] * axes, [0] * axes
        is_row = node.meta["val"].ndim == 2
        image = _call(model, node, torch.ops.aten.unsqueeze.default, x, -1) if is_row else x
        arguments = (image, weights, bias, ones, zeros, ones, len(factor))
        result = _call(model, node, _CONVOLUTIONS[axes], *arguments)
        if is_row:
            result = _call(model, node, torch.ops.aten.squeeze.dim, result, -1)
    node.replace_all_uses_with(result)
    model.graph.erase_node(node)


#: Convolutions by the number of axes that their windows have.
_CONVOLUTIONS = {1: torch.ops.aten.conv1d.default, 2: torch.ops.aten.conv2d.default}


def _choose_by_mask(model: GraphModule, node: Node) -> None:
    """Replace a sum with a mask of floats, most of them 0 or minus infinity, by a choice.

    Integers have no scale for both what such a mask adds and what it masks.
    """
    scores, mask = (_operand(node, index) for index in (0, 1))
    if scores is None or mask is None or node.kwargs.get("alpha", 1) != 1:
        return
    if _masks(scores):
        scores, mask = mask, scores
    if not _masks(mask):
        return
    aten, call = torch.ops.aten, partial(_call, model, node)
    known = _constant(mask)
    with model.graph.inserting_before(node):
        if known is None:
            hidden = call(aten.le.Scalar, mask, MASKED)
            scores = call(aten.add.Tensor, scores, call(aten.masked_fill.Scalar, mask, hidden, 0.0))
        else:
            is_hidden = known <= MASKED
            hidden = _buffer(model, node, is_hidden)
            rest = known.masked_fill(is_hidden, 0.0)
            if rest.any():
                scores = call(aten.add.Tensor, scores, _buffer(model, node, rest))
        result = call(aten.masked_fill.Scalar, scores, hidden, -math.inf)
    node.replace_all_uses_with(result)
    model.graph.erase_node(node)


def _masks(node: Node) -> bool:
    """Return whether a tensor holds numbers so low that they mask, or is made with one."""
    known = _constant(node)
    if known is not None:
        return bool((known <= MASKED).any())
    return _masked_operand(node) is not None or (
        _kind(node) in _MOVES and any(map(_masks, _operands(node)))
    )


def _constant(node: Node) -> torch.Tensor | None:
    """Return the value of a tensor that depends on constants alone, as far as it is only moved."""
    if node.op == "get_attr":
        value, is_written = _attribute(node), any(_writes(user, node) for user in node.users)
        return None if value is None or is_written else value.detach()
    if _kind(node) not in _MOVES:
        return None
    values: list[Any] = []
    for arg in node.args:
        values.append(_constant(arg) if isinstance(arg, Node) else arg)
        if isinstance(arg, Node) and values[-1] is None:
            return None
    made: torch.Tensor = node.target(*values, **node.kwargs)
    return made


def _attribute(node: Node) -> torch.Tensor | None:
    """Return the tensor that a node takes from its module."""
    value: Any = node.graph.owning_module
    for name in str(node.target).split("."):
        value = getattr(value, name, None)
    return value if isinstance(value, torch.Tensor) else None


def _writes(user: Node, buffer: Node) -> bool:
    """Return whether an operation in place changes a buffer."""
    name = getattr(getattr(user.target, "_schema", None), "name", "")
    return name.endswith("_") and not name.endswith("__") and user.args[:1] == (buffer,)


def _buffer(model: GraphModule, like: Node, value: torch.Tensor) -> Node:
    """Add a constant in the place of ``like``."""
    name = next(n for i in count() if not hasattr(model, n := f"_constant{i}"))
    model.register_buffer(name, value)
    made = model.graph.get_attr(name)
    made.meta = {**like.meta, "val": like.meta["val"].fake_mode.from_tensor(value)}
    return made


#: The first arguments of an attention.
_ATTENTION = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


def _is_function(node: Node) -> bool:
    return _kind(node) in _FUNCTIONS | _ARITHMETIC and len(_operands(node)) == 1
