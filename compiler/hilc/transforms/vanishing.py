"""Quantized tensors of scales so small that they hold zeros alone.

Where calibration sees nothing but zeros of a tensor, as of the negative part behind an activation,
a converter writes a scale that is subnormal in single precision, or 0. The largest number of 16
bits is below 1e-33 then: nothing to any tensor whose scale is in range. But the factor from another
scale to it is beyond every shift, so that what the references compute of it is left to chance. Such
a tensor becomes a constant of zeros, and what computes it goes. Its scale becomes the least
that is in range, so that it changes no scale that is derived from the largest of several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hilc.ir import Array, Quant, Tensor
from hilc.ops.operands import LEAST_SCALE

#: The least number of single precision that is not subnormal. No file has the scale LEAST_SCALE
#: itself, which is no number of single precision.
_LEAST_NORMAL = 2.0**-126


def with_normal_scale(quant: Quant) -> Quant:
    """Return a quantization with a vanishing per-tensor scale raised to the least one in range."""
    if quant.per_tensor and quant.scale[0] < _LEAST_NORMAL:
        return replace(quant, scale=(LEAST_SCALE,))
    return quant


def vanished(outputs: Sequence[Tensor]) -> list[Tensor] | None:
    """Return the outputs of a node as constants of zeros; None where not all of them vanish."""
    if not all(map(_vanishes, outputs)):
        return None
    return [replace(tensor, data=_zeros(tensor)) for tensor in outputs]


def _vanishes(tensor: Tensor) -> bool:
    return tensor.quant is not None and tensor.quant.scale == (LEAST_SCALE,)


def _zeros(tensor: Tensor) -> Array:
    assert tensor.quant is not None
    zeros = np.full(tensor.shape, tensor.quant.zero_point[0], tensor.dtype)
    zeros.flags.writeable = False
    return zeros
