"""How fast a data set goes through an emulated board."""

from __future__ import annotations

import numpy as np
import pytest
from models import model_path

import hil

#: Seconds that a thousand inputs of kws may take on an emulated Cortex-M4.
LIMIT_S, COUNT = 60.0, 1000


@pytest.mark.full
def test_a_thousand_keywords() -> None:
    rng = np.random.default_rng(0)
    inputs = rng.integers(-128, 128, (COUNT, 49, 10, 1)).astype(np.int8)
    labels = rng.integers(0, 12, COUNT)
    report = hil.evaluate(model_path("kws"), inputs, labels, board="mps2-an386")
    assert report.mismatches == 0
    assert "memory" in report.transport
    assert report.seconds < LIMIT_S
