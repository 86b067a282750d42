"""A sample of the campaign of faults (``measure.py faults``), here and on an emulated board."""

from __future__ import annotations

import numpy as np
import pytest
from campaigns import cases
from fault_campaign import Case, Fault, code_faults, model_faults, outcome

from hil.verify import Kind


def fault(case: Case, what: str, layer: int) -> Fault:
    rng = np.random.default_rng(2)
    for name, make in (*model_faults(case, rng), *code_faults(case, rng)):
        if name == what and (made := make()) is not None and made.layer == layer:
            return made
    raise AssertionError(f"no fault {what!r} in layer {layer}")


@pytest.fixture(scope="module")
def small() -> Case:
    return Case("small", "host")


@cases(
    ("what", "layer"),
    [
        ("a bit of a weight", 1),
        ("all multipliers, halved", 0),
        ("the zero point", 0),
        ("one row early", 1),
    ],
    first=1,
)
def test_a_fault_is_named(small: Case, what: str, layer: int) -> None:
    made = fault(small, what, layer)
    said = outcome(small, made)
    assert said.found is not None
    assert said.is_layer_right
    assert said.found.kind in made.kinds, said.found.sentence


@pytest.mark.full
def test_painting_over_the_serial_protocol() -> None:
    """The board's memory shows that nobody writes the row; without paint it would be one row."""
    case = Case("digits", "mps2-an386")
    assert not any(evidence.shows_something for evidence in case.evidence())
    said = outcome(case, fault(case, "a row too few", 0))
    assert said.found is not None
    assert (said.found.layer, said.found.kind) == (0, Kind.UNINITIALISED)
    assert "never written (row 7" in said.found.sentence
