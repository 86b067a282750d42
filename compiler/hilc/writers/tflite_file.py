"""TFLite files, written from tensors and operators through the generated classes of the schema.

    builder = ModelBuilder()
    builder.input("x", (1, 8, 8, 3), "int8", scale=0.5, zero_point=3)
    builder.const("w", weights, scale=(0.1, 0.2), axis=0)
    builder.output("y", (1, 8, 8, 2), "int8", scale=0.7, zero_point=-4)
    builder.op("CONV_2D", ("x", "w", ""), ("y",), padding="SAME", stride_h=1, stride_w=1)
    data = builder.build()

Attributes have the names that the compiler's intermediate representation uses. Nothing is checked.
:func:`hilc.writers.tflite_contents.contents` reads a file into a builder, to be changed and written
again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
import tflite

from hilc.frontends.tflite.schema import OPERATORS
from hilc.ir import Array

#: Types of tensors in the schema, by name.
TYPES: Mapping[str, int] = {
    name.lower(): value for name, value in vars(tflite.TensorType).items() if isinstance(value, int)
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


def options_table(code: str) -> str:
    """Return the name of an operator's option table: the one that the reader takes its attributes
    from, or the one that is named as the operator; empty for an operator without one.
    """
    row = OPERATORS.get(code)
    if row is not None and row.options:
        return row.options
    name = "MaximumMinimum" if code in ("MAXIMUM", "MINIMUM") else code
    return _TABLES.get(f"{name.replace('_', '')}options".lower(), "")


def option_field(table: str, attribute: str) -> str:
    """Return the name of an attribute in an option table; empty where the table has none."""
    camel = "".join(part.capitalize() for part in attribute.split("_"))
    names = (_FIELDS.get(attribute, camel), camel)
    return next((name for name in names if hasattr(tflite, f"{table}Add{name}")), "")


@dataclass(frozen=True)
class Sparsity:
    """The storage of the values of a sparse constant: the order of its axes, followed by those
    inside of blocks; the axes of blocks; for each axis, in that order, the size or both segments
    and indices, stored in their own type.
    """

    order: Sequence[int]
    blocks: Sequence[int]
    axes: Sequence[int | tuple[Array, Array]]


@dataclass
class FileTensor:
    """A tensor of a file."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()
    axis: int = 0
    #: The constant's elements, of any type: their bytes are written.
    data: Array | None = None
    signature: tuple[int, ...] | None = None
    variable: bool = False
    sparsity: Sparsity | None = None
    has_rank: bool = False


@dataclass
class FileOperator:
    """An operator of a file, with the positions of its tensors; -1 is an absent operand."""

    code: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    version: int = 1
    custom_code: str = ""
    custom_options: bytes = b""
    #: An option table of a file that is written as it is, in place of ``attrs``: its name in the
    #: schema, and the generated class's view of it.
    options: tuple[str, Any] | None = None


def _each(value: float | Sequence[float] | Array | None) -> tuple[float, ...]:
    if value is None:
        return ()
    return tuple(np.atleast_1d(np.asarray(value)).tolist())


