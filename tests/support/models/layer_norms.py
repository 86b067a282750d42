"""LAYER_NORMALIZATION of random sizes and quantizations."""

from __future__ import annotations

import numpy as np
from single_op import SingleOp

from hilc.ir import Node, Quant, Rounding, Tensor
from hilc.ops.layer_norm import LayerNormAttributes


def layer_norm(rng: np.random.Generator, dtype: str, depth: int = 0, rows: int = 0) -> SingleOp:
    """A layer; of int8 rows some are constant, so that only epsilon is left of their deviation."""
    depth = depth or int(rng.integers(1, 70))
    shape = (rows or int(rng.integers(1, 4)), depth)
    centered, shifted = (bool(n) for n in rng.integers(0, 2, 2))
    factors, addends = (rng.normal(size=depth).astype(np.float32) for _ in range(2))
    attrs = LayerNormAttributes(
        epsilon=float(rng.choice([0.0, 1e-5, 0.1])) if dtype == "int8" else 1e-5, centered=centered
    )
    given = [Tensor("w", (depth,), "float32", data=factors)]
    values = [factors]
    if shifted:
        given.append(Tensor("b", (depth,), "float32", data=addends))
        values.append(addends)
    if dtype == "float32":
        x = Tensor("x", shape, dtype)
        data = rng.normal(size=shape).astype(np.float32)
        node = Node("LAYER_NORMALIZATION", tuple(t.name for t in (x, *given)), ("y",), attrs)
        return SingleOp(node, (x, *given), (Tensor("y", shape, dtype),), (data, *values))
    quants = [
        Quant((float(2.0 ** rng.uniform(-9, 0)),), (int(rng.integers(-128, 128)),))
        for _ in range(2)
    ]
    x = Tensor("x", shape, dtype, quants[0])
    data = rng.integers(-128, 128, shape, np.int8)
    data[0] = rng.choice(np.array([-128, 3, 127], np.int8))
    node = Node(
        "LAYER_NORMALIZATION",
        tuple(t.name for t in (x, *given)),
        ("y",),
        attrs,
        rounding=Rounding.NEAREST_EVEN,
    )
    return SingleOp(node, (x, *given), (Tensor("y", shape, dtype, quants[1]),), (data, *values))
