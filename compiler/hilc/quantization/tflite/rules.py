"""Quantization of TFLite's operators: the rules of its integer kernels, one row per operator.

They are those of TFLite's quantization specification: int8 activations have a zero point, weights
none; int16 activations (16x8) have none either, and biases of 64 bits. Each form here is computed
by TensorFlow Lite Micro.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: A scale and a zero point, by the type of activations.
Fixed = Mapping[str, tuple[float, int]]


@dataclass(frozen=True)
class Weights:
    """Positions of the operands of a layer with constant weights."""

    #: Axis of the weights along which the output channels lie.
    axis: int
    image: int = 0
    weights: int = 1
    bias: int = 2


@dataclass(frozen=True)
class Rule:
    """Quantized form of an operator with float32 operands; others (indices, shapes) stay."""

    #: Version of the operator in TFLite's registry by the type of activations; types without an
    #: entry have no kernel.
    versions: Mapping[str, int]
    #: Whether all float operands and results have one quantization.
    shared: bool = False
    #: Whether it only copies elements, so that nothing is gained between float layers.
    copies: bool = False
    #: Whether a constant operand only limits the other one: it has no effect beyond the range of
    #: the results.
    limits: bool = False
    #: The only quantization of its results that the kernels compute; empty for any.
    fixed: Fixed = field(default_factory=dict)
    weights: Weights | None = None


def _versions(int8: int, int16: int = 0) -> Mapping[str, int]:
    return {"int8": int8, "int16": int16} if int16 else {"int8": int8}


def _linear(axis: int, int8: int, int16: int, **positions: int) -> Rule:
    return Rule(_versions(int8, int16), weights=Weights(axis, **positions))


def _copying(int8: int, int16: int = 0) -> Rule:
    return Rule(_versions(int8, int16), shared=True, copies=True)


def _shared(int8: int, int16: int = 0) -> Rule:
    return Rule(_versions(int8, int16), shared=True)


def _free(int8: int, int16: int = 0) -> Rule:
    return Rule(_versions(int8, int16))


def _fixed(int8: tuple[int, float, int], int16: tuple[int, float, int] | None = None) -> Rule:
    """Return the rule of a function whose results have one scale and zero point by type."""
    rows = {"int8": int8} if int16 is None else {"int8": int8, "int16": int16}
    return Rule(
        {kind: row[0] for kind, row in rows.items()},
        fixed={kind: (row[1], row[2]) for kind, row in rows.items()},
    )


#: The rules by TFLite's operator.
RULES: Mapping[str, Rule] = {
    "ABS": _free(2, 3),
    "ADD": _free(2, 3),
    "ARG_MAX": _free(2),
    "ARG_MIN": _free(2),
    "AVERAGE_POOL_2D": _shared(2, 3),
    "BATCH_MATMUL": _free(2, 3),
    "BATCH_TO_SPACE_ND": _copying(2),
    "BROADCAST_TO": _copying(3, 3),
    "CONCATENATION": _copying(2, 3),
    "CONV_2D": _linear(0, 3, 4),
    "DEPTHWISE_CONV_2D": _linear(3, 3, 5),
    "DEPTH_TO_SPACE": _copying(2),
    "DYNAMIC_UPDATE_SLICE": _copying(1, 1),
    "ELU": _free(1),
    "EMBEDDING_LOOKUP": _copying(2),
    "EXPAND_DIMS": _copying(1, 1),
    "FULLY_CONNECTED": _linear(0, 4, 7),
    "GATHER": _copying(2),
    "GATHER_ND": _copying(1),
    "GELU": _free(2),
    "HARD_SWISH": _free(1),
    "L2_NORMALIZATION": _fixed((2, 1 / 128, 0)),
    "LEAKY_RELU": _free(2, 2),
    "LOGISTIC": _fixed((2, 1 / 256, -128), (3, 1 / 32768, 0)),
    "LOG_SOFTMAX": _fixed((2, 16 / 256, 127)),
    "MAXIMUM": Rule(_versions(2, 4), shared=True, limits=True),
    "MAX_POOL_2D": _shared(2, 3),
    "MEAN": _free(2, 3),
    "MINIMUM": Rule(_versions(2, 4), shared=True, limits=True),
    "MIRROR_PAD": _copying(2),
    "MUL": _free(2, 4),
    "PACK": _copying(2, 3),
    "PAD": _copying(2, 3),
    "PADV2": _copying(2, 3),
    "PRELU": _free(1),
    "REDUCE_MAX": _shared(2),
    "REDUCE_MIN": _shared(2),
    "RELU": _free(2, 3),
    "RELU6": _shared(2, 3),
    "RELU_0_TO_1": _free(1),
    "RELU_N1_TO_1": _free(1),
    "RESHAPE": _copying(1, 1),
    "RESIZE_BILINEAR": _shared(2),
    "RESIZE_NEAREST_NEIGHBOR": _copying(2, 4),
    "REVERSE_V2": _copying(3, 3),
    "SELECT": _copying(2, 2),
    "SELECT_V2": _copying(1, 1),
    "SLICE": _copying(2, 4),
    "SOFTMAX": _fixed((2, 1 / 256, -128), (3, 1 / 32768, 0)),
    "SPACE_TO_BATCH_ND": _copying(2),
    "SPACE_TO_DEPTH": _copying(2),
    "SPLIT": _copying(2, 4),
    "SPLIT_V": _copying(2, 2),
    "SQUARED_DIFFERENCE": _free(2, 2),
    "SQUEEZE": _copying(1, 1),
    "STRIDED_SLICE": _copying(2, 4),
    "SUB": _free(2, 5),
    "SUM": _free(2, 2),
    "TANH": _fixed((2, 1 / 128, 0), (3, 1 / 32768, 0)),
    "TILE": _copying(1),
    "TRANSPOSE": _copying(2, 5),
    "TRANSPOSE_CONV": _linear(0, 3, 3, image=2, weights=1, bias=3),
    "UNPACK": _copying(2, 4),
}
