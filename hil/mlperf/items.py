"""Inputs as MLPerf Tiny's runner sends them: its own data sets, and those of ``hil evaluate``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hil.errors import InputError
from hil.firmware.mlperf import Benchmark
from hil.mlperf.runs import WINDOWS, Item
from hil.verify.datasets import INDEX, DataSet, IndexedInput, read_index
from hil.verify.samples import random_sample
from hilc.artifact.library import Module, TensorInfo
from hilc.ir import Array


class IndexedItems(Sequence[Item]):
    """The inputs of a folder with ``y_labels.csv``, read when they are asked for."""

    def __init__(self, folder: Path, inputs: Sequence[IndexedInput], nbytes: int) -> None:
        self._folder = folder
        self._inputs = inputs
        self._nbytes = nbytes

    def __len__(self) -> int:
        return len(self._inputs)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        source = self._inputs[index]
        data = source.read(self._folder)
        if len(data) != self._nbytes:
            raise InputError(
                f"{self._folder / source.file} has {len(data)} bytes, and an input of the benchmark"
                f" {self._nbytes}",
                "give the data set of this model",
            )
        return Item(source.file, source.label, source.classes, data)


def indexed_items(folder: Path, nbytes: int) -> IndexedItems:
    """Return the inputs of one of MLPerf Tiny's data sets, of ``nbytes`` each."""
    return IndexedItems(folder, read_index(folder), nbytes)


def is_indexed(path: Path) -> bool:
    """Return whether ``path`` is one of MLPerf Tiny's data sets."""
    return (path / INDEX).is_file()


def items_of(data: DataSet, module: Module, benchmark: Benchmark) -> Iterator[Item]:
    """Yield the samples of a data set as inputs on the line."""
    tensor = module.inputs[0]
    classes = len(data.classes) if data.classes is not None else int(data.labels.max()) + 1
    for index, label in enumerate(data.labels.tolist()):
        on_line = to_wire(data.samples[index][tensor.name], tensor, benchmark)
        yield Item(f"{index}: {data.sources[index]}", label, classes, on_line)


def random_items(module: Module, benchmark: Benchmark, seed: int) -> list[Item]:
    """Return one random input per window of the performance run."""
    tensor = module.inputs[0]
    samples = [random_sample(module.inputs, seed, index) for index in range(WINDOWS)]
    return [
        Item(f"random {seed}, {i}", 0, 1, to_wire(sample[tensor.name], tensor, benchmark))
        for i, sample in enumerate(samples)
    ]


def to_wire(array: Array, tensor: TensorInfo, benchmark: Benchmark) -> bytes:
    """Return an input of the model as the host sends it."""
    assert array.dtype == np.dtype(tensor.dtype), "samples have the model's type"
    if benchmark.wire == "uint8" and tensor.dtype == "int8":
        return (array.astype(np.int16) + 128).astype(np.uint8).tobytes()
    if benchmark.wire == "float32" and tensor.dtype != "float32":
        assert tensor.scale is not None, "the firmware was built for it"
        real = (array.astype(np.float64) - (tensor.zero_point or 0)) * tensor.scale
        return real.astype("<f4").tobytes()
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
