"""Products of two computed matrices, packed when the model runs."""

from __future__ import annotations

from collections.abc import Iterator

from hilc.ir import Rounding
from hilc.lowering.kernels import KernelCall
from hilc.lowering.matrices import matrices_form
from hilc.lowering.mve.packing import CHUNK, FARTHEST
from hilc.lowering.parameters import HilMveBatchMatmulS8
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.rounds import Rounds
from hilc.ops import batch_matmul

#: Rows that are taken at a time, and elements that are gathered at a time.
_ROWS, _GATHERED = 4, 8


@lowers("BATCH_MATMUL", dtypes={"int8"}, requires={"mve"}, roundings=Rounding)
def products(layer: Layer) -> Iterator[KernelCall]:
    """Return the family's kernel for int8."""
    form = matrices_form(layer)
    shape = form.shape
    multiplier, shift = batch_matmul.scale(layer.node, layer.ins, layer.out)
    farthest = max(_ROWS * shape.columns, _GATHERED * shape.a_step, _GATHERED * shape.b_step)
    rounds = form.rounds(layer)
    if shift >= 0 or farthest > FARTHEST or rounds is Rounds.EVEN:
        return
    yield form.call(
        HilMveBatchMatmulS8(
            batch_matmul=shape,
            chunks=-(-shape.depth // CHUNK),
            a_offset=-form.a_zero_point,
            b_offset=-form.b_zero_point,
            out_zero_point=form.out_zero_point,
            multiplier=multiplier,
            shift=shift,
            once=int(rounds is Rounds.HALF_UP),
        )
    )
