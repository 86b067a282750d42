"""Tests that ``make test`` samples and ``make test-full`` runs to the end."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def sampled(values: Iterable[Any], keep: Collection[Any]) -> list[Any]:
    """Parameters of a test: ``make test`` runs those of ``keep``, ``make test-full`` the others.

    A tuple is a value for each of several parameters.

    >>> @pytest.mark.parametrize("seed", sampled(range(100), keep=range(5)))
    """
    values = list(values)
    assert keep, "a campaign leaves a sample in make test"
    assert all(value in values for value in keep)
    return [
        pytest.param(*_each(value), marks=() if value in keep else pytest.mark.full)
        for value in values
    ]


def _each(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


#: Parts of a campaign of random draws, each with its own: ``make test`` runs the first of them.
PARTS = sampled(range(4), keep=[0])
