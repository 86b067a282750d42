"""Filters of one channel each, of any size, strides and dilations: vectors of channels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hilc.ir import ELEMENT_TYPES
from hilc.lowering.channels import padded
from hilc.lowering.linear import LinearWeights, packed_once
from hilc.lowering.mve.packing import channel_values

#: Channels of a vector, and of one of its sums, which are in four in this order.
_BLOCK, _LANES, _ORDER = 16, 4, (0, 2, 1, 3)


@packed_once
def channel_filters(weights: LinearWeights) -> npt.NDArray[np.int8]:
    """Return the filters of 16 channels after so many, ``[blocks, taps, 16]``, flat."""
    filters = padded(weights.matrix, _BLOCK).reshape(-1, _BLOCK, weights.depth)
    return np.ascontiguousarray(filters.transpose(0, 2, 1)).reshape(-1).astype(np.int8)


@packed_once
def channel_scales(weights: LinearWeights) -> npt.NDArray[np.int32]:
    """Return biases, multipliers and shifts of the channels of a vector, in the order of the sums:
    ``[blocks, 3, 4, 4]``, flat.
    """
    values = np.hstack(channel_values(weights))
    # Of each four channels every vector of sums has one.
    whole = padded(values, _BLOCK).reshape(-1, _LANES, _LANES, values.shape[1])[:, :, _ORDER]
    return np.ascontiguousarray(whole.transpose(0, 3, 2, 1)).reshape(-1).astype(np.int32)


@packed_once
def channel_group(weights: LinearWeights, filter_w: int) -> int:
    """Return the most taps of a row of a filter whose products with any inputs of int8 have a sum
    of 16 bits, in as many groups as there must be.
    """
    limits, inputs = ELEMENT_TYPES["int16"], ELEMENT_TYPES["int8"]
    rows = weights.matrix.astype(np.int64).reshape(-1, filter_w)
    highest = np.maximum(rows * inputs.low, rows * inputs.high)
    lowest = np.minimum(rows * inputs.low, rows * inputs.high)
    for groups in range(1, filter_w + 1):
        group = -(-filter_w // groups)
        starts = range(0, filter_w, group)
        most = max(int(highest[:, x : x + group].sum(axis=1).max()) for x in starts)
        least = min(int(lowest[:, x : x + group].sum(axis=1).min()) for x in starts)
        if least >= limits.low and most <= limits.high:
            return group
    return 1
