"""The networks of ``examples/networks``, and how each is compared with TFLite Micro on a board."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hil import verify
from hil.board import Board, load_board
from hil.device import Device
from hil.firmware.sources import ModelOptions, ModelSource, load_sources
from hil.oracle import reference_of
from hil.verify import Report
from hil.verify.samples import Sample, random_sample
from hilc.artifact.library import ModelLibrary, Module
from hilc.frontends import load_model

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "networks"


@dataclass(frozen=True)
class Network:
    name: str
    boards: tuple[str, ...]
    #: Inputs that are steps of one stream; otherwise each is for itself.
    is_stream: bool = False
    #: ``make.py`` makes it; it is too large to be here.
    is_made: bool = False

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.tflite"

    @property
    def runs(self) -> int:
        """How many inputs a whole comparison takes."""
        return 1000 if self.is_stream else 100

    def library(self, board: Board) -> ModelLibrary:
        """As ``hil verify`` compiles it."""
        options = ModelOptions(board.cpu.name, board=board)
        (library,) = load_sources([ModelSource(self.path, self.name)], options)
        return library

    def operators(self) -> str:
        """The operators of the file, with how often each stands there."""
        found = Counter(node.op for node in load_model(self.path).nodes)
        return ", ".join(f"{op} {n}" if n > 1 else op for op, n in found.items())


_BOTH = ("mps2-an386", "mps3-an547")
NETWORKS = {
    network.name: network
    for network in (
        Network("denoiser", _BOTH, is_stream=True),
        Network("detector", _BOTH),
        Network("gestures", _BOTH),
        Network("keywords", _BOTH, is_stream=True),
        # Its weights need a flash of 4 MB, or a memory outside of the chip.
        Network("mobilenet_v2", ("mps2-an500", "mps3-an547-ddr"), is_made=True),
        Network("person", _BOTH, is_made=True),
        Network("rhythm", _BOTH),
        Network("segmenter", _BOTH),
    )
}


def inputs(network: Network, module: Module, count: int) -> Iterator[Sample]:
    """Random inputs; those of a stream grow loud and quiet again, so that its states move."""
    for index in range(count):
        sample: Sample = random_sample(module.inputs, 1, index)
        if network.is_stream:
            quieter = index // 16 % 12
            sample = {name: array >> quieter for name, array in sample.items()}
            assert all(array.dtype == np.int16 for array in sample.values())
        yield sample


def compare(network: Network, device: Device, library: ModelLibrary, runs: int) -> Report:
    """Run so many inputs on a board, of a stream one after the other, and in TFLite Micro."""
    (module,) = library.modules
    return verify(
        device[module.name],
        inputs(network, module, runs),
        reference_of(library, module, "tflm"),
        board=device.hello.board,
        keep_state=network.is_stream,
    )


def board_named(name: str) -> Board:
    """A board of this project, or of the folder of the networks."""
    own = FOLDER / f"{name}.toml"
    return load_board(own if own.exists() else name)
