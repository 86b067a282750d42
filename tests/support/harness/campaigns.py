"""Tests that ``make test`` samples and ``make test-full`` runs to the end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet


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


def cases(
    names: str | Sequence[str], values: Iterable[Any], *, first: int = 1, **more: Any
) -> pytest.MarkDecorator:
    """Parametrize a test with cases of one kind: ``make test`` runs the ``first`` of them only.

    Takes what ``pytest.mark.parametrize`` takes; ``make test-full`` runs the other cases.

    >>> @cases("cpu", ["cortex-m0", "cortex-m4", "cortex-m55"], first=1)
    """
    is_one = isinstance(names, str) and "," not in names

    def case(value: Any) -> Any:
        if isinstance(value, ParameterSet):
            return value._replace(marks=(*value.marks, pytest.mark.full))
        return pytest.param(*((value,) if is_one else value), marks=pytest.mark.full)

    values = list(values)
    marked = [*values[:first], *map(case, values[first:])]
    return pytest.mark.parametrize(names, marked, **more)


def _each(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


#: Parts of a campaign of random draws, each with its own: ``make test`` runs the first of them.
PARTS = sampled(range(4), keep=[0])
