"""Float kernels for few cores on emulated boards: equal to the interpreter to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from campaigns import sampled
from float_layers import float_layers, float_ops
from kernel_checks import check, checks_of, overlapping_checks
from linear_layers import make_layer

import hil
import hilc
from hil.board import load_board
from hil.verify.oracle import reference_of

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
