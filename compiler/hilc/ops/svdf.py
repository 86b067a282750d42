"""SVDF: a layer that is applied to the last inputs, by weights of each moment, as one of low rank.

Each filter makes one number of an input, its feature, and keeps those of the last ``memory``
inputs, the newest last. Their sum by weights is what the filter adds to its unit; the filters of a
unit follow each other.

Inputs: the input ``[batch, depth]``, the weights of features ``[filters, depth]``, the weights of
moments ``[filters, memory]``, the bias ``[units]`` (optional for float32), the state
``[batch, filters * memory]``. Outputs: ``[batch, units]``, and the new state.

The arithmetic of int8 is TensorFlow Lite Micro's: a fused activation that says nothing beyond the
output's type, a state of int16 or int8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Attributes, Node, Tensor
from hilc.numerics.floats import clamped
from hilc.numerics.requantize import FixedPoint, Int64Array, requantize
from hilc.ops.attributes import Activation
from hilc.ops.opdef import OpDef, Signature, one_definition
from hilc.ops.operands import (
    ACTIVATION_RANGES,
    invalid,
    multiplier,
    operand,
    quantization,
    require_counts,
    require_dtype,
    require_same_quantization,
    require_tflm,
    unsupported,
)


@dataclass(frozen=True, kw_only=True)
class SvdfAttributes(Attributes):
    """Attributes of SVDF."""

    #: Filters per unit.
    rank: int
    #: Activation; NONE or RELU for int8, whose type clamps the output.
    activation: Activation = "NONE"


@dataclass(frozen=True)
class Sizes:
    """Sizes of an SVDF: batch, input elements, units, rank, and time steps of the memory."""

    batch: int
    depth: int
    units: int
    rank: int
    memory: int

    @property
    def filters(self) -> int:
        """Number of filters: ``rank`` for each unit."""
        return self.units * self.rank


def sizes(node: Node, ins: Sequence[Tensor | None]) -> Sizes:
    """Return the sizes of a node that ``infer`` has accepted."""
    x, features, moments = (operand(node, ins, index) for index in range(3))
    rank = SvdfAttributes.of(node).rank
    return Sizes(x.shape[0], x.shape[1], features.shape[0] // rank, rank, moments.shape[1])


@dataclass(frozen=True)
class Scaling:
    """The factors from one quantization to the next."""

    #: From sums of features to the state.
    feature: FixedPoint
    #: From sums over moments to the output.
    output: FixedPoint


def scaling(node: Node, ins: Sequence[Tensor | None], out: Tensor) -> Scaling:
    """Return the factors of an int8 node."""
    operands = [operand(node, ins, index) for index in (0, 1, 2, 4)]
    x, features, moments, state, y = (quantization(node, tensor)[0] for tensor in (*operands, out))
    return Scaling(multiplier(node, x * features / state), multiplier(node, state * moments / y))


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=5, outputs=2)
    x, features, moments, state = (operand(node, ins, index) for index in (0, 1, 2, 4))
    bias = ins[3]
    require_dtype(node, x, ("int8", "float32"))
    kinds = ("int8",) if x.element.quantized else ("float32",)
    require_dtype(node, features, kinds)
    require_dtype(node, moments, ("int16", "int8") if x.element.quantized else ("float32",))
    require_dtype(node, state, (moments.dtype,))
    for what, tensor in (("weights", features), ("weights", moments), ("bias", bias)):
        if tensor is not None and not tensor.is_constant:
            unsupported(node, f"takes the {what} {tensor.name!r}, which is computed", "")
    if any(len(t.shape) != 2 for t in (x, features, moments, state)):
        shapes = [list(t.shape) for t in (x, features, moments, state)]
        invalid(node, f"takes tensors of the shapes {shapes}; each must have two sides")
    rank = SvdfAttributes.of(node).rank
    filters = features.shape[0]
    if rank < 1 or filters % rank:
        invalid(node, f"has rank {rank}, which does not divide its {filters} filters")
    if features.shape[1] != x.shape[1]:
        invalid(node, f"takes {x.shape[1]} elements, and weights of {features.shape[1]}")
    if moments.shape[0] != filters:
        invalid(node, f"has {filters} filters, and weights of moments for {moments.shape[0]}")
    if state.shape != (x.shape[0], filters * moments.shape[1]):
        invalid(
            node,
            f"has the state {list(state.shape)}, which must be "
            f"{[x.shape[0], filters * moments.shape[1]]}",
        )
    units = filters // rank
    if bias is None and x.element.quantized:
        invalid(node, "lacks a bias, which int8 layers have")
    if bias is not None:
        require_dtype(node, bias, ("int32",) if x.element.quantized else ("float32",))
        if bias.shape != (units,):
            invalid(node, f"has a bias of shape {list(bias.shape)} for {units} units")
    if x.element.quantized:
        for tensor in (features, moments):
            if quantization(node, tensor)[1] != 0:
                unsupported(
                    node,
                    f"takes the weights {tensor.name!r} with zero point "
                    f"{quantization(node, tensor)[1]}",
                    "quantize weights symmetrically, with zero point 0",
                )
        if SvdfAttributes.of(node).activation not in ("NONE", "RELU"):
            unsupported(
                node,
                f"has the fused activation {SvdfAttributes.of(node).activation}, which no "
                "reference applies to int8",
                "supported are NONE and RELU",
            )
    return [((x.shape[0], units), x.dtype), (state.shape, state.dtype)]


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    state = operand(node, ins, 4)
    require_same_quantization(node, state, outs[1])
    if state.element.itemsize == 1:
        require_tflm(node, "keeps a state of int8")
    if operand(node, ins, 0).element.quantized:
        scaling(node, ins, outs[0])


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x, features, moments, bias, state = values
    assert x is not None
    assert features is not None
    assert moments is not None
    assert state is not None
    n = sizes(node, ins)
    kept = state.reshape(n.batch, n.filters, n.memory)[:, :, 1:]
    compute = _integer if operand(node, ins, 0).element.quantized else _float
    y, newest = compute(node, ins, outs, n, x, features, moments, bias, kept)
    new_state = np.concatenate([kept, newest[:, :, np.newaxis]], axis=2)
    return [y, new_state.reshape(state.shape)]


def _integer(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    n: Sizes,
    x: Array,
    features: Array,
    moments: Array,
    bias: Array | None,
    kept: Array,
) -> tuple[Array, Array]:
    """Return output and newest features of int8."""
    assert bias is not None
    state, out = outs[1], outs[0]
    factors = scaling(node, ins, out)
    centred = x.astype(np.int64) - quantization(node, operand(node, ins, 0))[1]
    sums = requantize(centred @ features.astype(np.int64).T, *factors.feature)
    zero_point = quantization(node, state)[1]
    newest = (np.clip(sums, *state.element.bounds) + zero_point).astype(state.dtype)
    whole = np.concatenate([kept, newest[:, :, np.newaxis]], axis=2).astype(np.int64) - zero_point
    added = (whole * moments.astype(np.int64)).sum(axis=2)
    total = _wrapped(added.reshape(n.batch, n.units, n.rank).sum(axis=2) + bias)
    scaled = requantize(total, *factors.output) + quantization(node, out)[1]
    return np.clip(scaled, *out.element.bounds).astype(out.dtype), newest


def _float(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    n: Sizes,
    x: Array,
    features: Array,
    moments: Array,
    bias: Array | None,
    kept: Array,
) -> tuple[Array, Array]:
    """Return output and newest features of float32, added up in the order of the reference."""
    newest = in_order(x[:, np.newaxis, :] * features)
    whole = np.concatenate([kept, newest[:, :, np.newaxis]], axis=2)
    added = in_order(whole * moments).reshape(n.batch, n.units, n.rank)
    start = np.zeros((n.batch, n.units, 1), np.float32)
    if bias is not None:
        start += bias[:, np.newaxis]
    total = in_order(np.concatenate([start, added], axis=2))
    return clamped(total, *ACTIVATION_RANGES[SvdfAttributes.of(node).activation]), newest


def in_order(summands: Array) -> Array:
    """Return the sums along the last axis, added one after the other in float32, from 0 on."""
    sums: Array = np.cumsum(summands, axis=-1, dtype=np.float32)[..., -1] + np.float32(0)
    return sums


def _wrapped(sums: Int64Array) -> Int64Array:
    """Return sums wrapped to 32 bits."""
    held: npt.NDArray[np.int32] = sums.astype(np.int32)
    return held.astype(np.int64)


SVDF = OpDef(
    _infer,
    _reference,
    _check,
    attributes=SvdfAttributes,
    by_numerics=one_definition(_check),
)

OPERATORS: Mapping[str, OpDef] = {
    "SVDF": SVDF,
}
