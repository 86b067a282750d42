"""Tables of bytes by indexed loads of RISC-V's vectors (Zve32x), emitted once for all layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from hilc.ir import Rounding
from hilc.lowering.generic import functions, quantize, unary
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilGenericLutS8
from hilc.lowering.records import record
from hilc.lowering.registry import Call, Layer, lowers
from hilc.lowering.riscv.emitted import NAME, Description, EmittedParameters, emitted
from hilc.lowering.riscv.emitter import ZERO
from hilc.lowering.rvv.emitter import COUNTED_BITS, GROUPS, VectorFunction
from hilc.ops.opdef import TWICE_OR_EVEN

#: Instructions of the glue.
_CALL = 12.0
#: Elements of a turn with registers of the counted size.
_ELEMENTS = COUNTED_BITS * GROUPS[1] // 8


@record(frozen=True, eq=False, kw_only=True)
class TableParameters(EmittedParameters):
    """The fields of an emitted table's struct."""

    size: int
    table: npt.NDArray[np.int8]


def _by_loads(portable: Call | Iterable[Call]) -> Iterator[KernelCall]:
    """Yield the call with the same table; none where the portable kernel computes."""
    if isinstance(portable, KernelCall) and isinstance(
        found := portable.parameters, HilGenericLutS8
    ):
        yield KernelCall(_class()(size=found.size, table=found.table))


@lowers(*unary.OPERATORS, dtypes={"int8"}, requires={"zve32x"})
def of_activations(layer: Layer) -> Iterator[KernelCall]:
    """Return the table of an activation."""
    return _by_loads(unary.portable(layer))


@lowers(*functions.OPERATORS, dtypes={"int8"}, requires={"zve32x"})
def of_functions(layer: Layer) -> Iterator[KernelCall]:
    """Return the table of a function."""
    return _by_loads(functions.portable(layer))


@lowers("LOOKUP", requires={"zve32x"}, roundings=Rounding)
def of_lookups(layer: Layer) -> Iterator[KernelCall]:
    """Return the table that a model holds."""
    return _by_loads(quantize.lookup(layer))


@lowers("QUANTIZE", requires={"zve32x"}, roundings=TWICE_OR_EVEN)
def of_scales(layer: Layer) -> Iterator[KernelCall]:
    """Return the table from one scale of bytes to another."""
    return _by_loads(quantize.quantize(layer))


def emit_table() -> VectorFunction:
    """Return the function that looks bytes up. It is counted for one turn of its loop."""
    parameters = [("in", "read"), ("out", "write"), ("size", "word"), ("table", "read")]
    f = VectorFunction(f"{NAME}_all", parameters)
    source, out, left, table = f.arguments
    length = f.word("count")
    with f.loop(1, left, ZERO, always=True):
        f.length(length, left, 1)
        f.load_vector(0, 1, source)
        f.load_indexed(2, 0, table)
        f.operate("sub", left, left, length)
        f.add_to(source, length)
        f.store_vector(2, 1, out)
        f.add_to(out, length)
    return f


def _class() -> type[TableParameters]:
    function = emit_table()
    struct = (
        "    int32_t size;        /* elements */\n"
        "    const int8_t *table; /* the values for the bytes 0x00 to 0xff */\n"
    )
    code = (
        f"{function.text()}\nHIL_INLINE void {NAME}(const struct {NAME} *p, const int8_t *in, "
        f"int8_t *out) {{\n    {NAME}_all(in, out, (uint32_t)p->size, p->table);\n}}\n"
    )
    return emitted(
        TableParameters,
        Description(
            family="rvv",
            operator="lut_s8",
            form="",
            requires=frozenset({"zve32x"}),
            scratch="0",
            order="elementwise",
            reads="",
            window={},
            functions=function.code_bytes,
            glue=30,
            figures={"call": _CALL, "turn": function.instructions},
            counts={"turn": f"(size + {_ELEMENTS - 1}) // {_ELEMENTS}"},
            head={
                "Tile": "as many elements as a group of two vector registers has bytes.",
                "Registers": "v0 and v1: the elements; v2 and v3: their values.",
                "Data": "the table, as that of hil_generic_lut_s8.",
                "Order": "Elements are read, then those of the output are written.",
                "Bounds": "A byte is below 256, the bytes of the table.",
                "Output": "the byte of the table.",
                "Scratch": "none.",
                "Cost": "Counted by the emitter for registers of 128 bits: "
                f"{function.instructions / _ELEMENTS:.2f} instructions an element.",
                "Tests": "tests/board/test_riscv_kernels.py, tests/c/test_riscv_kernels.py: the C "
                "form is the same list of instructions.",
            },
        ),
        struct,
        ["hil/rvv.h"],
        code,
    )
