"""Traits of operators, for the passes.

An operator states its traits in its :class:`~hilc.ops.opdef.OpDef`; no pass knows operators by
their names. Where a trait is not stated, the passes leave the operator as it is: it is not cut into
rows, its channels stay whole, its outputs may have every value of their type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from hilc.ir import ELEMENT_TYPES, Array, Attributes, Node, Tensor
from hilc.ops.geometry import Window

Ins = Sequence[Tensor | None]
Outs = Sequence[Tensor]


def always(node: Node, ins: Ins) -> bool:
    """Return True: a trait of every node of an operator."""
    return True


# Bounds -----------------------------------------------------------------------------------------

#: The types of tensors that have intervals: those that a table of all values is made of.
BOUNDED = tuple(name for name, row in ELEMENT_TYPES.items() if row.tabled)


class Interval(NamedTuple):
    """The least and the largest value of each element of a tensor, both of its shape and type."""

    low: Array
    high: Array


def any_value(tensor: Tensor) -> Interval:
    """Return every value of the tensor's type."""
    return Interval(
        *(
            np.broadcast_to(np.array(end, tensor.dtype), tensor.shape)
            for end in tensor.element.bounds
        )
    )


class Reference(Protocol):
    """An operator in numpy: node, inputs, outputs, the inputs' values; the outputs' values."""

    def __call__(
        self, node: Node, ins: Ins, outs: Outs, values: Sequence[Array | None], /
    ) -> list[Array]: ...


#: The intervals of a node's outputs: its reference, the node, inputs, outputs, the inputs'
#: intervals. Asked where each input has an interval or is constant.
Bounds = Callable[
    [Reference, Node, Ins, Outs, Sequence[Interval | None]],
    Sequence[Interval],
]


def ascending(
    reference: Reference, node: Node, ins: Ins, outs: Outs, values: Sequence[Interval | None]
) -> list[Interval]:
    """Return the bounds of an operator that is monotone: no output falls where an input rises."""
    lows, highs = (
        reference(node, ins, outs, [value and value[end] for value in values]) for end in (0, 1)
    )
    return [Interval(low, high) for low, high in zip(lows, highs, strict=True)]


def corners(
    reference: Reference, node: Node, ins: Ins, outs: Outs, values: Sequence[Interval | None]
) -> list[Interval]:
    """Return the bounds of an operator of two inputs, monotone in each (up or down), given the
    other.
    """
    a, b = values
    assert a is not None
    assert b is not None
    results = [reference(node, ins, outs, ends)[0] for ends in product(a, b)]
    return [Interval(np.minimum.reduce(results), np.maximum.reduce(results))]


def mapped(
    reference: Reference, node: Node, ins: Ins, outs: Outs, values: Sequence[Interval | None]
) -> list[Interval]:
    """Return the bounds of an elementwise operator of one input: of the image of an interval."""
    source, out, interval = ins[0], outs[0], values[0]
    assert source is not None
    assert interval is not None
    if source.dtype not in BOUNDED:
        return [any_value(out)]
    every = np.array(source.element.values, source.dtype)
    line = Tensor("every value", every.shape, source.dtype, source.quant)
    result = Tensor("its result", every.shape, out.dtype, out.quant)
    table = reference(node, [line], [result], [every])[0]
    # Row i: the least and the largest from element i on.
    least, largest = (np.tile(table, (every.size, 1)) for _ in range(2))
    below = np.tri(every.size, k=-1, dtype=bool)
    least[below], largest[below] = out.element.bounds[::-1]
    first = source.element.bounds[0]
    ends = interval.low.astype(np.int64) - first, interval.high.astype(np.int64) - first
    return [
        Interval(
            np.minimum.accumulate(least, axis=1)[ends], np.maximum.accumulate(largest, axis=1)[ends]
        )
    ]


# Rows -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SameRows:
    """Each output row depends on the row of the first input with the same index."""


@dataclass(frozen=True)
class BroadcastRows:
    """Each output row depends on the rows of all inputs with the same index; a constant may have
    one row, which is broadcast.
    """


@dataclass(frozen=True)
class WindowRows:
    """Each row of the output is made of the rows of the first input under a window.

    The operator takes explicit padding in its attribute ``padding``: (top, bottom, left, right).
    """

    window: Callable[[Node, Ins], Window]


