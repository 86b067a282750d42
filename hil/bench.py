"""Counts what an inference costs on a board: instructions or cycles, flash and RAM.

What of :mod:`hil.verify` measures; the rooms use that. The module is callable: ``hil.bench(...)``
is its function :func:`bench`.
"""

from __future__ import annotations

from hil.support.callable_module import make_callable
from hil.verify.bench import BenchReport
from hil.verify.jobs import bench

__all__ = ["BenchReport", "bench"]

make_callable(__name__)
