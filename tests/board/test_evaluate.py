"""A data set goes through an emulated board."""

from __future__ import annotations

import numpy as np
import pytest
from models import model_path

import hil

COUNT = 1000


@pytest.mark.full
def test_a_thousand_keywords(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    inputs = rng.integers(-128, 128, (COUNT, 49, 10, 1)).astype(np.int8)
    labels = rng.integers(0, 12, COUNT)
    report = hil.evaluate(model_path("kws"), inputs, labels, board="mps2-an386")
    assert report.mismatches == 0
    assert "memory" in report.transport
    with capsys.disabled():
        print(f"[{COUNT} inputs: {report.seconds:.0f} s] ", end="")
