"""Every operator through the whole compiler: generated C on the host against the interpreter."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from campaigns import sampled
from random_graphs import GraphBuilder
from single_op import KINDS, SIGNAL_DTYPES, merged, random_op

import hilc
from hilc import host
from hilc.interpreter import run_all
from hilc.ir import Graph

#: It changes rarely, and takes long.
pytestmark = pytest.mark.full

RELATIVE = 2e-6


#: Goals, whether inputs and outputs are planned, and which of the operators are taken: with those
#: of all in use at once, planning takes most of the time.
DRAWS = [
    (optimize, io_in_pool, every)
    for optimize in ("balanced", "size")
    for io_in_pool, every in ((False, 1), (True, 8), (True, 1))
]
KEPT = [draw for draw in DRAWS if draw[1:] != (True, 1)]


@pytest.mark.parametrize(("optimize", "io_in_pool", "every"), sampled(DRAWS, keep=KEPT))
def test_all_operators_in_one_model(optimize, io_in_pool, every):
    rng = np.random.default_rng(zlib.crc32(f"{optimize} {io_in_pool}".encode()))
    dtypes = ("int8", "float32", "int32", "uint32", "uint64", "bool")
    singles = [
        random_op(rng, *kind) for kind in KINDS if kind[1] in dtypes or kind[0] in SIGNAL_DTYPES
    ]
    graph, values = merged(singles[::every])
    library = hilc.compile(graph, optimize=optimize, io_in_pool=io_in_pool)
    expected = run_all(graph, values)
    with host.load(library) as model:
        for name, value in values.items():
            model.set_input(name, value)
        model.run()
        for name in graph.outputs:
            result = model.get_output(name)
            if result.dtype == np.float32:
                np.testing.assert_allclose(result, expected[name], RELATIVE, 1e-30, err_msg=name)
            else:
                np.testing.assert_array_equal(result, expected[name], err_msg=name)


#: Operators that keep the shape and the quantization of their int8 operands, by their number.
_ELEMENTWISE = {
    1: ("ABS", "ELU", "GELU", "RELU_N1_TO_1", "RELU"),
    2: ("ADD", "DIV", "MAXIMUM", "MINIMUM", "MUL", "SQUARED_DIFFERENCE"),
}
_COMPARISONS = ("EQUAL", "LESS", "GREATER_EQUAL")


def _chain(seed: int) -> Graph:
    """Convolutions with operators on elements between them, joined by selections."""
    builder = GraphBuilder(seed)
    rng = builder.rng
    image = builder.input(1, 6, 5, 4)
    live = [builder.conv(image, 4), builder.depthwise(image)]
    for _ in range(8):
        a, b = (str(name) for name in rng.choice(live, 2))
        if rng.random() < 0.3:
            shape = (1, 6, 5, 4) if rng.random() < 0.3 else (4,) if rng.random() < 0.5 else ()
            b = builder.constant(*shape)
        match int(rng.integers(4)):
            case 0:
                op = str(rng.choice(_ELEMENTWISE[1]))
                attrs = {"approximate": False} if op == "GELU" else {}
                live.append(builder.op(op, a, **attrs))
            case 1 | 2:
                live.append(builder.op(str(rng.choice(_ELEMENTWISE[2])), a, b))
            case _:
                condition = builder.op(str(rng.choice(_COMPARISONS)), a, b)
                if rng.random() < 0.3:
                    condition = builder.op("LOGICAL_NOT", condition)
                live.append(builder.op("SELECT_V2", condition, a, b))
    return builder.graph(builder.conv(live[-1], 3), live[-2])


@pytest.mark.parametrize("seed", range(5))
def test_chains_of_operators_on_elements(seed):
    """What passes make of them by their traits: fused, in place, and with constant channels."""
    graph = _chain(seed)
    rng = np.random.default_rng(seed)
    values = {n: rng.integers(-128, 128, graph.tensors[n].shape, np.int8) for n in graph.inputs}
    expected = run_all(graph, values)
    for optimize in ("balanced", "ram"):
        library = hilc.compile(graph, optimize=optimize, io_in_pool=True)
        with host.load(library) as model:
            for name, value in values.items():
                model.set_input(name, value)
            model.run()
            for name in graph.outputs:
                np.testing.assert_array_equal(model.get_output(name), expected[name])
