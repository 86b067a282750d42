"""Maxima of int8 windows with CV32E40P's maxima of four bytes, emitted for each layer.

A call makes one pixel. Channels are words from any address, which the core loads, and then bytes.
"""

from __future__ import annotations

from hilc.ir import ELEMENT_TYPES
from hilc.lowering.generic.pooling import any_windows
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilPool
from hilc.lowering.records import record
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.riscv.emitted import NAME, Description, EmittedParameters, emitted
from hilc.lowering.riscv.emitter import ZERO, Function, Register
from hilc.ops.opdef import TWICE_OR_EVEN
from hilc.ops.pooling import pooling_clamp

_INT8 = ELEMENT_TYPES["int8"].bounds
#: Bytes of a word, and words whose maxima registers hold at once.
_WORD, _WORDS = 4, 8
#: Instructions of the glue, and of its loop for a pixel.
_CALL, _PIXEL = 40.0, 25.0


@record(frozen=True, eq=False, kw_only=True)
class MaxPoolParameters(EmittedParameters):
    """The fields of an emitted kernel of maxima."""

    pool: HilPool
    low: int
    high: int


@lowers("MAX_POOL_2D", dtypes={"int8"}, requires={"xpulp"}, roundings=TWICE_OR_EVEN)
def maxima(layer: Layer) -> KernelCall:
    """Return the maxima over windows, which may reach beyond the image."""
    low, high = (int(end) for end in pooling_clamp(layer.node, layer.out))
    channels = layer.operand(0).shape[-1]
    parameters = _class(channels, (low, high) != _INT8)
    return KernelCall(parameters(pool=any_windows(layer), low=low, high=high))


def emit_pixel(channels: int, clamped: bool, rows: int = 1, columns: int = 1) -> Function:
    """Return the function that makes a pixel. It is counted for a window of so many rows and
    columns.
    """
    parameters = [("in", "read"), ("out", "write"), ("rows", "word"), ("columns", "word")]
    parameters += [("line", "word"), *([("limits", "read")] if clamped else [])]
    f = Function(f"{NAME}_pixel", parameters, xpulp=True)
    limits = f.words("limit", 2) if clamped else []
    for index, register in enumerate(limits):
        f.load("lw", register, _WORD * index, f.arguments[5])
    turns, left = divmod(channels, _WORD * _WORDS)
    if turns:
        end, out = f.address("end"), f.arguments[1]
        if turns > 1:
            f.distance(end, out, turns * _WORD * _WORDS)
        with f.loop(turns, out, end):
            _emit_lanes(f, channels, _words(_WORD * _WORDS), limits, (rows, columns))
        f.release(end)
    if left:
        _emit_lanes(f, channels, _words(left), limits, (rows, columns))
    return f


def _words(channels: int) -> list[tuple[str, int]]:
    """Return the loads of channels: their instructions and offsets."""
    words = channels // _WORD * _WORD
    return [
        *(("lw", offset) for offset in range(0, words, _WORD)),
        *(("lb", offset) for offset in range(words, channels)),
    ]


def _emit_lanes(
    f: Function,
    channels: int,
    loads: list[tuple[str, int]],
    limits: list[Register],
    window: tuple[int, int],
) -> None:
    source, out, height, width, line = f.arguments[:5]
    largest, values = f.words("max", len(loads)), f.words("x", 2)
    row, column = f.word("row"), f.word("column")
    begin, pixel = f.address("begin"), f.address("pixel")
    for register, (kind, offset) in zip(largest, loads, strict=True):
        f.load(kind, register, offset, source)
    f.move(begin, source)
    f.move(row, height)
    with f.loop(window[0], row, ZERO, always=True):
        f.move(pixel, begin)
        f.move(column, width)
        with f.loop(window[1], column, ZERO, always=True):
            f.advance(column, -1)
            # A value that was just loaded would stall.
            for index in range(len(loads) + 1):
                if index < len(loads):
                    kind, offset = loads[index]
                    f.load(kind, values[index % 2], offset, pixel)
                if index > 0:
                    register = largest[index - 1]
                    f.operate_four("max", register, register, values[(index - 1) % 2])
            f.step(pixel, channels, values[0])
        f.advance(row, -1)
        f.add_to(begin, line)
    for register, (kind, offset) in zip(largest, loads, strict=True):
        for name, limit in zip(("max", "min"), limits, strict=False):
            f.operate_four(name, register, register, limit)
        store = f.store_word if kind == "lw" else f.store_byte
        store(register, offset, out)
    size = loads[-1][1] + (_WORD if loads[-1][0] == "lw" else 1)
    f.advance(source, size)
    f.advance(out, size)
    f.release(*largest, *values, row, column, begin, pixel)


