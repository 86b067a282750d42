"""Linear layers of int16 whose sums leave 32 bits, emitted for each layer, on RV32IM and Zve32x.

The depth is cut into parts of which no input makes a sum leave 32 bits. The tiles of
:mod:`hilc.lowering.riscv.columns` and :mod:`hilc.lowering.rvv.matrix` sum up a part as words; the
glue adds these up in 64 bits and rounds them as the portable kernel does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Rounding
from hilc.lowering.linear import Convolution, LinearWeights, MatrixProduct, packed_once
from hilc.lowering.parameters import HilImages, HilWindow
from hilc.lowering.records import record
from hilc.lowering.riscv.emitted import NAME, Description, EmittedParameters, emitted
from hilc.lowering.riscv.emitter import Function
from hilc.lowering.riscv.linear import kernel_text
from hilc.numerics.requantize import reduced_multiplier, reduced_shift

#: Exclusive bound of the sum of the magnitudes of the weights of a part.
_LIMIT = 2**16
#: Rows of a tile of RV32IM.
MOST_ROWS = 4
#: Instructions of the glue, which gcc compiles: of a call, of the call of a tile; of an output: to
#: add a part, to round the sum; of a window, and of one of its rows.
_GLUE = {"call": 40.0}
_TILE, _ADD, _ROUND = 15.0, 14.0, 50.0
_WINDOW_GLUE = {"window": 22.0, "window_row": 24.0}
_GLUE_BYTES = 900
_INCLUDE = "hil/kernels/riscv/parts_s16.h"
_ELEMENT = 2

_P = TypeVar("_P", bound=EmittedParameters)


@dataclass(frozen=True)
class Part:
    """What the function of a tile is specialised for."""

    depth: int
    columns: int
    rows: int
    #: Whether the kernel takes a row at a time.
    single: bool
    #: Elements of a row.
    pitch: int

    @property
    def suffix(self) -> str:
        """Ending of the name: functions of other depths have another."""
        return f"_{self.depth}"


@dataclass(frozen=True)
class Family:
    """The tiles of a family of kernels."""

    name: str
    features: frozenset[str]
    #: Header with the C form of its instructions.
    include: str
    #: Rows of a tile.
    rows: int
    #: Emits the function of a part.
    emit: Callable[[Part], Function]
    #: Returns the weights ``[columns, depth]`` of a part in the order of the function, for rows or
    #: for a single one.
    pack: Callable[[Array, bool], Array]
    #: Whether each row of a tile has an address of its own for its sums.
    apart: bool
    #: Instructions to gather a word of a window.
    gathered: float


@record(frozen=True, eq=False, kw_only=True)
class _Fields(EmittedParameters):
    out_min: int
    out_max: int
    bias: npt.NDArray[np.int32]
    multipliers: npt.NDArray[np.int16]
    shifts: npt.NDArray[np.int8]
    weights: Array


@record(frozen=True, eq=False, kw_only=True)
class PartsRows(_Fields):
    """The fields of a matrix product's struct."""

    rows: int


@record(frozen=True, eq=False, kw_only=True)
class PartsWindows(_Fields):
    """The fields of a convolution's struct."""

    images: HilImages
    window: HilWindow


