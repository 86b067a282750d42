"""Products of matrices."""

from __future__ import annotations

import numpy as np

from hilc.frontends.onnx.operation import Operation, translates
from hilc.frontends.onnx.translators.arithmetic import multiply, summed
from hilc.ir import Tensor
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.batch_matmul import BatchMatmulAttributes
from hilc.ops.fully_connected import FullyConnectedAttributes


@translates("MatMul")
def matmul(n: Operation) -> Tensor:
    """Multiply; a vector is a matrix of one row on the left, of one column on the right."""
    return product(n, n.input(0), n.input(1))


def product(n: Operation, a: Tensor, b: Tensor) -> Tensor:
    """Return the product as numpy's ``matmul`` defines it."""
    left, right = len(a.shape) == 1, len(b.shape) == 1
    rows = n.reshape(a, (1, *a.shape)) if left else a
    columns = n.reshape(b, (*b.shape, 1)) if right else b
    made = _matrices(n, rows, columns)
    shape = [
        *made.shape[:-2],
        *(() if left else made.shape[-2:-1]),
        *(() if right else made.shape[-1:]),
    ]
    return n.reshape(made, shape)


def _matrices(n: Operation, a: Tensor, b: Tensor) -> Tensor:
    if a.dtype == "float64":
        # Nothing multiplies matrices of doubles: sums of all products do.
        rows = n.reshape(a, (*a.shape, 1))
        columns = n.reshape(b, (*b.shape[:-2], 1, *b.shape[-2:]))
        return summed(n, multiply(n, rows, columns), max(len(a.shape), len(b.shape)) - 1)
    if b.data is not None and len(b.shape) == 2 and a.data is None:
        attrs = FullyConnectedAttributes(keep_num_dims=True)
        return n.emit("FULLY_CONNECTED", a, n.constant(b.data.T), None, attrs=attrs)
    return n.emit("BATCH_MATMUL", a, b, attrs=BatchMatmulAttributes())


def by_rows(n: Operation, a: Tensor, b: Tensor) -> Tensor:
    """Return the product with the matrices of ``b`` transposed, without moving these."""
    if b.dtype == "float64":
        rank = len(b.shape)
        return _matrices(n, a, n.transpose(b, (*range(rank - 2), rank - 1, rank - 2)))
    return n.emit("BATCH_MATMUL", a, b, attrs=BatchMatmulAttributes(adj_y=True))


@translates("Gemm")
def gemm(n: Operation) -> Tensor:
    """Return ``alpha * A @ B + beta * C``."""
    a, b, c = n.input(0), n.input(1), n.optional(2)
    alpha, beta = n.number("alpha", 1.0), n.number("beta", 1.0)
    if n.integer("transA", 0):
        a = n.transpose(a, (1, 0))
    columns = b.shape[0] if n.integer("transB", 0) else b.shape[1]
    if b.data is not None and a.data is None and (c is None or c.data is not None):
        weights = b.data if n.integer("transB", 0) else b.data.T
        bias = None
        if c is None or c.size in (1, columns) and c.shape[:-1] in ((), (1,)):
            if c is not None:
                assert c.data is not None
                bias = n.constant(
                    np.broadcast_to(np.float32(beta) * c.data.reshape(-1), (columns,)), "float32"
                )
            scaled = n.constant(weights if alpha == 1 else np.float32(alpha) * weights)
            attrs = FullyConnectedAttributes(keep_num_dims=True)
            return n.emit("FULLY_CONNECTED", a, scaled, bias, attrs=attrs)
    if n.integer("transB", 0):
        b = n.transpose(b, (1, 0))
    made = scaled_by(n, n.emit("BATCH_MATMUL", a, b, attrs=BatchMatmulAttributes()), alpha)
    if c is None:
        return made
    return n.emit("ADD", made, scaled_by(n, c, beta), attrs=ActivationAttributes())


def scaled_by(n: Operation, x: Tensor, factor: float) -> Tensor:
    """Return a tensor times a number."""
    if factor == 1:
        return x
    return n.emit("MUL", x, n.constant(factor, x.dtype), attrs=ActivationAttributes())
