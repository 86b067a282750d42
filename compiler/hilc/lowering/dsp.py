"""Linear layers on cores that multiply pairs of half-words (``kernels/dsp``): when, and how packed.

Each function here gives the kernel calls of a layer, the fastest first as a rule, or none where the
family does not serve it and the portable kernel must. Kernels of products are of two kinds:

* Those of ``pairs_s8.h``, ``matvec_pairs_s8.h`` and ``depthwise_plane_s8.h`` requantise by a line:
  a multiplication, an addition and a shift, which :func:`_affine` proves to give what the double
  rounding gives, for each channel and every sum that its weights allow. Outputs take the whole
  range of int8.
* The others round twice, for any range. Two columns of weights share half-words,
  ``256 * w1 + w0``, which must fit 16 bits; sums stay below 2**23, so that 256 times a sum comes
  out of 32 bits; every shift is to the right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from hilc.ir import Array
from hilc.lowering.kernels import KernelCall
from hilc.lowering.linear import (
    LINEAR,
    Convolution,
    DepthwiseConvolution,
    LinearForm,
    MatrixProduct,
    RequantizationParameters,
    linear_form,
)
from hilc.lowering.parameters import (
    HilDspAddS8,
    HilDspAveragePoolS8,
    HilDspConv2dPairsS8,
    HilDspConv2dS8,
    HilDspDepthwise3x3S8,
    HilDspDepthwisePlaneS8,
    HilDspMatmulPairsS8,
    HilDspMatmulS8,
    HilDspMatvecPairsS8,
    HilDspMatvecS8,
    HilDspSumS8,
    HilDspWinograd3x3S8,
)
from hilc.lowering.registry import Layer, lowers
from hilc.numerics.requantize import requantize
from hilc.ops.binary import SUM_HEADROOM_BITS, reference, sum_scales
from hilc.ops.operands import output_clamp, quantization
from hilc.ops.pooling import pooling_clamp, pooling_window

#: Elements of depth that a kernel takes at a time, in the order in which they are widened.
_UNIT = 4
_UNIT_ORDER = (0, 2, 1, 3)
#: Rows below which a kernel for single rows is better than one for three at a time.
_FEW_ROWS = 3
#: Weights up to which twice the room for them is nothing.
_SMALL_WEIGHTS = 1024
#: Columns whose weights lie next to each other, for three rows and for a single one.
_PAIR = 2
_VECTOR_BLOCK = 4
_SUM_LIMIT = 2**23
#: The largest shift to the right: a channel beyond it has an output that does not change.
MAX_SHIFT = 23
#: Values whose sum has 16 bits (``HIL_DSP_POOL_TAPS``).
_POOL_TAPS = 255
#: Pixels of a line of the depthwise kernel's scratch, 32 bytes each.
_MAX_LINE = 128


@lowers(*LINEAR, dtypes={"int8"}, requires={"dsp"}, lacks={"mve"})
def linear(layer: Layer) -> list[KernelCall]:
    """The family's kernels for a linear layer."""
    form = linear_form(layer)
    if isinstance(form, MatrixProduct):
        return _matvec(form) if form.rows < _FEW_ROWS else _matmul(form)
    if isinstance(form, Convolution):
        return _conv2d(form)
    assert isinstance(form, DepthwiseConvolution)
    return _depthwise(form)


def _matvec(form: MatrixProduct) -> list[KernelCall]:
    """Few rows."""
    calls = _matvec_pairs(form)
    outputs = form.requantization
    packed = _packed(form.weights, outputs, _VECTOR_BLOCK)
    if packed is None:
        return calls
    channels, weights, bias = packed
    multipliers, shifts = channels.multipliers, channels.shifts
    # Without scratch it costs two instructions in sixteen.
    for widened in (1, 0):
        parameters = HilDspMatvecS8(
            rows=form.rows,
            depth=form.depth,
            units=_units(form),
            columns=form.channels,
            widened=widened,
            out_zero_point=outputs.out_zero_point,
            out_min=outputs.out_min,
            out_max=outputs.out_max,
            per_channel=outputs.per_channel,
            weights=weights,
            bias=bias.reshape(-1).astype(np.int32),
            multipliers=_padded(multipliers, _VECTOR_BLOCK)
            if outputs.per_channel
            else multipliers[:1],
            shifts=_padded(shifts, _VECTOR_BLOCK) if outputs.per_channel else shifts[:1],
        )
        calls.append(KernelCall(parameters, macs=form.macs))
    return calls


