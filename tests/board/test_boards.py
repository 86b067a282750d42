"""The whole path on every board: real firmware, emulator, serial link, every byte compared."""

from __future__ import annotations

import functools
from pathlib import Path

import models
import numpy as np
import pytest
from campaigns import cases, sampled

import hil
import hilc
from hil import verify
from hil.bench import BenchReport, bench
from hil.board import load_board
from hil.device import Device
from hil.link.protocol import Tensors
from hil.link.tensors import TensorRef
from hil.oracle import reference_of
from hil.verify import Report
from hil.verify.samples import Sample
from hilc.artifact.library import ModelLibrary, Module

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"

#: Every core, UART and timer that a port exists for; the model is the largest that fits.
BOARDS = (
    ("native", "kws"),
    ("mps2-an385", "kws"),
    ("mps2-an386", "kws"),
    ("mps2-an500", "kws"),
    ("mps2-an505", "kws"),
    ("mps3-an547", "kws"),
    ("lm3s6965evb", "kws"),
    ("netduinoplus2", "kws"),
    ("riscv-virt", "kws"),
    ("riscv-virt", "ad"),
    ("riscv-virt", "digits"),
    ("microbit", "digits"),
    ("stm32vldiscovery", "digits"),
)


@functools.cache
def compiled(model: str, cpu: str) -> ModelLibrary:
    """The model for a firmware."""
    path = DIGITS / "digits.tflite" if model == "digits" else models.model_path(model)
    return hilc.compile(path, cpu=cpu, name=model, pools="external", io_in_pool=True)


def inputs(model: str, module: Module, count: int) -> list[Sample]:
    """Real inputs first."""
    (tensor,) = module.inputs
    if model == "digits":
        images = np.load(DIGITS / "digits_test.npz")["image"]
        return [{tensor.name: image[np.newaxis]} for image in images[:count]]
    return [{tensor.name: array} for array in models.samples(model, count)]


def verified_on(
    device: Device, library: ModelLibrary, *, count: int, per_layer: bool = False
) -> Report:
    """Verifies the one model of a library that an open device runs."""
    (module,) = library.modules
    return verify(
        device[module.name],
        inputs(module.name, module, count),
        reference_of(library, module),
        board=device.hello.board,
        per_layer=per_layer,
    )


@pytest.mark.parametrize(
    ("board", "model"),
    sampled(
        BOARDS,
        keep=[
            ("native", "kws"),
            ("mps2-an386", "kws"),
            ("mps3-an547", "kws"),
            ("microbit", "digits"),
        ],
    ),
)
def test_every_output_and_layer_equals_the_reference(board: str, model: str) -> None:
    """And memory is a way to the tensors that changes no byte and no count."""
    library = compiled(model, load_board(board).cpu.name)
    with hil.open(board, library) as device:
        report = verified_on(device, library, count=1, per_layer=True)
        assert report.match, report.json()["first_different_layer"]
        assert report.layers
        assert all(layer.outputs for layer in report.layers), "a layer was not compared"
        bulk = device._client.bulk
        assert (bulk is None) == (board == "native")
        if bulk is not None:
            assert bulk._writable, "no input went through memory"
            check_ways(device, library)
            assert bulk.is_used


def check_ways(device: Device, library: ModelLibrary) -> None:
    """The line sees every tensor as memory does, and every count is the same by either way."""
    client, model = device._client, device[library.modules[0].name]
    (sample,) = inputs(model.name, model.module, 1)
    bulk, counts, outputs = client.bulk, [], []
    for way in (None, bulk):
        client.bulk = way
        model.set_input(0, *sample.values())
        profile = model.profile()
        model.set_input(0, *sample.values())
        counts.append([model.run().ticks, *profile])
        outputs.append(model.get_output(0).tobytes())
    assert counts[0] == counts[1]
    assert outputs[0] == outputs[1]
    model.set_input(0, *sample.values())
    for number, (_, arrays) in enumerate(model.layer_outputs()):
        for index, array in enumerate(arrays):
            ref = TensorRef(0, Tensors.LAYER_OUTPUT, index, number)
            assert client.read_by_line(ref, array.nbytes) == array.tobytes()


@pytest.mark.parametrize("models", sampled(["ad digits", "ad ic vww digits"], keep=["ad digits"]))
@pytest.mark.parametrize("board", ["mps2-an386", "riscv-virt"])
def test_several_models_in_one_image(board: str, models: str) -> None:
    names = models.split()
    libraries = [compiled(name, load_board(board).cpu.name) for name in names]
    with hil.open(board, *libraries) as device:
        reports = [verified_on(device, library, count=1) for library in libraries]
    assert [(report.model, report.match) for report in reports] == [(n, True) for n in names]


def test_riscv_computes_kws_in_9_million_instructions() -> None:
    """In portable C, with the default goal: fused, in half the workspace of the fastest program."""
    library = compiled("kws", "rv32imac")
    with hil.open("riscv-virt", library) as device:
        assert bench(device, library.modules[0], runs=1).per_inference <= 9_000_000


@pytest.mark.parametrize("board", sampled(["mps2-an386", "riscv-virt"], keep=["mps2-an386"]))
def test_a_float_model_is_within_the_tolerance(board: str) -> None:
    library = compiled("kws_float", load_board(board).cpu.name)
    with hil.open(board, library) as device:
        report = verified_on(device, library, count=1, per_layer=True)
    assert report.match, report.json()["first_different_layer"]
    (output,) = report.outputs
    assert output.dtype == "float32"
    assert output.max_abs_diff < 1e-5


@cases("board", ["mps2-an386", "microbit", "riscv-virt"], first=1)
def test_counts_are_the_same_every_time(board: str) -> None:
    def measured() -> BenchReport:
        library = compiled("digits", load_board(board).cpu.name)
        with hil.open(board, library) as device:
            return bench(device, library.modules[0], runs=2)

    first, second = measured(), measured()
    assert first.json() == second.json()
    assert set(first.counts) == {first.per_inference}
    assert first.counter == "instructions"
    # Layers are measured one by one; the calls between them are little beside them.
    layers = sum(layer.count for layer in first.layers)
    assert layers == pytest.approx(first.per_inference, rel=0.02)
    assert first.macs > 0
    assert first.workspace_bytes <= first.ram_bytes
    assert 0 < first.model_flash_bytes < first.firmware_flash_bytes
    assert 0 < first.stack_peak_bytes < load_board(board).stack_bytes
