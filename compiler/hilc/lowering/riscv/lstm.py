"""LSTMs of float32 on RV32F: the gates of all units are the columns of two emitted functions, for
the input and for the hidden state; then unit after unit, in C.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hilc.ir import Array
from hilc.lowering.kernels import KernelCall
from hilc.lowering.lstm import TENSORS, float_clip, float_columns, lstm_shape
from hilc.lowering.parameters import HilLstm
from hilc.lowering.records import record
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.riscv.columns import Packed, emit_tile, packed_columns
from hilc.lowering.riscv.emitted import NAME, Description, EmittedParameters, emitted

#: Instructions of the glue, which gcc compiles: of a step, and of the functions of a unit.
_STEP, _UNIT = 60.0, 550.0
_GLUE_BYTES = 900


@record(frozen=True, eq=False, kw_only=True)
class LstmParameters(EmittedParameters):
    """The fields of an LSTM's struct."""

    lstm: HilLstm
    clip: float
    in_bias: npt.NDArray[np.int32]
    in_weights: Array
    hidden_bias: npt.NDArray[np.int32]
    hidden_weights: Array


@dataclass(frozen=True, eq=False)
class _Part:
    """What one of both rows adds to the gates."""

    packed: Packed
    name: str

    def __post_init__(self) -> None:
        assert self.packed.tile.rows == 1

    @property
    def tile_name(self) -> str:
        """Name of the emitted function."""
        return replace(self.packed.tile, suffix=f"_{self.name}").name


@lowers("UNIDIRECTIONAL_SEQUENCE_LSTM", dtypes={"float32"}, requires={"riscv", "fpu"})
def floats(layer: Layer) -> Iterator[KernelCall]:
    """Yield the kernel of float32; none if a weight or a bias is infinite or a NaN."""
    found = [packed_columns(weights, "", True) for weights in float_columns(layer)]
    inputs, hidden = found
    if inputs is None or hidden is None:
        return
    shape, macs = lstm_shape(layer)
    parameters = _class(_Part(inputs, "in"), _Part(hidden, "hidden"))(
        lstm=shape,
        clip=float_clip(layer),
        in_bias=inputs.scales,
        in_weights=inputs.weights,
        hidden_bias=hidden.scales,
        hidden_weights=hidden.weights,
    )
    yield KernelCall(parameters, TENSORS, macs)


def _class(inputs: _Part, hidden: _Part) -> type[LstmParameters]:
    parts = (inputs, hidden)
    functions = [emit_tile(replace(part.packed.tile, suffix=f"_{part.name}")) for part in parts]
    struct = "    HIL_LSTM_FIELDS;\n    float clip; /* the largest magnitude of the cell state */\n"
    for part in parts:
        struct += (
            f"    const int32_t *{part.name}_bias; /* [gates][units], bits of floats */\n"
            f"    const float *{part.name}_weights; /* [blocks of columns][depth][columns of a "
            "block] */\n"
        )
    arguments = "const float *x,\n    const float *h, const float *c, float *new_c, void *scratch"
    text = "\n".join(function.text() for function in functions)
    text += (
        f"\nHIL_INLINE void {NAME}_step(const struct {NAME} *p, {arguments}) {{\n"
        "    const int32_t columns = HIL_LSTM_GATES * p->units;\n"
        "    float *const sums = (float *)scratch;\n"
        f"{_call(inputs, 'x', 'sums')}{_call(hidden, 'h', '(sums + columns)')}"
        "    hil_lstm_f32_units(sums, sums + columns, p->units, p->clip, c, new_c,\n"
        "        sums + 2 * columns);\n}\n\n"
        f"HIL_INLINE void {NAME}(const struct {NAME} *p, const float *in,\n"
        "    const float *hidden, const float *cell, float *out, float *new_hidden,\n"
        "    float *new_cell, void *scratch) {\n"
        "    const float *const next = (const float *)scratch + 2 * HIL_LSTM_GATES * p->units;\n"
        f"    HIL_LSTM_TURNS(p, {NAME}_step, in, hidden, cell, out, new_hidden,\n"
        "        new_cell, next, scratch);\n}\n"
    )
    instructions = sum(function.instructions for function in functions)
    products = sum(part.packed.tile.columns * part.packed.tile.depth for part in parts)
    tile = inputs.packed.tile
    return emitted(
        LstmParameters,
        Description(
            family="riscv",
            operator="lstm_f32",
            form="",
            requires=tile.output.features,
            scratch="36 * units",
            order="walk",
            reads="lstm",
            window={},
            functions=sum(function.code_bytes for function in functions),
            glue=_GLUE_BYTES,
            figures={"turn": _STEP + instructions, "unit": _UNIT},
            counts={"turn": "batch * steps", "unit": "turn * units"},
            head={
                "Tile": f"1 row x {tile.block} columns, for all {tile.columns} gates; depths of "
                f"{tile.depth} (input) and {hidden.packed.tile.depth} (hidden state).",
                "Registers": f"{tile.block} sums, {tile.block} weights, elements of the row and "
                "products, addresses; given out by the emitter.",
                "Data": "weights [blocks of columns][depth][columns of a block], biases [gates]"
                "[units], for the hidden state 0; packed by packed_columns().",
                "Order": "A step reads its input and the old states before it writes any state.",
                "Bounds": "any float.",
                "Output": "The gates' arguments are sums in the order of the portable kernel. A "
                "sum begins at +0 and is never -0, so that adding a bias of 0 changes nothing.",
                "Scratch": "what both rows add to the gates, and the new hidden state.",
                "Cost": f"Counted by the emitter: {instructions / products:.3f} instructions a "
                "MAC; the functions of a unit are estimated.",
                "Tests": "tests/board/test_riscv_kernels.py, tests/c/test_riscv_kernels.py: the C "
                "form is the same list of instructions.",
            },
            inputs=3,
            outputs=3,
            dtype="float",
        ),
        struct,
        ["hil/kernels/generic/lstm.h", "hil/riscv.h"],
        text,
    )


def _call(part: _Part, row: str, to: str) -> str:
    return (
        f"    {part.tile_name}((const int8_t *){row}, (const int8_t *)p->{part.name}_weights,\n"
        f"        (const int8_t *)p->{part.name}_bias, (int8_t *){to});\n"
    )
