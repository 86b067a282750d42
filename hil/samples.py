"""Inputs for a model: random ones from a seed, or arrays from NPZ and NPY files.

What of :mod:`hil.verify.samples` is for users; the rooms use that.
"""

from __future__ import annotations

from hil.verify.samples import ArraySamples, RandomSamples, load_samples

__all__ = ["ArraySamples", "RandomSamples", "load_samples"]
