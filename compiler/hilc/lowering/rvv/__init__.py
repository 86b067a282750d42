"""Kernels for RISC-V's vectors of Zve32x, of any length, emitted for each layer."""

from hilc.lowering.rvv import binary, linear, matrices, pool, product, tables

__all__ = ["binary", "linear", "matrices", "pool", "product", "tables"]
