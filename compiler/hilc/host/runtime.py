"""Run times in this process that a library's code calls, or is called through."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hilc.artifact.manifest import Module
from hilc.host.code import Code
from hilc.plugins import Slot


class Session(ABC):
    """The run time of one loaded library. A status is 0 where all went well."""

    @abstractmethod
    def start(self, address: int, nbytes: int) -> int:
        """Start it with the memory at ``address`` for workspaces; the status."""

    @abstractmethod
    def last_error(self) -> str:
        """What it says of the last call that failed; often nothing."""

    @abstractmethod
    def workspace_left(self) -> int:
        """Bytes of workspace that were allocated and not freed."""

    @abstractmethod
    def call(self, function: str, arguments: Sequence[Any]) -> tuple[int, Callable[[], Any]]:
        """Call a function of the library by its name; the status, and what reads its result."""

    @abstractmethod
    def tensor(self, address: int, shape: tuple[int, ...], dtype: str) -> Any:
        """A compact tensor as an argument."""

    @abstractmethod
    def context(self, address: int | None) -> Any:
        """A device's context as an argument."""

    @abstractmethod
    def metadata_function(self, module: Module) -> str:
        """The function that says what the module is."""

    @abstractmethod
    def metadata(self, result: Any) -> Any:
        """What that function has returned."""


class HostRuntime(ABC):
    @abstractmethod
    def sources(self) -> Sequence[Path]:
        """Its C files, a platform for this machine included."""

    @abstractmethod
    def session(self, code: Code) -> Session:
        """For a library that was linked with it."""


_SLOT: Slot[HostRuntime] = Slot()
provide_host_runtime = _SLOT.fill


def host_runtime(module: str) -> HostRuntime:
    """The run time for the model ``module``; InputError where none is installed."""
    return _SLOT.get(f"the run time that {module!r} calls", "or compile the model with interface=c")


def needs_runtime(module: Module) -> bool:
    """Whether the module calls a run time, or is called through it."""
    packed = "packed" in (module.interface, module.api) or bool(module.functions)
    return packed or module.pools == "calls" or not module.layers
