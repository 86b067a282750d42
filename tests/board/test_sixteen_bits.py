"""Layers and a model of 16-bit activations on emulated boards."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from campaigns import cases, sampled
from even_ops import KINDS, even_op
from kernel_checks import check, checks_of, count, first_difference, overlapping_checks
from kernel_layers import conv
from kernel_runner import run
from sixteen_by_eight import BIASES, network, operator
from tflm import EXISTS
from wide_layers import (
    DEEP_SHAPES,
    SHAPES,
    deep_layer,
    even_layer,
    long_layer,
    wide_layer,
)

from hil.board import load_board
from hil.cli import main
from hilc.errors import HilError
from hilc.lowering.parameters import HilDspMatmulS16

BOARDS = ("mps2-an385", "mps2-an386", "mps3-an547")
#: Kernels that are compiled once for all layers, and for each layer with its constants.
WAYS = pytest.mark.parametrize(
    ("specialise", "name"),
    sampled(
        [(specialise, name) for specialise in (False, True) for name in BOARDS],
        keep=[(False, "mps3-an547")],
    ),
)


@pytest.mark.parametrize("name", sampled(BOARDS, keep=BOARDS[1:]))
def test_layers_on_a_board(name: str) -> None:
    """Sums at the ends of their types among them."""
    rng = np.random.default_rng(6)
    board = load_board(name)
    layers = [operator(rng, bias) for bias in BIASES for _ in range(25)]
    layers += [wide_layer(rng, shapes, True) for shapes in DEEP_SHAPES]
    check([one for layer in layers for one in checks_of(layer, board.cpu)], board)


@pytest.mark.full
@WAYS
def test_every_way_of_a_layer(name: str, specialise: bool) -> None:
    """Shapes at the edges of blocks, sums at the ends of 32 bits and beyond; outputs over
    inputs.
    """
    rng = np.random.default_rng(7)
    board = load_board(name)
    layers = [
        made(rng, shapes, extreme)
        for made in (wide_layer, long_layer)
        for shapes in SHAPES
        for extreme in (False, True)
    ]
    if specialise:
        layers = layers[::5]
    checks = [one for layer in layers for one in checks_of(layer, board.cpu, specialise=specialise)]
    over = [
        other
        for layer in layers[::3]
        for one in checks_of(layer, board.cpu)
        for other in overlapping_checks(one, layer)
    ]
    check(checks if specialise else checks + over, board)


def test_sums_beyond_32_bits_on_helium() -> None:
    """By high and low bytes; no layer is left to the portable kernel."""
    rng = np.random.default_rng(10)
    board = load_board("mps3-an547")
    layers = [
        deep_layer(rng, shapes, bits, signs)
        for shapes in DEEP_SHAPES
        for bits, signs in ((20, True), (33, True), (38, False), (20, False))
    ]
    checks = [one for layer in layers for one in checks_of(layer, board.cpu)]
    check(checks, board)
    own = sum(many for kernel, many in count(checks).items() if "mve" in kernel)
    assert own == len(layers)
    assert sum(np.unique(one.expected[0]).size for one in checks) > 4 * len(checks)


@pytest.mark.full
@WAYS
def test_layers_that_round_once(name: str, specialise: bool) -> None:
    """Ties to even, with zero points and without, sums at the ends of 32 bits; outputs over
    inputs.
    """
    rng = np.random.default_rng(9)
    board = load_board(name)
    layers = [
        even_layer(rng, wide_layer(rng, shapes, extreme), zero_points=i % 3 == 1)
        for i, shapes in enumerate(SHAPES)
        for extreme in (False, True)
    ]
    if specialise:
        layers = layers[::5]
    checks = [one for layer in layers for one in checks_of(layer, board.cpu, specialise=specialise)]
    over = [
        other
        for layer in layers[::3]
        for one in checks_of(layer, board.cpu)
        for other in overlapping_checks(one, layer)
    ]
    counts = count(checks)
    check(checks if specialise else checks + over, board)
    own = {
        "mps2-an385": ("4_columns", "sums32"),
        "mps2-an386": ("dsp",),
        "mps3-an547": ("mve",),
    }[name]
    found = [many for kernel, many in counts.items() if any(part in kernel for part in own)]
    assert sum(found) >= len(layers) // 2


@pytest.mark.full
@pytest.mark.parametrize("name", sampled(BOARDS[1:], keep=BOARDS[1:2]))
def test_operators_that_round_once(name: str) -> None:
    """Transposed convolutions by phases among them."""
    rng = np.random.default_rng(3)
    board = load_board(name)
    checks = []
    for op, dtype in KINDS:
        for _ in range(0 if dtype != "int16" else 24 if op == "TRANSPOSE_CONV" else 4):
            with suppress(HilError):
                checks += checks_of(even_op(rng, op, dtype), board.cpu)
    check(checks, board)
    assert any("transpose" in one.kernel and one.case.call.kernel.requires for one in checks)


def test_a_spoiled_constant_shows() -> None:
    """The checks see each word of a stream: weights, biases and multipliers."""
    board = load_board("mps2-an386")
    rng = np.random.default_rng(8)
    layer = wide_layer(rng, ("CONV_2D", (1, 3, 3, 8), (4, 1, 1, 8), conv("SAME", 1, "NONE")))
    (one, *_) = checks_of(layer, board.cpu)
    parameters = one.case.call.parameters
    assert isinstance(parameters, HilDspMatmulS16)
    columns = parameters.dsp_columns_s16
    cases = []
    for word in range(columns.stream.size):
        stream = columns.stream.copy()
        stream[word] ^= 1 << 20
        spoiled = replace(parameters, dsp_columns_s16=replace(columns, stream=stream))
        cases.append(replace(one.case, call=replace(one.case.call, parameters=spoiled)))
    results = run([one.case, *cases], board=board)
    (right, *differences) = (first_difference(y, one.expected[0], 0) for (y,) in results)
    assert not right
    assert all(differences), f"word {differences.index('')} of the stream changes no output"


@cases("name", BOARDS[:2], first=1)
def test_a_model_equals_its_reference(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By TFLite's own kernels where they can be had."""
    model = tmp_path / "wide.tflite"
    model.write_bytes(network())
    reference = "tflm" if EXISTS else "hilc"
    command = ["verify", str(model), "--board", name, "--reference", reference]
    assert main([*command, "--samples", "20", "--per-layer"]) == 0, capsys.readouterr().err
