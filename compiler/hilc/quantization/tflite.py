"""TFLite files in floats: quantized as TFLite's integer kernels compute, without TensorFlow.

The file is rewritten operator by operator (:data:`~hilc.quantization.tflite_rules.RULES`). An
operator without a rule stays in float32, between DEQUANTIZE and QUANTIZE, and so does one that is
excluded, one that has values which are not finite, and one that only copies elements from one float
layer to another. Inputs and outputs of the model stay float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hilc.errors import InputError, ModelError
from hilc.frontends import load_model
from hilc.frontends.tflite.reader import tensor_names
from hilc.frontends.tflite.schema import OPERATORS, custom_name
from hilc.ir import Array, FloatLayer, Graph
from hilc.ops import OPS
from hilc.quantization.marks import MARK, MARK_TEXT
from hilc.quantization.samples import Sample
from hilc.quantization.settings import MASKED, Settings
from hilc.quantization.source import Quantized, Source
from hilc.quantization.tflite_ranges import Observed, Range, observe, range_of, union
from hilc.quantization.tflite_rules import RULES, Rule
from hilc.quantization.tflite_scales import (
    Form,
    form_of,
    quantized,
    quantized_bias,
    quantized_weights,
    weight_form,
)
from hilc.support.identifiers import unused
from hilc.support.suggest import nearest
from hilc.writers.tflite import for_reference
from hilc.writers.tflite_contents import contents
from hilc.writers.tflite_file import FileOperator, FileTensor, ModelBuilder

#: Suffix of the files that :func:`quantize` makes.
SUFFIX = ".tflite"
#: Calibrators that are implemented here.
CALIBRATORS = ("minmax", "percentile")
#: Versions of the conversions in TFLite's registry, by the type of integers.
_QUANTIZE = {"int8": 1, "int16": 2}
_DEQUANTIZE = {"int8": 2, "int16": 3}
#: Operators whose results may be scores that a mask hides.
_MASKING = ("ADD", "SUB", "SELECT", "SELECT_V2")


def quantize(
    source: Source, samples: Sequence[Sample], settings: Settings, progress: Any
) -> Quantized:
    """Return the file in floats, and quantized, calibrated with the samples."""
    settings.require_calibrator(CALIBRATORS, "the quantizer of TFLite models")
    if settings.activations == "uint8":
        raise InputError(
            "TFLite's integer kernels compute int8 or int16 activations, not uint8",
            "choose int8 or int16: --activations int8, in Python activations='int8'",
        )
    plain, _ = for_reference(source.data)
    model = _Model(plain, load_model(plain, source.graph.name))
    excluded = _excluded(model, settings)
    layers = _layers(model, settings, {place for places in excluded.values() for place in places})
    observed = observe(
        model.graph,
        _activations(model, layers),
        _scores(model, layers),
        samples,
        settings,
        progress,
    )
    _leave_infinite(model, layers, observed)
    groups = _groups(model, layers)
    _leave_copies(model, layers, groups)
    if not layers.integers:
        raise ModelError("the model has no layer that could be quantized", "compile it as it is")
    floats = tuple(_float_layers(model, layers))
    writer = _Writer(model, layers, settings, _forms(model, layers, groups, observed, settings))
    # What is excluded stays in floats, so there is nothing to compare with it.
    return Quantized(plain, writer.written(), {}, writer.pairs, floats)


# The file -----------------------------------------------------------------------------------------


class _Model:
    """A file as a builder, and as the graph that is read from it."""

    def __init__(self, data: bytes, graph: Graph) -> None:
        self.graph = graph
        self.file = contents(data)
        #: Names of the main subgraph's tensors, which are those of the graph.
        self.names = tensor_names(data)
        for tensor, name in zip(self.file.tensors, self.names, strict=True):
            tensor.name = name
        self._keep_resolved()

    @property
    def operators(self) -> list[FileOperator]:
        return self.file.operators

    def code(self, place: int) -> str:
        """Return the operator's name in messages."""
        operator = self.operators[place]
        return custom_name(operator.custom_code) if operator.custom_code else operator.code

    def constant(self, index: int) -> Array | None:
        """Return the value of a float constant; None for other tensors."""
        if index < 0:
            return None
        tensor = self.graph.tensors.get(self.names[index])
        return None if tensor is None or not tensor.element.is_real else tensor.data

    def is_real(self, index: int) -> bool:
        """Return whether a tensor is float32."""
        return index >= 0 and self.file.tensors[index].dtype == "float32"

    def reals(self, indices: Iterable[int]) -> list[int]:
        """Return those that are float32 and computed at run time."""
        return [i for i in indices if self.is_real(i) and self.constant(i) is None]

    def _keep_resolved(self) -> None:
        """Let constants that the reader resolved (float16, sparse, encoded) be constants of the
        file, without the operators that make them.
        """
        kept = []
        for operator in self.operators:
            made = [self.graph.tensors.get(self.names[i]) for i in operator.outputs]
            if made and all(t is not None and t.is_constant for t in made):
                for index, tensor in zip(operator.outputs, made, strict=True):
                    assert tensor is not None
                    self.file.tensors[index].data = tensor.data
            else:
                kept.append(operator)
        self.file.operators = kept


