"""From a file's bytes to a checked model: what it refers to beside it is read into it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from hilc.errors import ModelError, UnsupportedError
from hilc.frontends.onnx.class_labels import number_labels
from hilc.support.inputs import MAX_FILE_BYTES

_HINT = "export the model again"


def load(data: bytes, folder: Path | None) -> onnx.ModelProto:
    """Return the model with all of its tensors' data, checked by ONNX's own checker.

    Raise :class:`~hilc.errors.ModelError` if the checker rejects it.
    """
    model = parse(data)
    _read_external(model, folder)
    number_labels(model)
    _refuse_kinds(model.graph)
    try:
        with _complete(model.graph):
            onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError) as error:
        raise ModelError(
            f"ONNX's checker rejects the model: {' '.join(str(error).split())}", _HINT
        ) from error
    return model


@contextmanager
def _complete(graph: onnx.GraphProto) -> Iterator[None]:
    """Give inputs and outputs a shape, and outputs a type, while ONNX's checker runs.

    The checker requires both. The operators give those of outputs, and the user states the shapes
    of inputs.
    """
    values = [*graph.input, *graph.output]
    stated = [value.SerializeToString() for value in values]
    for value in graph.input:
        if value.type.WhichOneof("value") is None:
            raise ModelError(f"the input {value.name!r} has no type", _HINT)
    for value in graph.output:
        if not value.type.tensor_type.elem_type:
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    for value in values:
        tensor = value.type.tensor_type
        if not tensor.HasField("shape"):
            tensor.shape.SetInParent()
    try:
        yield
    finally:
        for value, data in zip(values, stated, strict=True):
            value.ParseFromString(data)


def parse(data: bytes) -> onnx.ModelProto:
    """Return the model of a file's bytes.

    Raise :class:`~hilc.errors.ModelError` for a damaged file.
    """
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise ModelError(
            f"the ONNX file is damaged: {error}", "it may be truncated: copy or export it again"
        ) from error
    return model


# Kinds of values ----------------------------------------------------------------------------------


def _refuse_kinds(graph: onnx.GraphProto) -> None:
    """Raise for inputs and outputs that are no tensors, and for sparse constants."""
    for role, values in (("input", graph.input), ("output", graph.output)):
        for value in values:
            kind = value.type.WhichOneof("value")
            if kind not in ("tensor_type", None):
                raise UnsupportedError(
                    f"the {role} {value.name!r} is of kind {str(kind).removesuffix('_type')}; only "
                    "tensors are supported",
                    "give the model tensors as inputs and outputs",
                )
            if value.type.tensor_type.elem_type == onnx.TensorProto.STRING:
                raise UnsupportedError(
                    f"the {role} {value.name!r} holds strings, which are not supported",
                    "work on texts before the model, and give it numbers",
                )
    for sparse in graph.sparse_initializer:
        raise UnsupportedError(
            f"the constant {sparse.values.name!r} is sparse: not supported", "export dense weights"
        )


# External data ------------------------------------------------------------------------------------


def refers_to_files(model: onnx.ModelProto) -> bool:
    """Return whether a model has external data."""
    return any(t.data_location == onnx.TensorProto.EXTERNAL for t in _tensors(model))


def _read_external(model: onnx.ModelProto, folder: Path | None) -> None:
    read = 0
    for tensor in _tensors(model):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        data = _external(tensor, folder)
        read += len(data)
        if read > MAX_FILE_BYTES:
            raise ModelError(f"the model's data exceed {MAX_FILE_BYTES} bytes")
        tensor.raw_data = data
        del tensor.external_data[:]
        tensor.data_location = onnx.TensorProto.DEFAULT


def _external(tensor: onnx.TensorProto, folder: Path | None) -> bytes:
    """Return the part of a file beside the model that holds the data of a tensor."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location, what = entries.get("location", ""), f"the data of {tensor.name!r}"
    if folder is None:
        raise ModelError(
            f"{what} lie in the file {location!r}, and only the bytes of the model are known",
            "give the path of the model, with that file in its folder",
        )
    start, stated = _number(entries, "offset", what) or 0, _number(entries, "length", what)
    try:
        path = (folder / location).resolve()
        is_file = path.is_file()
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{what} lie in {location!r:.80}, which is no name of a file: {error}", _HINT
        ) from None
    if not location or Path(location).is_absolute() or not path.is_relative_to(folder.resolve()):
        raise ModelError(
            f"{what} lie in {location!r}, outside of the model's folder",
            "keep the data in a file beside the model",
        )
    if not is_file:
        raise ModelError(
            f"{what} lie in {location!r}, which is not a file beside the model",
            "copy the file that was exported with the model, too",
        )
    size = path.stat().st_size
    count = max(0, size - start) if stated is None else stated
    if start + count > size or count > MAX_FILE_BYTES:
        raise ModelError(
            f"{what}, {count} bytes at {start}, exceed the {size} bytes of {location!r}",
            "the file is truncated: copy or export it again",
        )
    try:
        with path.open("rb") as file:
            file.seek(start)
            data: bytes = file.read(count)
            return data
    except OSError as error:
        raise ModelError(f"{what}: {location!r} cannot be read: {error.strerror}") from error


def _number(entries: Mapping[str, str], key: str, what: str) -> int | None:
    """Return an end of the range that holds the data; None where the model does not state it."""
    text = entries.get(key, "")
    if text and not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise ModelError(
            f"{what} have the {key} {text!r:.40} in {entries.get('location')!r}",
            "a number of bytes, 0 or more, is accepted: export the model again",
        )
    return int(text) if text else None


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield every constant of a model, also those of attributes and functions."""
    yield from _of_graph(model.graph)
    for function in model.functions:
        yield from _of_nodes(function.node)


def _of_graph(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    yield from _of_nodes(graph.node)


def _of_nodes(nodes: Any) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for graph in ([attribute.g] if attribute.HasField("g") else []) + [*attribute.graphs]:
                yield from _of_graph(graph)
