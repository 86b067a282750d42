"""Verification and measurement of models on boards: comparison with references, samples, costs.

:mod:`hil`, :mod:`hil.oracle` and :mod:`hil.samples` have the public names; ``hil.verify`` is the
function :func:`verify`.
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
)
from hil.verify.cost import Cost
from hil.verify.diagnosis import Diagnosis, Element, Kind
from hil.verify.evaluation import Evaluation, MetricReport, Mismatch
from hil.verify.fidelity import Fidelity, TensorFidelity
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
