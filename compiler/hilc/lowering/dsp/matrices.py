"""Products of two computed matrices, widened when the model runs."""

from __future__ import annotations

from collections.abc import Iterator

from hilc.ir import Rounding
from hilc.lowering.dsp.affine import MAX_SHIFT
from hilc.lowering.dsp.packing import UNIT
from hilc.lowering.forms import limited
from hilc.lowering.kernels import KernelCall
from hilc.lowering.matrices import matrices_form
from hilc.lowering.parameters import HilDspBatchMatmulS8
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.rounds import Rounds
from hilc.ops import batch_matmul

#: Bound of sums, so that twice a sum and the addend of its product fit in 32 bits.
_LIMIT = 2**29
#: Rows of the first matrix that are widened at a time, at most: more take more scratch, fewer widen
#: the second matrix more often.
_GROUPS = (2**30, 8)


@lowers("BATCH_MATMUL", dtypes={"int8"}, requires={"dsp"}, lacks={"mve"}, roundings=Rounding)
def products(layer: Layer) -> Iterator[KernelCall]:
    """Return the family's kernels for int8."""
    form = matrices_form(layer)
    multiplier, shift = batch_matmul.scale(layer.node, layer.ins, layer.out)
    rounds = form.rounds(layer)
    if rounds is Rounds.EVEN:
        return
    if form.bound >= _LIMIT or not 1 <= -shift <= MAX_SHIFT:
        return
    rows = form.shape.rows + form.shape.rows % 2
    for most, group in limited(_GROUPS, rows):
        yield form.call(
            HilDspBatchMatmulS8(
                batch_matmul=form.shape,
                units=-(-form.shape.depth // UNIT),
                group=group,
                a_offset=-form.a_zero_point,
                b_offset=-form.b_zero_point,
                out_zero_point=form.out_zero_point,
                multiplier=multiplier,
                shift=-shift,
                once=int(rounds is Rounds.HALF_UP),
            ).as_form("" if group == rows else most)
        )
