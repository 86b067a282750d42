"""Jobs: what is done with models on a board, as values, the same for the command line, for Python
and for pytest.

:class:`VerifyJob`, :class:`BenchJob` and :class:`EvaluateJob` choose their image, reference,
samples and limits once, where they run; :mod:`hil.jobs.matrix` runs several, also in processes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hil.jobs.bench import BenchJob
    from hil.jobs.evaluate import EvaluateJob
    from hil.jobs.job import Job
    from hil.jobs.matrix import JobOutcome
    from hil.jobs.run import Run
    from hil.jobs.verify import VerifyJob

__all__ = ["BenchJob", "EvaluateJob", "Job", "JobOutcome", "Run", "VerifyJob"]

#: The names by their module, which is loaded on first use: a command needs one kind of job.
_MODULES = {
    "BenchJob": "bench",
    "EvaluateJob": "evaluate",
    "Job": "job",
    "JobOutcome": "matrix",
    "Run": "run",
    "VerifyJob": "verify",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"hil.jobs.{_MODULES[name]}"), name)
