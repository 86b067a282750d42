"""Kernels for cores with a floating-point unit (``kernels/fpu``)."""

from hilc.lowering.fpu import products

__all__ = ["products"]
