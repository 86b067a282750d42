"""What emitted kernels of linear layers share: their fields, and the glue around their tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.lowering.linear import Convolution
from hilc.lowering.parameters import HilImages, HilWindow
from hilc.lowering.records import record
from hilc.lowering.riscv.emitted import NAME, EmittedParameters

#: Declarations of the fields of an emitted convolution, but for its arrays.
IMAGE_FIELDS = (
    "    HIL_IMAGES_FIELDS;\n    HIL_WINDOW_FIELDS;\n"
    "    int32_t in_zero_point; /* the input that stands for 0.0 */\n"
)


@record(frozen=True, eq=False, kw_only=True)
class MatmulParameters(EmittedParameters):
    """The fields of an emitted matrix product's struct."""

    rows: int
    scales: npt.NDArray[np.int32]
    weights: npt.NDArray[np.int8]


@record(frozen=True, eq=False, kw_only=True)
class ConvParameters(EmittedParameters):
    """The fields of an emitted convolution's struct."""

    images: HilImages
    window: HilWindow
    in_zero_point: int
    scales: npt.NDArray[np.int32]
    weights: npt.NDArray[np.int8]


#: Instructions of the call of a tile.
_CALL = 12


@dataclass(frozen=True)
class Runs:
    """Where the elements of a tile's rows lie: each row in runs of bytes."""

    count: int
    bytes: int
    #: Bytes from a run to the next of the row, and from a row to the next of the tile.
    pitch: int
    step: int

    @property
    def row_bytes(self) -> int:
        """Bytes by which an address moves over all runs."""
        return self.count * self.pitch


@dataclass(frozen=True)
class PaddedRows:
    """The rows of an image under a row of outputs, copied with their padding."""

    filter_h: int
    filter_w: int
    stride_w: int
    dilation_h: int
    pad_left: int
    in_w: int
    in_c: int
    out_w: int

    @property
    def pitch(self) -> int:
        """Bytes of a copied row."""
        return ((self.out_w - 1) * self.stride_w + self.filter_w) * self.in_c

    @property
    def inside(self) -> int:
        """Bytes of a row of the image that are copied."""
        return max(min(self.in_w * self.in_c, self.pitch - self.pad_left * self.in_c), 0)

    @property
    def runs(self) -> Runs:
        """The windows of neighbouring outputs, as rows of a tile."""
        return Runs(self.filter_h, self.filter_w * self.in_c, self.pitch, self.stride_w * self.in_c)

    @property
    def scratch(self) -> int:
        """Bytes of the copied rows, and of the rest of a word behind them."""
        return self.filter_h * self.pitch + 3

    @property
    def figures(self) -> dict[str, float]:
        """Instructions of the glue, by the terms of :attr:`counts`, but for copied bytes."""
        return {"call": 40.0, "padded_row": 60.0, "copied_row": 20.0, "row": 20.0}

    @property
    def counts(self) -> dict[str, str]:
        """Terms of the cost: rows of outputs, copied rows, and the bytes of these."""
        return {
            "row": "batch * out_h",
            "copied_row": f"row * {self.filter_h}",
            "copied": f"copied_row * {self.inside}",
            "padded_row": f"batch * {self.filter_h}",
        }

    def body(self, tiles: str, columns: int) -> str:
        """Return the code that copies the rows under each row of outputs, then has ``tiles``
        compute it from ``scratch`` to ``out``.
        """
        return (
            f"{self._padding()}"
            "    for (int32_t row = 0; row < p->out_h; row++) {\n"
            f"        for (int32_t ky = 0; ky < {self.filter_h}; ky++) {{\n"
            "            const int32_t y =\n"
            f"                row * p->stride_h - p->pad_top + ky * {self.dilation_h};\n"
            f"            int8_t *const to = (int8_t *)scratch + ky * {self.pitch} + "
            f"{self.pad_left * self.in_c};\n"
            "            if ((uint32_t)y < (uint32_t)p->in_h) {\n"
            f"                {NAME}_copy(in + y * {self.in_w * self.in_c}, to, {self.inside}U);\n"
            "            } else {\n"
            f"{_filled('                ', 0, self.inside)}            }}\n        }}\n{tiles}"
            f"        out += {self.out_w * columns};\n    }}\n"
        )

    def _padding(self) -> str:
        """Return the code that fills what lies beside the image with zero points."""
        before = min(self.pad_left * self.in_c, self.pitch)
        end = before + self.inside
        sides = _filled("        ", 0, before) + _filled("        ", end, self.pitch - end)
        if not sides:
            return ""
        return (
            f"    for (int32_t ky = 0; ky < {self.filter_h}; ky++) {{\n"
            f"        int8_t *const to = (int8_t *)scratch + ky * {self.pitch};\n{sides}    }}\n"
        )

    def calls(self, tiles: Sequence[tuple[str, int]], columns: int, *, apart: bool) -> str:
        """Return the calls of a row of outputs: of tiles by name and rows, the first as often as it
        fits. ``apart``: each row of a tile has an address of its own for its outputs.
        """
        lines = ["const int8_t *from = (const int8_t *)scratch;", "int8_t *to = out;"]
        left = self.out_w
        for name, rows in tiles:
            times, left = divmod(left, rows)
            outs = [f"to + {r * columns}" for r in range(rows if apart else 1)]
            lines += [
                f"for (int32_t i = 0; i < {times}; i++) {{",
                f"    {name}(from, (const int8_t *)p->weights, (const int8_t *)p->scales,",
                f"        {', '.join(outs)});",
                f"    from += {rows * self.runs.step};",
                f"    to += {rows * columns};",
                "}",
            ]
        return "".join(f"        {line}\n" for line in lines)

    def sizes(self, most: int) -> list[int]:
        """Return the rows of the tiles for a row of outputs: as many as possible, then the rest."""
        whole, left = divmod(self.out_w, most)
        return [most] * (whole > 0) + [left] * (left > 0)

    def instructions(self, functions: Sequence[tuple[int, float]]) -> float:
        """Return the instructions of a row of outputs, with those of each tile by its rows."""
        total, left = 0.0, self.out_w
        for rows, each in functions:
            times, left = divmod(left, rows)
            total += times * (each + _CALL)
        return total


