"""Linear layers as their kernels see them: matrix products, sliding windows, depthwise windows.

CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED compute sums of products for each output channel.
:func:`linear_form` says which of three loops a layer is, whatever its operator, with the numbers
that every family of kernels takes; the families add their own packing of the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from itertools import chain
from operator import attrgetter
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from hilc.ir import ELEMENT_TYPES, Array, Tensor
from hilc.lowering.channels import sum_ends
from hilc.lowering.kernels import FieldGroup, KernelCall, Parameters
from hilc.lowering.parameters import HilImages, HilOutputRange, HilRequantization, HilWindow
from hilc.lowering.registry import Layer, cached_per_layer, packed_per_layer
from hilc.lowering.rounds import rounds
from hilc.numerics.requantize import has_ties
from hilc.ops import conv2d, depthwise_conv2d, fully_connected, linear
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.geometry import Window
from hilc.ops.linear import Operands, Requantization, accumulator_bound, fold_zero_point
from hilc.ops.operands import float_range, quantization

#: The operators that have a linear form.
LINEAR = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")

#: Output channels that the matrix kernels compute at a time; their weights are interleaved.
COLUMN_BLOCK = 4

# Magnitude of a sum below which hil_requantize_narrow is exact.
_NARROW_LIMIT = 2**30


@dataclass(frozen=True, eq=False)
class FloatParameters:
    """Clamp of float sums."""

    out_min: float
    out_max: float
    bias: npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class WideRequantization:
    """Requantization of sums of products with int16."""

    requant: Requantization
    #: One value a channel, the input's zero point folded in.
    bias: npt.NDArray[np.int64]
    #: The largest magnitude that a sum may have.
    bound: int

    @property
    def per_channel(self) -> int:
        """1: each output channel has a multiplier and a shift; 0: one for all."""
        return int(self.requant.multipliers.size > 1)

    @property
    def out_min(self) -> int:
        """The least output."""
        return self.requant.low

    @property
    def out_max(self) -> int:
        """The largest output."""
        return self.requant.high

    @property
    def output_range(self) -> HilOutputRange:
        """The range of the outputs."""
        return output_range(self.requant)


Outputs = HilRequantization | WideRequantization | FloatParameters


@dataclass(frozen=True, eq=False)
class LinearWeights:
    """Weights and requantization of a linear layer. Kernels pack these once for all bands of the
    layer (:func:`packed_once`).
    """

    #: The weight matrix, ``[output channels, products of a sum]``.
    matrix: Array
    #: Requantization or clamp of the sums.
    outputs: Outputs
    #: The model's own bias, one value a channel; zeros where it has none.
    bias: Array
    #: Value of padding: the input's zero point; 0 for floats.
    pad_value: int
    _packed: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def channels(self) -> int:
        """Output channels."""
        return int(self.matrix.shape[0])

    @property
    def depth(self) -> int:
        """Products of a sum."""
        return int(self.matrix.shape[1])

    @property
    def requantization(self) -> HilRequantization:
        """Requantization of an int8 layer."""
        assert isinstance(self.outputs, HilRequantization)
        return self.outputs

    @property
    def wide(self) -> WideRequantization:
        """Requantization of an int16 layer."""
        assert isinstance(self.outputs, WideRequantization)
        return self.outputs

    @property
    def floats(self) -> FloatParameters:
        """Clamp of a float layer."""
        assert isinstance(self.outputs, FloatParameters)
        return self.outputs


_P = ParamSpec("_P")
_K = TypeVar("_K", bound=FieldGroup)
_T = TypeVar("_T")


def packed_once(
    pack: Callable[Concatenate[LinearWeights, _P], _T],
) -> Callable[Concatenate[LinearWeights, _P], _T]:
    """Decorate a function that packs weights, to pack them once for each of its other
    arguments.
    """

    @wraps(pack)
    def cached(weights: LinearWeights, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        key = (pack, *args, *kwargs.items())
        if key not in weights._packed:
            weights._packed[key] = pack(weights, *args, **kwargs)
        found: _T = weights._packed[key]
        return found

    return cached


@packed_once
def flat_weights(weights: LinearWeights) -> Array:
    """Return the weight matrix in one dimension, channel after channel."""
    return weights.matrix.reshape(-1)


@packed_once
def border_pixel(weights: LinearWeights, in_channels: int) -> npt.NDArray[np.int8]:
    """Return a pixel outside of the image, ``[in_channels]``."""
    return np.full(in_channels, weights.pad_value, np.int8)


@dataclass(frozen=True)
class LinearForm:
    """Base of the three forms."""

    packing: LinearWeights
    #: Multiply-accumulates.
    macs: int

    @property
    def weights(self) -> Array:
        """The weight matrix, ``[output channels, products of a sum]``."""
        return self.packing.matrix

    @property
    def bias(self) -> Array:
        """The model's own bias, one value a channel; zeros where it has none."""
        return self.packing.bias

    @property
    def pad_value(self) -> int:
        """The value of positions outside the image: the input's zero point; 0 for floats."""
        return self.packing.pad_value

    @property
    def channels(self) -> int:
        """Output channels."""
        return self.packing.channels

    @property
    def depth(self) -> int:
        """Products of a sum."""
        return self.packing.depth

    @property
    def requantization(self) -> HilRequantization:
        """Requantization of an int8 layer."""
        return self.packing.requantization

    @property
    def wide(self) -> WideRequantization:
        """Requantization of an int16 layer."""
        return self.packing.wide

    @property
    def floats(self) -> FloatParameters:
        """Clamp of a float layer."""
        return self.packing.floats

    def parameters(self, kind: type[_K], /, **own: Any) -> _K:
        """Return the parameters of a kernel, or a group of them: ``own``, and of the other fields
        of the struct those that the form states (:data:`_STATED`).

        Raises TypeError for a field that neither states, or that the struct does not have.
        """
        stated = [f.name for f in fields(kind) if f.name not in own and f.name in _STATED]
        return kind(**{name: _STATED[name](self) for name in stated}, **own)


