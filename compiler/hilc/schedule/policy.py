"""The constants of the search, each with its meaning, its unit and why it has its value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

#: Estimates are of code of its own for each layer; code that layers share is slower.
_SHARED_CODE: Mapping[str, float] = MappingProxyType({"speed": 1.0, "balanced": 1.01, "size": 1.15})


@dataclass(frozen=True)
class SearchPolicy:
    """What the goals trade for what, and how far the search goes.

    ``balanced`` promises at most 30 % more instructions than ``speed``, for much less memory:
    :attr:`balanced_instructions` is below the promised ratio, which leaves a margin for the
    error of the estimates; :attr:`memory_exponent` says what memory is worth below that
    ceiling. A change of a value changes the programs of every model.
    """

    # -- the goals --------------------------------------------------------------------------------

    #: Ratio: the estimated instructions of a balanced program to those of the fastest, at most. The
    #: promise of 1.30 has to hold when measured, so there is a margin for the error of estimates.
    balanced_instructions: float = 1.28
    #: Ratio: the same beside the fastest program without flash-heavy kernels, where a goal takes
    #: none. No margin, since it is a step to ``ram`` and nobody is promised it.
    lean_instructions: float = 1.3
    #: Ratio: the instructions of the goal ``ram`` to those of the lean program. Both together are
    #: just below 1.5 of the fastest program without flash-heavy kernels, which is documented.
    ram_instructions: float = 1.14
    #: Exponent: a balanced program minimizes instructions times workspace to this power, so one per
    #: cent of memory is worth two per cent of instructions.
    memory_exponent: float = 2.0
    #: Ratio: the flash of a balanced program to that of the fastest affordable one. Memory that is
    #: saved by more code and unfolded weights is only moved.
    balanced_flash: float = 1.1
    #: Instructions that a byte of flash is worth to ``balanced`` and ``ram``: weights at twice
    #: their size have to save more than a few per cent.
    balanced_flash_worth: float = 10.0
    #: The same for ``size``: more than any instruction count, so that flash decides alone.
    least_flash_worth: float = 1e6
    #: The same when ``balanced`` needs flash-heavy kernels to keep its promise, in the order in
    #: which they are tried: kernels that save most instructions for a byte come first.
    flash_heavy_worths: tuple[float, ...] = (50.0, 20.0, 10.0, 5.0, 2.0, 1.0, 0.0)
    #: Ratio by which shared code is slower than estimated, by the goal whose rules share it; from
    #: the least sharing to the most.
    shared_code: Mapping[str, float] = field(default_factory=lambda: _SHARED_CODE)

    # -- the Pareto frontier ----------------------------------------------------------------------

    #: Programs of a frontier, at most: after 60 steps of 1.5 % the bound is at 40 % of the first.
    frontier_programs: int = 60
    #: Ratio: the memory lower bound of a partition to that of the one before. Smaller steps cost
    #: search time and find programs that nobody tells apart.
    frontier_step: float = 0.985
    #: Bytes of a step where no partition is that much smaller: the alignment of a tensor.
    small_step_bytes: int = 16
    #: Ratio: partitions that are so much more expensive than one before are followed by none that
    #: is cheaper. Fused groups are not looked for at every limit, so costs are not quite monotone.
    uneven_cost: float = 1.1

    # -- fused groups -----------------------------------------------------------------------------

    #: Rows that a fused group computes at a time: more rows are fewer calls and more memory.
    fused_rows: tuple[int, ...] = (1, 2, 4, 8)
    #: Layers of a fused group, at most, which bounds the time of the search.
    longest_group: int = 20
    #: Ratio: where shorter groups cost at most this much of the kernels alone, longer groups over
    #: the same layers are not tried.
    cheap_group: float = 1.03
    #: Kernels of a group that are exchanged for ones with less scratch, at most.
    kernel_exchanges: int = 6

    # -- estimates --------------------------------------------------------------------------------

    #: Bytes of flash of a model's entry points.
    model_bytes: int = 150
    #: Bytes of flash of a layer beside its kernel: its function, the call, what the firmware knows
    #: of it.
    layer_bytes: int = 120
    #: Bytes of flash of an entry in the table of a fused group.
    group_entry_bytes: int = 8
    #: Ratio: the code of a kernel for bands of several heights to that for a whole layer.
    band_code: float = 1.5
    #: Parts into which a limit of flash is divided for the dynamic program, and parts beyond the
    #: limit: layers share code and constants, so a program is smaller than the sum of its layers.
    flash_parts: int = 4096
    flash_parts_beyond: int = 1024


#: The one that the compiler searches with.
POLICY = SearchPolicy()
