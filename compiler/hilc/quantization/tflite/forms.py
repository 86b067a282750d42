"""The quantization of each tensor of a TFLite file, and the constants as integers of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hilc.errors import ModelError
from hilc.frontends.tflite.reader import rounding_of_sums
from hilc.ir import Array, Node, Quant, Tensor
from hilc.ops.verify import check_node, describe
from hilc.quantization.settings import ACTIVATIONS, MASKED, Settings
from hilc.quantization.tflite.model import Layers, Model
from hilc.quantization.tflite.ranges import Observed, Range, range_of, union
from hilc.quantization.tflite.rules import Rule
from hilc.quantization.tflite.scales import (
    Form,
    bias_form,
    form_of,
    quantized,
    quantized_bias,
    quantized_weights,
    weight_form,
)
from hilc.writers.tflite_file import FileOperator

#: Operators whose results may be scores that a mask hides.
MASKING = ("ADD", "SUB", "SELECT", "SELECT_V2")


class Constant(NamedTuple):
    """A constant operand as integers."""

    form: Form
    data: Array


class _Groups:
    """Sets of tensors with one quantization."""

    def __init__(self, sets: Iterable[Sequence[int]]) -> None:
        self._parents: dict[int, int] = {}
        for indices in sets:
            for index in indices[1:]:
                self._parents[self.root(index)] = self.root(indices[0])

    def root(self, index: int) -> int:
        """Return the representative of a tensor's set."""
        while (parent := self._parents.setdefault(index, index)) != index:
            index = parent
        return index