@dataclass
class _Layers:
    """What becomes of each operator, by its place in the file."""

    integers: dict[int, Rule] = field(default_factory=dict)
    #: Why an operator with float operands stays in floats.
    floats: dict[int, str] = field(default_factory=dict)

    def leave(self, place: int, reason: str) -> None:
        """Let an operator stay in floats."""
        del self.integers[place]
        self.floats[place] = reason


def _excluded(model: _Model, settings: Settings) -> dict[str, list[int]]:
    """Return the places of the operators that the user excludes, by the name given: that of an
    output.
    """
    places: dict[str, list[int]] = {}
    for place, operator in enumerate(model.operators):
        for index in operator.outputs:
            places.setdefault(model.names[index], []).append(place)
    for name in settings.exclude:
        if name not in places:
            raise InputError(
                f"there is no layer {name!r} to exclude{nearest(name, places)}",
                "name a layer by its output tensor, as the report does",
            )
    return {name: places[name] for name in settings.exclude}


def _layers(model: _Model, settings: Settings, excluded: set[int]) -> _Layers:
    """Return the operators that have a rule for the type of activations, and the others."""
    layers = _Layers()
    for place, operator in enumerate(model.operators):
        if not model.reals((*operator.inputs, *operator.outputs)):
            continue
        rule = RULES.get(operator.code)
        if place in excluded:
            layers.floats[place] = "it is excluded"
        elif rule is None or settings.activations not in rule.versions:
            layers.floats[place] = f"{model.code(place)} has no {settings.activations} kernel here"
        elif reason := _refusal(model, operator, rule):
            layers.floats[place] = reason
        else:
            layers.integers[place] = rule
    return layers


def _refusal(model: _Model, operator: FileOperator, rule: Rule) -> str:
    """Return why an operator with a rule has no integer form; empty if it has one."""
    reals = model.reals(operator.inputs)
    if not reals:
        return "it reads no float32 activations"
    if rule.weights is None:
        return ""
    weights = rule.weights
    if model.constant(operator.inputs[weights.weights]) is None:
        return "its weights are computed"
    if _operand(operator, weights.bias) >= 0 and _bias(model, operator, rule) is None:
        return "its bias is computed"
    return ""


def _operand(operator: FileOperator, position: int) -> int:
    return operator.inputs[position] if position < len(operator.inputs) else -1


def _bias(model: _Model, operator: FileOperator, rule: Rule) -> Array | None:
    assert rule.weights is not None
    return model.constant(_operand(operator, rule.weights.bias))


def _activations(model: _Model, layers: _Layers) -> set[str]:
    """Return the names of the tensors whose ranges matter."""
    return {
        model.names[i]
        for place in layers.integers
        for i in model.reals((*model.operators[place].inputs, *model.operators[place].outputs))
    }


