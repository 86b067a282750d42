"""A test suite for the plugin's tests: its model, and how it is run."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tflite_builder import ModelBuilder

if TYPE_CHECKING:
    from fake_bench import FakeBoard

#: Five tests that use a board.
FIVE = """
    import pytest

    pytestmark = pytest.mark.hil(model="tiny.tflite")

    @pytest.mark.parametrize("job", range(5))
    def test_job(hil_device, job):
        hil_device["tiny"].run()
"""


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


def run_on_bench(suite: pytest.Pytester, *options: str) -> pytest.RunResult:
    """Run the suite in a process of its own, whose conftest lets it find the bench's boards."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    return suite.run(*command, "--hil-board=mps2-an386", timeout=300)


def pairs(*boards: FakeBoard) -> list[str]:
    """The options that name the boards of a pool."""
    return [
        word
        for board in boards
        for word in (f"--hil-probe={board.serial}", f"--hil-port={board.by_id()}")
    ]


def properties(path: Path, name: str) -> list[str]:
    """The values of a property in a JUnit file."""
    found = ElementTree.parse(path).iter("property")
    return [str(p.get("value")) for p in found if p.get("name") == name]
