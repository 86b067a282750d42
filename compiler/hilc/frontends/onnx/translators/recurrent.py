"""Recurrent layers. What the input adds to the gates of a GRU or an RNN is a product of matrices
for all steps at once, computed before them. What the layers do not compute is unrolled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from hilc.frontends.onnx.operation import Operation, translates
from hilc.frontends.onnx.translators.matmul import product
from hilc.frontends.onnx.translators.unrolled import unrolled
from hilc.ir import Array, Tensor
from hilc.ops.lstm import LstmAttributes
from hilc.ops.recurrent import Activation, GruAttributes, RnnAttributes

#: The positions of ONNX's inputs.
_X, _W, _R, _B, _LENGTHS, _HIDDEN, _CELL, _PEEPHOLES = range(8)

#: The gates of an LSTM in the order of this project's layer, as positions in ONNX's.
_LSTM_GATES = (0, 2, 3, 1)

#: The functions of the gates that the layers compute.
_LSTM_FUNCTIONS, _GRU_FUNCTIONS = ("Sigmoid", "Tanh", "Tanh"), ("Sigmoid", "Tanh")

_ACTIVATIONS: dict[str, Activation] = {"Tanh": "TANH", "Relu": "RELU", "Sigmoid": "LOGISTIC"}


class _Cell(NamedTuple):
    """The constants of one direction."""

    #: ``[gates * units, depth]`` and ``[gates * units, units]``.
    w: Array
    r: Array
    #: ``[gates * units]`` each: of the input, and of the hidden state.
    input_bias: Array
    hidden_bias: Array


#: Computes one direction: from the sequence ``[steps, batch, depth]``, the constants and the states
#: before to the sequence after and the states after.
_Layer = Callable[[Tensor, _Cell, list[Tensor], int], list[Tensor]]


@translates("LSTM")
def lstm(n: Operation) -> list[Tensor]:
    """Translate LSTM; return Y, Y_h and Y_c.

    Peepholes, ``input_forget`` and other activations are unrolled over the steps.
    """
    has_peepholes = n.has(_PEEPHOLES) and np.any(n.known(_PEEPHOLES, "the peepholes"))
    if n.integer("input_forget", 0) or has_peepholes or _is_unusual(n, _LSTM_FUNCTIONS):
        return unrolled(n)

    def layer(x: Tensor, cell: _Cell, states: list[Tensor], number: int) -> list[Tensor]:
        constants = [
            n.constant(np.split(matrix, 4)[gate])
            for matrix in (cell.w, cell.r, cell.input_bias + cell.hidden_bias)
            for gate in _LSTM_GATES
        ]
        attrs = LstmAttributes(time_major=True)
        return n.emit_all("UNIDIRECTIONAL_SEQUENCE_LSTM", [x, *constants, *states], 3, attrs=attrs)

    return _directions(n, layer, (_HIDDEN, _CELL))


@translates("GRU")
def gru(n: Operation) -> list[Tensor]:
    """Translate GRU; return Y and Y_h. Activations other than the default are unrolled."""
    if _is_unusual(n, _GRU_FUNCTIONS):
        return unrolled(n)
    attrs = GruAttributes(linear_before_reset=bool(n.integer("linear_before_reset", 0)))

    def layer(x: Tensor, cell: _Cell, states: list[Tensor], number: int) -> list[Tensor]:
        return _recurrent(n, "GRU", x, cell, states, attrs)

    return _directions(n, layer, (_HIDDEN,))


@translates("RNN")
def rnn(n: Operation) -> list[Tensor]:
    """Translate RNN; return Y and Y_h. Activations without a kernel are unrolled."""
    names = n.texts("activations", ("Tanh", "Tanh"))
    if _is_unusual(n, names) or any(name not in _ACTIVATIONS for name in names):
        return unrolled(n)

    def layer(x: Tensor, cell: _Cell, states: list[Tensor], number: int) -> list[Tensor]:
        attrs = RnnAttributes(activation=_ACTIVATIONS[names[number]])
        return _recurrent(n, "RNN", x, cell, states, attrs)

    return _directions(n, layer, (_HIDDEN,))


def _recurrent(
    n: Operation, op: str, x: Tensor, cell: _Cell, states: list[Tensor],
    attrs: GruAttributes | RnnAttributes,
) -> list[Tensor]:  # fmt: skip
    added = product(n, x, n.constant(cell.w.T))
    gates = n.single("Add", added, n.constant(cell.input_bias))
    operands = [gates, n.constant(cell.r), n.constant(cell.hidden_bias), *states]
    return n.emit_all(op, operands, 2, attrs=attrs)


def _is_unusual(n: Operation, wanted: Sequence[str]) -> bool:
    """Return whether a node changes the gates' functions, clips them, or ends sequences early."""
    given, steps = n.texts("activations", wanted), n.input(_X).shape[n.integer("layout", 0)]
    lengths = n.optional(_LENGTHS)
    return (
        list(given) not in (list(wanted), list(wanted) * 2)
        or n.has_attribute("clip")
        or (lengths is not None and (lengths.data is None or bool((lengths.data != steps).any())))
    )


def _directions(n: Operation, layer: _Layer, states: Sequence[int]) -> list[Tensor]:
    """Compute a layer in its direction, or in both; return the sequence and the last states."""
    direction, batch_first = n.text("direction", "forward"), bool(n.integer("layout", 0))
    x = n.transpose(n.input(_X), (1, 0, 2)) if batch_first else n.input(_X)
    steps, batch, _ = x.shape
    w, r = n.known(_W, "the weights"), n.known(_R, "the weights of the hidden state")
    rows, units = r.shape[1:]
    bias = n.known(_B, "the biases") if n.has(_B) else np.zeros((len(w), 2 * rows), w.dtype)
    sequences: list[Tensor] = []
    finals: list[list[Tensor]] = [[] for _ in states]
    for number, weights in enumerate(w):
        is_reverse = direction == "reverse" or number == 1
        cell = _Cell(weights, r[number], bias[number, :rows], bias[number, rows:])
        initial = [_initial(n, state, number, (batch, units), batch_first) for state in states]
        y, *last = layer(_reversed(n, x) if is_reverse else x, cell, initial, number)
        sequences.append(n.reshape(_reversed(n, y) if is_reverse else y, (steps, 1, batch, units)))
        for final, state in zip(finals, last, strict=True):
            final.append(n.reshape(state, (1, batch, units)))
    results = [_joined(n, sequences, 1), *(_joined(n, final, 0) for final in finals)]
    if batch_first:
        results = [n.transpose(results[0], (2, 0, 1, 3))] + [
            n.transpose(state, (1, 0, 2)) for state in results[1:]
        ]
    return results


def _initial(
    n: Operation, index: int, number: int, shape: tuple[int, int], batch_first: bool
) -> Tensor:
    """Return a state before the first step: zeros where it is not given."""
    state = n.optional(index)
    if state is None:
        return n.constant(np.zeros(shape, np.float32))
    if batch_first:
        state = n.transpose(state, (1, 0, 2))
    part = n.single("Gather", state, n.constant(number, "int64"), axis=0)
    return n.reshape(part, shape)


def _reversed(n: Operation, x: Tensor) -> Tensor:
    return n.emit("REVERSE_V2", x, n.constant((0,), "int32"))


def _joined(n: Operation, parts: Sequence[Tensor], axis: int) -> Tensor:
    return parts[0] if len(parts) == 1 else n.single("Concat", *parts, axis=axis)
