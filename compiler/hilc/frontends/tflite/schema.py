"""TFLite schema of the importer: tables, operators and their options.

Values are read through the generated classes of the package ``tflite``; the slots below only serve
the check of the file's structure before that (:mod:`hilc.frontends.tflite.flatbuffer`).
"""

from __future__ import annotations

import reprlib
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from types import MappingProxyType
from typing import Any, TypeVar

import tflite
from flatbuffers import flexbuffers

from hilc.errors import InputError, ModelError, UnsupportedError
from hilc.frontends.tflite.flatbuffer import ANY_TABLE, STRING, Table, Vector
from hilc.ir import Attributes, Node, Tensor
from hilc.ops.accumulate import CumsumAttributes
from hilc.ops.attributes import (
    Activation,
    ActivationAttributes,
    ConvolutionAttributes,
    Padding,
    ReductionAttributes,
    accepts,
    describe_type,
    field_types,
)
from hilc.ops.batch_matmul import BatchMatmulAttributes
from hilc.ops.bucketize import BucketizeAttributes
from hilc.ops.concat_split import (
    ConcatenationAttributes,
    PackAttributes,
    SplitAttributes,
    UnpackAttributes,
)
from hilc.ops.conv3d import Conv3DAttributes
from hilc.ops.data_movement import StridedSliceAttributes
from hilc.ops.depthwise_conv2d import DepthwiseConv2DAttributes
from hilc.ops.detection import DetectionAttributes
from hilc.ops.filter_bank import FilterBankAttributes, LogAttributes, PcanAttributes
from hilc.ops.fully_connected import FullyConnectedAttributes
from hilc.ops.functions import GeluAttributes
from hilc.ops.gather import GatherAttributes, OneHotAttributes
from hilc.ops.lstm import LstmAttributes
from hilc.ops.pooling import PoolingAttributes
from hilc.ops.rearrange import BlockAttributes, DepthToSpaceAttributes, MirrorPadAttributes
from hilc.ops.resize import ResizeAttributes
from hilc.ops.softmax import SoftmaxAttributes
from hilc.ops.spectrum import EnergyAttributes, FourierAttributes, WindowedAttributes
from hilc.ops.streams import (
    CircularBufferAttributes,
    DelayAttributes,
    FramerAttributes,
    Memory,
    OverlapAddAttributes,
    StackerAttributes,
    SubtractionAttributes,
    buffer_memory,
    delay_memory,
    framer_memory,
    overlap_memory,
    stacker_memory,
    subtraction_memory,
)
from hilc.ops.svdf import SvdfAttributes
from hilc.ops.transpose_conv import TransposeConvAttributes
from hilc.ops.unary import LeakyReluAttributes
from hilc.ops.views import ReshapeAttributes, SqueezeAttributes

_QUANTIZATION = Table(
    "quantization",
    {2: ("scale", Vector(4)), 3: ("zero_point", Vector(8)), 6: ("quantized_dimension", 4)},
)
_SPARSE_AXIS = Table(
    "sparse axis",
    {
        0: ("format", 1),
        1: ("dense_size", 4),
        2: ("array_segments_type", 1),
        3: ("array_segments", ANY_TABLE),
        4: ("array_indices_type", 1),
        5: ("array_indices", ANY_TABLE),
    },
)
_SPARSITY = Table(
    "sparsity",
    {
        0: ("traversal_order", Vector(4)),
        1: ("block_map", Vector(4)),
        2: ("dim_metadata", Vector(_SPARSE_AXIS)),
    },
)
_TENSOR = Table(
    "tensor",
    {
        0: ("shape", Vector(4)),
        1: ("type", 1),
        2: ("buffer", 4),
        3: ("name", STRING),
        4: ("quantization", _QUANTIZATION),
        5: ("is_variable", 1),
        6: ("sparsity", _SPARSITY),
        7: ("shape_signature", Vector(4)),
        8: ("has_rank", 1),
    },
)
_OPERATOR = Table(
    "operator",
    {
        0: ("opcode_index", 4),
        1: ("inputs", Vector(4)),
        2: ("outputs", Vector(4)),
        3: ("builtin_options_type", 1),
        4: ("builtin_options", ANY_TABLE),
        5: ("custom_options", STRING),
    },
)
_SUBGRAPH = Table(
    "subgraph",
    {
        0: ("tensors", Vector(_TENSOR)),
        1: ("inputs", Vector(4)),
        2: ("outputs", Vector(4)),
        3: ("operators", Vector(_OPERATOR)),
    },
)
_OPERATOR_CODE = Table(
    "operator_code",
    {0: ("deprecated_builtin_code", 1), 1: ("custom_code", STRING), 3: ("builtin_code", 4)},
)
_TENSOR_NAMES = Vector(Table("tensor_map", {0: ("name", STRING), 1: ("tensor_index", 4)}))
_SIGNATURE = Table(
    "signature",
    {
        0: ("inputs", _TENSOR_NAMES),
        1: ("outputs", _TENSOR_NAMES),
        2: ("signature_key", STRING),
        4: ("subgraph_index", 4),
    },
)
_BUFFER = Table("buffer", {0: ("data", Vector(1)), 1: ("offset", 8), 2: ("size", 8)})
MODEL = Table(
    "model",
    {
        0: ("version", 4),
        1: ("operator_codes", Vector(_OPERATOR_CODE)),
        2: ("subgraphs", Vector(_SUBGRAPH)),
        4: ("buffers", Vector(_BUFFER)),
        7: ("signature_defs", Vector(_SIGNATURE)),
    },
)