def _filled(indent: str, begin: int, count: int) -> str:
    return f"{indent}memset(to + {begin}, p->in_zero_point, {count});\n" if count else ""


def padded_rows(form: Convolution) -> PaddedRows | None:
    """Return the copied rows of a convolution; None where a window is no runs of bytes."""
    window, images = form.window, form.images
    if window.dilation_w != 1:
        return None
    return PaddedRows(
        filter_h=window.filter_h,
        filter_w=window.filter_w,
        stride_w=window.stride_w,
        dilation_h=window.dilation_h,
        pad_left=window.pad_left,
        in_w=images.in_w,
        in_c=images.in_c,
        out_w=images.out_w,
    )


def kernel_text(
    functions: str,
    body: str,
    *,
    images: bool,
    dtype: str = "int8_t",
    element: int = 1,
    scratch: bool = True,
) -> str:
    """Return the emitted functions and the one that layers call, with ``body``, or with it for each
    of a batch of images. In the body ``in`` and ``out`` are addresses of bytes; ``element`` is the
    number of these of a ``dtype``.
    """
    if images:
        pixel = "p->in_c" if element == 1 else f"{element} * p->in_c"
        inner = "".join(f"    {line}\n" for line in body.splitlines())
        body = (
            f"    for (int32_t image = 0; image < p->batch; image++) {{\n{inner}"
            f"        in += p->in_h * p->in_w * {pixel};\n    }}\n"
        )
    return f"{functions}\n{kernel_head(dtype, scratch)}{body}}}\n"


def kernel_head(dtype: str, scratch: bool = True) -> str:
    """Return the beginning of the function that layers call."""
    begin = f"HIL_INLINE void {NAME}(const struct {NAME} *p, "
    if dtype == "int8_t":
        return f"{begin}const int8_t *in, int8_t *out,\n    void *scratch) {{\n"
    work = ", void *scratch" if scratch else ""
    return (
        f"{begin}const {dtype} *input,\n    {dtype} *output{work}) {{\n"
        "    const int8_t *in = (const int8_t *)input;\n"
        "    int8_t *out = (int8_t *)output;\n"
    )
