"""Normalizations and the softmax family."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from hilc.frontends.onnx.operation import Operation, is_real, translates
from hilc.frontends.onnx.translators.pooling import Side, along_sides, power, root
from hilc.ir import Tensor
from hilc.ops.attributes import ActivationAttributes, ReductionAttributes
from hilc.ops.group_norm import GroupNormAttributes
from hilc.ops.layer_norm import LayerNormAttributes
from hilc.ops.reduce import ArgAttributes
from hilc.ops.softmax import SoftmaxAttributes

_SOFT = {"Softmax": "SOFTMAX", "LogSoftmax": "LOG_SOFTMAX"}
_PLAIN = ActivationAttributes()


@translates(*_SOFT)
def softmax(n: Operation) -> Tensor:
    """Normalize along one axis; before opset 13 along all from it on."""
    x = n.input(0)
    rank = len(x.shape)
    attrs = SoftmaxAttributes(beta=1.0) if n.type == "Softmax" else None
    if n.version < 13:
        axis = n.axis(n.integer("axis", 1), rank)
        flat = n.reshape(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))
        return n.reshape(n.emit(_SOFT[n.type], flat, attrs=attrs), x.shape)
    order = to_the_end(n.axis(n.integer("axis", -1), rank), rank)
    made = n.emit(_SOFT[n.type], n.transpose(x, order), attrs=attrs)
    return n.transpose(made, inverse(order))


def to_the_end(axis: int, rank: int) -> list[int]:
    """Return the permutation that moves an axis to the end."""
    return [i for i in range(rank) if i != axis] + [axis]


def inverse(order: Sequence[int]) -> list[int]:
    """Return the permutation that undoes one."""
    return [int(place) for place in np.argsort(order)]


@translates("Hardmax")
def hardmax(n: Operation) -> Tensor:
    """Return 1 at the first largest element along an axis, and 0 elsewhere."""
    x = n.input(0)
    rank, shape = len(x.shape), x.shape
    if n.version < 13:
        axis = n.axis(n.integer("axis", 1), rank)
        x = n.reshape(x, (prod(shape[:axis]), prod(shape[axis:])))
        axis = 1
    else:
        axis = n.axis(n.integer("axis", -1), rank)
    found = n.emit("ARG_MAX", x, n.constant(axis, "int32"), attrs=ArgAttributes())
    found = n.reshape(found, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
    behind = (1,) * (len(x.shape) - axis - 1)
    places = n.constant(np.arange(x.shape[axis], dtype=np.int32).reshape(-1, *behind))
    return n.reshape(n.cast(n.emit("EQUAL", found, places), x.dtype), shape)


# Means and variances ------------------------------------------------------------------------------


def mean(n: Operation, x: Tensor, axes: Sequence[int]) -> Tensor:
    """Return the means along axes, which stay."""
    attrs = ReductionAttributes(keep_dims=True)
    return n.emit("MEAN", x, n.constant(axes, "int32"), attrs=attrs)


def centered(n: Operation, x: Tensor, axes: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Return x less its mean along the axes, the mean, and the variance."""
    middle = mean(n, x, axes)
    rest = n.emit("SUB", x, middle, attrs=_PLAIN)
    return rest, middle, mean(n, n.emit("MUL", rest, rest, attrs=_PLAIN), axes)


def inverse_deviation(n: Operation, variance: Tensor, epsilon: float) -> Tensor:
    """Return 1 / sqrt(variance + epsilon)."""
    raised = n.emit("ADD", variance, n.constant(epsilon, variance.dtype), attrs=_PLAIN)
    one = n.constant(1, variance.dtype)
    return n.emit("DIV", one, n.emit("SQRT", raised), attrs=_PLAIN)


def along_channels(n: Operation, x: Tensor, rank: int) -> Tensor:
    """Return a tensor of one number a channel so that it is broadcast to ``[N, C, spatial...]``."""
    return n.reshape(x, (x.size, *(1,) * (rank - 2)))


