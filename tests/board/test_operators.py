"""Every operator but the linear layers in one model, on a core with and one without Helium."""

from __future__ import annotations

import numpy as np
import pytest
from campaigns import sampled
from kernel_layers import Shapes
from linear_layers import as_single
from nodes import make_node
from single_op import KINDS, SIGNAL_DTYPES, SingleOp, merged, random_op
from wide_layers import SHAPES, wide_layer

import hil
import hilc
from hil.board import load_board
from hilc.errors import HilError
from hilc.interpreter import run_all
from hilc.ir import Graph, Tensor

#: What a float32 result may differ by: the C library is another one.
RELATIVE = 1e-5


@pytest.mark.parametrize(
    "name",
    sampled(["mps2-an385", "mps3-an547", "riscv-virt"], keep=["mps3-an547"]),
)
@pytest.mark.parametrize("io_in_pool", sampled([False, True], keep=[False]))
def test_all_operators_on_a_board(name, io_in_pool):
    """With inputs and outputs in the plan, all of which are in use at once, planning takes most of
    the time.
    """
    check(name, [kind for kind in KINDS if kind[1] in ("int8", "float32")], io_in_pool)


@pytest.mark.parametrize("name", ["mps2-an385", "riscv-virt"])
def test_signal_operators_on_a_board(name):
    """With inputs and outputs of every type that the signal library has."""
    check(name, [(op, dtype) for op, dtypes in SIGNAL_DTYPES.items() for dtype in dtypes])


@pytest.mark.full  # It changes rarely, and takes long.
def test_sums_of_words_on_a_core_without_long_products():
    """A board without the memory that tests of kernels take."""
    rng = np.random.default_rng(6)
    lstm = "UNIDIRECTIONAL_SEQUENCE_LSTM"
    singles = [random_op(rng, lstm, dtype) for dtype in ("int8", "int16") for _ in range(6)]
    singles += [as_single(wide_layer(rng, shapes)) for shapes in SHAPES if small(shapes)]
    # Inputs and outputs of all together take more than its memory.
    for part in (singles[::2], singles[1::2]):
        check_all("microbit", part)


def small(shapes: Shapes) -> bool:
    return int(np.prod(shapes[1])) < 300


def check(name: str, kinds: list[tuple[str, str]], io_in_pool: bool = True) -> None:
    rng = np.random.default_rng(5)
    check_all(name, [random_op(rng, *kind) for kind in kinds], io_in_pool)


def check_all(name: str, singles: list[SingleOp], io_in_pool: bool = True) -> None:
    graph, values = merged(singles)
    board = load_board(name)
    library = hilc.compile(
        graph, cpu=board.cpu.name, name="operators", pools="external", io_in_pool=io_in_pool
    )
    expected = run_all(graph, values)
    # A state is a sum whose terms may cancel, so that its last bit is that of a term.
    summed = {
        name
        for node, single in zip(graph.nodes, singles, strict=True)
        if single.states
        for name in node.outputs
    }
    with hil.open(board, library) as device:
        model = device["operators"]
        for tensor, value in values.items():
            model.set_input(tensor, value)
        model.run()
        for tensor in graph.outputs:
            result = model.get_output(tensor)
            if result.dtype == np.float32:
                absolute = last_bit(expected[tensor]) if tensor in summed else 1e-30
                np.testing.assert_allclose(
                    result, expected[tensor], RELATIVE, absolute, err_msg=tensor
                )
            else:
                np.testing.assert_array_equal(result, expected[tensor], err_msg=tensor)


def last_bit(values: np.ndarray) -> float:
    return float(np.spacing(np.abs(values).max()))


def test_an_index_outside_fails_one_run():
    x = np.arange(12, dtype=np.int32).reshape(4, 3)
    tensors = [Tensor("x", (4, 3), "int32"), Tensor("i", (), "int32"), Tensor("y", (3,), "int32")]
    node = make_node("GATHER", ("x", "i"), ("y",), axis=0, batch_dims=0)
    graph = Graph("rows", {t.name: t for t in tensors}, (node,), ("x", "i"), ("y",))
    board = load_board("mps2-an385")
    with hil.open(board, hilc.compile(graph, cpu=board.cpu.name, name="rows")) as device:
        model = device["rows"]
        model.set_input("x", x)
        for index in (4, -1):
            model.set_input("i", np.array(index, np.int32))
            with pytest.raises(HilError, match="the model returned -1"):
                model.run()
        model.set_input("x", x)
        model.set_input("i", np.array(3, np.int32))
        model.run()
        np.testing.assert_array_equal(model.get_output("y"), x[3])
