"""Recurrent layers, whole: a layer of PyTorch's is one ONNX node each, in its own gate order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hilc.frontends.pt2.model import Operation, Outputs, translates
from hilc.ir import Array

#: The blocks of PyTorch's weights in the order in which ONNX has them: LSTM i, f, g, o there and
#: i, o, f, c here; GRU r, z, n there and z, r, h here.
_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}


@translates("aten.lstm")
def lstm(c: Operation) -> Outputs:
    """Translate aten.lstm to one LSTM for each layer; return output, hidden and cell states."""
    states = [c.named(ref) for ref in c.get("hx")]
    shapes = [tuple(map(int, c.signature_of(ref).shape)) for ref in c.get("hx")]
    return _layers(c, "LSTM", states, shapes)


@translates("aten.gru")
def gru(c: Operation) -> Outputs:
    """Translate aten.gru to one GRU for each layer; return output and hidden states."""
    return _layers(c, "GRU", [c.tensor("hx")], [c.shape("hx")], linear_before_reset=1)


@translates("aten.rnn_tanh", "aten.rnn_relu")
def rnn(c: Operation) -> Outputs:
    """Translate aten.rnn_tanh and rnn_relu to one RNN for each layer; return output and states."""
    function = "Tanh" if "tanh" in c.call.target else "Relu"
    directions = 2 if c.get("bidirectional", False) else 1
    return _layers(c, "RNN", [c.tensor("hx")], [c.shape("hx")], activations=[function] * directions)


@translates("aten.gru_cell")
def gru_cell(c: Operation) -> str:
    """Translate aten.gru_cell to GRU over one step; return the hidden state."""
    return _cell(c, "GRU", [c.tensor("hx")], linear_before_reset=1)[0]


@translates("aten.lstm_cell")
def lstm_cell(c: Operation) -> Outputs:
    """Translate aten.lstm_cell to LSTM over one step; return the hidden and cell states."""
    return _cell(c, "LSTM", c.tensors("hx"))


@translates("aten.rnn_tanh_cell", "aten.rnn_relu_cell")
def rnn_cell(c: Operation) -> str:
    """Translate aten.rnn_tanh_cell and rnn_relu_cell to RNN over one step."""
    function = "Tanh" if "tanh" in c.call.target else "Relu"
    return _cell(c, "RNN", [c.tensor("hx")], activations=[function])[0]


def _cell(c: Operation, kind: str, states: Sequence[str], **attributes: object) -> list[str]:
    """Return the states after one step, which is a layer over a sequence of one."""
    w, r = (_reordered(_constant(c, c.tensor(name)), kind) for name in ("w_ih", "w_hh"))
    listed = [c.tensor(name) for name in ("b_ih", "b_hh") if c.has(name)]
    biases = [_reordered(_constant(c, name), kind) for name in listed]
    batch, shape = c.shape("input")[:-1], (1, -1)
    x = c.reshape(c.tensor("input"), (*shape, w.shape[-1]))
    size = r.shape[-1]
    initial = [c.reshape(state, (*shape, size)) for state in states]
    bias = c.constant(np.concatenate(biases)[np.newaxis]) if biases else ""
    outputs = c.emit_many(
        kind,
        [x, c.constant(w[np.newaxis]), c.constant(r[np.newaxis]), bias, "", *initial],
        1 + len(states),
        hidden_size=size,
        **attributes,
    )
    return [c.reshape(output, (*batch, size)) for output in outputs[1:]]


def _layers(
    c: Operation, kind: str, states: Sequence[str], shapes: Sequence[tuple[int, ...]],
    **attributes: object,
) -> Outputs:  # fmt: skip
    """Chain the layers; the results are the sequence and the last value of each state."""
    if c.get("train", False) and c.get("dropout", 0):
        c.refuse("is in training", "export the module in evaluation mode (module.eval())")
    if not c.has("input"):
        c.refuse("takes a packed sequence", "use one padded tensor")
    layers, directions = c.get("num_layers"), 2 if c.get("bidirectional", False) else 1
    x, shape = c.tensor("input"), c.shape("input")
    is_single = len(shape) == 2
    if is_single:
        x, shape = c.reshape(x, (shape[0], 1, shape[1])), (shape[0], 1, shape[1])
        states = [
            c.reshape(state, (own[0], 1, own[1])) for state, own in zip(states, shapes, strict=True)
        ]
        shapes = [(own[0], 1, own[1]) for own in shapes]
    is_batch_first = bool(c.get("batch_first", False)) and not is_single
    if is_batch_first:
        x = c.emit("Transpose", x, perm=(1, 0, 2))
        shape = (shape[1], shape[0], shape[2])
    is_projected = kind == "LSTM" and shapes[0] != shapes[1]
    weights = _weights(c, kind, layers, directions, is_projected=is_projected)
    initial = [_per_layer(c, state, layers) for state in states]
    finals: list[list[str]] = [[] for _ in states]
    for layer, (w, r, b, projection) in enumerate(weights):
        size = r.shape[-1]  # what it gives: the state, or its projection
        if projection is None:
            outputs = c.emit_many(
                kind,
                [x, c.constant(w), c.constant(r), "" if b is None else c.constant(b), "",
                 *(own[layer] for own in initial)],
                1 + len(states),
                hidden_size=size, direction="bidirectional" if directions == 2 else "forward",
                **attributes,
            )  # fmt: skip
        else:
            start = [own[layer] for own in initial]
            outputs = _projected(c, x, (w, r, b, projection), start, shape[:2])
        # From [length, directions, batch, size] to [length, batch, directions * size].
        y = c.emit("Transpose", outputs[0], perm=(0, 2, 1, 3))
        x = c.reshape(y, (shape[0], shape[1], directions * size))
        for final, output in zip(finals, outputs[1:], strict=True):
            final.append(output)
    if is_batch_first:
        x = c.emit("Transpose", x, perm=(1, 0, 2))
    last = [f[0] if len(f) == 1 else c.emit("Concat", *f, axis=0) for f in finals]
    results = [x, *last]
    if is_single:
        wanted = [tuple(map(int, signature.shape)) for signature in c.results]
        results = [c.reshape(y, own) for y, own in zip(results, wanted, strict=True)]
    return results


def _per_layer(c: Operation, state: str, layers: int) -> list[str]:
    """Return the first values of each layer, of a state of all layers."""
    if layers == 1:
        return [state]
    return c.emit_many("Split", [state], layers, axis=0, num_outputs=layers)


#: Weights of the inputs, of the state, the biases, and the projection of the state, as ONNX has
#: them: for each direction, along the first axis.
_Weights = tuple[Array, Array, Array | None, Array | None]


def _weights(
    c: Operation, kind: str, layers: int, directions: int, *, is_projected: bool
) -> list[_Weights]:
    """Return the weights of each layer.

    PyTorch lists them flat: for each layer and direction two matrices, perhaps two biases, and
    perhaps a projection.
    """
    has_biases = c.get("has_biases", True)
    each = (4 if has_biases else 2) + is_projected
    listed = [_constant(c, name) for name in c.tensors("params")]
    if len(listed) != layers * directions * each:
        c.refuse(f"has {len(listed)} weights, not {layers * directions * each}")
    result: list[_Weights] = []
    for layer in range(layers):
        start = layer * directions * each
        cells = [listed[start + d * each : start + (d + 1) * each] for d in range(directions)]
        w, r = (np.stack([_reordered(cell[i], kind) for cell in cells]) for i in (0, 1))
        biases = [
            np.concatenate([_reordered(cell[2], kind), _reordered(cell[3], kind)])
            for cell in cells
            if has_biases
        ]
        projection = np.stack([cell[-1] for cell in cells]) if is_projected else None
        result.append((w, r, np.stack(biases) if biases else None, projection))
    return result


def _projected(
    c: Operation, x: str, weights: _Weights, initial: Sequence[str], lengths: Sequence[int]
) -> list[str]:
    """Return what an LSTM gives that projects its state, which ONNX's does not: step by step.

    ``x`` is [length, batch, inputs]; the results are those of ONNX's LSTM.
    """
    w, r, b, projection = weights
    assert projection is not None
    (length, batch), cells, size = lengths, projection.shape[2], projection.shape[1]
    steps, finals = list[list[str]](), list[tuple[str, str]]()
    for way in range(len(w)):
        begin = [c.integers([way]), c.integers([way + 1]), c.integers([0])]
        hidden, cell = (
            c.reshape(c.emit("Slice", state, *begin), (batch, width))
            for state, width in zip(initial, (size, cells), strict=True)
        )
        gates = c.emit("MatMul", x, c.constant(w[way].T))
        if b is not None:
            gates = c.emit("Add", gates, c.constant(sum(np.split(b[way], 2))))
        own = [""] * length
        for step in range(length) if way == 0 else reversed(range(length)):
            now = c.emit("Gather", gates, c.constant(step, "int64"), axis=0)
            now = c.emit("Add", now, c.emit("MatMul", hidden, c.constant(r[way].T)))
            i, o, f, g = c.emit_many("Split", [now], 4, axis=1, num_outputs=4)
            kept = c.emit("Mul", c.emit("Sigmoid", f), cell)
            added = c.emit("Mul", c.emit("Sigmoid", i), c.emit("Tanh", g))
            cell = c.emit("Add", kept, added)
            shown = c.emit("Mul", c.emit("Sigmoid", o), c.emit("Tanh", cell))
            hidden = c.emit("MatMul", shown, c.constant(projection[way].T))
            own[step] = hidden
        steps.append(own)
        finals.append((hidden, cell))
    rows = [c.reshape(own[step], (1, 1, batch, size)) for step in range(length) for own in steps]
    joined = c.reshape(c.emit("Concat", *rows, axis=0), (length, len(w), batch, size))
    lasts = (
        c.emit("Concat", *(c.reshape(part, (1, batch, width)) for part in parts), axis=0)
        for parts, width in zip(zip(*finals, strict=True), (size, cells), strict=True)
    )
    return [joined, *lasts]


def _constant(c: Operation, name: str) -> Array:
    value = c.constant_value(name)
    if value is None:
        c.refuse(f"has the weights {name!r} computed at run time", "only constants are supported")
    return value


def _reordered(weights: Array, kind: str) -> Array:
    """Return the blocks of gates, along the first axis, in ONNX's order."""
    gates = _GATES[kind]
    blocks = np.split(weights, len(gates))
    return np.concatenate([blocks[gate] for gate in gates])
