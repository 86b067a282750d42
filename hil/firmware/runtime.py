"""A C run time in firmware, where models are called through one or call it: who brings it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from hil.firmware.glue import Glue
from hil.support.parts import TVM
from hilc.artifact.library import Module
from hilc.plugins import Slot


class FirmwareRuntime(ABC):
    """The run time in firmware that models of another compiler's interface call."""

    #: Headers that connect such a model to the runtime and to the firmware.
    glue: type[Glue]
    #: Folders of the project with its headers.
    includes: tuple[str, ...]
    #: Header that declares its memory.
    header: str

    @abstractmethod
    def files(self) -> Mapping[str, bytes]:
        """Return its files by their path in a project."""

    @abstractmethod
    def sources(self, modules: Sequence[Module]) -> Sequence[str]:
        """Return those of them, and of :meth:`generated`, that are compiled."""

    @abstractmethod
    def generated(self, modules: Sequence[Module]) -> Mapping[str, str]:
        """Further files of the project, which are made for its models."""

    @abstractmethod
    def macros(self, modules: Sequence[Module]) -> Mapping[str, int]:
        """Return the macros for it in the firmware's configuration."""

    @abstractmethod
    def tables(self, modules: Sequence[Module]) -> str:
        """Return C beside the table of all models."""

    @abstractmethod
    def entry_point(self) -> str:
        """Return the function that each library of another compiler defines, and an image only
        once.
        """


_SLOT: Slot[FirmwareRuntime] = Slot(TVM)
provide_firmware_runtime = _SLOT.fill
#: The one that there is; None where no part of the installation has one.
found_runtime = _SLOT.found


def firmware_runtime(models: str) -> FirmwareRuntime:
    """Return the one that there is; InputError, which names the ``models`` that need it, where none
    is.
    """
    return _SLOT.get(
        f"the run time in firmware that {models} needs",
        "or compile the model with interface=c and without pools=calls",
    )
