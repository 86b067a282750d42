"""Kernels for cores with a floating-point unit (``kernels/fpu``)."""

from hilc.lowering.fpu import lstm
from hilc.lowering.fpu.products import products

__all__ = ["lstm", "products"]
