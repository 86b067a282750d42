"""The entry of ``hil bench``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field

from hil.errors import Attempt
from hil.results.answer import entry_of
from hil.results.codec import omitted
from hil.results.figures import is_ascending
from hil.results.parts import Fallback, MissedFaults, Provenance, TensorDifference
from hil.support.fused import group_text


@dataclass(frozen=True)
class Stalls:
    """Cycles of a simulated core in which no instruction retired, by their cause.

    Together with the retired instructions they are the cycles.
    """

    #: The core itself: jumps, operations of several cycles, instructions that need the result of
    #: the one before, accesses to memory without wait states.
    core: int
    #: Wait states of fetches.
    fetch_waits: int
    #: Wait states of data in flash, such as weights.
    flash_data_waits: int
    #: Wait states of data in RAM.
    ram_data_waits: int

    @property
    def total(self) -> int:
        """Cycles in which no instruction retired."""
        return sum(astuple(self))

    def __add__(self, other: Stalls) -> Stalls:
        """Return the stalls of both."""
        both = zip(astuple(self), astuple(other), strict=True)
        return Stalls(*(one + more for one, more in both))


@dataclass(frozen=True)
class MeasuredLayer:
    """Share of one layer in an inference."""

    name: str
    #: The operator; of a fused group that of the last layer.
    op: str
    macs: int
    #: Instructions or cycles.
    count: int
    #: Operators of a fused group; absent for a single layer.
    ops: tuple[str, ...] = omitted(())
    #: Retired instructions; absent unless a core was simulated.
    instructions: int | None = omitted()
    #: The other cycles of a simulated core.
    stalls: Stalls | None = omitted()

    @property
    def shown_op(self) -> str:
        """The operator, or those of a fused group, in one text."""
        return group_text(self.op, self.ops)


@dataclass(frozen=True)
class LayerLimit:
    """Instructions below which the core cannot compute a layer; None where that is not known."""

    instructions: int | None
    #: The count over the limit.
    ratio: float | None


@dataclass(frozen=True)
class InstructionLimit:
    """Lower bound of the core's instructions for the model; None where it is unknown."""

    instructions: int | None
    #: The count over the limit: where cycles were counted, cycles for each instruction of it.
    ratio: float | None
    layers: tuple[LayerLimit, ...]


@dataclass(frozen=True)
class ChipEstimate:
    """Estimated cycles on a chip, its flash included, and how far such estimates were off."""

    #: ``from`` and ``to``: with the fastest and the slowest timing that the table permits.
    cycles: Mapping[str, int]
    #: ``from`` and ``to``: by the published cycles of other programs over their estimates.
    expected: Mapping[str, int]
    #: Reads of the flash behind the chip's caches: ``fetches`` of instructions, and ``data``.
    flash_reads: Mapping[str, int]
    #: The chip and its clock.
    chip: str
    #: Wait states of a read of its flash.
    flash_waits: int
    #: Where the cycles of the other programs were published.
    source: str


@dataclass(frozen=True)
class CycleEstimate:
    """Executed instructions of one inference, and the estimated cycles of the core."""

    #: ``from`` and ``to``: with the fastest and the slowest timing that the table permits.
    cycles: Mapping[str, int]
    #: Number of executed instructions by kind.
    mix: Mapping[str, int] | None = None
    core: str = ""
    #: Where the core's timing is published, and what that leaves open.
    source: str = ""
    assumes: str = ""
    #: Absent for a core without published cycles of a chip, for a board without exactly one region
    #: of flash, and where the plugin that counts the reads cannot be built or QEMU has no plugins.
    chip: ChipEstimate | None = omitted()


@dataclass(frozen=True)
class SimulatedCount:
    """Cycles of an inference on a simulated core, and the memory that they hold for."""

    #: Wait states of flash and RAM, and what hides them, in words.
    memory_model: str
    cycles: int
    #: Retired instructions; None where the simulator did not count all of them.
    instructions: int | None
    #: The other cycles; absent where ``instructions`` is null.
    stalls: Stalls | None = omitted()

    @property
    def cpi(self) -> float | None:
        """Cycles per instruction."""
        return self.cycles / self.instructions if self.instructions else None


