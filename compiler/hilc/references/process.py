"""The processes that run references of TensorFlow: C++ that trusts its model.

All models of a reference share one (:mod:`hilc.references.child`). It is started for the first
model, and again after a model ended it.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from hilc.errors import InputError
from hilc.ir import Array
from hilc.references.child import HEAD, write_message
from hilc.support.limits import soft_limit
from hilc.support.process import kill_group, start

_START_LIMIT_S = 30.0
#: For loading a model, and for one run.
LOAD_LIMIT_S, RUN_LIMIT_S = 60.0, 300.0
_END_LIMIT_S = 2.0
#: glibc takes fresh pages, which are zero, for allocations from this size on.
_FRESH_BYTES = 1 << 20


class Refused(Exception):
    """The runtime rejected a request, or its process ended; the text is the runtime's message."""

    def __init__(self, said: str, *, has_ended: bool = False) -> None:
        super().__init__(said)
        #: The process is gone, with all of its models.
        self.has_ended = has_ended

    @property
    def may_lack_memory(self) -> bool:
        """Whether a limit of memory may be the cause: C++ that gets none ends the process."""
        return self.has_ended or "alloc" in str(self) or "MemoryError" in str(self)


class Process:
    """A running :mod:`hilc.references.child`; ``words`` are its arguments."""

    def __init__(self, words: Sequence[str]) -> None:
        self.has_ended = False
        self._owner = os.getpid()
        self._link, theirs = socket.socketpair()
        # The process writes at the position of this descriptor, which both share: unbuffered.
        self._printed: IO[bytes] = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        child = Path(__file__).with_name("child.py")
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "PYTHONSAFEPATH": "",
            # One thread per core would exceed the limited address space.
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            # TFLM assumes zeros in the arena, as new pages contain.
            "MALLOC_MMAP_THRESHOLD_": str(_FRESH_BYTES),
        }
        try:
            with theirs:
                self._child: subprocess.Popen[Any] = start(
                    [sys.executable, str(child), *words],
                    stdin=theirs,
                    stdout=subprocess.DEVNULL,
                    stderr=self._printed,
                    env=environment,
                )
        except BaseException:
            self._link.close()
            self._printed.close()
            raise
        self._read(time.monotonic() + _START_LIMIT_S)

    def is_mine(self) -> bool:
        """Whether this process started it, instead of a parent before a fork."""
        return self._owner == os.getpid()

    def ask(
        self, request: dict[str, Any], payload: bytes, limit_s: float
    ) -> tuple[dict[str, Any], bytes]:
        """Return the answer to a request; raise if the process has ended."""
        deadline = time.monotonic() + limit_s
        self._printed.truncate(0)
        self._printed.seek(0)
        try:
            self._link.settimeout(limit_s)
            write_message(self._link, request, payload)
        except OSError:
            pass  # reading the answer raises the reason
        answer, data = self._read(deadline)
        if "error" in answer:
            raise Refused(self._with_printed(answer["error"]))
        return answer, data

    def printed(self) -> str:
        """Return the runtime's output since the last request."""
        self._printed.seek(0)
        return self._printed.read().decode(errors="replace")

    def end(self) -> None:
        """End the process; do nothing if it has ended."""
        if self.has_ended:
            return
        self.has_ended = True
        self._link.close()
        if self.is_mine():
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(_END_LIMIT_S)
            kill_group(self._child)
            self._child.wait()
        self._printed.close()

    def _read(self, deadline: float) -> tuple[dict[str, Any], bytes]:
        try:
            text, data = HEAD.unpack(self._exactly(HEAD.size, deadline))
            answer: dict[str, Any] = json.loads(self._exactly(text, deadline))
            return answer, bytes(self._exactly(data, deadline))
        except TimeoutError:
            self._kill()
            raise Refused(self._last_words("it takes too long"), has_ended=True) from None
        except OSError:
            self._kill()
            words = self._last_words(_end_of(self._child.returncode))
            raise Refused(words, has_ended=True) from None
        except BaseException:
            # Interrupted: the pending answer would be taken for the next request's.
            self._kill()
            self._last_words("")
            raise

    def _exactly(self, count: int, deadline: float) -> bytearray:
        parts = bytearray()
        while len(parts) < count:
            self._link.settimeout(max(deadline - time.monotonic(), 0.001))
            part = self._link.recv(min(count - len(parts), 1 << 20))
            if not part:
                raise ConnectionResetError
            parts += part
        return parts

    def _kill(self) -> None:
        # The exit status of a process that ends by itself is reported.
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(0.0 if sys.exc_info()[0] is TimeoutError else _END_LIMIT_S)
        kill_group(self._child)
        self._child.wait()

    def _last_words(self, reason: str) -> str:
        text = self._with_printed(reason)
        self.end()
        return text

    def _with_printed(self, reason: str) -> str:
        lines = [" ".join(line.split()) for line in self.printed().splitlines()]
        shown = [line for line in lines if line][-3:]
        return f"{reason}: {'; '.join(shown)}" if shown else reason


