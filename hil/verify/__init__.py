"""Verification and measurement of models on boards: comparison with references, samples, costs.

:mod:`hil.bench`, :mod:`hil.oracle` and :mod:`hil.samples` have the other public names.
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
