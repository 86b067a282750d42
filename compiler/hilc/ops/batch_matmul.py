"""BATCH_MATMUL: products of matrices, the last two axes of both inputs; those before broadcast.

Either input may be a constant. Sums of int8 have 32 bits and are rounded as the node says; those of
int16 have 64 bits and are rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hilc.ir import Array, Attributes, Node, Numerics, Rounding, Tensor
from hilc.numerics.floats import multiply_add
from hilc.numerics.requantize import SUMS, FixedPoint, requantize
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import (
    invalid,
    operand,
    quantization,
    require_counts,
    require_dtype,
    require_rounding,
    require_symmetric,
    sum_multiplier,
    unsupported,
)
from hilc.ops.traits import IntegerOperands


@dataclass(frozen=True, kw_only=True)
class BatchMatmulAttributes(Attributes):
    """Attributes of BATCH_MATMUL."""

    #: Whether the first input's matrices are transposed.
    adj_x: bool = False
    #: Whether the second input's matrices are transposed.
    adj_y: bool = False


@dataclass(frozen=True)
class Product:
    """Sizes of a product of matrices."""

    #: Broadcast shape of the batch axes.
    batch: tuple[int, ...]
    rows: int
    depth: int
    columns: int


def product(node: Node, ins: Sequence[Tensor | None]) -> Product:
    """Return the sizes, checked."""
    require_counts(node, inputs=2)
    attributes = BatchMatmulAttributes.of(node)
    a, b = operand(node, ins, 0), operand(node, ins, 1)
    require_dtype(node, a)
    if a.dtype != b.dtype:
        unsupported(
            node,
            f"multiplies {a.dtype} with {b.dtype}; both must be of one type",
            "convert the model with full integer quantization, or leave both in float32",
        )
    for tensor in (a, b):
        if len(tensor.shape) < 2:
            invalid(node, f"has the input {tensor.name!r} of shape {list(tensor.shape)}, no matrix")
        if tensor.element.quantized:
            require_symmetric(node, tensor)
    rows, depth = a.shape[-2:][:: -1 if attributes.adj_x else 1]
    other, columns = b.shape[-2:][:: -1 if attributes.adj_y else 1]
    if depth != other:
        invalid(node, f"multiplies rows of {depth} elements with columns of {other}")
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        invalid(node, f"has inputs of shapes {list(a.shape)} and {list(b.shape)}")
    if a.element.quantized:
        largest = depth * _largest(node, a) * _largest(node, b)
        if largest >= SUMS[sums_of(a)].limit:
            unsupported(
                node,
                f"has sums that reach {largest}, beyond {SUMS[sums_of(a)].limit.bit_length()} bits",
                "multiply shorter rows, and add the products",
            )
    return Product(tuple(batch), rows, depth, columns)


def _largest(node: Node, tensor: Tensor) -> int:
    zero_point = quantization(node, tensor)[1]
    low, high = tensor.element.bounds
    return max(high - zero_point, zero_point - low)


def sums_of(tensor: Tensor) -> str:
    """Return the type that sums of products are kept in."""
    return tensor.element.biases[0]


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    sizes = product(node, ins)
    return [((*sizes.batch, sizes.rows, sizes.columns), operand(node, ins, 0).dtype)]


def scale(node: Node, ins: Sequence[Tensor | None], out: Tensor) -> FixedPoint:
    """Return the factor from sums to outputs."""
    a, b = operand(node, ins, 0), operand(node, ins, 1)
    a_scale, b_scale = quantization(node, a)[0], quantization(node, b)[0]
    factor = a_scale * b_scale
    if node.numerics is Numerics.LITERT:
        with np.errstate(over="ignore"):
            factor = float(np.float32(a_scale) * np.float32(b_scale))
    return sum_multiplier(node, factor / quantization(node, out)[0], sums_of(a))


def _by_numerics(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]
) -> FixedPoint | None:
    return scale(node, ins, outs[0]) if outs[0].element.quantized else None


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    a = operand(node, ins, 0)
    if not a.element.quantized:
        return
    require_symmetric(node, outs[0])
    require_rounding(node, sums_of(a))
    scale(node, ins, outs[0])


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    sizes, attributes, out = product(node, ins), BatchMatmulAttributes.of(node), outs[0]
    x, y = values
    assert x is not None
    assert y is not None
    x = x.swapaxes(-1, -2) if attributes.adj_x else x
    y = y.swapaxes(-1, -2) if attributes.adj_y else y
    if not out.element.quantized:
        # In the order in which the reference adds.
        sums = np.zeros(out.shape, np.float32)
        for k in range(sizes.depth):
            rows, columns = x[..., k, np.newaxis], y[..., k, np.newaxis, :]
            sums = multiply_add(sums, rows, columns, node.rounding)
        return [sums]
    a, b = operand(node, ins, 0), operand(node, ins, 1)
    # Sums below 2^53, which is all that are accepted, are exact in double.
    left = x.astype(np.float64) - quantization(node, a)[1]
    right = y.astype(np.float64) - quantization(node, b)[1]
    exact = (left @ right).astype(np.int64)
    scaled = requantize(exact, *scale(node, ins, out), node.rounding, sums_of(a))
    results = np.clip(scaled + quantization(node, out)[1], *out.element.bounds)
    return [results.astype(out.dtype)]


def _depth(node: Node, ins: Sequence[Tensor | None]) -> int:
    """Return the number of columns of the left matrix."""
    return operand(node, ins, 0).shape[-2 if BatchMatmulAttributes.of(node).adj_x else -1]


BATCH_MATMUL = OpDef(
    _infer,
    _reference,
    _check,
    attributes=BatchMatmulAttributes,
    vector_floats=lambda node, ins: True,
    integer_form=IntegerOperands(),
    sum_depth=_depth,
    roundings=frozenset(Rounding),
    by_numerics=_by_numerics,
)

OPERATORS: Mapping[str, OpDef] = {
    "BATCH_MATMUL": BATCH_MATMUL,
}
