"""Counts what an inference costs on a board: instructions or cycles, flash and RAM.

The first inference warms the board's caches and is not counted. An emulator that counts
instructions gives the same figure for the same input on every run, so one measured run is enough.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from hil.board import Board
from hil.device import Device, Model
from hil.samples import Sample, random_sample
from hilc.errors import InputError
from hilc.library import Module


@dataclass(frozen=True)
class LayerCount:
    """One layer's share of an inference."""

    name: str
    op: str
    macs: int
    count: int

    @property
    def per_mac(self) -> float | None:
        """Instructions or cycles a multiply-accumulate; None for a layer that has none."""
        return self.count / self.macs if self.macs else None


@dataclass(frozen=True)
class BenchReport:
    """What a measurement found; ``json()`` is the contract of ``hil bench --json``."""

    model: str
    board: str
    #: What was counted: ``instructions`` or ``cycles``.
    counter: str
    #: Median of the measured runs.
    per_inference: int
    #: Every measured run.
    counts: tuple[int, ...]
    model_flash_bytes: int
    firmware_flash_bytes: int
    workspace_bytes: int
    io_bytes: int
    ram_bytes: int
    stack_peak_bytes: int
    layers: tuple[LayerCount, ...]

    @property
    def macs(self) -> int:
        return sum(layer.macs for layer in self.layers)

    def json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "board": self.board,
            "counter": self.counter,
            "per_inference": self.per_inference,
            "model_flash_bytes": self.model_flash_bytes,
            "firmware_flash_bytes": self.firmware_flash_bytes,
            "workspace_bytes": self.workspace_bytes,
            "io_bytes": self.io_bytes,
            "ram_bytes": self.ram_bytes,
            "stack_peak_bytes": self.stack_peak_bytes,
            "layers": [
                {"name": layer.name, "op": layer.op, "macs": layer.macs, "count": layer.count}
                for layer in self.layers
            ],
        }


def bench(device: Device, module: Module, *, runs: int = 1, seed: int = 0) -> BenchReport:
    """Measures ``module`` on ``device``, with the same random input in every run.

    The stack's peak is that of everything that the firmware has done since its start.
    """
    firmware = device.firmware
    if firmware is None:
        raise InputError(
            "the sizes of a firmware that runs already are not known",
            "give the model, so that its firmware is built",
        )
    board = firmware.board
    check_countable(board)
    model = device[module.name]
    sample = random_sample(module.inputs, seed, 0)
    _run(model, sample)
    counts = [device.count(_run(model, sample)) for _ in range(runs)]
    _set_inputs(model, sample)
    profile = [device.count(ticks) for ticks in model.profile()]
    sizes = firmware.sizes
    return BenchReport(
        model=module.name,
        board=board.name,
        counter=device.counter,
        # The median of an even number of runs would be one that nobody measured.
        per_inference=statistics.median_low(counts),
        counts=tuple(counts),
        model_flash_bytes=sizes.models[module.name].flash_bytes,
        firmware_flash_bytes=sizes.flash_bytes,
        workspace_bytes=module.workspace_bytes,
        io_bytes=module.io_bytes,
        ram_bytes=sizes.ram_bytes,
        stack_peak_bytes=device.memory().stack_peak_bytes,
        layers=tuple(
            LayerCount(layer.name, layer.op, layer.macs, count)
            for layer, count in zip(module.layers, profile, strict=True)
        ),
    )


def check_countable(board: Board) -> None:
    """Refuses a board whose time base counts neither instructions nor cycles of its core."""
    if board.is_host:
        raise InputError(
            f"board {board.name!r} is a process of this machine: its clock counts neither "
            "instructions nor cycles",
            "measure on an emulated or a real board",
        )


def _run(model: Model, sample: Sample) -> int:
    """The ticks of one inference, its inputs set first: a run may destroy them."""
    _set_inputs(model, sample)
    return model.run().ticks


def _set_inputs(model: Model, sample: Sample) -> None:
    for name, array in sample.items():
        model.set_input(name, array)
