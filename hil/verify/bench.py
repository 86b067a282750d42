"""Cost of an inference on a board: instructions or cycles, flash and RAM.

The first inferences warm the board's caches and are not counted. An emulator that counts
instructions gives the same figure for the same input on every run, so one measured run is enough.
Instructions are not time: only a board that counts cycles has a latency.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, TypeVar

from hil.access import Measurement
from hil.board import Board
from hil.device import Device, Model
from hil.energy import Energy, Recorder, energy_of
from hil.errors import Attempt, LinkError
from hil.firmware.build import Sizes
from hil.firmware.owners import OWNERS
from hil.results.bench import (
    BenchEntry,
    InstructionLimit,
    LayerLimit,
    MeasuredLayer,
    SimulatedCount,
    Spread,
    Stalls,
)
from hil.results.codec import encode
from hil.results.parts import Provenance
from hil.support.fused import group_text
from hil.verify.comparison import Report
from hil.verify.cycles import Estimate
from hil.verify.samples import Sample, random_sample
from hilc.artifact.library import Layer, Module
from hilc.artifact.manifest import NOTHING_FOLDED, Folded
from hilc.artifact.notebook import html_table
from hilc.artifact.work import limit
from hilc.errors import InputError
from hilc.support.arguments import check

T = TypeVar("T")

_ATTEMPTS = 5


@dataclass(frozen=True)
class LayerCount:
    """Share of one layer of an inference."""

    name: str
    op: str
    macs: int
    count: int
    #: Instructions below which the core cannot do it (:mod:`hilc.artifact.work`); None where that
    #: is not known.
    limit: int | None = None
    #: Operators of a fused group, in their order, of which ``op`` is the last; empty for a single
    #: layer.
    ops: tuple[str, ...] = ()
    #: Retired instructions, where a core was simulated.
    instructions: int | None = None
    #: The other cycles, where a core was simulated.
    stalls: Stalls | None = None

    @property
    def cpi(self) -> float | None:
        """Cycles per retired instruction."""
        return self.count / self.instructions if self.instructions else None

    @property
    def ratio(self) -> float | None:
        """The count over the limit."""
        return self.count / self.limit if self.limit else None

    @property
    def per_mac(self) -> float | None:
        """Instructions or cycles per multiply-accumulate; None for a layer without any."""
        return self.count / self.macs if self.macs else None


@dataclass(frozen=True)
class BenchReport:
    """Result of a measurement; :meth:`entry` is the entry of ``hil bench``."""

    model: str
    board: str
    #: Unit of the counts: ``instructions`` or ``cycles``.
    counter: str
    #: Median of the measured runs.
    per_inference: int
    #: Every measured run.
    counts: tuple[int, ...]
    model_flash_bytes: int
    firmware_flash_bytes: int
    workspace_bytes: int
    #: Bytes of states, which runs pass on to the next, outside the workspace.
    state_bytes: int
    io_bytes: int
    #: Whether ``workspace_bytes`` includes ``io_bytes``.
    io_in_workspace: bool
    ram_bytes: int
    stack_peak_bytes: int
    layers: tuple[LayerCount, ...]
    #: Channels and MACs that the compiler removed from the model.
    folded: Folded = NOTHING_FOLDED
    #: Executed instructions, and estimated cycles of the core; None if not requested.
    estimate: Estimate | None = None
    #: Inferences before the measured ones.
    warmup: int = 1
    #: Clock of the core, by the board's description.
    clock_hz: int = 0
    #: Size of the main stack, of which ``stack_peak_bytes`` were in use at most.
    stack_bytes: int = 0
    #: Bytes of ``firmware_flash_bytes`` by owner (:mod:`hil.firmware.owners`); those of further
    #: models in the image together as ``other models``.
    flash_by_owner: Mapping[str, int] = field(default_factory=dict)
    #: Energy of an inference; None if it was not recorded.
    energy: Energy | None = None
    #: Provenance of the measurement, if the caller stated it.
    provenance: Provenance | None = None
    #: Steps that brought the board back since it was opened, or since the report before.
    recoveries: tuple[Attempt, ...] = ()
    #: Comparison of the outputs of other inferences with a reference; None if it was not asked
    #: for. What is counted is not affected by it.
    checked: Report | None = None
    #: Goal of the compiler; None where the library does not record it.
    goal: str | None = None
    #: Where a core was simulated: the measured memory model, then the further ones.
    simulated: tuple[SimulatedCount, ...] = ()
    #: What the measured inferences computed; kernels that skip zeros take fewer instructions for
    #: some inputs.
    measured_input: str = "the given sample"

    @property
    def is_correct(self) -> bool:
        """Whether no compared output differs from the reference."""
        return self.checked is None or self.checked.match

    def check(self) -> BenchReport:
        """Return the report; raise :class:`~hil.errors.NumericError` if a compared output differs
        from the reference.
        """
        if self.checked is not None:
            self.checked.check()
        return self

    @property
    def checked_text(self) -> str:
        """The verdict on the outputs in words, with the reference."""
        if self.checked is None:
            return "not compared with a reference"
        checked, count = self.checked, self.checked.samples
        text = f"{checked.verdict} over {count} sample{'s' * (count > 1)}"
        return "; ".join((f"{text}, reference {checked.reference}", *checked.remarks))

    @property
    def macs(self) -> int:
        """Multiplications with accumulation of one inference."""
        return sum(layer.macs for layer in self.layers)

    @property
    def limit(self) -> int | None:
        """Sum of the layers' limits; None where that of a layer is not known, or no layer is."""
        limits = [layer.limit for layer in self.layers if layer.limit is not None]
        return sum(limits) if limits and len(limits) == len(self.layers) else None

    @property
    def ratio(self) -> float | None:
        """An inference over the limit."""
        return self.per_inference / self.limit if self.limit else None

    @property
    def spread(self) -> Spread:
        """How far ``counts`` are apart."""
        return Spread.of(self.counts)

    @property
    def is_deterministic(self) -> bool:
        """Whether equal inputs give equal counts: an emulator's instructions, not a board's
        cycles.
        """
        return self.counter == "instructions"

    @property
    def latency_us(self) -> float | None:
        """Microseconds of an inference at the board's clock; None where cycles were not
        counted.
        """
        if self.counter != "cycles" or not self.clock_hz:
            return None
        return self.per_inference / self.clock_hz * 1e6

    def __repr__(self) -> str:
        """Return the figures in one line."""
        return (
            f"<BenchReport {self.model} on {self.board}: {self.per_inference:,} {self.counter}, "
            f"workspace {self.workspace_bytes:,} B, model flash {self.model_flash_bytes:,} B"
            f"{'' if self.is_correct else ', outputs DIFFER'}>"
        )

    def _repr_html_(self) -> str:
        """Return the figures and the layers as tables, for notebooks."""
        facts = {
            "board": self.board,
            f"{self.counter} per inference": f"{self.per_inference:,}",
            "model's flash": f"{self.model_flash_bytes:,} bytes",
            "firmware's flash": f"{self.firmware_flash_bytes:,} bytes",
            "workspace": f"{self.workspace_bytes:,} bytes",
            "static RAM": f"{self.ram_bytes:,} bytes",
            "peak of the stack": f"{self.stack_peak_bytes:,} bytes",
            "outputs": self.checked_text,
        }
        ratio = "cycles/limit" if self.counter == "cycles" else "times the limit"
        header = ("layer", "operator", "MACs", self.counter, "limit", ratio)
        rows = [
            (
                n.name,
                group_text(n.op, n.ops),
                f"{n.macs:,}",
                f"{n.count:,}",
                "-" if n.limit is None else f"{n.limit:,}",
                "-" if n.ratio is None else f"{n.ratio:.2f}",
            )
            for n in self.layers
        ]
        title = f"<h4>{html.escape(self.model)}</h4>"
        return title + html_table(facts.items()) + html_table(rows, header)

    def json(self) -> dict[str, Any]:
        """Return what :meth:`to_json` does; its earlier name."""
        return self.to_json()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of :meth:`entry`."""
        data: dict[str, Any] = encode(self.entry())
        return data

    def entry(self) -> BenchEntry:
        """Return the entry of ``hil bench``."""
        has_limit = any(layer.limit is not None for layer in self.layers)
        return BenchEntry(
            model=self.model,
            board=self.board,
            counter=self.counter,
            per_inference=self.per_inference,
            model_flash_bytes=self.model_flash_bytes,
            firmware_flash_bytes=self.firmware_flash_bytes,
            workspace_bytes=self.workspace_bytes,
            ram_bytes=self.ram_bytes,
            stack_peak_bytes=self.stack_peak_bytes,
            layers=tuple(
                MeasuredLayer(
                    *(layer.name, layer.op, layer.macs, layer.count, layer.ops),
                    *(layer.instructions, layer.stalls),
                )
                for layer in self.layers
            ),
            goal=self.goal,
            counts=self.counts,
            checked=None if self.checked is None else self.checked.checked_entry(),
            spread=self.spread,
            warmup=self.warmup,
            deterministic=self.is_deterministic,
            clock_hz=self.clock_hz,
            latency_us=self.latency_us,
            flash_by_owner=self.flash_by_owner,
            state_bytes=self.state_bytes,
            io_bytes=self.io_bytes,
            io_in_workspace=self.io_in_workspace,
            model_ram_bytes=self.model_ram_bytes,
            stack_bytes=self.stack_bytes,
            recoveries=self.recoveries,
            macs=self.macs,
            folded_channels=self.folded.channels,
            folded_macs=self.folded.macs,
            limit=self._limit_entry() if has_limit else None,
            estimate=None if self.estimate is None else self.estimate.entry(),
            simulated=self.simulated,
            energy=None if self.energy is None else self.energy.entry(),
            provenance=self.provenance,
        )

    @property
    def model_ram_bytes(self) -> int:
        """RAM that the model takes: workspace, inputs and outputs wherever they lie, and states."""
        beside = 0 if self.io_in_workspace else self.io_bytes
        return self.workspace_bytes + beside + self.state_bytes

    def _limit_entry(self) -> InstructionLimit:
        layers = tuple(LayerLimit(layer.limit, layer.ratio) for layer in self.layers)
        return InstructionLimit(self.limit, self.ratio, layers)


def bench(
    device: Device,
    module: Module,
    *,
    runs: int = 1,
    warmup: int = 1,
    seed: int = 0,
    sample: Sample | None = None,
    recorder: Recorder | None = None,
) -> BenchReport:
    """Measure ``runs`` inferences of ``module`` on ``device``, after ``warmup`` others.

    All have the same states and inputs: ``sample``, or random ones. The stack's peak is that since
    the firmware's start. With a ``recorder`` as many inferences are recorded after them.

    Raise :class:`InputError` for a number that is too small, or firmware that was not built here.
    """
    for name, value, least in (("runs", runs, 1), ("warmup", warmup, 0), ("seed", seed, 0)):
        check(name, value, int)
        if value < least:
            raise InputError(f"{name}={value} is too small", f"give at least {least}")
    firmware = device.firmware
    if firmware is None:
        raise InputError(
            "the sizes of a firmware that runs already are not known",
            "give the model, so that its firmware is built",
        )
    board = firmware.board
    check_countable(board)
    model = device[module.name]
    given = random_sample(module.inputs, seed, 0) if sample is None else sample

    def inference() -> int:
        return model.run().ticks

    def measured(run: Callable[[], T]) -> T:
        return _undisturbed(device, model, given, run)

    for _ in range(warmup):
        measured(inference)
    found = [measured(lambda: _with_instructions(device, inference)) for _ in range(runs)]
    counts = [device.count(ticks) for ticks, _ in found]
    layer_ticks, parts = measured(lambda: _with_instructions(device, model.profile))
    profile = [device.count(ticks) for ticks in layer_ticks]
    shares = _parts_of(parts, profile)
    energy = None
    if recorder is not None:
        recorder.start()
        for _ in range(runs):
            measured(inference)
        energy = energy_of(recorder.stop())
    sizes = firmware.sizes
    return BenchReport(
        model=module.name,
        board=board.name,
        goal=module.goal,
        counter=device.counter,
        per_inference=Spread.of(counts).median,
        counts=tuple(counts),
        model_flash_bytes=sizes.models[module.name].flash_bytes,
        firmware_flash_bytes=sizes.flash_bytes,
        workspace_bytes=module.workspace_bytes,
        state_bytes=module.state_bytes,
        io_bytes=module.io_bytes,
        io_in_workspace=module.io_in_pool,
        ram_bytes=sizes.ram_bytes,
        stack_peak_bytes=device.memory().stack_peak_bytes,
        folded=module.folded,
        warmup=warmup,
        clock_hz=board.clock_hz,
        stack_bytes=sizes.stack_bytes,
        flash_by_owner=_flash_by_owner(sizes, module.name),
        energy=energy,
        layers=tuple(
            LayerCount(
                *(layer.name, layer.op, layer.macs, count, _limit(layer, board), layer.group_ops),
                *share,
            )
            for layer, count, share in zip(module.called_layers, profile, shares, strict=True)
        ),
        simulated=_simulated(device, counts, [parts for _, parts in found]),
        measured_input=random_input(seed) if sample is None else BenchReport.measured_input,
    )


def random_input(seed: int) -> str:
    """Return the name of the random sample that is measured where none is given."""
    return f"random inputs of seed {seed}"


def simulated_count(
    device: Device, module: Module, sample: Sample | None = None, *, seed: int = 0
) -> SimulatedCount:
    """Return what an inference takes on the simulated core of ``device``, after another one."""
    model = device[module.name]
    given = random_sample(module.inputs, seed, 0) if sample is None else sample

    def inference() -> int:
        return model.run().ticks

    _undisturbed(device, model, given, inference)
    ticks, parts = _undisturbed(device, model, given, lambda: _with_instructions(device, inference))
    (count,) = _simulated(device, [device.count(ticks)], [parts])
    return count


def _with_instructions(device: Device, run: Callable[[], T]) -> tuple[T, list[Measurement]]:
    """Return the result of a run, and what the simulator of its core measured meanwhile."""
    simulated = device.simulated
    if simulated is None:
        return run(), []
    simulated.measurements()  # those of runs before
    result = run()
    return result, simulated.measurements()


def _parts_of(
    parts: Sequence[Measurement], counts: Sequence[int]
) -> list[tuple[int | None, Stalls | None]]:
    """Return the retired instructions and the stalls of each of the consecutive counts of cycles.

    Rows that a model was fed before are parts of the first count. None for all where the simulator
    measured something else.
    """
    rows = len(parts) - len(counts) + 1
    if rows < 1:
        return [(None, None)] * len(counts)
    grouped = [parts[:rows], *([part] for part in parts[rows:])]
    if [sum(part.cycles for part in group) for group in grouped] != list(counts):
        return [(None, None)] * len(counts)
    return [
        (sum(part.instructions for part in group), reduce(add, (part.stalls for part in group)))
        for group in grouped
    ]


def _simulated(
    device: Device, counts: Sequence[int], parts: Sequence[Sequence[Measurement]]
) -> tuple[SimulatedCount, ...]:
    """Return the median of the counts of cycles with its instructions; empty for another board."""
    simulated = device.simulated
    if simulated is None:
        return ()
    cycles = Spread.of(counts).median
    (share,) = _parts_of(parts[list(counts).index(cycles)], [cycles])
    return (SimulatedCount(simulated.memory_model, cycles, *share),)


def _limit(layer: Layer, board: Board) -> int | None:
    return None if layer.work is None else limit(layer.work, board.cpu)


def _flash_by_owner(sizes: Sizes, model: str) -> dict[str, int]:
    """Return the bytes of an image's flash by owner, those of one of its models apart."""
    others = [m.flash_bytes for name, m in sizes.models.items() if name != model]
    own = sizes.models[model].flash_owners
    if not own:
        return {}
    found: dict[str, int] = {
        owner: own.get(owner, 0) + sizes.flash_owners.get(owner, 0) for owner in OWNERS
    }
    return {**found, "other models": sum(others)} if others else found


