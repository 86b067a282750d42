"""The interpreter against what the reference answered when it was last run, by digest.

The reference's run time exists for some Pythons only; these digests hold the interpreter to it on
every machine. ``tests/golden/tflm.json`` names the reference, its version and its resolver;
``HIL_UPDATE_GOLDEN=1`` asks the installed reference again.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tflm
from models import INT8_MODELS, model_path, samples

from hilc.frontends import load_model
from hilc.interpreter import run_all
from hilc.ir import Array
from hilc.references.tflm import PACKAGE, VERSION
from hilc.transforms import run_passes

_GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "tflm.json"
_SAMPLES, _SEED = 3, 5


def _digest(array: Array) -> str:
    data = np.ascontiguousarray(array)
    return hashlib.sha256(f"{data.dtype}{data.shape}".encode() + data.tobytes()).hexdigest()[:16]


def _record(short_name: str) -> dict[str, Any]:
    path = model_path(short_name)
    graph = run_passes(load_model(path))
    reference = tflm.reference(graph, path.read_bytes())
    return {
        "reference": reference.description,
        "model_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "samples": [
            {name: _digest(array) for name, array in reference.run_all(inputs).items()}
            for inputs in ({graph.inputs[0]: x} for x in samples(short_name, _SAMPLES, _SEED))
        ],
    }


@pytest.mark.parametrize("short_name", INT8_MODELS)
def test_every_tensor_equals_the_recorded_one(short_name: str) -> None:
    path = model_path(short_name)
    if os.environ.get("HIL_UPDATE_GOLDEN"):
        known = json.loads(_GOLDEN.read_text()) if _GOLDEN.is_file() else {}
        known[short_name] = _record(short_name)
        _GOLDEN.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    golden = json.loads(_GOLDEN.read_text())[short_name]
    assert golden["reference"].startswith(f"tflm: {PACKAGE} {VERSION}")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert digest == golden["model_sha256"], "the model is another one than was recorded"
    graph = run_passes(load_model(path))
    (name,) = graph.inputs
    for x, expected in zip(samples(short_name, _SAMPLES, _SEED), golden["samples"], strict=True):
        assert _digest(x) == expected[name], "the seeded input is another one than was recorded"
        values = run_all(graph, {name: x})
        for node in graph.nodes:
            assert _digest(values[node.name]) == expected[node.name], node.name