@packed_once
def depths_of(layer: LinearWeights) -> tuple[int, ...] | None:
    """Return the depths of the parts: all but the last are equal, all of them if a few more parts
    make them so. None where the layer is none of int8 weights whose sums are rounded once.
    """
    requant = layer.wide.requant
    if requant.sums != "int64" or requant.rounding is not Rounding.SINGLE:
        return None
    if layer.matrix.dtype != np.int8 or layer.pad_value != 0:
        return None
    ends = np.cumsum(np.abs(layer.matrix.astype(np.int64)), axis=1)
    ends = np.pad(ends, [(0, 0), (1, 0)])
    depth = layer.depth

    def fits(part: int) -> bool:
        begins = np.arange(0, depth, part)
        sums = ends[:, np.minimum(begins + part, depth)] - ends[:, begins]
        return bool(sums.max() < _LIMIT)

    count = next(n for n in range(1, depth + 1) if fits(-(-depth // n)))
    even = [n for n in range(count, 2 * count) if depth % n == 0]
    part = -(-depth // (even[0] if even else count))
    return (part,) * (depth // part) + ((depth % part,) if depth % part else ())


def matmul(form: MatrixProduct, family: Family) -> Iterator[EmittedParameters]:
    """Yield the kernel of rows."""
    rows = family.rows if form.rows >= family.rows else 1
    if depths_of(form.packing) is not None:
        made = _matmul_class(form.packing, family, rows)
        yield made(rows=form.rows, **_arrays(form.packing, family, rows))


def conv2d(form: Convolution, family: Family) -> Iterator[EmittedParameters]:
    """Yield the kernel of windows."""
    if depths_of(form.packing) is not None:
        made = _conv_class(form.packing, family)
        arrays = _arrays(form.packing, family, family.rows)
        yield made(images=form.images, window=form.window, **arrays)


@packed_once
def _arrays(layer: LinearWeights, family: Family, rows: int) -> Mapping[str, Any]:
    requant, depths = layer.wide.requant, depths_of(layer)
    assert depths is not None, "the caller has found them"
    ends = np.cumsum(depths)
    parts = np.split(layer.matrix, ends[:-1], axis=1)
    shape = (layer.channels,)
    multipliers = np.broadcast_to(reduced_multiplier(requant.multipliers), shape)
    shifts = np.broadcast_to(reduced_shift(requant.shifts.astype(np.int64)), shape)
    return {
        "out_min": requant.low,
        "out_max": requant.high,
        "bias": layer.wide.bias.astype("<i8").view("<i4"),
        "multipliers": multipliers.astype(np.int16),
        "shifts": shifts.astype(np.int8),
        "weights": np.concatenate([family.pack(part, rows == 1) for part in parts]),
    }


# The kernels --------------------------------------------------------------------------------------

_STRUCT = (
    "    int32_t out_min; /* the least output */\n"
    "    int32_t out_max; /* the largest output */\n"
    "    const int32_t *bias; /* of each column the lower word, then the upper one */\n"
    "    const int16_t *multipliers; /* of 15 bits */\n"
    "    const int8_t *shifts; /* to the right, 8 to 46 */\n"
    "    const int8_t *weights; /* of each part, as its function takes them */\n"
)


class _Tiles:
    """The functions of a layer, and the C that has them compute a tile."""

    def __init__(self, layer: LinearWeights, family: Family, rows: tuple[int, ...]) -> None:
        depths = depths_of(layer)
        assert depths is not None, "the caller has found them"
        self.depths, self.columns, self.depth = depths, layer.channels, layer.depth
        self._family, self.rows = family, rows
        self.functions: dict[tuple[int, int], Function] = {}
        for count in rows:
            for depth in dict.fromkeys(depths):
                part = Part(depth, layer.channels, count, rows == (1,), layer.depth)
                self.functions[count, depth] = family.emit(part)

    def instructions(self, rows: int) -> float:
        """Return the instructions of a tile of so many rows."""
        emitted_ = sum(self.functions[rows, depth].instructions + _TILE for depth in self.depths)
        return emitted_ + rows * self.columns * (_ADD * len(self.depths) + _ROUND)

    @property
    def scratch(self) -> int:
        """Bytes of the sums of a part and of all parts."""
        return 12 * max(self.rows) * self.columns

    def text(self) -> str:
        """Return the functions, and one for a tile of each number of rows."""
        texts = [function.text() for function in self.functions.values()]
        return "\n".join([*texts, *(self._tile(rows) for rows in self.rows)])

    def _tile(self, rows: int) -> str:
        lines, begin = [], 0
        count = rows * self.columns
        outs = [f"(int8_t *)(sums + {r * self.columns})" for r in range(rows)]
        for depth in self.depths:
            function = self.functions[rows, depth]
            lines += [
                f"{function.name}(in + {_ELEMENT * begin}, p->weights + {begin * self.columns},",
                "    (const int8_t *)p->bias,",
                f"    {', '.join(outs if self._family.apart else outs[:1])});",
                f"hil_riscv_add_part(sums, {count}, {int(begin == 0)}, sums + {count});",
            ]
            begin += depth
        body = "".join(f"    {line}\n" for line in lines)
        return (
            f"static inline void {NAME}_rows{rows}(const struct {NAME} *p, const int8_t *in,\n"
            "    int8_t *out, int32_t *sums) {\n"
            "    const struct hil_riscv_rounding rounding = "
            f"HIL_RISCV_ROUNDING_OF(p, {self.columns});\n{body}"
            f"    hil_riscv_round_sums(&rounding, sums + {count}, {rows}, out);\n}}\n"
        )


@packed_once
def _matmul_class(layer: LinearWeights, family: Family, rows: int) -> type[PartsRows]:
    tiles = _Tiles(layer, family, (rows, 1) if rows > 1 else (1,))
    row_bytes, out_bytes = _ELEMENT * layer.depth, _ELEMENT * layer.channels
    body = "    int32_t left = p->rows;\n"
    for count in tiles.rows:
        body += (
            f"    for (; left >= {count}; left -= {count}) {{\n"
            f"        {NAME}_rows{count}(p, in, out, (int32_t *)scratch);\n"
            f"        in += {count * row_bytes};\n        out += {count * out_bytes};\n    }}\n"
        )
    counts = {"tile": f"rows // {rows}", "single": f"rows % {rows}"}
    struct = f"    int32_t rows; /* rows of the input, and of the output */\n{_STRUCT}"
    return _emitted(PartsRows, "matmul", tiles, family, struct, body, counts, dict(_GLUE))


@packed_once
def _conv_class(layer: LinearWeights, family: Family) -> type[PartsWindows]:
    rows = family.rows
    tiles = _Tiles(layer, family, (rows, 1))
    row_bytes, out_bytes = _ELEMENT * layer.depth, _ELEMENT * layer.channels
    sums = f"(int32_t *)((int8_t *)scratch + {_windows_bytes(tiles)})"
    body = (
        f"    const struct hil_patch window = HIL_PATCH_OF(p, {_ELEMENT}, 0);\n"
        f"    int32_t *const sums = {sums};\n"
        "    int8_t *const work = (int8_t *)scratch;\n"
        "    int32_t count = 0;\n"
        "    for (int32_t y = 0; y < p->out_h; y++) {\n"
        "        for (int32_t x = 0; x < p->out_w; x++) {\n"
        "            hil_gather_patch(&window, in, y * p->stride_h - p->pad_top,\n"
        f"                x * p->stride_w - p->pad_left, work + count * {row_bytes});\n"
        f"            if (++count == {rows}) {{\n"
        f"                {NAME}_rows{rows}(p, work, out, sums);\n"
        f"                out += {rows * out_bytes};\n"
        "                count = 0;\n            }\n        }\n    }\n"
        "    for (int32_t i = 0; i < count; i++) {\n"
        f"        {NAME}_rows1(p, work + i * {row_bytes}, out, sums);\n"
        f"        out += {out_bytes};\n    }}\n"
    )
    counts = {
        "tile": f"batch * ((out_h * out_w) // {rows})",
        "single": f"batch * ((out_h * out_w) % {rows})",
        "window": "batch * out_h * out_w",
        "window_row": "window * filter_h",
        "gathered": f"window * {-(-row_bytes // 4)}",
    }
    struct = f"    HIL_IMAGES_FIELDS;\n    HIL_WINDOW_FIELDS;\n{_STRUCT}"
    figures = _GLUE | _WINDOW_GLUE | {"gathered": family.gathered}
    return _emitted(PartsWindows, "conv2d", tiles, family, struct, body, counts, figures)


def _windows_bytes(tiles: _Tiles) -> int:
    """Return the bytes of gathered windows, whole words."""
    return -(-max(tiles.rows) * _ELEMENT * tiles.depth // 4) * 4


def _emitted(
    parameters: type[_P],
    operator: str,
    tiles: _Tiles,
    family: Family,
    struct: str,
    body: str,
    counts: dict[str, str],
    figures: dict[str, float],
) -> type[_P]:
    images = operator == "conv2d"
    most = tiles.rows[0]
    scratch = tiles.scratch + (_windows_bytes(tiles) if images else 0)
    own = {"tile": tiles.instructions(most), "single": tiles.instructions(1)}
    products = most * tiles.columns * tiles.depth
    return emitted(
        parameters,
        Description(
            family=family.name,
            operator=f"{operator}_s16",
            form=f"{most}_row{'s' if most > 1 else ''}_parts",
            requires=family.features,
            scratch=str(scratch),
            order=(("pixels", "1"),),
            reads="window" if images else "rows",
            window={},
            functions=sum(each.code_bytes for each in tiles.functions.values()),
            glue=_GLUE_BYTES,
            figures=figures | own,
            counts=counts,
            head={
                "Tile": f"{most} rows x all {tiles.columns} columns x a part of the depth: "
                f"{', '.join(map(str, tiles.depths))}; and one row of them.",
                "Registers": "those of the tile of sums of 32 bits; given out by the emitter.",
                "Data": "weights of each part, as the tile of sums of 32 bits takes them; biases "
                "of 64 bits, multipliers and shifts of each column.",
                "Order": "A row's outputs are written after all of it is read; windows are "
                "gathered before.",
                "Bounds": "The magnitudes of the weights of a part add up to less than 2^16, those "
                "of inputs are at most 2^15: its sums are words. Sums of all parts have 64 bits.",
                "Output": "(sum * multiplier + half) >> shift in 64 bits, rounded once, clamped: "
                "hil_requantize_once().",
                "Scratch": "windows; the sums of a part, and those of all parts.",
                "Cost": f"Counted by the emitter, and estimated for the glue: {own['tile']:.0f} "
                f"instructions a tile, {own['tile'] / products:.3f} a MAC.",
                "Tests": "tests/board/test_riscv_kernels.py, tests/c/test_riscv_kernels.py: the C "
                "form is the same list of instructions.",
            },
            dtype="int16_t",
        ),
        struct,
        [_INCLUDE, family.include],
        kernel_text(tiles.text(), body, images=images, dtype="int16_t", element=_ELEMENT),
    )
