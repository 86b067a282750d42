"""Operators that take elements by their indices."""

from __future__ import annotations

import numpy as np

from hilc.frontends.onnx.operation import Operation, translates
from hilc.ir import Tensor
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.gather import GatherAttributes


@translates("Gather")
def gather(n: Operation) -> Tensor:
    x, indices = n.input(0), n.input(1)
    axis = n.axis(n.integer("axis", 0), len(x.shape))
    found = from_front(n, indices, x.shape[axis])
    return n.emit("GATHER", x, found, attrs=GatherAttributes(axis=axis))


def from_front(n: Operation, indices: Tensor, size: int) -> Tensor:
    """Return indices counted from the front, of an axis of this size."""
    if indices.data is not None:
        places = np.where(indices.data < 0, indices.data + size, indices.data)
        return n.constant(places.astype(np.int32))
    zero = n.constant(0, indices.dtype)
    raised = n.emit("ADD", indices, n.constant(size, indices.dtype), attrs=ActivationAttributes())
    found = n.emit("SELECT_V2", n.emit("LESS", indices, zero), raised, indices)
    return n.cast(found, "int32")