def layer_counts(
    device: Device, module: Module, *, seed: int = 0, sample: Sample | None = None
) -> list[int]:
    """Return the count of each layer of ``module`` on ``device``, with warm caches, for ``sample``
    or random inputs.
    """
    model = device[module.name]
    if sample is None:
        sample = random_sample(module.inputs, seed, 0)
    _undisturbed(device, model, sample, model.run)
    return [device.count(ticks) for ticks in _undisturbed(device, model, sample, model.profile)]


def whole_counts(
    device: Device, module: Module, *, runs: int = 1, seed: int = 0
) -> tuple[int, list[int]]:
    """Return the median count of ``runs`` inferences of ``module`` on ``device``, with warm caches,
    and the count of each layer.
    """
    model = device[module.name]
    sample = random_sample(module.inputs, seed, 0)

    def inference() -> int:
        return model.run().ticks

    layers = layer_counts(device, module, seed=seed)
    found = [device.count(_undisturbed(device, model, sample, inference)) for _ in range(runs)]
    return Spread.of(found).median, layers


def check_countable(board: Board) -> None:
    """Raise for a board whose time base counts neither instructions nor cycles of its core."""
    if board.is_host:
        raise InputError(
            f"board {board.name!r} is a process of this machine: its clock counts neither "
            "instructions nor cycles",
            "measure on an emulated or a real board",
        )


def _undisturbed(device: Device, model: Model, sample: Sample, run: Callable[[], T]) -> T:
    """Return the result of ``run()`` on ``sample``, repeated if a request was repeated
    meanwhile.
    """
    for _ in range(_ATTEMPTS):
        model.reset_state()
        # A run may overwrite the inputs.
        for name, array in sample.items():
            model.set_input(name, array)
        before = device.repeated_requests
        result = run()
        # A simulated core has no interrupts: input during a run costs it nothing.
        if device.repeated_requests == before or device.simulated is not None:
            return result
    raise LinkError(
        f"in each of {_ATTEMPTS} attempts a request had to be repeated during the run, so nothing "
        "was measured undisturbed",
        "check the cable; an emulator needs a computer that is less busy",
    )
