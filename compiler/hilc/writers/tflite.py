"""TensorFlow Lite files, rewritten for the run times that serve as references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import flatbuffers
import numpy as np
import tflite

from hilc.frontends.tflite.reader import Importer, dequantized
from hilc.frontends.tflite.schema import OPERATOR_NAMES
from hilc.frontends.tflite.values import builtin_code, vector
from hilc.writers.tflite_contents import contents

#: The last versions that all run times know of operators for which converters declare a newer one.
_KNOWN_VERSIONS = {
    tflite.BuiltinOperator.FULLY_CONNECTED: 11,
    tflite.BuiltinOperator.BATCH_MATMUL: 3,
}


def for_reference(
    data: bytes,
    shapes: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
    hybrid: bool = False,
) -> tuple[bytes, tuple[str, ...]]:
    """Return the file in a form that TFLite's runtime accepts, and the changes made for that.

    The changed file is the model that :func:`import_graph` means by the given one:

    - A dynamic-range weight tensor, of a called subgraph too, is declared float32, unless
      ``hybrid`` keeps it as it is; its buffer points to new data at the file's end. One whose data
      something else reads, such as the table of an embedding, is copied before.
    - A quantized dimension that does not exist, and that nothing depends on, becomes 0: converters
      write the one of the weights beside a bias too. TFLite refuses it from release 2.14 on.
    - A tensor whose rank the file leaves open has that of ``shapes``, by name: TFLite Micro takes
      it for a single number.
    - FULLY_CONNECTED of version 12 and BATCH_MATMUL of version 4 have the version before:
      converters declare these for dynamic-range weights, which the run times compute without
      knowing the number.
    """
    if not hybrid:
        data = _with_own_weights(data)
    importers = _importers(data)
    importer = importers[0]
    file = bytearray(data)
    remarks = []
    if axes := [axis for subgraph in importers for axis in _meaningless_axes(subgraph)]:
        for quantization in axes:
            place = quantization._tab.Pos + quantization._tab.Offset(16)
            file[place : place + 4] = bytes(4)
        remarks.append("quantized dimensions that do not exist as 0")
    appended: dict[int, bytes] = {}
    for subgraph in () if hybrid else importers:
        _declare_floats(file, subgraph, appended)
    for buffer_index, values in appended.items():
        buffer = importer.model.Buffers(buffer_index)
        place = buffer._tab.Pos + buffer._tab.Offset(4)
        # Data is aligned to 16 bytes, with its length in the word before.
        file.extend(bytes(-(len(file) + 4) % 16))
        file[place : place + 4] = (len(file) - place).to_bytes(4, "little")
        file.extend(len(values).to_bytes(4, "little") + values)
    if appended:
        remarks.append("dynamic-range weights as float32")
    if open_ranks := [
        index
        for index, name in enumerate(importer.names)
        if name in importer.open_shapes
        and not importer.subgraph.Tensors(index).ShapeLength()
        and shapes.get(name)
    ]:
        for index in open_ranks:
            _declare_shape(file, importer.subgraph, index, shapes[importer.names[index]])
        remarks.append("open shapes as they follow")
    for entry, version in _newer_layers(importer):
        place = entry._tab.Pos + entry._tab.Offset(8)
        file[place : place + 4] = version.to_bytes(4, "little")
        remarks.append(f"{OPERATOR_NAMES[builtin_code(entry)]} as of version {version}")
    return bytes(file), tuple(remarks)


def _importers(data: bytes) -> list[Importer]:
    """Return an importer of each subgraph; models with one that nothing calls are refused."""
    main = Importer(data)
    return [main, *(Importer(data, number) for number in range(1, main.model.SubgraphsLength()))]


def _with_own_weights(data: bytes) -> bytes:
    """Return the file with dynamic-range weights of their own where others read their data."""
    importers = _importers(data)
    layers = [importer.hybrid_weights() for importer in importers]
    shared: set[int] = set()
    meanings: dict[int, Any] = {}
    for importer, weights in zip(importers, layers, strict=True):
        for *_, index in weights:
            buffer, quant = importer.subgraph.Tensors(index).Buffer(), importer.tensor(index).quant
            if meanings.setdefault(buffer, quant) != quant:
                shared.add(buffer)
    for importer, weights in zip(importers, layers, strict=True):
        subgraph = importer.subgraph
        shared |= {subgraph.Tensors(index).Buffer() for index in _other_reads(subgraph, weights)}
    if shared.isdisjoint(meanings):
        return data
    main = contents(data)
    parts = [main, *main.functions]
    for importer, weights, part in zip(importers, layers, parts, strict=True):
        for number, position, index in weights:
            tensor, operator = part.tensors[index], part.operators[number]
            if importer.subgraph.Tensors(index).Buffer() not in shared:
                continue
            assert tensor.data is not None
            inputs = list(operator.inputs)
            inputs[position] = len(part.tensors)
            operator.inputs = tuple(inputs)
            copy = replace(tensor, name=f"{tensor.name}:float32", data=tensor.data.copy())
            part.tensors.append(copy)
    return main.build()


def _other_reads(subgraph: Any, weights: Sequence[tuple[int, int, int]]) -> set[int]:
    """Return the tensors that are read as something else than these weights, by their indices."""
    places = {(number, position) for number, position, _ in weights}
    read = {*vector(subgraph, "Outputs")}
    for number in range(subgraph.OperatorsLength()):
        inputs = enumerate(vector(subgraph.Operators(number), "Inputs"))
        read |= {index for place, index in inputs if (number, place) not in places}
    return read - {-1}


def _declare_floats(file: bytearray, importer: Importer, appended: dict[int, bytes]) -> None:
    """Declare the dynamic-range weights of a subgraph float32; add their values to ``appended``, by
    buffer.
    """
    for *_, index in importer.hybrid_weights():
        tensor = importer.subgraph.Tensors(index)
        values = dequantized(importer.tensor(index))
        appended[tensor.Buffer()] = values.astype("<f4").tobytes()
        type_place = tensor._tab.Pos + tensor._tab.Offset(6)
        file[type_place] = tflite.TensorType.FLOAT32


def _declare_shape(file: bytearray, subgraph: Any, index: int, shape: Sequence[int]) -> None:
    """Let tensor ``index`` be a copy of itself, at the file's end, that states this shape."""
    tensor = subgraph.Tensors(index)
    builder = flatbuffers.Builder(256)
    name = builder.CreateString(tensor.Name() or b"")
    sizes = builder.CreateNumpyVector(np.asarray(shape, np.int32))
    tflite.TensorStart(builder)
    tflite.TensorAddShape(builder, sizes)
    tflite.TensorAddType(builder, tensor.Type())
    tflite.TensorAddBuffer(builder, tensor.Buffer())
    tflite.TensorAddName(builder, name)
    builder.Finish(tflite.TensorEnd(builder))
    copy = builder.Output()
    file.extend(bytes(-len(file) % 16))
    start = len(file) + int.from_bytes(copy[:4], "little")
    file.extend(copy)
    tensors = subgraph._tab
    place = tensors.Vector(tensors.Offset(4)) + 4 * index
    file[place : place + 4] = (start - place).to_bytes(4, "little")


def _newer_layers(importer: Importer) -> list[tuple[Any, int]]:
    """Return the entries of operators in versions that the run times do not know, and the last
    known version of each.
    """
    entries = map(importer.model.OperatorCodes, range(importer.model.OperatorCodesLength()))
    known = [(entry, _KNOWN_VERSIONS.get(builtin_code(entry))) for entry in entries]
    return [(e, version) for e, version in known if version and e.Version() == version + 1]


def _meaningless_axes(importer: Importer) -> list[Any]:
    """Return the quantizations whose dimension does not exist in their tensor."""
    quantizations = []
    for i in range(importer.subgraph.TensorsLength()):
        table = importer.subgraph.Tensors(i)
        quantization, rank = table.Quantization(), table.ShapeLength()
        if (
            quantization is not None
            and quantization.ScaleLength()
            and rank
            and not 0 <= quantization.QuantizedDimension() < rank
        ):
            quantizations.append(quantization)
    return quantizations
