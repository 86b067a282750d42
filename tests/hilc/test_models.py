"""The finder of the test models: what is absent is never silent, and says how to get it."""

from __future__ import annotations

from pathlib import Path

import models
import numpy as np
import pytest
from models import FLOAT_MODELS, INT8_MODELS, model_path, samples


def test_absent_model_fails_and_says_where_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIL_MODELS", str(tmp_path))
    with pytest.raises(pytest.fail.Exception, match=r"mlcommons/tiny.*HIL_MODELS"):
        model_path("kws")


def test_without_models_a_test_is_skipped_with_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HIL_MODELS", raising=False)
    monkeypatch.setattr(models, "models_dir", lambda: tmp_path / "absent")
    with pytest.raises(pytest.skip.Exception, match=r"mlcommons/tiny.*HIL_MODELS"):
        model_path("kws")


@pytest.mark.parametrize("short_name", [*INT8_MODELS, *FLOAT_MODELS])
def test_samples_differ_and_repeat_with_the_seed(short_name: str) -> None:
    first, again, other = (samples(short_name, 5, seed) for seed in (1, 1, 2))
    assert len({x.tobytes() for x in first}) == 5
    assert [x.tobytes() for x in first] == [x.tobytes() for x in again]
    assert first[-1].tobytes() != other[-1].tobytes()
    assert {x.dtype for x in first} == {np.dtype("float32" if "float" in short_name else "int8")}
