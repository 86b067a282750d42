"""Variables of loops that no iteration changes.

Converters pass whatever the body reads through the loop. A variable costs two buffers and a copy in
each iteration; as an operand behind the variables it is read where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hilc.ir import Graph, Node
from hilc.ops import OPS
from hilc.ops.control_flow import WhileAttributes


def loop_invariants(graph: Graph) -> Graph:
    """Return the graph with constant variables of its loops as operands behind the variables; what
    read them after the loop reads their first values.
    """
    nodes, instead = [], dict[str, str]()
    for node in graph.nodes:
        node = replace(node, inputs=tuple(instead.get(name, name) for name in node.inputs))
        control = OPS[node.op].control
        if control is not None and control.loops:
            fixed = _invariants(node, graph.results)
            instead |= {node.outputs[i]: node.inputs[i] for i in fixed}
            node = _without(node, fixed) if fixed else node
        nodes.append(node)
    if not instead:
        return graph
    tensors = {name: tensor for name, tensor in graph.tensors.items() if name not in instead}
    return graph.with_(tensors=tensors, nodes=tuple(nodes))


def _invariants(node: Node, outputs: Sequence[str]) -> list[int]:
    """Return the positions of the variables that neither body nor condition changes and that are no
    output of the graph. One variable remains in any case.
    """
    attributes = WhileAttributes.of(node)
    body = attributes.body
    updated = len(attributes.condition.outputs) - 1
    sources = {n.outputs[0]: n.inputs[0] for n in body.nodes if _is_copy(body, n)}
    found = [
        i
        for i, name in enumerate(body.outputs[: len(body.outputs) - updated])
        if sources.get(name, name) == body.inputs[i] and node.outputs[i] not in outputs
    ]
    return found[: len(node.outputs) - 1]


def _is_copy(body: Graph, node: Node) -> bool:
    """Return whether a node only renames an input."""
    if not OPS[node.op].view:
        return False
    source, output = (body.tensors[names[0]] for names in (node.inputs, node.outputs))
    return (source.shape, source.dtype) == (output.shape, output.dtype)


def _without(node: Node, fixed: Sequence[int]) -> Node:
    """Return the loop with the variables at these positions as operands behind the others."""
    count = len(node.outputs)
    variables = [i for i in range(count) if i not in fixed]
    order = [*variables, *fixed, *range(count, len(node.inputs))]
    attributes = WhileAttributes.of(node)
    condition, body = attributes.condition, attributes.body
    attributes = replace(
        attributes,
        condition=condition.with_(inputs=tuple(condition.inputs[i] for i in order)),
        body=body.with_(
            inputs=tuple(body.inputs[i] for i in order),
            outputs=tuple(body.outputs[i] for i in variables),
        ),
    )
    return replace(
        node,
        inputs=tuple(node.inputs[i] for i in order),
        outputs=tuple(node.outputs[i] for i in variables),
        attrs=attributes,
    )
