"""Verification and measurement of models on boards: comparison with references, samples, costs.

The module is callable: ``hil.verify(...)`` is its function :func:`verify`. :mod:`hil.bench`,
:mod:`hil.oracle` and :mod:`hil.samples` have the other public names.
"""

from __future__ import annotations

from hil.results.evaluate import Mismatch
from hil.results.parts import Fallback
from hil.results.verify import Cost, Diagnosis, Element, Fidelity, TensorFidelity
from hil.support.callable_module import make_callable
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

make_callable(__name__)