@dataclass(frozen=True)
class RowRange:
    """Some rows of an output, and the rows of an input that they are made of."""

    #: First row of the output, and number of rows.
    first: int
    count: int
    #: The first row of the input.
    before: int


@dataclass(frozen=True)
class SampledRows:
    """Each output row depends on input rows at computed positions."""

    #: The first and the last input row of each output row, neither of which falls from row to row;
    #: none where some rows are made of no input row.
    places: Callable[[Node, Ins], Sequence[tuple[int, int]]]
    #: The node that computes some rows; the image that it is given has the rows of these only. It
    #: is the same wherever the rows lie equally with regard to ``period``.
    part: Callable[[Node, Ins, RowRange], Node]
    #: Period of the positions, except at the image's borders: output rows, and input rows; None
    #: without a period.
    period: Callable[[Node], tuple[int, int]] | None = None
    #: The position of the image among the inputs.
    image: int = 0


#: Relation of output rows to input rows of an operator on images (NHWC, a batch of 1).
Rows = SameRows | BroadcastRows | WindowRows | SampledRows

# Integers -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WeightedSums:
    """The integer form sums products of one operand with constant integer weights.

    The weights keep a scale for each output channel, or one for all, and no zero point; the bias
    becomes an integer at the scale of the products.
    """

    #: The axis of the weights along which the output's channels lie.
    channel_axis: int
    #: Positions of the operands.
    image: int = 0
    weights: int = 1
    bias: int = 2


@dataclass(frozen=True)
class IntegerOperands:
    """The integer form takes the integers of all real operands, also of constant ones."""

    #: Whether constant operands without integers may stay float32.
    float_constants: bool = False


@dataclass(frozen=True)
class IntegerInput:
    """The integer form takes the integers of the first operand; the others stay float32
    constants.
    """


@dataclass(frozen=True)
class SharedQuantization:
    """The integer form moves elements, so all real operands take the output's quantization."""

    #: The reason why a node has no integer form; None where it has one.
    refusal: Callable[[Node], str | None]


@dataclass(frozen=True)
class OrderOfOperands:
    """The result is no real number and depends on the order of the operands' elements only, so the
    integer form takes the integers of real operands of one quantization.
    """


#: Integer form of a float operator between DEQUANTIZE and QUANTIZE; that of
#: :class:`OrderOfOperands` is behind DEQUANTIZE alone.
IntegerForm = WeightedSums | IntegerOperands | IntegerInput | SharedQuantization | OrderOfOperands

#: A conversion between integers with a quantization and real numbers.
Conversion = Literal["quantize", "dequantize"]

# Channels ---------------------------------------------------------------------------------------

Indices = npt.NDArray[np.intp]


class ChannelGroup(NamedTuple):
    """Channels of one tensor and channels of another that are removed together, pair by pair."""

    name: str
    channels: Indices
    other: str
    others: Indices


def in_step(x: Tensor, out: Tensor, multiplier: int = 1) -> ChannelGroup:
    """Return the group of each channel of ``x`` with the ``multiplier`` channels of ``out`` that
    are computed from it.
    """
    channels = np.arange(out.shape[-1])
    return ChannelGroup(x.name, channels // multiplier, out.name, channels)


def channelwise(node: Node, ins: Ins, out: Tensor) -> list[ChannelGroup]:
    """Return the group of an operator that computes channel ``i`` of its output from channel ``i``
    of its first input.
    """
    x = ins[0]
    assert x is not None
    return [in_step(x, out)]


@dataclass(frozen=True)
class Weights:
    """An operator with constant weights as input 1 and, where it has one, a bias as input 2."""

    #: The axis of the weights along which the output's channels lie.
    channel_axis: int
    #: Whether each output sums over all channels of the input, the last axis of the weights.
    sums: bool
    #: The number of channels stays a multiple of this when some are removed.
    block: int = 1
    #: Whether one scale for all channels means another rounding than one each.
    one_scale_differs: bool = False
    #: Whether positions outside the image, which hold the zero point, take part in a sum.
    padded: Callable[[Node, Ins], bool] = lambda node, ins: False


@dataclass(frozen=True)
class FewerChannels:
    """Attributes and constants of a node after channels of its output have been removed."""

    attrs: Attributes
    #: New values of constant inputs, by their position.
    operands: Mapping[int, Array] = field(default_factory=dict)
