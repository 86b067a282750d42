"""One lab on loopback for the tests of this folder: two boards of a kind, and one of another."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from hil.lab.serve import Served, served

pytest.importorskip("labgrid")


@pytest.fixture(scope="package")
def served_lab() -> Iterator[Served]:
    with served(["mps2-an386", "mps2-an386", "mps2-an385"]) as lab:
        yield lab


@pytest.fixture
def lab(served_lab: Served, monkeypatch: pytest.MonkeyPatch) -> Served:
    """The lab, chosen as a user chooses it."""
    monkeypatch.setenv("LG_COORDINATOR", served_lab.address)
    monkeypatch.setenv("LG_USERNAME", "tester")
    os.environ.pop("LG_HOSTNAME", None)
    return served_lab
