"""Kernels for RV32IM and RV32F, emitted for each layer (:mod:`hilc.lowering.riscv.emitter`)."""

from hilc.lowering.riscv import columns, lstm, matrix, softmax

__all__ = ["columns", "lstm", "matrix", "softmax"]
