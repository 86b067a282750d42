"""Dynamic-range ("hybrid") layers as TFLite's run time computes them: int8 weights, and floats that
are quantized by their range when the model runs.

A layer becomes operators on its parts: DYNAMIC_QUANTIZE, exact sums of integers, then the scales,
the bias and the activation in float32, in the order of TFLite's reference kernels. A fully
connected layer quantizes each row by itself, a convolution each image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import numpy as np

from hilc.errors import UnsupportedError
from hilc.ir import Array, Attributes, Node, Tensor
from hilc.ops import OPS
from hilc.ops.attributes import ActivationAttributes, ConvolutionAttributes
from hilc.ops.cast import CastAttributes
from hilc.ops.depthwise_conv2d import DepthwiseConv2DAttributes
from hilc.ops.dynamic import ConvIntegerAttributes, DynamicQuantizeAttributes
from hilc.ops.views import ReshapeAttributes


@dataclass(frozen=True)
class HybridOperator:
    """A dynamic-range layer of a file."""

    index: int
    code: str
    x: Tensor
    weights: Tensor
    bias: Tensor | None
    out: Tensor
    attrs: Attributes
    #: Whether inputs of a fully connected layer get a zero point.
    asymmetric: bool


@dataclass
class HybridLayer:
    """The nodes of a layer, with the tensors between them."""

    operator: HybridOperator
    #: Returns a name that no tensor has.
    fresh: Callable[[str], str]
    nodes: list[Node] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        quant = self.operator.weights.quant
        assert quant is not None
        if any(quant.zero_point):
            raise UnsupportedError(
                f"its weights {self.operator.weights.name!r} have a zero point other than 0",
                "compute dynamic-range layers in floats: dynamic=float",
            )
        if self.operator.code == "FULLY_CONNECTED":
            self._fully_connected()
        else:
            self._convolution()

    def _fully_connected(self) -> None:
        operator = self.operator
        depth, x = operator.weights.shape[1], operator.x
        if not x.shape or x.shape[-1] != depth:
            x = self._reshaped(x, (-1, depth))
        q, scale, zero_point = self._quantized(x, operator.asymmetric, leading=-1)
        (sums,) = self._emit("MATMUL_INTEGER", [q, zero_point, self._weights(_as_they_are)])
        rows = (-1, 1) if len(x.shape) == 2 else (*x.shape[:-1], 1)
        self._finish(self._scaled(sums, scale, rows))

    def _convolution(self) -> None:
        operator = self.operator
        given, quant = cast(ConvolutionAttributes, operator.attrs), operator.weights.quant
        assert quant is not None
        names = ("stride_h", "stride_w", "dilation_h", "dilation_w", "padding")
        attrs = ConvIntegerAttributes(**{name: getattr(given, name) for name in names})
        by_channel = isinstance(given, DepthwiseConv2DAttributes)
        if by_channel and quant.per_tensor and operator.out.shape[-1] != 1:
            raise UnsupportedError(
                f"its weights {operator.weights.name!r} have one scale; TFLite on integers "
                "reads one for each channel",
                "compute dynamic-range layers in floats: dynamic=float",
            )
        # With a scale for each channel TFLite takes another function.
        several = by_channel or not quant.per_tensor
        q, scale, zero_point = self._quantized(operator.x, several, leading=1)
        weights = self._weights(_channels_first if by_channel else _as_they_are)
        (sums,) = self._emit("CONV_INTEGER", [q, zero_point, weights], attrs)
        images = (-1, 1, 1, 1)
        if by_channel or not several:
            self._finish(self._scaled(sums, scale, images))
            return
        (real,) = self._emit("CAST", [sums], CastAttributes(dtype="float32"))
        by_weights = self._product(real, self._scales())
        self._finish(self._product(by_weights, self._reshaped(scale, images)))

    def _quantized(self, x: Tensor, asymmetric: bool, leading: int) -> list[Tensor]:
        form: Literal["asymmetric", "symmetric"] = "asymmetric" if asymmetric else "symmetric"
        attrs = DynamicQuantizeAttributes(form=form, leading=leading)
        return self._emit("DYNAMIC_QUANTIZE", [x], attrs, 3)

    def _scaled(self, sums: Tensor, scale: Tensor, shape: Iterable[int]) -> Tensor:
        """Return sums times the product of both scales."""
        factor = self._product(self._reshaped(scale, shape), self._scales())
        (real,) = self._emit("CAST", [sums], CastAttributes(dtype="float32"))
        return self._product(real, factor)

    def _product(self, a: Tensor, b: Tensor) -> Tensor:
        (made,) = self._emit("MUL", [a, b], ActivationAttributes())
        return made

    def _finish(self, x: Tensor) -> None:
        """Add the bias, apply the activation, and give the result the layer's shape and name."""
        operator = self.operator
        activation = cast(ActivationAttributes, operator.attrs).activation
        attrs = ActivationAttributes(activation=activation)
        bias = operator.bias
        if bias is None:
            bias = self._constant("bias", np.zeros(1, np.float32))
        (made,) = self._emit("ADD", [x, bias], attrs)
        if len(made.shape) != len(operator.out.shape):
            made = self._reshaped(made, operator.out.shape)
        self._rename(made, operator.out)

    def _rename(self, made: Tensor, out: Tensor) -> None:
        last = self.nodes[-1]
        self.nodes[-1] = replace(last, outputs=(out.name,))
        del self.tensors[made.name]

    def _scales(self) -> Tensor:
        quant = self.operator.weights.quant
        assert quant is not None
        return self._constant("scale", np.array(quant.scale, np.float32))

    def _weights(self, order: Callable[[Array], Array]) -> Tensor:
        data = self.operator.weights.data
        assert data is not None
        return self._constant("int8", order(data), self.operator.weights.name)

    def _constant(self, word: str, value: Array, base: str = "") -> Tensor:
        name = self.fresh(f"{base or self.operator.out.name}:{word}")
        value = np.ascontiguousarray(value)
        value.flags.writeable = False
        self.tensors[name] = Tensor(name, value.shape, value.dtype.name, data=value)
        return self.tensors[name]

    def _reshaped(self, x: Tensor, shape: Iterable[int]) -> Tensor:
        (made,) = self._emit("RESHAPE", [x], ReshapeAttributes(new_shape=tuple(shape)))
        return made

    def _emit(
        self, op: str, ins: list[Tensor], attrs: Attributes | None = None, outputs: int = 1
    ) -> list[Tensor]:
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


def _as_they_are(weights: Array) -> Array:
    return weights


def _channels_first(weights: Array) -> Array:
    """Return depthwise filters ``[1, h, w, O]`` as groups of one channel, ``[O, h, w, 1]``."""
    return weights.transpose(3, 1, 2, 0)


def asymmetric_inputs(options: Any) -> bool:
    """Return whether a fully connected layer's options ask for zero points of its input."""
    return bool(options.AsymmetricQuantizeInputs())
