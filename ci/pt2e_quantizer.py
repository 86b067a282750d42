"""A quantizer of PT2E for all operators: int8, weights with a scale for each channel.

Every tensor of floats is quantized where an operator gives it. Between a linear operator or a sum
and the clamp behind it nothing is; what only moves or chooses elements keeps the quantization of
what it takes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import MinMaxObserver, PerChannelMinMaxObserver
from torchao.quantization.pt2e.quantizer import (
    QuantizationAnnotation,
    QuantizationSpec,
    Quantizer,
    SharedQuantizationSpec,
)

EPSILON = 2**-12

ACTIVATIONS = QuantizationSpec(
    dtype=torch.int8,
    quant_min=-128,
    quant_max=127,
    qscheme=torch.per_tensor_affine,
    observer_or_fake_quant_ctr=MinMaxObserver.with_args(eps=EPSILON),
)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CONVOLUTIONS = _names("conv1d conv2d")
_TRANSPOSED = _names("conv_transpose1d conv_transpose2d")
_LINEAR = _CONVOLUTIONS | _TRANSPOSED | _names("linear addmm")
#: What a clamp behind it is fused with.
_FUSED = _LINEAR | _names("add add_ batch_norm")
_CLAMPS = _names("relu relu_ hardtanh hardtanh_ relu6 relu6_")
#: What gives elements of its operand, unchanged.
_MOVES = _names(
    "alias cat chunk clone contiguous detach dropout dropout_ expand flatten flip max_pool1d "
    "max_pool2d permute repeat reshape roll select slice split split_with_sizes squeeze stack t "
    "transpose unbind unflatten unsqueeze view channel_shuffle pixel_shuffle pad getitem "
    "constant_pad_nd amax"
)


def _operator(node: Node) -> str:
    """Return an operator's name without its overload: ``conv2d`` for ``aten.conv2d.default``."""
    if node.op != "call_function":
        return ""
    target: Any = node.target
    return str(getattr(target, "_opname", getattr(target, "__name__", "")))


def _is_float(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, torch.Tensor) and bool(value.dtype == torch.float32)


def _weights(axis: int) -> QuantizationSpec:
    return QuantizationSpec(
        dtype=torch.int8,
        quant_min=-127,
        quant_max=127,
        qscheme=torch.per_channel_symmetric,
        ch_axis=axis,
        observer_or_fake_quant_ctr=PerChannelMinMaxObserver.with_args(eps=EPSILON),
    )


class Int8Quantizer(Quantizer):  # type: ignore[misc]
    """Annotates all operators of a program on floats."""

    def annotate(self, model: GraphModule) -> GraphModule:
        for node in model.graph.nodes:
            if node.op == "call_function":
                _annotate(node)
        return model

    def validate(self, model: GraphModule) -> None:
        pass


def _annotate(node: Node) -> None:
    operands = [part for part in node.all_input_nodes if _is_float(part)]
    if not operands:
        return
    name = _operator(node)
    specs: dict[Node, Any] = dict.fromkeys(operands, ACTIVATIONS)
    if name in _LINEAR:
        # Biases stay floats: they go into the sums.
        _, weight, *biases = node.args
        assert isinstance(weight, Node)
        if _is_parameter(weight):
            specs[weight] = _weights(1 if name in _TRANSPOSED else 0)
        specs = {part: spec for part, spec in specs.items() if part not in biases}
    elif name == "batch_norm":
        specs = {operands[0]: ACTIVATIONS}
    result: Any = ACTIVATIONS if _is_float(node) else None
    if name in _MOVES:
        first = SharedQuantizationSpec((operands[0], node))
        specs |= dict.fromkeys(operands[1:], first)
        result = first if result else None
    elif name in _CLAMPS and _is_fused(operands[0]):
        del specs[operands[0]]
    if _is_fused(node) and _operator(next(iter(node.users))) in _CLAMPS:
        result = None
    node.meta["quantization_annotation"] = QuantizationAnnotation(
        input_qspec_map=specs, output_qspec=result, _annotated=True
    )


def _is_fused(node: Node) -> bool:
    """Return whether a clamp that reads the node is one operator with it."""
    return _operator(node) in _FUSED and len(node.users) == 1


def _is_parameter(node: Node) -> bool:
    return bool(node.op == "get_attr")