def _names_by_value(enum: type) -> dict[int, str]:
    return {value: name for name, value in vars(enum).items() if isinstance(value, int)}


OPERATOR_NAMES = _names_by_value(tflite.BuiltinOperator)
TYPE_NAMES = _names_by_value(tflite.TensorType)
_OPTIONS_NAMES = _names_by_value(tflite.BuiltinOptions)
_ACTIVATION_NAMES = _names_by_value(tflite.ActivationFunctionType)
_ACTIVATIONS: Mapping[int, Activation] = {
    tflite.ActivationFunctionType.NONE: "NONE",
    tflite.ActivationFunctionType.RELU: "RELU",
    tflite.ActivationFunctionType.RELU6: "RELU6",
    tflite.ActivationFunctionType.RELU_N1_TO_1: "RELU_N1_TO_1",
}
_PADDINGS: Mapping[int, Padding] = {tflite.Padding.SAME: "SAME", tflite.Padding.VALID: "VALID"}

# What follows reads from an option table of the generated classes.


def _positive(options: Any, accessor: str) -> int:
    value = int(getattr(options, accessor)())
    if value < 1:
        raise ModelError(f"its {accessor} is {value}; it must be at least 1")
    return value


def _integers(options: Any, accessor: str) -> tuple[int, ...] | None:
    """Return the vector as a tuple; None when the file has none."""
    if getattr(options, f"{accessor}IsNone")():
        return None
    return tuple(getattr(options, f"{accessor}AsNumpy")().tolist())


def _activation(options: Any) -> Activation:
    code = options.FusedActivationFunction()
    if code not in _ACTIVATIONS:
        raise UnsupportedError(
            f"its fused activation {_ACTIVATION_NAMES.get(code, f'number {code}')} is not "
            "supported",
            f"supported are {', '.join(_ACTIVATIONS.values())}",
        )
    return _ACTIVATIONS[code]


def _padding(options: Any) -> Padding:
    code = options.Padding()
    if code not in _PADDINGS:
        raise ModelError(f"its padding has the unknown code {code}")
    return _PADDINGS[code]


def _refuse(options: Any, accessor: str, what: str) -> None:
    """For an option that must keep its default, because the compiler does not implement it."""
    if getattr(options, accessor)():
        raise UnsupportedError(
            f"its option {what} is not supported", "export the model without that option"
        )


def _conv_2d(options: Any) -> ConvolutionAttributes:
    return ConvolutionAttributes(
        stride_h=_positive(options, "StrideH"),
        stride_w=_positive(options, "StrideW"),
        dilation_h=_positive(options, "DilationHFactor"),
        dilation_w=_positive(options, "DilationWFactor"),
        padding=_padding(options),
        activation=_activation(options),
    )


