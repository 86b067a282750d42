"""MUL of int8 with RISC-V's vectors (Zve32x), emitted for each layer.

Either operand may be one element for all of a row. The product of two values less their zero points
becomes the output by :func:`~hilc.lowering.rvv.scaling.line_of`, compared for all products.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hilc.ir import ELEMENT_TYPES, Rounding, Tensor
from hilc.lowering.generic.binary import binary_walk
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilBinary
from hilc.lowering.records import record
from hilc.lowering.registry import Layer, cached_per_layer, lowers
from hilc.lowering.riscv.emitted import NAME, Description, EmittedParameters, emitted
from hilc.lowering.riscv.emitter import ZERO
from hilc.lowering.rvv.emitter import COUNTED_BITS, GROUPS, VectorFunction
from hilc.lowering.rvv.scaling import UpperLine, emit_line, line_of, signed_word
from hilc.numerics.requantize import requantize
from hilc.ops.elementwise import product_scale
from hilc.ops.opdef import TWICE_OR_EVEN
from hilc.ops.operands import output_clamp, quantization

_INT8 = ELEMENT_TYPES["int8"].bounds
#: Instructions of the glue, and of its loop for a row.
_CALL, _ROW = 40.0, 40.0
#: Elements of a turn with registers of the counted size.
_ELEMENTS = COUNTED_BITS * GROUPS[4] // 32
#: Rows shorter than this are left to portable C.
_SHORT = 4


@record(frozen=True, eq=False, kw_only=True)
class ProductParameters(EmittedParameters):
    """The fields of an emitted product's struct."""

    binary: HilBinary
    multiplier: int
    addend: int
    first: int
    second: int
    low: int
    high: int


@lowers("MUL", dtypes={"int8"}, requires={"zve32x"}, roundings=TWICE_OR_EVEN)
def products(layer: Layer) -> Iterator[KernelCall]:
    """Yield the product of tensors of which at least one has an element for each of a row."""
    walk, line = binary_walk(layer), _line(layer)
    steps = walk.a_step, walk.b_step
    if line is None or walk.length < _SHORT or not {0, 1} >= {*steps} or steps == (0, 0):
        return
    node = layer.node
    low, high = output_clamp(node, layer.out)
    parameters = _class(line, steps)(
        binary=walk,
        multiplier=signed_word(line.multiplier),
        addend=line.addend,
        first=-quantization(node, layer.operand(0))[1],
        second=-quantization(node, layer.operand(1))[1],
        low=low,
        high=high,
    )
    yield KernelCall(parameters, (0, 1))


@cached_per_layer
def _line(layer: Layer) -> UpperLine | None:
    node, a, b, out = layer.node, layer.operand(0), layer.operand(1), layer.out
    scale, bounds = product_scale(node, a, b, out), output_clamp(node, out)
    first, second = (_values(t) - quantization(node, t)[1] for t in (a, b))
    values = np.unique(first[:, np.newaxis] * second)
    zero_point = quantization(node, out)[1]
    outputs = requantize(values, *scale, node.rounding) + zero_point
    real = scale.multiplier * 2.0 ** (scale.shift - 31)
    if real <= 0:
        return None
    twice = scale if node.rounding is Rounding.DOUBLE else None
    return line_of(values, np.clip(outputs, *bounds), bounds, real, twice, zero_point)


def _values(t: Tensor) -> npt.NDArray[np.int64]:
    """Return the numbers that a tensor may hold: all, or those of a constant."""
    if t.data is not None:
        return np.unique(t.data).astype(np.int64)
    return np.arange(_INT8[0], _INT8[1] + 1, dtype=np.int64)


