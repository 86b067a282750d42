"""SOFTMAX of int8 on RV32IM, emitted for the length of a row.

The exponentials of all 256 distances to the maximum are a table. The portable kernel rounds a
share twice, by 31 bits and by the row's shift. The emitted one rounds once: floors of divisions
one after the other are the floor of one division, so both roundings are one constant that is added
to the product of 64 bits, and its upper word is shifted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from hilc.ir import ELEMENT_TYPES, Array
from hilc.lowering.generic.softmax import portable
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilGenericSoftmaxS8
from hilc.lowering.records import record
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.riscv.emitted import NAME, Description, EmittedParameters, emitted
from hilc.lowering.riscv.emitter import Function, Register

#: Distances of two bytes.
_DISTANCES = 256
#: Elements of a turn of a loop.
_TURN = 4
#: Instructions of the glue, and of what it does for a row: the reciprocal of the sum above all.
_CALL, _ROW = 40.0, 150.0
#: Bits by which an exponential is shifted before it is added.
_SUM_BITS = 12
_INCLUDES = ("string.h", "hil/kernels/generic/softmax.h", "hil/riscv.h")


@record(frozen=True, eq=False, kw_only=True)
class SoftmaxParameters(EmittedParameters):
    """The fields of an emitted softmax."""

    rows: int
    depth: int
    exponentials: Array


@lowers("SOFTMAX", dtypes={"int8"}, requires={"riscv"})
def softmax(layer: Layer) -> Iterator[KernelCall]:
    """Yield the call over rows, by a table of all distances."""
    call = portable(layer)
    if not isinstance(call, KernelCall) or not isinstance(call.parameters, HilGenericSoftmaxS8):
        return
    parameters = call.parameters
    powers = np.zeros(_DISTANCES, np.int32)
    powers[: parameters.near] = parameters.exponentials
    made = _class(parameters.depth, "zbb" if "zbb" in layer.cpu.features else "")
    yield KernelCall(made(rows=parameters.rows, depth=parameters.depth, exponentials=powers))


def _each(f: Function, depth: int, step: Callable[[int], None], ahead: list[Register]) -> None:
    """Emit a step for each element of a row, and advance the addresses."""
    turns, left = divmod(depth, _TURN)
    end = f.address("end")
    if turns > 1:
        f.distance(end, ahead[0], turns * _TURN)
    if turns:
        with f.loop(turns, ahead[0], end):
            for index in range(_TURN):
                step(index)
            for address in ahead:
                f.advance(address, _TURN)
    for index in range(left):
        step(index)
    f.release(end)


def emit_sum(depth: int, extension: str) -> Function:
    """Return the function that finds the maximum of a row, and sums its exponentials."""
    parameters = [("in", "read"), ("table", "read"), ("found", "write")]
    f = Function(f"{NAME}_sum", parameters, ("zbb",) if extension else ())
    source, table, found = f.arguments
    begin, entry = f.address("begin"), f.address("entry")
    largest, x, total, half = (f.word(name) for name in ("largest", "x", "total", "half"))
    f.move(begin, source)
    f.load("lb", largest, 0, source)

    def compare(index: int) -> None:
        f.load("lb", x, index, source)
        if extension:
            f.operate("max", largest, largest, x)
        else:
            f.raise_to(largest, x)

    def add(index: int) -> None:
        f.load("lb", x, index, begin)
        _emit_power(f, x, largest, table, entry)
        f.operate("add", x, x, half)
        f.shift("srli", x, x, _SUM_BITS)
        f.operate("add", total, total, x)

    _each(f, depth, compare, [source])
    f.constant(total, 0)
    f.constant(half, 1 << (_SUM_BITS - 1))
    _each(f, depth, add, [begin])
    f.store_word(largest, 0, found)
    f.store_word(total, 4, found)
    return f


def emit_shares(depth: int) -> Function:
    """Return the function that makes the outputs of a row."""
    parameters = [("in", "read"), ("out", "write"), ("table", "read"), ("largest", "word")]
    parameters += [("scale", "word"), ("half", "word"), ("shift", "word")]
    f = Function(f"{NAME}_shares", parameters)
    source, out, table, largest, scale, half, shift = f.arguments
    entry = f.address("entry")
    x, product, carries, most = (f.word(name) for name in ("x", "product", "carries", "most"))
    # Sums of lower words with 2^30 that carry.
    f.constant(carries, -(1 << 30) - 1)
    f.constant(most, 255)

    def share(index: int) -> None:
        f.load("lb", x, index, source)
        _emit_power(f, x, largest, table, entry)
        f.operate("mul", product, x, scale)
        f.operate("mulhu", x, x, scale)
        f.operate("sltu", product, carries, product)
        f.operate("add", x, x, half)
        f.operate("add", x, x, product)
        f.operate("srl", x, x, shift)
        f.clamp(x, most, 255, 0)
        f.advance(x, int(ELEMENT_TYPES["int8"].low))
        f.store_byte(x, index, out)

    _each(f, depth, share, [source, out])
    return f


def _emit_power(
    f: Function, x: Register, largest: Register, table: Register, entry: Register
) -> None:
    f.operate("sub", x, largest, x)
    f.shift("slli", x, x, 2)
    f.index(entry, table, x)
    f.load("lw", x, 0, entry)


_GLUE = f"""
HIL_INLINE void {NAME}(const struct {NAME} *p, const int8_t *in, int8_t *out) {{
    const int8_t *const table = (const int8_t *)p->exponentials;
    for (int32_t row = 0; row < p->rows; row++) {{
        uint32_t found[2];
        int shift;
        {NAME}_sum(in, table, (int8_t *)found);
        const int32_t scale = hil_softmax_s8_scale(found[1], &shift);
        if (shift > 31) {{
            memset(out, INT8_MIN, (size_t)p->depth);
        }} else {{
            {NAME}_shares(in, out, table, found[0], (uint32_t)scale,
                UINT32_C(1) << (shift - 2), (uint32_t)shift - 1);
        }}
        in += p->depth;
        out += p->depth;
    }}
}}
"""


def _class(depth: int, extension: str) -> type[SoftmaxParameters]:
    functions = emit_sum(depth, extension), emit_shares(depth)
    count = sum(function.instructions for function in functions)
    struct = (
        "    int32_t rows;  /* that each add up to one */\n"
        "    int32_t depth; /* elements of a row */\n"
        "    const int32_t *exponentials; /* of minus each distance, in Q0.31 */\n"
    )
    description = Description(
        family="riscv",
        operator="softmax_s8",
        form="",
        requires=frozenset({"riscv", extension} - {""}),
        scratch="0",
        order="elementwise",
        reads="",
        window={},
        functions=sum(function.code_bytes for function in functions),
        glue=220,
        figures={"call": _CALL, "row": _ROW + count},
        counts={"row": "rows"},
        head={
            "Tile": f"a row of {depth} elements, three times: its maximum, its sum, its outputs.",
            "Registers": "the maximum, the sum, a value, a product, constants, the addresses.",
            "Data": f"exponentials: {_DISTANCES} words, 0 where nothing is added to a sum.",
            "Order": "An element of the output is written when that of the input was read, the "
            "row's maximum and sum before.",
            "Bounds": "An exponential and the scale are below 2^31: the upper word of their "
            "product is below 2^30, and the constant is at most 2^29.",
            "Output": "Twice rounded half up, as hil_softmax_s8_output() does: floors of two "
            "divisions are the floor of one, with 2^30 + 2^(30 + shift) added.",
            "Scratch": "none.",
            "Cost": f"Counted by the emitter: {count / depth:.1f} instructions an element.",
            "Tests": "tests/board/test_riscv_kernels.py, tests/c/test_riscv_kernels.py: the C "
            "form is the same list of instructions.",
        },
    )
    code = "\n".join(function.text() for function in functions) + _GLUE
    return emitted(SoftmaxParameters, description, struct, _INCLUDES, code)
