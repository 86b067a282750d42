"""Constants of the search, each with its meaning, its unit and its justification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

#: Estimates assume code of its own for each layer; code that layers share is slower.
_SHARED_CODE: Mapping[str, float] = MappingProxyType({"speed": 1.0, "balanced": 1.01, "size": 1.15})


@dataclass(frozen=True)
class SearchPolicy:
    """Ratios, exponents and bounds that define the goals and the extent of the search.

    ``balanced`` promises the program with the least sum of instructions and 4.25 times workspace,
    each relative to the fastest program without kernels for speed alone, among those with at most
    30 % more instructions than it and not much more flash than those need.
    :attr:`balanced_instructions` is below the promised ratio, which leaves a margin for the error
    of the estimates. A change of a value changes the programs of every model.
    """

    # -- the goals --------------------------------------------------------------------------------

    #: Ratio: maximum estimated instructions of a balanced program relative to the fastest. The
    #: promise of 1.30 has to hold when measured, so there is a margin for the error of estimates.
    balanced_instructions: float = 1.28
    #: Ratio: the same relative to the fastest program without flash-heavy kernels, for goals that
    #: exclude them. No margin, since it is a step towards ``ram`` and not promised.
    lean_instructions: float = 1.3
    #: Ratio: the instructions of the goal ``ram`` to those of the lean program. Their product is
    #: just below the documented 1.5 of the fastest program without flash-heavy kernels.
    ram_instructions: float = 1.14
    #: Worth of workspace: saving one per cent of the fastest program's workspace is worth this many
    #: per cent of its instructions. A byte is thus worth the same in every program of a model, and
    #: a small workspace is not halved at the price of a large one.
    workspace_worth: float = 4.25
    #: Ratio: maximum flash of a balanced program relative to the fastest affordable one. Memory
    #: saved by more code and unfolded weights is only moved to flash.
    balanced_flash: float = 1.15
    #: Price of a byte of flash in instructions for ``balanced`` and ``ram``: weights at twice their
    #: size have to save more than a few per cent.
    balanced_flash_worth: float = 20.0
    #: Ratio: the instructions up to which a balanced program gives speed for flash, at that price,
    #: without saving memory.
    priced_instructions: float = 1.15
    #: The price for ``size``: more than any instruction count, so that flash alone decides.
    least_flash_worth: float = 1e6
    #: Prices that are tried one after the other where a goal finds no program at its own: the
    #: highest first, with which the instructions saved per byte are the most.
    flash_worths: tuple[float, ...] = (50.0, 20.0, 10.0, 5.0, 2.0, 1.0, 0.0)
    #: Bytes of flash that ``ram`` gives for a byte of memory where the price of flash leaves it
    #: programs in more: microcontrollers have four to eight times as much flash as memory.
    least_memory_flash: float = 8.0
    #: Ratio by which shared code is slower than estimated, by the goal that determines the sharing;
    #: from the least sharing to the most.
    shared_code: Mapping[str, float] = field(default_factory=lambda: _SHARED_CODE)

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

    #: Rows that a fused group computes at a time: more rows take fewer calls and more memory.
    fused_rows: tuple[int, ...] = (1, 2, 4, 8)
    #: Channels at a time of expansions that are computed again for each row of the depthwise layer
    #: behind them. With 16 the first group of MobileNetV2 at 224 x 224 takes 5 % less memory and
    #: 3 % more instructions, with 48 it takes 7 % more memory and 1 % fewer instructions.
    slice_channels: int = 32
    #: Maximum number of layers of a fused group, which bounds the search time.
    longest_group: int = 20
    #: Maximum number of runs of consecutive layers that are tried as groups, of all lengths: groups
    #: of a model of more than 1,000 layers have fewer layers each, so that the search time does not
    #: grow faster than the model. No network for a microcontroller has as many.
    most_spans: int = 20_000
    #: Ratio: where shorter groups cost at most this much more than the kernels alone, longer groups
    #: over the same layers are not tried.
    cheap_group: float = 1.03
    #: Maximum number of attempts to find kernels with which a group keeps a limit.
    kernel_exchanges: int = 6

    # -- estimates --------------------------------------------------------------------------------

    #: Flash of a model's entry points in bytes.
    model_bytes: int = 150
    #: Flash of a layer beside its kernel in bytes: its function, the call, its description for the
    #: firmware.
    layer_bytes: int = 120
    #: The same for a layer of a graph that IF or WHILE calls, which the firmware does not describe.
    called_layer_bytes: int = 40
    #: Flash of an entry in the table of a fused group in bytes.
    group_entry_bytes: int = 8
    #: Ratio: the code size of a kernel for bands of several heights to that for a whole layer,
    #: where the kernel does not state the former (``band_code``).
    band_code: float = 1.5
    #: Number of parts into which the dynamic program divides a flash limit, and parts beyond the
    #: limit: layers share code and constants, so a program is smaller than the sum of its layers.
    flash_parts: int = 4096
    flash_parts_beyond: int = 1024


#: The policy that the compiler uses.
POLICY = SearchPolicy()
