"""The networks of ``examples/networks``: equal to the reference, or refused by a named operator."""

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
from hilc.errors import UnsupportedError
from hilc.frontends import load_model

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "networks"
#: By name: the reference that runs it.
NETWORKS: Mapping[str, str] = {
    "denoiser": "tflm",
    "detector": "tflm",
    "gestures": "tflm",
    "rhythm": "tflm",
    "segmenter": "tflm",
}
#: What cannot be compiled yet, by the operator that is in the way.
REFUSED: Mapping[str, str] = {
    "detector": "CUSTOM 'TFLite_Detection_PostProcess'",
}


def test_all_are_named() -> None:
    named = {path.stem for path in FOLDER.glob("*.tflite")} - {"person", "mobilenet_v2"}
    assert named == set(NETWORKS)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """Fails when it starts to work: take it out of the table."""
    with pytest.raises(UnsupportedError) as caught:
        load_model(FOLDER / f"{name}.tflite")
    assert f"({REFUSED[name]})" in caught.value.fact


@tflm.needs_tflm
@pytest.mark.parametrize("name", [name for name in NETWORKS if name not in REFUSED])
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