@translates("BatchNormalization")
def batch_normalization(n: Operation) -> list[Tensor | None]:
    """Translate BatchNormalization along axis 1.

    In training mode the outputs are the result, the running mean and the running variance. Raises
    :class:`~hilc.errors.UnsupportedError` for ``spatial=0``.
    """
    x = n.input(0)
    rank, epsilon = len(x.shape), n.number("epsilon", 1e-5)
    scale, bias, middle, variance = (along_channels(n, n.input(i), rank) for i in range(1, 5))
    if not n.integer("training_mode", 0):
        if n.version < 9 and not n.integer("spatial", 1):
            n.refuse("normalizes each place by its own (spatial=0)", "export it with spatial=1")
        return [_normalized(n, x, scale, bias, middle, variance, epsilon)]
    axes = [axis for axis in range(rank) if axis != 1]
    momentum = n.number("momentum", 0.9)
    _, own_mean, own_variance = centered(n, x, axes)
    outputs: list[Tensor | None] = [_normalized(n, x, scale, bias, own_mean, own_variance, epsilon)]
    for old, own in ((middle, own_mean), (variance, own_variance)):
        kept = n.emit("MUL", old, n.constant(momentum, x.dtype), attrs=_PLAIN)
        share = n.reshape(own, old.shape)
        new = n.emit("MUL", share, n.constant(1 - momentum, x.dtype), attrs=_PLAIN)
        outputs.append(n.reshape(n.emit("ADD", kept, new, attrs=_PLAIN), (old.size,)))
    return outputs


def _normalized(
    n: Operation,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    middle: Tensor,
    variance: Tensor,
    epsilon: float,
) -> Tensor:
    """Return ``(x - mean) / sqrt(variance + epsilon) * scale + bias``, by one factor a channel."""
    factor = n.emit("MUL", scale, inverse_deviation(n, variance, epsilon), attrs=_PLAIN)
    if middle.data is not None and factor.data is not None and bias.data is not None:
        shift = n.emit("SUB", bias, n.emit("MUL", middle, factor, attrs=_PLAIN), attrs=_PLAIN)
        return n.emit("ADD", n.emit("MUL", x, factor, attrs=_PLAIN), shift, attrs=_PLAIN)
    rest = n.emit("SUB", x, middle, attrs=_PLAIN)
    return n.emit("ADD", n.emit("MUL", rest, factor, attrs=_PLAIN), bias, attrs=_PLAIN)


@translates("InstanceNormalization")
def instance_normalization(n: Operation) -> Tensor:
    """Translate InstanceNormalization: mean and variance over the spatial axes."""
    x = n.input(0)
    if x.dtype == "float64":
        scale, bias = (along_channels(n, n.input(i), len(x.shape)) for i in (1, 2))
        rest, _, variance = centered(n, x, range(2, len(x.shape)))
        return _scaled(n, rest, variance, n.number("epsilon", 1e-5), scale, bias)
    return _in_groups(n, x.shape[1])


def _in_groups(n: Operation, groups: int) -> Tensor:
    attrs = GroupNormAttributes(groups=groups, epsilon=n.number("epsilon", 1e-5))
    operands = [n.input(0), *(n.reshape(n.input(i), (n.input(i).size,)) for i in (1, 2))]
    return n.emit("GROUP_NORMALIZATION", *operands, attrs=attrs)


def _scaled(
    n: Operation,
    rest: Tensor,
    variance: Tensor,
    epsilon: float,
    scale: Tensor,
    bias: Tensor | None,
) -> Tensor:
    made = n.emit("MUL", rest, inverse_deviation(n, variance, epsilon), attrs=_PLAIN)
    made = n.emit("MUL", made, scale, attrs=_PLAIN)
    return made if bias is None else n.emit("ADD", made, bias, attrs=_PLAIN)


