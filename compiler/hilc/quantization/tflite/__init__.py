"""TFLite files in floats: quantized as TFLite's integer kernels compute, without TensorFlow.

The file is rewritten operator by operator (:data:`~hilc.quantization.tflite.rules.RULES`). An
operator without a rule stays in float32, between DEQUANTIZE and QUANTIZE, and so does one that is
excluded, one that has values which are not finite, and one that only copies elements from one float
layer to another. Inputs and outputs of the model stay float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hilc.errors import InputError, ModelError
from hilc.frontends import load_model
from hilc.frontends.tflite.schema import OPERATORS
from hilc.ir import FloatLayer
from hilc.ops import OPS
from hilc.quantization.samples import Sample
from hilc.quantization.settings import Settings
from hilc.quantization.source import Quantized, Source
from hilc.quantization.tflite.forms import MASKING, Forms, hidden_ranges
from hilc.quantization.tflite.model import Layers, Model, operand
from hilc.quantization.tflite.ranges import Observed, observe
from hilc.quantization.tflite.rules import RULES, Rule
from hilc.quantization.tflite.writer import Writer
from hilc.support.suggest import nearest
from hilc.writers.tflite import for_reference
from hilc.writers.tflite_file import FileOperator

#: Suffix of the files that :func:`quantize` makes.
SUFFIX = ".tflite"
#: Calibrators that are implemented here.
CALIBRATORS = ("minmax", "percentile")
#: Operators that change much where an operand at these positions is small.
_OF_SMALL_NUMBERS = {"RSQRT": (0,), "LOG": (0,), "SQRT": (0,), "DIV": (1,)}
#: Operators that make such operands.
_SUMS = ("ADD", "MAXIMUM", "MEAN", "SUM")


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
    plain, _ = for_reference(source.resolved)
    model = Model(plain, load_model(plain, source.graph.name))
    layers = _layers(model, settings)
    names, scores = _activations(model, layers), _scores(model, layers)
    observed = observe(model.graph, names, scores, samples, settings, progress)
    _leave_infinite(model, layers, observed)
    forms = Forms(model, layers, observed, settings)
    while refused := forms.refused():
        for place, reason in refused.items():
            layers.leave(place, reason)
        forms = Forms(model, layers, observed, settings)
    if not layers.integers:
        raise ModelError("the model has no layer that could be quantized", "compile it as it is")
    writer = Writer(model, layers, forms, settings.activations)
    floats = tuple(_float_layers(model, layers))
    # What is excluded stays in floats, so there is nothing to compare with it.
    return Quantized(plain, writer.written(), {}, writer.pairs, floats)


def _excluded(model: Model, settings: Settings) -> set[int]:
    """Return the places of the operators that the user excludes by the name of an output."""
    places = {
        model.names[index]: place
        for place, operator in enumerate(model.operators)
        for index in operator.outputs
    }
    for name in settings.exclude:
        if name not in places:
            raise InputError(
                f"there is no layer {name!r} to exclude{nearest(name, places)}",
                "name a layer by its output tensor, as the report does",
            )
    return {places[name] for name in settings.exclude}


def _layers(model: Model, settings: Settings) -> Layers:
    """Return the operators that have a rule for the type of activations, and the others."""
    layers, excluded, precise = Layers(), _excluded(model, settings), _precise(model)
    for place, operator in enumerate(model.operators):
        if not model.reals((*operator.inputs, *operator.outputs)):
            continue
        rule = RULES.get(operator.code)
        if place in excluded:
            layers.floats[place] = "it is excluded"
        elif rule is None or settings.activations not in rule.versions:
            layers.floats[place] = f"{model.code(place)} has no {settings.activations} kernel here"
        elif place in precise:
            layers.floats[place] = f"{precise[place]} needs the relative precision of its result"
        elif reason := _refusal(model, operator, rule):
            layers.floats[place] = reason
        else:
            layers.integers[place] = rule
    return layers


def _precise(model: Model) -> dict[int, str]:
    """Return the operators whose small results have a large effect, by the operator that needs
    them: sums, and what is added to them, in front of a reciprocal, a root or a logarithm.
    """
    makers = {i: p for p, operator in enumerate(model.operators) for i in operator.outputs}
    found: dict[int, str] = {}
    for operator in model.operators:
        pending = [operator.inputs[i] for i in _OF_SMALL_NUMBERS.get(operator.code, ())]
        while pending:
            place = makers.get(pending.pop())
            if place is None or place in found:
                continue
            maker = model.operators[place]
            rule = RULES.get(maker.code)
            if maker.code in _SUMS or (rule is not None and rule.copies):
                found[place] = operator.code
                pending += model.reals(maker.inputs)
    return found


def _refusal(model: Model, operator: FileOperator, rule: Rule) -> str:
    """Return why an operator with a rule has no integer form; empty if it has one."""
    if not any(map(model.is_real, operator.inputs)):
        return "it reads no float32 operand"
    if rule.weights is None:
        return ""
    weights = rule.weights
    if model.constant(operator.inputs[weights.weights]) is None:
        return "its weights are computed"
    if operand(operator, weights.bias) >= 0 and model.bias(operator, rule) is None:
        return "its bias is computed"
    return ""


def _activations(model: Model, layers: Layers) -> set[str]:
    """Return the names of the tensors whose ranges matter."""
    return {
        model.names[i]
        for place in layers.integers
        for i in model.reals((*model.operators[place].inputs, *model.operators[place].outputs))
    }


def _scores(model: Model, layers: Layers) -> set[str]:
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
            if operator.code in MASKING:
                found.add(model.names[index])
            if not layers.integers[maker].copies or operator.code in MASKING:
                break
            index = next(iter(model.reals(operator.inputs)), -1)
    return found


def _leave_infinite(model: Model, layers: Layers, observed: Observed) -> None:
    """Leave operators in floats whose values no scale spans, masks aside."""
    hidden = hidden_ranges(model, layers, observed)
    for place in list(layers.integers):
        operator = model.operators[place]
        for index in model.reals((*operator.inputs, *operator.outputs)):
            if index not in hidden and not observed.ranges[model.names[index]].is_finite:
                layers.leave(place, f"{model.names[index]!r} is not finite in a sample")
                break


def _float_layers(model: Model, layers: Layers) -> Iterable[FloatLayer]:
    for place, reason in layers.floats.items():
        code = model.code(place)
        row = OPERATORS[code]
        name = row.op or code
        if name in OPS and (OPS[name].conversion or OPS[name].copies_elements or OPS[name].view):
            continue
        if row.on_resources:
            continue
        yield FloatLayer(model.names[model.operators[place].outputs[0]], name, reason)