def _scores(model: _Model, layers: _Layers) -> set[str]:
    """Return the names of the operands of a SOFTMAX that a mask may hide elements of."""
    makers = {i: p for p, operator in enumerate(model.operators) for i in operator.outputs}
    found = set()
    for place in layers.integers:
        operator = model.operators[place]
        if operator.code != "SOFTMAX":
            continue
        index = operator.inputs[0]
        while (maker := makers.get(index)) in layers.integers:
            operator = model.operators[maker]
            if operator.code in _MASKING:
                found.add(model.names[index])
            if not layers.integers[maker].copies or operator.code in _MASKING:
                break
            index = model.reals(operator.inputs)[0]
    return found


def _leave_infinite(model: _Model, layers: _Layers, observed: Observed) -> None:
    """Leave operators in floats whose values no scale spans, masks aside."""
    hidden = _hidden(model, layers, observed)
    for place in list(layers.integers):
        operator = model.operators[place]
        for index in model.reals((*operator.inputs, *operator.outputs)):
            if index not in hidden and not observed.ranges[model.names[index]].is_finite:
                layers.leave(place, f"{model.names[index]!r} is not finite in a sample")
                break


def _hidden(model: _Model, layers: _Layers, observed: Observed) -> dict[int, Range]:
    """Return the ranges of masked scores, and of the operands that mask them."""
    found: dict[int, Range] = {}
    for place in layers.integers:
        operator = model.operators[place]
        for index in operator.outputs:
            limits = observed.masked.get(model.names[index])
            if limits is None:
                continue
            found[index] = limits
            shared = layers.integers[place].shared
            for each in operator.inputs:
                if not model.is_real(each):
                    continue
                value = model.constant(each)
                seen = range_of(value) if value is not None else observed.ranges[model.names[each]]
                if seen.low <= MASKED:
                    # What is added has to bring the largest score to the lowest number.
                    low = limits.low if shared else limits.low - limits.high
                    found[each] = Range(low, max(0.0, seen.high if np.isfinite(seen.high) else 0))
    return found


# Quantizations ------------------------------------------------------------------------------------


class _Groups:
    """Sets of tensors with one quantization."""

    def __init__(self) -> None:
        self._parents: dict[int, int] = {}

    def root(self, index: int) -> int:
        """Return the representative of a tensor's set."""
        while (parent := self._parents.setdefault(index, index)) != index:
            index = parent
        return index

    def join(self, indices: Sequence[int]) -> None:
        """Make one set of those of several tensors."""
        for index in indices[1:]:
            self._parents[self.root(index)] = self.root(indices[0])


def _groups(model: _Model, layers: _Layers) -> _Groups:
    groups = _Groups()
    for place, rule in layers.integers.items():
        operator = model.operators[place]
        if rule.shared:
            groups.join(model.reals((*operator.inputs, *operator.outputs)))
    return groups


def _leave_copies(model: _Model, layers: _Layers, groups: _Groups) -> None:
    """Leave operators in floats that copy elements which no integer layer computes or reads."""
    computed = {
        groups.root(index)
        for place, rule in layers.integers.items()
        if not rule.copies
        for index in _activation_operands(model, place, rule)
    }
    for place, rule in list(layers.integers.items()):
        operator = model.operators[place]
        own = model.reals((*operator.inputs, *operator.outputs))
        if rule.copies and groups.root(own[0]) not in computed:
            layers.leave(place, "it copies elements between float layers")


def _activation_operands(model: _Model, place: int, rule: Rule) -> list[int]:
    """Return the activations that an operator reads and computes."""
    operator = model.operators[place]
    inputs = operator.inputs if rule.weights is None else [operator.inputs[rule.weights.image]]
    return model.reals((*inputs, *operator.outputs))


