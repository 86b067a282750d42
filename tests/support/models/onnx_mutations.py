"""Hostile ONNX models: valid ones, such as those of ONNX's own suite, changed in a few places.

A change keeps the file a protocol buffer, so that it reaches the translators: attributes,
constants, shapes and types at their corners, operands left out, doubled or exchanged, other
operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

_INTEGERS = (0, -1, 1, 2, 3, 64, 2**31 - 1, 2**31, 2**40, 2**63 - 1, -(2**63))
_FLOATS = (0.0, -1.0, 0.5, 1e38, 1e-45, float("nan"), float("inf"), float("-inf"))
_TEXTS = (b"", b"\xff\xfe", b"SAME_UPPER", b"VALID", b"x" * 300)
_TYPES = (*range(1, 24), 999)
#: Larger models only take longer.
_MOST_BYTES = 20_000


@cache
def suite() -> list[bytes]:
    """Return the models of ONNX's suite that are not large; making it takes seconds."""
    made = [case.model.SerializeToString() for case in load_model_tests(kind="node") if case.model]
    return [data for data in made if len(data) < _MOST_BYTES]


def mutant(seed: int, originals: Sequence[bytes]) -> bytes:
    """Return one of the models with one to three changes."""
    rng = Random(seed)
    model = onnx.ModelProto()
    model.ParseFromString(rng.choice(originals))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        try:
            rng.choice(_CHANGES)(rng, model.graph)
        except (LookupError, NotImplementedError, ValueError, TypeError, OverflowError):
            # There is nothing of the kind, or the format cannot hold it.
            continue
    if rng.random() < 0.03:
        model.opset_import[0].version = rng.choice((0, 1, 5, 7, 8, 11, 13, 18, 30))
    data: bytes = model.SerializeToString()
    return data


def _list(rng: Random, values: Any, corners: Sequence[Any]) -> None:
    """Change a repeated field: an entry at a corner, one less, one more, or none."""
    match rng.randrange(4):
        case 0:
            values[rng.randrange(len(values))] = rng.choice(corners)
        case 1:
            del values[-1]
        case 2:
            values.append(rng.choice(corners))
        case _:
            del values[:]


def _attribute(rng: Random, graph: onnx.GraphProto) -> None:
    attribute = rng.choice(rng.choice(graph.node).attribute)
    match attribute.type:
        case AttributeProto.INT:
            attribute.i = rng.choice(_INTEGERS)
        case AttributeProto.FLOAT:
            attribute.f = rng.choice(_FLOATS)
        case AttributeProto.STRING:
            attribute.s = rng.choice((*_TEXTS, attribute.s[:-1]))
        case AttributeProto.INTS:
            _list(rng, attribute.ints, _INTEGERS)
        case AttributeProto.FLOATS:
            _list(rng, attribute.floats, _FLOATS)
        case AttributeProto.TENSOR:
            _change_constant(rng, attribute.t)
        case AttributeProto.GRAPH:
            rng.choice(_CHANGES)(rng, attribute.g)


def _added_attribute(rng: Random, graph: onnx.GraphProto) -> None:
    node = rng.choice(graph.node)
    schema = onnx.defs.get_schema(node.op_type, node.domain)
    attribute = rng.choice(list(schema.attributes.values()))
    corners: dict[Any, Any] = {
        AttributeProto.INT: rng.choice(_INTEGERS),
        AttributeProto.FLOAT: rng.choice(_FLOATS),
        AttributeProto.INTS: [rng.choice(_INTEGERS) for _ in range(rng.randrange(4))],
        AttributeProto.FLOATS: [rng.choice(_FLOATS)],
        AttributeProto.STRING: "x",
    }
    kind = int(attribute.type.value)
    if kind in corners:
        node.attribute.append(helper.make_attribute(attribute.name, corners[kind], attr_type=kind))


def _constant(rng: Random, graph: onnx.GraphProto) -> None:
    _change_constant(rng, rng.choice(graph.initializer))


def _change_constant(rng: Random, constant: onnx.TensorProto) -> None:
    match rng.randrange(4):
        case 0:
            constant.dims[rng.randrange(len(constant.dims))] = rng.choice(_INTEGERS)
        case 1:
            constant.data_type = rng.choice(_TYPES)
        case change:
            values = numpy_helper.to_array(constant).copy()
            flat, kind = values.reshape(-1), values.dtype.kind
            if kind == "f":
                flat[rng.randrange(flat.size)] = rng.choice(_FLOATS)
            elif kind in "iu":
                bounds = np.iinfo(values.dtype)
                corner = min(max(rng.choice(_INTEGERS), bounds.min), bounds.max)
                flat[rng.randrange(flat.size)] = corner
            made = flat[: rng.randrange(flat.size + 1)] if change == 3 else values
            constant.CopyFrom(numpy_helper.from_array(made, constant.name))


def _known_input(rng: Random, graph: onnx.GraphProto) -> None:
    """Make an input a constant, of small numbers: shapes and indices are looked at only then."""
    value = rng.choice(graph.input)
    shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
    corners = _FLOATS if dtype.kind == "f" else (0, 1, 2, -1, 5, 127)
    count = prod(shape)
    if not 0 <= count <= _MOST_BYTES:
        raise ValueError("another change made it larger than a model of the suite")
    values = [rng.choice(corners) for _ in range(count)]
    made = np.array(values).astype(dtype).reshape(shape)
    graph.initializer.append(numpy_helper.from_array(made, value.name))
    graph.input.remove(value)


def _shape(rng: Random, graph: onnx.GraphProto) -> None:
    sizes = rng.choice((graph.input, graph.output))
    dims = rng.choice(sizes).type.tensor_type.shape.dim
    match rng.randrange(3):
        case 0:
            rng.choice(dims).dim_value = rng.choice(_INTEGERS)
        case 1:
            del dims[-1]
        case _:
            dims.add().dim_value = rng.choice(_INTEGERS)


def _type(rng: Random, graph: onnx.GraphProto) -> None:
    values = rng.choice((graph.input, graph.output))
    rng.choice(values).type.tensor_type.elem_type = rng.choice(_TYPES)


def _operand(rng: Random, graph: onnx.GraphProto) -> None:
    inputs = rng.choice(graph.node).input
    place = rng.randrange(len(inputs))
    match rng.randrange(4):
        case 0:
            inputs[place] = ""
        case 1:
            inputs.append(inputs[place])
        case 2:
            del inputs[place]
        case _:
            inputs[place] = rng.choice(inputs)


@cache
def _operators() -> list[str]:
    return sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain})


def _operator(rng: Random, graph: onnx.GraphProto) -> None:
    rng.choice(graph.node).op_type = rng.choice(_operators())


def _node(rng: Random, graph: onnx.GraphProto) -> None:
    node = rng.choice(graph.node)
    match rng.randrange(3):
        case 0:
            graph.node.append(node)
        case 1:
            graph.node.remove(node)
        case _:
            node.output.append("extra")


_CHANGES: tuple[Callable[[Random, onnx.GraphProto], None], ...] = (
    *(_attribute,) * 3,
    _added_attribute,
    _constant,
    *(_known_input,) * 2,
    _shape,
    _type,
    _operand,
    _operator,
    _node,
)
