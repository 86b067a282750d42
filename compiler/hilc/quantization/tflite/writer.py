"""Writing of the quantized TFLite file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hilc.ir import Array
from hilc.quantization.marks import MARK, MARK_TEXT
from hilc.quantization.tflite.forms import Forms
from hilc.quantization.tflite.model import Layers, Model
from hilc.quantization.tflite.rules import Rule
from hilc.quantization.tflite.scales import Form
from hilc.support.identifiers import unused
from hilc.writers.tflite_file import FileOperator, FileTensor

#: Versions of the conversions in TFLite's registry, by the type of integers.
_CONVERSIONS: Mapping[str, Mapping[str, int]] = {
    "QUANTIZE": {"int8": 1, "int16": 2},
    "DEQUANTIZE": {"int8": 2, "int16": 3},
}


class Writer:
    """The quantized file: integers where no float layer or border of the model needs floats."""

    def __init__(self, model: Model, layers: Layers, forms: Forms, dtype: str) -> None:
        self._model, self._layers, self._forms, self._dtype = model, layers, forms, dtype
        self._tensors = [replace(tensor) for tensor in model.file.tensors]
        self._names = set(model.names)
        self._made: list[FileOperator] = []
        self._constants: dict[tuple[int, str, Form], int] = {}
        self._floats = self._tensors_in_floats()
        #: The integers of each activation; those that also exist in floats keep their place.
        self._integers = {index: self._declared(index) for index in forms.activations}
        #: The names of the integers of float tensors.
        self.pairs = {
            model.names[index]: self._tensors[made].name for index, made in self._integers.items()
        }

    def written(self) -> bytes:
        """Return the file; call it once."""
        operators = self._model.operators
        computed = {i for operator in operators for i in operator.outputs}
        for index in self._integers.keys() - computed:
            self._convert("QUANTIZE", index, self._integers[index])
        for place, operator in enumerate(operators):
            if (rule := self._layers.integers.get(place)) is not None:
                self._write_layer(operator, rule)
                continue
            self._made.append(replace(operator))
            for index in operator.outputs:
                if index in self._integers:
                    self._convert("QUANTIZE", index, self._integers[index])
        metadata = {**self._model.file.metadata, MARK: MARK_TEXT.encode()}
        file = replace(
            self._model.file, tensors=self._tensors, operators=self._made, metadata=metadata
        )
        file.remove_unused()
        return file.build()

    def _tensors_in_floats(self) -> set[int]:
        """Return the tensors that exist in floats: of the model's borders and float layers."""
        file = self._model.file
        found = {*file.input_indices, *file.output_indices}
        found |= {i for i, tensor in enumerate(file.tensors) if tensor.variable}
        for place, operator in enumerate(self._model.operators):
            if place not in self._layers.integers:
                found |= {*operator.inputs, *operator.outputs}
        return found

    def _declared(self, index: int) -> int:
        """Return the tensor of the integers of an activation."""
        form = self._forms.activations[index]
        if index in self._floats:
            return self._new(index, self._dtype, form)
        tensor = self._tensors[index]
        tensor.dtype, tensor.scale, tensor.zero_point = self._dtype, form.scale, form.zero_point
        return index

    def _new(self, like: int, dtype: str, form: Form, data: Array | None = None) -> int:
        """Return a new tensor with the shape of one of the file's."""
        given = self._model.file.tensors[like]
        name = unused(f"{given.name}_{dtype}", self._names)
        self._names.add(name)
        self._tensors.append(
            FileTensor(
                name, given.shape, dtype, form.scale, form.zero_point, form.axis, data,
                given.signature, has_rank=given.has_rank,
            )
        )  # fmt: skip
        return len(self._tensors) - 1

    def _convert(self, code: str, source: int, target: int) -> None:
        version = _CONVERSIONS[code][self._dtype]
        self._made.append(FileOperator(code, (source,), (target,), version=version))

    def _write_layer(self, operator: FileOperator, rule: Rule) -> None:
        """Write an operator on integers, and the conversions of its results."""
        inputs = [self._integers.get(index, index) for index in operator.inputs]
        for position, constant in self._forms.constants(operator, rule).items():
            inputs[position] = self._constant(
                operator.inputs[position], constant.form, constant.data
            )
        outputs = [self._integers.get(index, index) for index in operator.outputs]
        fixed, conversions = self._forms.fixed(rule), []
        for position, index in enumerate(operator.outputs):
            if index not in self._integers:
                continue
            if fixed is not None and fixed != self._forms.activations[index]:
                # The kernel computes one quantization only, and the operators after it another.
                exact = self._new(index, self._dtype, fixed)
                conversions.append(("QUANTIZE", exact, outputs[position]))
                outputs[position] = exact
            if index in self._floats:
                conversions.append(("DEQUANTIZE", self._integers[index], index))
        version = max(operator.version, rule.versions[self._dtype])
        self._made.append(
            replace(operator, inputs=tuple(inputs), outputs=tuple(outputs), version=version)
        )
        for conversion in conversions:
            self._convert(*conversion)

    def _constant(self, index: int, form: Form, data: Array) -> int:
        """Return the constant's integers, which layers with the same quantization share."""
        key = index, data.dtype.name, form
        if key not in self._constants:
            self._constants[key] = self._new(index, data.dtype.name, form, data)
        return self._constants[key]
