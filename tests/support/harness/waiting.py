"""Time in tests: on a slow or busy machine everything takes longer.

So no test requires that something is fast (``tests/packaging/test_no_speed.py`` holds that): it
counts what is done, or looks at which of two things ended a wait. Limits end only what hangs.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from hil.link.client import Client

#: Seconds for what happens soon, wherever a test waits for it: it ends as soon as it has happened.
PATIENCE_S = 120.0


def until(condition: Callable[[], object], what: str = "it") -> None:
    """Waits until ``condition`` holds; ``what`` names it where it never does."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {PATIENCE_S:.0f} s"
        time.sleep(0.01)


def is_under_way(client: Client, operation: str) -> bool:
    """Whether another thread has begun ``operation``."""
    begun = client._operation
    return begun is not None and begun.name == operation