def _conv_3d(options: Any) -> Conv3DAttributes:
    return Conv3DAttributes(
        stride_d=_positive(options, "StrideD"),
        stride_h=_positive(options, "StrideH"),
        stride_w=_positive(options, "StrideW"),
        dilation_d=_positive(options, "DilationDFactor"),
        dilation_h=_positive(options, "DilationHFactor"),
        dilation_w=_positive(options, "DilationWFactor"),
        padding="SAME" if _padding(options) == "SAME" else "VALID",
        activation=_activation(options),
    )


def _bucketize(options: Any) -> BucketizeAttributes:
    none = options.BoundariesIsNone()
    return BucketizeAttributes(
        boundaries=() if none else tuple(options.BoundariesAsNumpy().tolist())
    )


def _depthwise_conv_2d(options: Any) -> DepthwiseConv2DAttributes:
    shared = vars(_conv_2d(options))
    return DepthwiseConv2DAttributes(**shared, depth_multiplier=options.DepthMultiplier())


def _transpose_conv(options: Any) -> TransposeConvAttributes:
    return TransposeConvAttributes(
        stride_h=_positive(options, "StrideH"),
        stride_w=_positive(options, "StrideW"),
        padding=_padding(options),
        activation=_activation(options),
    )


def _fully_connected(options: Any) -> FullyConnectedAttributes:
    _refuse(options, "WeightsFormat", "weights_format (shuffled weights)")
    return FullyConnectedAttributes(
        activation=_activation(options), keep_num_dims=options.KeepNumDims()
    )


def _pooling(options: Any) -> PoolingAttributes:
    return PoolingAttributes(
        filter_h=_positive(options, "FilterHeight"),
        filter_w=_positive(options, "FilterWidth"),
        stride_h=_positive(options, "StrideH"),
        stride_w=_positive(options, "StrideW"),
        padding=_padding(options),
        activation=_activation(options),
    )


def _activated(options: Any) -> ActivationAttributes:
    return ActivationAttributes(activation=_activation(options))


def _reduction(options: Any) -> ReductionAttributes:
    return ReductionAttributes(keep_dims=options.KeepDims())


def _resize(options: Any) -> ResizeAttributes:
    return ResizeAttributes(
        align_corners=options.AlignCorners(), half_pixel_centers=options.HalfPixelCenters()
    )


def _without_activation(options: Any) -> None:
    if (activation := _activation(options)) != "NONE":
        raise UnsupportedError(
            f"its fused activation {activation} is not supported",
            "put the activation behind it as an operator of its own",
        )


def _concatenation(options: Any) -> ConcatenationAttributes:
    _without_activation(options)
    return ConcatenationAttributes(axis=options.Axis())


def _cumsum(options: Any) -> CumsumAttributes:
    return CumsumAttributes(exclusive=options.Exclusive(), reverse=options.Reverse())


def _l2_normalization(options: Any) -> Attributes:
    _without_activation(options)
    return Attributes()


def _strided_slice(options: Any) -> StridedSliceAttributes:
    _refuse(options, "Offset", "offset (ends relative to begins)")
    return StridedSliceAttributes(
        begin_mask=options.BeginMask(),
        end_mask=options.EndMask(),
        ellipsis_mask=options.EllipsisMask(),
        new_axis_mask=options.NewAxisMask(),
        shrink_axis_mask=options.ShrinkAxisMask(),
    )


def _svdf(options: Any) -> SvdfAttributes:
    return SvdfAttributes(rank=_positive(options, "Rank"), activation=_activation(options))


def _lstm(options: Any) -> LstmAttributes:
    code = options.FusedActivationFunction()
    if code != tflite.ActivationFunctionType.TANH:
        raise UnsupportedError(
            f"its activation {_ACTIVATION_NAMES.get(code, code)} is not supported", "use TANH"
        )
    return LstmAttributes(time_major=options.TimeMajor(), cell_clip=options.CellClip())


def _pack(options: Any) -> PackAttributes:
    return PackAttributes(axis=options.Axis(), values_count=options.ValuesCount())


def _unpack(options: Any) -> UnpackAttributes:
    return UnpackAttributes(axis=options.Axis(), num=options.Num())


def _split(options: Any) -> SplitAttributes:
    return SplitAttributes(num_splits=options.NumSplits())


def _block(options: Any) -> BlockAttributes:
    return BlockAttributes(block_size=_positive(options, "BlockSize"))


