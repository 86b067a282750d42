"""What the importer knows of the TFLite schema: tables, operators and their options.

Values are read through the generated classes of the package ``tflite``; the slots below only serve
the check of the file's structure before that (:mod:`hilc.frontends.tflite.flatbuffer`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import tflite

from hilc.errors import InputError, ModelError, UnsupportedError
from hilc.frontends.tflite.flatbuffer import ANY_TABLE, STRING, Table, Vector

_QUANTIZATION = Table(
    "quantization",
    {2: ("scale", Vector(4)), 3: ("zero_point", Vector(8)), 6: ("quantized_dimension", 4)},
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
        6: ("sparsity", ANY_TABLE),
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
_BUFFER = Table("buffer", {0: ("data", Vector(1)), 1: ("offset", 8), 2: ("size", 8)})
MODEL = Table(
    "model",
    {
        0: ("version", 4),
        1: ("operator_codes", Vector(_OPERATOR_CODE)),
        2: ("subgraphs", Vector(_SUBGRAPH)),
        4: ("buffers", Vector(_BUFFER)),
    },
)


def _names_by_value(enum: type) -> dict[int, str]:
    return {value: name for name, value in vars(enum).items() if isinstance(value, int)}


OPERATOR_NAMES = _names_by_value(tflite.BuiltinOperator)
TYPE_NAMES = _names_by_value(tflite.TensorType)
_OPTIONS_NAMES = _names_by_value(tflite.BuiltinOptions)
_ACTIVATION_NAMES = _names_by_value(tflite.ActivationFunctionType)
_PADDING_NAMES = _names_by_value(tflite.Padding)
_ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")

#: Reads one attribute from an option table of the generated classes.
_Read = Callable[[Any], Any]


def _value(accessor: str) -> _Read:
    return lambda options: getattr(options, accessor)()


def _positive(accessor: str) -> _Read:
    def read(options: Any) -> int:
        value = int(getattr(options, accessor)())
        if value < 1:
            raise ModelError(f"its {accessor} is {value}; it must be at least 1")
        return value

    return read


def _integers(accessor: str) -> _Read:
    """The vector as a tuple; None when the file has none."""

    def read(options: Any) -> tuple[int, ...] | None:
        if getattr(options, f"{accessor}IsNone")():
            return None
        return tuple(getattr(options, f"{accessor}AsNumpy")().tolist())

    return read


def _squeeze_dims(options: Any) -> tuple[int, ...]:
    dims: tuple[int, ...] | None = _integers("SqueezeDims")(options)
    return dims or ()


def _activation(options: Any) -> str:
    code = options.FusedActivationFunction()
    name = _ACTIVATION_NAMES.get(code, f"number {code}")
    if name not in _ACTIVATIONS:
        raise UnsupportedError(
            f"its fused activation {name} is not supported",
            f"supported are {', '.join(_ACTIVATIONS)}",
        )
    return name


def _padding(options: Any) -> str:
    code = options.Padding()
    if code not in _PADDING_NAMES:
        raise ModelError(f"its padding has the unknown code {code}")
    return _PADDING_NAMES[code]


def _absent(accessor: str, what: str) -> _Read:
    """For an option that must keep its default, because the compiler does not implement it."""

    def read(options: Any) -> None:
        if getattr(options, accessor)():
            raise UnsupportedError(
                f"its option {what} is not supported", "export the model without that option"
            )

    return read


@dataclass(frozen=True)
class Operator:
    """How an operator is read."""

    #: The least and the largest number of inputs; those above the least are optional.
    inputs: tuple[int, int]
    #: Option table in the schema; empty where the attributes are none.
    options: str = ""
    attrs: Mapping[str, _Read] = field(default_factory=dict)
    #: Checked, but no attribute of ours.
    checks: tuple[_Read, ...] = ()
    #: Its name in :data:`hilc.ops.OPS`; empty where that is the schema's.
    op: str = ""
    #: Attributes from the options of a custom operator, whose bytes mean what its author says.
    read_custom: Callable[[bytes], Mapping[str, Any]] | None = None
    #: Only where every operand is a constant, or its shape is all that matters.
    at_compile_time: bool = False

    def read_attrs(self, operator: Any) -> dict[str, Any]:
        """The attributes of an operator of the file; absent fields have the schema's defaults."""
        if self.read_custom is not None:
            none = operator.CustomOptionsIsNone()
            return dict(
                self.read_custom(b"" if none else operator.CustomOptionsAsNumpy().tobytes())
            )
        if not self.options:
            return {}
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
            for check in self.checks:
                check(table)
            return {name: read(table) for name, read in self.attrs.items()}
        except (struct.error, ValueError):
            # A field of the union, which the check of the structure does not know, ends outside.
            raise ModelError("the file is damaged: its options reach beyond the file") from None


_computed = partial(Operator, at_compile_time=True)

# A table without fields: a vtable of two half words, then the table, which is its way back to it.
_NO_FIELDS = struct.pack("<HHi", 4, 4, 4)
_NO_FIELDS_START = 4

_MANY = 1 << 16

