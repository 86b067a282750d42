"""The networks of ``examples/networks`` are equal to their reference."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import tflm

import hilc
import hilc.host
from hil.oracle import reference_of
from hil.verify import verify
from hil.verify.samples import random_sample

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "networks"
#: By name: the reference that runs it.
NETWORKS: Mapping[str, str] = {
    "denoiser": "tflm",
    "detector": "tflm",
    "gestures": "tflm",
    "rhythm": "tflm",
    "segmenter": "tflm",
}


def test_all_are_named() -> None:
    named = {path.stem for path in FOLDER.glob("*.tflite")} - {"person", "mobilenet_v2"}
    assert named == set(NETWORKS)


@tflm.needs_tflm
@pytest.mark.parametrize("name", NETWORKS)
def test_on_the_host(name: str) -> None:
    library = hilc.compile(FOLDER / f"{name}.tflite", name=name, reference=NETWORKS[name])
    (module,) = library.modules
    with hilc.host.load(library) as model:
        report = verify(
            model,
            [random_sample(module.inputs, 1, index) for index in range(3)],
            reference_of(library, module, NETWORKS[name]),
            board="this machine",
            per_layer=True,
        )
    report.check()
