"""A test suite for the plugin's tests: its model, and how it is run."""

from __future__ import annotations

import numpy as np
import pytest
from tflite_builder import ModelBuilder


def dense_model() -> bytes:
    rng = np.random.default_rng(0)
    builder = ModelBuilder()
    builder.input("x", (1, 8), "int8", scale=0.05, zero_point=-3)
    builder.const("w", rng.integers(-127, 128, (4, 8)).astype(np.int8), scale=0.01)
    builder.output("y", (1, 4), "int8", scale=0.4, zero_point=5)
    builder.op("FULLY_CONNECTED", ("x", "w", ""), ("y",))
    return builder.build()


def run(suite: pytest.Pytester, *options: str) -> pytest.RunResult:
    # labgrid's plugin cannot be configured twice in a process.
    without = [f"-pno:{name}" for name in ("cacheprovider", "xdist", "labgrid")]
    return suite.runpytest_inprocess(*without, "-rs", "-s", *options)
