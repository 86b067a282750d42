"""Shapes and values that the user states for a model's inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx
from onnx import numpy_helper

from hilc.errors import InputError
from hilc.frontends.onnx.builder import declared_name
from hilc.frontends.onnx.class_labels import has_labels_to_number
from hilc.frontends.onnx.load import load, parse, refers_to_files
from hilc.frontends.onnx.loop_bounds import set_loop_bounds
from hilc.frontends.readers import Specialization
from hilc.ir import Array


def specialized(data: bytes, stated: Specialization) -> bytes:
    """Return the model with the stated shapes, the stated values as its constants, and the
    stated bounds of loops in its metadata; labels that are texts are numbers of classes.

    Raise :class:`~hilc.errors.InputError` for a shape or value of an input, or the bound of a loop,
    that the model does not have.
    """
    read = parse(data)
    if stated.states_nothing and not (refers_to_files(read) or has_labels_to_number(read)):
        return data
    model = load(data, stated.folder)
    given = _given(model.graph)
    for what, names in (("shape", stated.shapes), ("input", stated.inputs)):
        for name in names:
            if name not in given:
                raise InputError(
                    f"the model has no input {name!r}, whose {what} is stated",
                    f"its inputs are {', '.join(map(repr, given)) or 'none'}",
                )
    for name, shape in stated.shapes.items():
        _fix_shape(given[name], shape)
    _fix_parameters(given.values(), stated.shapes)
    for name, value in stated.inputs.items():
        model.graph.initializer.append(_constant(given[name], value))
        model.graph.input.remove(given[name])
    set_loop_bounds(model, stated.loop_bounds)
    if stated.inputs:
        # Before this version, every constant had to be an input, too.
        model.ir_version = max(model.ir_version, 4)
    serialized: bytes = model.SerializeToString()
    return serialized


def _given(graph: onnx.GraphProto) -> dict[str, onnx.ValueInfoProto]:
    """Return the inputs that the caller gives: old files list constants among them."""
    constants = {tensor.name for tensor in graph.initializer}
    return {value.name: value for value in graph.input if value.name not in constants}


def _fix_shape(value: onnx.ValueInfoProto, shape: Sequence[int]) -> None:
    tensor = value.type.tensor_type
    declared = _described(value)
    sizes = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
    if tensor.HasField("shape"):
        matches = len(sizes) == len(shape) and all(
            have in (-1, wanted) for have, wanted in zip(sizes, shape, strict=True)
        )
        if not matches:
            raise InputError(
                f"the input {value.name!r} is {declared}, which the shape {list(shape)} does not "
                "fit",
                "state a size for each of its dimensions, and its own where it has one",
            )
    if any(size < 1 for size in shape):
        raise InputError(
            f"the shape {list(shape)} of the input {value.name!r} has no elements",
            "each dimension must be at least 1",
        )
    names = [d.dim_param for d in tensor.shape.dim] or [""] * len(shape)
    del tensor.shape.dim[:]
    for size, name in zip(shape, names, strict=True):
        # A size and a name exclude each other; _fix_parameters needs the name once more.
        tensor.shape.dim.add(dim_value=size, denotation=name)


def _fix_parameters(
    values: Iterable[onnx.ValueInfoProto], shapes: Mapping[str, Sequence[int]]
) -> None:
    """Give dimensions of one name one size, in all inputs."""
    inputs = list(values)
    sizes: dict[str, tuple[int, str]] = {}
    for value in inputs:
        if value.name not in shapes:
            continue
        for dimension in value.type.tensor_type.shape.dim:
            parameter, dimension.denotation = dimension.denotation, ""
            if not parameter:
                continue
            size, other = sizes.setdefault(parameter, (dimension.dim_value, value.name))
            if size != dimension.dim_value:
                raise InputError(
                    f"the dimension {parameter!r} is {size} in {other!r} and "
                    f"{dimension.dim_value} in {value.name!r}",
                    "state the same size for it",
                )
    for value in inputs:
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param in sizes:
                dimension.dim_value = sizes[dimension.dim_param][0]


def _constant(value: onnx.ValueInfoProto, array: Array) -> onnx.TensorProto:
    tensor = numpy_helper.from_array(array, value.name)
    declared = value.type.tensor_type
    sizes = [d.dim_value if d.HasField("dim_value") else -1 for d in declared.shape.dim]
    fits = not declared.HasField("shape") or (
        len(sizes) == array.ndim
        and all(have in (-1, n) for have, n in zip(sizes, array.shape, strict=True))
    )
    if tensor.data_type != declared.elem_type or not fits:
        raise InputError(
            f"the input {value.name!r} is {_described(value)}, and the stated value is "
            f"{array.dtype}{list(array.shape)}",
            "give an array of its type and shape",
        )
    return tensor


def _described(value: onnx.ValueInfoProto) -> str:
    tensor = value.type.tensor_type
    dtype = declared_name(tensor.elem_type)
    if not tensor.HasField("shape"):
        return f"{dtype} of any shape"
    sizes = ", ".join(
        str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?"
        for d in tensor.shape.dim
    )
    return f"{dtype}[{sizes}]"