@dataclass(frozen=True)
class EnergyPerInference:
    """Energy of an inference: the median over the recorded inferences."""

    per_inference_uj: float
    inferences: int | None = None
    #: Source of the recording: a file or a device.
    source: str = ""
    min_uj: float | None = None
    max_uj: float | None = None
    duration_us: float | None = None
    mean_power_mw: float | None = None
    #: Mean power between inferences; None if it was not recorded.
    idle_power_mw: float | None = None

    def contradictions(self) -> Iterator[str]:
        """Yield what cannot all be true."""
        if not is_ascending(self.min_uj, self.per_inference_uj, self.max_uj):
            yield "per_inference_uj is not from min_uj to max_uj"


@dataclass(frozen=True)
class CheckedOutputs:
    """Comparison of the outputs of a measured firmware with a reference."""

    samples: int
    reference: str
    match: bool
    reference_description: str = ""
    #: None if the default or a requested reference was used.
    reference_fallback: Fallback | None = None
    #: Whether other people's code gave the expected values; not this compiler's own interpreter.
    independent: bool = True
    missed_fault_rate: MissedFaults | None = None
    outputs: tuple[TensorDifference, ...] = ()

    @property
    def is_fallback(self) -> bool:
        """Whether this compiler's own interpreter replaced the reference, which could not run."""
        return self.reference_fallback is not None and not self.independent


@dataclass(frozen=True)
class Spread:
    """Spread of the counts of several runs; each value is the count of one run."""

    min: int
    q1: int
    median: int
    q3: int
    max: int

    @staticmethod
    def of(counts: Sequence[int]) -> Spread:
        """Return the spread of at least one count.

        Where the median of an even number, or a quartile, lies between two counts, it is the lower
        one for the first quartile and the median, the higher one for the third quartile.
        """
        ordered, last = sorted(counts), len(counts) - 1
        positions = (0, last // 4, last // 2, last - last // 4, last)
        return Spread(*(ordered[position] for position in positions))


@entry_of("bench", combined=True)
@dataclass(frozen=True)
class BenchEntry:
    """Cost of an inference of a model on a board."""

    model: str
    board: str
    #: Unit of the counts: ``instructions`` or ``cycles``.
    counter: str
    #: Median of the measured runs.
    per_inference: int
    #: Operator code, constants and glue.
    model_flash_bytes: int
    firmware_flash_bytes: int
    #: Peak of the memory plan.
    workspace_bytes: int
    #: All static RAM of the firmware, without its stacks.
    ram_bytes: int
    stack_peak_bytes: int
    layers: tuple[MeasuredLayer, ...]
    #: Goal of the compiler (``--optimize``); None for a library that does not record its goal.
    goal: str | None = None
    #: Every measured run.
    counts: tuple[int, ...] = ()
    #: None where the outputs were not compared (``--no-check``).
    checked: CheckedOutputs | None = None
    spread: Spread | None = None
    #: Inferences before the measured ones.
    warmup: int | None = None
    #: Whether equal inputs give equal counts, as an emulator's instructions are.
    deterministic: bool | None = None
    #: Clock of the core, from the board's description.
    clock_hz: int | None = None
    #: Microseconds at the board's clock; None where instructions were counted.
    latency_us: float | None = None
    #: Bytes of ``firmware_flash_bytes`` by owner; those of further models in the image together.
    flash_by_owner: Mapping[str, int] = field(default_factory=dict)
    #: Bytes that a run leaves to the next, besides the workspace.
    state_bytes: int = 0
    io_bytes: int = 0
    #: Whether ``workspace_bytes`` includes ``io_bytes``.
    io_in_workspace: bool = False
    #: Workspace, inputs and outputs wherever they lie, and states; None if unknown.
    model_ram_bytes: int | None = None
    #: Size of the main stack.
    stack_bytes: int | None = None
    #: Steps that brought the board back, and earlier runs of the combination.
    recoveries: tuple[Attempt, ...] = ()
    macs: int | None = None
    #: Channels and multiply-accumulates that the compiler removed from the model.
    folded_channels: int | None = None
    folded_macs: int | None = None
    #: Absent where no layer has a known limit.
    limit: InstructionLimit | None = omitted()
    #: With ``--cycles``.
    estimate: CycleEstimate | None = omitted()
    #: Where a core was simulated: the measured memory model, then those of ``--memory-models``.
    simulated: tuple[SimulatedCount, ...] = omitted(())
    #: With ``--energy``.
    energy: EnergyPerInference | None = omitted()
    provenance: Provenance | None = omitted()

    @property
    def is_good(self) -> bool:
        """Whether the command succeeds with this entry."""
        return self.checked is None or self.checked.match