_GLUE = """
HIL_INLINE void @NAME@(const struct @NAME@ *p, const int8_t *in, int8_t *out) {
@LIMITS@    const int32_t line = p->in_w * p->channels;
    for (int32_t batch = 0; batch < p->batches; batch++) {
        for (int32_t out_y = 0; out_y < p->out_h; out_y++) {
            const struct hil_pool_range y =
                hil_pool_cover(out_y * p->stride_h - p->pad_top, p->filter_h, p->in_h);
            for (int32_t out_x = 0; out_x < p->out_w; out_x++) {
                const struct hil_pool_range x =
                    hil_pool_cover(out_x * p->stride_w - p->pad_left, p->filter_w, p->in_w);
                @NAME@_pixel(in + y.begin * line + x.begin * p->channels, out,
                    (uint32_t)y.count, (uint32_t)x.count, (uint32_t)line@ARGUMENT@);
                out += p->channels;
            }
        }
        in += p->in_h * line;
    }
}
"""
_LIMITS = """\
    const uint32_t limits[] = {(uint8_t)p->low * 0x01010101U, (uint8_t)p->high * 0x01010101U};
"""


def _class(channels: int, clamped: bool) -> type[MaxPoolParameters]:
    function = emit_pixel(channels, clamped)
    glue = _GLUE.replace("@LIMITS@", _LIMITS if clamped else "")
    glue = glue.replace("@ARGUMENT@", ", (const int8_t *)limits" if clamped else "")
    once = function.instructions
    tap = emit_pixel(channels, clamped, columns=2).instructions - once
    row = emit_pixel(channels, clamped, rows=2).instructions - once - tap
    description = Description(
        family="xpulp",
        operator="max_pool_s8",
        form="",
        requires=frozenset({"xpulp"}),
        scratch="0",
        order=(("pixels", "1"), ("channels", "1")),
        reads="channel window",
        window={},
        functions=function.code_bytes,
        glue=180,
        figures={"call": _CALL, "pixel": _PIXEL + once - row - tap, "row": row, "tap": tap},
        counts={
            "pixel": "batches * out_h * out_w",
            "row": "pixel * filter_h",
            "tap": "row * filter_w",
        },
        head={
            "Tile": f"a pixel, up to {_WORD * _WORDS} of its {channels} channels at a time.",
            "Registers": f"up to {_WORDS} words of maxima and three of bytes, two values, the "
            "addresses.",
            "Data": "none but the tensors.",
            "Order": "The channels of a turn are read under the window, then they are written.",
            "Bounds": "None: elements are compared.",
            "Output": "The largest value under the window, clamped.",
            "Scratch": "none.",
            "Cost": f"Counted by the emitter: {tap / channels:.2f} instructions an element under "
            "a window.",
            "Tests": "tests/board/test_riscv_kernels.py, tests/c/test_riscv_kernels.py: the C "
            "form is the same list of instructions.",
        },
    )
    struct = (
        "    HIL_POOL_FIELDS;\n"
        "    int32_t low;  /* the least output */\n    int32_t high; /* the largest output */\n"
    )
    includes = ["hil/kernels/generic/pool.h", "hil/riscv.h"]
    return emitted(MaxPoolParameters, description, struct, includes, f"{function.text()}{glue}")
