"""Facts of a chip that a flasher's tool knows, for new board descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hil.board.settings import Value


@dataclass(frozen=True)
class ChipRegion:
    """A memory of a chip."""

    name: str
    origin: int
    size: int
    is_flash: bool


@dataclass(frozen=True)
class Chip:
    """Facts of a chip, for the description of a board with it."""

    #: The flasher's name of the chip.
    target: str
    vendor: str
    #: The flasher's name of its family, such as ``Kinetis``; or empty.
    family: str
    #: Name of its core here; empty if it is unknown.
    cpu: str
    #: The chip's own memory in the order of preference: flash by address, then RAM by size.
    memory: tuple[ChipRegion, ...]
    #: Parts of the flasher's map that were left out, and the reason.
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ChipFlasher:
    """The flasher of a new board description, its settings, and its facts of the chip."""

    name: str
    settings: Mapping[str, Value]
    #: None if it has none, or no chip was selected.
    chip: Chip | None = None
