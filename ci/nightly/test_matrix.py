"""Each model on each board: outputs against the reference, then what an inference costs.

``ci/nightly/run.py`` starts it; by hand: ``HIL_NIGHTLY_MODELS=a.tflite pytest ci/nightly``.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from hil.bench import bench
from hil.board import Board
from hil.device import Device
from hil.firmware.fit import FitError
from hil.firmware.sources import ModelOptions, ModelSource, load_library
from hil.oracle import reference_of
from hil.samples import RandomSamples
from hil.verify import verify
from hilc.artifact.library import ModelLibrary

_MODELS = os.environ.get("HIL_NIGHTLY_MODELS", "").split(os.pathsep)
_SAMPLES = int(os.environ.get("HIL_NIGHTLY_SAMPLES", "10"))


@pytest.fixture(params=[path for path in _MODELS if path], ids=lambda path: Path(path).stem)
def hil_library(request: pytest.FixtureRequest, hil_board: Board) -> ModelLibrary:
    """Return the model, compiled for the board; a board that is too small is skipped, with the
    figures.
    """
    options = ModelOptions(hil_board.cpu.name, board=hil_board)
    return load_library(ModelSource(Path(request.param), None), options)


@pytest.fixture
def fitting_device(request: pytest.FixtureRequest) -> Device:
    """Return the board with the model on it."""
    try:
        device: Device = request.getfixturevalue("hil_device")
    except FitError as error:
        pytest.skip(error.fact)
    return device


def test_model(
    fitting_device: Device, hil_board: Board, hil_library: ModelLibrary, record_property: Any
) -> None:
    """The board's outputs are the reference's, byte for byte."""
    for module in hil_library.modules:
        samples = RandomSamples(module.inputs, 0, _SAMPLES)
        oracle = reference_of(hil_library, module, None)
        report = verify(fitting_device[module.name], samples, oracle, board=hil_board.name)
        cost = None if hil_board.is_host else bench(fitting_device, module, runs=1, seed=0)
        found = {"verify": report.json(), "bench": cost.json() if cost else None}
        _keep(f"{module.name}-{hil_board.name}", found)
        record_property("samples", str(report.samples))
        if cost is not None:
            record_property("per_inference", str(cost.json()["per_inference"]))
        assert report.match, json.dumps(report.json(), indent=2)


def _keep(name: str, found: dict[str, Any]) -> None:
    folder = os.environ.get("HIL_NIGHTLY_OUTPUT")
    if folder:
        path = Path(folder) / (re.sub(r"[^\w.-]", "_", name) + ".json")
        path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
