"""The networks of ``examples/networks``: every layer equal to the reference."""

from __future__ import annotations

import re

import tflm
from campaigns import cases
from whole_networks import FOLDER, NETWORKS, inputs

import hilc
import hilc.host
from hil import verify
from hil.oracle import reference_of

#: What is here: ``make.py`` makes the others.
HERE = [name for name, network in NETWORKS.items() if not network.is_made]


def test_all_are_named() -> None:
    made = {name for name, network in NETWORKS.items() if network.is_made}
    assert {path.stem for path in FOLDER.glob("*.tflite")} - made == set(HERE)
    named = re.findall(r"^\| `(\w+)\.tflite`", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(NETWORKS)


@tflm.needs_tflm
@cases("name", HERE, first=2)
def test_on_the_host(name: str) -> None:
    library = hilc.compile(NETWORKS[name].path, name=name, reference="tflm")
    (module,) = library.modules
    with hilc.host.load(library) as model:
        report = verify(
            model,
            inputs(NETWORKS[name], module, 3),
            reference_of(library, module, "tflm"),
            board="this machine",
            per_layer=True,
            keep_state=NETWORKS[name].is_stream,
        )
    report.check()
