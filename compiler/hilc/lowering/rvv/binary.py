"""ADD and SUB of int8 with RISC-V's vectors (Zve32x), emitted for each layer.

The output is ``(a * first + b * second + addend) >> shift``, saturated, with constants for which
:func:`hilc.lowering.generic.binary.sum_line` has compared all pairs of values with the reference.
"""

from __future__ import annotations

from collections.abc import Iterator

from hilc.ir import ELEMENT_TYPES
from hilc.lowering.generic.binary import sum_line
from hilc.lowering.kernels import KernelCall
from hilc.lowering.records import record
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.riscv.emitted import NAME, Description, EmittedParameters, emitted
from hilc.lowering.riscv.emitter import ZERO
from hilc.lowering.rvv.emitter import COUNTED_BITS, GROUPS, VectorFunction
from hilc.ops.opdef import TWICE_OR_EVEN
from hilc.ops.operands import output_clamp

_INT8 = ELEMENT_TYPES["int8"]
#: Instructions of the glue.
_CALL = 20.0
#: Elements of a turn with registers of the counted size.
_ELEMENTS = COUNTED_BITS * GROUPS[4] // 32
#: Bits of a shift in an instruction.
_MOST_SHIFT = 31


@record(frozen=True, eq=False, kw_only=True)
class SumParameters(EmittedParameters):
    """The fields of an emitted sum's struct."""

    length: int
    first: int
    second: int
    addend: int


@lowers("ADD", "SUB", dtypes={"int8"}, requires={"zve32x"}, roundings=TWICE_OR_EVEN)
def sums(layer: Layer) -> Iterator[KernelCall]:
    """Yield the sum or difference of tensors of one shape."""
    node, a, b, out = layer.node, layer.operand(0), layer.operand(1), layer.out
    if a.shape != b.shape or output_clamp(node, out) != _INT8.bounds:
        return
    line = sum_line(layer)
    if line is not None and 0 < line.shift <= _MOST_SHIFT:
        parameters = _class(line.shift)(
            length=out.size, first=line.first, second=line.second, addend=line.addend
        )
        yield KernelCall(parameters, (0, 1))


def emit_sum(shift: int) -> VectorFunction:
    """Return the function that adds tensors. It is counted for one turn of its loop."""
    parameters = [("a", "read"), ("b", "read"), ("out", "write"), ("length", "word")]
    parameters += [("first", "word"), ("second", "word"), ("addend", "word")]
    f = VectorFunction(f"{NAME}_all", parameters)
    a, b, out, left, first, second, addend = f.arguments
    length = f.word("count")
    f.round_down()
    with f.loop(1, left, ZERO, always=True):
        f.length(length, left, 4)
        f.load_vector(16, 1, a)
        f.load_vector(18, 1, b)
        f.widen_to_words(0, 16)
        f.widen_to_words(8, 18)
        f.multiply_words(0, 0, first, True)
        f.multiply_words(0, 8, second, False)
        f.with_scalar("vadd", 0, 0, addend)
        f.elements(2)
        f.narrow(2, 0, 0, shift)
        f.elements(1)
        f.narrow(1, 0, 0, 0)
        f.store_vector(0, 1, out)
        f.operate("sub", left, left, length)
        for address in (a, b, out):
            f.add_to(address, length)
    return f


def _class(shift: int) -> type[SumParameters]:
    function = emit_sum(shift)
    struct = (
        "    int32_t length; /* elements */\n"
        "    int32_t first;  /* factor of the first operand */\n"
        "    int32_t second; /* factor of the second operand */\n"
        "    int32_t addend; /* added to both products */\n"
    )
    code = (
        f"{function.text()}\nHIL_INLINE void {NAME}(const struct {NAME} *p, const int8_t *a, "
        f"const int8_t *b,\n    int8_t *out) {{\n"
        f"    {NAME}_all(a, b, out, (uint32_t)p->length, (uint32_t)p->first,\n"
        "        (uint32_t)p->second, (uint32_t)p->addend);\n}\n"
    )
    return emitted(
        SumParameters,
        Description(
            family="rvv",
            operator="sum_s8",
            form="",
            requires=frozenset({"zve32x"}),
            scratch="0",
            order="elementwise",
            reads="",
            window={},
            functions=function.code_bytes,
            glue=60,
            figures={"call": _CALL, "turn": function.instructions},
            counts={"turn": f"(length + {_ELEMENTS - 1}) // {_ELEMENTS}"},
            head={
                "Tile": "as many elements as a group of eight vector registers has words.",
                "Registers": "v0 to v7: sums; v8 to v15: the second operand; v16 to v19: int8.",
                "Data": "none but the tensors.",
                "Order": "Elements of both are read, then those of the output are written.",
                "Bounds": "Products and sums are words for all pairs, which sum_line() asks for.",
                "Output": f"(a * first + b * second + addend) >> {shift}, saturated: sum_line() "
                "has compared all pairs of values with the reference. Shifts round down.",
                "Scratch": "none.",
                "Cost": "Counted by the emitter for registers of 128 bits: "
                f"{function.instructions / _ELEMENTS:.2f} instructions an element.",
                "Tests": "tests/board/test_riscv_kernels.py, tests/c/test_riscv_kernels.py: the C "
                "form is the same list of instructions.",
            },
            inputs=2,
        ),
        struct,
        ["hil/rvv.h"],
        code,
    )
