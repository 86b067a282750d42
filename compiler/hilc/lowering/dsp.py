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
from hilc.lowering.generic.pooling import pooling_fields
from hilc.lowering.kernels import FieldValue, KernelCall, kernels
from hilc.lowering.linear import (
    LINEAR,
    Convolution,
    DepthwiseConvolution,
    MatrixProduct,
    linear_form,
)
from hilc.lowering.registry import Layer, lowers
from hilc.numerics.requantize import requantize
from hilc.ops.binary import SUM_HEADROOM_BITS, reference, sum_scales
from hilc.ops.operands import output_clamp, quantization
from hilc.ops.pooling import pooling_window

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

Fields = dict[str, FieldValue]


@lowers(*LINEAR, dtypes={"int8"}, requires={"dsp"}, lacks={"mve"})
def linear(layer: Layer) -> list[KernelCall]:
    """The family's kernels for a linear layer."""
    form = linear_form(layer)
    if isinstance(form, MatrixProduct):
        return matmul(form.rows, form.columns, form.channels, form.macs)
    if isinstance(form, Convolution):
        window = {**form.window, "in_zero_point": form.fill}
        return conv2d(window, form.columns, form.channels, form.macs)
    assert isinstance(form, DepthwiseConvolution)
    if form.multiplier > 1:
        return []
    return depthwise(form.window, form.fill, form.filters, form.channels, form.macs)


def matmul(rows: int, columns: Array, channel_fields: Fields, macs: int) -> list[KernelCall]:
    """``rows`` rows times ``columns [channels, depth]``."""
    fields: Fields = {"rows": rows, "depth": columns.shape[1], "columns": columns.shape[0]}
    few = rows < _FEW_ROWS
    name = "hil_dsp_matvec_pairs_s8" if few else "hil_dsp_matmul_pairs_s8"
    streams = _vector_streams(columns, channel_fields) if few else _streams(columns, channel_fields)
    calls = [KernelCall(kernels()[name], {**fields, **stream}, macs=macs) for stream in streams]
    packed = _packed(columns, channel_fields, _VECTOR_BLOCK if few else _PAIR)
    if packed is None:
        return calls
    if few:
        vector = kernels()["hil_dsp_matvec_s8"]
        # Without scratch it costs two instructions in sixteen.
        return calls + [
            KernelCall(vector, {**fields, "widened": widened, **packed}, macs=macs)
            for widened in (1, 0)
        ]
    return [*calls, KernelCall(kernels()["hil_dsp_matmul_s8"], {**fields, **packed}, macs=macs)]


def conv2d(window: Fields, columns: Array, channel_fields: Fields, macs: int) -> list[KernelCall]:
    """A convolution of which each filter is one of ``columns [channels, depth]``."""
    fields: Fields = {**window, "out_c": columns.shape[0]}
    direct = _direct(fields, columns, channel_fields, macs)
    lavish = _winograd(window, columns, channel_fields, macs)
    packed = _packed(columns, channel_fields, _PAIR)
    if packed is None:
        return [*direct, *lavish]
    gathered = KernelCall(kernels()["hil_dsp_conv2d_s8"], {**fields, **packed}, macs=macs)
    return [*direct, gathered, *lavish]


def _direct(fields: Fields, columns: Array, channel_fields: Fields, macs: int) -> list[KernelCall]:
    """The convolution from windows that are widened where they lie."""
    in_c, filter_h, filter_w = (_int(fields[name]) for name in ("in_c", "filter_h", "filter_w"))
    run = filter_w * in_c
    if in_c % _UNIT != 0:
        # The kernel reads rows of windows in words.
        if filter_w > 1 and fields["dilation_w"] != 1:
            return []
        # First the whole words of each row, then what is left of each.
        rows = columns.reshape(-1, filter_h, run)
        whole = run - run % _UNIT
        parts = [rows[:, :, :whole], rows[:, :, whole:]]
        columns = np.concatenate([part.reshape(len(rows), -1) for part in parts], axis=1)
    border = np.full(in_c, fields["in_zero_point"], np.int8)
    kernel = kernels()["hil_dsp_conv2d_pairs_s8"]
    return [
        KernelCall(kernel, {**fields, **stream, "border": border}, macs=macs)
        for stream in _streams(columns, channel_fields)
    ]


