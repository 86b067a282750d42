"""GRU and RNN as ONNX defines them: one layer in one direction, over the steps of a sequence.

What the input adds to the gates is computed before them, for all steps at once, by a layer like
any other. Operands:

0. what the input adds: ``[steps, batch, gates * units]``, with all biases of the input;
1. weights of the hidden state ``[gates * units, units]``, a constant;
2. biases of the hidden state ``[gates * units]``, a constant;
3. the hidden state before the first step, ``[batch, units]``.

Outputs: the hidden state after each step, ``[steps, batch, units]``, and after the last. A GRU has
the gates update (z), reset (r) and candidate (n)::

    z, r = logistic(input + hidden @ weights + bias)
    n = tanh(input + r * (hidden @ weights + bias))       linear before the reset
    n = tanh(input + (r * hidden) @ weights + bias)       otherwise
    hidden = (1 - z) * n + z * hidden

An RNN has one gate, whose value is the hidden state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hilc.ir import Array, Attributes, Node, Tensor
from hilc.numerics.floats import clamped
from hilc.numerics.libm import tanhf
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import invalid, operand, require_counts, require_dtype, unsupported
from hilc.ops.svdf import in_order
from hilc.ops.unary import logistic_float32

#: Positions of the operands.
X, WEIGHTS, BIAS, HIDDEN = range(4)
GRU_GATES, RNN_GATES = 3, 1

Activation = Literal["TANH", "RELU", "LOGISTIC"]


@dataclass(frozen=True, kw_only=True)
class GruAttributes(Attributes):
    """Attributes of GRU."""

    #: Whether the reset gate multiplies the weighted hidden state instead of the hidden state.
    linear_before_reset: bool = False


@dataclass(frozen=True, kw_only=True)
class RnnAttributes(Attributes):
    """Attributes of RNN."""

    activation: Activation = "TANH"


@dataclass(frozen=True)
class Sizes:
    """Sizes of a GRU or RNN: time steps, batch, and units of the hidden state."""

    steps: int
    batch: int
    units: int


def sizes(node: Node, ins: Sequence[Tensor | None]) -> Sizes:
    """Return the sizes of a node."""
    steps, batch, _ = operand(node, ins, X).shape
    return Sizes(steps, batch, operand(node, ins, HIDDEN).shape[1])


def _infer(gates: int) -> Callable[[Node, Sequence[Tensor | None]], list[Signature]]:
    def infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
        require_counts(node, inputs=4, outputs=2)
        x, weights, bias, hidden = (operand(node, ins, index) for index in range(4))
        for tensor in (x, weights, bias, hidden):
            require_dtype(node, tensor, ("float32",))
        if len(x.shape) != 3 or len(hidden.shape) != 2:
            invalid(
                node,
                f"takes {list(x.shape)} with the hidden state {list(hidden.shape)}; these must "
                "have three dimensions and two",
            )
        n = sizes(node, ins)
        wanted = {
            X: (n.steps, n.batch, gates * n.units),
            WEIGHTS: (gates * n.units, n.units),
            BIAS: (gates * n.units,),
            HIDDEN: (n.batch, n.units),
        }
        for index, shape in wanted.items():
            tensor = operand(node, ins, index)
            if tensor.shape != shape:
                invalid(
                    node,
                    f"takes {tensor.name!r} of shape {list(tensor.shape)}, which must be "
                    f"{list(shape)}",
                )
        for tensor in (weights, bias):
            if not tensor.is_constant:
                unsupported(
                    node,
                    f"takes {tensor.name!r}, which is computed",
                    "weights and biases of the hidden state must be constants",
                )
        return [((n.steps, n.batch, n.units), x.dtype), (hidden.shape, hidden.dtype)]

    return infer


#: Returns the hidden state after a step, from the input's contribution and the state before.
_Step = Callable[[Array, Array], Array]


def _reference(
    step_of: Callable[[Node, Array, Array], _Step],
) -> Callable[
    [Node, Sequence[Tensor | None], Sequence[Tensor], Sequence[Array | None]], list[Array]
]:
    def reference(
        node: Node,
        ins: Sequence[Tensor | None],
        outs: Sequence[Tensor],
        values: Sequence[Array | None],
    ) -> list[Array]:
        x, weights, bias, hidden = (value for value in values if value is not None)
        step = step_of(node, weights, bias)
        results = []
        for moment in x:
            hidden = step(moment, hidden)
            results.append(hidden)
        return [np.stack(results), hidden]

    return reference


def _weighted(hidden: Array, weights: Array, bias: Array) -> Array:
    """Return the hidden state's contributions to the gates, in the order of the kernels."""
    sums: Array = in_order(hidden[:, np.newaxis] * weights) + bias
    return sums


def _gru_step(node: Node, weights: Array, bias: Array) -> _Step:
    linear = GruAttributes.of(node).linear_before_reset
    units = weights.shape[1]
    both, candidate = slice(0, 2 * units), slice(2 * units, None)

    def step(x: Array, hidden: Array) -> Array:
        gates = logistic_float32(x[:, both] + _weighted(hidden, weights[both], bias[both]))
        update, reset = gates[:, :units], gates[:, units:]
        if linear:
            added = reset * _weighted(hidden, weights[candidate], bias[candidate])
        else:
            added = _weighted(reset * hidden, weights[candidate], bias[candidate])
        new = tanhf(x[:, candidate] + added)
        after: Array = (np.float32(1) - update) * new + update * hidden
        return after

    return step


_FUNCTIONS: Mapping[str, Callable[[Array], Array]] = {
    "TANH": tanhf,
    "RELU": lambda x: clamped(x, 0, np.inf),
    "LOGISTIC": logistic_float32,
}


def _rnn_step(node: Node, weights: Array, bias: Array) -> _Step:
    function = _FUNCTIONS[RnnAttributes.of(node).activation]
    return lambda x, hidden: function(x + _weighted(hidden, weights, bias))


GRU = OpDef(_infer(GRU_GATES), _reference(_gru_step), attributes=GruAttributes)
RNN = OpDef(_infer(RNN_GATES), _reference(_rnn_step), attributes=RnnAttributes)

OPERATORS: Mapping[str, OpDef] = {
    "GRU": GRU,
    "RNN": RNN,
}
