"""Counts what an inference costs on a board: instructions or cycles, flash and RAM.

What of :mod:`hil.verify.bench` is for users; the rooms use that.
"""

from __future__ import annotations

from hil.verify.bench import BenchReport, bench

__all__ = ["BenchReport", "bench"]