@dataclass(frozen=True)
class MatrixProduct(LinearForm):
    """``rows`` rows of the input, one after the other in memory, times the weights."""

    rows: int


@dataclass(frozen=True)
class Convolution(LinearForm):
    """A window that slides over an image, with a filter for each output channel."""

    images: HilImages
    window: HilWindow
    #: The same layer as filters of the only channel of its image, which add up in the same order;
    #: None where there are more.
    channelwise: DepthwiseConvolution | None


@dataclass(frozen=True)
class GroupedConvolution(LinearForm):
    """A convolution whose channels are in groups, with a filter for each output channel."""

    images: HilImages
    window: HilWindow
    groups: int


@dataclass(frozen=True)
class DepthwiseConvolution(LinearForm):
    """A window that slides over each channel of an image; ``multiplier`` filters a channel."""

    shape: tuple[int, ...]
    placed: Window
    images: HilImages
    window: HilWindow
    multiplier: int

    @property
    def filters(self) -> Array:
        """``[output channels, filter_h, filter_w]``."""
        return self.weights.reshape(-1, self.placed.h.filter_size, self.placed.w.filter_size)


#: Rows and columns of the filters that kernels of planes have.
_PLANE_FILTER = 3


def with_zero_taps(form: DepthwiseConvolution) -> DepthwiseConvolution | None:
    """Return a layer as one with filters of 3x3 without dilation, zeros in the place of taps that
    it lacks; None where its filters reach farther.
    """
    window = form.window
    heights, widths = (
        (size, dilation if size > 1 else 1)
        for size, dilation in (
            (window.filter_h, window.dilation_h),
            (window.filter_w, window.dilation_w),
        )
    )
    if any((size - 1) * dilation >= _PLANE_FILTER for size, dilation in (heights, widths)):
        return None
    size = {"filter_h": _PLANE_FILTER, "filter_w": _PLANE_FILTER}
    return replace(
        form,
        packing=_with_zero_taps(form.packing, heights, widths),
        window=replace(window, **size, dilation_h=1, dilation_w=1),
    )