class Forms:
    """The quantizations that the layers on integers compute with.

    On construction, operators that only copy elements from one float layer to another are left in
    floats.
    """

    def __init__(
        self, model: Model, layers: Layers, observed: Observed, settings: Settings
    ) -> None:
        self._model, self._layers = model, layers
        self._observed, self._settings = observed, settings
        self._hidden = hidden_ranges(model, layers, observed)
        self._groups = _Groups(
            model.reals((*operator.inputs, *operator.outputs))
            for operator, rule in self._integers()
            if rule.shared
        )
        self._leave_copies()
        #: The quantization of each activation, by its place among the file's tensors.
        self.activations = self._chosen()

    def fixed(self, rule: Rule) -> Form | None:
        """Return the only quantization of the results that the kernels compute; None for any."""
        given = rule.fixed.get(self._settings.activations)
        return None if given is None else Form((given[0],), (given[1],))

    def constants(self, operator: FileOperator, rule: Rule) -> dict[int, Constant]:
        """Return the float constants of a layer as integers, by the position of the operand."""
        if rule.weights is not None:
            return self._linear_constants(operator, rule)
        made = {}
        for position, index in enumerate(operator.inputs):
            value = self._model.constant(index)
            if value is None:
                continue
            if rule.shared:
                (form, *_) = (
                    self.activations[i] for i in operator.outputs if i in self.activations
                )
            else:
                form = form_of(self._constant_range(value, operator), self._settings.activations)
            made[position] = Constant(form, quantized(value, form, self._settings.activations))
        return made

    def refused(self) -> dict[int, str]:
        """Return the layers whose quantizations no kernel computes, with the reasons."""
        found = {}
        nodes = {node.outputs[0]: node for node in self._model.graph.nodes}
        for place, rule in self._layers.integers.items():
            operator = self._model.operators[place]
            node = nodes.get(self._model.names[operator.outputs[0]])
            if node is None:
                continue
            try:
                self._check(operator, rule, node)
            except ModelError as error:
                found[place] = error.fact.removeprefix(f"{describe(node)}: ")
        return found

    # Groups ---------------------------------------------------------------------------------------

    def _integers(self) -> Iterator[tuple[FileOperator, Rule]]:
        for place, rule in self._layers.integers.items():
            yield self._model.operators[place], rule

    def _leave_copies(self) -> None:
        """Leave operators in floats that copy elements which no integer layer computes or reads."""
        computed = {
            self._groups.root(index)
            for operator, rule in self._integers()
            if not rule.copies
            for index in self._read_and_made(operator, rule)
        }
        for place, rule in list(self._layers.integers.items()):
            operator = self._model.operators[place]
            (own, *_) = self._model.reals((*operator.inputs, *operator.outputs))
            if rule.copies and self._groups.root(own) not in computed:
                self._layers.leave(place, "it copies elements between float layers")

    def _read_and_made(self, operator: FileOperator, rule: Rule) -> list[int]:
        """Return the activations that an operator reads and computes."""
        inputs = operator.inputs
        if rule.weights is not None:
            inputs = (operator.inputs[rule.weights.image],)
        return self._model.reals((*inputs, *operator.outputs))

    def _chosen(self) -> dict[int, Form]:
        members: dict[int, set[int]] = {}
        #: By group: what its tensors come from, a fixed quantization or None for any.
        sources: dict[int, set[Form | None]] = {}
        limits: dict[int, list[Range]] = {}
        computed: set[int] = set()
        for operator, rule in self._integers():
            made = self._model.reals(operator.outputs)
            computed.update(made)
            for index in self._read_and_made(operator, rule):
                members.setdefault(self._groups.root(index), set()).add(index)
            if not rule.shared:
                for index in made:
                    sources.setdefault(self._groups.root(index), set()).add(self.fixed(rule))
                continue
            root = self._groups.root(made[0])
            for index in operator.inputs:
                value = None if rule.limits else self._model.constant(index)
                if value is not None:
                    limits.setdefault(root, []).append(self._hidden.get(index, range_of(value)))
                    sources.setdefault(root, set()).add(None)
        chosen: dict[int, Form] = {}
        for root, indices in members.items():
            kinds = sources.get(root, set()) | ({None} if indices - computed else set())
            (only, *others) = kinds or {None}
            form = None if others else only
            if form is None:
                ranges = [*map(self._range, indices), *limits.get(root, [])]
                form = form_of(union(ranges), self._settings.activations)
            chosen.update(dict.fromkeys(indices, form))
        return chosen

    def _range(self, index: int) -> Range:
        return self._hidden.get(index, self._observed.ranges[self._model.names[index]])

    # Constants ------------------------------------------------------------------------------------

    def _constant_range(self, value: Array, operator: FileOperator) -> Range:
        """Return the range of a constant operand; of a mask, as far as it has an effect."""
        seen = range_of(value)
        if operator.code not in MASKING or value.min() > MASKED:
            return seen
        kind = ACTIVATIONS[self._settings.activations]
        width = self.activations[operator.outputs[0]].scale[0] * (kind.high - kind.low)
        return Range(max(seen.low, -width), max(0.0, min(seen.high, width)))

    def _linear_constants(self, operator: FileOperator, rule: Rule) -> dict[int, Constant]:
        places, activations = rule.weights, self._settings.activations
        assert places is not None
        image = self.activations[operator.inputs[places.image]]
        weights = self._model.constant(operator.inputs[places.weights])
        assert weights is not None
        bias = self._model.bias(operator, rule)
        form = weight_form(
            weights, bias, places.axis, image, activations, per_channel=self._settings.per_channel
        )
        made = {places.weights: Constant(form, quantized_weights(weights, form))}
        if bias is not None:
            sums = bias_form(image, form)
            made[places.bias] = Constant(sums, quantized_bias(bias, sums, activations))
        return made

    # Checks ---------------------------------------------------------------------------------------

    def _check(self, operator: FileOperator, rule: Rule, node: Node) -> None:
        """Raise :class:`~hilc.errors.ModelError` for quantizations that the operator refuses."""
        graph, names = self._model.graph, self._model.names
        constants = self.constants(operator, rule)
        tensors = dict(graph.tensors)
        fixed = self.fixed(rule)
        for index in (*operator.inputs, *operator.outputs):
            if (form := self.activations.get(index)) is not None:
                made = fixed if fixed is not None and index in operator.outputs else form
                tensors[names[index]] = _integers_of(
                    tensors[names[index]], self._settings.activations, made
                )
        inputs = list(node.inputs)
        for position, constant in constants.items():
            name = f"{names[operator.inputs[position]]}:{position}"
            tensors[name] = _integers_of(
                replace(tensors[names[operator.inputs[position]]], name=name),
                constant.data.dtype.name,
                constant.form,
                constant.data,
            )
            inputs[position] = name
        ins = [tensors[name] if name else None for name in inputs]
        node = replace(node, inputs=tuple(inputs), rounding=rounding_of_sums(operator.code, ins))
        check_node(graph.with_(tensors=tensors, nodes=(node,)), node)


def _integers_of(tensor: Tensor, dtype: str, form: Form, data: Array | None = None) -> Tensor:
    return replace(
        tensor, dtype=dtype, quant=Quant(form.scale, form.zero_point, form.axis), data=data
    )


def hidden_ranges(model: Model, layers: Layers, observed: Observed) -> dict[int, Range]:
    """Return the ranges of masked scores, and of the operands that mask them."""
    found: dict[int, Range] = {}
    for place, rule in layers.integers.items():
        operator = model.operators[place]
        limits = observed.masked.get(model.names[operator.outputs[0]])
        if limits is None:
            continue
        found[operator.outputs[0]] = limits
        # What is added brings the largest score to the lowest number.
        low = limits.low if rule.shared else limits.low - limits.high
        for index in filter(model.is_real, operator.inputs):
            value = model.constant(index)
            seen = observed.ranges[model.names[index]] if value is None else range_of(value)
            if seen.low <= MASKED:
                high = seen.high if np.isfinite(seen.high) else 0.0
                found[index] = Range(low, max(0.0, high))
    return found
