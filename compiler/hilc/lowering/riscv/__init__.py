"""Kernels for RV32IM and RV32F, emitted for each layer (:mod:`hilc.lowering.riscv.emitter`)."""

from hilc.lowering.riscv import lstm, matrices, matrix, softmax, transposed, wide_matrix

__all__ = ["lstm", "matrices", "matrix", "softmax", "transposed", "wide_matrix"]
