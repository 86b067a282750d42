"""Layers and a model of 16-bit activations on emulated boards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kernel_checks import check, checks_of
from sixteen_by_eight import BIASES, network, operator
from tflm import EXISTS

from hil.board import load_board
from hil.cli import main

BOARDS = ("mps2-an385", "mps2-an386")


@pytest.mark.parametrize("name", BOARDS)
def test_layers_on_a_board(name: str) -> None:
    """Sums at the ends of their types among them."""
    rng = np.random.default_rng(6)
    board = load_board(name)
    layers = [operator(rng, bias) for bias in BIASES for _ in range(25)]
    check([one for layer in layers for one in checks_of(layer, board.cpu)], board)


@pytest.mark.parametrize("name", BOARDS)
def test_a_model_equals_its_reference(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By TFLite's own kernels where they can be had."""
    model = tmp_path / "wide.tflite"
    model.write_bytes(network())
    reference = "tflm" if EXISTS else "hilc"
    command = ["verify", str(model), "--board", name, "--reference", reference]
    assert main([*command, "--samples", "20", "--per-layer"]) == 0, capsys.readouterr().err
