"""Constants of the search, each with its meaning, its unit and its justification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True)
class Goal:
    """Row of the table of goals: a program minimises the weighted sum of its workspace and flash,
    in bytes, within a multiple of the fastest program's instructions.
    """

    #: Weight of a byte of workspace, and of a byte of flash.
    workspace: float
    flash: float
    #: Ratio: maximum instructions relative to the fastest program, by estimate.
    most: float

    def sum(self, workspace_bytes: float, flash_bytes: float) -> float:
        """Return the weighted sum that the goal minimises, in bytes; the fastest of equal programs
        wins.
        """
        return self.workspace * workspace_bytes + self.flash * flash_bytes


#: Microcontrollers have about eight times as much flash as memory.
GOALS: Mapping[str, Goal] = MappingProxyType(
    {
        "speed": Goal(workspace=0, flash=0, most=1),
        "balanced": Goal(workspace=1, flash=1 / 8, most=1.3),
        "ram": Goal(workspace=1, flash=1 / 64, most=1.8),
        "size": Goal(workspace=1 / 8, flash=1, most=2),
    }
)


@dataclass(frozen=True)
class SearchPolicy:
    """Ratios, exponents and bounds that define the goals and the extent of the search.

    A change of a value changes the programs of every model.
    """

    # -- the goals --------------------------------------------------------------------------------

    #: The goals, by name.
    goals: Mapping[str, Goal] = field(default_factory=lambda: GOALS)
    #: Ratio by which the bound of a goal is reduced, so that most programs keep it when their
    #: instructions are counted; estimates with a larger error exceed it.
    error: float = 1.015
    #: Parts by which the estimates of a program's instructions and of its flash may be off: most
    #: for fused groups, whose kernels share more code than is assumed, and for small models.
    instructions_error: float = 0.25
    flash_error: float = 0.25
    #: Ratio: sums of workspace and flash that differ by at most this count as equal, as far as
    #: flash is estimated, and the fastest of their programs is taken.
    equal_sums: float = 0.02
    #: Parts of that by which the search tries to make a sum smaller: after the last it ends, so a
    #: program whose sum is 0.5 % less may be missed.
    sum_steps: tuple[float, ...] = (1, 0.5, 0.25)
    #: Prices of a byte of flash in instructions that are tried to save flash, the highest first.
    flash_worths: tuple[float, ...] = (1e6, 200, 50, 15, 4, 0)
    #: Goals that determine the code that layers share, from the least sharing to the most.
    sharings: tuple[str, ...] = ("speed", "balanced", "size")

    #: Bytes of memory that layers may take which decode their weights, even where no other layer
    #: takes as much.
    decoding_bytes: int = 8192

    # -- the Pareto frontier ----------------------------------------------------------------------

    #: Maximum number of programs of a frontier: after 60 steps of 1.5 % the bound is at 40 % of the
    #: first.
    frontier_programs: int = 60
    #: Ratio: the memory lower bound of a partition to that of the one before. Smaller steps cost
    #: search time for programs with no noticeable difference.
    frontier_step: float = 0.985
    #: Step in bytes where no partition is that much smaller: the alignment of a tensor.
    small_step_bytes: int = 16
    #: Ratio: a partition that is this much more expensive than an earlier one ends the search for
    #: cheaper ones. Fused groups are not tried at every limit, so costs are not quite monotone.
    uneven_cost: float = 1.1

    # -- fused groups -----------------------------------------------------------------------------

    #: Rows that a fused group computes at a time: more rows take fewer calls and more memory. With
    #: 8 as well compiling takes 11 % longer, and of 33 programs the best becomes 0.8 % faster.
    fused_rows: tuple[int, ...] = (1, 2, 4)
    #: Channels at a time of expansions that are computed again for each row of the depthwise layer
    #: behind them. With 16 the first group of MobileNetV2 at 224 x 224 takes 5 % less memory and
    #: 3 % more instructions, with 48 it takes 7 % more memory and 1 % fewer instructions.
    slice_channels: int = 32
    #: Maximum number of layers of a fused group, which bounds the search time.
    longest_group: int = 20
    #: Maximum number of layers of a fused group that may begin and end anywhere. Longer ones begin
    #: and end where no more bytes are live than next to it: these tensors are in memory as a whole.
    free_group: int = 6
    #: Maximum number of layers, counted once for each group that is tried at a memory limit, in all
    #: and for each layer of the model; the larger bound holds. Shorter groups are tried first. The
    #: search time then grows with the number of layers, whatever their shapes.
    tried_layers: int = 700
    tried_layers_each: int = 10
    #: Ratio: where shorter groups cost at most this much more than the kernels alone, longer groups
    #: over the same layers are not tried.
    cheap_group: float = 1.03
    #: Part of the program's cost by which all groups together may cost more than the kernels alone
    #: without longer groups being tried; each group has the share of its layers that exceed the
    #: limit of memory.
    cheap_groups: float = 0.004
    #: Maximum number of attempts to find kernels with which a group keeps a limit.
    kernel_exchanges: int = 6

    # -- estimates --------------------------------------------------------------------------------

    #: Flash of a model's entry points in bytes.
    model_bytes: int = 150
    #: Flash of a layer beside its kernel in bytes: its function, the call, its description for the
    #: firmware.
    layer_bytes: int = 120
    #: Flash of a layer of a graph that IF or WHILE calls, without a description, in bytes.
    called_layer_bytes: int = 40
    #: Flash of an entry in the table of a fused group in bytes.
    group_entry_bytes: int = 8
    #: Ratio: the code size of a kernel for bands of several heights to that for a whole layer,
    #: where the kernel does not state the former (``band_code``).
    band_code: float = 1.5
    #: Number of parts into which the dynamic program divides a limit of flash or of instructions,
    #: and parts beyond the limit: layers share code and constants, so a program is smaller than the
    #: sum of its layers.
    sum_parts: int = 4096
    sum_parts_beyond: int = 1024


#: The policy that the compiler uses.
POLICY = SearchPolicy()
