"""What a program keeps in memory, step by step, as values: :mod:`hilc.memory.explain` makes them.

They import no part of the compiler, so that a command that reads them loads none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from hilc.ir import DynamicForm, IoSaving
from hilc.support.jsondata import Renamed

_OPS_SHOWN = 3


@dataclass(frozen=True)
class ArenaSlot:
    """Bytes of a pool that hold one buffer during its live range."""

    name: str
    what: Literal["input", "tensor", "output", "scratch", "state"]
    bytes: Annotated[int, Renamed("nbytes")]
    #: Pool index and the offset in that pool.
    pool: int
    offset: int
    #: First and last step: -1 for a buffer that the caller
    #: writes, the number of steps for one that the caller reads.
    first: int
    last: int

    @property
    def end(self) -> int:
        """Offset of the first byte after the slot in its pool."""
        return self.offset + self.bytes

    def lives_at(self, step: int) -> bool:
        """Return whether the buffer is live at ``step``."""
        return self.first <= step <= self.last


@dataclass(frozen=True)
class PlannedLayer:
    """A layer of the model: its name, its operator, and the kernel variant that computes it."""

    name: str
    op: str
    #: Empty where no kernel computes it: a layer of an external module.
    variant: str = ""


@dataclass(frozen=True)
class StepMemory:
    """Memory use of one step of the program."""

    #: Layers that the step computes: several for a fused group.
    nodes: tuple[PlannedLayer, ...]
    macs: int
    #: Bytes of the workspace in which something lives at this step: of all pools but the states'.
    used_bytes: int
    #: End of the highest buffer in each pool.
    ends: tuple[int, ...]
    #: Offset of each output, by name, relative to an input with which it shares bytes.
    overlaps: tuple[tuple[str, str, int], ...]
    #: Rows of inner tensors that a fused group keeps: name, first and end offset in its scratch.
    kept: tuple[tuple[str, int, int], ...]

    @property
    def ops(self) -> str:
        """Operators of the step; the first and the last of a long group."""
        names = [node.op for node in self.nodes]
        if len(names) > _OPS_SHOWN:
            names = [f"{names[0]} ... {names[-1]} ({len(names)} layers)"]
        return " + ".join(names)


@dataclass(frozen=True)
class Saving:
    """Next smaller known program: the bytes of memory that it saves, and estimates of the
    instructions and of the flash that it costs.
    """

    bytes: Annotated[int, Renamed("nbytes")]
    #: Additional instructions over the explained program, which takes ``of`` instructions.
    instructions: int
    of: int
    #: Additional bytes of flash, and the limit of flash that both programs keep, if there is one.
    flash_bytes: int = 0
    flash_limit: int | None = None


@dataclass(frozen=True)
class IoTensor:
    """An input or output; ``real = scale * (value - zero_point)`` for quantized integers."""

    name: str
    role: Literal["input", "output"]
    dtype: str
    shape: tuple[int, ...]
    scale: float | None
    zero_point: int | None


@dataclass(frozen=True)
class Explanation:
    """Memory use of a program; ``slots`` are sorted by first step and offset."""

    model: str
    cpu: str
    io_in_pool: bool
    #: Names and sizes in bytes.
    pools: tuple[tuple[str, int], ...]
    workspace_bytes: int
    state_bytes: int
    #: Inputs and outputs, in the workspace or not; None if unknown (plans of version 0.1).
    io_bytes: int | None
    slots: tuple[ArenaSlot, ...]
    steps: tuple[StepMemory, ...]
    #: Index of the step with the highest use.
    peak: int
    #: None where no smaller program is known.
    saving: Saving | None
    #: Inputs and outputs, in the model's order.
    io: tuple[IoTensor, ...] = ()
    #: Type of inputs and outputs (the option ``io``) that takes fewer bytes; None for none.
    io_saving: IoSaving | None = None
    #: Ways to compute dynamically quantized layers, that of this program first; none for a model
    #: without such layers.
    dynamic_forms: tuple[DynamicForm, ...] = ()

    @property
    def ram_bytes(self) -> int | None:
        """RAM that the model takes: workspace, inputs and outputs wherever they lie, and states."""
        beside = 0 if self.io_in_pool else self.io_bytes
        return None if beside is None else self.workspace_bytes + beside + self.state_bytes

    def at(self, step: int) -> list[ArenaSlot]:
        """Return the buffers that are live at a step, by ascending offset."""
        living = (slot for slot in self.slots if slot.lives_at(step))
        return sorted(living, key=lambda slot: (slot.pool, slot.offset))


#: The step before the first, at which the caller writes the inputs.
BEFORE = -1
