"""Kernels that take the least flash, for every core (``kernels/compact``)."""

from hilc.lowering.compact import conv2d

__all__ = ["conv2d"]
