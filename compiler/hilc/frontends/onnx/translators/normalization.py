"""Normalizations and the softmax family."""

from __future__ import annotations

from math import prod

from hilc.frontends.onnx.operation import Operation, translates
from hilc.ir import Tensor
from hilc.ops.softmax import SoftmaxAttributes

_SOFT = {"Softmax": "SOFTMAX", "LogSoftmax": "LOG_SOFTMAX"}


@translates(*_SOFT)
def softmax(n: Operation) -> Tensor:
    """Along one axis; before opset 13 along all from it on."""
    x = n.input(0)
    rank = len(x.shape)
    attrs = SoftmaxAttributes(beta=1.0) if n.type == "Softmax" else None
    if n.version < 13:
        axis = n.axis(n.integer("axis", 1), rank)
        flat = n.reshape(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))
        return n.reshape(n.emit(_SOFT[n.type], flat, attrs=attrs), x.shape)
    axis = n.axis(n.integer("axis", -1), rank)
    order = [i for i in range(rank) if i != axis] + [axis]
    made = n.emit(_SOFT[n.type], n.transpose(x, order), attrs=attrs)
    return n.transpose(made, [order.index(i) for i in range(rank)])
