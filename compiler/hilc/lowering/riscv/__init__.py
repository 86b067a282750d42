"""Kernels for RV32IM, emitted for each layer (:mod:`hilc.lowering.riscv.emitter`)."""

from hilc.lowering.riscv import matrix

__all__ = ["matrix"]