def in_three_by_three(form: DepthwiseConvolution) -> DepthwiseConvolution | None:
    """Return a layer as kernels of planes take it: :func:`with_zero_taps`, with a stride of 1 or 2
    for both axes; None where it is none of these.
    """
    strides = form.window.stride_h, form.window.stride_w
    return with_zero_taps(form) if strides in {(1, 1), (2, 2)} else None


@packed_once
def _with_zero_taps(
    weights: LinearWeights, heights: tuple[int, int], widths: tuple[int, int]
) -> LinearWeights:
    (height, down), (width, right) = heights, widths
    if height == width == _PLANE_FILTER:
        return weights
    filters = np.zeros((weights.channels, _PLANE_FILTER, _PLANE_FILTER), weights.matrix.dtype)
    taps = weights.matrix.reshape(-1, height, width)
    filters[:, : height * down : down, : width * right : right] = taps
    return replace(weights, matrix=filters.reshape(weights.channels, -1))


#: The fields of parameter structs that a form states, by their names in C.
_STATED: Mapping[str, Callable[[Any], Any]] = {
    "rows": attrgetter("rows"),
    "depth": attrgetter("depth"),
    "columns": attrgetter("channels"),
    "images": attrgetter("images"),
    "out_c": attrgetter("channels"),
    "groups": attrgetter("groups"),
    "depth_multiplier": attrgetter("multiplier"),
    "window": attrgetter("window"),
    **{
        name: attrgetter(f"window.{name}")
        for axis in (("filter_h", "stride_h", "pad_top"), ("filter_w", "stride_w", "pad_left"))
        for name in axis
    },
    "in_zero_point": attrgetter("pad_value"),
    "requantization": attrgetter("requantization"),
    "output_range": attrgetter("packing.outputs.output_range"),
    "per_channel": attrgetter("packing.outputs.per_channel"),
    "out_min": attrgetter("packing.outputs.out_min"),
    "out_max": attrgetter("packing.outputs.out_max"),
    "bias": attrgetter("floats.bias"),
}


@cached_per_layer
def linear_form(layer: Layer) -> LinearForm:
    """Return the form of a layer of one of :data:`LINEAR`."""
    return _FORMS[layer.node.op](layer)


@packed_per_layer
def linear_weights(layer: Layer) -> LinearWeights:
    """Return the weights of a layer of one of :data:`LINEAR`."""
    return _WEIGHTS[layer.node.op](layer)


def linear_calls(
    layer: Layer,
    *,
    rows: Callable[[MatrixProduct], Iterable[Parameters]],
    convolution: Callable[[Convolution], Iterable[Parameters]],
    depthwise: Callable[[DepthwiseConvolution], Iterable[Parameters]],
    grouped: Callable[[GroupedConvolution], Iterable[Parameters]] = lambda form: (),
) -> Iterator[KernelCall]:
    """Yield the calls of a family of kernels for a layer of one of :data:`LINEAR`.

    By the layer's form one of the functions gives the parameters of each way that the family has,
    those of the fastest first, and none where it does not serve the layer.
    """
    form = linear_form(layer)
    match form:
        case MatrixProduct():
            ways = rows(form)
        case Convolution():
            ways = convolution(form)
            if form.channelwise is not None:
                ways = chain(ways, depthwise(form.channelwise))
        case DepthwiseConvolution():
            ways = depthwise(form)
        case GroupedConvolution():
            ways = grouped(form)
        case _:
            raise AssertionError(form)
    for parameters in ways:
        yield KernelCall(parameters, macs=form.macs)


def _fully_connected_weights(layer: Layer) -> LinearWeights:
    ops = fully_connected.layer_operands(layer.node, layer.ins)
    outputs: Outputs
    if ops.x.element.quantized:
        requant = fully_connected.requantization(layer.node, ops, layer.out)
        outputs = _integer_outputs(layer, ops, requant, channel_axis=0)
    else:
        outputs = _float_parameters(layer, ops)
    return LinearWeights(ops.weight_data, outputs, ops.bias_data, _pad_value(layer, ops))


