"""What further runs of a layer show: memory that nothing wrote, chance, an overwritten input."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from random_graphs import GraphBuilder
from small_models import SMALL_MODELS

import hilc
import hilc.host
from hil import verify
from hil.results.verify import Culprit
from hil.verify import Oracle, Report
from hil.verify.diagnosis import Evidence, Kind
from hil.verify.rerun import examine
from hil.verify.samples import random_sample
from hilc import interpreter
from hilc.artifact.library import Argument, Layer, ModelLibrary, TensorInfo
from hilc.frontends import load_model
from hilc.host import HostModel


@pytest.fixture(scope="module")
def library() -> ModelLibrary:
    return hilc.compile(SMALL_MODELS["convolutions"](), name="net", cpu="host")


def edited(library: ModelLibrary, pattern: str, text: str) -> ModelLibrary:
    """The library with one place of its C changed."""
    path = "codegen/host/src/net_lib1.c"
    source, count = re.subn(pattern, text, library.files[path].decode(), flags=re.S)
    assert count == 1, f"{pattern} matches {count} places"
    return replace(library, files={**library.files, path: source.encode()})


def verified(library: ModelLibrary, samples: int = 3) -> Report:
    """The report of a library on this machine, against the interpreter."""
    graph = load_model(SMALL_MODELS["convolutions"]())
    inputs = [random_sample(library.modules[0].inputs, 0, index) for index in range(samples)]
    oracle = Oracle("hilc", "hilc", lambda index, sample: interpreter.run_all(graph, sample))
    with hilc.host.load(library) as model:
        return verify(model, inputs, oracle, per_layer=True)


@pytest.mark.full
def test_no_layer_of_a_right_model_depends_on_paint() -> None:
    for name, build in SMALL_MODELS.items():
        compiled = hilc.compile(build(), name="net", cpu="host")
        with hilc.host.load(compiled) as model:
            for evidence in every_layer(model):
                assert evidence.dependent is not None
                assert not evidence.shows_something, name


def every_layer(model: HostModel) -> Iterator[Evidence]:
    inputs = random_sample(model.inputs, 0, 0)

    def prepare() -> None:
        for name, array in inputs.items():
            model.set_input(name, array)

    for number, layer in enumerate(model.layers):
        for index in range(len(layer.outputs)):
            yield examine(model, number, index, prepare)


def test_a_right_model_has_no_diagnosis(library: ModelLibrary) -> None:
    report = verified(library)
    assert report.match
    assert report.diagnosis is None
    assert report.json()["diagnosis"] is None


def test_rows_that_nothing_writes(library: ModelLibrary) -> None:
    found = verified(edited(library, r"(layer_0 = \{.*?\.out_h = )4", r"\g<1>3")).diagnosis
    assert found is not None
    assert (found.layer, found.kind) == (0, Kind.UNINITIALISED)
    assert "16 of them are never written (row 3)" in found.sentence


def test_scratch_that_nothing_writes(library: ModelLibrary) -> None:
    call = r"hil_generic_depthwise_conv2d_s8\(&layer_1, input0, output0, scratch\);"
    old = "const int8_t old = ((int8_t *)scratch)[5]; "
    text = old + r"\g<0> ((int8_t *)output0)[9] = (int8_t)(old / 2);"
    found = verified(edited(library, call, text)).diagnosis
    assert found is not None
    assert (found.layer, found.kind) == (1, Kind.UNINITIALISED)
    assert "1 depend on what was in memory before (row 0" in found.sentence


def test_results_that_vary(library: ModelLibrary) -> None:
    call = r"hil_generic_max_pool_s8\(&layer_2, input0, output0\);"
    text = r"static int8_t runs; \g<0> ((int8_t *)output0)[3] = runs++;"
    found = verified(edited(library, call, text)).diagnosis
    assert found is not None
    assert (found.layer, found.kind) == (2, Kind.NOT_REPEATABLE)


def test_the_layer_that_overwrites_an_input_of_another() -> None:
    """The sum reads a tensor after another was computed, whose layer writes beyond its own."""
    builder = GraphBuilder()
    first = builder.conv(builder.input(1, 4, 4, 4), 4)
    second = builder.conv(first, 4)
    graph = builder.graph(builder.relu(builder.conv(builder.add(first, second), 4)))
    library = hilc.compile(graph, name="net", cpu="host")
    one, two = (library.modules[0].layers[i].outputs[0].offset for i in (0, 1))
    assert one is not None
    assert two is not None
    call = r"return (\w+\(input0, output0, scratch, &layer_1\));"
    beyond = f"((int8_t *)output0)[{one - two} + 3] ^= 0x55;"
    text = rf"const int32_t status = \g<1>; {beyond} return status;"
    broken = edited(library, call, text)
    inputs = [random_sample(library.modules[0].inputs, 0, 0)]
    oracle = Oracle("hilc", "hilc", lambda index, sample: interpreter.run_all(graph, sample))
    with hilc.host.load(broken) as model:
        found = verify(model, inputs, oracle, per_layer=True).diagnosis
    assert found is not None
    layers = library.modules[0].layers
    assert (found.layer, found.kind) == (2, Kind.OVERWRITTEN)
    assert found.culprit == Culprit(1, layers[1].name)
    assert f"its input {layers[0].outputs[0].name!r} had changed" in found.sentence


def test_a_model_without_memory_to_paint() -> None:
    assert examine(object(), 0, 0, lambda: None) == Evidence()


# -- a model in memory of its own ------------------------------------------------------------------


ROOM = 8


class MadeModel:
    """Layers that add one to each of eight bytes, from one place of a workspace to another.

    ``reads`` is the layer that each one reads, -1 for the input beside the workspace; ``writes``
    are its places. ``tricks`` do more once a layer has run.
    """

    def __init__(
        self,
        reads: Sequence[int],
        writes: Sequence[int],
        tricks: Mapping[int, Callable[[np.ndarray], object]] = MappingProxyType({}),
    ) -> None:
        self._reads, self._writes, self._tricks = reads, writes, tricks
        self._input = np.zeros(ROOM, np.uint8)
        self.prepared = 0
        self.memory = np.zeros(ROOM * (1 + max(writes)), np.uint8)

        def argument(layer: int) -> Argument:
            if layer < 0:
                return Argument("input", 0, (ROOM,), "uint8")
            return Argument("pool", ROOM * self._writes[layer], (ROOM,), "uint8", pool=0)

        layers = tuple(
            Layer(
                *(f"layer{number}", "ADD", "f", (argument(read), argument(number))),
                (TensorInfo(f"t{number}", "", (ROOM,), "uint8", None, None, ROOM, None),),
                *(0, 1),
            )
            for number, read in enumerate(reads)
        )
        pool: Any = SimpleNamespace(nbytes=self.memory.size, persistent=False)
        self.module: Any = SimpleNamespace(layers=layers, workspace_pools=(pool,))

    def prepare(self) -> None:
        self.prepared += 1
        self._input[:] = np.arange(ROOM)

    def _place(self, layer: int) -> np.ndarray:
        if layer < 0:
            return self._input
        return self.memory[ROOM * self._writes[layer] :][:ROOM]

    def layer_outputs(self, first: int = 0) -> Iterator[tuple[Layer, list[np.ndarray]]]:
        for number, read in enumerate(self._reads):
            self._place(number)[:] = self._place(read) + 1
            if number in self._tricks:
                self._tricks[number](self.memory)
            if number >= first:
                yield self.module.layers[number], [self._place(number).copy()]

    def layer_output(self, layer: int, index: int) -> np.ndarray:
        assert index == 0
        return self._place(layer).copy()

    def set_layer_output(self, layer: int, index: int, array: np.ndarray) -> None:
        assert index == 0
        self._place(layer)[:] = array

    def examine(self, layer: int) -> Evidence:
        return examine(self, layer, 0, self.prepare)


def flips(byte: int) -> Callable[[np.ndarray], None]:
    def flip(memory: np.ndarray) -> None:
        memory[byte] ^= 0x5A

    return flip


@pytest.mark.parametrize("victim", range(1, 5))
def test_an_input_is_followed_to_its_reader(victim: int) -> None:
    """Wherever it comes from, and whichever layer changes it in between."""
    for source, culprit in itertools.product(range(victim), range(5)):
        reads = [-1, *range(4)]
        reads[victim] = source
        byte = ROOM * source + 3
        model = MadeModel(reads, range(5), {culprit: flips(byte)})
        evidence = model.examine(victim)
        if source < culprit < victim:
            assert evidence.overwritten == f"t{source}"
            assert evidence.overwriter == (culprit, f"layer{culprit}")
        else:
            assert (evidence.overwritten, evidence.overwriter) == (None, None)
        # It runs four times on paint, and once more where a layer lies between.
        assert model.prepared == 4 + (source + 1 < victim)
        # The layer itself depends on nothing else, whoever has changed its input.
        assert evidence.dependent is not None
        assert not evidence.dependent.any()
        assert evidence.varying is not None
        assert not evidence.varying.any()


def test_an_input_is_of_the_last_writer() -> None:
    # Layer 2 writes where layer 0 did, and layer 4 reads that.
    writes = [0, 1, 0, 2, 3]
    for reads in ([-1, 0, 1, 2, 2], [-1, 0, 1, 2, 0]):
        model = MadeModel(reads, writes, {3: flips(5)})
        assert model.examine(4).overwritten == "t2"
    # What another layer writes there before the reader's is no part of it.
    assert MadeModel([-1, 0, 1, 2, 2], writes, {1: flips(5)}).examine(4).overwritten is None


def test_memory_dependence_differs_from_variation() -> None:
    def computed_from_memory(memory: np.ndarray) -> None:
        memory[2 * ROOM + 3] = memory[3 * ROOM + 1] // 2

    def kept(memory: np.ndarray) -> None:
        memory[2 * ROOM + 4] = memory[3 * ROOM + 1]

    runs = itertools.count()

    def by_chance(memory: np.ndarray) -> None:
        memory[2 * ROOM + 6] = next(runs) % 251

    # Memory that layer 3 writes, which is painted before layer 2 runs.
    reads = [-1, 0, 1, 2]
    found = MadeModel(reads, range(4), {2: computed_from_memory}).examine(2)
    assert found.dependent is not None
    assert np.flatnonzero(found.dependent).tolist() == [3]
    assert found.unwritten is not None
    assert not found.unwritten.any()
    found = MadeModel(reads, range(4), {2: kept}).examine(2)
    assert found.dependent is not None
    assert np.flatnonzero(found.dependent).tolist() == [4]
    assert found.unwritten is not None
    # The paint is the same everywhere, so that it is taken for memory that nothing wrote.
    assert np.flatnonzero(found.unwritten).tolist() == [4]
    found = MadeModel(reads, range(4), {2: by_chance}).examine(2)
    assert found.varying is not None
    assert np.flatnonzero(found.varying).tolist() == [6]


def test_what_a_layer_reads_and_states_are_not_painted() -> None:
    """The first layer reads what the caller wrote, others what lies in the workspace."""
    model = MadeModel([-1, 0, 1], [0, 1, 2])
    kept: list[np.ndarray] = []

    def look(memory: np.ndarray) -> None:
        kept.append(memory.copy())

    model._tricks = {1: look}
    model.examine(1)
    paints = {0xA6, 0xFF - 0xA6}
    for memory in kept[-4:]:
        assert memory[:ROOM].tolist() == list(range(1, ROOM + 1))
        assert memory[ROOM : 2 * ROOM].tolist() == list(range(2, ROOM + 2))
        assert {int(value) for value in memory[2 * ROOM :]} <= paints
    assert {int(memory[-1]) for memory in kept[-4:]} == paints
    model.module.workspace_pools[0].persistent = True
    kept.clear()
    model.memory[:] = 7
    model.examine(1)
    assert {int(memory[-1]) for memory in kept} == {7}