@translates("GroupNormalization")
def group_normalization(n: Operation) -> Tensor:
    """Normalize groups of channels; scale and bias are of each group before opset 21."""
    x, groups = n.input(0), n.integer("num_groups")
    rank = len(x.shape)
    if x.shape[1] % groups:
        n.invalid(f"has {x.shape[1]} channels in {groups} groups")
    if x.dtype != "float64":
        return _in_groups(n, groups)
    each = x.shape[1] // groups
    parted = n.reshape(x, (x.shape[0], groups, prod(x.shape[1:]) // groups))
    rest, _, variance = centered(n, parted, (2,))
    epsilon = n.number("epsilon", 1e-5)
    made = n.emit("MUL", rest, inverse_deviation(n, variance, epsilon), attrs=_PLAIN)
    if n.version < 21:
        scale, bias = (n.reshape(n.input(i), (groups, 1)) for i in (1, 2))
        made = n.emit("MUL", made, scale, attrs=_PLAIN)
        return n.reshape(n.emit("ADD", made, bias, attrs=_PLAIN), x.shape)
    assert each
    scale, bias = (along_channels(n, n.input(i), rank) for i in (1, 2))
    made = n.emit("MUL", n.reshape(made, x.shape), scale, attrs=_PLAIN)
    return n.emit("ADD", made, bias, attrs=_PLAIN)


def _is_fused(n: Operation, x: Tensor) -> bool:
    """Return whether one operator computes all: of float32, by factors for each element of a row,
    and without the statistics as outputs.
    """
    axis = n.axis(n.integer("axis", -1), len(x.shape))
    own = x.shape[axis:]
    fits = all(n.input(i).shape == own for i in (1, 2) if n.has(i))
    return x.element.is_computed_real and fits and not any(n.output_names[1:])


def _in_one(n: Operation, x: Tensor, centered: bool) -> Tensor:
    size = n.input(1).size
    parts = [n.reshape(n.input(i), (size,)) for i in (1, 2) if n.has(i)]
    attrs = LayerNormAttributes(epsilon=n.number("epsilon", 1e-5), centered=centered)
    rows = n.reshape(x, (x.size // size, size))
    return n.reshape(n.emit("LAYER_NORMALIZATION", rows, *parts, attrs=attrs), x.shape)


@translates("LayerNormalization")
def layer_normalization(n: Operation) -> list[Tensor | None]:
    """Translate LayerNormalization; return the result and, if not fused, mean and 1 / deviation.

    Raises :class:`~hilc.errors.UnsupportedError` if the input is not float32.
    """
    x = n.input(0)
    if not is_real(x):
        n.refuse(f"normalizes {x.dtype}", "float32 is supported")
    if _is_fused(n, x):
        return [_in_one(n, x, centered=True)]
    axes = range(n.axis(n.integer("axis", -1), len(x.shape)), len(x.shape))
    rest, middle, variance = centered(n, x, axes)
    inverse_ = inverse_deviation(n, variance, n.number("epsilon", 1e-5))
    made = n.emit("MUL", rest, inverse_, attrs=_PLAIN)
    made = n.emit("MUL", made, n.input(1), attrs=_PLAIN)
    if n.has(2):
        made = n.emit("ADD", made, n.input(2), attrs=_PLAIN)
    return [made, middle, inverse_]


@translates("RMSNormalization")
def rms_normalization(n: Operation) -> Tensor:
    """Translate RMSNormalization: x / sqrt(mean(x^2) + epsilon) * scale.

    Raises :class:`~hilc.errors.UnsupportedError` if the input is not float32.
    """
    x = n.input(0)
    if not is_real(x):
        n.refuse(f"normalizes {x.dtype}", "float32 is supported")
    if _is_fused(n, x):
        return _in_one(n, x, centered=False)
    axes = range(n.axis(n.integer("axis", -1), len(x.shape)), len(x.shape))
    square = mean(n, n.emit("MUL", x, x, attrs=_PLAIN), axes)
    inverse_ = inverse_deviation(n, square, n.number("epsilon", 1e-5))
    made = n.emit("MUL", x, inverse_, attrs=_PLAIN)
    return n.emit("MUL", made, n.input(1), attrs=_PLAIN)


@translates("LpNormalization")
def lp_normalization(n: Operation) -> Tensor:
    """Translate LpNormalization: divide by the norm along an axis; a norm of 0 gives 0."""
    x, p = n.input(0), n.integer("p", 2)
    axis = n.axis(n.integer("axis", -1), len(x.shape))
    attrs = ReductionAttributes(keep_dims=True)
    total = n.emit("SUM", power(n, x, p), n.constant([axis], "int32"), attrs=attrs)
    norm = root(n, total, p)
    none = n.emit("EQUAL", norm, n.constant(0, x.dtype))
    divisor = n.emit("SELECT_V2", none, n.constant(1, x.dtype), norm)
    return n.emit("DIV", x, divisor, attrs=_PLAIN)


@translates("LRN")
def local_response(n: Operation) -> Tensor:
    """Divide by a power of the sum of squares of the channels around each."""
    x, size = n.input(0), n.integer("size")
    squares = n.emit("MUL", x, x, attrs=_PLAIN)
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    side = Side(x.shape[1], size, 1, 1, before, after, after)
    # The channels are the one axis that the window slides along.
    moved = n.reshape(squares, (1, x.shape[0], x.shape[1], prod(x.shape[2:])))
    total = n.reshape(along_sides(n, moved, [side], "ADD", 0), x.shape)
    factor = n.constant(n.number("alpha", 1e-4) / size, x.dtype)
    scaled = n.emit("MUL", total, factor, attrs=_PLAIN)
    raised = n.emit("ADD", scaled, n.constant(n.number("bias", 1.0), x.dtype), attrs=_PLAIN)
    divisor = n.emit("POW", raised, n.constant(n.number("beta", 0.75), x.dtype))
    return n.emit("DIV", x, divisor, attrs=_PLAIN)
