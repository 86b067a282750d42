"""Filters of one channel each, of any size, strides and dilations: tap by tap over planes."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

import numpy as np
import numpy.typing as npt

from hilc.lowering.forms import row_bands
from hilc.lowering.linear import DepthwiseConvolution, LinearWeights, packed_once
from hilc.lowering.parameters import HilMveTaps

#: Outputs of a vector.
_LANES = 4
#: Rows of outputs at a time where a whole plane takes much scratch.
_BANDS = (8, 2)
#: Pixels from the first to the last one that a gather takes, and its largest offset.
_GATHERED, _MOST_OFFSET = 7, 65535


def taps(
    form: DepthwiseConvolution, scales: npt.NDArray[np.int32]
) -> Iterator[tuple[str, HilMveTaps]]:
    """Yield a form and the fields of ``depthwise_conv2d_taps.h``: of the whole of a channel's
    plane, or of some rows. ``scales`` are bias, multiplier, shift and zero point of each channel.
    """
    images, window = form.images, form.window
    height = window.filter_h, window.stride_h, window.dilation_h
    width = window.filter_w, window.stride_w, window.dilation_w
    for band, rows in row_bands(_BANDS, images.out_h):
        upright = _vectors(rows, images.out_w) < _vectors(images.out_w, rows)
        along, across = (height, width) if upright else (width, height)
        outputs, lines = (rows, images.out_w) if upright else (images.out_w, rows)
        in_step = images.in_c * (images.in_w if upright else 1)
        size, stride, dilation = along
        if _GATHERED * stride * in_step > _MOST_OFFSET:
            continue
        apart = stride // gcd(stride, dilation)
        runs, step = min(size, apart), dilation // gcd(stride, dilation)
        yield (
            band,
            form.parameters(
                HilMveTaps,
                rows=rows,
                upright=int(upright),
                runs=runs,
                part=outputs + (size - 1) // runs * step,
                lines=(lines - 1) * across[1] + (across[0] - 1) * across[2] + 1,
                step=step,
                weights=_filters(form.packing, window.filter_h, upright, runs),
                scales=scales,
            ),
        )


def _vectors(outputs: int, lines: int) -> int:
    """Return the vectors in ``lines`` lines of ``outputs`` outputs."""
    return -(-outputs // _LANES) * lines


@packed_once
def _filters(
    weights: LinearWeights, filter_h: int, upright: bool, runs: int
) -> npt.NDArray[np.int8]:
    """Return the filters line by line, of each line every ``runs``-th tap from the first on, from
    the second on and so forth.
    """
    filters = weights.matrix.reshape(weights.channels, filter_h, -1)
    lines = filters.transpose(0, 2, 1) if upright else filters
    parts = [lines[:, :, run::runs] for run in range(runs)]
    return np.concatenate(parts, axis=2).reshape(-1).astype(np.int8)
