"""Kernels for CV32E40P's instructions (XPULP), emitted for each layer."""

from hilc.lowering.xpulp import matrix, pool

__all__ = ["matrix", "pool"]
