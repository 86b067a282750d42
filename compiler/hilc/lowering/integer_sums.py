"""Exact sums of integers as their kernels see them: windows over images, whose pixels may be the
rows of a matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.ir import Array
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.parameters import HilImages, HilIntegerSums, HilWindow
from hilc.lowering.registry import Layer, cached_per_layer
from hilc.ops.dynamic import SUMS

#: The operators of such sums.
OPERATORS = ("MATMUL_INTEGER", "CONV_INTEGER")


@dataclass(frozen=True)
class SumsForm:
    """Geometry and weights of a layer."""

    sums: HilIntegerSums
    window: HilWindow
    #: The weights, ``[output channels, products of a sum]``.
    matrix: Array
    groups: int
    macs: int

    @property
    def depth(self) -> int:
        """Products of a sum."""
        return int(self.matrix.shape[1])

    @property
    def is_narrow(self) -> bool:
        """Whether weights are bytes, and sum over all channels of the input."""
        return self.matrix.itemsize == 1 and self.groups == 1

    @property
    def totals(self) -> npt.NDArray[np.int32]:
        """The sum of the weights of each output channel."""
        sums: npt.NDArray[np.int32] = self.matrix.astype(np.int64).sum(1).astype(np.int32)
        return sums

    def call(self, parameters: Parameters) -> KernelCall:
        """Return the call of a kernel of integers and their zero points."""
        return KernelCall(parameters, (0, 1), self.macs)


@cached_per_layer
def sums_form(layer: Layer) -> SumsForm:
    """Return the form of a layer of one of :data:`OPERATORS`."""
    found = SUMS[layer.node.op](layer.node, layer.ins)
    h, w = found.window.h, found.window.w
    batch, _, _, channels = found.x_shape
    pixels = h.span == h.stride == w.span == w.stride == 1 and not found.window.padded
    images = HilImages(
        batch=batch,
        in_h=h.in_size,
        in_w=w.in_size,
        in_c=channels,
        out_h=h.out_size,
        out_w=w.out_size,
    )
    sums = HilIntegerSums(
        images=images,
        out_c=len(found.weights),
        gathered=int(not pixels),
        shared=int(found.zero_points == 1),
    )
    window = HilWindow(
        filter_h=h.filter_size,
        filter_w=w.filter_size,
        stride_h=h.stride,
        stride_w=w.stride,
        dilation_h=h.dilation,
        dilation_w=w.dilation,
        pad_top=h.pad_before,
        pad_left=w.pad_before,
    )
    matrix = found.weights.reshape(len(found.weights), -1)
    return SumsForm(sums, window, matrix, found.groups, layer.out.size * matrix.shape[1])
