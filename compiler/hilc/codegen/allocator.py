"""Run-time allocation of workspaces by the generated code (pools=calls)."""

from __future__ import annotations

from abc import ABC, abstractmethod

from hilc.codegen.calls import Guard
from hilc.plugins import Slot


class Allocator(ABC):
    """C functions of a runtime that allocate and free workspaces."""

    #: Name of the function that allocates.
    function: str
    #: Header that declares both functions.
    header: str

    @abstractmethod
    def allocate(self, nbytes: int) -> str:
        """Return the C call that allocates; it evaluates to a null pointer on failure."""

    @abstractmethod
    def free(self, pointer: str) -> str:
        """Return the C call that frees the variable ``pointer``; it evaluates to 0 on success."""

    def guard(self, pointer: str) -> Guard:
        """Return the guard of the workspace that initialises the variable ``pointer``."""
        return Guard(f"{pointer} != NULL", self.free(pointer))


_SLOT: Slot[Allocator] = Slot()
provide_allocator = _SLOT.fill


def allocator() -> Allocator:
    """Return the installed allocator; raise InputError if there is none."""
    return _SLOT.get("pools=calls", "or use pools=internal or pools=external")
