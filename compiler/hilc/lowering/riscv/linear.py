"""What emitted kernels of linear layers share: their fields, and the glue around their tiles."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

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
