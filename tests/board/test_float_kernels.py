"""Float kernels for few cores on emulated boards: equal to the interpreter to the last bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from campaigns import sampled
from float_layers import float_layers, float_ops, odd_numbers
from kernel_checks import check, checks_of, count, overlapping_checks, unequal_kernels
from linear_layers import make_layer
from single_op import random_op

import hil
import hilc
from hil.board import load_board
from hil.verify.oracle import reference_of
from hilc.ir import Rounding

BOARDS = ("mps2-an386", "mps3-an547")

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")


@pytest.mark.parametrize(
    ("specialise", "name"),
    sampled(
        [(specialise, name) for specialise in (False, True) for name in BOARDS],
        keep=[(False, "mps3-an547"), (True, "mps2-an386")],
    ),
)
def test_every_way_of_a_layer_is_equal_to_the_last_bit(name: str, specialise: bool) -> None:
    """Infinite sums, tiny ones and those that are no number among them; outputs over inputs."""
    board = load_board(name)
    layers = float_layers(np.random.default_rng(7))
    checks = [
        one
        for layer in (layers[::9] if specialise else layers)
        for one in checks_of(layer, board.cpu, specialise=specialise)
    ]
    over = [
        other
        for layer in layers[::5]
        for one in checks_of(layer, board.cpu)
        for other in overlapping_checks(one, layer)
    ]
    check(checks if specialise else checks + over, board)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("mps3-an547", 6),
        *(pytest.param(name, 150, marks=pytest.mark.full) for name in BOARDS),
    ],
)
def test_operators_without_weights_are_bit_exact(name: str, number: int) -> None:
    """Half of them on numbers that are infinite, none, subnormal or nearly so."""
    board = load_board(name)
    checks = []
    for i, operator in enumerate(float_ops(np.random.default_rng(8), number)):
        found = checks_of(operator, board.cpu)
        checks += found
        if i % 3 == 0:
            checks += [other for one in found for other in overlapping_checks(one, operator)]
    for start in range(0, len(checks), 500):
        check(checks[start : start + 500], board)


def test_lstms_are_bit_exact() -> None:
    """By vectors, by the unit and by portable C: the Cortex-M55 runs all three. Its expf() and
    tanhf() differ in the last bit for few arguments, which are not among these; a Cortex-M4's do
    for more.
    """
    board, rng = load_board("mps3-an547"), np.random.default_rng(6)
    checks = []
    for number in range(30):
        one = random_op(rng, "UNIDIRECTIONAL_SEQUENCE_LSTM", "float32")
        if number % 3 == 0:
            values = [
                v if t.data is not None else odd_numbers(rng, v)
                for t, v in zip(one.ins, one.values, strict=True)
            ]
            one = replace(one, values=tuple(values))
        fused = replace(one, node=replace(one.node, rounding=Rounding.SINGLE))
        for policy in (one, fused):
            found = checks_of(policy, board.cpu)
            checks += found + [
                other for each in found for other in overlapping_checks(each, policy)
            ]
    kernels = {f"hil_{family}_lstm_f32" for family in ("generic", "fpu", "mve")}
    assert count(checks).keys() == kernels
    check(checks, board)


def test_lstms_of_dsp_cores_equal_the_portable_one() -> None:
    """To the last bit, whatever its C library rounds."""
    rng = np.random.default_rng(9)
    layers = [random_op(rng, "UNIDIRECTIONAL_SEQUENCE_LSTM", "float32") for _ in range(20)]
    assert unequal_kernels(layers, load_board("mps2-an386"), "fpu.lstm.f32") == []


@pytest.mark.parametrize("name", BOARDS)
def test_a_model_on_a_board_equals_the_interpreter(name: str) -> None:
    """The reference computes sums as the core of the library does."""
    board = load_board(name)
    rng = np.random.default_rng(3)
    layer = make_layer(
        rng, "FULLY_CONNECTED", "float32", (3, 200), (20, 200), {"activation": "NONE"}
    )
    library = hilc.compile(layer.tflite(), cpu=board.cpu.name, name="net")
    (module,) = library.modules
    expected = reference_of(library, module, "hilc").values(0, {"x": layer.x})["y"]
    with hil.open(board, library) as device:
        device["net"].set_input("x", layer.x)
        device["net"].run()
        found = device["net"].get_output("y")
    np.testing.assert_array_equal(found, expected)
    assert (found != layer.reference()).any() == (name == "mps3-an547")
