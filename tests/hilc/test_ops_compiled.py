"""Every operator through the whole compiler: generated C on the host against the interpreter."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from single_op import KINDS, merged, random_op

import hilc
from hilc import host
from hilc.interpreter import run_all

RELATIVE = 2e-6


@pytest.mark.parametrize("optimize", ["balanced", "size"])
@pytest.mark.parametrize("io_in_pool", [False, True])
def test_all_operators_in_one_model(optimize, io_in_pool):
    rng = np.random.default_rng(zlib.crc32(f"{optimize} {io_in_pool}".encode()))
    dtypes = ("int8", "float32", "int32", "bool")
    singles = [random_op(rng, *kind) for kind in KINDS if kind[1] in dtypes]
    graph, values = merged(singles)
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
