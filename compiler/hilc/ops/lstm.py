"""UNIDIRECTIONAL_SEQUENCE_LSTM: long short-term memory over the steps of a sequence.

Each unit has four gates, here in the order input, forget, cell, output. A gate is a function of the
weighted input and the weighted hidden state of the step before: the logistic function, of the gate
for the cell the hyperbolic tangent. Then::

    cell = forget * cell + input * new cell
    hidden = output * tanh(cell)

Inputs, 15: the input ``[batch, steps, depth]`` (``[steps, batch, depth]`` where it is time-major);
for the gates in order the weights of the input ``[units, depth]``, the weights of the hidden state
``[units, units]`` and the biases ``[units]``; the hidden state and the cell state, both
``[batch, units]``. Outputs: the hidden state after each step, and the two states after the last.

The arithmetic of integers is TensorFlow Lite Micro's: gates in int16, whose arguments are Q3.12 and
whose values are Q0.15, a cell state in int16 whose scale is a power of two, products that are each
rounded and saturated. An int8 hidden state requires an int8 input and int32 biases, one of
int16 with int16 and int64.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log2

import numpy as np

from hilc.ir import ELEMENT_TYPES, Array, Attributes, Node, Rounding, Tensor
from hilc.numerics import interpolate
from hilc.numerics.floats import (
    add,
    logistic_on_vectors,
    multiply,
    multiply_add,
    tanh_on_vectors,
)
from hilc.numerics.libm import tanhf
from hilc.numerics.requantize import FixedPoint, Int64Array, requantize
from hilc.ops.opdef import OpDef, Signature, one_definition
from hilc.ops.operands import (
    invalid,
    multiplier,
    operand,
    quantization,
    require_counts,
    require_dtype,
    require_same_quantization,
    require_tflm,
    undefined,
    unsupported,
)
from hilc.ops.svdf import in_order
from hilc.ops.unary import logistic_float32

GATES = ("input", "forget", "cell", "output")

#: The positions of the inputs.
X, IN_WEIGHTS, HIDDEN_WEIGHTS, BIASES, HIDDEN, CELL = 0, 1, 5, 9, 13, 14

#: Scales of the gates' arguments and of their values.
_GATE_SCALE, _VALUE_SCALE = 2.0**-12, 2.0**-15
#: Factor from Q3.12 to positions in the table.
GATE_POSITIONS = FixedPoint(3, 0)
#: The least and the largest power of two that is a cell state's scale.
_CELL_POWERS = (-26, 1)

#: By the type of the input, that of the hidden state, of the cell state and of biases.
_TYPES = {
    "int8": ("int8", "int16", "int32"),
    "int16": ("int16", "int16", "int64"),
    "float32": ("float32", "float32", "float32"),
}


@dataclass(frozen=True, kw_only=True)
class LstmAttributes(Attributes):
    """Attributes of UNIDIRECTIONAL_SEQUENCE_LSTM."""

    #: Whether the input is [steps, batch, elements], not [batch, steps, elements].
    time_major: bool = False
    #: The largest magnitude of the cell state; 0 for no limit.
    cell_clip: float = 0.0


@dataclass(frozen=True)
class Sizes:
    """Sizes of an LSTM: batch, time steps, input elements, and units of the hidden state."""

    batch: int
    steps: int
    depth: int
    units: int


def sizes(node: Node, ins: Sequence[Tensor | None]) -> Sizes:
    """Return the sizes of a node."""
    x = operand(node, ins, X)
    batch, steps = x.shape[:2]
    if LstmAttributes.of(node).time_major:
        batch, steps = steps, batch
    return Sizes(batch, steps, x.shape[2], operand(node, ins, HIDDEN).shape[1])


@dataclass(frozen=True)
class Scaling:
    """The factors of an integer node, from one quantization to the next."""

    #: Factor of each gate, for the sums of the weighted input and of the weighted hidden state.
    inputs: tuple[FixedPoint, ...]
    hidden: tuple[FixedPoint, ...]
    #: From products to the cell state (of the forget gate and it, of input and cell gate), and to
    #: the hidden state.
    forget: FixedPoint
    update: FixedPoint
    output: FixedPoint
    #: From the cell state to the table of the hyperbolic tangent; the shift is to the right.
    tanh: FixedPoint
    #: The largest magnitude of the cell state; beyond its type where there is no limit.
    clip: int


def scaling(node: Node, ins: Sequence[Tensor | None]) -> Scaling:
    """Return the factors of an integer node."""
    scale = {index: quantization(node, operand(node, ins, index))[0] for index in (X, HIDDEN, CELL)}
    cell = scale[CELL]

    def gates(of: int, first: int) -> tuple[FixedPoint, ...]:
        found = []
        for gate in range(len(GATES)):
            weights = quantization(node, operand(node, ins, first + gate))[0]
            # The product is one of single precision in the reference.
            product = float(np.float32(scale[of]) * np.float32(weights))
            found.append(multiplier(node, product / _GATE_SCALE))
        return tuple(found)

    left = 12 + cell_power(node, operand(node, ins, CELL))
    clip = LstmAttributes.of(node).cell_clip
    return Scaling(
        inputs=gates(X, IN_WEIGHTS),
        hidden=gates(HIDDEN, HIDDEN_WEIGHTS),
        forget=multiplier(node, _VALUE_SCALE * cell / cell),
        update=multiplier(node, _VALUE_SCALE * _VALUE_SCALE / cell),
        output=multiplier(node, _VALUE_SCALE * _VALUE_SCALE / scale[HIDDEN]),
        tanh=FixedPoint(3 << left, 0) if left > 0 else FixedPoint(3, -left),
        clip=int(min(float(np.float32(clip)) / cell, 32767.0)) if clip > 0 else 1 << 15,
    )


def cell_power(node: Node, cell: Tensor) -> int:
    """Return the power of two that is the scale of the cell state."""
    scale, zero_point = quantization(node, cell)
    power = round(log2(scale))
    low, high = _CELL_POWERS
    if abs(log2(scale) - power) >= 1e-3 or zero_point:
        unsupported(
            node,
            f"has the cell state {cell.name!r} with scale {scale} and zero point {zero_point}; "
            "the scale must be a power of two, the zero point 0",
            "convert the model again: the converter chooses such a scale",
        )
    if not low <= power <= high:
        undefined(
            node, f"has the cell state {cell.name!r} with scale 2^{power}, not 2^{low} to 2^{high}"
        )
    return power


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=15, outputs=3)
    x, hidden, cell = (operand(node, ins, index) for index in (X, HIDDEN, CELL))
    require_dtype(node, x, tuple(_TYPES))
    of_hidden, of_cell, of_bias = _TYPES[x.dtype]
    require_dtype(node, hidden, (of_hidden,))
    require_dtype(node, cell, (of_cell,))
    if len(x.shape) != 3 or len(hidden.shape) != 2:
        invalid(
            node,
            f"takes {list(x.shape)} with the hidden state {list(hidden.shape)}; these must have "
            "three sides and two",
        )
    n = sizes(node, ins)
    for state in (hidden, cell):
        if state.shape != (n.batch, n.units):
            invalid(
                node,
                f"has the state {state.name!r} of shape {list(state.shape)}, which must be "
                f"{[n.batch, n.units]}",
            )
    weights = x.element.weights
    wanted: list[tuple[int, tuple[int, ...], str]]
    wanted = [(IN_WEIGHTS, (n.units, n.depth), weights)]
    wanted += [(HIDDEN_WEIGHTS, (n.units, n.units), weights), (BIASES, (n.units,), of_bias)]
    for first, shape, dtype in wanted:
        for gate, name in enumerate(GATES):
            tensor = operand(node, ins, first + gate)
            require_dtype(node, tensor, (dtype,))
            if tensor.shape != shape:
                invalid(
                    node,
                    f"takes {tensor.name!r} of shape {list(tensor.shape)} for the {name} gate, "
                    f"which must be {list(shape)}",
                )
            if not tensor.is_constant:
                unsupported(
                    node,
                    f"takes {tensor.name!r} for the {name} gate, which is computed",
                    "weights and biases must be constants",
                )
    if x.element.quantized:
        for index in range(IN_WEIGHTS, BIASES):
            zero_point = quantization(node, operand(node, ins, index))[1]
            if zero_point:
                unsupported(
                    node,
                    f"takes the weights {operand(node, ins, index).name!r} with zero point "
                    f"{zero_point}",
                    "quantize weights symmetrically, with zero point 0",
                )
    clip = LstmAttributes.of(node).cell_clip
    if not 0 <= clip <= np.finfo(np.float32).max:
        invalid(node, f"has cell_clip {clip}; it must be a finite number, 0 or more")
    return [
        ((*x.shape[:2], n.units), hidden.dtype),
        (hidden.shape, hidden.dtype),
        (cell.shape, cell.dtype),
    ]


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    require_same_quantization(node, operand(node, ins, HIDDEN), outs[1])
    require_same_quantization(node, operand(node, ins, CELL), outs[2])
    x = operand(node, ins, X)
    if x.element.quantized:
        require_tflm(node, f"computes {x.dtype}")
        # The reference copies the hidden state.
        require_same_quantization(node, operand(node, ins, HIDDEN), outs[0])
        scaling(node, ins)


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    given = [value for value in values if value is not None]
    hidden, cell = given[HIDDEN], given[CELL]
    time_major = LstmAttributes.of(node).time_major
    x = given[X] if time_major else given[X].swapaxes(0, 1)
    integer = operand(node, ins, X).element.quantized
    step = _Integer(node, ins, given).step if integer else _Float(node, given).step
    results = []
    for moment in x:
        hidden, cell = step(moment, hidden, cell)
        results.append(hidden)
    y = np.stack(results, axis=0 if time_major else 1)
    return [np.ascontiguousarray(y), hidden, cell]


class _Integer:
    """A step on integers."""

    def __init__(self, node: Node, ins: Sequence[Tensor | None], values: Sequence[Array]) -> None:
        self._values = [value.astype(np.int64) for value in values]
        self._tensors = [operand(node, ins, index) for index in range(len(ins))]
        self._zero_points = {i: quantization(node, self._tensors[i])[1] for i in (X, HIDDEN)}
        self._factors = scaling(node, ins)

    def step(self, x: Array, hidden: Array, cell: Array) -> tuple[Array, Array]:
        """Return the states after a step."""
        factors = self._factors
        inputs, forget, new, output = self._gates(
            x.astype(np.int64) - self._zero_points[X],
            hidden.astype(np.int64) - self._zero_points[HIDDEN],
        )
        kept = _saturated(requantize(forget * cell.astype(np.int64), *factors.forget), "int16")
        added = _saturated(requantize(inputs * new, *factors.update), "int16")
        cell64 = np.clip(_saturated(kept + added, "int16"), -factors.clip, factors.clip)
        shown = requantize(interpolate.tanh(cell64, factors.tanh) * output, *factors.output)
        shown = _saturated(shown + self._zero_points[HIDDEN], hidden.dtype.name)
        return shown.astype(hidden.dtype), cell64.astype(np.int16)

    def _gates(self, x: Int64Array, hidden: Int64Array) -> Iterator[Int64Array]:
        values, factors = self._values, self._factors
        for gate, name in enumerate(GATES):
            sums = x @ values[IN_WEIGHTS + gate].T + values[BIASES + gate]
            recurrent = hidden @ values[HIDDEN_WEIGHTS + gate].T
            both = self._scaled(sums, factors.inputs[gate])
            both = both + self._scaled(recurrent, factors.hidden[gate])
            function = interpolate.tanh if name == "cell" else interpolate.logistic
            yield function(_saturated(both, "int16"), GATE_POSITIONS)

    def _scaled(self, sums: Int64Array, factor: FixedPoint) -> Int64Array:
        element = self._tensors[X].element
        rounding = Rounding.SINGLE if element.symmetric else Rounding.DOUBLE
        kind = element.sums(None)
        return _saturated(requantize(sums.astype(kind), *factor, rounding, kind), "int16")


def _saturated(values: Int64Array, dtype: str) -> Int64Array:
    clipped: Int64Array = np.clip(values, *ELEMENT_TYPES[dtype].bounds)
    return clipped


class _Float:
    """A step in single precision, in the order of the reference, rounded as the node states."""

    def __init__(self, node: Node, values: Sequence[Array]) -> None:
        self._values = values
        self._rounding = node.rounding
        on_vectors = node.rounding is Rounding.SINGLE
        self._tanh = tanh_on_vectors if on_vectors else tanhf
        self._logistic = logistic_on_vectors if on_vectors else logistic_float32
        self._clip = np.float32(LstmAttributes.of(node).cell_clip)

    def step(self, x: Array, hidden: Array, cell: Array) -> tuple[Array, Array]:
        """Return the states after a step."""
        inputs, forget, new, output = (self._gate(gate, x, hidden) for gate in range(len(GATES)))
        kept = multiply(forget, cell, self._rounding)
        cell = multiply_add(kept, inputs, new, self._rounding)
        if self._clip > 0:
            cell = np.clip(cell, -self._clip, self._clip)
        return multiply(self._tanh(cell), output, self._rounding), cell

    def _gate(self, gate: int, x: Array, hidden: Array) -> Array:
        values = self._values
        both = self._sums(x, values[IN_WEIGHTS + gate], values[BIASES + gate])
        recurrent = self._sums(hidden, values[HIDDEN_WEIGHTS + gate], np.float32(0))
        both = add(both, recurrent, self._rounding)
        return self._tanh(both) if GATES[gate] == "cell" else self._logistic(both)

    def _sums(self, x: Array, weights: Array, bias: Array | np.float32) -> Array:
        """Return ``[rows, units]``: products added one after the other, then the bias."""
        if self._rounding is not Rounding.SINGLE:
            summed: Array = in_order(x[:, np.newaxis] * weights) + bias
            return summed
        sums: Array = np.zeros((len(x), len(weights)), np.float32)
        for k in range(x.shape[1]):
            sums = multiply_add(sums, x[:, k, np.newaxis], weights[:, k], self._rounding)
        return add(sums, np.asarray(bias), self._rounding)


LSTM = OpDef(
    _infer,
    _reference,
    _check,
    attributes=LstmAttributes,
    vector_floats=lambda node, ins: True,
    by_numerics=one_definition(_check),
)

OPERATORS: Mapping[str, OpDef] = {
    "UNIDIRECTIONAL_SEQUENCE_LSTM": LSTM,
}