def _depth_to_space(options: Any) -> DepthToSpaceAttributes:
    return DepthToSpaceAttributes(block_size=_positive(options, "BlockSize"))


def _mirror_pad(options: Any) -> MirrorPadAttributes:
    symmetric = options.Mode() == tflite.MirrorPadMode.SYMMETRIC
    return MirrorPadAttributes(mode="SYMMETRIC" if symmetric else "REFLECT")


def _gather(options: Any) -> GatherAttributes:
    return GatherAttributes(axis=options.Axis(), batch_dims=options.BatchDims())


_T = TypeVar("_T")


@dataclass(frozen=True)
class Operator:
    """Description of how an operator is read."""

    #: Minimum and maximum number of inputs; those above the minimum are optional.
    inputs: tuple[int, int]
    #: Option table in the schema; empty where it has no field that is read.
    options: str = ""
    #: The attributes from that table, in the form of the generated classes.
    read: Callable[[Any], Attributes] | None = None
    #: Name in :data:`hilc.ops.OPS`; empty if it is the schema's.
    op: str = ""
    #: Read the attributes from the options of a custom operator, whose format its author defines.
    read_custom: Callable[[bytes], Attributes] | None = None
    #: The options that name the subgraphs which it calls: its attributes are these graphs.
    calls: tuple[str, ...] = ()
    #: Whether it operates on resource variables, which the reader resolves: it becomes no node.
    on_resources: bool = False
    #: The inputs that are variables, which it updates: for each the node has one more output, the
    #: new value.
    states: tuple[int, ...] = ()
    #: States without a variable in the file: the node's last inputs.
    memory: Callable[[Node, Sequence[Tensor | None]], Sequence[Memory]] | None = None
    #: The positions of the inputs that the node takes, in its order; the others must be absent.
    #: None for all of them as they are.
    supported_inputs: tuple[int, ...] | None = None

    def read_attributes(self, operator: Any) -> Attributes:
        """Return the attributes of an operator of the file; absent fields have the schema's
        defaults.
        """
        if self.read_custom is not None:
            none = operator.CustomOptionsIsNone()
            return self.read_custom(b"" if none else operator.CustomOptionsAsNumpy().tobytes())
        return Attributes() if self.read is None else self.read_options(operator, self.read)

    def read_options(self, operator: Any, read: Callable[[Any], _T]) -> _T:
        """Return the result of ``read`` for the option table of an operator of the file.

        Raise :class:`~hilc.errors.ModelError` for another table, or one that extends beyond the
        file.
        """
        table = getattr(tflite, self.options)()
        union = operator.BuiltinOptions()
        if union is None:
            table.Init(_NO_FIELDS, _NO_FIELDS_START)
        elif operator.BuiltinOptionsType() != getattr(tflite.BuiltinOptions, self.options):
            kind = operator.BuiltinOptionsType()
            raise ModelError(
                f"its options are {_OPTIONS_NAMES.get(kind, f'number {kind}')}, not {self.options}"
            )
        else:
            table.Init(union.Bytes, union.Pos)
        try:
            return read(table)
        except (struct.error, ValueError):
            # A field of the union, which the structure check does not know, ends outside of the
            # file.
            raise ModelError("the file is damaged: its options extend beyond the file") from None


def _flexbuffer(kind: type[Attributes]) -> Callable[[bytes], Attributes]:
    """Return a function that reads attributes of a class from a map of numbers by name."""

    types = field_types(kind)
    needed = [field.name for field in fields(kind) if field.default is MISSING]

    def read(options: bytes) -> Attributes:
        if not options and not needed:
            return kind()
        try:
            found = flexbuffers.Loads(options)
        except Exception as error:  # whatever the package raises for damaged bytes
            raise ModelError(f"its options are no FlexBuffer: {error}") from None
        given = found if isinstance(found, dict) else {}
        values = {name: given[name] for name in types if given.get(name) is not None}
        if missing := [name for name in needed if name not in values]:
            raise ModelError(f"its options lack {', '.join(missing)}")
        if given is not found:
            raise ModelError("its options are no map of values by their names")
        for name, value in values.items():
            if types[name] is bool and isinstance(value, int):
                # A FlexBuffer may hold a bool as a number.
                values[name] = bool(value)
            elif not accepts(types[name], value):
                raise ModelError(
                    f"its options have {name} = {reprlib.repr(value)} "
                    f"(accepted: {describe_type(types[name])})"
                )
        return kind(**values)

    return read


