"""What further runs of a layer show: memory that nothing wrote, chance, an overwritten input."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from random_graphs import GraphBuilder
from small_models import SMALL_MODELS

import hilc
import hilc.host
from hil.verify import Oracle, Report, verify
from hil.verify.diagnosis import Evidence, Kind
from hil.verify.rerun import examine
from hil.verify.samples import random_sample
from hilc import interpreter
from hilc.artifact.library import ModelLibrary
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
    call = r"hil_depthwise_conv2d_s8\(&layer_1, input0, output0, scratch\);"
    old = "const int8_t old = ((int8_t *)scratch)[5]; "
    text = old + r"\g<0> ((int8_t *)output0)[9] = (int8_t)(old / 2);"
    found = verified(edited(library, call, text)).diagnosis
    assert found is not None
    assert (found.layer, found.kind) == (1, Kind.UNINITIALISED)
    assert "1 depend on what was in memory before (row 0" in found.sentence


def test_results_that_vary(library: ModelLibrary) -> None:
    call = r"hil_max_pool_s8\(&layer_2, input0, output0\);"
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
    assert found.culprit == (1, layers[1].name)
    assert f"its input {layers[0].outputs[0].name!r} had changed" in found.sentence


def test_a_model_without_memory_to_paint_gives_no_evidence() -> None:
    assert examine(object(), 0, 0, lambda: None) == Evidence()
