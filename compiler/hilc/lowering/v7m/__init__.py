"""Kernels for cores with 32-bit multiplies, as Cortex-M3 and RISC-V (``kernels/v7m``)."""

from hilc.lowering.v7m import conv2d, packed

__all__ = ["conv2d", "packed"]
