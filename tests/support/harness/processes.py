"""The process of the tests: its children, for those that say that nothing is left; its limits."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from hilc.references import child as reference_child


def children() -> set[int]:
    """The children of this process but the one in which TFLM runs: it lives as long as we do."""
    found = set()
    for child in psutil.Process().children(recursive=True):
        try:
            shared = reference_child.__file__ in child.cmdline()
        except psutil.NoSuchProcess:
            continue
        if not shared:
            found.add(child.pid)
    return found


@contextmanager
def file_size_limit(nbytes: int) -> Iterator[None]:
    """A disk that takes no more than so much of a file, for anybody."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, limit[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
