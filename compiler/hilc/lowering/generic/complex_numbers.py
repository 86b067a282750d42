"""RFFT2D, REAL, IMAG and COMPLEX_ABS."""

from __future__ import annotations

from math import prod

import numpy as np

from hilc.ir import Array
from hilc.lowering.generic.data_movement import take_indices
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilGenericComplexAbs, HilGenericRfft2d
from hilc.lowering.registry import Layer, lowers
from hilc.ops.complex_numbers import PARTS, part, transformed


def _factors(count: int) -> Array:
    """Return cosines and minus sines of the first half of a circle, each as the sum of two
    floats.
    """
    angles = -2 * np.pi * np.arange(max(1, count // 2)) / count
    exact = np.stack([np.cos(angles), np.sin(angles)], 1)
    high = exact.astype(np.float32)
    low = (exact - high).astype(np.float32)
    return np.stack([high, low], 2).reshape(-1)


@lowers("RFFT2D")
def rfft2d(layer: Layer) -> KernelCall:
    """Return the call that transforms images."""
    shape = layer.operand(0).shape
    height, width = transformed(layer.node, layer.ins)
    longest = max(height, width)
    parameters = HilGenericRfft2d(
        images=prod(shape[:-2]),
        in_h=shape[-2],
        in_w=shape[-1],
        height=height,
        width=width,
        plane=height * (width // 2 + 1) if height > 1 else 0,
        longest=longest,
        bits=height.bit_length() + width.bit_length() - 2,
        factors=_factors(longest),
    )
    return KernelCall(parameters)


@lowers("REAL", "IMAG")
def parts(layer: Layer) -> KernelCall:
    """Return the call that takes one of the two numbers of each complex one."""
    return take_indices(layer.node, layer.operand(0), part(layer.node, layer.ins))


@lowers("COMPLEX_ABS")
def magnitudes(layer: Layer) -> KernelCall:
    """Return the call that takes magnitudes."""
    return KernelCall(HilGenericComplexAbs(size=layer.operand(0).size // PARTS))
