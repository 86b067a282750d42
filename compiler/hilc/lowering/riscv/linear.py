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


def kernel_text(functions: str, body: str, *, images: bool) -> str:
    """Return the emitted functions and the one that layers call, with ``body``, or with it for each
    of a batch of images.
    """
    if images:
        inner = "".join(f"    {line}\n" for line in body.splitlines())
        body = (
            f"    for (int32_t image = 0; image < p->batch; image++) {{\n{inner}"
            "        in += p->in_h * p->in_w * p->in_c;\n    }\n"
        )
    return (
        f"{functions}\nHIL_INLINE void {NAME}(const struct {NAME} *p, "
        f"const int8_t *in, int8_t *out,\n    void *scratch) {{\n{body}}}\n"
    )
