"""Time in tests: on a machine where other programs want the cores too, everything takes longer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from hil.link.client import Client

#: Seconds for what happens soon, wherever a test waits for it: it ends as soon as it has happened.
PATIENCE_S = 60.0


def bound(seconds: float) -> float:
    """The most that may take ``seconds`` where the cores are free: twice that, and as much longer
    as there are programs for each core.
    """
    waiting = os.getloadavg()[0] / (os.cpu_count() or 1)
    return 2 * seconds * max(1.0, waiting)


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
