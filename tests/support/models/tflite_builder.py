"""Builds small TFLite files in memory, for tests of operators, importer and references.

    builder = ModelBuilder()
    builder.input("x", (1, 8, 8, 3), "int8", scale=0.5, zero_point=3)
    builder.const("w", weights, scale=(0.1, 0.2), axis=0)
    builder.output("y", (1, 8, 8, 2), "int8", scale=0.7, zero_point=-4)
    builder.op("CONV_2D", ("x", "w", ""), ("y",), padding="SAME", stride_h=1, stride_w=1)
    data = builder.build()

Attributes have the names that the compiler's intermediate representation uses. Nothing is checked:
a test may build what no converter would write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
import tflite
from flatbuffers import flexbuffers

from hilc.frontends.tflite.schema import OPERATORS
from hilc.ir import Graph, Node

Array = npt.NDArray[Any]

_TYPES = {
    "float32": tflite.TensorType.FLOAT32,
    "float16": tflite.TensorType.FLOAT16,
    "float64": tflite.TensorType.FLOAT64,
    "int32": tflite.TensorType.INT32,
    "uint8": tflite.TensorType.UINT8,
    "uint32": tflite.TensorType.UINT32,
    "uint64": tflite.TensorType.UINT64,
    "int64": tflite.TensorType.INT64,
    "complex64": tflite.TensorType.COMPLEX64,
    "bool": tflite.TensorType.BOOL,
    "resource": tflite.TensorType.RESOURCE,
    "int16": tflite.TensorType.INT16,
    "int8": tflite.TensorType.INT8,
    "int4": tflite.TensorType.INT4,
}
_ACTIVATIONS = {
    "NONE": 0,
    "RELU": 1,
    "RELU_N1_TO_1": 2,
    "RELU6": 3,
    "TANH": 4,
    "SIGN_BIT": 5,
}
_PADDINGS = {"SAME": 0, "VALID": 1}
_MIRRORS = {"REFLECT": 0, "SYMMETRIC": 1}

#: Fields of option tables that are not named as our attribute, by the attribute.
_FIELDS = {
    "activation": "FusedActivationFunction",
    "condition": "CondSubgraphIndex",
    "body": "BodySubgraphIndex",
    "dilation_d": "DilationDFactor",
    "dilation_h": "DilationHFactor",
    "dilation_w": "DilationWFactor",
    "dtype": "OutputType",
    "filter_h": "FilterHeight",
    "filter_w": "FilterWidth",
    "otherwise": "ElseSubgraphIndex",
    "subgraph": "InitSubgraphIndex",
    "then": "ThenSubgraphIndex",
}
#: Option tables of the schema by their names in small letters.
_TABLES: Mapping[str, str] = {
    name.lower(): name for name in vars(tflite.BuiltinOptions) if name.endswith("Options")
}


def _options_table(code: str) -> str:
    """Return the name of an operator's option table: the one that the reader takes its attributes
    from, or the one that is named as the operator; empty for an operator without one.
    """
    row = OPERATORS.get(code)
    if row is not None and row.options:
        return row.options
    name = "MaximumMinimum" if code in ("MAXIMUM", "MINIMUM") else code
    return _TABLES.get(f"{name.replace('_', '')}options".lower(), "")


def _option_field(table: str, attribute: str) -> str:
    """Return the name of an attribute in an option table; empty where the table has none."""
    camel = "".join(part.capitalize() for part in attribute.split("_"))
    names = (_FIELDS.get(attribute, camel), camel)
    return next((name for name in names if hasattr(tflite, f"{table}Add{name}")), "")


@dataclass
class _Tensor:
    name: str
    shape: tuple[int, ...]
    dtype: str
    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int
    data: Array | None = None
    signature: tuple[int, ...] | None = None
    variable: bool = False
    sparsity: Sparsity | None = None


@dataclass(frozen=True)
class Sparsity:
    """How the values of a sparse constant are stored: the order of its axes, with those inside of
    blocks behind them; the axes of blocks; of each, in that order, the size or both segments and
    indices, of whose type they are stored.
    """

    order: Sequence[int]
    blocks: Sequence[int]
    axes: Sequence[int | tuple[Array, Array]]


@dataclass
class _Operator:
    code: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attrs: dict[str, Any]
    version: int
    custom_code: str
    custom_options: bytes


def _each(value: float | Sequence[float] | Array | None) -> tuple[float, ...]:
    if value is None:
        return ()
    return tuple(np.atleast_1d(np.asarray(value)).tolist())


@dataclass
class ModelBuilder:
    """Collects tensors and operators of one subgraph; ``build`` returns the file."""

    description: str = "tflite_builder"
    #: Copies of the subgraph that the model does not call.
    extra_subgraphs: int = 0
    metadata: Mapping[str, bytes] = field(default_factory=dict)
    #: Subgraphs that operators call, from number 1 on.
    functions: list[ModelBuilder] = field(default_factory=list)
    #: Entry points: name, subgraph, and the tensors by the names of inputs and of outputs.
    signatures: list[tuple[str, int, Mapping[str, int], Mapping[str, int]]] = field(
        default_factory=list
    )
    _tensors: list[_Tensor] = field(default_factory=list)
    _operators: list[_Operator] = field(default_factory=list)
    _inputs: list[int] = field(default_factory=list)
    _outputs: list[int] = field(default_factory=list)
    #: The first tensor of each name.
    _indices: dict[str, int] = field(default_factory=dict)

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str = "float32",
        scale: float | Sequence[float] | Array | None = None,
        zero_point: int | Sequence[int] | Array = 0,
        axis: int = 0,
        *,
        data: Array | None = None,
        signature: Sequence[int] | None = None,
        variable: bool = False,
        sparsity: Sparsity | None = None,
    ) -> str:
        """Declare a tensor; one zero point serves every scale. Returns ``name``."""
        scales = _each(scale)
        zero_points = tuple(int(z) for z in _each(zero_point))
        if len(zero_points) == 1:
            zero_points *= len(scales)
        self._indices.setdefault(name, len(self._tensors))
        self._tensors.append(
            _Tensor(
                name,
                tuple(int(d) for d in shape),
                dtype,
                scales,
                zero_points,
                axis,
                data,
                None if signature is None else tuple(signature),
                variable,
                sparsity,
            )
        )
        return name

    def input(self, name: str, *args: Any, **kwargs: Any) -> str:
        """Declare a tensor (arguments of ``tensor``) that is an input of the model."""
        self._inputs.append(len(self._tensors))
        return self.tensor(name, *args, **kwargs)

    def inputs(self, *names: str) -> None:
        """Make declared tensors inputs of the model."""
        self._inputs += map(self._index, names)

    def output(self, name: str, *args: Any, **kwargs: Any) -> str:
        """Make a tensor an output of the model; with more than a name, declare it too."""
        if args or kwargs:
            self.tensor(name, *args, **kwargs)
        self._outputs.append(self._index(name))
        return name

    def const(
        self,
        name: str,
        array: npt.ArrayLike,
        scale: float | Sequence[float] | Array | None = None,
        zero_point: int | Sequence[int] | Array = 0,
        axis: int = 0,
    ) -> str:
        """Declare a constant of the array's shape and type."""
        data = np.asarray(array)
        return self.tensor(name, data.shape, data.dtype.name, scale, zero_point, axis, data=data)

    def op(
        self,
        code: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        *,
        version: int = 1,
        custom_code: str = "",
        custom_options: bytes = b"",
        **attrs: Any,
    ) -> None:
        """Append an operator; an absent optional input is the empty string."""
        self._operators.append(
            _Operator(
                code,
                tuple(self._index(name) if name else -1 for name in inputs),
                tuple(self._index(name) for name in outputs),
                attrs,
                version,
                custom_code,
                custom_options,
            )
        )

    def build(self, *, outside: bool = False) -> bytes:
        """The file as a converter writes it: buffer 0 empty, constants aligned to 16 bytes.

        With ``outside`` the constants stand behind the FlatBuffers part, as they do where that
        would become larger than 2 GB.
        """
        fbb = flatbuffers.Builder(1024)
        parts = [self, *self.functions]
        operators = [operator for part in parts for operator in part._operators]
        codes = list(dict.fromkeys((o.code, o.version, o.custom_code) for o in operators))
        subgraph_list, first = [], 0
        for part in parts:
            subgraph_list.append(part._write_subgraph(fbb, codes, first))
            first += sum(t.data is not None for t in part._tensors)
        code_vector = _table_vector(fbb, [_write_code(fbb, *code) for code in codes])
        constants = [t.data for part in parts for t in part._tensors if t.data is not None]
        infos = [np.frombuffer(data, np.uint8) for data in self.metadata.values()]
        buffers = _table_vector(
            fbb, [_write_buffer(fbb, data, outside) for data in [None, *constants, *infos]]
        )
        others = [self._write_subgraph(fbb, codes, 0) for _ in range(self.extra_subgraphs)]
        subgraphs = _table_vector(fbb, [*subgraph_list, *others])
        metadata = _table_vector(
            fbb,
            [
                _write_metadata(fbb, name, 1 + len(constants) + index)
                for index, name in enumerate(self.metadata)
            ],
        )
        signatures = _table_vector(fbb, [_write_signature(fbb, *one) for one in self.signatures])
        description = fbb.CreateString(self.description)
        tflite.ModelStart(fbb)
        tflite.ModelAddVersion(fbb, 3)
        tflite.ModelAddOperatorCodes(fbb, code_vector)
        tflite.ModelAddSubgraphs(fbb, subgraphs)
        tflite.ModelAddDescription(fbb, description)
        tflite.ModelAddBuffers(fbb, buffers)
        if self.metadata:
            tflite.ModelAddMetadata(fbb, metadata)
        if self.signatures:
            tflite.ModelAddSignatureDefs(fbb, signatures)
        fbb.Finish(tflite.ModelEnd(fbb), b"TFL3")
        file = bytearray(fbb.Output())
        if outside:
            model = tflite.Model.GetRootAs(bytes(file), 0)
            for index, data in enumerate([*constants, *infos], start=1):
                raw = _raw(data)
                file.extend(bytes(-len(file) % 16))
                table = model.Buffers(index)._tab
                for slot, value in ((6, len(file)), (8, len(raw))):
                    place = table.Pos + table.Offset(slot)
                    file[place : place + 8] = value.to_bytes(8, "little")
                file.extend(raw)
        return bytes(file)

    def _index(self, name: str) -> int:
        try:
            return self._indices[name]
        except KeyError:
            raise KeyError(f"no tensor {name!r} was declared") from None

    def _write_subgraph(
        self, fbb: flatbuffers.Builder, codes: list[tuple[str, int, str]], buffer: int
    ) -> int:
        tensors = []
        for tensor in self._tensors:
            buffer += tensor.data is not None
            tensors.append(_write_tensor(fbb, tensor, 0 if tensor.data is None else buffer))
        tensor_vector = _table_vector(fbb, tensors)
        operator_vector = _table_vector(
            fbb,
            [
                _write_operator(fbb, o, codes.index((o.code, o.version, o.custom_code)))
                for o in self._operators
            ],
        )
        inputs = _int_vector(fbb, self._inputs)
        outputs = _int_vector(fbb, self._outputs)
        name = fbb.CreateString("main")
        tflite.SubGraphStart(fbb)
        tflite.SubGraphAddTensors(fbb, tensor_vector)
        tflite.SubGraphAddInputs(fbb, inputs)
        tflite.SubGraphAddOutputs(fbb, outputs)
        tflite.SubGraphAddOperators(fbb, operator_vector)
        tflite.SubGraphAddName(fbb, name)
        return int(tflite.SubGraphEnd(fbb))


