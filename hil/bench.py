"""Names of release 0.1 for what :mod:`hil` has: ``hil.bench`` is the function."""

from __future__ import annotations

from hil.verify.bench import BenchReport
from hil.verify.jobs import bench

__all__ = ["BenchReport", "bench"]
