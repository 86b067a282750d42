"""Work that is done beside the main thread, and is left undone where that is interrupted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")


class Beside:
    """One thread that calls what is submitted, in order.

    A thread of :mod:`concurrent.futures` is awaited at the end, also after an interrupt, as long
    as it computes or waits for a process. This one is not: it ends with the program.
    """

    def __init__(self, name: str) -> None:
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def __enter__(self) -> Beside:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tasks.put(None)
        if kind is None:
            self._thread.join()

    def submit(self, call: Callable[..., T], *args: Any) -> Future[T]:
        """Return the future result of a call, which is made once those before it have returned."""
        future: Future[T] = Future()

        def task() -> None:
            try:
                future.set_result(call(*args))
            except BaseException as error:
                future.set_exception(error)

        self._tasks.put(task)
        return future

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