def file_of(graph: Graph) -> bytes:
    """The file from which :func:`hilc.frontends.load_model` reads ``graph``.

    States are variables of the operators that update them, which start as a reset leaves them.
    """
    builder = ModelBuilder()
    unseen = {name for node in graph.nodes for name in _remembered(graph, node)}
    states = {s.after: s.name for s in graph.states if s.name not in unseen}
    for tensor in graph.tensors.values():
        if tensor.name in states or tensor.name in unseen:
            continue
        quant = tensor.quant
        numbers = (quant.scale, quant.zero_point, quant.axis) if quant else (None, 0, 0)
        builder.tensor(
            tensor.name,
            tensor.shape,
            tensor.dtype,
            *numbers,
            data=tensor.data,
            variable=tensor.name in states.values(),
        )
    builder.inputs(*graph.inputs)
    for name in graph.outputs:
        builder.output(name)
    for node in graph.nodes:
        # What the file says by the output's type alone.
        table = _options_table(node.op)
        attrs = {
            n: v
            for n, v in vars(node.attrs).items()
            if v is not None and (n != "dtype" or _option_field(table, n))
        }
        outputs = [name for name in node.outputs if name not in states and name not in unseen]
        inputs: Sequence[str] = [name for name in node.inputs if name not in unseen]
        if node.op == "UNIDIRECTIONAL_SEQUENCE_LSTM":
            # Without peepholes, a projection and layer normalization.
            *gates, hidden, cell = inputs
            inputs = [*gates[:9], *[""] * 3, *gates[9:], "", "", hidden, cell, *[""] * 4]
            attrs["activation"] = "TANH"
        if (code := custom_codes().get(node.op)) is not None:
            # What Python's operators of the signal library add for those of several types.
            kind = _TYPES[graph.tensors[inputs[0]].dtype]
            options = flexbuffers.Dumps({"T": kind, **attrs} if code in _TYPED else attrs)
            builder.op("CUSTOM", inputs, outputs, custom_code=code, custom_options=bytes(options))
        else:
            builder.op(node.op, inputs, outputs, **attrs)
    return builder.build()