#: From a filter's row to four numbers, of which two outputs next to each other are made: twice G.
_WINOGRAD = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]])


def _winograd(
    window: Fields, columns: Array, channel_fields: Fields, macs: int
) -> list[KernelCall]:
    """The convolution by fewer products, of weights that take 3.6 times the flash; where it can.

    That is a filter of 3x3 over neighbouring pixels of whole units, one pixel after the other.
    """
    in_c = _int(window["in_c"])
    names = [f"{name}_{axis}" for name in ("filter", "stride", "dilation") for axis in "hw"]
    if [window[name] for name in names] != [3, 3, 1, 1, 1, 1] or in_c % _UNIT != 0:
        return []
    channels = _channels(columns, channel_fields)
    affine = None if channels is None else _affine(channels, channel_fields, signs=True)
    if channels is None or affine is None or not affine.shared:
        return []
    filters = _padded(channels.columns.astype(np.int64), _PAIR).reshape(-1, 3, 3, in_c)
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
    kept = ("batch", "in_h", "in_w", "in_c", "out_h", "out_w", "pad_top", "pad_left")
    fields: Fields = {
        **{name: window[name] for name in kept},
        "out_c": columns.shape[0],
        "units": in_c // _UNIT,
        "signs": int(affine.lacking is not None),
        "shift": affine.shift,
        "stream": np.concatenate(parts, axis=1).reshape(-1).astype(np.int32),
        "border": np.full(in_c, window["in_zero_point"], np.int8),
    }
    return [KernelCall(kernels()["hil_dsp_winograd_3x3_s8"], fields, macs=macs)]


