"""TensorFlow Lite Micro, from the package ``tflite-micro``, in a separate process.

All models share one process (:mod:`hilc.references.tflm_child`). It is started for the first model,
and again after TFLM ended it. A model is loaded once and runs many inputs. Every tensor has its own
memory, so that each layer's value can be read after a run.
"""

from __future__ import annotations

import atexit
import fcntl
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from hilc.errors import InputError, ModelError
from hilc.frontends.tflite.reader import has_data_outside, resource_variables
from hilc.ir import Array
from hilc.references.tflm_child import HEAD, write_message
from hilc.support.process import kill_group, start

PACKAGE = "tflite-micro"
#: Pinned, since operators and their arithmetic change between builds.
VERSION = "0.dev20261023182759"
#: The first Python without a package of that version, and the supported systems.
UNTIL = (3, 15)
SYSTEM = "Linux on x86-64, Python 3.10 to 3.14"

#: Sizes of arenas to try, in bytes; unused pages take no memory.
_FIRST_ARENA, _LARGEST_ARENA = 16 << 20, 1 << 30
_ADDRESS_SPACE = 4 << 30
_START_LIMIT_S, _LOAD_LIMIT_S, _RUN_LIMIT_S = 30.0, 60.0, 300.0
_END_LIMIT_S = 2.0
#: TFLM's messages if the arena is too small.
_TOO_SMALL = re.compile(r"missing: \d+|Arena size is too small|Failed to (?:re)?size")
_TOTALS = re.compile(r"Arena allocation (total|head|tail) (\d+) bytes")


@dataclass(frozen=True)
class Arena:
    """Bytes of TFLM's arena on this machine.

    Pointers of 64 bits make ``persistent`` larger than on a microcontroller; ``planned`` is equal
    if the kernels request the same scratch.
    """

    #: The smallest sufficient arena.
    total: int
    #: Tensors and scratch, whose memory operators share over time.
    planned: int
    #: Memory for the lifetime of the interpreter.
    persistent: int


class TflmModel:
    """A model in TFLM; each of its tensors can be read after a run.

    Raise ModelError with TFLM's message if TFLM rejects the model.
    """

    def __init__(self, model: bytes, *, recording: bool = False) -> None:
        if has_data_outside(model):
            # TFLM would take such constants for uninitialised memory.
            raise _refusal("it reads no data behind the FlatBuffers part of a file")
        self._model = model
        self._recording = recording
        self._variables = resource_variables(model)
        self._key = next(_keys)
        self._arena = _FIRST_ARENA
        self._loaded_in: _Process | None = None
        self._load()
        weakref.finalize(self, _drop, self._key)

    def run(
        self, inputs: Sequence[Array], tensors: Sequence[int] = (), outputs: int = 0
    ) -> list[Array]:
        """Return the values of the tensors with these indices in the file after a run.

        ``inputs`` are in the model's order. The values of the first ``outputs`` outputs, as TFLM
        returns them, follow the tensors' values.
        """
        # asarray: ascontiguousarray gives a scalar a dimension.
        arrays = [np.asarray(array, order="C") for array in inputs]
        answer, data = self._ask(
            {
                "do": "run",
                "inputs": [[array.dtype.name, array.shape] for array in arrays],
                "tensors": list(tensors),
                "outputs": outputs,
            },
            b"".join(array.tobytes() for array in arrays),
            _RUN_LIMIT_S,
        )
        values, place = [], 0
        for name, shape in answer["arrays"]:
            dtype = np.dtype(name)
            array = np.frombuffer(data, dtype, prod(shape), place).reshape(shape).copy()
            values.append(array)
            place += array.nbytes
        return values

    def reset(self) -> None:
        """Reset the states of all operators.

        TFLM's reset keeps the states of some operators, so the model is loaded again.
        """
        self._load()

    def allocations(self) -> str:
        """Return TFLM's report on the arena of a model that is loaded with ``recording``."""
        with _lock:
            self._ask({"do": "print"}, b"", _RUN_LIMIT_S)
            assert self._loaded_in is not None
            return self._loaded_in.printed()

    def _ask(
        self, request: dict[str, Any], payload: bytes, limit_s: float
    ) -> tuple[dict[str, Any], bytes]:
        with _lock:
            if self._loaded_in is not _process or _process is None or not _process.is_mine():
                self._load()
            assert self._loaded_in is not None
            try:
                return self._loaded_in.ask({**request, "model": self._key}, payload, limit_s)
            except _Refused as error:
                raise _refusal(str(error)) from None

    def _load(self) -> None:
        request = {
            "do": "load",
            "model": self._key,
            "recording": self._recording,
            "variables": self._variables,
        }
        with _lock:
            while True:
                process = _running()
                try:
                    process.ask({**request, "arena": self._arena}, self._model, _LOAD_LIMIT_S)
                    break
                except _Refused as error:
                    if not _TOO_SMALL.search(str(error)):
                        raise _refusal(str(error)) from None
                if self._arena >= _LARGEST_ARENA:
                    raise ModelError(
                        "TensorFlow Lite Micro cannot run this model: without shared memory, its "
                        f"tensors need an arena of more than {_LARGEST_ARENA >> 20} MiB",
                        "choose another reference",
                    )
                self._arena *= 2
            self._loaded_in = process