def _remembered(graph: Graph, node: Node) -> Iterator[str]:
    """The tensors of what an operator remembers, which no file has."""
    row = next((row for row in OPERATORS.values() if row.op == node.op), None)
    if row is not None and row.memory is not None:
        memories = row.memory(node, graph.ins(node))
        yield from node.inputs[-len(memories) :]
        if more := sum(memory.output is None for memory in memories):
            yield from node.outputs[-more:]


#: Custom operators whose options name the type that they work on.
_TYPED = ("SignalRfft", "SignalIrfft", "SignalOverlapAdd")


def custom_codes() -> dict[str, str]:
    """The codes of custom operators by the names of what they are read as."""
    return {
        row.op: code.removeprefix("CUSTOM '").removesuffix("'")
        for code, row in OPERATORS.items()
        if code.startswith("CUSTOM ")
    }


def _int_vector(fbb: flatbuffers.Builder, values: Sequence[int], dtype: str = "int32") -> int:
    return int(fbb.CreateNumpyVector(np.asarray(values, dtype)))


def _table_vector(fbb: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    fbb.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        fbb.PrependUOffsetTRelative(offset)
    return int(fbb.EndVector())


def _write_code(fbb: flatbuffers.Builder, code: str, version: int, custom_code: str) -> int:
    builtin = getattr(tflite.BuiltinOperator, code)
    custom = fbb.CreateString(custom_code) if custom_code else None
    tflite.OperatorCodeStart(fbb)
    # Codes above 127 do not fit the older field, which then holds a placeholder.
    tflite.OperatorCodeAddDeprecatedBuiltinCode(fbb, min(builtin, 127))
    if custom is not None:
        tflite.OperatorCodeAddCustomCode(fbb, custom)
    tflite.OperatorCodeAddVersion(fbb, version)
    tflite.OperatorCodeAddBuiltinCode(fbb, builtin)
    return int(tflite.OperatorCodeEnd(fbb))


def _write_signature(
    fbb: flatbuffers.Builder,
    name: str,
    subgraph: int,
    inputs: Mapping[str, int],
    outputs: Mapping[str, int],
) -> int:
    maps = [
        _table_vector(fbb, [_write_tensor_map(fbb, *one) for one in named.items()])
        for named in (inputs, outputs)
    ]
    key = fbb.CreateString(name) if name else None
    tflite.SignatureDefStart(fbb)
    tflite.SignatureDefAddInputs(fbb, maps[0])
    tflite.SignatureDefAddOutputs(fbb, maps[1])
    if key is not None:
        tflite.SignatureDefAddSignatureKey(fbb, key)
    tflite.SignatureDefAddSubgraphIndex(fbb, subgraph)
    return int(tflite.SignatureDefEnd(fbb))


def _write_tensor_map(fbb: flatbuffers.Builder, name: str, index: int) -> int:
    text = fbb.CreateString(name)
    tflite.TensorMapStart(fbb)
    tflite.TensorMapAddName(fbb, text)
    tflite.TensorMapAddTensorIndex(fbb, index)
    return int(tflite.TensorMapEnd(fbb))


def _write_metadata(fbb: flatbuffers.Builder, name: str, buffer: int) -> int:
    text = fbb.CreateString(name)
    tflite.MetadataStart(fbb)
    tflite.MetadataAddName(fbb, text)
    tflite.MetadataAddBuffer(fbb, buffer)
    return int(tflite.MetadataEnd(fbb))


def _write_buffer(fbb: flatbuffers.Builder, data: Array | None, outside: bool) -> int:
    vector = None
    if data is not None and not outside:
        raw = _raw(data)
        fbb.StartVector(1, len(raw), 16)
        fbb.head -= len(raw)
        fbb.Bytes[fbb.head : fbb.head + len(raw)] = raw
        vector = fbb.EndVector()
    tflite.BufferStart(fbb)
    if vector is not None:
        tflite.BufferAddData(fbb, vector)
    elif data is not None:
        # Known once the file is whole; only what is not 0 gets a place in the table.
        tflite.BufferAddOffset(fbb, 1)
        tflite.BufferAddSize(fbb, 1)
    return int(tflite.BufferEnd(fbb))


def _raw(data: Array) -> bytes:
    return data.astype(data.dtype.newbyteorder("<")).tobytes()


def _write_tensor(fbb: flatbuffers.Builder, tensor: _Tensor, buffer: int) -> int:
    quantization = None
    if tensor.scale:
        scale = fbb.CreateNumpyVector(np.asarray(tensor.scale, np.float32))
        zero_point = _int_vector(fbb, tensor.zero_point, "int64")
        tflite.QuantizationParametersStart(fbb)
        tflite.QuantizationParametersAddScale(fbb, scale)
        tflite.QuantizationParametersAddZeroPoint(fbb, zero_point)
        tflite.QuantizationParametersAddQuantizedDimension(fbb, tensor.axis)
        quantization = tflite.QuantizationParametersEnd(fbb)
    sparsity = None if tensor.sparsity is None else _write_sparsity(fbb, tensor.sparsity)
    name = fbb.CreateString(tensor.name)
    shape = _int_vector(fbb, tensor.shape)
    signature = None if tensor.signature is None else _int_vector(fbb, tensor.signature)
    tflite.TensorStart(fbb)
    tflite.TensorAddShape(fbb, shape)
    tflite.TensorAddType(fbb, _TYPES[tensor.dtype])
    tflite.TensorAddBuffer(fbb, buffer)
    tflite.TensorAddName(fbb, name)
    if quantization is not None:
        tflite.TensorAddQuantization(fbb, quantization)
    if signature is not None:
        tflite.TensorAddShapeSignature(fbb, signature)
    if sparsity is not None:
        tflite.TensorAddSparsity(fbb, sparsity)
    if tensor.variable:
        tflite.TensorAddIsVariable(fbb, True)
    return int(tflite.TensorEnd(fbb))


#: Names of the schema's vectors of numbers, by the type of these.
_NUMBERS = {"int32": "Int32Vector", "uint16": "Uint16Vector", "uint8": "Uint8Vector"}


def _write_sparsity(fbb: flatbuffers.Builder, sparsity: Sparsity) -> int:
    axes = []
    for axis in sparsity.axes:
        vectors = []
        for numbers in () if isinstance(axis, int) else axis:
            kind = _NUMBERS[numbers.dtype.name]
            values = fbb.CreateNumpyVector(numbers)
            getattr(tflite, f"{kind}Start")(fbb)
            getattr(tflite, f"{kind}AddValues")(fbb, values)
            offset = getattr(tflite, f"{kind}End")(fbb)
            vectors.append((getattr(tflite.SparseIndexVector, kind), offset))
        tflite.DimensionMetadataStart(fbb)
        if isinstance(axis, int):
            tflite.DimensionMetadataAddDenseSize(fbb, axis)
        else:
            (segments, first), (indices, second) = vectors
            tflite.DimensionMetadataAddFormat(fbb, tflite.DimensionType.SPARSE_CSR)
            tflite.DimensionMetadataAddArraySegmentsType(fbb, segments)
            tflite.DimensionMetadataAddArraySegments(fbb, first)
            tflite.DimensionMetadataAddArrayIndicesType(fbb, indices)
            tflite.DimensionMetadataAddArrayIndices(fbb, second)
        axes.append(int(tflite.DimensionMetadataEnd(fbb)))
    metadata = _table_vector(fbb, axes)
    order, blocks = _int_vector(fbb, sparsity.order), _int_vector(fbb, sparsity.blocks)
    tflite.SparsityParametersStart(fbb)
    tflite.SparsityParametersAddTraversalOrder(fbb, order)
    tflite.SparsityParametersAddBlockMap(fbb, blocks)
    tflite.SparsityParametersAddDimMetadata(fbb, metadata)
    return int(tflite.SparsityParametersEnd(fbb))


def _write_options(fbb: flatbuffers.Builder, operator: _Operator) -> tuple[int, int | None]:
    """Type and offset of the operator's option table; 0 and None for operators without one."""
    table = _options_table(operator.code)
    if not table:
        return 0, None
    values: dict[str, Any] = {}
    for attr, value in operator.attrs.items():
        if attr == "activation":
            value = _ACTIVATIONS[value]
        elif attr == "dtype":
            value = _TYPES[value]
        elif attr == "padding":
            value = _PADDINGS[value]
        elif attr == "mode":
            value = _MIRRORS[value]
        elif isinstance(value, str):
            value = fbb.CreateString(value)
        elif isinstance(value, Sequence):
            is_float = any(isinstance(each, float) for each in value)
            value = _int_vector(fbb, value, "float32" if is_float else "int32")
        values[_option_field(table, attr)] = value
    for attr in ("stride_h", "stride_w", "depth_multiplier", "beta"):
        # Zero by the schema's default, which no kernel takes.
        if name := _option_field(table, attr):
            values.setdefault(name, 1)
    getattr(tflite, f"{table}Start")(fbb)
    for name, value in values.items():
        getattr(tflite, f"{table}Add{name}")(fbb, value)
    offset = getattr(tflite, f"{table}End")(fbb)
    return getattr(tflite.BuiltinOptions, table), int(offset)


def _write_operator(fbb: flatbuffers.Builder, operator: _Operator, code_index: int) -> int:
    options_type, options = _write_options(fbb, operator)
    inputs = _int_vector(fbb, operator.inputs)
    outputs = _int_vector(fbb, operator.outputs)
    custom = fbb.CreateByteVector(operator.custom_options) if operator.custom_options else None
    tflite.OperatorStart(fbb)
    if custom is not None:
        tflite.OperatorAddCustomOptions(fbb, custom)
    tflite.OperatorAddOpcodeIndex(fbb, code_index)
    tflite.OperatorAddInputs(fbb, inputs)
    tflite.OperatorAddOutputs(fbb, outputs)
    if options is not None:
        tflite.OperatorAddBuiltinOptionsType(fbb, options_type)
        tflite.OperatorAddBuiltinOptions(fbb, options)
    return int(tflite.OperatorEnd(fbb))
