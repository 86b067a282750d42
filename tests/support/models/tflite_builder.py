"""TFLite files for tests of operators, importer and references.

:class:`~hilc.writers.tflite_file.ModelBuilder` builds small files::

    builder = ModelBuilder()
    builder.input("x", (1, 8, 8, 3), "int8", scale=0.5, zero_point=3)
    builder.const("w", weights, scale=(0.1, 0.2), axis=0)
    builder.output("y", (1, 8, 8, 2), "int8", scale=0.7, zero_point=-4)
    builder.op("CONV_2D", ("x", "w", ""), ("y",), padding="SAME", stride_h=1, stride_w=1)
    data = builder.build()

Nothing is checked: a test may build what no converter would write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flatbuffers import flexbuffers

from hilc.frontends.tflite.schema import OPERATORS
from hilc.ir import Graph, Node
from hilc.writers.tflite_file import TYPES, ModelBuilder, Sparsity, option_field, options_table

__all__ = ["ModelBuilder", "Sparsity", "custom_codes", "file_of"]


def file_of(graph: Graph) -> bytes:
    """The file from which :func:`hilc.frontends.load_model` reads ``graph``.

    States are variables of the operators that update them, which start as a reset leaves them.
    """
    builder = ModelBuilder()
    unseen = {name for node in graph.nodes for name in _remembered(graph, node)}
    states = {s.after: s.name for s in graph.states if s.name not in unseen}
    for tensor in graph.tensors.values():
        if tensor.name in states or tensor.name in unseen:
            continue
        quant = tensor.quant
        numbers = (quant.scale, quant.zero_point, quant.axis) if quant else (None, 0, 0)
        builder.tensor(
            tensor.name,
            tensor.shape,
            tensor.dtype,
            *numbers,
            data=tensor.data,
            variable=tensor.name in states.values(),
        )
    builder.inputs(*graph.inputs)
    for name in graph.outputs:
        builder.output(name)
    for node in graph.nodes:
        # What the file says by the output's type alone.
        table = options_table(node.op)
        attrs = {
            n: v
            for n, v in vars(node.attrs).items()
            if v is not None and (n != "dtype" or option_field(table, n))
        }
        outputs = [name for name in node.outputs if name not in states and name not in unseen]
        inputs: Sequence[str] = [name for name in node.inputs if name not in unseen]
        if node.op == "UNIDIRECTIONAL_SEQUENCE_LSTM":
            # Without peepholes, a projection and layer normalization.
            *gates, hidden, cell = inputs
            inputs = [*gates[:9], *[""] * 3, *gates[9:], "", "", hidden, cell, *[""] * 4]
            attrs["activation"] = "TANH"
        if (code := custom_codes().get(node.op)) is not None:
            # What Python's operators of the signal library add for those of several types.
            kind = TYPES[graph.tensors[inputs[0]].dtype]
            options = flexbuffers.Dumps({"T": kind, **attrs} if code in _TYPED else attrs)
            builder.op("CUSTOM", inputs, outputs, custom_code=code, custom_options=bytes(options))
        else:
            builder.op(node.op, inputs, outputs, **attrs)
    return builder.build()


def _remembered(graph: Graph, node: Node) -> Iterator[str]:
    """The tensors of what an operator remembers, which no file has."""
    row = next((row for row in OPERATORS.values() if row.op == node.op), None)
    if row is not None and row.memory is not None:
        memories = row.memory(node, graph.ins(node))
        yield from node.inputs[-len(memories) :]
        if more := sum(memory.output is None for memory in memories):
            yield from node.outputs[-more:]


#: Custom operators whose options name the type that they work on.
_TYPED = ("SignalRfft", "SignalIrfft", "SignalOverlapAdd")


def custom_codes() -> dict[str, str]:
    """The codes of custom operators by the names of what they are read as."""
    return {
        row.op: code.removeprefix("CUSTOM '").removesuffix("'")
        for code, row in OPERATORS.items()
        if code.startswith("CUSTOM ")
    }