def _end_of(status: int | None) -> str:
    if status is not None and status < 0:
        return f"it ended by {signal.Signals(-status).name}"
    return f"it ended with status {status}"


class SharedProcess:
    """The one process of a runtime, for all models.

    ``package`` is what it imports, ``install`` the command that installs it again, and
    ``address_space`` the bytes that it may take.
    """

    def __init__(self, runtime: str, address_space: int, package: str, install: str) -> None:
        #: Reentrant: a finalizer may run while a request is being made, in the same thread.
        self.lock = threading.RLock()
        self._words = (str(address_space), runtime)
        self._package, self._install = package, install
        self._address_space = address_space
        self._process: Process | None = None
        self._keys = itertools.count()
        self._to_drop: list[int] = []
        atexit.register(self._end)

    def new_key(self) -> int:
        """Return the number of another model."""
        return next(self._keys)

    def running(self) -> Process:
        """Return the process, with the models that it loaded; start it if there is none.

        Raise :class:`~hilc.errors.InputError` if it does not start, as on Windows.
        """
        if not hasattr(socket, "AF_UNIX"):
            raise InputError(
                f"{self._package} runs in a process that inherits a socket, as no process of "
                "Windows can",
                "choose the reference hilc, or onnx for an ONNX model; or use WSL",
            )
        process = self._process
        if process is None or process.has_ended or not process.is_mine():
            self._end()
            try:
                self._process = Process(self._words)
            except Refused as error:  # a limit of the system is no reason for another reference
                raise InputError(
                    f"the installed {self._package} does not start: {error}",
                    self._remedy(str(error)),
                ) from None
            self._to_drop.clear()
        assert self._process is not None
        while self._to_drop:
            drop = {"do": "drop", "model": self._to_drop.pop()}
            self._process.ask(drop, b"", LOAD_LIMIT_S)
        return self._process

    def memory_remedy(self) -> str:
        """Return the remedy for a memory limit of the user below that of the process; empty without
        one.
        """
        limit = soft_limit("RLIMIT_AS")
        if limit is None or limit >= self._address_space:
            return ""
        return (
            f"raise the limit of address space: `ulimit -v` is {limit >> 10}, and {self._package} "
            f"may take {self._address_space >> 10}"
        )

    def _remedy(self, said: str) -> str:
        """Return the remedy for the reason why the process did not start."""
        if "ModuleNotFoundError" in said:
            return self._install
        if memory := self.memory_remedy():
            return memory
        # A library that another one needs, or a damaged file of the package.
        return self._install if "ImportError" in said else ""

    def drop(self, key: int) -> None:
        """Free a model later: a finalizer may run during a request."""
        self._to_drop.append(key)

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None


def described(arrays: Sequence[Array]) -> tuple[list[Any], bytes]:
    """Return the types and shapes of arrays, and their bytes, as a request states them."""
    # asarray: ascontiguousarray gives a scalar a dimension.
    ordered = [np.asarray(array, order="C") for array in arrays]
    heads = [[array.dtype.name, array.shape] for array in ordered]
    return heads, b"".join(array.tobytes() for array in ordered)


def arrays_of(heads: Sequence[Any], data: bytes) -> list[Array | None]:
    """Return the arrays of a reply; None for those without a value."""
    values: list[Array | None] = []
    place = 0
    for head in heads:
        if head is None:
            values.append(None)
            continue
        dtype, shape = np.dtype(head[0]), head[1]
        array = np.frombuffer(data, dtype, prod(shape), place).reshape(shape).copy()
        values.append(array)
        place += array.nbytes
    return values