# Table without fields: a vtable of two half words, then the table, with its offset to the vtable.
_NO_FIELDS = struct.pack("<HHi", 4, 4, 4)
_NO_FIELDS_START = 4

_MANY = 1 << 16

_REDUCTION = Operator((2, 2), "ReducerOptions", _reduction)
_POOL = Operator((1, 1), "Pool2DOptions", _pooling)

_OPERATORS: dict[str, Operator] = {
    "CONV_2D": Operator((2, 3), "Conv2DOptions", _conv_2d),
    "CONV_3D": Operator((2, 3), "Conv3DOptions", _conv_3d),
    "DEPTHWISE_CONV_2D": Operator((2, 3), "DepthwiseConv2DOptions", _depthwise_conv_2d),
    "FULLY_CONNECTED": Operator((2, 3), "FullyConnectedOptions", _fully_connected),
    "TRANSPOSE_CONV": Operator((3, 4), "TransposeConvOptions", _transpose_conv),
    "BATCH_MATMUL": Operator(
        (2, 2),
        "BatchMatMulOptions",
        lambda o: BatchMatmulAttributes(adj_x=o.AdjX(), adj_y=o.AdjY()),
    ),
    "AVERAGE_POOL_2D": _POOL,
    "MAX_POOL_2D": _POOL,
    "L2_POOL_2D": _POOL,
    "RESIZE_BILINEAR": Operator((2, 2), "ResizeBilinearOptions", _resize),
    "RESIZE_NEAREST_NEIGHBOR": Operator((2, 2), "ResizeNearestNeighborOptions", _resize),
    "RESHAPE": Operator(
        (1, 2), "ReshapeOptions", lambda o: ReshapeAttributes(new_shape=_integers(o, "NewShape"))
    ),
    "SQUEEZE": Operator(
        (1, 1),
        "SqueezeOptions",
        lambda o: SqueezeAttributes(squeeze_dims=_integers(o, "SqueezeDims") or ()),
    ),
    "EXPAND_DIMS": Operator((2, 2)),
    "SOFTMAX": Operator((1, 1), "SoftmaxOptions", lambda o: SoftmaxAttributes(beta=o.Beta())),
    "ADD": Operator((2, 2), "AddOptions", _activated),
    "SUB": Operator((2, 2), "SubOptions", _activated),
    "MUL": Operator((2, 2), "MulOptions", _activated),
    "DIV": Operator((2, 2), "DivOptions", _activated),
    "EQUAL": Operator((2, 2)),
    "FLOOR_DIV": Operator((2, 2)),
    "FLOOR_MOD": Operator((2, 2)),
    "GREATER": Operator((2, 2)),
    "GREATER_EQUAL": Operator((2, 2)),
    "LESS": Operator((2, 2)),
    "LESS_EQUAL": Operator((2, 2)),
    "LOGICAL_AND": Operator((2, 2)),
    "LOGICAL_OR": Operator((2, 2)),
    "MAXIMUM": Operator((2, 2)),
    "MINIMUM": Operator((2, 2)),
    "NOT_EQUAL": Operator((2, 2)),
    "POW": Operator((2, 2)),
    "SELECT": Operator((3, 3)),
    "SELECT_V2": Operator((3, 3)),
    "SQUARED_DIFFERENCE": Operator((2, 2)),
    "PAD": Operator((2, 2)),
    "PADV2": Operator((3, 3)),
    "MIRROR_PAD": Operator((2, 2), "MirrorPadOptions", _mirror_pad),
    "MEAN": _REDUCTION,
    "SUM": _REDUCTION,
    "REDUCE_MAX": _REDUCTION,
    "REDUCE_MIN": _REDUCTION,
    "REDUCE_PROD": _REDUCTION,
    "REDUCE_ANY": _REDUCTION,
    "REDUCE_ALL": _REDUCTION,
    "ARG_MAX": Operator((2, 2)),
    "ARG_MIN": Operator((2, 2)),
    "DENSIFY": Operator((1, 1)),
    "CONCATENATION": Operator((1, _MANY), "ConcatenationOptions", _concatenation),
    "RELU": Operator((1, 1)),
    "RELU6": Operator((1, 1)),
    "RELU_0_TO_1": Operator((1, 1)),
    "RELU_N1_TO_1": Operator((1, 1)),
    "LOGISTIC": Operator((1, 1)),
    "TANH": Operator((1, 1)),
    "HARD_SWISH": Operator((1, 1)),
    "LEAKY_RELU": Operator(
        (1, 1), "LeakyReluOptions", lambda o: LeakyReluAttributes(alpha=o.Alpha())
    ),
    "ABS": Operator((1, 1)),
    "ADD_N": Operator((1, _MANY)),
    "BUCKETIZE": Operator((1, 1), "BucketizeOptions", _bucketize),
    "BROADCAST_TO": Operator((2, 2)),
    "CAST": Operator((1, 1)),
    "CUMSUM": Operator((2, 2), "CumsumOptions", _cumsum),
    "FILL": Operator((2, 2)),
    "L2_NORMALIZATION": Operator((1, 1), "L2NormOptions", _l2_normalization),
    "LOG_SOFTMAX": Operator((1, 1)),
    "PRELU": Operator((2, 2)),
    "CEIL": Operator((1, 1)),
    "COS": Operator((1, 1)),
    "ELU": Operator((1, 1)),
    "EXP": Operator((1, 1)),
    "FLOOR": Operator((1, 1)),
    "GELU": Operator((1, 1), "GeluOptions", lambda o: GeluAttributes(approximate=o.Approximate())),
    "LOG": Operator((1, 1)),
    "LOGICAL_NOT": Operator((1, 1)),
    "NEG": Operator((1, 1)),
    "ROUND": Operator((1, 1)),
    "RSQRT": Operator((1, 1)),
    "SIGN": Operator((1, 1)),
    "SIN": Operator((1, 1)),
    "SQRT": Operator((1, 1)),
    "SQUARE": Operator((1, 1)),
    "ZEROS_LIKE": Operator((1, 1)),
    "QUANTIZE": Operator((1, 1)),
    "DEQUANTIZE": Operator((1, 1)),
    "TRANSPOSE": Operator((2, 2)),
    "STRIDED_SLICE": Operator((4, 4), "StridedSliceOptions", _strided_slice),
    "SVDF": Operator((5, 5), "SVDFOptions", _svdf, states=(4,)),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Operator(
        (20, 24),
        "UnidirectionalSequenceLSTMOptions",
        _lstm,
        states=(18, 19),
        # No peepholes, no projection, no layer normalization, as in TFLite Micro.
        supported_inputs=(*range(9), *range(12, 16), 18, 19),
    ),
    "SLICE": Operator((3, 3)),
    "GATHER": Operator((2, 2), "GatherOptions", _gather),
    "GATHER_ND": Operator((2, 2)),
    "EMBEDDING_LOOKUP": Operator((2, 2)),
    "DYNAMIC_UPDATE_SLICE": Operator((3, 3)),
    "ONE_HOT": Operator((4, 4), "OneHotOptions", lambda o: OneHotAttributes(axis=o.Axis())),
    "REVERSE_V2": Operator((2, 2)),
    "TILE": Operator((2, 2)),
    "SPACE_TO_DEPTH": Operator((1, 1), "SpaceToDepthOptions", _block),
    "DEPTH_TO_SPACE": Operator((1, 1), "DepthToSpaceOptions", _depth_to_space),
    "SPACE_TO_BATCH_ND": Operator((3, 3)),
    "BATCH_TO_SPACE_ND": Operator((3, 3)),
    "SPLIT": Operator((2, 2), "SplitOptions", _split),
    "SPLIT_V": Operator((3, 3), "SplitVOptions", _split),
    "PACK": Operator((1, _MANY), "PackOptions", _pack),
    "UNPACK": Operator((1, 1), "UnpackOptions", _unpack),
    "IF": Operator((1, _MANY), "IfOptions", calls=("ThenSubgraphIndex", "ElseSubgraphIndex")),
    "WHILE": Operator((1, _MANY), "WhileOptions", calls=("CondSubgraphIndex", "BodySubgraphIndex")),
    "RFFT2D": Operator((2, 2)),
    "REAL": Operator((1, 1)),
    "IMAG": Operator((1, 1)),
    "COMPLEX_ABS": Operator((1, 1)),
    "VAR_HANDLE": Operator((0, 0), "VarHandleOptions", on_resources=True),
    "READ_VARIABLE": Operator((1, 1), on_resources=True),
    "ASSIGN_VARIABLE": Operator((2, 2), on_resources=True),
    "CALL_ONCE": Operator((0, 0), "CallOnceOptions", on_resources=True),
    # Evaluated by hilc.transforms.shapes.
    "SHAPE": Operator((1, 1)),
    "RANK": Operator((1, 1)),
    "RANGE": Operator((3, 3)),
    "BROADCAST_ARGS": Operator((2, 2)),
}


