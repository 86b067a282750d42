"""TensorFlow Lite Micro, from the package ``tflite-micro``, in a separate process.

A model is loaded once and runs many inputs. Every tensor has its own memory, so that each layer's
value can be read after a run.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hilc.errors import ModelError
from hilc.frontends.tflite.reader import has_data_outside, resource_variables
from hilc.ir import Array
from hilc.references.process import (
    LOAD_LIMIT_S,
    RUN_LIMIT_S,
    Process,
    Refused,
    SharedProcess,
    arrays_of,
    described,
)

PACKAGE = "tflite-micro"
#: Pinned, since operators and their arithmetic change between builds.
VERSION = "0.dev20261023182759"
#: The first Python without a package of that version, and the supported systems.
UNTIL = (3, 15)
SYSTEM = "Linux on x86-64, Python 3.10 to 3.14"

#: Sizes of arenas to try, in bytes; unused pages take no memory.
_FIRST_ARENA, _LARGEST_ARENA = 16 << 20, 1 << 30
_ADDRESS_SPACE = 4 << 30
#: TFLM's messages if the arena is too small.
_TOO_SMALL = re.compile(r"missing: \d+|Arena size is too small|Failed to (?:re)?size")
_TOTALS = re.compile(r"Arena allocation (total|head|tail) (\d+) bytes")

_PROCESS = SharedProcess(
    "tflite_micro",
    _ADDRESS_SPACE,
    PACKAGE,
    f"pip install --force-reinstall '{PACKAGE}=={VERSION}'",
)


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


def start() -> None:
    """Start the process of the package; raise InputError with the reason if that fails."""
    with _PROCESS.lock:
        _PROCESS.running()


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
        self._key = _PROCESS.new_key()
        self._arena = _FIRST_ARENA
        self._loaded_in: Process | None = None
        self._load()
        weakref.finalize(self, _PROCESS.drop, self._key)

    def run(
        self, inputs: Sequence[Array], tensors: Sequence[int] = (), outputs: int = 0
    ) -> list[Array]:
        """Return the values of the tensors with these indices in the file after a run.

        ``inputs`` are in the model's order. The values of the first ``outputs`` outputs, as TFLM
        returns them, follow the tensors' values.
        """
        heads, data = described(inputs)
        request = {"do": "run", "inputs": heads, "tensors": list(tensors), "outputs": outputs}
        answer, data = self._ask(request, data, RUN_LIMIT_S)
        values = arrays_of(answer["arrays"], data)
        return [value for value in values if value is not None]

    def reset(self) -> None:
        """Reset the states of all operators.

        TFLM's reset keeps the states of some operators, so the model is loaded again.
        """
        self._load()

    def allocations(self) -> str:
        """Return TFLM's report on the arena of a model that is loaded with ``recording``."""
        with _PROCESS.lock:
            self._ask({"do": "print"}, b"", RUN_LIMIT_S)
            assert self._loaded_in is not None
            return self._loaded_in.printed()

    def _ask(
        self, request: dict[str, Any], payload: bytes, limit_s: float
    ) -> tuple[dict[str, Any], bytes]:
        with _PROCESS.lock:
            if _PROCESS.running() is not self._loaded_in:
                self._load()
            assert self._loaded_in is not None
            try:
                return self._loaded_in.ask({**request, "model": self._key}, payload, limit_s)
            except Refused as error:
                raise _refusal_of(error) from None

    def _load(self) -> None:
        request = {
            "do": "load",
            "model": self._key,
            "recording": self._recording,
            "variables": self._variables,
        }
        with _PROCESS.lock:
            while True:
                process = _PROCESS.running()
                try:
                    process.ask({**request, "arena": self._arena}, self._model, LOAD_LIMIT_S)
                    break
                except Refused as error:
                    if not _TOO_SMALL.search(str(error)):
                        raise _refusal_of(error) from None
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


def _refusal_of(error: Refused) -> ModelError:
    return _refusal(str(error), _PROCESS.memory_remedy() if error.may_lack_memory else "")


def _refusal(said: str, remedy: str = "") -> ModelError:
    return ModelError(
        f"TensorFlow Lite Micro cannot run this model: {said}",
        remedy or "choose another reference",
    )
