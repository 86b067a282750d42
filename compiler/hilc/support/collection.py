"""Python's search for reference cycles, suspended."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: More new objects than these are not visited when the search goes on.
_MANY = 200_000


@contextmanager
def without_cycle_collection() -> Iterator[None]:
    """Suspend the search for reference cycles: work that keeps many objects and creates hardly any
    cycles spends a fifth of its time on it, and frees nothing.

    Where many objects are left, those in cycles are freed by the next complete search or when work
    is suspended next: a process that ends after this work never visits them.
    """
    if not gc.isenabled():
        yield
        return
    _Left.free()
    gc.disable()
    try:
        yield
    finally:
        _Left.keep()
        gc.enable()


class _Left:
    """What suspended work has left and no search has visited."""

    any = False

    @classmethod
    def keep(cls) -> None:
        """Declare all objects old if many are new, unless the process has frozen some itself."""
        if gc.get_count()[0] > _MANY and not gc.get_freeze_count():
            # Old ones are what was frozen.
            gc.freeze()
            gc.unfreeze()
            cls.any = True

    @classmethod
    def free(cls) -> None:
        """Free those in cycles."""
        if cls.any:
            cls.any = False
            gc.collect()
