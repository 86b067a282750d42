"""The user's options to start a firmware."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from hil.probe.flash import Flashed


#: Instead of a probe's uid: start the board's QEMU machine with a virtual probe on it.
VIRTUAL: Final = "virtual"


class Image(Protocol):
    """Image that a runner starts: a built firmware, or only its file."""

    @property
    def elf(self) -> Path: ...


class AcquiredBoard(Protocol):
    """A board of a lab that is ours for a while; what ``start`` gives is a ``Running``."""

    def start(self, elf: Path, choice: Choice) -> AbstractContextManager[Any]: ...


@dataclass(frozen=True)
class Choice:
    """Probe and serial port, and who is told how far programming is."""

    #: A probe's unique id or a part of it; ``virtual`` starts the board's QEMU machine behind one.
    probe: str | None = None
    port: str | None = None
    #: The serial line goes through the probe.
    rtt: bool = False
    #: Called with the part that is programmed, 0 to 1.
    progress: Callable[[float], None] | None = None
    #: Called once with what was done, as soon as the board runs.
    flashed: Callable[[Flashed], None] | None = None
    #: An acquired board of a lab, which is used instead of one that is connected here.
    lab: AcquiredBoard | None = None
    #: Tensors go through the board's memory, not over the line; None: where it is emulated.
    bulk: bool | None = None