def _conv2d_weights(layer: Layer) -> LinearWeights:
    ops, _ = conv2d.layer_operands(layer.node, layer.ins)
    outputs = _output_parameters(layer, ops, channel_axis=0)
    matrix = ops.weight_data.reshape(ops.weights.shape[0], -1)
    return LinearWeights(matrix, outputs, ops.bias_data, _pad_value(layer, ops))


def _depthwise_conv2d_weights(layer: Layer) -> LinearWeights:
    ops, *_ = depthwise_conv2d.layer_operands(layer.node, layer.ins)
    outputs = _output_parameters(layer, ops, depthwise_conv2d.CHANNEL_AXIS)
    # The taps of a channel together.
    matrix = np.ascontiguousarray(ops.weight_data[0].transpose(2, 0, 1))
    matrix = matrix.reshape(len(matrix), -1)
    return LinearWeights(matrix, outputs, ops.bias_data, _pad_value(layer, ops))


_WEIGHTS = {
    "CONV_2D": _conv2d_weights,
    "DEPTHWISE_CONV_2D": _depthwise_conv2d_weights,
    "FULLY_CONNECTED": _fully_connected_weights,
}


def _fully_connected(layer: Layer) -> LinearForm:
    ops = fully_connected.layer_operands(layer.node, layer.ins)
    channels, depth = ops.weights.shape
    return MatrixProduct(linear_weights(layer), ops.x.size * channels, ops.x.size // depth)


def _conv2d(layer: Layer) -> LinearForm:
    ops, window = conv2d.layer_operands(layer.node, layer.ins)
    groups = conv2d.groups_of(ops)
    if groups == 1:
        return _sliding(layer, ops, window)
    weights = linear_weights(layer)
    if ops.weights.shape[3] == 1:
        # As many groups as channels of the input: each goes by itself.
        return _channelwise(layer, ops, window, weights.channels // groups)
    macs = layer.out.size * weights.depth
    return GroupedConvolution(weights, macs, *_placed(ops.x, window), groups)


def _depthwise_conv2d(layer: Layer) -> LinearForm:
    ops, window, multiplier = depthwise_conv2d.layer_operands(layer.node, layer.ins)
    if ops.x.shape[3] == 1:
        # One input channel: an ordinary convolution, too.
        return _sliding(layer, ops, window)
    return _channelwise(layer, ops, window, multiplier)


def _channelwise(
    layer: Layer, ops: Operands, window: Window, multiplier: int
) -> DepthwiseConvolution:
    weights = linear_weights(layer)
    return DepthwiseConvolution(
        weights,
        layer.out.size * weights.depth,
        ops.x.shape,
        window,
        *_placed(ops.x, window),
        multiplier,
    )


_FORMS = {
    "CONV_2D": _conv2d,
    "DEPTHWISE_CONV_2D": _depthwise_conv2d,
    "FULLY_CONNECTED": _fully_connected,
}


def _sliding(layer: Layer, ops: Operands, window: Window) -> LinearForm:
    weights = linear_weights(layer)
    macs = layer.out.size * weights.depth
    if _windows_follow_each_other(window):
        return MatrixProduct(weights, macs, ops.x.size // weights.depth)
    single = ops.x.shape[3] == 1
    channelwise = _channelwise(layer, ops, window, weights.channels) if single else None
    return Convolution(weights, macs, *_placed(ops.x, window), channelwise)


def _windows_follow_each_other(window: Window) -> bool:
    """Return whether the windows, one after the other, are the image itself: rows of a matrix."""
    if window.padded:
        return False
    h, w = window.h, window.w
    pixels = h.span == h.stride == w.span == w.stride == 1
    whole = h.filter_size == h.in_size and w.filter_size == w.in_size
    return pixels or whole


def _placed(x: Tensor, window: Window) -> tuple[HilImages, HilWindow]:
    """Return the images that a convolution reads and writes, and the window on the one that it
    reads.
    """
    h, w = window.h, window.w
    images = HilImages(
        batch=x.shape[0],
        in_h=h.in_size,
        in_w=w.in_size,
        in_c=x.shape[3],
        out_h=h.out_size,
        out_w=w.out_size,
    )
    return images, HilWindow(
        filter_h=h.filter_size,
        filter_w=w.filter_size,
        stride_h=h.stride,
        stride_w=w.stride,
        dilation_h=h.dilation,
        dilation_w=w.dilation,
        pad_top=h.pad_before,
        pad_left=w.pad_before,
    )


def _pad_value(layer: Layer, ops: Operands) -> int:
    return linear.pad_value(layer.node, ops)


def _output_parameters(layer: Layer, ops: Operands, channel_axis: int) -> Outputs:
    if not ops.x.element.quantized:
        return _float_parameters(layer, ops)
    requant = linear.channel_requantization(layer.node, ops, layer.out)
    return _integer_outputs(layer, ops, requant, channel_axis)


def _integer_outputs(
    layer: Layer, ops: Operands, requant: Requantization, channel_axis: int
) -> Outputs:
    if not ops.x.element.symmetric:
        return _requantization_parameters(layer, ops, requant, channel_axis)
    zero_point = quantization(layer.node, ops.x)[1]
    bias = fold_zero_point(ops.weight_data, ops.bias_data, zero_point, channel_axis)
    bound = accumulator_bound(ops.weight_data, bias, -ops.x.element.bounds[0], channel_axis)
    return WideRequantization(requant, bias, bound)


def output_range(requant: Requantization) -> HilOutputRange:
    """Return the range of the outputs."""
    return HilOutputRange(
        out_zero_point=requant.zero_point, out_min=requant.low, out_max=requant.high
    )


def _requantization_parameters(
    layer: Layer, ops: Operands, requant: Requantization, channel_axis: int
) -> HilRequantization:
    zero_point = quantization(layer.node, ops.x)[1]
    bias = fold_zero_point(ops.weight_data, ops.bias_data, zero_point, channel_axis)
    bound = accumulator_bound(ops.weight_data, bias, -ops.x.element.bounds[0], channel_axis)
    narrow = bool(bound < _NARROW_LIMIT and requant.shifts.max() < 0)
    matrix = np.moveaxis(ops.weight_data, channel_axis, 0).reshape(len(bias), -1)
    lowest, highest = (bias + end for end in sum_ends(matrix))
    shifts = requant.shifts.astype(np.int32)
    ties = has_ties(requant.multipliers, shifts, lowest, highest)
    return HilRequantization(
        output_range=output_range(requant),
        per_channel=int(requant.multipliers.size > 1),
        narrow=int(rounds(requant.rounding, bool(ties.any()), narrow)),
        bias=bias.astype(np.int32),
        multipliers=requant.multipliers,
        shifts=requant.shifts,
    )


def has_tying_sums(form: LinearWeights) -> bool:
    """Return whether a sum of a layer of int16 may lie half-way between two outputs."""
    outputs = form.wide
    ends = sum_ends(form.matrix, bounds=ELEMENT_TYPES[outputs.requant.dtype].bounds)
    lowest, highest = (outputs.bias + end for end in ends)
    requant = outputs.requant
    shifts = requant.shifts.astype(np.int32)
    return bool(has_ties(requant.multipliers, shifts, lowest, highest).any())


def _float_parameters(layer: Layer, ops: Operands) -> FloatParameters:
    low, high = float_range(layer.node, ActivationAttributes.of(layer.node).activation)
    return FloatParameters(low, high, ops.bias_data)


def interleave(matrix: Array) -> Array:
    """Return weights ``[channels, depth]`` in the order of the matrix kernels
    (``columns_s8.h``).
    """
    blocked = matrix.shape[0] - matrix.shape[0] % COLUMN_BLOCK
    blocks = matrix[:blocked].reshape(-1, COLUMN_BLOCK, matrix.shape[1]).transpose(0, 2, 1)
    return np.concatenate([blocks.reshape(-1), matrix[blocked:].reshape(-1)])


@packed_once
def interleaved(weights: LinearWeights) -> Array:
    """Return the weights as :func:`interleave` does."""
    return interleave(weights.matrix)
