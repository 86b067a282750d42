"""The entry of ``hil explain``: the memory plan of a model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from hil.results.answer import entry_of
from hil.results.codec import omitted
from hilc.ir import DynamicForm, IoSaving
from hilc.memory.explanation import BEFORE, ArenaSlot, IoTensor, Saving
from hilc.support.jsondata import Renamed

#: Limits of a plan that is read, far above those of any model.
_MAX_LAYERS, _MAX_SLOTS = 20_000, 200_000


@dataclass(frozen=True)
class PlanPool:
    """Memory that the model works in."""

    name: str
    bytes: int


@dataclass(frozen=True)
class KeptRows:
    """Rows of a layer of a fused group that are kept for the next band: first row and end."""

    name: str
    first: int
    end: int


@dataclass(frozen=True)
class Overlap:
    """An output that is written over an input: ``difference`` is its offset minus the input's."""

    output: str
    input: str
    difference: int


@dataclass(frozen=True)
class PlanLayer:
    """A step of the program: one layer, or a fused group."""

    #: Operators and names of the layers.
    ops: tuple[str, ...]
    names: tuple[str, ...]
    macs: int
    #: Bytes in use while it runs.
    used_bytes: int
    kept: tuple[KeptRows, ...]
    overlaps: tuple[Overlap, ...]
    #: The kernel variant of each layer; empty for a layer of an external module.
    variants: tuple[str, ...] = omitted(())


@entry_of("explain")
@dataclass(frozen=True)
class PlanEntry:
    """The memory plan of a model."""

    model: str
    cpu: str
    workspace_bytes: int
    state_bytes: int
    #: Whether the workspace includes inputs and outputs.
    io_in_workspace: Annotated[bool, Renamed("io_in_pool")]
    pools: tuple[PlanPool, ...]
    #: Index of the layer with the most bytes in use.
    peak_layer: int
    layers: tuple[PlanLayer, ...]
    #: Buffers with their offsets and live ranges.
    slots: tuple[ArenaSlot, ...]
    #: The next smaller known program; None if there is none.
    next_saving: Saving | None
    #: Inputs and outputs, in the model's order.
    io: tuple[IoTensor, ...] = omitted(())
    #: Type of inputs and outputs (`--io`) that takes fewer bytes; None for none.
    io_saving: IoSaving | None = omitted(None)
    #: Ways to compute dynamically quantized layers (`--dynamic`), that of this program first.
    dynamic_forms: tuple[DynamicForm, ...] = omitted(())
    #: Bytes of inputs and outputs, in the workspace or not.
    io_bytes: int | None = omitted()
    #: Workspace, inputs and outputs wherever they lie, and states.
    model_ram_bytes: int | None = omitted()

    def contradictions(self) -> Iterator[str]:
        """Yield what a picture of the plan could not follow."""
        steps = len(self.layers)
        wrong = (
            steps > _MAX_LAYERS
            or len(self.slots) > _MAX_SLOTS
            or not 0 <= self.peak_layer < max(steps, 1)
            or any(len(layer.ops) != len(layer.names) or not layer.ops for layer in self.layers)
            or any(len(layer.variants) not in (0, len(layer.names)) for layer in self.layers)
            or any({kept.name for kept in layer.kept} - {*layer.names} for layer in self.layers)
            or any(
                not BEFORE <= slot.first <= slot.last <= steps
                or not 0 <= slot.pool < len(self.pools)
                or not 0 <= slot.offset <= slot.offset + slot.bytes <= self.pools[slot.pool].bytes
                or (slot.what == "scratch" and not 0 <= slot.first < steps)
                for slot in self.slots
            )
        )
        if wrong:
            yield "it is no memory plan: its layers, buffers and pools contradict one another"
