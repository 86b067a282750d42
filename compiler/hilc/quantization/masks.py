"""Masks of ONNX models: scores that are minus infinity before a softmax, where a mask says so.

No scale spans them and the other scores. They become the least of the integers, whose range
reaches so far below the largest score of each row that a softmax gives all masked ones together
less than half a step: a 256th, or of 16 bits a 32768th.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from hilc.ir import Array
from hilc.quantization.settings import MASKED, Activations
from hilc.support.identifiers import unused


@dataclass(frozen=True)
class Mask:
    """A choice between scores and a number that masks them."""

    #: The scores, and those that are left.
    scores: str
    kept: str
    #: Name of the constant that replaces the others.
    fill: str


def with_choices(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[Mask]]:
    """Return a model in which masks that are added choose instead, and its masks.

    A choice computes what the sum does, as the exponential of what is masked is 0.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    masks = [mask for node in list(made.graph.node) for mask in _choice(made.graph, node)]
    return made, masks


def _choice(graph: onnx.GraphProto, node: onnx.NodeProto) -> Iterable[Mask]:
    """Make a sum with a mask a choice; yield the mask of a choice."""
    if node.domain or node.op_type not in ("Add", "Where"):
        return
    if node.op_type == "Add":
        _choose(graph, node)
    if node.op_type != "Where":
        return
    constants = _constants(graph)
    for scores, fill in (node.input[1:], reversed(node.input[1:])):
        value = constants.get(fill)
        if value is not None and scores not in constants and (value <= MASKED).all():
            yield Mask(scores, node.output[0], fill)


def _choose(graph: onnx.GraphProto, node: onnx.NodeProto) -> None:
    """Make a sum a choice, if one of its operands is a mask."""
    constants = _constants(graph)
    for scores, mask in (node.input, reversed(node.input)):
        value = constants.get(mask)
        if value is None or scores in constants or not (hidden := value <= MASKED).any():
            continue
        place = list(graph.node).index(node)
        rest = np.where(hidden, np.float32(0), value)
        if rest.any():
            moved = unused(f"{node.output[0]}_moved", _names(graph))
            given = [scores, _add(graph, f"{mask}_rest", rest)]
            graph.node.insert(place, helper.make_node("Add", given, [moved], name=moved))
            scores = moved
        fill = _add(graph, f"{mask}_fill", np.array(-np.inf, np.float32))
        node.op_type = "Where"
        node.input[:] = [_add(graph, f"{mask}_hidden", hidden), fill, scores]
        return


def _constants(graph: onnx.GraphProto) -> dict[str, Array]:
    """Return the constants of floats."""
    found = {t.name: t for t in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            found[node.output[0]] = node.attribute[0].t
    inputs = {value.name for value in graph.input}
    return {
        name: numpy_helper.to_array(tensor)
        for name, tensor in found.items()
        if tensor.data_type == onnx.TensorProto.FLOAT and name not in inputs
    }


def _names(graph: onnx.GraphProto) -> set[str]:
    made = {name for node in graph.node for name in (*node.input, *node.output)}
    return made | {t.name for t in graph.initializer} | {v.name for v in graph.input}


def _add(graph: onnx.GraphProto, base: str, value: Array) -> str:
    name: str = unused(base, _names(graph))
    graph.initializer.append(numpy_helper.from_array(value, name))
    return name


#: The least and the largest number of a tensor.
Range = tuple[np.float32, np.float32]


def ranges_of(
    run: Callable[[Sequence[str]], Iterable[Sequence[Array]]],
    masks: Sequence[Mask],
    kind: Activations,
) -> dict[str, Range]:
    """Return the range of each input and output of a mask.

    ``run`` computes tensors, by their names, of all samples; ``kind`` is the type of activations.
    """
    low, high = [np.inf] * len(masks), [-np.inf] * len(masks)
    names = [name for mask in masks for name in (mask.scores, mask.kept)]
    for values in run(names):
        for place, (scores, kept) in enumerate(zip(values[::2], values[1::2], strict=True)):
            rows = kept.max(-1)
            rows = rows[rows > MASKED]
            if rows.size:
                reach = rows.min() - kind.reach(kept.shape[-1])
                low[place] = min(low[place], scores[scores > MASKED].min(), reach)
                high[place] = max(high[place], scores.max())
    return {
        name: (np.float32(least), np.float32(most))
        for mask, least, most in zip(masks, low, high, strict=True)
        for name in (mask.scores, mask.kept)
        if least < most
    }


def filled(model: onnx.ModelProto, masks: Sequence[Mask], ranges: Mapping[str, Range]) -> Any:
    """Return a model in which finite numbers mask: the least of the ranges."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for mask in masks:
        if mask.kept in ranges:
            fill = _add(made.graph, f"{mask.fill}_least", np.array(ranges[mask.kept][0]))
            node = next(n for n in made.graph.node if mask.kept in n.output)
            node.input[:] = [fill if name == mask.fill else name for name in node.input]
    return made
