"""The entry of ``hil build``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from hil.results.answer import entry_of
from hil.results.codec import omitted
from hilc.support.jsondata import Renamed


@dataclass(frozen=True)
class RegionSize:
    """Use of a memory region in bytes, stacks included."""

    name: str
    used_bytes: Annotated[int, Renamed("used")]
    bytes: Annotated[int, Renamed("size")]


@dataclass(frozen=True)
class SectionSize:
    """Bytes of one kind of section, by owner."""

    name: str
    in_flash: bool
    in_ram: bool
    parts: Mapping[str, int]
    bytes: Annotated[int | None, Renamed("size")] = None


@dataclass(frozen=True)
class CompressedLayer:
    """Weights of a layer that are stored compressed."""

    layer: str
    #: Bytes of the weights, and of their compressed form.
    bytes: int
    stored_bytes: int
    #: Bytes that are decoded at a time.
    decoded_bytes: int


@dataclass(frozen=True)
class BuiltModel:
    """What one model adds to an image."""

    model: str
    #: Code, constants and glue, and the parts of the C library that only this model uses.
    flash_bytes: int | None = None
    constants_bytes: int | None = None
    #: Its own pools, and its input and output buffers outside of pools.
    workspace_bytes: int | None = None
    #: Workspace, inputs and outputs wherever they lie, and states.
    model_ram_bytes: int | None = omitted()
    #: Largest stack frame of its functions.
    stack_frame_bytes: int | None = None
    #: Region of constants that are not in the first flash region.
    constants_region: str | None = None
    #: Whether those constants are copied there when the firmware starts.
    constants_are_copied: bool = False
    #: ``flash_bytes`` by owner.
    flash_owners: Mapping[str, int] = field(default_factory=dict)
    compressed: tuple[CompressedLayer, ...] = ()


@entry_of("build", combined=True)
@dataclass(frozen=True)
class BuildEntry:
    """A firmware image: one entry per board, with all models of the image."""

    board: str
    flash_bytes: int
    #: Static data of firmware and models, without the stacks.
    ram_bytes: int
    models: tuple[BuiltModel, ...] = ()
    #: Goal of the compiler (``--optimize``); None for a library that does not record its goal.
    goal: str | None = None
    #: The project's folder and the ELF file; None in a report, which other machines read.
    folder: str | None = None
    elf: str | None = None
    build_id: str = ""
    stack_bytes: int | None = None
    handler_stack_bytes: int | None = None
    #: Bound of the main stack from the call graph; None if it has none.
    stack_bound_bytes: int | None = None
    regions: tuple[RegionSize, ...] = ()
    sections: tuple[SectionSize, ...] = ()
    seconds: float | None = None
