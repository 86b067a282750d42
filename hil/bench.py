"""Names of release 0.1 for what :mod:`hil` has: ``hil.bench`` is the function."""

from __future__ import annotations

from hil.jobs.functions import bench
from hil.verify.bench import BenchReport

__all__ = ["BenchReport", "bench"]
