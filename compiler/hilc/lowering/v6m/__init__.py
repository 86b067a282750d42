"""Kernels for cores with 16-bit Thumb code alone, as Cortex-M0 (``kernels/v6m``)."""

from hilc.lowering.v6m import conv2d

__all__ = ["conv2d"]
