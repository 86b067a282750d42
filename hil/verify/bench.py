"""Cost of an inference on a board: instructions or cycles, flash and RAM.

The first inference warms the board's caches and is not counted. An emulator that counts
instructions gives the same figure for the same input on every run, so one measured run is enough.
"""

from __future__ import annotations

import html
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from hil.board import Board
from hil.device import Device, Model
from hil.errors import LinkError
from hil.verify.cycles import Estimate
from hil.verify.samples import Sample, random_sample
from hilc.artifact.library import Module
from hilc.artifact.manifest import NOTHING_FOLDED, Folded
from hilc.artifact.notebook import html_table
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

    @property
    def per_mac(self) -> float | None:
        """Instructions or cycles per multiply-accumulate; None for a layer without any."""
        return self.count / self.macs if self.macs else None


@dataclass(frozen=True)
class BenchReport:
    """Result of a measurement; ``to_json()`` is what ``hil bench --json`` prints."""

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
    #: What runs leave to the next, beside the workspace.
    state_bytes: int
    io_bytes: int
    #: Whether ``workspace_bytes`` includes ``io_bytes``.
    io_in_workspace: bool
    ram_bytes: int
    stack_peak_bytes: int
    layers: tuple[LayerCount, ...]
    #: Channels and MACs that the compiler removed from the model.
    folded: Folded = NOTHING_FOLDED
    #: Executed instructions, and estimated cycles of a Cortex-M4; None if not requested.
    estimate: Estimate | None = None

    @property
    def macs(self) -> int:
        return sum(layer.macs for layer in self.layers)

    def __repr__(self) -> str:
        """Return the figures in one line."""
        return (
            f"<BenchReport {self.model} on {self.board}: {self.per_inference:,} {self.counter}, "
            f"workspace {self.workspace_bytes:,} B, model flash {self.model_flash_bytes:,} B>"
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
        }
        header = ("layer", "operator", "MACs", self.counter)
        rows = [(n.name, n.op, f"{n.macs:,}", f"{n.count:,}") for n in self.layers]
        title = f"<h4>{html.escape(self.model)}</h4>"
        return title + html_table(facts.items()) + html_table(rows, header)

    def json(self) -> dict[str, Any]:
        """Return what :meth:`to_json` does; its earlier name."""
        return self.to_json()

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``hil bench --json`` prints."""
        report: dict[str, Any] = {
            "model": self.model,
            "board": self.board,
            "counter": self.counter,
            "per_inference": self.per_inference,
            "model_flash_bytes": self.model_flash_bytes,
            "firmware_flash_bytes": self.firmware_flash_bytes,
            "workspace_bytes": self.workspace_bytes,
            "state_bytes": self.state_bytes,
            "io_bytes": self.io_bytes,
            "io_in_workspace": self.io_in_workspace,
            "ram_bytes": self.ram_bytes,
            "stack_peak_bytes": self.stack_peak_bytes,
            "macs": self.macs,
            "folded_channels": self.folded.channels,
            "folded_macs": self.folded.macs,
            "layers": [
                {"name": layer.name, "op": layer.op, "macs": layer.macs, "count": layer.count}
                for layer in self.layers
            ],
        }
        if self.estimate is not None:
            report["estimate"] = self.estimate.json()
        return report


def bench(
    device: Device, module: Module, *, runs: int = 1, seed: int = 0, sample: Sample | None = None
) -> BenchReport:
    """Measure ``module`` on ``device``, with the same states and inputs in every run: ``sample``,
    or random ones.

    The stack's peak is that since the firmware's start.
    """
    check("runs", runs, int)
    check("seed", seed, int)
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

    measured(inference)
    counts = [device.count(measured(inference)) for _ in range(runs)]
    profile = [device.count(ticks) for ticks in measured(model.profile)]
    sizes = firmware.sizes
    return BenchReport(
        model=module.name,
        board=board.name,
        counter=device.counter,
        # The median of an even number of runs would not be one of them.
        per_inference=statistics.median_low(counts),
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
        layers=tuple(
            LayerCount(layer.name, layer.op, layer.macs, count)
            for layer, count in zip(module.layers, profile, strict=True)
        ),
    )


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
        if device.repeated_requests == before:
            return result
    raise LinkError(
        f"in each of {_ATTEMPTS} attempts a request had to be repeated during the run, so nothing "
        "was measured undisturbed",
        "check the cable; an emulator needs a computer that is less busy",
    )
