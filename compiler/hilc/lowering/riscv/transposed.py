"""Transposed convolutions of int8 on RV32IM, phase by phase, with the tiles of convolutions.

The outputs of a phase are a convolution of the input with some of the filter's taps
(:mod:`hilc.lowering.transposed`). Its windows are gathered and multiplied as those of any other
(:mod:`hilc.lowering.riscv.matrix`), and what they make is copied to where the outputs of the phase
lie. What is checked for each phase is the same, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilPhases, HilRequantization
from hilc.lowering.records import record
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.riscv.arithmetic import scale_words
from hilc.lowering.riscv.emitted import NAME, Description, EmittedParameters, emitted
from hilc.lowering.riscv.emitter import Function
from hilc.lowering.riscv.matrix import (
    GLUE,
    ROWS_INCLUDE,
    TRIPLES,
    WINDOW_GLUE,
    PackedRows,
    packed_rows,
)
from hilc.lowering.riscv.tile import BLOCK, Tile, emit_tile
from hilc.lowering.transposed import PhasesForm, phase_outputs, phases_form
from hilc.ops import linear, transpose_conv

#: Instructions of the glue, which gcc compiles: of a phase, and of the copy of an output's pixel
#: and of one of its bytes.
_PHASE, _COPY, _COPIED = 60.0, 16.0, 1.5
_GLUE_BYTES = 1000


@record(frozen=True, eq=False, kw_only=True)
class TransposedParameters(EmittedParameters):
    """The fields of an emitted transposed convolution's struct."""

    phases: HilPhases
    in_zero_point: int
    scales: npt.NDArray[np.int32]
    weights: npt.NDArray[np.int8]


@dataclass(frozen=True)
class _Phase:
    """The tile of a phase, and where its weights begin."""

    tile: Tile
    weights: int
    filter_h: int
    filter_w: int


@lowers("TRANSPOSE_CONV", requires={"riscv", "mul32"})
def transposed(layer: Layer) -> Iterator[KernelCall]:
    """Return the emitted kernels; none where a phase has none."""
    form = phases_form(layer, "int8")
    if form is None:
        return
    extension = "zbb" if "zbb" in layer.cpu.features else ""
    outputs = phase_outputs(layer, form)
    for triples in TRIPLES:
        packed = _packed(form, outputs, triples, extension)
        if packed is None:
            return
        words = max(each.scales.size for each in packed)
        scales = [np.pad(each.scales, (0, words - each.scales.size)) for each in packed]
        shape = form.shape([each.weights for each in packed], words)
        parameters = _class(form, packed)(
            phases=shape,
            in_zero_point=linear.pad_value(layer.node, form.ops),
            scales=np.concatenate(scales),
            weights=np.concatenate([each.weights for each in packed]),
        )
        yield KernelCall(parameters, (transpose_conv.IMAGE,), form.macs)


def _packed(
    form: PhasesForm, outputs: Sequence[HilRequantization], triples: int, extension: str
) -> list[PackedRows] | None:
    """Return weights, scales and the tile of each phase; None where one has none."""
    found = []
    for phase, own in zip(form.phases, outputs, strict=True):
        packed = packed_rows(phase.weights, own, triples, extension)
        if packed is None:
            return None
        found.append(packed)
    return found


def _class(form: PhasesForm, packed: Sequence[PackedRows]) -> type[TransposedParameters]:
    places = np.cumsum([0, *(each.weights.size for each in packed)])
    phases = [
        _Phase(each.tile, int(place), len(phase.rows.taps), len(phase.columns.taps))
        for each, place, phase in zip(packed, places, form.phases, strict=False)
    ]
    numbers = {tile: i for i, tile in enumerate(dict.fromkeys(each.tile for each in packed))}
    functions = {tile: emit_tile(tile, f"tile{i}") for tile, i in numbers.items()}
    tile = max(numbers, key=lambda tile: tile.depth)
    rows, triples, columns = tile.rows, tile.triples, tile.columns
    each = np.mean([functions[phase.tile].instructions for phase in phases])
    code = sum(function.code_bytes for function in functions.values())
    return emitted(
        TransposedParameters,
        Description(
            family="riscv",
            operator="transpose_conv2d_s8",
            form=tile.form,
            requires=frozenset().union(*(tile.output.features for tile in numbers)),
            scratch=str(tile.row_bytes + rows * columns),
            order="none",
            reads="",
            window={},
            functions=code,
            glue=_GLUE_BYTES,
            figures={
                **GLUE,
                **WINDOW_GLUE,
                "tile": GLUE["tile"] + float(each),
                "phase": _PHASE,
                "pixel_copy": _COPY + _COPIED * columns,
            },
            counts={
                "phase": "batch * count",
                "pixel_copy": "batch * out_h * out_w",
                "tile": f"(pixel_copy + {rows - 1} * phase) // {rows}",
                "row_three": f"tile * {triples}",
                "window": f"tile * {rows}",
                "window_row": f"row_three * {np.mean([phase.filter_h for phase in phases])}",
                "pixel": f"window_row * {np.mean([phase.filter_w for phase in phases])}",
                "widened": f"row_three * {np.mean([phase.tile.depth for phase in phases])}",
            },
            head=_head(form, tile, functions),
        ),
        "    HIL_PHASES_FIELDS;\n"
        "    int32_t in_zero_point; /* the input that stands for 0.0 */\n"
        "    const int32_t *scales; /* of each phase how sums become outputs */\n"
        "    const int8_t *weights; /* of each phase [blocks of four columns][depth][4] */\n",
        [ROWS_INCLUDE, "hil/kernels/generic/phases.h"],
        "\n".join(function.text() for function in functions.values())
        + _multiply(phases, functions)
        + _body(tile),
    )


