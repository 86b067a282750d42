"""RNN, GRU and LSTM as no layer computes them, unrolled: a step for each entry of the sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hilc.frontends.onnx.operation import Operation
from hilc.frontends.onnx.translators.control_flow import entry, stacked
from hilc.frontends.onnx.translators.elementwise import combined
from hilc.frontends.onnx.translators.matmul import product
from hilc.frontends.onnx.translators.movement import sliced
from hilc.ir import Tensor
from hilc.ops.unary import LeakyReluAttributes

_Function = Callable[[Tensor], Tensor]
#: Returns :attr:`_Direction.multiply` of the direction with a number.
Multiply = Callable[[int], Callable[[Tensor, Tensor, bool], Tensor]]
#: Gates, and the default activations of one direction.
_LSTM = (4, ("Sigmoid", "Tanh", "Tanh"))
_KINDS: dict[str, tuple[int, tuple[str, ...]]] = {
    "RNN": (1, ("Tanh",)),
    "GRU": (3, ("Sigmoid", "Tanh")),
    "LSTM": _LSTM,
    "DynamicQuantizeLSTM": _LSTM,
}
_PLAIN = {"sigmoid": "LOGISTIC", "tanh": "TANH", "relu": "RELU"}


@dataclass(frozen=True)
class _Direction:
    """One direction of a layer."""

    n: Operation
    #: ``[gates * hidden, input]`` and ``[gates * hidden, hidden]``.
    weights: Tensor
    recurrence: Tensor
    #: ``[gates * hidden]`` each; None for zeros.
    bias: Tensor | None
    recurrent_bias: Tensor | None
    peephole: Tensor | None
    functions: Sequence[_Function]
    hidden: int
    clip: float | None
    #: Returns the product of floats and weights that are no floats, which are those of the hidden
    #: state where the last argument says so.
    multiply: Callable[[Tensor, Tensor, bool], Tensor] | None = None

    def gates(self, x: Tensor) -> list[Tensor]:
        """Return the parts of ``[batch, gates * hidden]``."""
        count = x.shape[1] // self.hidden
        return [part(self.n, x, 1, i * self.hidden, self.hidden) for i in range(count)]

    def clipped(self, x: Tensor) -> Tensor:
        if self.clip is None:
            return x
        low, high = (self.n.constant(sign * self.clip, x.dtype) for sign in (-1, 1))
        return combined(self.n, "Min", combined(self.n, "Max", x, low), high)

    def fed(self, x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
        """Return ``x @ weights.T + bias``."""
        if self.multiply is not None:
            made = self.multiply(x, weights, weights is self.recurrence)
        else:
            made = product(self.n, x, self.n.transpose(weights, (1, 0)))
        return made if bias is None else self.add(made, bias)

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        return combined(self.n, "Add", a, b)

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return combined(self.n, "Mul", a, b)

    def mixed(self, share: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return ``(1 - share) * a + share * b``."""
        rest = combined(self.n, "Sub", self.n.constant(1, share.dtype), share)
        return self.add(self.mul(rest, a), self.mul(share, b))


def part(n: Operation, x: Tensor, axis: int, start: int, count: int) -> Tensor:
    """Return some entries of an axis."""
    begin, end = [0] * len(x.shape), list(x.shape)
    begin[axis], end[axis] = start, start + count
    return sliced(n, x, begin, end, [1] * len(begin))


def _function(n: Operation, name: str, alpha: float | None, beta: float | None) -> _Function:
    known = name.lower()
    if known in _PLAIN:
        return lambda x: n.emit(_PLAIN[known], x)
    if known == "leakyrelu":
        slope = 0.01 if alpha is None else alpha
        return lambda x: n.emit("LEAKY_RELU", x, attrs=LeakyReluAttributes(alpha=slope))
    if known == "affine":
        a, b = 1.0 if alpha is None else alpha, 0.0 if beta is None else beta
        return lambda x: combined(
            n, "Add", combined(n, "Mul", x, n.constant(a, x.dtype)), n.constant(b, x.dtype)
        )
    n.refuse(f"has the activation {name!r}", "supported: Sigmoid, Tanh, Relu, LeakyRelu, Affine")


def _rnn(d: _Direction, x: Tensor, h: Tensor, c: Tensor | None) -> tuple[Tensor, Tensor | None]:
    total = d.add(x, d.fed(h, d.recurrence, d.recurrent_bias))
    return d.functions[0](d.clipped(total)), None


def _gru(d: _Direction, x: Tensor, h: Tensor, c: Tensor | None) -> tuple[Tensor, Tensor | None]:
    n, size = d.n, d.hidden
    x_z, x_r, x_h = d.gates(x)
    bias = d.recurrent_bias
    upper = None if bias is None else part(n, bias, 0, 0, 2 * size)
    lower = None if bias is None else part(n, bias, 0, 2 * size, size)
    h_z, h_r = d.gates(d.fed(h, part(n, d.recurrence, 0, 0, 2 * size), upper))
    update = d.functions[0](d.clipped(d.add(x_z, h_z)))
    reset = d.functions[0](d.clipped(d.add(x_r, h_r)))
    own = part(n, d.recurrence, 0, 2 * size, size)
    if n.integer("linear_before_reset", 0):
        remembered = d.mul(reset, d.fed(h, own, lower))
    else:
        remembered = d.fed(d.mul(reset, h), own, lower)
    new = d.functions[1](d.clipped(d.add(x_h, remembered)))
    return d.mixed(update, new, h), None


