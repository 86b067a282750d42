"""Runtimes in this process that a library's code calls, or is called through."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hilc.artifact.manifest import Module
from hilc.host.code import Code
from hilc.plugins import Slot


class Session(ABC):
    """Runtime of one loaded library. A status is 0 on success."""

    @abstractmethod
    def start(self, address: int, nbytes: int) -> int:
        """Start it with the memory at ``address`` for workspaces; return the status."""

    @abstractmethod
    def last_error(self) -> str:
        """Return its message about the last failed call; often empty."""

    @abstractmethod
    def workspace_left(self) -> int:
        """Return the number of workspace bytes that were allocated and not freed."""

    @abstractmethod
    def call(self, function: str, arguments: Sequence[Any]) -> tuple[int, Callable[[], Any]]:
        """Call a function of the library by name; return the status, and a function that reads the
        result.
        """

    @abstractmethod
    def tensor(self, address: int, shape: tuple[int, ...], dtype: str) -> Any:
        """Return a compact tensor as an argument."""

    @abstractmethod
    def context(self, address: int | None) -> Any:
        """Return a device's context as an argument."""

    @abstractmethod
    def metadata_function(self, module: Module) -> str:
        """Return the name of the function that returns the module's metadata."""

    @abstractmethod
    def metadata(self, result: Any) -> Any:
        """Return the metadata from that function's result."""


class HostRuntime(ABC):
    """Runtime that is linked with a library for this machine."""

    @abstractmethod
    def sources(self) -> Sequence[Path]:
        """Return its C files, with a platform for this machine."""

    @abstractmethod
    def session(self, code: Code) -> Session:
        """Return the session of a library that was linked with it."""


_SLOT: Slot[HostRuntime] = Slot()
provide_host_runtime = _SLOT.fill


def host_runtime(module: str) -> HostRuntime:
    """Return the runtime for the model ``module``; raise InputError if none is installed."""
    return _SLOT.get(f"the run time that {module!r} calls", "or compile the model with interface=c")


def needs_runtime(module: Module) -> bool:
    """Return whether the module calls a runtime, or is called through it."""
    packed = "packed" in (module.interface, module.api) or bool(module.functions)
    return packed or module.pools == "calls" or not module.layers
