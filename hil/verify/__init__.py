"""Verification and measurement of models on boards: comparison with references, samples, costs.

:mod:`hil`, :mod:`hil.oracle` and :mod:`hil.samples` have the public names; ``hil.verify`` is the
function :func:`verify`.
"""

from __future__ import annotations

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
from hil.verify.jobs import verify
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
    "verify",
]