def _matmul(form: MatrixProduct) -> list[KernelCall]:
    """Three rows at a time, or two."""
    calls = [
        KernelCall(
            HilDspMatmulPairsS8(
                rows=form.rows,
                depth=form.depth,
                units=_units(form),
                columns=form.channels,
                group=way.group,
                wide=way.wide,
                signs=way.signs,
                shift=way.shift,
                stream=way.stream,
            ),
            macs=form.macs,
        )
        for way in _streams(form.weights, form.requantization)
    ]
    outputs = form.requantization
    packed = _packed(form.weights, outputs, _PAIR)
    if packed is None:
        return calls
    parameters = HilDspMatmulS8(
        rows=form.rows,
        depth=form.depth,
        units=_units(form),
        columns=form.channels,
        out_zero_point=outputs.out_zero_point,
        out_min=outputs.out_min,
        out_max=outputs.out_max,
        weights=packed[1],
        pairs=_pair_words(*packed),
    )
    return [*calls, KernelCall(parameters, macs=form.macs)]


def _units(form: LinearForm) -> int:
    return -(-form.depth // _UNIT)


def _conv2d(form: Convolution) -> list[KernelCall]:
    """A window at every place of an image."""
    outputs = form.requantization
    direct, flash_heavy = _direct(form), _winograd(form)
    packed = _packed(form.weights, outputs, _PAIR)
    if packed is None:
        return [*direct, *flash_heavy]
    parameters = HilDspConv2dS8(
        images=form.images,
        out_c=form.channels,
        window=form.window,
        units=_units(form),
        in_zero_point=form.pad_value,
        out_zero_point=outputs.out_zero_point,
        out_min=outputs.out_min,
        out_max=outputs.out_max,
        weights=packed[1],
        pairs=_pair_words(*packed),
    )
    return [*direct, KernelCall(parameters, macs=form.macs), *flash_heavy]


def _direct(form: Convolution) -> list[KernelCall]:
    """The convolution from windows that are widened where they lie."""
    in_c, window, weights = form.images.in_c, form.window, form.weights
    run = window.filter_w * in_c
    if in_c % _UNIT != 0:
        # The kernel reads rows of windows in words.
        if window.filter_w > 1 and window.dilation_w != 1:
            return []
        # First the whole words of each row, then what is left of each.
        rows = weights.reshape(-1, window.filter_h, run)
        whole = run - run % _UNIT
        parts = [rows[:, :, :whole], rows[:, :, whole:]]
        weights = np.concatenate([part.reshape(len(rows), -1) for part in parts], axis=1)
    border = np.full(in_c, form.pad_value, np.int8)
    return [
        KernelCall(
            HilDspConv2dPairsS8(
                images=form.images,
                out_c=form.channels,
                window=window,
                in_zero_point=form.pad_value,
                units=_units(form),
                group=way.group,
                wide=way.wide,
                signs=way.signs,
                shift=way.shift,
                stream=way.stream,
                border=border,
            ),
            macs=form.macs,
        )
        for way in _streams(weights, form.requantization)
    ]


#: From a filter's row to four numbers, of which two outputs next to each other are made: twice G.
_WINOGRAD = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]])