def _multiply(phases: Sequence[_Phase], functions: dict[Tile, Function]) -> str:
    """Return the function that calls the tile of a phase, which its weights' place tells."""
    lines = [
        f"\n__attribute__((noinline, unused)) static void {NAME}_multiply(int32_t place,\n"
        "    const int8_t *rows, const int8_t *weights, const int8_t *scales, int8_t *out) {\n"
    ]
    for tile, function in functions.items():
        own = [f"place == {phase.weights}" for phase in phases if phase.tile == tile]
        lines.append(
            f"    if ({' || '.join(own)}) {{\n"
            f"        {function.name}(rows, weights, scales, out);\n    }}\n"
        )
    return "".join([*lines, "}\n"])


def _body(tile: Tile) -> str:
    rows, columns = tile.rows, tile.columns
    return (
        f"\nHIL_INLINE void {NAME}(const struct {NAME} *p, const int8_t *in, int8_t *out,\n"
        "    void *scratch) {\n"
        f"    int8_t *const made = (int8_t *)scratch + {tile.row_bytes};\n"
        f"    const int32_t step = p->stride_w * {columns};\n"
        f"    const int32_t down = p->stride_h * p->out_w * {columns};\n"
        "    for (int32_t image = 0; image < p->batch; image++) {\n"
        "        for (int32_t i = 0; i < p->count; i++) {\n"
        "            const struct hil_phase phase =\n"
        "                hil_phase_of(p->phases + HIL_PHASE_WORDS * i);\n"
        "            struct hil_riscv_windows windows = {\n"
        "                .image = HIL_V7M_IMAGE_OF(p, in), .out_w = phase.columns,\n"
        "                .filter_h = phase.filter_h, .filter_w = phase.filter_w,\n"
        "                .stride_h = 1, .stride_w = 1, .dilation_h = 1, .dilation_w = 1,\n"
        "                .pad_left = -phase.in_x, .in_zero_point = p->in_zero_point,\n"
        "                .at = {.y = phase.in_y, .x = phase.in_x}, .column = 0};\n"
        f"            int8_t *row = out + (phase.out_y * p->out_w + phase.out_x) * {columns};\n"
        "            int8_t *to = row;\n"
        "            int32_t column = 0;\n"
        "            int32_t left = phase.rows * phase.columns;\n"
        "            while (left > 0) {\n"
        f"                const int32_t count = left < {rows} ? left : {rows};\n"
        f"                hil_riscv_gather_windows(&windows, count, {tile.triples},\n"
        "                                         (uint32_t *)scratch);\n"
        f"                {NAME}_multiply(phase.weights, (const int8_t *)scratch,\n"
        "                    p->weights + phase.weights,\n"
        "                    (const int8_t *)(p->scales + phase.scales), made);\n"
        "                for (int32_t k = 0; k < count; k++) {\n"
        f"                    memcpy(to, made + k * {columns}, {columns}U);\n"
        "                    to += step;\n"
        "                    if (++column == phase.columns) {\n"
        "                        column = 0;\n"
        "                        row += down;\n"
        "                        to = row;\n"
        "                    }\n"
        "                }\n"
        "                left -= count;\n"
        "            }\n"
        "        }\n"
        "        in += p->in_h * p->in_w * p->in_c;\n"
        f"        out += p->out_h * p->out_w * {columns};\n"
        "    }\n"
        "}\n"
    )


def _head(form: PhasesForm, tile: Tile, functions: dict[Tile, Function]) -> dict[str, str]:
    counted = ", ".join(
        f"{function.instructions:.0f} instructions for a depth of {each.depth}"
        for each, function in functions.items()
    )
    texts = dict.fromkeys(tile.output.text for tile in functions)
    return {
        "Tile": f"{tile.rows} windows of a phase x {BLOCK} columns x 1 element of depth, for all "
        f"{tile.columns} columns; {len(form.phases)} phases of depths up to {tile.depth}.",
        "Registers": f"{4 * 2 * tile.triples} words of sums, {2 * tile.triples} of rows, two "
        "weights, two products, three addresses; given out by the emitter.",
        "Data": "rows: words in scratch, [depth][threes of windows][x, y], by hil_riscv_widen; of "
        "each phase weights: int8 [blocks of four columns][depth][4], and scales: int32 [column]"
        f"[{scale_words(tile.output)}], packed by packed_rows().",
        "Order": "Phase by phase: the input is read again for each.",
        "Bounds": "Of each part of a column -2^20 <= sum < 2^20 for all inputs; the scaled sums of "
        "all parts are below 2^31.",
        "Output": " Or: ".join(texts),
        "Scratch": f"{tile.row_bytes} bytes of words, and outputs of {tile.rows} windows.",
        "Cost": f"Counted by the emitter: {counted}; the glue is estimated.",
        "Tests": "tests/board/test_riscv_kernels.py, tests/c/test_riscv_kernels.py: the C form is "
        "the same list of instructions.",
    }