def _lstm(d: _Direction, x: Tensor, h: Tensor, c: Tensor | None) -> tuple[Tensor, Tensor | None]:
    assert c is not None
    n = d.n
    total = d.add(x, d.fed(h, d.recurrence, d.recurrent_bias))
    i, o, f, g = d.gates(total)
    peeped: list[Tensor | None] = [None] * 3
    if d.peephole is not None:
        peeped = [part(n, d.peephole, 0, k * d.hidden, d.hidden) for k in range(3)]

    def gate(value: Tensor, weight: Tensor | None, cell: Tensor) -> Tensor:
        if weight is not None:
            value = d.add(value, d.mul(weight, cell))
        return d.functions[0](d.clipped(value))

    entering = gate(i, peeped[0], c)
    if n.integer("input_forget", 0):
        kept = combined(n, "Sub", n.constant(1, entering.dtype), entering)
    else:
        kept = gate(f, peeped[2], c)
    cell = d.add(d.mul(kept, c), d.mul(entering, d.functions[1](d.clipped(g))))
    leaving = gate(o, peeped[1], cell)
    return d.mul(leaving, d.functions[2](cell)), cell


_STEPS = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm, "DynamicQuantizeLSTM": _lstm}
#: Those with a cell state.
_LSTMS = ("LSTM", "DynamicQuantizeLSTM")


def unrolled(n: Operation, multiply: Multiply | None = None) -> list[Tensor]:
    """Return the outputs of a recurrent node of any kind.

    ``multiply`` returns, for a direction, the product of floats and weights that are no floats;
    these are ``[input, gates * hidden]``.
    """
    x, batch_first = n.input(0), bool(n.integer("layout", 0))
    if batch_first:
        x = n.transpose(x, (1, 0, 2))
    steps, batch, features = x.shape
    gates, defaults = _KINDS[n.type]
    hidden = n.input(2).shape[-1] if multiply is None else n.input(2).shape[1]
    direction = n.text("direction", "forward")
    count = 2 if direction == "bidirectional" else 1
    functions = _functions(n, defaults, count)
    lengths = None if n.optional(4) is None else n.cast(n.input(4), "int32")
    flat = n.reshape(x, (steps * batch, features))
    results: list[tuple[list[Tensor], Tensor, Tensor | None]] = []
    for number in range(count):
        bias = None if n.optional(3) is None else entry(n, n.input(3), 0, number)
        d = _Direction(
            n,
            entry(n, n.input(1), 0, number),
            entry(n, n.input(2), 0, number),
            None if bias is None else part(n, bias, 0, 0, gates * hidden),
            None if bias is None else part(n, bias, 0, gates * hidden, gates * hidden),
            entry(n, n.input(7), 0, number) if n.type in _LSTMS and n.has(7) else None,
            functions[number],
            hidden,
            n.number("clip") if n.has_attribute("clip") else None,
            None if multiply is None else multiply(number),
        )
        fed = n.reshape(d.fed(flat, d.weights, d.bias), (steps, batch, gates * hidden))
        backwards = direction == "reverse" or number == 1
        results.append(_run(d, fed, number, lengths, backwards=backwards, first=batch_first))
    steps_of_all = zip(*(outputs for outputs, _, _ in results), strict=True)
    rows = [stacked(n, step, 0) for step in steps_of_all]
    whole = stacked(n, rows, 0)
    last = stacked(n, [h for _, h, _ in results], 0)
    cells = [c for _, _, c in results if c is not None]
    made = [whole, last, *([stacked(n, cells, 0)] if cells else [])]
    if batch_first:
        made = [n.transpose(made[0], (2, 0, 1, 3)), *(n.transpose(t, (1, 0, 2)) for t in made[1:])]
    return made


def _functions(n: Operation, defaults: Sequence[str], count: int) -> list[list[_Function]]:
    """Return the activations of each direction; they take factors in turn."""
    names = n.texts("activations", [*defaults] * count)
    alphas, betas = iter(n.numbers("activation_alpha", ())), iter(n.numbers("activation_beta", ()))
    made = []
    for name in names:
        takes = name.lower() in ("leakyrelu", "affine")
        alpha = next(alphas, None) if takes else None
        beta = next(betas, None) if name.lower() == "affine" else None
        made.append(_function(n, name, alpha, beta))
    each = len(defaults)
    if len(made) != each * count:
        n.invalid(f"has {len(made)} activations for {count} directions of {each}")
    return [made[i * each : (i + 1) * each] for i in range(count)]


def _run(
    d: _Direction,
    x: Tensor,
    number: int,
    lengths: Tensor | None,
    *,
    backwards: bool,
    first: bool,
) -> tuple[list[Tensor], Tensor, Tensor | None]:
    """Return the output of each step, in the order of the sequence, and the final states."""
    n, (steps, batch, _) = d.n, x.shape

    def initial(index: int) -> Tensor:
        given = n.optional(index)
        if given is None:
            return n.constant(np.zeros((batch, d.hidden), np.float32))
        return entry(n, n.transpose(given, (1, 0, 2)) if first else given, 0, number)

    h = initial(5)
    c = initial(6) if n.type in _LSTMS else None
    outputs: dict[int, Tensor] = {}
    for turn in range(steps):
        step = steps - 1 - turn if backwards else turn
        with n.builder.budget.within(f"a step of {n.type}", 1, steps):
            new_h, new_c = _STEPS[n.type](d, entry(n, x, 0, step), h, c)
        if lengths is None:
            h, c = new_h, new_c
            outputs[step] = h
            continue
        # Behind the end of an entry of the batch nothing changes, and what it gives is zero.
        inside = combined(n, "Less", n.constant(step, "int32"), n.reshape(lengths, (batch, 1)))
        h = n.emit("SELECT_V2", inside, new_h, h)
        c = None if c is None or new_c is None else n.emit("SELECT_V2", inside, new_c, c)
        outputs[step] = n.emit("SELECT_V2", inside, new_h, n.constant(0, h.dtype))
    return [outputs[step] for step in range(steps)], h, c
