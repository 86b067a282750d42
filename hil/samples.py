"""Inputs for a model: random ones from a seed, arrays from NPZ and NPY files, labelled data sets.

Public names of :mod:`hil.verify.samples` and :mod:`hil.verify.datasets`.
"""

from __future__ import annotations

from hil.verify.datasets import DataSet, Scaling, load_data
from hil.verify.samples import ArraySamples, RandomSamples, StandardSamples, load_samples

__all__ = [
    "ArraySamples",
    "DataSet",
    "RandomSamples",
    "Scaling",
    "StandardSamples",
    "load_data",
    "load_samples",
]
