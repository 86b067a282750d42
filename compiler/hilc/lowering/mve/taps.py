"""Filters of one channel each, of any size, strides and dilations: tap by tap over planes."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

import numpy as np
import numpy.typing as npt

from hilc.lowering.forms import row_bands
from hilc.lowering.linear import DepthwiseConvolution, LinearWeights, packed_once
from hilc.lowering.parameters import HilMveTaps

#: Outputs of a vector, and the most vectors of a tile.
_LANES, _VECTORS = 4, 6
#: Instructions of a tile, and of each of its vectors, beside those of the taps.
_TILE, _VECTOR = 20, 7
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
    # By the width alone: bands of a layer have the same filters, whatever their height.
    upright = images.out_w < _LANES
    along, across = (height, width) if upright else (width, height)
    in_step = images.in_c * (images.in_w if upright else 1)
    size, stride, dilation = along
    if _GATHERED * stride * in_step > _MOST_OFFSET:
        return
    apart = stride // gcd(stride, dilation)
    runs, step = min(size, apart), dilation // gcd(stride, dilation)
    for band, rows in row_bands(_BANDS, images.out_h):
        outputs, lines = (rows, images.out_w) if upright else (images.out_w, rows)
        least = images.out_h % rows or rows
        outs = (images.out_w * form.channels, form.channels)
        tile = _tile(
            (outputs, lines),
            (least, images.out_w) if upright else (images.out_w, least),
            outs if upright else outs[::-1],
            window.filter_h * window.filter_w,
        )
        if tile is None:
            continue
        beside, below = tile
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
                beside=beside,
                below=below,
                weights=_filters(form.packing, window.filter_h, upright, runs),
                scales=scales,
            ),
        )


def _tile(
    counts: tuple[int, int], least: tuple[int, int], steps: tuple[int, int], taps: int
) -> tuple[int, int] | None:
    """Return the vectors beside each other and the lines of the tiles that take the fewest
    instructions; None where outputs lie too far apart. ``counts`` are outputs of a line and lines,
    ``least`` those of the last band, ``steps`` elements from an output to the next ones.
    """
    fitting = [
        (beside, below)
        for beside in range(1, _VECTORS + 1)
        for below in range(1, _VECTORS // beside + 1)
        if (beside == 1 or _LANES * beside <= least[0])
        and below <= least[1]
        and (_LANES * beside - 1) * steps[0] + (below - 1) * steps[1] <= _MOST_OFFSET
    ]

    def instructions(tile: tuple[int, int]) -> int:
        beside, below = tile
        tiles = -(-counts[0] // (_LANES * beside)) * -(-counts[1] // below)
        vectors = beside * below
        return tiles * (_TILE + taps + vectors * (_VECTOR + 2 * taps))

    return min(fitting, key=lambda tile: (instructions(tile), tile), default=None)


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
