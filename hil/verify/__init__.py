"""Compares a model on a device with a reference, output by output and layer by layer.

The room of all that is found out about a model on a board: :mod:`hil.bench`, :mod:`hil.oracle` and
:mod:`hil.samples` have the rest of it that is for users.
"""

from __future__ import annotations

from hil.verify.comparison import (
    FLOAT_RTOL,
    Difference,
    Fallback,
    LayerReport,
    Oracle,
    Report,
    TensorReport,
    verify,
)

__all__ = [
    "FLOAT_RTOL",
    "Difference",
    "Fallback",
    "LayerReport",
    "Oracle",
    "Report",
    "TensorReport",
    "verify",
]
