"""Maxima and averages of int8 windows with RISC-V's vectors (Zve32x), emitted for each layer.

A call makes one pixel, as many channels at a time as registers hold. Averages are sums of int16
that :func:`~hilc.lowering.rvv.scaling.upper_line` brings to outputs, compared for all sums. A
MEAN over axes side by side is an average over an image of one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from hilc.ir import ELEMENT_TYPES
from hilc.lowering.generic.pooling import any_windows
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilPool, HilPoolWindows
from hilc.lowering.records import record
from hilc.lowering.registry import Layer, cached_per_layer, lowers
from hilc.lowering.riscv.emitted import NAME, Description, EmittedParameters, emitted
from hilc.lowering.riscv.emitter import ZERO, Register
from hilc.lowering.rvv.emitter import COUNTED_BITS, GROUPS, VectorFunction
from hilc.lowering.rvv.scaling import UpperLine, emit_line, signed_word, upper_line
from hilc.numerics.requantize import requantize
from hilc.ops.mean import block_of_values, divisor, mean_scale
from hilc.ops.opdef import TWICE_OR_EVEN
from hilc.ops.operands import quantization
from hilc.ops.pooling import average_scales, is_scaled, pooling_clamp, pooling_window

_INT8 = ELEMENT_TYPES["int8"].bounds
#: Instructions of the glue, and of its loop for a pixel.
_CALL, _PIXEL = 40.0, 50.0
#: Channels of a turn with registers of the counted size.
_CHANNELS = COUNTED_BITS * GROUPS[1] // 8
#: Values whose sum is sure to be an int16.
_MOST_VALUES = 256


@record(frozen=True, eq=False, kw_only=True)
class MaxPoolParameters(EmittedParameters):
    """The fields of an emitted kernel of maxima."""

    pool: HilPool
    low: int
    high: int


@record(frozen=True, eq=False, kw_only=True)
class AveragePoolParameters(EmittedParameters):
    """The fields of an emitted kernel of averages."""

    pool: HilPool
    multiplier: int
    addend: int
    low: int
    high: int


@lowers("MAX_POOL_2D", dtypes={"int8"}, requires={"zve32x"}, roundings=TWICE_OR_EVEN)
def maxima(layer: Layer) -> KernelCall:
    """Return the maxima over windows, which may reach beyond the image."""
    low, high = (int(end) for end in pooling_clamp(layer.node, layer.out))
    return KernelCall(_max_class()(pool=any_windows(layer), low=low, high=high))


@lowers("AVERAGE_POOL_2D", dtypes={"int8"}, requires={"zve32x"}, roundings=TWICE_OR_EVEN)
def averages(layer: Layer) -> Iterator[KernelCall]:
    """Yield the averages over windows inside the image."""
    low, high = (int(end) for end in pooling_clamp(layer.node, layer.out))
    line = _line_of_pool(layer)
    if line is not None:
        yield _average("average_pool_s8", any_windows(layer), line, (low, high))


@lowers("MEAN", "SUM", dtypes={"int8"}, requires={"zve32x"}, roundings=TWICE_OR_EVEN)
def means(layer: Layer) -> Iterator[KernelCall]:
    """Yield the means or sums over axes side by side, of as many channels as lie behind them."""
    blocks, line = block_of_values(layer.node, layer.ins), _line_of_mean(layer)
    if blocks is None or line is None or blocks[2] == 1:
        return
    batches, count, channels = blocks
    windows = HilPoolWindows(
        batches=batches, in_h=1, in_w=count, channels=channels, out_h=1, out_w=1,
        filter_h=1, filter_w=count, stride_h=1, stride_w=1,
    )  # fmt: skip
    pool = HilPool(pool_windows=windows, pad_top=0, pad_left=0)
    yield _average("mean_s8", pool, line, _INT8)


def _average(operator: str, pool: HilPool, line: UpperLine, bounds: tuple[int, int]) -> KernelCall:
    parameters = _average_class(operator, line.bits, line.shift)(
        pool=pool, multiplier=signed_word(line.multiplier), addend=line.addend,
        low=bounds[0], high=bounds[1],
    )  # fmt: skip
    return KernelCall(parameters)


@cached_per_layer
def _line_of_pool(layer: Layer) -> UpperLine | None:
    node, x, out = layer.node, layer.operand(0), layer.out
    window = pooling_window(node, x)
    count = window.h.filter_size * window.w.filter_size
    if window.padded or count > _MOST_VALUES:
        return None
    zero_point, added = quantization(node, x)[1], quantization(node, out)[1]

    def outputs(sums: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        if is_scaled(node):
            scale = average_scales(node, x, out)[-1]
            return requantize(sums - zero_point * count, *scale, node.rounding) + added
        nearest: npt.NDArray[np.int64] = (np.abs(sums) + count // 2) // count
        return np.where(sums < 0, -nearest, nearest)

    low, high = (int(end) for end in pooling_clamp(node, out))
    ratio = quantization(node, x)[0] / quantization(node, out)[0] if is_scaled(node) else 1.0
    return _line(count, outputs, (low, high), ratio / count)


@cached_per_layer
def _line_of_mean(layer: Layer) -> UpperLine | None:
    node, x, out = layer.node, layer.operand(0), layer.out
    count = x.size // out.size
    if count > _MOST_VALUES:
        return None
    scale = mean_scale(node, x, out, count)
    offset, added = quantization(node, x)[1] * count, quantization(node, out)[1]
    real = quantization(node, x)[0] / quantization(node, out)[0] / divisor(node, count)
    return _line(
        count, lambda sums: requantize(sums - offset, *scale, node.rounding) + added, _INT8, real
    )


def _line(
    count: int,
    outputs: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]],
    bounds: tuple[int, int],
    real: float,
) -> UpperLine | None:
    """Return the line of the outputs of all sums of ``count`` values."""
    first, last = (end * count for end in _INT8)
    sums = np.arange(first, last + 1, dtype=np.int64)
    return upper_line(sums, np.clip(outputs(sums), *bounds), bounds, real)


def emit_pool(line: UpperLine | None, rows: int = 1, columns: int = 1) -> VectorFunction:
    """Return the function that makes a pixel: of averages, or without a line of maxima. It is
    counted for a turn of channels, and a window of so many rows and columns.
    """
    parameters = [("in", "read"), ("out", "write"), ("left", "word"), ("rows", "word")]
    parameters += [("columns", "word"), ("step", "word"), ("line", "word"), ("p", "read")]
    f = VectorFunction(f"{NAME}_pixel", parameters)
    source, out, left, height, width, step, below, constants = f.arguments
    length, row, column = f.words("turn", 3)
    begin, pixel = f.address("begin"), f.address("pixel")
    scales = f.words("scale", 4 if line else 2)
    for i, register in enumerate(scales):
        f.load("lw", register, 4 * i, constants)
    if line:
        f.round_down()
    with f.loop(1, left, ZERO, always=True):
        f.length(length, left, 1)
        if line:
            f.elements(2)
            f.fill(0, ZERO)
            f.elements(1)
        else:
            f.load_vector(0, 1, source)
        f.index(begin, source, ZERO)
        f.move(row, height)
        with f.loop(rows, row, ZERO, always=True):
            f.index(pixel, begin, ZERO)
            f.move(column, width)
            with f.loop(columns, column, ZERO, always=True):
                f.load_vector(4, 1, pixel)
                f.advance(column, -1)
                f.add_to(pixel, step)
                if line:
                    f.add_bytes(0, 4)
                else:
                    f.vectors("vmax", 0, 0, 4)
            f.advance(row, -1)
            f.add_to(begin, below)
        if line:
            _emit_average(f, line, scales)
        f.with_scalar("vmax", 0, 0, scales[-2])
        f.with_scalar("vmin", 0, 0, scales[-1])
        f.store_vector(0, 1, out)
        f.operate("sub", left, left, length)
        f.add_to(source, length)
        f.add_to(out, length)
    return f


def _emit_average(f: VectorFunction, line: UpperLine, scales: list[Register]) -> None:
    factor = f.word("factor")
    f.elements(2)
    f.constant(factor, 1 << line.bits)
    f.multiply(8, 0, factor, True)
    f.release(factor)
    f.elements(4)
    emit_line(f, 0, 8, line, (scales[0], scales[1]))


_GLUE = """
HIL_INLINE void @NAME@(const struct @NAME@ *p, const int8_t *in, int8_t *out) {
    const int32_t constants[] = {CONSTANTS};
    const int32_t line = p->in_w * p->channels;
    for (int32_t batch = 0; batch < p->batches; batch++) {
        for (int32_t out_y = 0; out_y < p->out_h; out_y++) {
            const struct hil_pool_range y =
                hil_pool_cover(out_y * p->stride_h - p->pad_top, p->filter_h, p->in_h);
            for (int32_t out_x = 0; out_x < p->out_w; out_x++) {
                const struct hil_pool_range x =
                    hil_pool_cover(out_x * p->stride_w - p->pad_left, p->filter_w, p->in_w);
                @NAME@_pixel(in + y.begin * line + x.begin * p->channels, out,
                    (uint32_t)p->channels, (uint32_t)y.count, (uint32_t)x.count,
                    (uint32_t)p->channels, (uint32_t)line, (const int8_t *)constants);
                out += p->channels;
            }
        }
        in += p->in_h * line;
    }
}
"""
_RANGE = "    int32_t low;  /* the least output */\n    int32_t high; /* the largest output */\n"


def _max_class() -> type[MaxPoolParameters]:
    struct = f"    HIL_POOL_FIELDS;\n{_RANGE}"
    code = f"{emit_pool(None).text()}{_GLUE.replace('CONSTANTS', 'p->low, p->high')}"
    text = "The largest value under the window, clamped."
    return emitted(
        MaxPoolParameters,
        _description("max_pool_s8", None, text, "None: elements are compared."),
        struct,
        ["hil/kernels/generic/pool.h", "hil/rvv.h"],
        code,
    )


def _average_class(operator: str, bits: int, shift: int) -> type[AveragePoolParameters]:
    line = UpperLine(bits, 0, 0, shift)
    struct = (
        "    HIL_POOL_FIELDS;\n"
        "    int32_t multiplier; /* of a scaled sum, a word without sign */\n"
        f"    int32_t addend;     /* added to the upper word of that product */\n{_RANGE}"
    )
    constants = "p->multiplier, p->addend, p->low, p->high"
    code = f"{emit_pool(line).text()}{_GLUE.replace('CONSTANTS', constants)}"
    bounds = f"Sums of at most {_MOST_VALUES} int8 are int16; times 2^{bits} they are words."
    return emitted(
        AveragePoolParameters,
        _description(operator, line, line.text, bounds),
        struct,
        ["hil/kernels/generic/pool.h", "hil/rvv.h"],
        code,
    )


def _description(operator: str, line: UpperLine | None, output: str, bounds: str) -> Description:
    function = emit_pool(line)
    once = function.instructions
    tap = emit_pool(line, columns=2).instructions - once
    row = emit_pool(line, rows=2).instructions - once - tap
    # The shapes of a mean's tensors are not those of images, by which such loops are followed.
    image = operator != "mean_s8"
    return Description(
        family="rvv",
        operator=operator,
        form="",
        requires=frozenset({"zve32x"}),
        scratch="0",
        order=(("pixels", "1"), ("channels", "1")) if image else "none",
        reads="channel window" if image else "",
        window={},
        functions=function.code_bytes,
        glue=180,
        figures={"call": _CALL, "pixel": _PIXEL, "turn": once - row - tap, "row": row, "tap": tap},
        counts={
            "pixel": "batches * out_h * out_w",
            "turn": f"pixel * ((channels + {_CHANNELS - 1}) // {_CHANNELS})",
            "row": "turn * filter_h",
            "tap": "row * filter_w",
        },
        head={
            "Tile": "a pixel, as many channels as a group of two vector registers has bytes.",
            "Registers": "v0 to v3: maxima or sums; v4 and v5: int8; v8 to v15: scaled sums.",
            "Data": "none but the tensors.",
            "Order": "The channels of a turn are read under the window, then they are written.",
            "Bounds": bounds,
            "Output": output,
            "Scratch": "none.",
            "Cost": "Counted by the emitter for registers of 128 bits: "
            f"{tap / _CHANNELS:.2f} instructions an element under a window.",
            "Tests": "tests/board/test_riscv_kernels.py, tests/c/test_riscv_kernels.py: the C "
            "form is the same list of instructions.",
        },
    )
