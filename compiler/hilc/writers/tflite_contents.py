"""The contents of a TFLite file as a builder, which writes them again, changed or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tflite

from hilc.frontends.tflite.flatbuffer import check
from hilc.frontends.tflite.schema import MODEL, OPERATOR_NAMES, TYPE_NAMES
from hilc.frontends.tflite.values import builtin_code, vector
from hilc.ir import Array
from hilc.writers.tflite_file import FileOperator, FileTensor, ModelBuilder

#: Tables of options in the schema, by their numbers.
_OPTIONS = {v: k for k, v in vars(tflite.BuiltinOptions).items() if isinstance(v, int) and v}


def contents(data: bytes) -> ModelBuilder:
    """Return the tensors, operators, entry points and metadata of a file.

    The file has been read by :mod:`hilc.frontends.tflite.reader` before, which knows each of its
    operators. Sparse constants are not kept as such: their buffers are the stored values.
    """
    check(data, MODEL)
    model = tflite.Model.GetRootAs(data, 0)
    buffers = [_buffer(data, model.Buffers(i)) for i in range(model.BuffersLength())]
    parts = [_part(model, model.Subgraphs(i), buffers) for i in range(model.SubgraphsLength())]
    main = parts[0]
    main.functions = parts[1:]
    main.description = _text(model.Description())
    main.metadata = dict(_metadata(model, buffers))
    main.signatures = [
        _signature(model.SignatureDefs(i)) for i in range(model.SignatureDefsLength())
    ]
    return main


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode(errors="replace")


def _buffer(data: bytes, buffer: Any) -> Array | None:
    """Return the bytes of a buffer, which may lie behind the tables; None for an empty one."""
    if buffer.DataLength():
        values: Array = buffer.DataAsNumpy()
        return values
    if buffer.Offset() > 1 and buffer.Size() > 1:
        return np.frombuffer(data, np.uint8, buffer.Size(), buffer.Offset())
    return None


def _part(model: Any, subgraph: Any, buffers: list[Array | None]) -> ModelBuilder:
    made = ModelBuilder(name=_text(subgraph.Name()))
    made.tensors = [_tensor(subgraph.Tensors(i), buffers) for i in range(subgraph.TensorsLength())]
    made.operators = [
        _operator(model, subgraph.Operators(i)) for i in range(subgraph.OperatorsLength())
    ]
    made.input_indices = vector(subgraph, "Inputs")
    made.output_indices = vector(subgraph, "Outputs")
    return made


def _tensor(table: Any, buffers: list[Array | None]) -> FileTensor:
    quantization = table.Quantization()
    scales: list[float] = []
    if quantization is not None and quantization.ScaleLength():
        scales = quantization.ScaleAsNumpy().tolist()
    signature = vector(table, "ShapeSignature")
    number = table.Buffer()
    return FileTensor(
        _text(table.Name()),
        tuple(vector(table, "Shape")),
        TYPE_NAMES[table.Type()].lower(),
        tuple(scales),
        tuple(vector(quantization, "ZeroPoint")) if scales else (),
        quantization.QuantizedDimension() if scales else 0,
        buffers[number] if number else None,
        tuple(signature) if signature else None,
        table.IsVariable(),
        has_rank=table.HasRank(),
    )


def _operator(model: Any, operator: Any) -> FileOperator:
    code = model.OperatorCodes(operator.OpcodeIndex())
    none = operator.CustomOptionsIsNone()
    return FileOperator(
        OPERATOR_NAMES[builtin_code(code)],
        tuple(vector(operator, "Inputs")),
        tuple(vector(operator, "Outputs")),
        version=code.Version(),
        custom_code=_text(code.CustomCode()),
        custom_options=b"" if none else operator.CustomOptionsAsNumpy().tobytes(),
        options=_options(operator),
    )


def _options(operator: Any) -> tuple[str, Any] | None:
    name = _OPTIONS.get(operator.BuiltinOptionsType(), "")
    union = operator.BuiltinOptions()
    if not name or union is None:
        return None
    table = getattr(tflite, name)()
    table.Init(union.Bytes, union.Pos)
    return name, table


def _metadata(model: Any, buffers: list[Array | None]) -> Iterator[tuple[str, bytes]]:
    for i in range(model.MetadataLength()):
        entry = model.Metadata(i)
        number = entry.Buffer()
        values = buffers[number] if number < len(buffers) else None
        yield _text(entry.Name()), b"" if values is None else values.tobytes()


def _signature(table: Any) -> tuple[str, int, dict[str, int], dict[str, int]]:
    named: list[dict[str, int]] = [{}, {}]
    for names, kind in zip(named, ("Inputs", "Outputs"), strict=True):
        for i in range(getattr(table, f"{kind}Length")()):
            entry = getattr(table, kind)(i)
            names[_text(entry.Name())] = entry.TensorIndex()
    return _text(table.SignatureKey()), table.SubgraphIndex(), named[0], named[1]
