"""Child processes of the tests, for those that say that nothing is left."""

from __future__ import annotations

import psutil

from hilc.references import tflm_child


def children() -> set[int]:
    """The children of this process but the one in which TFLM runs: it lives as long as we do."""
    found = set()
    for child in psutil.Process().children(recursive=True):
        try:
            shared = tflm_child.__file__ in child.cmdline()
        except psutil.NoSuchProcess:
            continue
        if not shared:
            found.add(child.pid)
    return found