def _forms(
    model: _Model, layers: _Layers, groups: _Groups, observed: Observed, settings: Settings
) -> dict[int, Form]:
    """Return the quantization of each activation of an integer layer."""
    hidden = _hidden(model, layers, observed)
    members: dict[int, set[int]] = {}
    limits: dict[int, list[Range]] = {}
    fixed: dict[int, set[Form | None]] = {}
    computed: set[int] = set()
    for place, rule in layers.integers.items():
        operator = model.operators[place]
        for index in _activation_operands(model, place, rule):
            members.setdefault(groups.root(index), set()).add(index)
        for index in model.reals(operator.outputs):
            computed.add(index)
            if not rule.shared:
                fixed.setdefault(groups.root(index), set()).add(_fixed(rule, settings))
        if rule.shared:
            root = groups.root(model.reals(operator.outputs)[0])
            for index in operator.inputs:
                if model.is_real(index) and (value := model.constant(index)) is not None:
                    limits.setdefault(root, []).append(hidden.get(index, range_of(value)))
                    fixed.setdefault(root, set()).add(None)
    made: dict[int, Form] = {}
    for root, indices in members.items():
        # What the integer layers do not compute is quantized to what suits it.
        kinds = fixed.get(root, set()) | ({None} if indices - computed else set())
        (only, *more) = kinds or {None}
        ranges = [hidden.get(i, observed.ranges[model.names[i]]) for i in indices]
        form = only if only is not None and not more else None
        own = form or form_of(union([*ranges, *limits.get(root, [])]), settings.activations)
        made.update(dict.fromkeys(indices, own))
    return made


def _fixed(rule: Rule, settings: Settings) -> Form | None:
    given = rule.fixed.get(settings.activations)
    return None if given is None else Form((given[0],), (given[1],))


def _float_layers(model: _Model, layers: _Layers) -> Iterable[FloatLayer]:
    for place, reason in layers.floats.items():
        code = model.code(place)
        row = OPERATORS[code]
        name = row.op or code
        if name in OPS and (OPS[name].conversion or OPS[name].copies_elements or OPS[name].view):
            continue
        if row.on_resources:
            continue
        yield FloatLayer(model.names[model.operators[place].outputs[0]], name, reason)


# Writing ------------------------------------------------------------------------------------------