def _custom(
    op: str, inputs: int, attributes: type[Attributes] | None = None, **more: Any
) -> Operator:
    """Return the row of a custom operator whose options are a FlexBuffer."""
    read = None if attributes is None else _flexbuffer(attributes)
    return Operator((inputs, inputs), op=op, read_custom=read, **more)


_CUSTOM: Mapping[str, Operator] = {
    "SignalWindow": _custom("SIGNAL_WINDOW", 2, WindowedAttributes),
    "SignalRfft": _custom("SIGNAL_RFFT", 1, FourierAttributes),
    "SignalIrfft": _custom("SIGNAL_IRFFT", 1, FourierAttributes),
    "SignalFftAutoScale": _custom("SIGNAL_FFT_AUTO_SCALE", 1),
    "SignalEnergy": _custom("SIGNAL_ENERGY", 1, EnergyAttributes),
    "SignalFilterBank": _custom("SIGNAL_FILTER_BANK", 6, FilterBankAttributes),
    "SignalFilterBankSquareRoot": _custom("SIGNAL_FILTER_BANK_SQUARE_ROOT", 2),
    "SignalFilterBankLog": _custom("SIGNAL_FILTER_BANK_LOG", 1, LogAttributes),
    "SignalPCAN": _custom("SIGNAL_PCAN", 3, PcanAttributes),
    "SignalFilterBankSpectralSubtraction": _custom(
        "SIGNAL_FILTER_BANK_SPECTRAL_SUBTRACTION",
        1,
        SubtractionAttributes,
        memory=subtraction_memory,
    ),
    "SignalFramer": _custom("SIGNAL_FRAMER", 1, FramerAttributes, memory=framer_memory),
    "SignalOverlapAdd": _custom(
        "SIGNAL_OVERLAP_ADD", 1, OverlapAddAttributes, memory=overlap_memory
    ),
    "SignalDelay": _custom("SIGNAL_DELAY", 1, DelayAttributes, memory=delay_memory),
    "SignalStacker": _custom("SIGNAL_STACKER", 1, StackerAttributes, memory=stacker_memory),
    "CIRCULAR_BUFFER": _custom(
        "CIRCULAR_BUFFER", 1, CircularBufferAttributes, memory=buffer_memory
    ),
    "TFLM_DECODE": Operator((2, _MANY)),
    "TFLite_Detection_PostProcess": _custom("DETECTION_POSTPROCESS", 3, DetectionAttributes),
}

#: Operators that can be imported, by schema name; custom ones by :func:`custom_name`.
OPERATORS: Mapping[str, Operator] = MappingProxyType(_OPERATORS)


def custom_name(code: str) -> str:
    """Return the key of the custom operator with this code in :data:`OPERATORS`, also used in
    messages.
    """
    return f"CUSTOM {code!r}"


def is_custom(name: str) -> bool:
    """Return whether a key of :data:`OPERATORS` is that of a custom operator."""
    return name.startswith("CUSTOM ")


_OPERATORS.update({custom_name(code): row for code, row in _CUSTOM.items()})


def register_custom(code: str, operator: Operator) -> None:
    """Register ``operator`` for custom operators with ``code``.

    Its :attr:`Operator.op` must be in :data:`hilc.ops.OPS` when a model is read. Raise
    :class:`~hilc.errors.InputError` if the code is registered already.
    """
    name = custom_name(code)
    if name in _OPERATORS:
        raise InputError(f"custom operator {code!r} is registered already", "register it once")
    _OPERATORS[name] = operator
