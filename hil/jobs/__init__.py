"""Jobs: what is done with models on a board, as values, the same for the command line, for Python
and for pytest.

:class:`VerifyJob`, :class:`BenchJob` and :class:`EvaluateJob` choose their image, reference,
samples and limits once, where they run; :mod:`hil.jobs.matrix` runs several, also in processes.
"""

from __future__ import annotations

from hil.jobs.bench import BenchJob
from hil.jobs.evaluate import EvaluateJob
from hil.jobs.job import Job
from hil.jobs.matrix import JobOutcome
from hil.jobs.run import Run
from hil.jobs.verify import VerifyJob

__all__ = ["BenchJob", "EvaluateJob", "Job", "JobOutcome", "Run", "VerifyJob"]