class _Writer:
    """The quantized file."""

    def __init__(
        self, model: _Model, layers: _Layers, settings: Settings, forms: Mapping[int, Form]
    ) -> None:
        self._model = model
        self._layers = layers
        self._settings = settings
        self._dtype = settings.activations
        self._forms = forms
        self._file = model.file
        self._given = [replace(tensor) for tensor in model.file.tensors]
        self._taken = set(model.names)
        self._made: list[FileOperator] = []
        self._constants: dict[tuple[int, str, Form], int] = {}
        #: The integers of each activation that also exists in floats, which keep their place.
        self._integers: dict[int, int] = {}
        #: The names of the integers of float tensors.
        self.pairs: dict[str, str] = {}

    def written(self) -> bytes:
        """Return the file; call it once."""
        operators = list(self._model.operators)
        floats = self._tensors_in_floats()
        for index in self._forms:
            self._integers[index] = self._declared(index, in_place=index not in floats)
            self.pairs[self._model.names[index]] = self._file.tensors[self._integers[index]].name
        made_by = {i for operator in operators for i in operator.outputs}
        for index in self._forms:
            if index not in made_by:
                self._convert("QUANTIZE", index, self._integers[index])
        for place, operator in enumerate(operators):
            rule = self._layers.integers.get(place)
            if rule is None:
                self._made.append(operator)
                for index in operator.outputs:
                    if index in self._forms:
                        self._convert("QUANTIZE", index, self._integers[index])
            else:
                self._write_layer(operator, rule, floats)
        self._file.operators = self._made
        self._file.metadata = {**self._file.metadata, MARK: MARK_TEXT.encode()}
        self._file.remove_unused()
        return self._file.build()

    def _tensors_in_floats(self) -> set[int]:
        """Return the activations that exist in floats: of the model's borders and float layers."""
        found = {*self._file.input_indices, *self._file.output_indices}
        found |= {i for i, tensor in enumerate(self._file.tensors) if tensor.variable}
        for place, operator in enumerate(self._model.operators):
            if place not in self._layers.integers:
                found |= {*operator.inputs, *operator.outputs}
        return found

    def _declared(self, index: int, *, in_place: bool) -> int:
        """Return the tensor of the integers of an activation."""
        tensor, form = self._file.tensors[index], self._forms[index]
        if not in_place:
            return self._new(tensor, self._dtype, form)
        tensor.dtype, tensor.scale, tensor.zero_point = self._dtype, form.scale, form.zero_point
        return index

    def _new(
        self, like: FileTensor, dtype: str, form: Form | None, data: Array | None = None
    ) -> int:
        name = unused(f"{like.name}_{dtype}", self._taken)
        self._taken.add(name)
        scale, zero_point, axis = form or ((), (), 0)
        self._file.tensors.append(
            replace(
                like, name=name, dtype=dtype, scale=scale, zero_point=zero_point, axis=axis,
                data=data, variable=False, sparsity=None,
            )
        )  # fmt: skip
        return len(self._file.tensors) - 1

    def _convert(self, code: str, source: int, target: int) -> None:
        version = (_QUANTIZE if code == "QUANTIZE" else _DEQUANTIZE)[self._dtype]
        self._made.append(FileOperator(code, (source,), (target,), version=version))

    def _write_layer(self, operator: FileOperator, rule: Rule, floats: set[int]) -> None:
        """Write an operator on integers, and the conversions of its results."""
        if rule.weights is not None:
            inputs = self._linear_inputs(operator, rule)
        else:
            inputs = [self._input(i, operator, rule) for i in operator.inputs]
        outputs, after = [], []
        fixed = _fixed(rule, self._settings)
        for index in operator.outputs:
            made = self._integers.get(index, index)
            if index in self._forms and fixed is not None and fixed != self._forms[index]:
                exact = self._new(self._given[index], self._dtype, fixed)
                after.append(("QUANTIZE", exact, made))
                outputs.append(exact)
            else:
                outputs.append(made)
            if index in self._forms and index in floats:
                after.append(("DEQUANTIZE", made, index))
        self._made.append(
            replace(
                operator,
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                version=max(operator.version, rule.versions[self._dtype]),
            )
        )
        for conversion in after:
            self._convert(*conversion)

    def _input(self, index: int, operator: FileOperator, rule: Rule) -> int:
        if index in self._forms:
            return self._integers[index]
        value = self._model.constant(index)
        if value is None:
            return index
        if rule.shared:
            form = next(self._forms[i] for i in operator.outputs if i in self._forms)
        else:
            form = form_of(self._constant_range(index, value, operator), self._dtype)
        return self._constant(index, self._dtype, form, quantized(value, form, self._dtype))

    def _constant_range(self, index: int, value: Array, operator: FileOperator) -> Range:
        """Return the range of a constant operand: as far as its effect on a mask reaches."""
        seen = range_of(value)
        if operator.code not in _MASKING or seen.low > MASKED:
            return seen
        form = self._forms[operator.outputs[0]]
        limits = np.iinfo(self._dtype)
        width = form.scale[0] * (int(limits.max) - int(limits.min))
        return Range(max(seen.low, -width), max(0.0, min(seen.high, width)))

    def _linear_inputs(self, operator: FileOperator, rule: Rule) -> list[int]:
        weights = rule.weights
        assert weights is not None
        inputs = list(operator.inputs)
        image = self._forms[inputs[weights.image]]
        value = self._model.constant(inputs[weights.weights])
        assert value is not None
        bias = _bias(self._model, operator, rule)
        form = weight_form(
            value, bias, weights.axis, image, self._dtype, per_channel=self._settings.per_channel
        )
        inputs[weights.image] = self._integers[inputs[weights.image]]
        inputs[weights.weights] = self._constant(
            inputs[weights.weights], "int8", form, quantized_weights(value, form)
        )
        if bias is not None:
            steps, sums = quantized_bias(bias, image, form, self._dtype)
            inputs[weights.bias] = self._constant(
                inputs[weights.bias], steps.dtype.name, sums, steps
            )
        return inputs

    def _constant(self, index: int, dtype: str, form: Form, data: Array) -> int:
        """Return the constant's integers, which layers with the same quantization share."""
        key = index, dtype, form
        if key not in self._constants:
            self._constants[key] = self._new(self._given[index], dtype, form, data)
        return self._constants[key]