def emit_product(line: UpperLine, steps: tuple[int, int]) -> VectorFunction:
    """Return the function that multiplies a row. It is counted for one turn of its loop."""
    parameters = [("a", "read"), ("b", "read"), ("out", "write"), ("left", "word"), ("p", "read")]
    f = VectorFunction(f"{NAME}_row", parameters)
    a, b, out, left, constants = f.arguments
    length = f.word("turn")
    multiplier, addend, first, second, low, high = scales = f.words("scale", 6)
    for i, register in enumerate(scales):
        f.load("lw", register, 4 * i, constants)
    f.round_down()
    single, half = f.words("single", 2)
    for operand, zero, step in ((a, first, steps[0]), (b, second, steps[1])):
        if not step:
            f.load("lb", single, 0, operand)
            f.operate("add", single, single, zero)
            f.shift("slli", single, single, line.bits)
    moved = [operand for operand, step in zip((a, b), steps, strict=True) if step]
    zeros = [zero for zero, step in zip((first, second), steps, strict=True) if step]
    with f.loop(1, left, ZERO, always=True):
        f.length(length, left, 4)
        for i, (operand, zero) in enumerate(zip(moved, zeros, strict=True)):
            f.load_vector(16 + 2 * i, 1, operand)
            f.widen_to_words(8 * i, 16 + 2 * i)
            f.with_scalar("vadd", 8 * i, 8 * i, zero)
        if len(moved) == 2:
            f.vectors("vmul", 0, 0, 8)
            f.immediate("vsll", 0, 0, line.bits)
        else:
            f.with_scalar("vmul", 0, 0, single)
        emit_line(f, 0, 0, line, (multiplier, addend), (half, 8))
        f.with_scalar("vmax", 0, 0, low)
        f.with_scalar("vmin", 0, 0, high)
        f.store_vector(0, 1, out)
        f.operate("sub", left, left, length)
        for address in (*moved, out):
            f.add_to(address, length)
    return f


def _class(found: UpperLine, steps: tuple[int, int]) -> type[ProductParameters]:
    # One kernel for all multipliers and addends.
    line = replace(found, multiplier=0, addend=0)
    function = emit_product(line, steps)
    struct = (
        "    HIL_BINARY_FIELDS;\n"
        "    int32_t multiplier; /* of a scaled product, a word without sign */\n"
        "    int32_t addend;     /* added to the upper word of that product */\n"
        "    int32_t first;      /* added to the first operand */\n"
        "    int32_t second;     /* added to the second operand */\n"
        "    int32_t low;        /* the least output */\n"
        "    int32_t high;       /* the largest output */\n"
    )
    code = (
        f"{function.text()}\nHIL_INLINE void {NAME}(const struct {NAME} *p, const int8_t *a, "
        f"const int8_t *b,\n    int8_t *out) {{\n"
        "    const int32_t constants[] = {p->multiplier, p->addend, p->first, p->second,\n"
        "        p->low, p->high};\n"
        "    int32_t index[HIL_WALK_LOOPS] = {0};\n"
        "    for (int32_t row = 0; row < p->rows; row++) {\n"
        f"        {NAME}_row(a, b, out, (uint32_t)p->length, (const int8_t *)constants);\n"
        "        const int loop = hil_walk_next(index, p->counts);\n"
        "        a += p->a_jumps[loop];\n"
        "        b += p->b_jumps[loop];\n"
        "        out += p->length;\n    }\n}\n"
    )
    return emitted(
        ProductParameters,
        Description(
            family="rvv",
            operator="mul_s8",
            form="" if steps == (1, 1) else "one",
            requires=frozenset({"zve32x"}),
            scratch="0",
            order="elementwise",
            reads="",
            window={},
            functions=function.code_bytes,
            glue=120,
            figures={"call": _CALL, "row": _ROW, "turn": function.instructions},
            counts={"row": "rows", "turn": f"rows * ((length + {_ELEMENTS - 1}) // {_ELEMENTS})"},
            head={
                "Tile": "as many elements of a row as eight vector registers have words.",
                "Registers": "v0 to v7: products; v8 to v15: the second operand, then signs; "
                "v16 to v19: int8.",
                "Data": "none but the tensors.",
                "Order": "Elements of both are read, then those of the output are written.",
                "Bounds": f"Products times 2^{line.bits} are words: line_of() chooses the bits.",
                "Output": line.text,
                "Scratch": "none.",
                "Cost": "Counted by the emitter for registers of 128 bits: "
                f"{function.instructions / _ELEMENTS:.2f} instructions an element.",
                "Tests": "tests/board/test_riscv_kernels.py, tests/c/test_riscv_kernels.py: the C "
                "form is the same list of instructions.",
            },
            inputs=2,
        ),
        struct,
        ["hil/kernels/generic/binary.h", "hil/rvv.h"],
        code,
    )
