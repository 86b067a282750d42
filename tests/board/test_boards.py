"""The whole path on every board: real firmware, emulator, serial link, every byte compared."""

from __future__ import annotations

import functools
from pathlib import Path

import models
import numpy as np
import pytest

import hil
import hilc
from hil.bench import BenchReport, bench
from hil.board import load_board
from hil.oracle import reference_of
from hil.samples import Sample
from hil.verify import Report, verify
from hilc.library import ModelLibrary, Module

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


def verified(board_name: str, *names: str, count: int, per_layer: bool) -> list[Report]:
    """Verifies models that share one firmware."""
    board = load_board(board_name)
    libraries = [compiled(name, board.cpu.name) for name in names]
    with hil.open(board, *libraries) as device:
        return [
            verify(
                device[name],
                inputs(name, library.modules[0], count),
                reference_of(library, library.modules[0]),
                board=board_name,
                per_layer=per_layer,
            )
            for name, library in zip(names, libraries, strict=True)
        ]


@pytest.mark.parametrize(("board", "model"), BOARDS)
def test_every_output_and_layer_equals_the_reference(board: str, model: str) -> None:
    (report,) = verified(board, model, count=1, per_layer=True)
    assert report.match, report.json()["first_different_layer"]
    assert report.layers
    assert all(layer.outputs for layer in report.layers), "a layer was not compared"


def test_several_models_in_one_image() -> None:
    reports = verified("mps2-an386", "ad", "ic", "vww", "digits", count=1, per_layer=False)
    assert [(report.model, report.match) for report in reports] == [
        ("ad", True),
        ("ic", True),
        ("vww", True),
        ("digits", True),
    ]


def test_a_float_model_is_within_the_tolerance() -> None:
    (report,) = verified("mps2-an386", "kws_float", count=1, per_layer=True)
    assert report.match, report.json()["first_different_layer"]
    (output,) = report.outputs
    assert output.dtype == "float32"
    assert output.max_abs_diff < 1e-5


@pytest.mark.parametrize("board", ["mps2-an386", "microbit"])
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
