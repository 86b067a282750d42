"""The search for reference cycles is suspended, and what it would have freed is freed later."""

from __future__ import annotations

import gc
import weakref

import pytest

from hilc.support import collection
from hilc.support.collection import without_cycle_collection


class Cycle:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.own = self


def test_many_objects_are_not_visited_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "_MANY", 100)
    with without_cycle_collection():
        assert not gc.isenabled()
        first = weakref.ref(Cycle())
        kept = [[index] for index in range(1000)]
    assert gc.isenabled()
    # The next search for young cycles does not look there.
    gc.collect(0)
    assert first() is not None
    with without_cycle_collection():
        assert first() is None
    assert len(kept) == 1000


def test_it_stays_as_it_was() -> None:
    with without_cycle_collection():
        with without_cycle_collection():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
