"""Tests that ``make test`` samples and ``make test-full`` runs to the end."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def sampled(values: Iterable[Any], keep: Collection[Any]) -> list[Any]:
    """Parameters of a test: ``make test`` runs those of ``keep``, ``make test-full`` the others.

    >>> @pytest.mark.parametrize("seed", sampled(range(100), keep=range(5)))
    """
    values = list(values)
    assert keep, "a campaign leaves a sample in make test"
    assert all(value in values for value in keep)
    full = pytest.mark.full
    return [value if value in keep else pytest.param(value, marks=full) for value in values]
