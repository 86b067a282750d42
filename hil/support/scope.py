"""Decisions that hold for a whole command, such as which of several probes is a board's."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

_DECISIONS: ContextVar[dict[Hashable, Any] | None] = ContextVar("decisions", default=None)


@contextmanager
def one_command() -> Iterator[None]:
    """Keep what :func:`decided` returns until the end of the outermost such context."""
    if _DECISIONS.get() is not None:
        yield
        return
    token = _DECISIONS.set({})
    try:
        yield
    finally:
        _DECISIONS.reset(token)


def decisions() -> dict[Hashable, Any]:
    """Return what was decided in the current command so far."""
    return dict(_DECISIONS.get() or {})


def adopt(others: Mapping[Hashable, Any]) -> None:
    """Take what another process of the same command decided, where nothing is decided here."""
    own = _DECISIONS.get()
    if own is not None:
        own.update({key: value for key, value in others.items() if key not in own})


def decided(key: Hashable, decide: Callable[[], T]) -> T:
    """Return what ``decide`` returned for ``key`` first within :func:`one_command`; outside of it,
    what it returns now. An exception decides nothing.
    """
    decisions = _DECISIONS.get()
    if decisions is None:
        return decide()
    if key not in decisions:
        decisions[key] = decide()
    value: T = decisions[key]
    return value
