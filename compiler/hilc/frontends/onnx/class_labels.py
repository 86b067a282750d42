"""Texts and dictionaries that classifiers return, as numbers and tensors.

scikit-learn's classifiers are exported with labels, which may be texts, and with a ZipMap, which
makes a dictionary of the scores. A microcontroller returns neither: a text becomes the number of
its class, in the order of the classes that the model states, and the scores stay the tensor that
they were. The texts are kept in the file's metadata, so that reports can name the classes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import onnx
from onnx import helper, numpy_helper

from hilc.ir import ClassLabels

#: Key of the file's metadata: a JSON object, the classes of each output.
_KEY = "hil.class_labels"
_STRING, _INT64 = onnx.TensorProto.STRING, onnx.TensorProto.INT64
#: For each attribute of texts, by operator, the attribute of the same numbers.
_NUMBERS = {
    ("TreeEnsembleClassifier", "classlabels_strings"): "classlabels_int64s",
    ("LinearClassifier", "classlabels_strings"): "classlabels_ints",
    ("SVMClassifier", "classlabels_strings"): "classlabels_ints",
    ("LabelEncoder", "keys_strings"): "keys_int64s",
    ("LabelEncoder", "values_strings"): "values_int64s",
    ("LabelEncoder", "default_string"): "default_int64",
}


def has_labels_to_number(model: onnx.ModelProto) -> bool:
    """Return whether an output is a text or a dictionary of scores."""
    return any(node.op_type == "ZipMap" for node in model.graph.node) or any(
        _is_text(value) for value in model.graph.output
    )


def number_labels(model: onnx.ModelProto) -> None:
    """Replace texts that the model returns by numbers of classes, and dictionaries by tensors.

    Inputs that are texts, and what the file does beside with texts, are left as they are: the
    reader refuses them.
    """
    graph = model.graph
    if any(_is_text(value) for value in graph.input) or not has_labels_to_number(model):
        return
    for node in graph.node:
        if node.op_type == "ZipMap":
            _keep_tensor(graph, node)
    outputs = [value for value in graph.output if _is_text(value)]
    if not outputs:
        return
    classes = _classes(graph)
    for node in graph.node:
        _number_node(node, classes)
    for tensor in graph.initializer:
        if tensor.data_type == _STRING:
            tensor.CopyFrom(_numbers(tensor, classes))
    for value in (*outputs, *(value for value in graph.value_info if _is_text(value))):
        value.type.tensor_type.elem_type = _INT64
    listed = {value.name: list(classes) for value in outputs}
    model.metadata_props.append(
        onnx.StringStringEntryProto(key=_KEY, value=json.dumps(listed, ensure_ascii=False))
    )


def class_labels(model: onnx.ModelProto) -> tuple[ClassLabels, ...]:
    """Return the texts of the classes whose numbers the model returns, by output."""
    outputs = {value.name for value in model.graph.output}
    for entry in model.metadata_props:
        if entry.key != _KEY:
            continue
        try:
            stated = json.loads(entry.value)
        except (ValueError, RecursionError):
            return ()
        return tuple(
            ClassLabels(name, tuple(labels))
            for name, labels in (stated.items() if isinstance(stated, dict) else ())
            if name in outputs
            and isinstance(labels, list)
            and all(isinstance(label, str) for label in labels)
        )
    return ()


def _is_text(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.elem_type == _STRING)


def _keep_tensor(graph: onnx.GraphProto, node: onnx.NodeProto) -> None:
    """Return the scores that a ZipMap makes a dictionary of, under the name of the dictionary."""
    node.op_type, node.domain = "Identity", ""
    del node.attribute[:]
    for value in graph.output:
        if value.name in node.output:
            value.type.Clear()
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT


def _classes(graph: onnx.GraphProto) -> dict[str, int]:
    """Return the number of each text that is returned: the classes in the stated order first."""
    lists: list[Iterable[bytes]] = [
        attribute.strings
        for node in graph.node
        for attribute in node.attribute
        if attribute.name in ("classlabels_strings", "values_strings", "keys_strings")
    ]
    lists += (tensor.string_data for tensor in _tensors(graph) if tensor.data_type == _STRING)
    numbers: dict[str, int] = {}
    for texts in lists:
        for text in texts:
            numbers.setdefault(_text(text), len(numbers))
    return numbers


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        yield from (attribute.t for attribute in node.attribute if attribute.HasField("t"))


def _number_node(node: onnx.NodeProto, classes: dict[str, int]) -> None:
    for attribute in node.attribute:
        numbers = _NUMBERS.get((node.op_type, attribute.name))
        if numbers == "default_int64":
            number = classes.get(_text(attribute.s), -1)
            attribute.CopyFrom(helper.make_attribute(numbers, number))
        elif numbers is not None:
            values = [classes[_text(text)] for text in attribute.strings]
            attribute.CopyFrom(helper.make_attribute(numbers, values))
        elif node.op_type == "Cast" and attribute.name == "to" and attribute.i == _STRING:
            attribute.i = _INT64
        elif attribute.HasField("t") and attribute.t.data_type == _STRING:
            attribute.t.CopyFrom(_numbers(attribute.t, classes))


def _numbers(tensor: onnx.TensorProto, classes: dict[str, int]) -> onnx.TensorProto:
    """Return a constant of texts as the numbers of their classes."""
    numbers = [classes[_text(text)] for text in tensor.string_data]
    array = numpy_helper.to_array(
        helper.make_tensor(tensor.name, _INT64, tuple(tensor.dims), numbers)
    )
    return numpy_helper.from_array(array, tensor.name)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
