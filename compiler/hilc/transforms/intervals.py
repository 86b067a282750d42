"""Interval analysis: the possible values of each element of a graph's integer tensors, for any
input.

Interval arithmetic on the operators' own arithmetic: a sum is least where each positive weight
meets the least input and each negative one the largest, and all later rounding is monotone. So the
ends of an interval are values that :mod:`hilc.interpreter` computes, including rounding, clamps and
padding. The analysis ignores dependencies between elements, so intervals may be too wide but never
too narrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hilc.ir import Graph, Node
from hilc.ops import OPS
from hilc.ops.traits import BOUNDED, Interval, any_value


def intervals(graph: Graph) -> dict[str, Interval]:
    """Return the interval of each int8 and uint8 tensor that the graph reads or computes, by name.

    Inputs, states, and whatever no rule is known for, may have every value of their type.
    """
    found: dict[str, Interval] = {}
    for name, tensor in graph.tensors.items():
        if tensor.data is not None and tensor.dtype in BOUNDED:
            found[name] = Interval(tensor.data, tensor.data)
    for name in graph.given:
        if graph.tensors[name].dtype in BOUNDED:
            found[name] = any_value(graph.tensors[name])
    for node in graph.nodes:
        outs = graph.outs(node)
        if any(out.dtype in BOUNDED for out in outs):
            made = zip(outs, _of_outputs(graph, node, found), strict=True)
            found |= ((out.name, interval) for out, interval in made if out.dtype in BOUNDED)
    return found


def _of_outputs(graph: Graph, node: Node, known: Mapping[str, Interval]) -> Sequence[Interval]:
    ins, outs = graph.ins(node), graph.outs(node)
    op = OPS[node.op]
    # An operand of a type without intervals is a constant index, or unknown.
    variable = [t for t in ins if t is not None and t.dtype not in BOUNDED and t.data is None]
    if op.bounds is None or variable:
        return [any_value(out) for out in outs]
    values: list[Interval | None] = []
    for tensor in ins:
        if tensor is None:
            values.append(None)
        elif tensor.dtype in BOUNDED:
            values.append(known[tensor.name])
        else:
            assert tensor.data is not None
            values.append(Interval(tensor.data, tensor.data))
    return op.bounds(op.reference, node, ins, outs, values)