@dataclass
class ModelBuilder:
    """Collects tensors and operators of one subgraph; ``build`` returns the file."""

    description: str = "tflite_builder"
    #: Name of the subgraph.
    name: str = "main"
    #: Copies of the subgraph that the model does not call.
    extra_subgraphs: int = 0
    metadata: Mapping[str, bytes] = field(default_factory=dict)
    #: Subgraphs that operators call, from number 1 on.
    functions: list[ModelBuilder] = field(default_factory=list)
    #: Entry points: name, subgraph, and the tensors by the names of inputs and of outputs.
    signatures: list[tuple[str, int, dict[str, int], dict[str, int]]] = field(default_factory=list)
    tensors: list[FileTensor] = field(default_factory=list)
    operators: list[FileOperator] = field(default_factory=list)
    #: Positions of the inputs and outputs among the tensors.
    input_indices: list[int] = field(default_factory=list)
    output_indices: list[int] = field(default_factory=list)
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
        self._indices.setdefault(name, len(self.tensors))
        self.tensors.append(
            FileTensor(
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
        self.input_indices.append(len(self.tensors))
        return self.tensor(name, *args, **kwargs)

    def inputs(self, *names: str) -> None:
        """Make declared tensors inputs of the model."""
        self.input_indices += map(self._index, names)

    def output(self, name: str, *args: Any, **kwargs: Any) -> str:
        """Make a tensor an output of the model; with more than a name, declare it too."""
        if args or kwargs:
            self.tensor(name, *args, **kwargs)
        self.output_indices.append(self._index(name))
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
        self.operators.append(
            FileOperator(
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
        """Return the file: buffer 0 is empty, constants are aligned to 16 bytes.

        With ``outside`` the constants stand behind the FlatBuffers part, as they do where that
        would become larger than 2 GB.
        """
        fbb = flatbuffers.Builder(1024)
        parts = [self, *self.functions]
        operators = [operator for part in parts for operator in part.operators]
        codes = list(dict.fromkeys((o.code, o.version, o.custom_code) for o in operators))
        # Tensors that share an array share a buffer.
        shared = {id(t.data): t.data for part in parts for t in part.tensors if t.data is not None}
        numbers = {key: number for number, key in enumerate(shared, start=1)}
        subgraph_list = [part._write_subgraph(fbb, codes, numbers) for part in parts]
        code_vector = _table_vector(fbb, [_write_code(fbb, *code) for code in codes])
        constants = list(shared.values())
        infos = [np.frombuffer(data, np.uint8) for data in self.metadata.values()]
        buffers = _table_vector(
            fbb, [_write_buffer(fbb, data, outside) for data in [None, *constants, *infos]]
        )
        others = [self._write_subgraph(fbb, codes, numbers) for _ in range(self.extra_subgraphs)]
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

    def remove_unused(self) -> None:
        """Remove the tensors that no operator, border or signature refers to."""
        used = {*self.input_indices, *self.output_indices}
        used |= {i for o in self.operators for i in (*o.inputs, *o.outputs) if i >= 0}
        own = [entry for entry in self.signatures if entry[1] == 0]
        used |= {i for entry in own for names in entry[2:] for i in names.values()}
        places = {old: new for new, old in enumerate(sorted(used))}
        self.tensors = [self.tensors[index] for index in sorted(used)]
        self.input_indices = [places[i] for i in self.input_indices]
        self.output_indices = [places[i] for i in self.output_indices]
        for operator in self.operators:
            operator.inputs = tuple(places.get(i, -1) for i in operator.inputs)
            operator.outputs = tuple(places[i] for i in operator.outputs)
        for entry in own:
            for names in entry[2:]:
                names.update({name: places[i] for name, i in names.items()})
        self._indices = {}

    def _index(self, name: str) -> int:
        try:
            return self._indices[name]
        except KeyError:
            raise KeyError(f"no tensor {name!r} was declared") from None

    def _write_subgraph(
        self,
        fbb: flatbuffers.Builder,
        codes: list[tuple[str, int, str]],
        numbers: Mapping[int, int],
    ) -> int:
        """Write the subgraph; ``numbers`` are those of buffers by the identity of their arrays."""
        tensors = [
            _write_tensor(fbb, tensor, 0 if tensor.data is None else numbers[id(tensor.data)])
            for tensor in self.tensors
        ]
        tensor_vector = _table_vector(fbb, tensors)
        operator_vector = _table_vector(
            fbb,
            [
                _write_operator(fbb, o, codes.index((o.code, o.version, o.custom_code)))
                for o in self.operators
            ],
        )
        inputs = _int_vector(fbb, self.input_indices)
        outputs = _int_vector(fbb, self.output_indices)
        name = fbb.CreateString(self.name)
        tflite.SubGraphStart(fbb)
        tflite.SubGraphAddTensors(fbb, tensor_vector)
        tflite.SubGraphAddInputs(fbb, inputs)
        tflite.SubGraphAddOutputs(fbb, outputs)
        tflite.SubGraphAddOperators(fbb, operator_vector)
        tflite.SubGraphAddName(fbb, name)
        return int(tflite.SubGraphEnd(fbb))


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


def _write_tensor(fbb: flatbuffers.Builder, tensor: FileTensor, buffer: int) -> int:
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
    tflite.TensorAddType(fbb, TYPES[tensor.dtype])
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
    if tensor.has_rank:
        tflite.TensorAddHasRank(fbb, True)
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


def _write_options(fbb: flatbuffers.Builder, operator: FileOperator) -> tuple[int, int | None]:
    """Type and offset of the operator's option table; 0 and None for operators without one."""
    table = options_table(operator.code)
    if not table:
        return 0, None
    values: dict[str, Any] = {}
    for attr, value in operator.attrs.items():
        if attr == "activation":
            value = _ACTIVATIONS[value]
        elif attr == "dtype":
            value = TYPES[value]
        elif attr == "padding":
            value = _PADDINGS[value]
        elif attr == "mode":
            value = _MIRRORS[value]
        elif isinstance(value, str):
            value = fbb.CreateString(value)
        elif isinstance(value, Sequence):
            is_float = any(isinstance(each, float) for each in value)
            value = _int_vector(fbb, value, "float32" if is_float else "int32")
        values[option_field(table, attr)] = value
    for attr in ("stride_h", "stride_w", "depth_multiplier", "beta"):
        # Zero by the schema's default, which no kernel takes.
        if name := option_field(table, attr):
            values.setdefault(name, 1)
    getattr(tflite, f"{table}Start")(fbb)
    for name, value in values.items():
        getattr(tflite, f"{table}Add{name}")(fbb, value)
    offset = getattr(tflite, f"{table}End")(fbb)
    return getattr(tflite.BuiltinOptions, table), int(offset)


def _copy_options(fbb: flatbuffers.Builder, table: str, source: Any) -> tuple[int, int]:
    """Type and offset of a copy of an option table; ``source`` is the generated class's view."""
    prefix = f"{table}Add"
    values: dict[str, Any] = {}
    for name in (n.removeprefix(prefix) for n in vars(tflite) if n.startswith(prefix)):
        if hasattr(source, f"{name}AsNumpy"):
            if not getattr(source, f"{name}IsNone")():
                values[name] = fbb.CreateNumpyVector(getattr(source, f"{name}AsNumpy")())
        elif isinstance(value := getattr(source, name)(), bytes):
            values[name] = fbb.CreateString(value)
        elif value is not None:
            values[name] = value
    getattr(tflite, f"{table}Start")(fbb)
    for name, value in values.items():
        getattr(tflite, f"{prefix}{name}")(fbb, value)
    return getattr(tflite.BuiltinOptions, table), int(getattr(tflite, f"{table}End")(fbb))


def _write_operator(fbb: flatbuffers.Builder, operator: FileOperator, code_index: int) -> int:
    options_type, options = (
        _write_options(fbb, operator)
        if operator.options is None
        else _copy_options(fbb, *operator.options)
    )
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