_CONV: Mapping[str, _Read] = {
    "stride_h": _positive("StrideH"),
    "stride_w": _positive("StrideW"),
    "dilation_h": _positive("DilationHFactor"),
    "dilation_w": _positive("DilationWFactor"),
    "padding": _padding,
    "activation": _activation,
}
_POOL = Operator(
    (1, 1),
    "Pool2DOptions",
    {
        "filter_h": _positive("FilterHeight"),
        "filter_w": _positive("FilterWidth"),
        "stride_h": _positive("StrideH"),
        "stride_w": _positive("StrideW"),
        "padding": _padding,
        "activation": _activation,
    },
)
_ACTIVATED: Mapping[str, _Read] = {"activation": _activation}

_OPERATORS: dict[str, Operator] = {
    "CONV_2D": Operator((2, 3), "Conv2DOptions", _CONV),
    "DEPTHWISE_CONV_2D": Operator(
        (2, 3), "DepthwiseConv2DOptions", {**_CONV, "depth_multiplier": _value("DepthMultiplier")}
    ),
    "FULLY_CONNECTED": Operator(
        (2, 3),
        "FullyConnectedOptions",
        {**_ACTIVATED, "keep_num_dims": _value("KeepNumDims")},
        (_absent("WeightsFormat", "weights_format (shuffled weights)"),),
    ),
    "AVERAGE_POOL_2D": _POOL,
    "MAX_POOL_2D": _POOL,
    "RESHAPE": Operator((1, 2), "ReshapeOptions", {"new_shape": _integers("NewShape")}),
    "SQUEEZE": Operator((1, 1), "SqueezeOptions", {"squeeze_dims": _squeeze_dims}),
    "EXPAND_DIMS": Operator((2, 2)),
    "SOFTMAX": Operator((1, 1), "SoftmaxOptions", {"beta": _value("Beta")}),
    "ADD": Operator((2, 2), "AddOptions", _ACTIVATED),
    "SUB": Operator((2, 2), "SubOptions", _ACTIVATED),
    "MUL": Operator((2, 2), "MulOptions", _ACTIVATED),
    "PAD": Operator((2, 2)),
    "MEAN": Operator((2, 2), "ReducerOptions", {"keep_dims": _value("KeepDims")}),
    "CONCATENATION": Operator(
        (1, _MANY), "ConcatenationOptions", {"axis": _value("Axis"), **_ACTIVATED}
    ),
    "RELU": Operator((1, 1)),
    "RELU6": Operator((1, 1)),
    "LOGISTIC": Operator((1, 1)),
    "TANH": Operator((1, 1)),
    "HARD_SWISH": Operator((1, 1)),
    "LEAKY_RELU": Operator((1, 1), "LeakyReluOptions", {"alpha": _value("Alpha")}),
    "QUANTIZE": Operator((1, 1)),
    "DEQUANTIZE": Operator((1, 1)),
    "TRANSPOSE": Operator((2, 2)),
    "STRIDED_SLICE": Operator(
        (4, 4),
        "StridedSliceOptions",
        {
            "begin_mask": _value("BeginMask"),
            "end_mask": _value("EndMask"),
            "ellipsis_mask": _value("EllipsisMask"),
            "new_axis_mask": _value("NewAxisMask"),
            "shrink_axis_mask": _value("ShrinkAxisMask"),
        },
        (_absent("Offset", "offset (ends relative to begins)"),),
    ),
    "SPLIT": Operator((2, 2), "SplitOptions", {"num_splits": _value("NumSplits")}),
    "PACK": Operator(
        (1, _MANY), "PackOptions", {"axis": _value("Axis"), "values_count": _value("ValuesCount")}
    ),
    # Computed by hilc.transforms.shapes.
    "SHAPE": _computed((1, 1)),
    "RANK": _computed((1, 1)),
    "GATHER": _computed(
        (2, 2), "GatherOptions", {"axis": _value("Axis"), "batch_dims": _value("BatchDims")}
    ),
    "SLICE": _computed((3, 3)),
    "CAST": _computed((1, 1)),
    "REDUCE_PROD": _computed((2, 2), "ReducerOptions", {"keep_dims": _value("KeepDims")}),
    "RANGE": _computed((3, 3)),
    "FILL": _computed((2, 2)),
    "FLOOR_DIV": _computed((2, 2)),
    "MINIMUM": _computed((2, 2)),
    "MAXIMUM": _computed((2, 2)),
}

#: Every operator that can be imported, by the schema's name; custom ones by :func:`custom_name`.
OPERATORS: Mapping[str, Operator] = MappingProxyType(_OPERATORS)


def custom_name(code: str) -> str:
    """What messages and :data:`OPERATORS` call the custom operator with this code."""
    return f"CUSTOM {code!r}"


def register_custom(code: str, operator: Operator) -> None:
    """Read custom operators with ``code`` as ``operator`` says.

    Its :attr:`Operator.op` must be in :data:`hilc.ops.OPS` when a model is read.
    :class:`~hilc.errors.InputError` where the code is taken.
    """
    name = custom_name(code)
    if name in _OPERATORS:
        raise InputError(f"custom operator {code!r} is registered already", "register it once")
    _OPERATORS[name] = operator


def supported_operators() -> str:
    """The operators that can be imported, for messages."""
    run, computed = (
        ", ".join(name for name, row in OPERATORS.items() if row.at_compile_time == when)
        for when in (False, True)
    )
    return f"{run}; of constants and shapes {computed}"
