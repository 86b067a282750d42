"""Verification and measurement of models on boards: comparison with references, samples, costs.

:mod:`hil`, :mod:`hil.oracle` and :mod:`hil.samples` have the public names; ``hil.verify`` is the
function of :mod:`hil.jobs.functions`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from hil.results.evaluate import Mismatch
from hil.results.parts import Fallback
from hil.results.verify import Cost, Diagnosis, Element, Fidelity, TensorFidelity
from hil.verify.comparison import (
    FLOAT_RTOL,
    Difference,
    LayerReport,
    Oracle,
    Report,
    TensorReport,
)
from hil.verify.diagnosis import Kind
from hil.verify.evaluation import Evaluation, MetricReport
from hil.verify.metrics import Score

__all__ = [
    "FLOAT_RTOL",
    "Cost",
    "Diagnosis",
    "Difference",
    "Element",
    "Evaluation",
    "Fallback",
    "Fidelity",
    "Kind",
    "LayerReport",
    "MetricReport",
    "Mismatch",
    "Oracle",
    "Report",
    "Score",
    "TensorFidelity",
    "TensorReport",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Return the function ``hil.verify``, which was here before: the jobs are above it."""
        if name == "verify":
            return import_module("hil.jobs.functions").verify
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