def tflm_arena_bytes(model: bytes) -> Arena:
    """Return the arena that TFLM needs for a model's file on a device."""
    loaded = TflmModel(model, recording=True)
    found = {name: int(count) for name, count in _TOTALS.findall(loaded.allocations())}
    return Arena(found["total"], found["head"], found["tail"])


def _refusal(said: str) -> ModelError:
    return ModelError(
        f"TensorFlow Lite Micro cannot run this model: {said}", "choose another reference"
    )


# The process ------------------------------------------------------------------------------------


class _Refused(Exception):
    """TFLM rejected a request, or ended; the text is its output."""


class _Process:
    """A running :mod:`hilc.references.tflm_child`."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._link, theirs = socket.socketpair()
        self._printed: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        # Append mode: after the file is truncated, new output begins at its start.
        fcntl.fcntl(self._printed, fcntl.F_SETFL, os.O_APPEND | os.O_RDWR)
        child = Path(__file__).with_name("tflm_child.py")
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "PYTHONSAFEPATH": "",
            # One thread per core would exceed the limited address space.
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            # TFLM assumes zeros in the arena, as new pages contain.
            "MALLOC_MMAP_THRESHOLD_": str(_FIRST_ARENA >> 4),
        }
        try:
            with theirs:
                self._child: subprocess.Popen[Any] = start(
                    [sys.executable, str(child), str(_ADDRESS_SPACE)],
                    stdin=theirs,
                    stdout=subprocess.DEVNULL,
                    stderr=self._printed,
                    env=environment,
                )
        except BaseException:
            self._link.close()
            self._printed.close()
            raise
        try:
            self._read(time.monotonic() + _START_LIMIT_S)
        except _Refused as error:
            raise InputError(
                f"the installed {PACKAGE} does not start: {error}",
                f"pip install --force-reinstall '{PACKAGE}=={VERSION}'",
            ) from None

    def is_mine(self) -> bool:
        """Whether this process started it, instead of a parent before a fork."""
        return self._owner == os.getpid()

    def ask(
        self, request: dict[str, Any], payload: bytes, limit_s: float
    ) -> tuple[dict[str, Any], bytes]:
        """Return the answer to a request; raise if the process has ended."""
        deadline = time.monotonic() + limit_s
        self._printed.truncate(0)
        try:
            self._link.settimeout(limit_s)
            write_message(self._link, request, payload)
        except OSError:
            pass  # reading the answer raises the reason
        answer, data = self._read(deadline)
        if "error" in answer:
            raise _Refused(self._with_printed(answer["error"]))
        return answer, data

    def printed(self) -> str:
        """Return TFLM's output since the last request."""
        self._printed.seek(0)
        return self._printed.read().decode(errors="replace")

    def end(self) -> None:
        """End the process; do nothing if it has ended."""
        self._link.close()
        if self.is_mine():
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(_END_LIMIT_S)
            kill_group(self._child, signal.SIGKILL)
            self._child.wait()
        self._printed.close()

    def _read(self, deadline: float) -> tuple[dict[str, Any], bytes]:
        try:
            text, data = HEAD.unpack(self._exactly(HEAD.size, deadline))
            answer: dict[str, Any] = json.loads(self._exactly(text, deadline))
            return answer, bytes(self._exactly(data, deadline))
        except TimeoutError:
            self._kill()
            raise _Refused(self._last_words("it takes too long")) from None
        except OSError:
            self._kill()
            raise _Refused(self._last_words(_end_of(self._child.returncode))) from None
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
        kill_group(self._child, signal.SIGKILL)
        self._child.wait()

    def _last_words(self, reason: str) -> str:
        global _process
        text = self._with_printed(reason)
        self.end()
        if _process is self:
            _process = None
        return text

    def _with_printed(self, reason: str) -> str:
        lines = [" ".join(line.split()) for line in self.printed().splitlines()]
        shown = [line for line in lines if line][-3:]
        return f"{reason}: {'; '.join(shown)}" if shown else reason


def _end_of(status: int | None) -> str:
    if status is not None and status < 0:
        return f"it ended by {signal.Signals(-status).name}"
    return f"it ended with status {status}"


_keys = itertools.count()
#: Reentrant: a finalizer may run while a request is being made, in the same thread.
_lock = threading.RLock()
_process: _Process | None = None
_to_drop: list[int] = []


def _running() -> _Process:
    """Return the process; start it if there is none."""
    global _process
    if _process is not None and not _process.is_mine():
        _process.end()
        _process = None
    if _process is None:
        _process = _Process()
        _to_drop.clear()
    while _to_drop:
        _process.ask({"do": "drop", "model": _to_drop.pop()}, b"", _LOAD_LIMIT_S)
    return _process


def _drop(key: int) -> None:
    # A finalizer may run during a request, so the model is freed later.
    _to_drop.append(key)


@atexit.register
def _end() -> None:
    global _process
    if _process is not None:
        _process.end()
        _process = None
