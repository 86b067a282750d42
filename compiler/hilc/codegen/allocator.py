"""What hands out workspaces during a run, where the generated code asks for them (pools=calls)."""

from __future__ import annotations

from abc import ABC, abstractmethod

from hilc.codegen.calls import Guard
from hilc.plugins import Slot


class Allocator(ABC):
    """A run time's functions for workspaces, as C."""

    #: The function that allocates, by name.
    function: str
    #: What declares both functions.
    header: str

    @abstractmethod
    def allocate(self, nbytes: int) -> str:
        """The call that returns the bytes, a null pointer where there are none."""

    @abstractmethod
    def free(self, pointer: str) -> str:
        """The call that takes the variable ``pointer`` back and returns 0 where that is right."""

    def guard(self, pointer: str) -> Guard:
        """For the workspace that the variable ``pointer`` was initialised with."""
        return Guard(f"{pointer} != NULL", self.free(pointer))


_SLOT: Slot[Allocator] = Slot()
provide_allocator = _SLOT.fill


def allocator() -> Allocator:
    """The one that there is; InputError where no part of the installation has one."""
    return _SLOT.get("pools=calls", "or use pools=internal or pools=external")
