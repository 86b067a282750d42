"""Normalization of outputs: every output of a model becomes a tensor that an operator computes.

Converters write ``return y, y`` as one tensor listed twice, an input that is passed through as an
output, and a result that does not depend on the inputs as a constant. Here such an output becomes a
RESHAPE to its own shape, which the planner implements as a copy, or as nothing if the output may
share its source's buffer.
"""

from __future__ import annotations

from dataclasses import replace

from hilc.errors import UnsupportedError
from hilc.ir import Graph, Node
from hilc.ops.views import ReshapeAttributes
from hilc.support.identifiers import unused


def unalias_outputs(graph: Graph) -> Graph:
    """Return the graph with each output computed by a node, and listed once.

    An output that is named before, or that is an input or a state, is called after it and its own
    position, ``NAME_outputPOSITION``; a constant leaves its name to the output.

    Raise :class:`~hilc.errors.UnsupportedError` for a constant output without elements.
    """
    tensors, nodes = dict(graph.tensors), list(graph.nodes)
    # In the order in which they are listed.
    outputs, given = dict[str, None](), frozenset(graph.given)
    constants: dict[str, str] = {}
    index = max((node.index for node in nodes), default=-1)
    for position, name in enumerate(graph.outputs):
        source = tensors[name]
        output = name
        if name in given or name in outputs:
            output = unused(f"{name}_output{position}", tensors)
            tensors[output] = replace(source, name=output, data=None)
        elif source.is_constant:
            if not source.size:
                raise UnsupportedError(
                    f"the model's output {name!r}, {source.dtype}{list(source.shape)}, is a "
                    "constant without elements; each dimension of an output must be at "
                    "least 1",
                    "remove the output from the model",
                )
            constants[name] = unused(f"{name}_constant", tensors)
            tensors[constants[name]] = replace(source, name=constants[name])
            tensors[name] = replace(source, data=None)
            name = constants[name]
        if output != name:
            index += 1
            attrs = ReshapeAttributes(new_shape=source.shape)
            nodes.append(Node("RESHAPE", (name,), (output,), attrs, index))
        outputs[output] = None
    if constants:
        computed = len(graph.nodes)
        nodes[:computed] = [
            replace(node, inputs=tuple(constants.get(name, name) for name in node.inputs))
            for node in nodes[:computed]
        ]
    return graph.with_(tensors=tensors, nodes=tuple(nodes), outputs=tuple(outputs))
