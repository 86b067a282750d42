"""Rewriting of operators for operands with permuted axes.

``order`` says which axis of the operand at hand each axis of the node's own operand is: the node's
operand is ``transpose(at hand, order)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hilc.ir import Array, Attributes, Node, Tensor

Order = tuple[int, ...]
Ins = Sequence[Tensor | None]
Outs = Sequence[Tensor]


@dataclass(frozen=True)
class Permuted:
    """A node on operands at hand."""

    #: Positions of the operands that are at hand in another order.
    moved: tuple[int, ...]
    #: The order of its outputs, for which the same holds.
    order: Order
    attrs: Attributes
    #: New values of constants, by their positions.
    constants: Mapping[int, Array] = field(default_factory=dict)
    #: How many of its outputs are in that order; those behind them are as they are. None: all.
    outputs: int | None = None


#: Returns the node on operands of another order; None where there is none. The operands that it
#: moves are all of the node's own order.
Permute = Callable[[Node, Ins, Outs, Order], Permuted | None]


def elements(node: Node, ins: Ins, outs: Outs, order: Order) -> Permuted | None:
    """Permute an operator on elements, with operands that are broadcast."""
    rank = len(outs[0].shape)
    if len(order) != rank:
        return None
    moved, constants = [], {}
    for position, tensor in enumerate(ins):
        if tensor is None or (tensor.data is not None and tensor.size == 1):
            continue
        if tensor.data is not None:
            constants[position] = _reordered(tensor.data, order)
        elif len(tensor.shape) == rank:
            moved.append(position)
        elif tensor.size != 1:
            return None
    if not moved:
        return None
    return Permuted(tuple(moved), order, node.attrs, constants)


def first_operand(node: Node, ins: Ins, outs: Outs, order: Order) -> Permuted | None:
    """Permute an operator on the elements of its first operand."""
    return Permuted((0,), order, node.attrs)


def joined(node: Node, ins: Ins, outs: Outs, order: Order) -> Permuted | None:
    """Permute an operator that joins its operands along the axis of its attribute ``axis``."""
    constants = {
        position: np.transpose(tensor.data, np.argsort(order))
        for position, tensor in enumerate(ins)
        if tensor is not None and tensor.data is not None
    }
    moved = tuple(position for position in range(len(ins)) if position not in constants)
    axis = node.attrs.axis % len(order)  # type: ignore[attr-defined]
    attrs = replace(node.attrs, axis=order[axis])  # type: ignore[call-arg]
    return Permuted(moved, order, attrs, constants)


def reduced(node: Node, ins: Ins, outs: Outs, order: Order) -> Permuted | None:
    """Permute an operator that reduces the axes of its second operand."""
    axes = _axes(ins[1], order)
    if axes is None:
        return None
    at_hand = [order[axis] for axis in sorted(axes)]
    if at_hand != sorted(at_hand) and outs[0].element.is_real:
        # Floats would be added up in another order.
        return None
    kept = [axis for axis in range(len(order)) if axis not in axes]
    own = [order[axis] for axis in kept]
    behind = tuple(sorted(own).index(axis) for axis in own)
    if len(outs[0].shape) == len(order):
        behind = order
    return Permuted((0,), behind, node.attrs, {1: _listed(ins[1], sorted(at_hand))})


def padded(node: Node, ins: Ins, outs: Outs, order: Order) -> Permuted | None:
    """Permute an operator with a row for each axis in its second operand."""
    rows = ins[1]
    if rows is None or rows.data is None:
        return None
    return Permuted((0,), order, node.attrs, {1: rows.data[np.argsort(order)]})


def reshaped(node: Node, ins: Ins, outs: Outs, order: Order) -> Permuted | None:
    """Reshape without a copy, if the elements are in that order."""
    x = ins[0]
    assert x is not None
    at_hand = [x.shape[place] for place in np.argsort(order)]
    if not keeps_elements(at_hand, order):
        return None
    return Permuted((0,), tuple(range(len(outs[0].shape))), node.attrs)


def keeps_elements(shape: Sequence[int], order: Order) -> bool:
    """Return whether a transpose of a tensor of ``shape`` only moves axes of one element."""
    return (moved := [axis for axis in order if shape[axis] != 1]) == sorted(moved)


def _axes(tensor: Tensor | None, order: Order) -> set[int] | None:
    if tensor is None or tensor.data is None:
        return None
    return {int(axis) % len(order) for axis in tensor.data.reshape(-1)}


def _listed(like: Tensor | None, values: Sequence[int]) -> Array:
    assert like is not None
    return np.array(values, like.dtype)


def _reordered(constant: Array, order: Order) -> Array:
    """Return a constant that is broadcast against operands at hand, without outer axes of 1."""
    whole = constant.reshape((1,) * (len(order) - constant.ndim) + constant.shape)
    moved = np.transpose(whole, np.argsort(order))
    while moved.ndim > 1 and moved.shape[0] == 1:
        moved = moved[0]
    return np.ascontiguousarray(moved)