def _winograd(form: Convolution) -> list[KernelCall]:
    """The convolution by fewer products, of weights that take 3.6 times the flash; where it can.

    That is a filter of 3x3 over neighbouring pixels of whole units, one pixel after the other.
    """
    in_c, window = form.images.in_c, form.window
    sizes = [window.filter_h, window.filter_w]
    ones = [window.stride_h, window.stride_w, window.dilation_h, window.dilation_w]
    if sizes != [3, 3] or ones != [1, 1, 1, 1] or in_c % _UNIT != 0:
        return []
    channels = _channels(form.weights, form.requantization)
    affine = None if channels is None else _affine(channels, form.requantization, signs=True)
    if channels is None or affine is None or not affine.shared:
        return []
    filters = _padded(channels.weights.astype(np.int64), _PAIR).reshape(-1, 3, 3, in_c)
    places = np.einsum("iy,jx,oyxc->oijc", _WINOGRAD, _WINOGRAD, filters)
    units = places.reshape(-1, _PAIR, 16, in_c // _UNIT, _UNIT)[..., _UNIT_ORDER]
    # Words of both filters of a pair in turn.
    words = units.reshape(*units.shape[:4], 2, 2).transpose(0, 2, 3, 4, 1, 5).astype(np.int16)
    scales = _padded(np.stack(affine.scales, axis=1), _PAIR)
    parts = [
        4 * _padded(affine.bias, _PAIR).reshape(-1, _PAIR),
        scales.reshape(len(words), -1),
        np.ascontiguousarray(words).reshape(len(words), -1).view(np.int32),
    ]
    parameters = HilDspWinograd3x3S8(
        images=form.images,
        out_c=form.channels,
        pad_top=window.pad_top,
        pad_left=window.pad_left,
        units=in_c // _UNIT,
        signs=int(affine.lacking is not None),
        shift=affine.shift,
        stream=np.concatenate(parts, axis=1).reshape(-1).astype(np.int32),
        border=np.full(in_c, form.pad_value, np.int8),
    )
    return [KernelCall(parameters, macs=form.macs)]


@dataclass(frozen=True, eq=False)
class _Pairs:
    """The fields of ``struct hil_dsp_pairs_s8`` in one of the ways that there are."""

    group: int
    wide: int
    signs: int
    shift: int
    stream: Array


def _streams(matrix: Array, outputs: RequantizationParameters) -> list[_Pairs]:
    """The ways to pack the weights in pairs, where that serves."""
    channels = _channels(matrix, outputs)
    affine = None if channels is None else _affine(channels, outputs, signs=True)
    if channels is None or affine is None or not affine.shared:
        return []
    pairs = _pairs(channels.weights, _PAIR)
    # Wide weights take twice the room and save an instruction in seventeen.
    kinds = [(3, True), (2, True)]
    if pairs is not None and matrix.size > _SMALL_WEIGHTS:
        kinds = [(3, False), (3, True), (2, False)]
    found = []
    for group, wide in kinds:
        if wide:
            weights = _wide(channels.weights)
        else:
            assert pairs is not None
            weights = pairs.view(np.int32)
        signs, stream = int(affine.lacking is not None), _stream(affine, weights, wide)
        found.append(_Pairs(group, int(wide), signs, affine.shift, stream))
    return found


def _matvec_pairs(form: MatrixProduct) -> list[KernelCall]:
    """The kernel of few rows that requantizes by a line, where it serves."""
    outputs = form.requantization
    channels = _channels(form.weights, outputs)
    affine = None if channels is None else _affine(channels, outputs, signs=True)
    weights = None if channels is None else _pairs(channels.weights, _VECTOR_BLOCK)
    if affine is None or weights is None or not affine.shared:
        return []
    stream = _stream(affine, weights.view(np.int32), wide=False, block=_VECTOR_BLOCK)
    # Without scratch it costs two instructions in sixteen.
    kinds = (1, 0) if form.depth % _UNIT == 0 else (1,)
    return [
        KernelCall(
            HilDspMatvecPairsS8(
                rows=form.rows,
                depth=form.depth,
                units=_units(form),
                columns=form.channels,
                widened=widened,
                signs=int(affine.lacking is not None),
                shift=affine.shift,
                stream=stream,
            ),
            macs=form.macs,
        )
        for widened in kinds
    ]


def _stream(
    affine: _Affine, weights: npt.NDArray[np.int32], wide: bool, block: int = _PAIR
) -> Array:
    """What kernels read of each block of columns, one after the other: ``dsp/pairs_s8.h``."""
    first, second = _padded(affine.bias, block).reshape(-1, 2).T
    bias = [256 * first, 256 * second] if wide else [first, first + 256 * second]
    scales = _padded(np.stack(affine.scales, axis=1), block)
    blocks = len(scales) // block
    parts = [
        np.stack(bias, axis=1).reshape(blocks, -1),
        weights.reshape(blocks, -1),
        scales.reshape(blocks, -1),
    ]
    return np.concatenate(parts, axis=1).reshape(-1).astype(np.int32)


def _wide(matrix: Array) -> npt.NDArray[np.int32]:
    """Weights times 256 in half-words, words of both columns of a pair in turn."""
    depth = matrix.shape[1]
    whole = np.pad(_padded(matrix.astype(np.int16), _PAIR), ((0, 0), (0, -depth % _UNIT))) * 256
    units = whole.reshape(-1, _PAIR, whole.shape[1] // _UNIT, _UNIT)[..., _UNIT_ORDER]
    words = units.reshape(*units.shape[:3], 2, 2).transpose(0, 2, 3, 1, 4)
    return np.ascontiguousarray(words).reshape(-1).astype(np.int16).view(np.int32)


def _depthwise(form: DepthwiseConvolution) -> list[KernelCall]:
    """Filters of 3x3, one a channel."""
    window = form.window
    size = [window.filter_h, window.filter_w, window.dilation_h, window.dilation_w]
    stride = window.stride_w
    if form.multiplier > 1 or size != [3, 3, 1, 1] or stride != window.stride_h or stride > 2:
        return []
    channels = _channels(form.weights, form.requantization)
    if channels is None:
        return []
    return [*_depthwise_planes(form, channels), *_depthwise_lines(form, channels)]


def _depthwise_planes(form: DepthwiseConvolution, channels: _Channels) -> list[KernelCall]:
    """A channel's plane at a time: the whole of it, or some rows where that takes much scratch."""
    affine = _affine(channels, form.requantization)
    if affine is None:
        return []
    images, stride, left = form.images, form.window.stride_w, form.window.pad_left
    extent = (images.out_w - 1) * stride + 3
    columns = max(0, min(images.in_w, extent - left))
    line = columns + max(left, extent - left - columns)
    line += line % 2
    # Windows of the last row reach into the next, which is not there, and so does a word's end.
    beyond = max(0, extent + 1 - line)
    beyond += beyond % 2
    filters = channels.weights.reshape(-1, 3, 3)
    # Of each row of the filter, its columns 0, 1, 1, 2: two pairs.
    packed = np.ascontiguousarray(filters[..., (0, 1, 1, 2)]).reshape(-1)
    scales = np.stack([256 * affine.bias, *affine.scales], axis=1).reshape(-1).astype(np.int32)
    calls: list[KernelCall] = []
    for count in (images.out_h, 8, 2):
        parameters = HilDspDepthwisePlaneS8(
            images=images,
            stride=stride,
            pad_top=form.window.pad_top,
            pad_left=left,
            columns=columns,
            line=line,
            beyond=beyond,
            rows=min(count, images.out_h),
            in_zero_point=form.pad_value,
            shift=affine.shift,
            weights=packed,
            scales=scales,
        )
        call = KernelCall(parameters, macs=form.macs)
        if not calls or call.scratch_bytes < calls[-1].scratch_bytes:
            calls.append(call)
    return calls


def _depthwise_lines(form: DepthwiseConvolution, channels: _Channels) -> list[KernelCall]:
    """Four channels at a time, line by line, whatever the range of the outputs."""
    line = (form.images.out_w - 1) * form.window.stride_w + 3
    if line > _MAX_LINE or not channels.plain:
        return []
    outputs, filters = form.requantization, channels.weights.reshape(-1, 3, 3)
    parameters = HilDspDepthwise3x3S8(
        images=form.images,
        stride=form.window.stride_w,
        pad_top=form.window.pad_top,
        pad_left=form.window.pad_left,
        line=line,
        in_zero_point=form.pad_value,
        out_zero_point=outputs.out_zero_point,
        out_min=outputs.out_min,
        out_max=outputs.out_max,
        # By column of the filter, its rows 0, 1, 1, 2: two pairs.
        weights=np.ascontiguousarray(filters.transpose(0, 2, 1)[..., (0, 1, 1, 2)]).reshape(-1),
        bias=(2 * channels.bias).astype(np.int32),
        multipliers=channels.multipliers,
        shifts=channels.shifts,
    )
    return [KernelCall(parameters, macs=form.macs)]


@lowers("ADD", "SUB", dtypes={"int8"}, requires={"mul32"}, lacks={"mve"})
def sums(layer: Layer) -> Iterator[KernelCall]:
    """The sum or difference of tensors of one shape by one formula for both."""
    node, a, b, out = layer.node, layer.operand(0), layer.operand(1), layer.out
    if a.shape != b.shape or output_clamp(node, out) != (-128, 127):
        return
    values = np.arange(-128, 128, dtype=np.int8)
    pairs = np.broadcast_arrays(values[:, np.newaxis], values)
    (expected,) = reference(node, (a, b), (out,), pairs)
    first, second = (quantization(node, t)[0] / quantization(node, out)[0] for t in (a, b))
    factors = first, -second if node.op == "SUB" else second
    call = _sum_of_two(out.size, expected.astype(np.int64), factors)
    if call is not None:
        yield call


@lowers("ADD", dtypes={"int8"}, requires={"dsp"}, lacks={"mve"})
def add(layer: Layer) -> Iterator[KernelCall]:
    """The sum of tensors of one shape, one operand scaled by a table, the other by a shift."""
    node, a, b, out = layer.node, layer.operand(0), layer.operand(1), layer.out
    scales = sum_scales(node, a, b, out)
    right = -scales.out.shift
    # The larger scale's factor is one half; where both have it, either may be in the table.
    swapped = scales.a.shift < 0
    half = (scales.b if swapped else scales.a).shift == 0
    if a.shape != b.shape or not half or not 1 <= right <= MAX_SHIFT:
        return
    plain, scaled, scale = (b, a, scales.a) if swapped else (a, b, scales.b)
    values = np.arange(-128, 128) - quantization(node, scaled)[1]
    parts = requantize(values << SUM_HEADROOM_BITS, *scale)
    parts -= quantization(node, plain)[1] << (SUM_HEADROOM_BITS - 1)
    low, high = output_clamp(node, out)
    parameters = HilDspAddS8(
        length=out.size,
        swapped=int(swapped),
        multiplier=scales.out.mantissa,
        shift=right - 1,
        out_zero_point=quantization(node, out)[1],
        low=low,
        high=high,
        table=(2 * parts).astype(np.int32),
    )
    yield KernelCall(parameters, (0, 1))


def _sum_of_two(
    length: int, expected: npt.NDArray[np.int64], factors: tuple[float, float]
) -> KernelCall | None:
    """The sum of two tensors of ``length`` elements, each times its own of about ``factors``.

    ``expected [256, 256]`` is the output for every pair of values, from -128 on. None where no
    formula of the kernel gives just this.
    """
    values = np.arange(-128, 128)
    finest = min(22, 23 - int(np.ceil(np.log2(max(2**-16, *map(abs, factors))))))
    for tried in range(finest, max(0, finest - 3), -1):
        nearest = [round(factor * 2**tried) for factor in factors]
        for first, second in sorted(product(*(_around(n) for n in nearest)), key=_off(nearest)):
            sums = first * values[:, np.newaxis] + second * values
            least = np.where(expected > -128, (expected << tried) - sums, -(2**31)).max()
            most = np.where(expected < 127, (expected + 1 << tried) - 1 - sums, 2**31 - 1).min()
            addend = int(least + most) // 2
            if least <= most and abs(addend) + np.abs(sums).max() < 2**31:
                parameters = HilDspSumS8(
                    length=length, first=first, second=second, addend=addend, shift=tried
                )
                return KernelCall(parameters, (0, 1))
    return None


def _around(value: int) -> range:
    return range(value - 3, value + 4)


def _off(nearest: list[int]) -> Callable[[tuple[int, ...]], int]:
    """How far numbers are from these."""
    return lambda tried: sum(abs(t - n) for t, n in zip(tried, nearest, strict=True))


@lowers("AVERAGE_POOL_2D", dtypes={"int8"}, requires={"dsp"}, lacks={"mve"})
def average_pool(layer: Layer) -> Iterator[KernelCall]:
    """Averages over windows that lie inside the image."""
    x = layer.operand(0)
    window = pooling_window(layer.node, x)
    if window.padded or window.h.filter_size * window.w.filter_size > _POOL_TAPS:
        return
    low, high = pooling_clamp(layer.node, layer.out)
    parameters = HilDspAveragePoolS8(
        batches=x.shape[0],
        in_h=x.shape[1],
        in_w=x.shape[2],
        channels=x.shape[3],
        out_h=window.h.out_size,
        out_w=window.w.out_size,
        filter_h=window.h.filter_size,
        filter_w=window.w.filter_size,
        stride_h=window.h.stride,
        stride_w=window.w.stride,
        low=int(low),
        high=int(high),
    )
    yield KernelCall(parameters)


def _packed(
    matrix: Array, outputs: RequantizationParameters, block: int
) -> tuple[_Channels, Array, Array] | None:
    """The channels, their weights in blocks of ``block`` and the biases of pairs; None where they
    do not fit."""
    channels = _channels(matrix, outputs)
    weights = None if channels is None else _pairs(channels.weights, block)
    if channels is None or weights is None or not channels.plain:
        return None
    first, second = _padded(channels.bias, block).reshape(-1, 2).T
    return channels, weights, np.stack([first, first + 256 * second], axis=1)


def _pair_words(channels: _Channels, weights: Array, bias: Array) -> Array:
    """What each pair of columns does with its sums: HIL_DSP_PAIR_WORDS."""
    factors = _padded(channels.multipliers.astype(np.int64), _PAIR).reshape(-1, 2)
    moves = _padded(channels.shifts.astype(np.int64), _PAIR).reshape(-1, 2) @ (1, 256)
    pairs = np.concatenate([bias, factors, moves[:, np.newaxis]], axis=1)
    return pairs.reshape(-1).astype(np.int32)


@dataclass(frozen=True)
class _Channels:
    """Channels with shifts to the right."""

    weights: Array
    bias: npt.NDArray[np.int64]
    multipliers: npt.NDArray[np.int32]
    #: Shifts to the right.
    right: npt.NDArray[np.int64]
    #: The least and the largest sum that an input makes.
    lowest: npt.NDArray[np.int64]
    highest: npt.NDArray[np.int64]

    @property
    def plain(self) -> bool:
        """Whether sums and shifts are such that kernels can round twice as the reference does."""
        sums = max(self.highest.max(), -self.lowest.min())
        return bool(sums < _SUM_LIMIT and self.right.max() <= MAX_SHIFT)

    @property
    def shifts(self) -> npt.NDArray[np.int8]:
        """Shifts to the right, less one."""
        return (self.right - 1).astype(np.int8)


def _channels(matrix: Array, outputs: RequantizationParameters) -> _Channels | None:
    """The channels as the kernels take them; None where they cannot.

    A channel whose output is the same for every input, as nearly dead ones are whose bias exceeds
    all else, becomes one without weights.
    """
    if outputs.shifts.max() >= 0:
        return None
    weights = matrix.astype(np.int64)
    sums = outputs.bias.astype(np.int64)
    above, below = np.maximum(weights, 0).sum(axis=1), np.minimum(weights, 0).sum(axis=1)
    lowest = sums + 127 * below - 128 * above
    highest = sums + 127 * above - 128 * below
    right = np.broadcast_to(-outputs.shifts.astype(np.int64), sums.shape)
    factors = np.broadcast_to(outputs.multipliers.astype(np.int64), sums.shape)
    low, high, zero_point = outputs.out_min, outputs.out_max, outputs.out_zero_point
    least, most = (
        np.clip(requantize(end, factors, -right) + zero_point, low, high)
        for end in (lowest, highest)
    )
    # One scale for all leaves none of its own to such a channel.
    is_constant = (least == most) & bool(outputs.per_channel)
    # A quarter of four times the value.
    sums = np.where(is_constant, 4 * (least - zero_point), sums)
    weights = np.where(is_constant[:, np.newaxis], 0, weights)
    factors = np.where(is_constant, 1 << 30, factors)
    right = np.where(is_constant, 1, right)
    lowest, highest = (np.where(is_constant, sums, end) for end in (lowest, highest))
    return _Channels(
        weights.astype(np.int8), sums, factors.astype(np.int32), right, lowest, highest
    )


@dataclass(frozen=True)
class _Affine:
    """Requantisation as a multiplication, an addition and a shift.

    The output is ``addend + (256 * sum * multiplier >> 32) >> shift``, saturated, for the sum that
    starts from ``bias`` instead of the channel's own: a large one would not leave room for 256.
    """

    bias: npt.NDArray[np.int64]
    shifts: npt.NDArray[np.int64]
    multipliers: npt.NDArray[np.int64]
    addends: npt.NDArray[np.int64]
    #: What the addend lacks for negative sums; None where it is right for all.
    lacking: npt.NDArray[np.int64] | None
    #: Whether all channels have the same shift.
    shared: bool

    @property
    def shift(self) -> int:
        """The shift of all channels, 0 where each has its own."""
        return int(self.shifts[0]) if self.shared else 0

    @property
    def scales(self) -> list[npt.NDArray[np.int64]]:
        """Multipliers, addends and, where each channel has its own, what these lack and shifts."""
        lacking = [] if self.lacking is None else [self.lacking]
        return [self.multipliers, self.addends, *lacking, *([] if self.shared else [self.shifts])]


#: How far from the exact one a channel's multiplier may be, in its last place.
_TRIED_MULTIPLIERS = 64
_MAX_AFFINE_SHIFT = 22
#: The shift of all layers whose multipliers keep bits enough with it.
_USUAL_SHIFT = 12


def _affine(
    channels: _Channels, outputs: RequantizationParameters, signs: bool = False
) -> _Affine | None:
    """The requantisation in that form; None where it is not proven to be the same.

    All channels share the least shift if that leaves the others' multipliers bits enough. Halves
    are rounded away from zero, which no one line does for both signs unless one of them is clamped:
    with ``signs`` negative sums may have an addend of their own.
    """
    if (outputs.out_min, outputs.out_max) != (-128, 127):
        return None
    zero_point = outputs.out_zero_point
    numbers = (
        channels.bias,
        channels.multipliers,
        channels.right,
        channels.lowest,
        channels.highest,
    )
    key = (*(array.tobytes() for array in numbers), zero_point, signs)
    if key not in _AFFINES:
        if len(_AFFINES) >= _AFFINES_KEPT:
            _AFFINES.clear()
        _AFFINES[key] = _proven(channels, zero_point, signs)
    return _AFFINES[key]


#: What was proven for a layer's channels holds for all bands of its image.
_AFFINES: dict[tuple[object, ...], _Affine | None] = {}
_AFFINES_KEPT = 200


def _proven(channels: _Channels, zero_point: int, signs: bool) -> _Affine | None:
    first = _thresholds(channels, _LEVELS - zero_point)
    if first is None:
        return None
    large = np.maximum(channels.highest, -channels.lowest) >= _SUM_LIMIT
    moved = np.where(large, (channels.lowest + channels.highest) // 2, 0)
    first = first - moved[:, np.newaxis]
    lowest, highest = channels.lowest - moved, channels.highest - moved
    if max(highest.max(), -lowest.min()) >= _SUM_LIMIT:
        return None
    fixed = lowest == highest
    own = np.where(fixed, _MAX_AFFINE_SHIFT, np.minimum(_MAX_AFFINE_SHIFT, 7 + channels.right))
    least = np.full_like(own, own.min())
    # A unit of the first rounding, in the addend's.
    unit = np.where(fixed, 0, 1 << np.maximum(least - channels.right, 0))
    none = np.zeros_like(unit)
    # The same for many layers, which then may share a body: it is a number in the code.
    usual = np.minimum(least, _USUAL_SHIFT)
    tried = [
        (usual, none),
        (least, none),
        *([(least, unit)] if signs and not large.any() else []),
        (own, none),
    ]
    for shifts, lacking in tried:
        # 2**-31 * 2**-right is a multiplier's weight in the sum's factor, 2**-(24 + shift) here.
        excess = channels.right + 7 - shifts
        exact = (channels.multipliers.astype(np.int64) << 1 >> np.maximum(excess, 0)) + 1 >> 1
        found = _lines(first, lowest, highest, shifts, np.where(fixed, 0, exact), lacking)
        if found is not None:
            shared = bool((shifts == shifts[0]).all())
            given = lacking if lacking.any() else None
            return _Affine(channels.bias - moved, shifts, *found, given, shared)
    return None


#: Every output but the least, which is what a sum gives that reaches none of these.
_LEVELS = np.arange(-127, 128)


def _lines(
    first: npt.NDArray[np.int64],
    lowest: npt.NDArray[np.int64],
    highest: npt.NDArray[np.int64],
    shifts: npt.NDArray[np.int64],
    exact: npt.NDArray[np.int64],
    lacking: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
    """A multiplier near ``exact`` and an addend for each channel; None where one has none.

    ``lacking`` is what is taken from the addend for negative sums.

    Outputs rise with sums, by whichever formula, so two formulas agree for all sums if the same
    sum is the ``first`` to give each of the 256 values.
    """
    multipliers, addends = exact.copy(), np.zeros_like(exact)
    offsets = np.array(sorted(range(-_TRIED_MULTIPLIERS, _TRIED_MULTIPLIERS + 1), key=abs))
    candidates = np.clip(exact[:, np.newaxis] + offsets, 0, 2**31 - 1)
    #: By channel and candidate, whether it may do, as far as is known.
    possible = np.ones(candidates.shape, bool)
    left = np.arange(len(exact))
    while left.size:
        if not possible[left].any(axis=1).all():
            return None
        nearest = possible[left].argmax(axis=1)
        tried = candidates[left, nearest, np.newaxis]
        sums, reached = first[left], _LEVELS << shifts[left, np.newaxis]
        low, high = lowest[left, np.newaxis], highest[left, np.newaxis]
        lack = lacking[left, np.newaxis]
        at, before = (256 * x * tried >> 32 for x in (sums, sums - 1))
        least = np.where(sums <= high, reached - at + np.where(sums < 0, lack, 0), -_ANY)
        most = np.where(sums > low, reached - 1 - before + np.where(sums <= 0, lack, 0), _ANY)
        # The two sums between which a line is the most too flat, or too steep.
        channels = np.arange(left.size)
        one, other = (channels, least.argmax(axis=1)), (channels, most.argmin(axis=1))
        needed, allowed = least[one], most[other]
        addend = (np.maximum(needed, -(2**31)) + np.minimum(allowed, 2**31)) >> 1
        ends = np.abs(256 * np.concatenate([low, high], axis=1) * tried >> 32).max(axis=1)
        found = (needed <= allowed) & (np.abs(addend) + ends + lacking[left] < 2**31)
        multipliers[left[found]] = tried[found, 0]
        addends[left[found]] = addend[found]
        # From the one sum to the other it may rise so much; rounding down takes less than 1 of it.
        rise = allowed - needed + before[other] - at[one] + 1
        run = sums[other] - 1 - sums[one]
        may = run[:, np.newaxis] * candidates[left] < rise[:, np.newaxis] << 24
        possible[left] &= may | (needed <= allowed)[:, np.newaxis]
        possible[left, nearest] = False
        left = left[~found]
    return multipliers, addends


#: Beyond every addend.
_ANY = 2**40


def _thresholds(channels: _Channels, levels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
    """The first sum of each channel whose output is no less than each level above the zero point.

    It lies between the channel's least sum and one more than its largest, which stands for none.
    """
    right = channels.right[:, np.newaxis]
    factors = channels.multipliers.astype(np.int64)[:, np.newaxis]
    low, high = channels.lowest[:, np.newaxis], channels.highest[:, np.newaxis]
    # Halves are rounded away from zero.
    rounded = (levels << right) - (1 << right - 1) + (levels <= 0)
    guess = np.clip(-(((1 << 30) - (rounded << 31)) // np.maximum(factors, 1)), low, high + 1)
    found = np.full(guess.shape, 2**40)
    for sums in (guess + 1, guess, guess - 1):
        enough = (requantize(sums, factors, -right) >= levels) & (sums <= high) & (sums >= low)
        found = np.where(enough, sums, found)
    found = np.minimum(found, high + 1)
    before = (found > low) & (requantize(found - 1, factors, -right) >= levels)
    after = (found <= high) & (requantize(found, factors, -right) < levels)
    return None if (before | after).any() else found


def _padded(values: Array, block: int) -> Array:
    """``values`` along the first axis, with zeros up to a whole number of blocks."""
    return np.pad(values, [(0, -len(values) % block)] + [(0, 0)] * (values.ndim - 1))


def _pairs(matrix: Array, block: int) -> npt.NDArray[np.int16] | None:
    """Weights as ``kernels/dsp/columns_s8.h`` lays them out; None where a pair needs 17 bits."""
    depth = matrix.shape[1]
    whole = np.pad(_padded(matrix.astype(np.int32), block), ((0, 0), (0, -depth % _UNIT)))
    pairs = 256 * whole[1::2] + whole[::2]
    if pairs.min() < np.iinfo(np.int16).min:
        return None
    units = pairs.reshape(-1, block // 2, whole.shape[1] // _UNIT, _UNIT)[..., _UNIT_ORDER]
    return np.ascontiguousarray(units.transpose(0, 2, 1, 3)).reshape(-1).astype(np.int16)
