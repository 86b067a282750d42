"""A model in the process of an installed runtime."""

from __future__ import annotations

import weakref
from functools import cache
from importlib.metadata import version
from typing import Any

from hilc.errors import ModelError
from hilc.references.process import LOAD_LIMIT_S, RUN_LIMIT_S, Process, Refused, SharedProcess

_ADDRESS_SPACE = 8 << 30


class LoadedModel:
    """A model in the process of a package; loaded again where another model ended that.

    ``load`` is added to the request that loads the model.
    """

    def __init__(self, package: str, model: bytes, **load: Any) -> None:
        self._package = package
        self._model = model
        self._load = load
        self._process = _process_of(package)
        self._key = self._process.new_key()
        self._loaded_in: Process | None = None
        try:
            self.loaded, _ = self.ask({"do": "reset"})
        except Refused as error:
            raise self.refusal(error) from None
        weakref.finalize(self, self._process.drop, self._key)

    def refusal(self, error: Refused) -> ModelError:
        """Return the error with the runtime's message."""
        remedy = self._process.memory_remedy() if error.may_lack_memory else ""
        return ModelError(
            f"{self._package} cannot run this model: {error}",
            remedy or "choose the reference hilc",
        )

    def ask(self, request: dict[str, Any], payload: bytes = b"") -> tuple[dict[str, Any], bytes]:
        """Return the answer to a request about the model; Refused has the runtime's message."""
        with self._process.lock:
            process = self._process.running()
            if process is not self._loaded_in:
                load = {"do": "load", "model": self._key, **self._load}
                process.ask(load, self._model, LOAD_LIMIT_S)
                self._loaded_in = process
            return process.ask({**request, "model": self._key}, payload, RUN_LIMIT_S)


def start(package: str) -> None:
    """Start the process of a package; raise InputError with the reason if that fails."""
    process = _process_of(package)
    with process.lock:
        process.running()


@cache
def _process_of(package: str) -> SharedProcess:
    install = f"pip install --force-reinstall '{package}=={version(package)}'"
    return SharedProcess(package.replace("-", "_"), _ADDRESS_SPACE, package, install)
