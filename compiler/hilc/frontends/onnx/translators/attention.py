"""Attention, kept whole until here: shapes are static, so masks by position are constants."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from hilc.frontends.onnx.operation import Operation, translates
from hilc.frontends.onnx.translators.matmul import by_rows
from hilc.ir import Array, Tensor
from hilc.ops.attributes import ReductionAttributes

#: The positions of the inputs.
_Q, _K, _V, _MASK, _PAST_KEY, _PAST_VALUE, _LENGTHS = range(7)
#: Content of the fourth output: products, with the soft cap, with the mask too, or the weights.
_PRODUCTS, _CAPPED, _MASKED, _WEIGHTS = range(4)
_MINUS_INFINITY = np.float32(-np.inf)


@translates("Attention")
def attention(n: Operation) -> list[Tensor | None]:
    """Return the values weighted by how well keys fit queries, and the keys and values so far."""
    q, k, v = (_heads(n, index) for index in (_Q, _K, _V))
    past = n.input(_PAST_KEY).shape[2] if n.has(_PAST_KEY) else 0
    if n.has(_PAST_KEY):
        (k,) = n.run("Concat", [n.input(_PAST_KEY), k], axis=2)
        (v,) = n.run("Concat", [n.input(_PAST_VALUE), v], axis=2)
    keys, values = k, v
    batch, heads, length, _ = q.shape
    # Queries that share a head of keys are rows of one matrix.
    repeats, rest = divmod(heads, k.shape[1])
    if rest:
        n.invalid(f"has {heads} heads of queries for {k.shape[1]} of keys")
    together = (batch, k.shape[1], repeats * length)
    scale = n.number("scale", 0.0) or 1 / sqrt(q.shape[3])
    # ONNX scales both operands by the root; there may be many more keys than queries.
    rows = n.reshape(n.single("Mul", q, n.constant(scale, q.dtype)), (*together, q.shape[3]))
    scores = n.reshape(by_rows(n, rows, k), (batch, heads, length, k.shape[2]))
    shown = {_PRODUCTS: scores}
    if cap := n.number("softcap", 0.0):
        factor = n.constant(cap, scores.dtype)
        scores = n.single("Mul", n.single("Tanh", n.single("Div", scores, factor)), factor)
    shown[_CAPPED] = scores
    bias = _bias(n, q, k.shape[2], past)
    if bias is not None:
        scores = n.single("Add", scores, bias)
    shown[_MASKED] = scores
    weights = n.single("Softmax", scores, axis=-1)
    y = n.single("MatMul", n.reshape(weights, (*together, k.shape[2])), v)
    y = n.reshape(y, (batch, heads, length, v.shape[3]))
    hidden = _hidden(n, bias)
    if hidden is not None:
        y = n.single("Where", hidden, n.constant(0, y.dtype), y)
    if len(n.input(_Q).shape) == 3:
        y = n.reshape(n.transpose(y, (0, 2, 1, 3)), (batch, length, heads * v.shape[3]))
    mode = n.integer("qk_matmul_output_mode", 0)
    if mode == _WEIGHTS:
        zero = n.constant(0, weights.dtype)
        shown[_WEIGHTS] = weights if hidden is None else n.single("Where", hidden, zero, weights)
    return [y, keys, values, shown.get(mode)]


def _heads(n: Operation, index: int) -> Tensor:
    """Return an operand as ``[batch, heads, length, size]``."""
    x = n.input(index)
    if len(x.shape) == 4:
        return x
    heads = n.integer("q_num_heads" if index == _Q else "kv_num_heads")
    batch, length, width = x.shape
    if heads < 1 or width % heads:
        n.invalid(f"divides {width} elements among {heads} heads")
    return n.transpose(n.reshape(x, (batch, length, heads, width // heads)), (0, 2, 1, 3))


# Masks --------------------------------------------------------------------------------------------


def _bias(n: Operation, q: Tensor, keys: int, past: int) -> Tensor | None:
    """Return the addend of the scores: minus infinity where a query must not attend to a key."""
    batch, _, length, _ = q.shape
    mask = _mask(n, q.dtype, keys)
    offsets = np.full(1, past)
    padding: Array | None = None
    if n.has(_LENGTHS):
        lengths = n.known(_LENGTHS, "the lengths of the sequences").reshape(-1)
        offsets = lengths - length
        padding = np.arange(keys) < lengths.reshape(-1, 1, 1, 1)
    # How far a key lies behind the query that looks at it, negative for one that comes later.
    behind = np.arange(length).reshape(-1, 1) + offsets.reshape(-1, 1, 1, 1) - np.arange(keys)
    allowed = np.ones_like(behind, bool)
    if n.integer("is_causal", 0):
        allowed &= behind >= 0
    left, right = (n.integer(f"{side}_window_size", -1) for side in ("left", "right"))
    if left >= 0:
        allowed &= behind <= left
    if right >= 0:
        allowed &= -behind <= right
    if padding is not None:
        allowed = allowed & padding
    if allowed.all():
        return mask
    by_place = n.constant(np.where(allowed, np.float32(0), _MINUS_INFINITY).astype(q.dtype))
    return by_place if mask is None else n.single("Add", mask, by_place)


def _mask(n: Operation, dtype: str, keys: int) -> Tensor | None:
    """Return the operand that is added to scores, as wide as there are keys."""
    if not n.has(_MASK):
        return None
    mask = n.input(_MASK)
    if mask.dtype == "bool":
        choices = (n.constant(value, dtype) for value in (0, _MINUS_INFINITY))
        mask = n.single("Where", mask, *choices)
    missing = keys - mask.shape[-1]
    if missing > 0:
        rest = np.full((*mask.shape[:-1], missing), _MINUS_INFINITY, dtype)
        mask = n.single("Concat", mask, n.constant(rest), axis=-1)
    return mask


def _hidden(n: Operation, bias: Tensor | None) -> Tensor | None:
    """Return which queries may see no key, ``[..., length, 1]``: their weights are zero. None where
    all see one.
    """
    if bias is None or (bias.data is not None and not _hides_all(bias.data).any()):
        return None
    each = n.single("Equal", bias, n.constant(_MINUS_INFINITY, bias.dtype))
    axis = n.constant((len(bias.shape) - 1,), "int32")
    return n.emit("REDUCE_ALL", each, axis, attrs=ReductionAttributes(keep_dims=True))


def _hides_all(bias: Array) -> Array:
    hidden: Array = np.isneginf(bias.max(axis=-1))
    return hidden


# Positions ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rotation:
    """Cosines and sines, ``[batch or 1, length, 1, pairs]``."""

    cosine: Tensor
    sine: Tensor


@translates("RotaryEmbedding")
def rotary_embedding(n: Operation) -> Tensor:
    """Rotate pairs of elements by angles that depend on the position."""
    x = n.input(0)
    is_split = len(x.shape) == 4
    if is_split:
        rows = n.transpose(x, (0, 2, 1, 3))
    else:
        batch, length, width = x.shape
        heads = n.integer("num_heads", 0)
        if heads < 1 or width % heads:
            n.invalid(f"divides {width} elements among {heads} heads")
        rows = n.reshape(x, (batch, length, heads, width // heads))
    size = rows.shape[3]
    rotated = n.integer("rotary_embedding_dim", 0) or size
    part, rest = _parts(n, rows, rotated)
    made = _rotated(n, part, _rotation(n, rotated // 2))
    if rest is not None:
        made = n.single("Concat", made, rest, axis=-1)
    return n.transpose(made, (0, 2, 1, 3)) if is_split else n.reshape(made, x.shape)


def _parts(n: Operation, x: Tensor, first: int) -> tuple[Tensor, Tensor | None]:
    """Return the first elements of the last axis, and the rest."""
    rest = x.shape[-1] - first
    if not rest:
        return x, None
    sizes = n.constant((first, rest), "int64")
    one, two = n.run("Split", [x, sizes], axis=-1)[:2]
    return one, two


def _rotation(n: Operation, pairs: int) -> _Rotation:
    tables = [n.input(1), n.input(2)]
    if n.has(3):
        tables = [n.single("Gather", table, n.input(3), axis=0) for table in tables]
    for table in tables:
        if table.shape[-1] != pairs:
            n.invalid(f"has {table.shape[-1]} angles for {pairs} pairs")
    cosine, sine = (n.reshape(t, (*t.shape[:-1], 1, pairs)) for t in tables)
    return _Rotation(cosine, sine)


def _rotated(n: Operation, x: Tensor, by: _Rotation) -> Tensor:
    shape, pairs = x.shape, x.shape[-1] // 2
    # Pairs lie next to each other, or as far apart as there are pairs.
    if n.integer("interleaved", 0):
        split, axis = n.reshape(x, (*shape[:-1], pairs, 2)), -1
    else:
        split, axis = n.reshape(x, (*shape[:-1], 2, pairs)), -2
    one = n.constant((1, 1), "int64")
    halves = n.run("Split", [split, one], axis=axis)[:2]
    first, second = (n.reshape(half, (*shape[:-1], pairs)) for half in halves)
    real = n.single("Sub", n.single("Mul", by.cosine, first), n.single("Mul", by.sine, second))
    imaginary = n.single("Add", n.single("Mul", by.sine, first), n.single("Mul", by.cosine, second))
    single = split.shape[:-2] + ((pairs, 1) if axis == -1 else (1, pairs))
    joined = [n.reshape(half, single) for half in (real, imaginary)]
    return n.reshape(n.single("Concat", *joined, axis=axis), shape)