def _streams(columns: Array, channel_fields: Fields) -> list[Fields]:
    """The fields of ``struct hil_dsp_pairs_s8``, where it serves, in the ways that there are."""
    channels = _channels(columns, channel_fields)
    affine = None if channels is None else _affine(channels, channel_fields, signs=True)
    if channels is None or affine is None or not affine.shared:
        return []
    pairs = _pairs(channels.columns, _PAIR)
    # Wide weights take twice the room and save an instruction in seventeen.
    kinds = [(3, True), (2, True)]
    if pairs is not None and columns.size > _SMALL_WEIGHTS:
        kinds = [(3, False), (3, True), (2, False)]
    found: list[Fields] = []
    for group, wide in kinds:
        if wide:
            weights = _wide(channels.columns)
        else:
            assert pairs is not None
            weights = pairs.view(np.int32)
        found.append(
            {
                "units": -(-columns.shape[1] // _UNIT),
                "group": group,
                "wide": int(wide),
                "signs": int(affine.lacking is not None),
                "shift": affine.shift,
                "stream": _stream(affine, weights, wide),
            }
        )
    return found


def _vector_streams(columns: Array, channel_fields: Fields) -> list[Fields]:
    """The fields of ``hil_dsp_matvec_pairs_s8`` that describe the columns, where it serves."""
    channels = _channels(columns, channel_fields)
    affine = None if channels is None else _affine(channels, channel_fields, signs=True)
    weights = None if channels is None else _pairs(channels.columns, _VECTOR_BLOCK)
    if affine is None or weights is None or not affine.shared:
        return []
    fields: Fields = {
        "units": -(-columns.shape[1] // _UNIT),
        "signs": int(affine.lacking is not None),
        "shift": affine.shift,
        "stream": _stream(affine, weights.view(np.int32), wide=False, block=_VECTOR_BLOCK),
    }
    # Without scratch it costs two instructions in sixteen.
    kinds = (1, 0) if columns.shape[1] % _UNIT == 0 else (1,)
    return [{**fields, "widened": widened} for widened in kinds]


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


def _wide(columns: Array) -> npt.NDArray[np.int32]:
    """Weights times 256 in half-words, words of both columns of a pair in turn."""
    depth = columns.shape[1]
    whole = np.pad(_padded(columns.astype(np.int16), _PAIR), ((0, 0), (0, -depth % _UNIT))) * 256
    units = whole.reshape(-1, _PAIR, whole.shape[1] // _UNIT, _UNIT)[..., _UNIT_ORDER]
    words = units.reshape(*units.shape[:3], 2, 2).transpose(0, 2, 3, 1, 4)
    return np.ascontiguousarray(words).reshape(-1).astype(np.int16).view(np.int32)


def depthwise(
    window: Fields, fill: int, weights: Array, channel_fields: Fields, macs: int
) -> list[KernelCall]:
    """A depthwise convolution with ``weights [channels, filter_h, filter_w]``, one a channel.

    ``window`` are the fields that place it, ``fill`` is what positions outside the image hold.
    """
    size = [window[f"{name}_{axis}"] for name in ("filter", "dilation") for axis in "hw"]
    stride = window["stride_w"]
    assert isinstance(stride, int)
    if size != [3, 3, 1, 1] or stride != window["stride_h"] or stride > 2:
        return []
    channels = _channels(weights.reshape(-1, 9), channel_fields)
    if channels is None:
        return []
    names = ("batch", "in_h", "in_w", "in_c", "out_h", "out_w", "pad_top", "pad_left")
    place: Fields = {**{name: window[name] for name in names}, "stride": stride}
    place["in_zero_point"] = fill
    return [
        *_depthwise_planes(place, channels, channel_fields, macs),
        *_depthwise_lines(place, channels, channel_fields, macs),
    ]


def _depthwise_planes(
    place: Fields, channels: _Channels, channel_fields: Fields, macs: int
) -> list[KernelCall]:
    """A channel's plane at a time: the whole of it, or some rows where that takes much scratch."""
    affine = _affine(channels, channel_fields)
    if affine is None:
        return []
    in_w, out_w, out_h, stride, left = (
        _int(place[name]) for name in ("in_w", "out_w", "out_h", "stride", "pad_left")
    )
    extent = (out_w - 1) * stride + 3
    columns = max(0, min(in_w, extent - left))
    line = columns + max(left, extent - left - columns)
    line += line % 2
    # Windows of the last row reach into the next, which is not there, and so does a word's end.
    beyond = max(0, extent + 1 - line)
    rows = channels.columns.reshape(-1, 3, 3)
    # Of each row of the filter, its columns 0, 1, 1, 2: two pairs.
    packed = np.ascontiguousarray(rows[..., (0, 1, 1, 2)]).reshape(-1)
    scales = np.stack([256 * affine.bias, *affine.scales], axis=1)
    fields: Fields = {
        **place,
        "columns": columns,
        "line": line,
        "beyond": beyond + beyond % 2,
        "shift": affine.shift,
        "weights": packed,
        "scales": scales.reshape(-1).astype(np.int32),
    }
    kernel = kernels()["hil_dsp_depthwise_plane_s8"]
    calls: list[KernelCall] = []
    for count in (out_h, 8, 2):
        call = KernelCall(kernel, {**fields, "rows": min(count, out_h)}, macs=macs)
        if not calls or call.scratch_bytes < calls[-1].scratch_bytes:
            calls.append(call)
    return calls


def _depthwise_lines(
    place: Fields, channels: _Channels, channel_fields: Fields, macs: int
) -> list[KernelCall]:
    """Four channels at a time, line by line, whatever the range of the outputs."""
    line = (_int(place["out_w"]) - 1) * _int(place["stride"]) + 3
    if line > _MAX_LINE or not channels.plain:
        return []
    rows = channels.columns.reshape(-1, 3, 3)
    # By column of the filter, its rows 0, 1, 1, 2: two pairs.
    packed = np.ascontiguousarray(rows.transpose(0, 2, 1)[..., (0, 1, 1, 2)]).reshape(-1)
    fields: Fields = {
        **place,
        "line": line,
        **{k: channel_fields[k] for k in _KEPT_FIELDS},
        "bias": (2 * channels.bias).astype(np.int32),
        "multipliers": channels.mantissas,
        "shifts": channels.shifts,
        "weights": packed,
    }
    return [KernelCall(kernels()["hil_dsp_depthwise_3x3_s8"], fields, macs=macs)]


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
    fields: Fields = {
        "length": out.size,
        "swapped": int(swapped),
        "mantissa": scales.out.mantissa,
        "shift": right - 1,
        "out_zero_point": quantization(node, out)[1],
        "low": low,
        "high": high,
        "table": (2 * parts).astype(np.int32),
    }
    yield KernelCall(kernels()["hil_dsp_add_s8"], fields, (0, 1))


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
                fields: Fields = {
                    "length": length,
                    "first": first,
                    "second": second,
                    "addend": addend,
                    "shift": tried,
                }
                return KernelCall(kernels()["hil_dsp_sum_s8"], fields, (0, 1))
    return None


def _around(value: int) -> range:
    return range(value - 3, value + 4)


def _off(nearest: list[int]) -> Callable[[tuple[int, ...]], int]:
    """How far numbers are from these."""
    return lambda tried: sum(abs(t - n) for t, n in zip(tried, nearest, strict=True))


@lowers("AVERAGE_POOL_2D", dtypes={"int8"}, requires={"dsp"}, lacks={"mve"})
def average_pool(layer: Layer) -> Iterator[KernelCall]:
    """Averages over windows that lie inside the image."""
    window = pooling_window(layer.node, layer.operand(0))
    if window.padded or window.h.filter_size * window.w.filter_size > _POOL_TAPS:
        return
    kept = {k: v for k, v in pooling_fields(layer).items() if not k.startswith("pad_")}
    yield KernelCall(kernels()["hil_dsp_average_pool_s8"], kept)


def _int(value: FieldValue) -> int:
    assert isinstance(value, int)
    return value


def _packed(columns: Array, channel_fields: Fields, block: int) -> Fields | None:
    """The fields that describe the columns, in blocks of ``block``; None where they do not fit."""
    channels = _channels(columns, channel_fields)
    weights = None if channels is None else _pairs(channels.columns, block)
    if channels is None or weights is None or not channels.plain:
        return None
    fields: Fields = {
        "units": -(-columns.shape[1] // _UNIT),
        **{k: channel_fields[k] for k in _KEPT_FIELDS},
        "weights": weights,
    }
    first, second = _padded(channels.bias, block).reshape(-1, 2).T
    bias = np.stack([first, first + 256 * second], axis=1)
    if block == _VECTOR_BLOCK:
        per_channel = channel_fields["per_channel"]
        mantissas, shifts = channels.mantissas, channels.shifts
        return {
            **fields,
            "per_channel": per_channel,
            "bias": bias.reshape(-1).astype(np.int32),
            "multipliers": _padded(mantissas, block) if per_channel else mantissas[:1],
            "shifts": _padded(shifts, block) if per_channel else shifts[:1],
        }
    factors = _padded(channels.mantissas.astype(np.int64), block).reshape(-1, 2)
    moves = _padded(channels.shifts.astype(np.int64), block).reshape(-1, 2) @ (1, 256)
    pairs = np.concatenate([bias, factors, moves[:, np.newaxis]], axis=1)
    return {**fields, "pairs": pairs.reshape(-1).astype(np.int32)}


_KEPT_FIELDS = ("out_zero_point", "out_min", "out_max")


@dataclass(frozen=True)
class _Channels:
    """Channels with shifts to the right."""

    columns: Array
    bias: npt.NDArray[np.int64]
    mantissas: npt.NDArray[np.int32]
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


def _channels(columns: Array, channel_fields: Fields) -> _Channels | None:
    """The channels as the kernels take them; None where they cannot.

    A channel whose output is the same for every input, as nearly dead ones are whose bias exceeds
    all else, becomes one without weights.
    """
    bias, mantissas, shifts = (channel_fields[k] for k in ("bias", "multipliers", "shifts"))
    assert isinstance(bias, np.ndarray)
    assert isinstance(mantissas, np.ndarray)
    assert isinstance(shifts, np.ndarray)
    if shifts.max() >= 0:
        return None
    weights = columns.astype(np.int64)
    sums = bias.astype(np.int64)
    above, below = np.maximum(weights, 0).sum(axis=1), np.minimum(weights, 0).sum(axis=1)
    lowest = sums + 127 * below - 128 * above
    highest = sums + 127 * above - 128 * below
    right = np.broadcast_to(-shifts.astype(np.int64), sums.shape)
    factors = np.broadcast_to(mantissas.astype(np.int64), sums.shape)
    low, high = channel_fields["out_min"], channel_fields["out_max"]
    zero_point = _int(channel_fields["out_zero_point"])
    least, most = (
        np.clip(requantize(end, factors, -right) + zero_point, low, high)
        for end in (lowest, highest)
    )
    # One scale for all leaves none of its own to such a channel.
    settled = (least == most) & bool(channel_fields["per_channel"])
    # A quarter of four times the value.
    sums = np.where(settled, 4 * (least - zero_point), sums)
    weights = np.where(settled[:, np.newaxis], 0, weights)
    factors = np.where(settled, 1 << 30, factors)
    right = np.where(settled, 1, right)
    lowest, highest = (np.where(settled, sums, end) for end in (lowest, highest))
    return _Channels(
        weights.astype(np.int8), sums, factors.astype(np.int32), right, lowest, highest
    )


@dataclass(frozen=True)
class _Affine:
    """Requantisation as a multiplication, an addition and a shift.

    The output is ``addend + (256 * sum * mantissa >> 32) >> shift``, saturated, for the sum that
    starts from ``bias`` instead of the channel's own: a large one would not leave room for 256.
    """

    bias: npt.NDArray[np.int64]
    shifts: npt.NDArray[np.int64]
    mantissas: npt.NDArray[np.int64]
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
        """Mantissas, addends and, where each channel has its own, what these lack and shifts."""
        lacking = [] if self.lacking is None else [self.lacking]
        return [self.mantissas, self.addends, *lacking, *([] if self.shared else [self.shifts])]


#: How far from the exact one a channel's mantissa may be, in its last place.
_TRIED_MANTISSAS = 64
_MAX_AFFINE_SHIFT = 22
#: The shift of all layers whose mantissas keep bits enough with it.
_USUAL_SHIFT = 12


def _affine(channels: _Channels, channel_fields: Fields, signs: bool = False) -> _Affine | None:
    """The requantisation in that form; None where it is not proven to be the same.

    All channels share the least shift if that leaves the others' mantissas bits enough. Halves are
    rounded away from zero, which no one line does for both signs unless one of them is clamped:
    with ``signs`` negative sums may have an addend of their own.
    """
    if (channel_fields["out_min"], channel_fields["out_max"]) != (-128, 127):
        return None
    zero_point = _int(channel_fields["out_zero_point"])
    numbers = (channels.bias, channels.mantissas, channels.right, channels.lowest, channels.highest)
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
        # 2**-31 * 2**-right is a mantissa's weight in the sum's multiplier, 2**-(24 + shift) here.
        excess = channels.right + 7 - shifts
        exact = (channels.mantissas.astype(np.int64) << 1 >> np.maximum(excess, 0)) + 1 >> 1
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
    """A mantissa near ``exact`` and an addend for each channel; None where one has none.

    ``lacking`` is what is taken from the addend for negative sums.

    Outputs rise with sums, by whichever formula, so two formulas agree for all sums if the same
    sum is the ``first`` to give each of the 256 values.
    """
    mantissas, addends = exact.copy(), np.zeros_like(exact)
    offsets = np.array(sorted(range(-_TRIED_MANTISSAS, _TRIED_MANTISSAS + 1), key=abs))
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
        mantissas[left[found]] = tried[found, 0]
        addends[left[found]] = addend[found]
        # From the one sum to the other it may rise so much; rounding down takes less than 1 of it.
        rise = allowed - needed + before[other] - at[one] + 1
        run = sums[other] - 1 - sums[one]
        may = run[:, np.newaxis] * candidates[left] < rise[:, np.newaxis] << 24
        possible[left] &= may | (needed <= allowed)[:, np.newaxis]
        possible[left, nearest] = False
        left = left[~found]
    return mantissas, addends


#: Beyond every addend.
_ANY = 2**40


def _thresholds(channels: _Channels, levels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
    """The first sum of each channel whose output is no less than each level above the zero point.

    It lies between the channel's least sum and one more than its largest, which stands for none.
    """
    right = channels.right[:, np.newaxis]
    factors = channels.mantissas.astype(np.int64)[:, np.newaxis]
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


def _pairs(columns: Array, block: int) -> npt.NDArray[np.int16] | None:
    """Weights as ``kernels/dsp/columns_s8.h`` lays them out; None where a pair needs 17 bits."""
    depth = columns.shape[1]
    whole = np.pad(_padded(columns.astype(np.int32), block), ((0, 0), (0, -depth % _UNIT)))
    pairs = 256 * whole[1::2] + whole[::2]
    if pairs.min() < np.iinfo(np.int16).min:
        return None
    units = pairs.reshape(-1, block // 2, whole.shape[1] // _UNIT, _UNIT)[..., _UNIT_ORDER]
    return np.ascontiguousarray(units.transpose(0, 2, 1, 3)).reshape(-1).astype(np.int16)
